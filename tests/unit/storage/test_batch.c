/* Record batches: the vectors of the protocol notes, every rule a leader checks as one row, and
 * every truncation and flipped bit survived.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/crc32c.h"
#include "core/rand.h"
#include "storage/batch.h"
#include "storage/codec.h"

enum {
    SIZE_MAX_TEST = 1 << 20,
};

static const int64_t NOW_MS = 1700000000000;

static const struct batch_rules RULES = {
    .size_max = SIZE_MAX_TEST,
    .produce_version = 9,
    .wall_ms = 1700000000000,
    .timestamp_before_ms_max = INT64_MAX,
    .timestamp_after_ms_max = 3600000,
};

/* "Batch of 85 bytes, two records (k=hello with header h=x; null key, null value, +5 ms)". */
static const char TWO_RECORDS[] =
    "000000000000000000000049ffffffff0226abdeb30000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff000000022000000002"
    "6b0a68656c6c6f02026802780c000a02010100";

/* "COMMIT marker at offset 7, leader epoch 5, producer 4000 epoch 2, coordinator epoch 3". */
static const char COMMIT_MARKER[] =
    "0000000000000007000000420000000502ad68175d0030000000000000018bcfe568000000018bcfe56800"
    "0000000000000fa00002ffffffff0000000120000000080000000"
    "10c00000000000300";

static size_t from_hex(const char *hex, uint8_t *ret_bytes)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        unsigned value;
        cr_assert(eq(int, sscanf(hex + 2 * i, "%2x", &value), 1));
        ret_bytes[i] = (uint8_t)value;
    }
    return size;
}

static void expect_slice(struct slice s, const char *text)
{
    cr_assert(eq(int, slice_is_null(s), text == NULL));
    if (text != NULL) {
        cr_assert(slice_equal_string(s, text), "%s", text);
    }
}

/* A batch with its CRC made right again after a change. */
static void fix_crc(uint8_t *bytes, size_t size)
{
    uint32_t crc = crc32c(bytes + 21, size - 21);
    for (int i = 0; i < 4; i++) {
        bytes[17 + i] = (uint8_t)(crc >> (24 - 8 * i));
    }
}

static void put(uint8_t *bytes, size_t pos, size_t size, int64_t value)
{
    for (size_t i = size; i > 0; i--) {
        bytes[pos + i - 1] = (uint8_t)value;
        value >>= 8;
    }
}

/* count records "key<i>" = "value<i>", timestamps NOW_MS + i. */
static void build(int count, enum batch_codec codec, struct wbuf *ret_batch)
{
    struct batch_builder b;
    batch_builder_init(&b, SIZE_MAX_TEST);
    for (int i = 0; i < count; i++) {
        char key[32];
        char value[32];
        snprintf(key, sizeof(key), "key%d", i);
        snprintf(value, sizeof(value), "value%d", i);
        struct record_header headers[] = {
            {.key = slice_of_string("h"), .value = slice_of_string(value)},
            {.key = slice_of_string(""), .value = {0}},
        };
        enum err e = batch_builder_add(&b,
                                       &(struct batch_record){.timestamp = NOW_MS + i,
                                                              .key = slice_of_string(key),
                                                              .value = slice_of_string(value),
                                                              .headers = headers,
                                                              .headers_count = 2});
        cr_assert(eq(int, e, ERR_OK));
    }
    wbuf_init(ret_batch, SIZE_MAX_TEST * 2);
    cr_assert(eq(int, batch_builder_finish(&b, codec, NULL, ret_batch), ERR_OK));
    batch_builder_done(&b);
}

static enum err check(struct slice bytes, const struct batch_rules *rules)
{
    struct batch_header h;
    struct batch_fault f = {0};
    enum err e = batch_check_produced(bytes, rules, &h, &f);
    cr_assert(eq(int, e == ERR_OK, f.message == NULL));
    return e;
}

