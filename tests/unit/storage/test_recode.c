/* Re-encoding of produced batches: from every codec to every other, in steps; what must stay stays,
 * sizes and contents are judged as stored, and the work is cut into pieces of the budget.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rand.h"
#include "storage/codec.h"
#include "storage/recode.h"

enum {
    SIZE_MAX_TEST = 8 << 20,
    STEP_NS = 50 * 1000,
};

static const struct batch_identity IDENTITY = {4711, 3, 17};

/* A batch of count records of value_size bytes that compress to about half. */
static struct wbuf make(enum batch_codec codec, int count, size_t value_size)
{
    struct rand r;
    rand_init_seed(&r, 5);
    uint8_t *value = malloc(value_size + 1);
    struct batch_builder b;
    batch_builder_init(&b, SIZE_MAX_TEST);
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < value_size; j++) {
            value[j] = (uint8_t)('a' + rand_below(&r, 16));
        }
        const struct batch_record record = {
            .timestamp = 1000 + i % 7,
            .key = slice_of_string("key"),
            .value = slice_of(value, value_size),
        };
        cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    }
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_TEST);
    cr_assert(eq(int, batch_builder_finish(&b, codec, &IDENTITY, &w), ERR_OK));
    batch_builder_done(&b);
    free(value);
    return w;
}

static const struct batch_rules RULES = {
    .size_max = 1 << 20,
    .produce_version = 9,
    .wall_ms = 5000,
    .timestamp_before_ms_max = INT64_MAX,
    .timestamp_after_ms_max = INT64_MAX,
};

/* A recode of batch that ran to its end, and how many steps that took. */
static struct recode *run(struct slice batch,
                          const struct batch_rules *rules,
                          enum batch_codec codec,
                          uint64_t step_ns,
                          int *ret_steps)
{
    struct batch_header h;
    struct batch_fault f;
    cr_assert(eq(int, batch_check_head(batch, rules, &h, &f), ERR_OK));
    const struct recode_wish wish = {batch, &h, rules, codec, CODEC_LEVEL_DEFAULT};
    struct recode *r;
    cr_assert(eq(int, recode_new(&wish, &r), ERR_OK));
    *ret_steps = 0;
    while (!recode_is_done(r)) {
        (void)recode_step(r, step_ns);
        (*ret_steps)++;
    }
    return r;
}

static void expect_same_records(struct slice before, struct slice after)
{
    struct wbuf w[2];
    struct slice records[2];
    for (int i = 0; i < 2; i++) {
        wbuf_init(&w[i], SIZE_MAX_TEST);
        const struct slice batch = i == 0 ? before : after;
        cr_assert(eq(int, batch_records(batch, SIZE_MAX_TEST, &w[i], &records[i]), ERR_OK));
    }
    cr_assert(slice_equal(records[0], records[1]));
    wbuf_done(&w[0]);
    wbuf_done(&w[1]);
}

static void expect_recoded(enum batch_codec from, enum batch_codec to, int count, size_t size)
{
    struct wbuf batch = make(from, count, size);
    struct batch_header before;
    struct batch_header after;
    struct batch_fault f;
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&batch), &before), ERR_OK));
    int steps;
    struct recode *r = run(wbuf_slice(&batch), &RULES, to, STEP_NS, &steps);
    cr_assert(eq(int, recode_result(r, &after, &f), ERR_OK), "%s", f.message);
    cr_assert(eq(int, recode_has_own_records(r), from != to));

    struct wbuf stored;
    wbuf_init(&stored, SIZE_MAX_TEST);
    uint8_t *head = wbuf_extend(&stored, BATCH_HEADER_SIZE);
    batch_header_encode(&after, recode_records(r), head);
    wbuf_bytes(&stored, recode_records(r).data, recode_records(r).size);
    cr_assert(eq(int, batch_header_decode(wbuf_slice(&stored), &after), ERR_OK));
    cr_assert(batch_crc_matches(wbuf_slice(&stored)));
    cr_assert(eq(int, batch_codec(&after), to));
    cr_assert(eq(i64, after.base_offset, before.base_offset));
    cr_assert(eq(i32, after.last_offset_delta, before.last_offset_delta));
    cr_assert(eq(i64, after.base_timestamp, before.base_timestamp));
    cr_assert(eq(i64, after.max_timestamp, before.max_timestamp));
    cr_assert(eq(i64, after.producer_id, IDENTITY.producer_id));
    cr_assert(eq(int, after.producer_epoch, IDENTITY.producer_epoch));
    cr_assert(eq(i32, after.base_sequence, IDENTITY.base_sequence));
    cr_assert(eq(i32, after.records_count, count));
    expect_same_records(wbuf_slice(&batch), wbuf_slice(&stored));
    wbuf_done(&stored);
    recode_free(r);
    wbuf_done(&batch);
}

