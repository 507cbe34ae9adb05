/* Walking a segment's bytes, without a disk: what is the next entry, padding, the end, a fault, a
 * jump; and that a walk through windows of any size sees the same. Segment names and records. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "storage/segment_format.h"
#include "storage/segment_scan.h"

enum {
    FILE_SIZE = 256 << 10,
    ENTRIES_MAX = 512,
};

static const uint64_t SALT = 0xfeed;

struct segment_image {
    uint8_t *bytes;
    uint64_t pos; /* End of the last entry. */
    uint64_t index;
    uint64_t previous_id;
    uint32_t generation;
    uint64_t salt;
    uint64_t ends[ENTRIES_MAX]; /* By index. */
};

static void image_init(struct segment_image *m)
{
    *m = (struct segment_image){
        .bytes = calloc(1, FILE_SIZE),
        .pos = SEGMENT_HEADER_SIZE,
        .index = 1,
        .generation = 1,
        .salt = SALT,
    };
}

static void image_add(struct segment_image *m, size_t payload_size)
{
    uint64_t pos = entry_place(m->pos);
    uint8_t *out = m->bytes + pos;
    memset(m->bytes + m->pos, 0, pos - m->pos);
    memset(out + sizeof(struct entry_header) + payload_size, 0, ENTRY_ALIGN);
    memset(out + sizeof(struct entry_header), 0x5a, payload_size);
    struct entry_header h = {
        .payload_size = (uint32_t)payload_size,
        .salt = m->salt,
        .generation = m->generation,
        .type = ENTRY_CONTROLLER,
        .index = m->index,
        .term = 1,
        .max_timestamp = -1,
        .durable_index = m->index - 1,
        .durable_generation = m->generation,
        .previous_id = m->previous_id,
    };
    h.entry_id = entry_id_of(&h, out + sizeof(h));
    entry_seal(&h, out);
    m->pos = pos + entry_size((uint32_t)payload_size);
    cr_assert(lt(u64, m->index, ENTRIES_MAX));
    m->ends[m->index] = m->pos;
    m->index++;
    m->previous_id = h.entry_id;
}

/* Behind the last entry of a write stand zeros to the end of the block. */
static void image_end_write(struct segment_image *m)
{
    memset(m->bytes + m->pos, 0, block_align_up(m->pos) - m->pos);
    m->pos = block_align_up(m->pos);
}

static struct segment_scan scan_from_start(void)
{
    return (struct segment_scan){
        .salt = SALT,
        .generation_min = 1,
        .generation_max = 9,
        .limit_pos = FILE_SIZE,
        .skip_offset = INT64_MIN,
        .has_previous = true,
        .pos = SEGMENT_HEADER_SIZE,
        .index = 1,
    };
}

/* Walks with windows of about window_size; returns how many entries came, and the last step. */
static uint64_t walk(const struct segment_image *m,
                     struct segment_scan *scan,
                     uint64_t window_size,
                     enum scan_step *ret_step,
                     struct scan_result *ret)
{
    struct segment_window w = {.data = m->bytes};
    uint64_t count = 0;
    for (int steps = 0; steps < 10000; steps++) {
        *ret_step = segment_scan_next(scan, &w, ret);
        if (*ret_step == SCAN_ENTRY) {
            count++;
        } else if (*ret_step == SCAN_MORE) {
            uint64_t size = ret->need_size > window_size ? ret->need_size : window_size;
            cr_assert(eq(u64, ret->need_pos % ENTRY_BLOCK_SIZE, 0));
            cr_assert(eq(u64, ret->need_size % ENTRY_BLOCK_SIZE, 0));
            size = ret->need_pos + size > FILE_SIZE ? FILE_SIZE - ret->need_pos : size;
            w = (struct segment_window){m->bytes + ret->need_pos, ret->need_pos, size};
        } else {
            return count;
        }
    }
    cr_assert(eq(u64, count, UINT64_MAX), "the walk does not end");
    return 0;
}

Test(segment, windows_of_any_size_see_the_same)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rand r;
        rand_init_seed(&r, seed);
        struct segment_image m;
        image_init(&m);
        while (m.pos < FILE_SIZE - (32 << 10)) {
            image_add(&m, rand_below(&r, rand_one_in(&r, 10) ? 20000 : 600));
            if (rand_one_in(&r, 3)) {
                image_end_write(&m);
            }
        }
        for (uint64_t size = 4096; size <= FILE_SIZE; size *= 4) {
            struct segment_scan scan = scan_from_start();
            struct scan_result result;
            enum scan_step step;
            uint64_t count = walk(&m, &scan, size, &step, &result);
            cr_assert(eq(u64, count, m.index - 1), "seed=%d size=%d", (int)seed, (int)size);
            cr_assert(eq(int, (int)step, SCAN_END));
            cr_assert(eq(u64, scan.previous_id, m.previous_id));
        }
        free(m.bytes);
    }
}