/* What readers are told of the first record: something else may stand in the place of its time. */
Test(batch, a_header_alone_tells_the_time)
{
    const struct {
        int16_t attributes;
        int64_t wanted;
    } rows[] = {{CODEC_ZSTD, 10},
                {BATCH_LOG_APPEND_TIME, 20},
                {BATCH_DELETE_HORIZON, 20},
                {BATCH_DELETE_HORIZON | BATCH_LOG_APPEND_TIME, 20}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct batch_header stored = {
            .magic = BATCH_MAGIC,
            .attributes = rows[i].attributes,
            .base_timestamp = 10,
            .max_timestamp = 20,
            .records_count = 1,
        };
        const uint8_t records[100] = {0};
        uint8_t bytes[BATCH_HEADER_SIZE];
        struct batch_header h = {0};
        batch_header_encode(&stored, slice_of(records, sizeof(records)), bytes);
        cr_assert(eq(int, batch_header_decode(slice_of(bytes, sizeof(bytes)), &h), ERR_EOF));
        cr_assert(eq(int, h.magic, 0), "untouched");
        cr_assert(eq(int, batch_header_peek(slice_of(bytes, sizeof(bytes) - 1), &h), ERR_EOF));
        cr_assert(eq(int, batch_header_peek(slice_of(bytes, sizeof(bytes)), &h), ERR_OK));
        cr_assert(eq(i64, batch_first_timestamp(&h), rows[i].wanted), "row %zu", i);
    }
}

Test(batch, decodes_the_protocols_vector)
{
    uint8_t bytes[128];
    size_t size = from_hex(TWO_RECORDS, bytes);
    struct batch_header h;
    cr_assert(eq(sz, size, 85));
    cr_assert(eq(int, batch_header_decode(slice_of(bytes, size), &h), ERR_OK));
    cr_assert(eq(sz, batch_size(&h), size));
    cr_assert(eq(i64, h.base_timestamp, NOW_MS));
    cr_assert(eq(i64, h.max_timestamp, NOW_MS + 5));
    cr_assert(eq(i64, h.producer_id, -1));
    cr_assert(eq(int, h.producer_epoch, -1));
    cr_assert(eq(int, h.base_sequence, -1));
    cr_assert(eq(int, h.records_count, 2));
    cr_assert(eq(int, h.last_offset_delta, 1));
    cr_assert(batch_crc_matches(slice_of(bytes, size)));

    struct slice records;
    cr_assert(eq(int, batch_records(slice_of(bytes, size), size, NULL, &records), ERR_OK));
    struct record_cursor c;
    struct record r;
    struct record_header header;
    record_cursor_init(&c, &h, records);
    cr_assert(eq(int, record_next(&c, &r), ERR_OK));
    expect_slice(r.key, "k");
    expect_slice(r.value, "hello");
    cr_assert(eq(i64, r.timestamp, NOW_MS));
    cr_assert(eq(int, record_next_header(&r, &header), ERR_OK));
    expect_slice(header.key, "h");
    expect_slice(header.value, "x");
    cr_assert(eq(int, record_next_header(&r, &header), ERR_EOF));
    cr_assert(eq(int, record_next(&c, &r), ERR_OK));
    expect_slice(r.key, NULL);
    expect_slice(r.value, NULL);
    cr_assert(eq(i64, r.offset, 1));
    cr_assert(eq(i64, r.timestamp, NOW_MS + 5));
    cr_assert(eq(int, record_next(&c, &r), ERR_EOF));
}

Test(batch, builds_the_protocols_vector)
{
    uint8_t bytes[128];
    size_t size = from_hex(TWO_RECORDS, bytes);
    struct batch_builder b;
    struct wbuf w;
    batch_builder_init(&b, 1000);
    wbuf_init(&w, 1000);
    struct record_header header = {.key = slice_of_string("h"), .value = slice_of_string("x")};
    cr_assert(eq(int,
                 batch_builder_add(&b,
                                   &(struct batch_record){.timestamp = NOW_MS,
                                                          .key = slice_of_string("k"),
                                                          .value = slice_of_string("hello"),
                                                          .headers = &header,
                                                          .headers_count = 1}),
                 ERR_OK));
    struct slice null = {0};
    cr_assert(
        eq(int,
           batch_builder_add(
               &b, &(struct batch_record){.timestamp = NOW_MS + 5, .key = null, .value = null}),
           ERR_OK));
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, NULL, &w), ERR_OK));
    cr_assert(slice_equal(wbuf_slice(&w), slice_of(bytes, size)));
    batch_builder_done(&b);
    wbuf_done(&w);
}

