/* When a segment is rolled: by size, by the time between its batches (Kafka's segment.ms), by the
 * size of its index. Each row appends one batch after another and says which of them began a
 * segment. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "storage/segment_index.h"

#include "tests/support/log_rig.h"

static struct log_rig *rig_open(uint64_t seed, const struct log_options *options)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->options = *options;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void rig_end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static uint64_t append_at(struct log_rig *rig, int64_t timestamp)
{
    const uint64_t before = log_stats(rig->log)->rolls;
    const struct rig_batch b = {.timestamps = &timestamp, .records_count = 1};
    cr_assert(eq(int, log_rig_append_batch(rig, &b), ERR_OK));
    log_rig_flush(rig);
    log_rig_settle(rig); /* The new segment is born: the next roll has to wait for no birth. */
    return log_stats(rig->log)->rolls - before;
}

/* Kafka: the new batch's largest timestamp minus that of the segment's first batch. */
Test(log_roll, by_the_time_of_the_batches)
{
    static const struct {
        const char *what;
        int64_t timestamps[6];
        const char *rolls; /* '|': this one began a segment. */
    } rows[] = {
        {"within", {1000, 1050, 1100}, "..."},
        {"beyond", {1000, 1100, 1101, 1201, 1202}, "..|.|"},
        {"late ones stay", {1000, 500, 0, 1100}, "...."},
        {"from the first, not the largest", {1000, 1090, 1080, 1101}, "...|"},
        {"one far ahead", {1000, 999999, 1001, 1000002}, ".|.."},
        {"a history written fast", {1000, 2000, 3000, 4000}, ".|||"},
        {"none after the first", {1000, -1, -1, 1101}, "...|"},
        {"the extremes", {0, INT64_MAX, 0, INT64_MIN}, ".|.."},
    };
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 100;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_open(i, &options);
        for (size_t k = 0; rows[i].rolls[k] != '\0'; k++) {
            uint64_t rolls = append_at(rig, rows[i].timestamps[k]);
            cr_assert(eq(u64, rolls, rows[i].rolls[k] == '|'), "%s, batch %zu", rows[i].what, k);
        }
        log_rig_expect_readable(rig, 4000);
        rig_end(rig);
    }
}

/* Where the first batch has no timestamp, the clock of the broker counts, since the segment began
 * or the broker started. */
Test(log_roll, by_the_clock_where_batches_have_no_time)
{
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 60 * 1000;
    struct log_rig *rig = rig_open(1, &options);
    cr_assert(eq(u64, append_at(rig, -1), 0));
    cr_assert(eq(u64, append_at(rig, INT64_C(1) << 40), 0));
    rig->ss.clock.now_us += 59 * 1000 * 1000;
    (void)sim_shard_step(&rig->ss);
    cr_assert(eq(u64, append_at(rig, -1), 0));
    rig->ss.clock.now_us += 2 * 1000 * 1000;
    (void)sim_shard_step(&rig->ss);
    cr_assert(eq(u64, append_at(rig, -1), 1));
    rig_end(rig);
}