Test(segment, faults_stop_the_walk_where_they_are)
{
    static const struct {
        const char *what;
        size_t at; /* Within the third entry, which stands at a block of its own. */
        enum entry_fault fault;
    } rows[] = {
        {"checksum", 0, ENTRY_FAULT_HEADER},
        {"payload size", 4, ENTRY_FAULT_HEADER},
        {"salt", 8, ENTRY_FAULT_SALT},
        {"generation", 16, ENTRY_FAULT_HEADER},
        {"type", 20, ENTRY_FAULT_HEADER},
        {"index", 24, ENTRY_FAULT_HEADER},
        {"previous id", 88, ENTRY_FAULT_HEADER},
        {"payload", 120, ENTRY_FAULT_HEADER},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct segment_image m;
        image_init(&m);
        for (int n = 0; n < 5; n++) {
            image_add(&m, 100);
            image_end_write(&m);
        }
        m.bytes[4096 * 3 + rows[i].at] ^= 1;
        struct segment_scan scan = scan_from_start();
        struct scan_result result;
        enum scan_step step;
        uint64_t count = walk(&m, &scan, 4096, &step, &result);
        cr_assert(eq(u64, count, 2), "%s", rows[i].what);
        /* A block without the salt is one where nothing of this life stands. */
        const enum scan_step expected = rows[i].fault == ENTRY_FAULT_SALT ? SCAN_END : SCAN_BAD;
        cr_assert(eq(int, (int)step, (int)expected), "%s", rows[i].what);
        cr_assert(eq(int, (int)result.fault, (int)rows[i].fault), "%s", rows[i].what);
        cr_assert(eq(u64, scan.pos, m.ends[2]), "%s", rows[i].what);

        /* The search behind it finds the next good one. */
        struct segment_window w = {m.bytes, 0, FILE_SIZE};
        uint64_t pos = scan.pos;
        cr_assert(segment_scan_probe(&scan, &w, &pos, &result), "%s", rows[i].what);
        cr_assert(eq(u64, result.header.index, 4), "%s", rows[i].what);
        cr_assert(eq(u64, result.pos, 4096 * 4));
        free(m.bytes);
    }
}

/* A recycled file: everywhere behind the tail stand entries of another log, good ones, with higher
 * indexes and D. */
Test(segment, what_an_earlier_life_left_is_the_end)
{
    for (int own = 0; own <= 6; own++) {
        struct segment_image m;
        image_init(&m);
        m.salt = SALT + 1;
        m.index = 100;
        while (m.pos < FILE_SIZE - 8192) {
            image_add(&m, 700);
        }
        m.salt = SALT;
        m.index = 1;
        m.previous_id = 0;
        m.pos = SEGMENT_HEADER_SIZE;
        for (int i = 0; i < own; i++) {
            image_add(&m, 1500);
            image_end_write(&m);
        }
        struct segment_scan scan = scan_from_start();
        struct scan_result result;
        enum scan_step step;
        cr_assert(eq(u64, walk(&m, &scan, 8192, &step, &result), own));
        cr_assert(eq(int, (int)step, SCAN_END));
        cr_assert(eq(int, (int)result.fault, ENTRY_FAULT_SALT));
        cr_assert(eq(u64, result.pos, m.pos));

        struct segment_window w = {m.bytes, 0, FILE_SIZE};
        uint64_t pos = scan.pos;
        cr_assert(not(segment_scan_has_own(&scan, &w, pos)));
        cr_assert(not(segment_scan_probe(&scan, &w, &pos, &result)), "none of them counts");
        /* A header of this life is seen wherever it stands, and whatever became of its entry. */
        m.pos += 3 * ENTRY_BLOCK_SIZE;
        image_add(&m, 100);
        m.bytes[m.pos - 1 - 50] ^= 1;
        cr_assert(segment_scan_has_own(&scan, &w, scan.pos));
        free(m.bytes);
    }
}