Test(batch, decodes_a_commit_marker)
{
    uint8_t bytes[128];
    size_t size = from_hex(COMMIT_MARKER, bytes);
    struct batch_header h;
    cr_assert(eq(sz, size, 78));
    cr_assert(eq(int, batch_header_decode(slice_of(bytes, size), &h), ERR_OK));
    cr_assert(batch_crc_matches(slice_of(bytes, size)));
    cr_assert(eq(int, h.attributes, BATCH_CONTROL | BATCH_TRANSACTIONAL));
    cr_assert(eq(i64, h.base_offset, 7));
    cr_assert(eq(i64, h.producer_id, 4000));
    put(bytes, 0, 8, 0);
    cr_assert(eq(int, check(slice_of(bytes, size), &RULES), ERR_RECORD_INVALID));
}

Test(batch, stamping_leaves_the_crc_valid)
{
    struct wbuf w;
    struct batch_header h;
    build(3, CODEC_NONE, &w);
    batch_stamp(w.data, 123456789012, 42);
    cr_assert(batch_crc_matches(wbuf_slice(&w)));
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&w), &h), ERR_OK));
    cr_assert(eq(i64, h.base_offset, 123456789012));
    cr_assert(eq(int, h.leader_epoch, 42));
    wbuf_done(&w);
}

Test(batch, last_sequence_wraps)
{
    static const struct {
        int32_t base, delta, last;
    } rows[] = {
        {0, 0, 0},
        {5, 4, 9},
        {INT32_MAX, 0, INT32_MAX},
        {INT32_MAX - 1, 1, INT32_MAX},
        {INT32_MAX, 1, 0},
        {INT32_MAX - 2, 9, 6},
        {INT32_MAX, INT32_MAX, INT32_MAX - 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(int, batch_last_sequence(rows[i].base, rows[i].delta), rows[i].last));
    }
}

/* One change of a good batch of three records, with the CRC made right again. */
Test(batch, a_leader_refuses_headers_that_lie)
{
    static const struct {
        const char *name;
        size_t pos, size;
        int64_t value;
        enum err expected;
    } rows[] = {
        {"nothing wrong", 16, 1, 2, ERR_OK},
        {"leader epoch is the leader's business", 12, 4, 7, ERR_OK},
        {"base offset is not 0", 0, 8, 5, ERR_RECORD_INVALID},
        {"base offset is negative", 0, 8, -1, ERR_RECORD_INVALID},
        {"no records", 57, 4, 0, ERR_RECORD_INVALID},
        {"negative count", 57, 4, -1, ERR_RECORD_INVALID},
        {"last delta negative", 23, 4, -1, ERR_RECORD_INVALID},
        {"last delta too high", 23, 4, 9, ERR_RECORD_INVALID},
        {"magic 3", 16, 1, 3, ERR_RECORD_INVALID},
        {"magic 1", 16, 1, 1, ERR_RECORD_INVALID},
        {"codec 7", 21, 2, 7, ERR_CODEC_UNSUPPORTED},
        {"codec 5", 21, 2, 5, ERR_CODEC_UNSUPPORTED},
        {"codec set, records plain", 21, 2, 1, ERR_RECORD_INVALID},
        {"control batch", 21, 2, 0x20, ERR_RECORD_INVALID},
        {"delete horizon", 21, 2, 0x40, ERR_RECORD_INVALID},
        {"transactional without producer", 21, 2, 0x10, ERR_RECORD_INVALID},
        {"LogAppendTime bit, timestamps in range: cleared", 21, 2, 0x08, ERR_OK},
        {"producer id without sequence", 43, 8, 1000, ERR_RECORD_INVALID},
        {"length below the header", 8, 4, 48, ERR_RECORD_INVALID},
        {"negative length", 8, 4, -1, ERR_RECORD_INVALID},
        {"length beyond the bytes", 8, 4, 10000, ERR_RECORD_INVALID},
        {"timestamp an hour and more ahead", 27, 8, 1700003600001, ERR_TIMESTAMP_INVALID},
        {"timestamp long ago, no limit", 27, 8, 0, ERR_OK},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wbuf w;
        build(3, CODEC_NONE, &w);
        put(w.data, rows[i].pos, rows[i].size, rows[i].value);
        fix_crc(w.data, w.size);
        cr_assert(eq(int, check(wbuf_slice(&w), &RULES), rows[i].expected), "%s", rows[i].name);
        wbuf_done(&w);
    }
}

