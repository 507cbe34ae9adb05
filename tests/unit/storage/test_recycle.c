/* Files that leave a log and become segments again. Goal: a log in steady state writes nothing but
 * its entries, what a file held before never shows, no file is given away that somebody uses or the
 * store names, nothing is kept or left without bound, and large files are freed at the pace.
 * Method: tiny segments on the simulated disk, reads that hang, crashes after every number of
 * steps. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/log_purge.h"
#include "storage/recycle.h"
#include "storage/space.h"

#include "tests/support/log_rig.h"

enum {
    KIB = 1024,
    VALUE_SIZE = 3000,
    READ_SIZE = 512 << 10,
    SEGMENT_SIZE = 64 << 10,
};

static struct log_rig *rig_new(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->has_recycling = true;
    rig->shared_options.cache_size_max = 0; /* Reads come from the disk. */
    rig->shared_options.recycle_size_max = 8 * SEGMENT_SIZE;
    rig->shared_options.recycle_file_size_min = 16 * KIB;
    return rig;
}

static void rig_open(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* count batches of one record, flushed. */
static void fill(struct log_rig *rig, int count)
{
    for (int i = 0; i < count; i++) {
        while (log_rig_append(rig, 1, VALUE_SIZE, 1000 + i) == ERR_BUSY) {
            cr_assert(sim_shard_step(&rig->ss));
        }
        if (i % 5 == 0) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
}

/* The log holds the last kept records. */
static void retain(struct log_rig *rig, int64_t kept)
{
    const int64_t start = log_flushed_offset(rig->log) - kept;
    if (start > 0) {
        log_rig_set_start(rig, start);
        log_rig_settle(rig);
    }
}

static const struct recycle_stats *stats(const struct log_rig *rig)
{
    return log_shared_recycle_stats(rig->shared);
}

struct census {
    const char *part;
    uint32_t count;
    uint64_t size;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct census *c = context;
    if (strstr(path, c->part) != NULL) {
        c->count++;
        c->size += size;
    }
}

static struct census files(const struct log_rig *rig, const char *part)
{
    struct census c = {.part = part};
    disk_sim_each_file(rig->disk, &c, on_file);
    return c;
}

static uint64_t filled(const struct log_rig *rig)
{
    return log_stats(rig->log)->filled_bytes;
}

Test(recycle, in_steady_state_only_entries_are_written)
{
    struct log_rig *rig = rig_new(1);
    rig_open(rig);
    for (int i = 0; i < 20; i++) { /* Until as many files go as come. */
        fill(rig, 10);
        retain(rig, 50);
    }
    const uint64_t before = filled(rig);
    const uint64_t hits = stats(rig)->hits;
    const uint64_t rolls = log_stats(rig->log)->rolls;
    cr_assert(lt(u64, 2, hits));
    for (int i = 0; i < 40; i++) {
        fill(rig, 10);
        retain(rig, 50);
        log_rig_expect_readable(rig, READ_SIZE);
    }
    cr_assert(lt(u64, rolls + 10, log_stats(rig->log)->rolls));
    cr_assert(ge(u64, stats(rig)->hits - hits, log_stats(rig->log)->rolls - rolls - 1));
    cr_assert(le(u64, filled(rig) - before, 64 * KIB), "%" PRIu64, filled(rig) - before);

    /* A start knows how far the file was written before. */
    for (const uint64_t all = log_stats(rig->log)->rolls; log_stats(rig->log)->rolls == all;) {
        fill(rig, 1);
        retain(rig, 50);
    }
    log_rig_stop(rig);
    rig_open(rig);
    log_rig_expect_recovered(rig);
    fill(rig, 8);
    cr_assert(eq(u64, filled(rig), 0));
    fill(rig, 200);
    log_rig_expect_readable(rig, READ_SIZE);
    rig_close(rig);
}

/* Torn writes in a recycled file: everything behind the tail looks like entries. */
Test(recycle, a_crash_at_any_step)
{
    static const struct disk_sim_crash KINDS[] = {
        {.is_power_loss = false},
        {.is_power_loss = true},
        {.is_power_loss = true, .keep_sector = 50, .keep_extent = 50, .keep_name = 50},
        {.is_power_loss = true, .keep_sector = 50, .mangle_sector = 50, .keep_name = 70},
    };
    uint64_t hits = 0;
    for (int with_cut = 0; with_cut < 2; with_cut++) {
        for (int steps = 0; steps < 120; steps++) {
            struct log_rig *rig = rig_new(1000 + (uint64_t)steps);
            rig_open(rig);
            for (int i = 0; i < 12; i++) {
                fill(rig, 10);
                retain(rig, 40);
            }
            if (with_cut == 1) {
                const uint64_t index = log_last_index(rig->log) + 1;
                fill(rig, 30);
                cr_assert(eq(int, log_rig_cut(rig, index), ERR_OK));
            }
            hits += stats(rig)->hits;
            for (int i = 0; i < 25; i++) {
                (void)log_rig_append(rig, 1, VALUE_SIZE, 5000);
            }
            const int64_t start = log_flushed_offset(rig->log) - 5;
            log_set_commit(rig->log, log_flushed_index(rig->log));
            log_set_start(rig->log, start);
            for (int i = 0; i < steps; i++) {
                (void)sim_shard_step(&rig->ss);
            }
            log_rig_crash(rig, &KINDS[steps % 4]);
            rig_open(rig);
            log_rig_expect_recovered(rig);
            log_rig_expect_readable(rig, READ_SIZE);
            fill(rig, 100);
            retain(rig, 20);
            log_rig_expect_readable(rig, READ_SIZE);
            log_rig_crash(rig, &KINDS[(steps + 1) % 4]);
            rig_open(rig);
            log_rig_expect_recovered(rig);
            log_rig_settle(rig);
            cr_assert(eq(u32, files(rig, "/recycle/").count, stats(rig)->kept_count));
            rig_close(rig);
        }
    }
    cr_assert(lt(u64, 300, hits));
}

/* A quiet end in the middle of a recycled file is not a torn write: no cut, no line. */
Test(recycle, a_clean_end_is_not_torn)
{
    struct log_rig *rig = rig_new(2);
    rig_open(rig);
    for (int i = 0; i < 20; i++) {
        fill(rig, 10);
        retain(rig, 40);
    }
    cr_assert(lt(u64, 0, stats(rig)->hits));
    log_rig_stop(rig);
    for (int i = 0; i < 3; i++) {
        rig_open(rig);
        log_rig_expect_recovered(rig);
        cr_assert(eq(u64, log_stats(rig->log)->cuts, 0), "%s", rig->ss.log_text);
        fill(rig, 1);
        log_rig_settle(rig);
        log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true});
    }
    rig_open(rig);
    log_rig_expect_recovered(rig);
    cr_assert(eq(u64, log_stats(rig->log)->cuts, 0));
    rig_close(rig);
}