/* A restart does not forget when the segment's time began. */
Test(log_roll, by_time_after_a_restart)
{
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 100;
    struct log_rig *rig = rig_open(2, &options);
    cr_assert(eq(u64, append_at(rig, 1000), 0));
    cr_assert(eq(u64, append_at(rig, 1090), 0));
    log_rig_stop(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    cr_assert(eq(u64, append_at(rig, 1100), 0));
    cr_assert(eq(u64, append_at(rig, 1101), 1));
    rig_end(rig);
}

/* Neither may a cut that empties the segment leave the time of a batch that is gone. */
Test(log_roll, by_time_after_a_cut)
{
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 100;
    struct log_rig *rig = rig_open(3, &options);
    cr_assert(eq(u64, append_at(rig, 1000), 0));
    cr_assert(eq(u64, append_at(rig, 1050), 0));
    cr_assert(eq(int, log_rig_cut(rig, 1), ERR_OK));
    cr_assert(eq(u64, append_at(rig, 1090), 0));
    cr_assert(eq(u64, append_at(rig, 1190), 0));
    cr_assert(eq(u64, append_at(rig, 1191), 1));
    rig_end(rig);
}

/* Entries that are no batches come with no time, and an idle log does nothing. */
Test(log_roll, nothing_but_a_batch_rolls_by_time)
{
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 100;
    struct log_rig *rig = rig_open(4, &options);
    cr_assert(eq(u64, append_at(rig, -1), 0));
    rig->ss.clock.now_us += 3600 * UINT64_C(1000) * 1000;
    log_rig_settle(rig);
    cr_assert(eq(u64, log_stats(rig->log)->rolls, 0));
    cr_assert(eq(int, log_rig_append_other(rig, ENTRY_NOOP, 0), ERR_OK));
    cr_assert(eq(u64, log_stats(rig->log)->rolls, 0));
    cr_assert(eq(u64, append_at(rig, 5), 1));
    rig_end(rig);
}

/* The jitter takes off a random part, drawn per segment: never all of segment.ms and none of it. */
Test(log_roll, with_jitter)
{
    bool is_early = false;
    bool is_late = false;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct log_options options = RIG_OPTIONS_TINY;
        options.segment_age_ms_max = 100;
        options.segment_jitter_ms_max = 50;
        options.segment_size_max = 1 << 20;
        struct log_rig *rig = rig_open(seed, &options);
        cr_assert(eq(u64, append_at(rig, 1000), 0));
        int64_t timestamp = 1000;
        while (append_at(rig, ++timestamp) == 0) {
        }
        cr_assert(lt(i64, 1050, timestamp));
        cr_assert(le(i64, timestamp, 1101));
        is_early |= timestamp < 1075;
        is_late |= timestamp > 1075;
        rig_end(rig);
    }
    cr_assert(is_early);
    cr_assert(is_late);
}

/* A jitter above segment.ms counts as that: some time is always left. */
Test(log_roll, with_a_jitter_beyond_the_age)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct log_options options = RIG_OPTIONS_TINY;
        options.segment_age_ms_max = 3;
        options.segment_jitter_ms_max = INT64_MAX;
        struct log_rig *rig = rig_open(seed, &options);
        cr_assert(eq(u64, append_at(rig, 1000), 0));
        cr_assert(eq(u64, append_at(rig, 1001), 0));
        cr_assert(eq(u64, append_at(rig, 1004), 1));
        rig_end(rig);
    }
}

/* segment.index.bytes: a segment never has more points than fit; one always does. */
Test(log_roll, by_a_full_index)
{
    static const struct {
        uint64_t size_max;
        uint32_t points_max;
    } rows[] = {{1, 1}, {32, 1}, {63, 1}, {64, 2}, {200, 6}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_options options = RIG_OPTIONS_TINY;
        options.segment_size_max = 1 << 20;
        options.index_interval = 8 << 10;
        options.index_size_max = rows[i].size_max;
        struct log_rig *rig = rig_open(10 + i, &options);
        for (int k = 0; k < 100; k++) {
            cr_assert(eq(int, log_rig_append(rig, 1, 1000, 1000), ERR_OK));
            log_rig_flush(rig);
            log_rig_settle(rig);
        }
        /* 100 blocks, two to a point: the last segment takes what is left. */
        const uint64_t blocks = UINT64_C(2) * rows[i].points_max;
        cr_assert(eq(u64, log_stats(rig->log)->rolls, (100 - 1) / blocks), "row=%zu", i);
        log_rig_expect_readable(rig, 4000);
        rig_end(rig);
    }
}

/* On a full disk a roll by time would refuse what the segment still has room for. */
Test(log_roll, not_by_time_on_a_full_disk)
{
    struct log_options options = RIG_OPTIONS_TINY;
    options.segment_age_ms_max = 100;
    options.fill_step_min = 32 << 10;
    options.fill_step_max = 32 << 10;
    struct log_rig *rig = rig_open(5, &options);
    cr_assert(eq(u64, append_at(rig, 1000), 0));
    disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk));
    for (int i = 0; i < 5; i++) { /* The next zeros are wanted, and cannot be had. */
        cr_assert(eq(int, log_rig_append(rig, 1, 2000, 1000), ERR_OK));
        for (int turn = 0; turn < 50; turn++) {
            (void)sim_shard_step(&rig->ss);
        }
    }
    cr_assert(eq(int, log_rig_append(rig, 1, 2000, 1101), ERR_OK), "there is room in the segment");
    cr_assert(eq(u64, log_stats(rig->log)->rolls, 0));
    disk_sim_set_capacity(rig->disk, 0);
    log_rig_settle(rig);
    cr_assert(eq(u64, append_at(rig, 1101), 1));
    rig_end(rig);
}