Test(batch, a_leader_takes_exactly_one_batch)
{
    struct wbuf w;
    build(2, CODEC_NONE, &w);
    size_t size = w.size;
    cr_assert(eq(int, check(slice_of(NULL, 0), &RULES), ERR_RECORD_INVALID));
    for (size_t cut = 1; cut < size; cut++) {
        /* Not ERR_CORRUPT, which clients retry: no byte was changed on the way. */
        enum err e = check(slice_of(w.data, cut), &RULES);
        cr_assert(eq(int, e, ERR_RECORD_INVALID), "cut=%zu", cut);
    }
    struct wbuf second;
    build(2, CODEC_NONE, &second);
    wbuf_bytes(&w, second.data, second.size);
    cr_assert(eq(int, check(wbuf_slice(&w), &RULES), ERR_RECORD_INVALID));
    cr_assert(eq(int, check(slice_of(w.data, size), &RULES), ERR_OK));
    wbuf_done(&second);
    wbuf_done(&w);
}

/* Every flipped bit behind the CRC's start is caught by it; in front, it is harmless or refused. */
Test(batch, no_flipped_bit_gets_through)
{
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        struct wbuf w;
        build(3, (enum batch_codec)codec, &w);
        for (size_t bit = 0; bit < w.size * 8; bit++) {
            w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            enum err e = check(wbuf_slice(&w), &RULES);
            bool is_leader_epoch = bit / 8 >= 12 && bit / 8 < 16;
            cr_assert(eq(int, e == ERR_OK, is_leader_epoch), "codec=%d bit=%zu", codec, bit);
            w.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        wbuf_done(&w);
    }
}

/* The CRC right, the records not: nothing may crash, and what passes must walk to its end. */
Test(batch, records_that_lie_are_refused_or_consistent)
{
    struct rand rand;
    rand_init_seed(&rand, 11);
    struct wbuf w;
    build(4, CODEC_NONE, &w);
    uint8_t *bytes = malloc(w.size);
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, w.data, w.size);
        for (uint64_t i = 0; i <= rand_below(&rand, 3); i++) {
            size_t pos = BATCH_HEADER_SIZE + rand_below(&rand, w.size - BATCH_HEADER_SIZE);
            bytes[pos] = (uint8_t)rand_u64(&rand);
        }
        fix_crc(bytes, w.size);
        if (check(slice_of(bytes, w.size), &RULES) != ERR_OK) {
            refused++;
            continue;
        }
        struct batch_header h;
        struct slice records;
        cr_assert(eq(int, batch_header_decode(slice_of(bytes, w.size), &h), ERR_OK));
        cr_assert(eq(int, batch_records(slice_of(bytes, w.size), w.size, NULL, &records), ERR_OK));
        struct record_cursor c;
        struct record r;
        record_cursor_init(&c, &h, records);
        for (int i = 0; i < 4; i++) {
            cr_assert(eq(int, record_next(&c, &r), ERR_OK));
            cr_assert(eq(i64, r.offset, i));
            struct record_header header;
            enum err e = ERR_OK;
            while ((e = record_next_header(&r, &header)) == ERR_OK) {
            }
            cr_assert(eq(int, e, ERR_EOF));
        }
        cr_assert(eq(int, record_next(&c, &r), ERR_EOF));
    }
    cr_assert(lt(int, 1000, refused));
    free(bytes);
    wbuf_done(&w);
}

/* Declared records replaced: header says count, the records part is as given. */
static enum err
check_by(int count, struct slice records, enum batch_codec codec, const struct batch_rules *rules)
{
    struct batch_header h = {
        .attributes = (int16_t)codec,
        .last_offset_delta = count - 1,
        .records_count = count,
        .producer_id = -1,
        .base_timestamp = NOW_MS,
    };
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_TEST);
    (void)wbuf_reserve(&w, BATCH_HEADER_SIZE);
    cr_assert(eq(int, codec_compress(codec, records, &w), ERR_OK));
    struct slice stored = slice_of(w.data + BATCH_HEADER_SIZE, w.size - BATCH_HEADER_SIZE);
    batch_header_encode(&h, stored, w.data);
    enum err e = check(wbuf_slice(&w), rules);
    wbuf_done(&w);
    return e;
}

static enum err check_with(int count, struct slice records, enum batch_codec codec)
{
    return check_by(count, records, codec, &RULES);
}