/* ---- who uses a file ---- */

struct slow_read {
    struct log_read read;
    bool is_done;
    uint8_t dst[READ_SIZE];
};

static void on_read(struct log_read *r)
{
    container_of(r, struct slow_read, read)->is_done = true;
}

Test(recycle, a_file_that_is_read_is_not_given_away)
{
    struct log_rig *rig = rig_new(3);
    rig_open(rig);
    fill(rig, 60);
    struct slow_read *slow = calloc(1, sizeof(*slow));
    slow->read = (struct log_read){
        .offset = 2,
        .end_offset = log_flushed_offset(rig->log),
        .dst = slow->dst,
        .dst_size = READ_SIZE,
        .on_done = on_read,
    };
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_READ,
                     .fd = IO_FAULT_ANY,
                     .path_part = "/logs",
                     .at = 1,
                     .action = IO_FAULT_HANG,
                 });
    log_read_begin(rig->log, &slow->read);
    sim_shard_settle(&rig->ss);
    cr_assert(not(slow->is_done));
    log_rig_set_start(rig, log_flushed_offset(rig->log));
    log_rig_settle(rig);
    const uint64_t kept = stats(rig)->kept_count;
    io_fault_clear(&rig->ss.io_fault);
    for (int i = 0; i < 10; i++) { /* Whatever was kept becomes a segment, and another's bytes. */
        fill(rig, 20);
    }
    cr_assert(eq(u64, stats(rig)->kept_count, 0), "of %" PRIu64, kept);
    io_fault_release(&rig->ss.io_fault);
    cr_assert(sim_shard_run_until(&rig->ss, &slow->is_done));
    cr_assert(eq(int, slow->read.result, ERR_OK), "%s", rig->ss.log_text);
    cr_assert(memcmp(slow->dst, rig->model[2].payload, rig->model[2].payload_size) == 0);
    log_rig_settle(rig);
    cr_assert(eq(u64, stats(rig)->kept_count, 1), "now it is free");
    free(slow);
    rig_close(rig);
}

/* The store may name a segment that a cut removed until the cut is done: its file is not used
 * again. */