Test(segment, an_entry_out_of_order_is_refused)
{
    static const struct {
        const char *what;
        uint64_t index_delta;
        uint64_t id_delta;
        uint32_t generation;
        enum entry_fault fault;
    } rows[] = {
        {"index", 1, 0, 1, ENTRY_FAULT_ORDER},
        {"chain", 0, 1, 1, ENTRY_FAULT_ORDER},
        {"older generation", 0, 0, 0, ENTRY_FAULT_GENERATION},
        {"newer than the log", 0, 0, 10, ENTRY_FAULT_GENERATION},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct segment_image m;
        image_init(&m);
        image_add(&m, 10);
        m.index += rows[i].index_delta;
        m.previous_id += rows[i].id_delta;
        m.generation = rows[i].generation;
        image_add(&m, 10);
        struct segment_scan scan = scan_from_start();
        struct scan_result result;
        enum scan_step step;
        cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 1), "%s", rows[i].what);
        cr_assert(eq(int, (int)step, SCAN_BAD), "%s", rows[i].what);
        cr_assert(eq(int, (int)result.fault, (int)rows[i].fault), "%s", rows[i].what);
        free(m.bytes);
    }
}

/* Old entries 3 and 4 stay in the cut block; the log goes on with another 3 in the next one. */
Test(segment, a_walk_jumps_over_what_a_cut_left)
{
    struct segment_image m;
    image_init(&m);
    for (int n = 0; n < 4; n++) {
        image_add(&m, 50);
    }
    struct segment_jump cut = {
        .pos = m.ends[2],
        .resume_pos = block_align_up(m.ends[2]),
        .generation = 2,
        .index = 3,
    };
    struct entry_header second;
    memcpy(&second, m.bytes + m.ends[1], sizeof(second));
    m.index = 3;
    m.previous_id = second.entry_id;
    m.generation = 2;
    m.pos = cut.resume_pos;
    image_add(&m, 70);

    struct segment_scan scan = scan_from_start();
    scan.jumps = &cut;
    scan.jumps_count = 1;
    struct scan_result result;
    enum scan_step step;
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 3));
    cr_assert(eq(int, (int)step, SCAN_END));
    cr_assert(eq(u32, scan.generation_min, 2));

    /* Without the record the old ones look like the log's. */
    scan = scan_from_start();
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 4));
    cr_assert(eq(int, (int)step, SCAN_BAD));
    free(m.bytes);
}

/* Entries that a cut removed do not count either where a misdirected write brings them: in front of
 * the place of the cut, in the order of the log. */
Test(segment, a_cut_entry_counts_nowhere)
{
    struct segment_image m;
    image_init(&m);
    for (int n = 0; n < 4; n++) {
        image_add(&m, 50);
    }
    const struct segment_jump cut = {
        .pos = m.ends[4] + ENTRY_BLOCK_SIZE,
        .resume_pos = block_align_up(m.ends[4] + ENTRY_BLOCK_SIZE),
        .generation = 2,
        .index = 3,
    };
    struct segment_scan scan = scan_from_start();
    scan.jumps = &cut;
    scan.jumps_count = 1;
    struct scan_result result;
    enum scan_step step;
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 2));
    cr_assert(eq(int, (int)step, SCAN_BAD));
    cr_assert(eq(int, (int)result.fault, ENTRY_FAULT_GENERATION));

    struct segment_window whole = {m.bytes, 0, FILE_SIZE};
    uint64_t pos = scan.pos;
    cr_assert(not(segment_scan_probe(&scan, &whole, &pos, &result)));
    free(m.bytes);
}

/* Entries of the newer generation stand over the place of a cut, where a misdirected write brought
 * them. The walk has passed the cut, and does not miss what is known of later places. */
Test(segment, a_cut_inside_of_an_entry_is_passed)
{
    struct segment_image m;
    image_init(&m);
    m.generation = 2;
    for (int n = 0; n < 3; n++) {
        image_add(&m, 200);
    }
    const struct segment_jump jumps[] = {
        {.pos = m.ends[1] + 48,
         .resume_pos = block_align_up(m.ends[1]),
         .generation = 2,
         .index = 2},
        {.pos = m.ends[2], .resume_pos = m.ends[3], .is_damage = true, .index = 4},
    };
    struct segment_scan scan = scan_from_start();
    scan.jumps = jumps;
    scan.jumps_count = 2;
    struct scan_result result;
    enum scan_step step;
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 2));
    cr_assert(eq(int, (int)step, SCAN_DAMAGE));
    segment_scan_leap(&scan);
    cr_assert(eq(u64, scan.index, 4));
    free(m.bytes);
}