/* Public case C020: whatever the codec, and whether or not the topic needs to know what is inside.
 */
Test(batch, c020_extra_bytes_behind_the_records_are_refused)
{
    static const uint8_t records[32] = {0x0c, 0, 0, 0, 1, 1, 0, 0x0c, 0, 0, 2, 1, 1, 0};
    static const struct {
        int count;
        size_t size;
        enum err expected;
    } rows[] = {
        {1, 7, ERR_OK},
        {2, 14, ERR_OK},
        {1, 14, ERR_RECORD_INVALID}, /* Two records, one declared. */
        {2, 30, ERR_RECORD_INVALID}, /* Two, and 16 zeros. */
        {3, 14, ERR_RECORD_INVALID},
    };
    struct batch_rules topics[3] = {RULES, RULES, RULES};
    topics[1].is_log_append_time = true;
    topics[2].timestamp_after_ms_max = INT64_MAX;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t t = 0; t < sizeof(topics) / sizeof(topics[0]); t++) {
            for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct slice body = slice_of(records, rows[i].size);
                enum err e = check_by(rows[i].count, body, (enum batch_codec)codec, &topics[t]);
                cr_assert(eq(int, e, rows[i].expected), "codec=%d row=%zu", codec, i);
            }
        }
    }
}

/* One record, byte by byte: length, attributes, timestamp delta, offset delta, key, value, headers.
 */
Test(batch, a_record_must_fill_its_length_exactly)
{
    static const struct {
        const char *name;
        uint8_t bytes[16];
        size_t size;
        enum err expected;
    } rows[] = {
        {"null key and value", {0x0c, 0, 0, 0, 1, 1, 0}, 7, ERR_OK},
        {"empty key and value", {0x0c, 0, 0, 0, 0, 0, 0}, 7, ERR_OK},
        {"attributes are ignored", {0x0c, 9, 0, 0, 1, 1, 0}, 7, ERR_OK},
        {"offset delta of another record", {0x0c, 0, 0, 2, 1, 1, 0}, 7, ERR_RECORD_INVALID},
        {"negative offset delta", {0x0c, 0, 0, 1, 1, 1, 0}, 7, ERR_RECORD_INVALID},
        {"length 0", {0x00}, 1, ERR_RECORD_INVALID},
        {"negative length", {0x0b, 0, 0, 0, 1, 1, 0}, 7, ERR_RECORD_INVALID},
        {"length too long", {0x0e, 0, 0, 0, 1, 1, 0}, 7, ERR_RECORD_INVALID},
        {"length too short", {0x0a, 0, 0, 0, 1, 1, 0}, 7, ERR_RECORD_INVALID},
        {"slack inside", {0x0e, 0, 0, 0, 1, 1, 0, 0}, 8, ERR_RECORD_INVALID},
        {"key length -2", {0x0c, 0, 0, 0, 3, 1, 0}, 7, ERR_RECORD_INVALID},
        {"key beyond the record", {0x0c, 0, 0, 0, 0x20, 1, 0}, 7, ERR_RECORD_INVALID},
        {"value beyond the record", {0x0c, 0, 0, 0, 1, 0x20, 0}, 7, ERR_RECORD_INVALID},
        {"negative headers count", {0x0c, 0, 0, 0, 1, 1, 1}, 7, ERR_RECORD_INVALID},
        {"a header announced, none there", {0x0c, 0, 0, 0, 1, 1, 2}, 7, ERR_RECORD_INVALID},
        {"header, empty key, null value", {0x10, 0, 0, 0, 1, 1, 2, 0, 1}, 9, ERR_OK},
        {"header with null key", {0x10, 0, 0, 0, 1, 1, 2, 1, 1}, 9, ERR_RECORD_INVALID},
        {"a header too many", {0x10, 0, 0, 0, 1, 1, 0, 0, 1}, 9, ERR_RECORD_INVALID},
        {"length in a long form", {0x8c, 0, 0, 0, 0, 1, 1, 0}, 8, ERR_OK},
        {"length of six bytes",
         {0x8c, 0x80, 0x80, 0x80, 0x80, 0, 0, 0, 0, 1, 1, 0},
         12,
         ERR_RECORD_INVALID},
        {"length beyond 32 bits",
         {0x8c, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 1, 1, 0},
         11,
         ERR_RECORD_INVALID},
    };
    /* The last record of a batch, and one before another: what may be read behind it differs. */
    static const uint8_t next[] = {0x1c, 0, 0, 2, 1, 0x10, 1, 2, 3, 4, 5, 6, 7, 8, 0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum err e = check_with(1, slice_of(rows[i].bytes, rows[i].size), CODEC_NONE);
        cr_assert(eq(int, e, rows[i].expected), "%s", rows[i].name);
        uint8_t both[sizeof(rows[i].bytes) + sizeof(next)];
        memcpy(both, rows[i].bytes, rows[i].size);
        memcpy(both + rows[i].size, next, sizeof(next));
        e = check_with(2, slice_of(both, rows[i].size + sizeof(next)), CODEC_NONE);
        cr_assert(eq(int, e, rows[i].expected), "%s, another behind it", rows[i].name);
    }
}