Test(recycle, files_of_a_cut_are_only_removed)
{
    struct log_rig *rig = rig_new(4);
    rig_open(rig);
    fill(rig, 100);
    cr_assert(eq(int, log_rig_cut(rig, 20), ERR_OK));
    log_rig_settle(rig);
    cr_assert(eq(u64, stats(rig)->kept_count, 0));
    cr_assert(eq(u32, files(rig, "/recycle/").count, 0));
    cr_assert(ge(u64, stats(rig)->removed, 3));
    rig_close(rig);
}

/* ---- bounds ---- */

Test(recycle, no_more_is_kept_than_allowed)
{
    for (uint64_t segments = 0; segments < 4; segments++) {
        struct log_rig *rig = rig_new(5);
        rig->shared_options.recycle_size_max = segments * SEGMENT_SIZE;
        rig_open(rig);
        fill(rig, 200);
        log_rig_set_start(rig, 200);
        log_rig_settle(rig);
        const struct census kept = files(rig, "/recycle/");
        cr_assert(eq(u64, kept.count, segments));
        cr_assert(eq(u64, stats(rig)->kept_count, segments));
        cr_assert(le(u64, stats(rig)->kept_size, segments * SEGMENT_SIZE));
        cr_assert(eq(u64, kept.size, stats(rig)->kept_size), "written to the end");
        rig_close(rig);
    }
}

/* A share is never too small for a segment because there are many cores: the disk is. */
Test(recycle, what_a_shard_may_keep)
{
    const uint64_t gib = 1ull << 30;
    const struct {
        uint64_t asked_size;
        uint64_t fs_size;
        uint32_t shards_count;
        uint64_t wanted_size;
    } rows[] = {
        {4 * gib, 1000 * gib, 1, 4 * gib},
        {4 * gib, 1000 * gib, 9, 4 * gib},
        {4 * gib, 1000 * gib, 50, 2 * gib},
        {4 * gib, 40 * gib, 4, gib},
        {4 * gib, 40 * gib, 8, gib / 2},
        {gib, 10000 * gib, 64, gib},
        {UINT64_MAX, 100 * gib, 1, 10 * gib},
        {0, 1000 * gib, 4, 0},
        {4 * gib, 0, 4, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t size =
            recycle_size_max(rows[i].asked_size, rows[i].fs_size, rows[i].shards_count);
        cr_assert(eq(u64, size, rows[i].wanted_size), "row %zu", i);
        cr_assert(le(u64, size * rows[i].shards_count, rows[i].fs_size / 10), "row %zu", i);
    }
}

/* A log that does not fill its segments, or fills them over days, would only keep the space. */
Test(recycle, a_slow_log_gets_no_file)
{
    struct log_rig *rig = rig_new(6);
    rig->options.segment_size_max = 256 * SEGMENT_SIZE; /* 64 steps of 256 KiB, none so large. */
    rig->options.fill_step_max = 4 * SEGMENT_SIZE;
    rig_open(rig);
    fill(rig, 50);
    log_roll_next(rig->log);
    fill(rig, 50);
    log_rig_set_start(rig, 60);
    log_rig_settle(rig);
    cr_assert(eq(u64, stats(rig)->kept_count, 1));
    log_roll_next(rig->log);
    fill(rig, 50);
    cr_assert(eq(u64, stats(rig)->hits + stats(rig)->misses, 0));
    rig_close(rig);
}

enum {
    RESERVE = 400 * KIB,
};

static void set_free(struct log_rig *rig, uint64_t size)
{
    disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk) + size);
}