Test(recode, every_codec_becomes_every_other_and_all_else_stays)
{
    for (int from = 0; from < CODEC_COUNT; from++) {
        for (int to = 0; to < CODEC_COUNT; to++) {
            expect_recoded((enum batch_codec)from, (enum batch_codec)to, 1, 0);
            expect_recoded((enum batch_codec)from, (enum batch_codec)to, 50, 3000);
        }
    }
}

Test(recode, only_what_has_to_be_decompressed_or_compressed_needs_it)
{
    static const struct {
        enum batch_codec from, to;
        bool is_needed;
    } rows[] = {
        {CODEC_NONE, CODEC_NONE, false},
        {CODEC_NONE, CODEC_GZIP, true},
        {CODEC_GZIP, CODEC_GZIP, true},
        {CODEC_GZIP, CODEC_NONE, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct batch_header h = {.attributes = (int16_t)rows[i].from};
        const struct recode_wish wish = {
            .header = &h, .rules = &RULES, .codec = rows[i].to, .level = CODEC_LEVEL_DEFAULT};
        cr_assert(eq(int, recode_is_needed(&wish), rows[i].is_needed), "row %zu", i);
    }
}

Test(recode, work_is_cut_by_the_budget)
{
    struct wbuf batch = make(CODEC_GZIP, 200, 5000); /* 1 MB of records. */
    int steps;
    struct recode *r = run(wbuf_slice(&batch), &RULES, CODEC_ZSTD, STEP_NS, &steps);
    cr_assert(lt(int, 60, steps)); /* At 4 + 5 microseconds per KiB. */
    recode_free(r);
    r = run(wbuf_slice(&batch), &RULES, CODEC_ZSTD, UINT64_MAX, &steps);
    cr_assert(eq(int, steps, 1));
    struct batch_header h;
    struct batch_fault f;
    cr_assert(eq(int, recode_result(r, &h, &f), ERR_OK));
    cr_assert(lt(sz, recode_memory_size(r), 600 << 10), "only what is stored is kept");
    recode_free(r);
    /* Given up half-way: nothing leaks (ASan). */
    cr_assert(eq(int, batch_check_head(wbuf_slice(&batch), &RULES, &h, &f), ERR_OK));
    const struct recode_wish wish = {
        wbuf_slice(&batch), &h, &RULES, CODEC_LZ4, CODEC_LEVEL_DEFAULT};
    for (int n = 0; n < 60; n += 7) {
        cr_assert(eq(int, recode_new(&wish, &r), ERR_OK));
        for (int i = 0; i < n && !recode_is_done(r); i++) {
            (void)recode_step(r, STEP_NS);
        }
        recode_free(r);
    }
    wbuf_done(&batch);
}

/* Small records cost more to walk than their bytes to unpack: the walk is cut too, and says the
 * same as one that is not. */
Test(recode, the_walk_over_many_small_records_is_cut_too)
{
    enum {
        COUNT = 200000,
        WALK_NS = 50000,
    };
    struct batch_builder b;
    struct wbuf batch;
    batch_builder_init(&b, SIZE_MAX_TEST * 4);
    wbuf_init(&batch, SIZE_MAX_TEST * 4);
    for (int i = 0; i < COUNT; i++) {
        const struct batch_record record = {.timestamp = 1000 + i % 7};
        cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    }
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &IDENTITY, &batch), ERR_OK));
    batch_builder_done(&b);
    struct batch_rules rules = RULES;
    rules.size_max = SIZE_MAX_TEST * 4;
    struct batch_header h;
    struct batch_fault f;
    cr_assert(eq(int, batch_check_head(wbuf_slice(&batch), &rules, &h, &f), ERR_OK));
    struct batch_walk w;
    batch_walk_init(&w, &h, batch_records_part(wbuf_slice(&batch)), &rules);
    h.max_timestamp = 0;
    int walked = 0;
    while (!w.is_done) {
        cr_assert(eq(int, batch_walk_step(&w, 4096, &f), ERR_OK));
        walked++;
    }
    cr_assert(eq(i64, h.max_timestamp, 1006));
    cr_assert(lt(int, COUNT * 8 / 4096 - 10, walked));

    int steps;
    struct recode *r = run(wbuf_slice(&batch), &rules, CODEC_NONE, WALK_NS, &steps);
    cr_assert(lt(int, 10, steps), "steps=%d", steps);
    cr_assert(eq(int, recode_result(r, &h, &f), ERR_OK));
    recode_free(r);

    /* The last record lies, and is found. */
    batch.data[batch.size - 4] ^= 0x40;
    batch_header_encode(&h, batch_records_part(wbuf_slice(&batch)), batch.data);
    r = run(wbuf_slice(&batch), &rules, CODEC_NONE, WALK_NS, &steps);
    cr_assert(lt(int, 10, steps));
    cr_assert(eq(int, recode_result(r, &h, &f), ERR_RECORD_INVALID));
    cr_assert(eq(i32, f.record_index, COUNT - 1));
    recode_free(r);
    wbuf_done(&batch);
}