/* Sizes and deltas about where their numbers become a byte longer. */
Test(batch, numbers_of_every_length_are_read_alike)
{
    enum { LARGE = 9000 };
    static const uint8_t bytes[LARGE] = {1};
    static const int sizes[] = {-1, 0, 1, 60, 63, 64, 8100, 8191, 8192, LARGE};
    static const int64_t deltas[] = {0, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 1 << 20};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    struct batch_rules compacted = RULES;
    compacted.is_compacted = true;
    for (size_t row = 0; row < (size_t)COUNT * COUNT; row++) {
        const int key_size = sizes[row / COUNT];
        const int value_size = sizes[row % COUNT];
        const int64_t delta = deltas[(row + row / COUNT) % COUNT];
        struct batch_builder b;
        batch_builder_init(&b, SIZE_MAX_TEST);
        for (int i = 0; i < 3; i++) {
            const struct batch_record record = {
                .timestamp = NOW_MS + (i == 1 ? delta : 0),
                .key = key_size < 0 ? (struct slice){0} : slice_of(bytes, (size_t)key_size),
                .value = value_size < 0 ? (struct slice){0} : slice_of(bytes, (size_t)value_size),
            };
            cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
        }
        struct wbuf w;
        wbuf_init(&w, SIZE_MAX_TEST);
        static const struct batch_identity nobody = {-1, -1, -1};
        cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &nobody, &w), ERR_OK));
        struct batch_header h;
        struct batch_fault f;
        enum err e = batch_check_produced(wbuf_slice(&w), &RULES, &h, &f);
        cr_assert(eq(int, e, ERR_OK), "row=%zu", row);
        cr_assert(eq(i64, h.max_timestamp, NOW_MS + (delta > 0 ? delta : 0)), "row=%zu", row);
        e = check(wbuf_slice(&w), &compacted);
        cr_assert(eq(int, e, key_size < 0 ? ERR_RECORD_INVALID : ERR_OK), "row=%zu", row);
        wbuf_done(&w);
        batch_builder_done(&b);
    }
}

Test(batch, topic_rules)
{
    static const struct {
        const char *name;
        enum batch_codec codec;
        struct batch_rules rules; /* On top of RULES, where not 0. */
        enum err expected;
    } rows[] = {
        {"zstd needs Produce 7", CODEC_ZSTD, {.produce_version = 6}, ERR_CODEC_UNSUPPORTED},
        {"zstd with Produce 7", CODEC_ZSTD, {.produce_version = 7}, ERR_OK},
        {"max.message.bytes", CODEC_NONE, {.size_max = 100}, ERR_TOO_LARGE},
        {"keys are there", CODEC_LZ4, {.is_compacted = true}, ERR_OK},
        {"in the past, within", CODEC_NONE, {.timestamp_before_ms_max = 1}, ERR_OK},
        {"in the past, without",
         CODEC_GZIP,
         {.wall_ms = NOW_MS + 9, .timestamp_before_ms_max = 8},
         ERR_TIMESTAMP_INVALID},
        {"LogAppendTime minds no range",
         CODEC_NONE,
         {.is_log_append_time = true, .wall_ms = NOW_MS + 9, .timestamp_before_ms_max = 8},
         ERR_OK},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct batch_rules rules = rows[i].rules;
        rules.size_max = rules.size_max == 0 ? RULES.size_max : rules.size_max;
        rules.produce_version = rules.produce_version == 0 ? 9 : rules.produce_version;
        rules.wall_ms = rules.wall_ms == 0 ? RULES.wall_ms : rules.wall_ms;
        rules.timestamp_before_ms_max =
            rules.timestamp_before_ms_max == 0 ? INT64_MAX : rules.timestamp_before_ms_max;
        rules.timestamp_after_ms_max = RULES.timestamp_after_ms_max;
        struct wbuf w;
        build(3, rows[i].codec, &w);
        cr_assert(eq(int, check(wbuf_slice(&w), &rules), rows[i].expected), "%s", rows[i].name);
        wbuf_done(&w);
    }
}