Test(recycle, given_back_before_anybody_is_refused)
{
    struct log_rig *rig = rig_new(7);
    struct space space;
    rig->has_recycling = false;
    log_rig_start(rig);
    space_init(&space, rig->ss.s, "/data", RESERVE);
    rig->env.space = &space;
    cr_assert(eq(int, log_shared_recycle(&rig->env), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 200);
    log_rig_set_start(rig, 200);
    for (int i = 0; i < 4000; i++) {
        (void)sim_shard_step(&rig->ss);
    }
    const uint64_t kept = stats(rig)->kept_size;
    cr_assert(ge(u64, kept, 4 * SEGMENT_SIZE));
    set_free(rig, 2 * RESERVE - 4 * KIB);
    /* Others fill the disk: nobody appends here. */
    while (stats(rig)->kept_count > 0 || log_shared_is_busy(rig->shared)) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    while (stats(rig)->waiting > 0 || log_shared_is_busy(rig->shared)) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    cr_assert(eq(u64, space.refused, 0));
    space_sample(&space);
    cr_assert(ge(u64, space.available_size + SEGMENT_SIZE, 2 * RESERVE - 4 * KIB + kept));
    /* And nothing is kept while it is so. */
    set_free(rig, RESERVE + 200 * KIB);
    space_sample(&space);
    fill(rig, 30);
    log_rig_set_start(rig, log_flushed_offset(rig->log));
    for (int i = 0; i < 4000; i++) {
        (void)sim_shard_step(&rig->ss);
    }
    cr_assert(eq(u64, stats(rig)->kept_count, 0));
    disk_sim_set_capacity(rig->disk, 0);
    rig_close(rig);
}

/* What waits for its turn when space gets tight waits no longer, nor does what comes then. */
Test(recycle, no_turn_is_waited_for_while_space_is_tight)
{
    struct log_rig *rig = rig_new(12);
    struct space space;
    rig->has_recycling = false;
    rig->shared_options.background = (struct pace_limits){.ops_per_s = 1};
    rig->shared_options.recycle_size_max = 2 * SEGMENT_SIZE;
    log_rig_start(rig);
    space_init(&space, rig->ss.s, "/data", RESERVE);
    rig->env.space = &space;
    cr_assert(eq(int, log_shared_recycle(&rig->env), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 300);
    log_rig_set_start(rig, 300);
    while (stats(rig)->waiting < 8) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    set_free(rig, RESERVE + 200 * KIB);
    const uint64_t from_us = rig->ss.s->now_us;
    while (stats(rig)->waiting + stats(rig)->kept_count > 0 || log_shared_is_busy(rig->shared)) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    cr_assert(lt(u64, rig->ss.s->now_us - from_us, 1500 * 1000), "%s", rig->ss.log_text);
    cr_assert(eq(u64, space.refused, 0));
    cr_assert(eq(u32, files(rig, "/recycle/").count, 0));
    disk_sim_set_capacity(rig->disk, 0);
    rig_close(rig);
}

/* ---- the directory ---- */

static void on_name(void *context, const char *name)
{
    struct log_rig *rig = context;
    char path[256];
    (void)snprintf(path, sizeof(path), "/data/recycle/%s", name);
    struct io_op op = {.kind = IO_UNLINK, .path = path};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
}

static bool has_dir(struct log_rig *rig)
{
    struct io_op op = {.kind = IO_MKDIR, .path = "/data/recycle"};
    return io_call(&rig->ss.s->io, &op) == ERR_EXISTS;
}

/* rm -rf, by somebody who needs the space now: the broker runs. */
Test(recycle, the_directory_is_removed)
{
    struct log_rig *rig = rig_new(13);
    rig_open(rig);
    for (int i = 0; i < 10; i++) {
        fill(rig, 20);
        retain(rig, 20);
    }
    fill(rig, 200);
    for (int round = 0; round < 2; round++) {
        log_rig_settle(rig);
        cr_assert(eq(int, io_list_dir(&rig->ss.s->io, "/data/recycle", rig, on_name), ERR_OK));
        struct io_op op = {
            .kind = IO_UNLINK, .path = "/data/recycle", .open_flags = IO_OPEN_DIRECTORY};
        cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
        if (round == 0) {
            retain(rig, 20);
        } else {
            log_rig_delete(rig);
            cr_assert(eq(int, rig->delete_result, ERR_OK));
            log_rig_settle(rig);
        }
        cr_assert(le(u32, files(rig, "/logs/").count, round == 0 ? 5 : 0), "nothing stays");
        cr_assert(has_dir(rig));
        cr_assert(eq(u32, files(rig, "/recycle/").count, stats(rig)->kept_count));
        const uint64_t hits = stats(rig)->hits;
        for (int i = 0; i < 20 && round == 0; i++) {
            fill(rig, 20);
            retain(rig, 20);
            log_rig_expect_readable(rig, READ_SIZE);
        }
        cr_assert(eq(int, stats(rig)->hits > hits, round == 0));
        if (round == 0) {
            fill(rig, 200);
        }
    }
    rig_close(rig);
}

/* ---- deletes, leftovers ---- */

/* A delete takes names away; what they hold is freed at the pace, and the log of the same id may be
 * there again meanwhile. */
Test(recycle, a_delete_does_not_wait_for_its_files)
{
    struct log_rig *rig = rig_new(8);
    rig->shared_options.background = (struct pace_limits){.ops_per_s = 2};
    rig->shared_options.recycle_size_max = SEGMENT_SIZE;
    rig_open(rig);
    fill(rig, 200);
    const uint32_t count = files(rig, ".log").count;
    cr_assert(ge(u32, count, 9));
    const uint64_t from_us = rig->ss.s->now_us;
    log_rig_delete(rig);
    cr_assert(eq(int, rig->delete_result, ERR_OK), "%s", rig->ss.log_text);
    cr_assert(lt(u64, rig->ss.s->now_us - from_us, 1000 * 1000));
    cr_assert(eq(u32, files(rig, "/logs/").count, 0));
    cr_assert(ge(u32, files(rig, "/recycle/").count, count - 2));

    log_rig_model_cut(rig, 1);
    rig->acked_index = 0;
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 30);
    log_rig_expect_readable(rig, READ_SIZE);
    log_rig_settle(rig);
    cr_assert(eq(u32, files(rig, "/recycle/").count, stats(rig)->kept_count));
    cr_assert(ge(u64, rig->ss.s->now_us - from_us, (count - 4) * 490 * 1000));
    rig_close(rig);
}

static void on_purged(void *context, enum err e)
{
    cr_assert(eq(int, e, ERR_OK));
    (*(int *)context)++;
}

/* Many small logs: names are work, too. */
Test(recycle, deletes_of_many_logs_are_paced)
{
    struct log_rig *rig = rig_new(11);
    rig->shared_options.background = (struct pace_limits){.ops_per_s = 2};
    rig_open(rig);
    const uint64_t from_us = rig->ss.s->now_us;
    int purged = 0;
    for (int i = 0; i < 32; i++) {
        struct partition_id id = log_rig_id();
        id.partition += 1 + i;
        log_purge_begin(&rig->env, &id, &purged, on_purged);
    }
    log_rig_settle(rig);
    cr_assert(eq(int, purged, 32));
    cr_assert(ge(u64, rig->ss.s->now_us - from_us, 2 * 490 * 1000));
    /* A stop waits for no turn. */
    for (int i = 0; i < 32; i++) {
        struct partition_id id = log_rig_id();
        id.partition += 1 + i;
        log_purge_begin(&rig->env, &id, &purged, on_purged);
    }
    log_shared_stop_background(rig->shared);
    const uint64_t stop_us = rig->ss.s->now_us;
    while (purged < 64) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    cr_assert(lt(u64, rig->ss.s->now_us - stop_us, 490 * 1000));
    rig_close(rig);
}

/* What an earlier start left goes in the background, from the logs' directories at once. */
Test(recycle, leftovers_of_an_earlier_start)
{
    struct log_rig *rig = rig_new(9);
    rig->shared_options.background = (struct pace_limits){.ops_per_s = 4};
    rig_open(rig);
    fill(rig, 300);
    log_rig_set_start(rig, 300);
    while (stats(rig)->kept_count < 3) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    log_rig_stop(rig); /* Retired segments stay where they are. */
    const uint32_t left = files(rig, ".log").count;
    cr_assert(ge(u32, left, 5));
    cr_assert(eq(u32, files(rig, "/recycle/").count, 3));
    log_rig_start(rig);
    const uint64_t from_us = rig->ss.s->now_us;
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    log_rig_expect_recovered(rig);
    cr_assert(lt(u64, rig->ss.s->now_us - from_us, 500 * 1000), "no turn was waited for");
    cr_assert(eq(u32, files(rig, ".log").count, 1));
    cr_assert(ge(u32, files(rig, "/recycle/").count, left - 1));
    cr_assert(eq(u64, stats(rig)->kept_count, 0), "nothing of an earlier start is used");
    log_rig_settle(rig);
    cr_assert(eq(u32, files(rig, "/recycle/").count, 0));
    cr_assert(ge(u64, rig->ss.s->now_us - from_us, (left - 2) * 240 * 1000));
    rig_close(rig);
}

/* The renames fail: files are removed where they are, and segments begin as ever. */
Test(recycle, without_renames_it_goes_on)
{
    static const char *const FROM[] = {".log", "/recycle/"};
    for (int i = 0; i < 2; i++) {
        struct log_rig *rig = rig_new(10);
        rig_open(rig);
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = IO_RENAME,
                         .fd = IO_FAULT_ANY,
                         .path_part = FROM[i],
                         .at = 1,
                         .count = 1000,
                         .action = IO_FAULT_FAIL,
                         .code = 5,
                     });
        for (int k = 0; k < 20; k++) {
            fill(rig, 20);
            retain(rig, 20);
            log_rig_expect_readable(rig, READ_SIZE);
        }
        cr_assert(eq(int, rig->failure, ERR_OK));
        cr_assert(le(u32, files(rig, ".log").count, 3));
        cr_assert(eq(int, stats(rig)->hits > 0, i == 1));
        io_fault_clear(&rig->ss.io_fault);
        rig_close(rig);
    }
}