static enum err result_of(struct wbuf *batch, const struct batch_rules *rules, const char *why)
{
    int steps;
    struct recode *r = run(wbuf_slice(batch), rules, CODEC_NONE, STEP_NS, &steps);
    struct batch_header h;
    struct batch_fault f;
    enum err e = recode_result(r, &h, &f);
    cr_assert(f.message != NULL && strstr(f.message, why) != NULL, "%s", f.message);
    recode_free(r);
    wbuf_done(batch);
    return e;
}

/* Changes the records part and makes the CRC right again: what a broken client sends. */
static void spoil(struct wbuf *batch, size_t pos)
{
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(wbuf_slice(batch), &h), ERR_OK));
    batch->data[BATCH_HEADER_SIZE + pos] ^= 0x40;
    batch_header_encode(&h, batch_records_part(wbuf_slice(batch)), batch->data);
}

Test(recode, what_cannot_be_stored_is_an_error_with_a_reason)
{
    struct wbuf batch = make(CODEC_GZIP, 10, 1000);
    spoil(&batch, 200);
    cr_assert(eq(int, result_of(&batch, &RULES, "cannot be decompressed"), ERR_RECORD_INVALID));

    struct batch_rules rules = RULES;
    rules.timestamp_before_ms_max = 10;
    batch = make(CODEC_LZ4, 10, 1000);
    cr_assert(eq(int, result_of(&batch, &rules, "timestamp"), ERR_TIMESTAMP_INVALID));

    /* Small enough as it came, too large as it would be stored. */
    batch = make(CODEC_GZIP, 100, 1000);
    rules = RULES;
    rules.size_max = 80000;
    cr_assert(lt(sz, batch.size, rules.size_max));
    cr_assert(eq(int, result_of(&batch, &rules, "max.message.bytes"), ERR_TOO_LARGE));
}

Test(recode, log_append_time_is_set_on_the_way)
{
    struct wbuf batch = make(CODEC_SNAPPY, 3, 10);
    struct batch_rules rules = RULES;
    rules.is_log_append_time = true;
    int steps;
    struct recode *r = run(wbuf_slice(&batch), &rules, CODEC_LZ4, STEP_NS, &steps);
    struct batch_header h;
    struct batch_fault f;
    cr_assert(eq(int, recode_result(r, &h, &f), ERR_OK));
    cr_assert(eq(int, h.attributes, BATCH_LOG_APPEND_TIME | CODEC_LZ4));
    cr_assert(eq(i64, h.max_timestamp, rules.wall_ms));
    recode_free(r);
    wbuf_done(&batch);
}