/* Damage from entry 2 on, up to the next block, with a cut inside of it and another one behind. */
Test(segment, a_leap_over_a_hole_goes_by_the_cuts_in_it)
{
    struct segment_image m;
    image_init(&m);
    for (int n = 0; n < 4; n++) {
        image_add(&m, 50);
    }
    struct entry_header third;
    memcpy(&third, m.bytes + m.ends[2], sizeof(third));
    const uint64_t next_block = block_align_up(m.pos);
    struct segment_jump jumps[] = {
        {
            .pos = m.ends[1],
            .resume_pos = next_block,
            .is_damage = true,
            .index = 4,
            .previous_id = third.entry_id,
            .term = 1,
        },
        {.pos = m.ends[3], .resume_pos = next_block, .generation = 2, .index = 4},
        {.generation = 3, .index = 5},
    };
    m.index = 4;
    m.previous_id = third.entry_id;
    m.generation = 2;
    m.pos = next_block;
    image_add(&m, 60);
    image_add(&m, 60); /* Cut: generation 2, with index 5. */
    jumps[2].pos = m.ends[4];
    jumps[2].resume_pos = block_align_up(m.pos);
    struct entry_header fourth;
    memcpy(&fourth, m.bytes + next_block, sizeof(fourth));
    m.index = 5;
    m.previous_id = fourth.entry_id;
    m.generation = 3;
    m.pos = jumps[2].resume_pos;
    image_add(&m, 70);

    struct segment_scan scan = scan_from_start();
    scan.jumps = jumps;
    scan.jumps_count = 3;
    struct scan_result result;
    enum scan_step step;
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 1));
    cr_assert(eq(int, (int)step, SCAN_DAMAGE));
    segment_scan_leap(&scan);
    cr_assert(eq(u32, scan.generation_min, 2), "what follows is of the cut in the hole");
    cr_assert(eq(u64, walk(&m, &scan, 4096, &step, &result), 2));
    cr_assert(eq(int, (int)step, SCAN_END));
    cr_assert(eq(u64, scan.previous_id, m.previous_id));
    free(m.bytes);
}

Test(segment, no_bytes_make_a_walk_fail_otherwise)
{
    struct rand r;
    rand_init_seed(&r, 7);
    for (int round = 0; round < 300; round++) {
        struct segment_image m;
        image_init(&m);
        for (int n = 0; n < 20; n++) {
            image_add(&m, rand_below(&r, 3000));
        }
        for (int n = 0; n < 5; n++) {
            m.bytes[SEGMENT_HEADER_SIZE + rand_below(&r, m.pos - SEGMENT_HEADER_SIZE)] =
                (uint8_t)rand_u64(&r);
        }
        struct segment_scan scan = scan_from_start();
        struct scan_result result;
        enum scan_step step;
        (void)walk(&m, &scan, 8192, &step, &result);
        struct segment_window w = {m.bytes, 0, FILE_SIZE};
        uint64_t pos = scan.pos;
        while (segment_scan_probe(&scan, &w, &pos, &result)) {
            pos += ENTRY_ALIGN;
        }
        free(m.bytes);
    }
}