Test(batch, a_compacted_topic_takes_no_record_without_key)
{
    struct batch_rules rules = RULES;
    rules.is_compacted = true;
    rules.timestamp_after_ms_max = INT64_MAX;
    static const enum batch_codec codecs[] = {CODEC_NONE, CODEC_SNAPPY};
    for (int i = 0; i < 2; i++) {
        struct batch_builder b;
        struct wbuf w;
        batch_builder_init(&b, 1000);
        wbuf_init(&w, 1000);
        struct slice null = {0};
        cr_assert(eq(int,
                     batch_builder_add(&b,
                                       &(struct batch_record){.timestamp = NOW_MS,
                                                              .key = slice_of_string(""),
                                                              .value = null}),
                     ERR_OK));
        cr_assert(eq(int,
                     batch_builder_add(&b,
                                       &(struct batch_record){.timestamp = NOW_MS,
                                                              .key = null,
                                                              .value = slice_of_string("v")}),
                     ERR_OK));
        cr_assert(eq(int, batch_builder_finish(&b, codecs[i], NULL, &w), ERR_OK));
        struct batch_header h;
        struct batch_fault f;
        cr_assert(
            eq(int, batch_check_produced(wbuf_slice(&w), &rules, &h, &f), ERR_RECORD_INVALID));
        cr_assert(eq(int, f.record_index, 1));
        batch_builder_done(&b);
        wbuf_done(&w);
    }
}

/* What is stored is what the leader says, not what the client claims. */
Test(batch, the_leader_sets_timestamp_type_and_max_timestamp)
{
    struct wbuf w;
    struct batch_header h;
    struct batch_fault f;
    build(3, CODEC_LZ4, &w);
    cr_assert(eq(int, batch_check_produced(wbuf_slice(&w), &RULES, &h, &f), ERR_OK));
    cr_assert(not(batch_needs_rewrite(wbuf_slice(&w), &h)));

    struct batch_rules append_time = RULES;
    append_time.is_log_append_time = true;
    append_time.wall_ms = NOW_MS + 77;
    cr_assert(eq(int, batch_check_produced(wbuf_slice(&w), &append_time, &h, &f), ERR_OK));
    cr_assert(batch_needs_rewrite(wbuf_slice(&w), &h));
    batch_header_encode(
        &h, slice_of(w.data + BATCH_HEADER_SIZE, w.size - BATCH_HEADER_SIZE), w.data);
    cr_assert(batch_crc_matches(wbuf_slice(&w)));

    struct wbuf plain;
    struct slice records;
    struct record_cursor c;
    struct record r;
    wbuf_init(&plain, SIZE_MAX_TEST);
    cr_assert(eq(int, batch_records(wbuf_slice(&w), SIZE_MAX_TEST, &plain, &records), ERR_OK));
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&w), &h), ERR_OK));
    record_cursor_init(&c, &h, records);
    cr_assert(eq(int, record_next(&c, &r), ERR_OK));
    cr_assert(eq(i64, r.timestamp, NOW_MS + 77), "every record has the batch's max timestamp");

    /* Sent to a LogAppendTime topic as it is now: clients may not set that bit. */
    cr_assert(eq(int, check(wbuf_slice(&w), &append_time), ERR_TIMESTAMP_INVALID));
    wbuf_done(&plain);
    wbuf_done(&w);

    struct batch_rules no_limits = RULES;
    no_limits.timestamp_after_ms_max = INT64_MAX;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        build(3, (enum batch_codec)codec, &w);
        put(w.data, 35, 8, NOW_MS + 500000000);
        fix_crc(w.data, w.size);
        cr_assert(eq(int, batch_check_produced(wbuf_slice(&w), &no_limits, &h, &f), ERR_OK));
        cr_assert(eq(i64, h.max_timestamp, NOW_MS + 2));
        cr_assert(batch_needs_rewrite(wbuf_slice(&w), &h));
        wbuf_done(&w);
    }
}

