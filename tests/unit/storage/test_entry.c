/* Entry headers: what is sealed is accepted, and any changed byte of what a checksum covers is
 * found, by the check that is meant to find it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "storage/batch.h"
#include "storage/entry.h"

enum {
    SIZE_MAX_USED = 4096,
};

static const uint64_t SALT = 0x1122334455667788u;

struct sealed {
    struct entry_header h;
    uint8_t bytes[SIZE_MAX_USED];
    size_t size;
};

static void seal_batch(struct sealed *s)
{
    struct batch_builder b;
    batch_builder_init(&b, SIZE_MAX_USED);
    for (int i = 0; i < 3; i++) {
        enum err e = batch_builder_add(&b,
                                       &(struct batch_record){
                                           .timestamp = 1000 + i,
                                           .key = slice_of_string("key"),
                                           .value = slice_of_string("value"),
                                       });
        cr_assert(eq(int, e, ERR_OK));
    }
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_USED);
    enum err e = batch_builder_finish(&b, CODEC_NONE, &(struct batch_identity){-1, -1, -1}, &w);
    cr_assert(eq(int, e, ERR_OK));
    batch_stamp(w.data, 70, 5);

    memset(s, 0, sizeof(*s));
    memcpy(s->bytes + sizeof(s->h), w.data, w.size);
    s->h = (struct entry_header){
        .payload_size = (uint32_t)w.size,
        .salt = SALT,
        .generation = 3,
        .type = ENTRY_DATA,
        .index = 9,
        .term = 5,
        .base_offset = 70,
        .next_offset = 73,
        .max_timestamp = 1002,
        .durable_index = 8,
        .durable_generation = 3,
        .previous_id = 77,
    };
    s->h.entry_id = entry_id_of(&s->h, s->bytes + sizeof(s->h));
    entry_seal(&s->h, s->bytes);
    s->size = sizeof(s->h) + w.size;
    batch_builder_done(&b);
    wbuf_done(&w);
}

static void seal_other(struct sealed *s, size_t payload_size)
{
    memset(s, 0, sizeof(*s));
    memset(s->bytes + sizeof(s->h), 0xa5, payload_size);
    s->h = (struct entry_header){
        .payload_size = (uint32_t)payload_size,
        .salt = SALT,
        .generation = 1,
        .type = ENTRY_CONTROLLER,
        .index = 1,
        .term = 1,
        .max_timestamp = -1,
        .durable_generation = 1,
    };
    s->h.entry_id = entry_id_of(&s->h, s->bytes + sizeof(s->h));
    entry_seal(&s->h, s->bytes);
    s->size = sizeof(s->h) + payload_size;
}

/* The checks in the order in which a reader makes them. */
static enum entry_fault check(const uint8_t *bytes, size_t size)
{
    struct entry_header h;
    memcpy(&h, bytes, sizeof(h));
    enum entry_fault fault = entry_check_fields(&h, SALT);
    if (fault != ENTRY_GOOD) {
        return fault;
    }
    if (sizeof(h) + h.payload_size > size || !entry_crc_matches(&h, bytes + sizeof(h))) {
        return ENTRY_FAULT_HEADER;
    }
    return entry_payload_matches(&h, slice_of(bytes + sizeof(h), h.payload_size))
               ? ENTRY_GOOD
               : ENTRY_FAULT_PAYLOAD;
}

Test(entry, what_is_sealed_is_good)
{
    struct sealed s;
    seal_batch(&s);
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_GOOD));
    seal_other(&s, 0);
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_GOOD));
    seal_other(&s, 300);
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_GOOD));
}

Test(entry, every_flipped_bit_is_found)
{
    struct sealed s;
    seal_batch(&s);
    for (size_t bit = 0; bit < s.size * 8; bit++) {
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(ne(int, check(s.bytes, s.size), ENTRY_GOOD), "bit=%zu", bit);
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    seal_other(&s, 100);
    for (size_t bit = 0; bit < s.size * 8; bit++) {
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_assert(ne(int, check(s.bytes, s.size), ENTRY_GOOD), "bit=%zu", bit);
        s.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

Test(entry, faults_are_told_apart)
{
    struct sealed s;
    seal_batch(&s);
    uint8_t zeros[sizeof(struct entry_header)] = {0};
    cr_assert(eq(int, check(zeros, sizeof(zeros)), ENTRY_FAULT_ZERO));

    s.bytes[offsetof(struct entry_header, salt)]++;
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_SALT));
    seal_batch(&s);
    s.bytes[offsetof(struct entry_header, index)]++;
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_HEADER));
    seal_batch(&s);
    s.bytes[s.size - 1]++;
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_PAYLOAD));
}

/* A recycled block's old batch passes Kafka's CRC, which leaves out base offset and epoch: the
 * header must not. */
Test(entry, the_header_covers_what_kafkas_crc_leaves_out)
{
    for (size_t i = 0; i < ENTRY_HEAD_SIZE; i++) {
        struct sealed s;
        seal_batch(&s);
        s.bytes[sizeof(struct entry_header) + i] ^= 0x10;
        cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_HEADER), "byte=%zu", i);
    }
}

/* Header and batch must name the same offsets, else a header could lie about a good batch. */
Test(entry, a_batch_of_other_offsets_is_refused)
{
    struct sealed s;
    seal_batch(&s);
    s.h.next_offset++;
    entry_seal(&s.h, s.bytes);
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_PAYLOAD));
    seal_batch(&s);
    s.h.base_offset--;
    entry_seal(&s.h, s.bytes);
    cr_assert(eq(int, check(s.bytes, s.size), ENTRY_FAULT_PAYLOAD));
}

Test(entry, the_id_depends_on_each_thing_it_names)
{
    struct sealed s;
    seal_batch(&s);
    const uint8_t *payload = s.bytes + sizeof(s.h);
    const uint64_t id = s.h.entry_id;
    struct entry_header h = s.h;
    h.index++;
    cr_assert(ne(u64, entry_id_of(&h, payload), id));
    h = s.h;
    h.term++;
    cr_assert(ne(u64, entry_id_of(&h, payload), id));
    h = s.h;
    h.base_offset++;
    cr_assert(ne(u64, entry_id_of(&h, payload), id));
    h = s.h;
    h.next_offset++;
    cr_assert(ne(u64, entry_id_of(&h, payload), id));
    /* ... and on nothing that differs between replicas. */
    h = s.h;
    h.salt++;
    h.generation++;
    h.durable_index--;
    cr_assert(eq(u64, entry_id_of(&h, payload), id));
}

Test(entry, a_header_never_crosses_a_block)
{
    static const struct {
        uint64_t pos;
        uint64_t place;
    } rows[] = {
        {4096, 4096},
        {4104, 4104},
        {8192 - 96, 8192 - 96},
        {8192 - 88, 8192},
        {8192 - 8, 8192},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(u64, entry_place(rows[i].pos), rows[i].place), "row=%zu", i);
    }
}