/* What follows a gap chains on to the last entry that the gap stands for. */
Test(segment, a_gap_stands_for_what_was_removed)
{
    struct segment_image m;
    image_init(&m);
    image_add(&m, 100);
    const uint64_t first_removed = m.index;
    const uint64_t before_id = m.previous_id;
    const uint64_t gap_pos = m.pos;
    for (int i = 0; i < 5; i++) {
        image_add(&m, 1000);
    }
    struct entry_header gap = {
        .salt = SALT,
        .generation = 1,
        .type = ENTRY_GAP,
        .span = (uint32_t)(m.index - first_removed - 1),
        .index = first_removed,
        .term = 1,
        .max_timestamp = -1,
        .durable_index = first_removed - 1,
        .durable_generation = 1,
        .entry_id = m.previous_id,
        .previous_id = before_id,
    };
    memset(m.bytes + gap_pos, 0, (size_t)(m.pos - gap_pos));
    entry_seal(&gap, m.bytes + gap_pos);
    m.pos = gap_pos + entry_size(0);
    image_add(&m, 200);

    struct segment_scan scan = scan_from_start();
    struct scan_result result;
    enum scan_step step;
    cr_assert(eq(u64, walk(&m, &scan, 8192, &step, &result), 3));
    cr_assert(eq(int, step, SCAN_END));
    cr_assert(eq(u64, scan.index, first_removed + 6));

    /* One entry more or less than it says, and what follows is not the next one. */
    gap.span++;
    entry_seal(&gap, m.bytes + gap_pos);
    scan = scan_from_start();
    cr_assert(eq(u64, walk(&m, &scan, 8192, &step, &result), 2));
    cr_assert(eq(int, step, SCAN_BAD));
    cr_assert(eq(int, result.fault, ENTRY_FAULT_ORDER));
    /* Only a gap stands for others, and it has no payload. */
    gap.span--;
    cr_assert(eq(int, entry_check_fields(&gap, SALT), ENTRY_GOOD));
    gap.payload_size = 1;
    cr_assert(eq(int, entry_check_fields(&gap, SALT), ENTRY_FAULT_HEADER));
    gap.payload_size = 0;
    gap.type = ENTRY_NOOP;
    cr_assert(eq(int, entry_check_fields(&gap, SALT), ENTRY_FAULT_HEADER));
    free(m.bytes);
}

Test(segment, names)
{
    char name[SEGMENT_NAME_SIZE];
    segment_name_format(&(struct segment_name){UINT64_MAX, 0}, ".index", name);
    cr_assert(eq(str, name, "18446744073709551615.index"));
    segment_name_format(&(struct segment_name){UINT64_MAX, UINT32_MAX}, ".timeindex", name);
    cr_assert(eq(str, name, "18446744073709551615-4294967295.timeindex"));
    static const struct {
        const char *name;
        bool is_one;
        uint64_t base_index;
        uint32_t version;
    } rows[] = {
        {"00000000000000000001.log", true, 1, 0},
        {"18446744073709551615.log", true, UINT64_MAX, 0},
        {"00000000000000000007-1.log", true, 7, 1},
        {"00000000000000000007-4294967295.log", true, 7, UINT32_MAX},
        {"00000000000000000007-4294967296.log", false, 0, 0},
        {"00000000000000000007-0.log", false, 0, 0},
        {"00000000000000000007-01.log", false, 0, 0},
        {"00000000000000000007-.log", false, 0, 0},
        {"00000000000000000007-1", false, 0, 0},
        {"00000000000000000007-1.logx", false, 0, 0},
        {"18446744073709551616.log", false, 0, 0},
        {"00000000000000000001.index", false, 0, 0},
        {"0000000000000000001.log", false, 0, 0},
        {"0000000000000000000x.log", false, 0, 0},
        {"next.tmp", false, 0, 0},
        {"", false, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct segment_name n = {0};
        bool is_one = segment_name_parse(rows[i].name, ".log", &n);
        cr_assert(eq(int, is_one, rows[i].is_one), "%s", rows[i].name);
        cr_assert(eq(u64, n.base_index, rows[i].base_index), "%s", rows[i].name);
        cr_assert(eq(u32, n.version, rows[i].version), "%s", rows[i].name);
    }
}

Test(segment, records_are_checked)
{
    struct segment_record r = {
        .salt = 7, .base = {.index = 5}, .filled_to = 8192, .written_to = 16384};
    struct slice value = segment_record_encode(&r);
    struct segment_record back;
    cr_assert(eq(int, segment_record_decode(value, &back), ERR_OK));
    cr_assert(eq(u64, back.filled_to, 8192));
    cr_assert(eq(u64, back.written_to, 16384));
    for (size_t size = 0; size < value.size; size++) {
        cr_assert(eq(int, segment_record_decode(slice_of(value.data, size), &back), ERR_CORRUPT));
    }
    r.version = 2;
    cr_assert(eq(int, segment_record_decode(slice_of(&r, sizeof(r)), &back), ERR_NEWER_FORMAT));

    uint8_t block[SEGMENT_HEADER_SIZE];
    struct segment_header h = {.salt = 7, .base = {.index = 5}, .generation = 3};
    segment_header_encode(&h, block);
    struct segment_header h_back;
    cr_assert(eq(int, segment_header_decode(block, &h_back), ERR_OK));
    for (size_t at = 0; at < sizeof(h); at++) {
        block[at] ^= 4;
        cr_assert(ne(int, segment_header_decode(block, &h_back), ERR_OK), "byte=%zu", at);
        block[at] ^= 4;
    }
}
