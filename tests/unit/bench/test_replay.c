/* Batches that are sent again: whole, valid, and stamped each time. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/replay.h"

#define NOW_MS 1700000000000

static struct workload w;
static struct replay r;

static void start(uint32_t value_size, size_t batch_size, enum client_codec codec)
{
    const struct workload_options o = {
        .value_size_min = value_size,
        .value_size_max = value_size,
        .keys = WORKLOAD_KEYS_ROUND,
        .keys_count = 1000,
        .key_size = 8,
        .run_id = 42,
        .seed = 7,
    };
    cr_assert(workload_init(&w, &o) == ERR_OK);
    const struct replay_options options = {
        .workload = &w, .batch_size = batch_size, .codec = codec};
    cr_assert(replay_init(&r, &options) == ERR_OK);
}

static void stop(void)
{
    replay_done(&r);
    workload_done(&w);
}

/* Sent so many milliseconds after NOW_MS. */
static void expect_batch(struct slice batch, uint64_t due_us, bool is_stamped)
{
    struct batch_header h;
    struct wbuf plain;
    struct slice records;
    cr_assert(batch_header_decode(batch, &h) == ERR_OK);
    cr_assert(eq(sz, batch_size(&h), batch.size));
    cr_assert(batch_crc_matches(batch));
    cr_assert(eq(int, h.records_count, r.records_count));
    cr_assert(eq(i64, h.base_timestamp, NOW_MS + (int64_t)due_us));
    cr_assert(eq(i64, h.max_timestamp, NOW_MS + (int64_t)due_us));
    wbuf_init(&plain, 1 << 20);
    cr_assert(batch_records(batch, 1 << 20, &plain, &records) == ERR_OK);
    struct record_cursor cursor;
    record_cursor_init(&cursor, &h, records);
    for (int32_t i = 0; i < h.records_count; i++) {
        struct record record;
        uint64_t got_us = 0;
        cr_assert(record_next(&cursor, &record) == ERR_OK);
        cr_assert(eq(sz, record.key.size, 8));
        cr_assert(eq(i64, record.timestamp, NOW_MS + (int64_t)due_us));
        cr_assert(workload_read_stamp(record.value, 42, &got_us));
        cr_assert(eq(u64, got_us, is_stamped ? due_us : 0));
    }
    wbuf_done(&plain);
}

/* Of the time when they are sent: retention would else take what is of 1970. */
Test(bench_replay, every_batch_is_valid_and_stamped)
{
    start(100, 4096, CLIENT_CODEC_NONE);
    cr_assert(eq(int, r.records_count, 34));
    cr_assert(eq(sz, r.batches_count, REPLAY_BATCHES_MAX));
    for (uint64_t due_us = 1; due_us < 3 * REPLAY_BATCHES_MAX; due_us++) {
        expect_batch(replay_next(&r, due_us, NOW_MS + (int64_t)due_us), due_us, true);
    }
    stop();
}

Test(bench_replay, compressed_batches_keep_their_stamps)
{
    for (enum client_codec codec = CLIENT_CODEC_GZIP; codec <= CLIENT_CODEC_ZSTD; codec++) {
        start(100, 4096, codec);
        for (uint64_t due_us = 1; due_us < REPLAY_BATCHES_MAX; due_us++) {
            expect_batch(replay_next(&r, due_us, NOW_MS + (int64_t)due_us), due_us, false);
        }
        stop();
    }
}

/* At least one record, at least one batch, and no more memory than is said. */
Test(bench_replay, large_records_make_few_batches)
{
    start(20 << 20, 64 << 10, CLIENT_CODEC_NONE);
    cr_assert(eq(int, r.records_count, 1));
    cr_assert(eq(sz, r.batches_count, 1));
    stop();
}