Test(batch, every_codec_round_trips_through_builder_and_cursor)
{
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        struct wbuf w;
        struct wbuf plain;
        struct slice records;
        struct batch_header h;
        build(500, (enum batch_codec)codec, &w);
        wbuf_init(&plain, SIZE_MAX_TEST);
        cr_assert(eq(int, check(wbuf_slice(&w), &RULES), ERR_OK));
        cr_assert(eq(int, batch_header_decode(wbuf_slice(&w), &h), ERR_OK));
        cr_assert(eq(int, batch_codec(&h), codec));
        cr_assert(eq(int, batch_records(wbuf_slice(&w), SIZE_MAX_TEST, &plain, &records), ERR_OK));
        cr_assert(eq(int, batch_records(wbuf_slice(&w), 100, &plain, &records), ERR_TOO_LARGE));
        struct record_cursor c;
        struct record r;
        record_cursor_init(&c, &h, records);
        for (int i = 0; i < 500; i++) {
            char value[32];
            snprintf(value, sizeof(value), "value%d", i);
            cr_assert(eq(int, record_next(&c, &r), ERR_OK));
            cr_assert(eq(i64, r.timestamp, NOW_MS + i));
            expect_slice(r.value, value);
        }
        cr_assert(eq(int, record_next(&c, &r), ERR_EOF));
        wbuf_done(&plain);
        wbuf_done(&w);
    }
}

Test(batch, a_full_builder_stays_as_it_was)
{
    struct batch_builder b;
    batch_builder_init(&b, 200);
    struct slice value = slice_of_string("0123456789012345678901234567890123456789");
    int added = 0;
    while (batch_builder_add(&b,
                             &(struct batch_record){.timestamp = NOW_MS,
                                                    .key = (struct slice){0},
                                                    .value = value}) == ERR_OK) {
        added++;
    }
    struct slice big = slice_of("", 1 << 20); /* Never read: it cannot fit. */
    cr_assert(eq(int,
                 batch_builder_add(
                     &b, &(struct batch_record){.timestamp = NOW_MS, .key = big, .value = value}),
                 ERR_TOO_LARGE));
    cr_assert(eq(int, added, 2));
    struct wbuf w;
    wbuf_init(&w, 200);
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, NULL, &w), ERR_OK));
    cr_assert(le(sz, w.size, 200));
    cr_assert(eq(int, check(wbuf_slice(&w), &RULES), ERR_OK));
    wbuf_done(&w);
    batch_builder_done(&b);
}

Test(batch, a_batch_built_in_place_is_the_same)
{
    struct batch_builder in_place;
    struct batch_builder b;
    batch_builder_init_in_place(&in_place, 200);
    batch_builder_init(&b, 200);
    const struct batch_record r = {
        .timestamp = NOW_MS, .key = slice_of_string("key"), .value = slice_of_string("value")};
    while (batch_builder_add(&b, &r) == ERR_OK) {
        cr_assert(eq(int, batch_builder_add(&in_place, &r), ERR_OK));
    }
    cr_assert(eq(int, batch_builder_add(&in_place, &r), ERR_TOO_LARGE));
    const struct batch_identity identity = {7, 1, 3};
    struct wbuf w;
    struct wbuf taken;
    wbuf_init(&w, 200);
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &identity, &w), ERR_OK));
    batch_builder_take(&in_place, &identity, &taken);
    cr_assert(eq(sz, taken.size, w.size));
    cr_assert(memcmp(taken.data, w.data, w.size) == 0);
    batch_builder_done(&in_place);
    batch_builder_done(&b);
    wbuf_done(&taken);
    wbuf_done(&w);
}

/* A batch that compaction emptied: no records, and no stream of its codec either. */
Test(batch, an_emptied_batch_has_no_records)
{
    struct batch_header h = {
        .attributes = CODEC_ZSTD, .last_offset_delta = 9, .base_timestamp = -1};
    uint8_t bytes[BATCH_HEADER_SIZE];
    struct slice records;
    batch_header_encode(&h, (struct slice){0}, bytes);
    cr_assert(eq(int, batch_records(slice_of(bytes, sizeof(bytes)), 100, NULL, &records), ERR_OK));
    cr_assert(eq(sz, records.size, 0));
}
