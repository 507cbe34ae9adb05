/* The log on a simulated disk, without crashes: append, flush, read, roll, bounds, failures, close,
 * delete. The model is an array of entries (tests/support/log_rig.h). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/batch.h"

#include "tests/support/log_rig.h"

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    return rig;
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void append_ok(struct log_rig *rig, uint32_t records_count, size_t value_size)
{
    enum err e = log_rig_append(rig, records_count, value_size, 1000);
    if (e == ERR_BUSY) {
        log_rig_flush(rig); /* A segment is being born. */
        e = log_rig_append(rig, records_count, value_size, 1000);
    }
    cr_assert(eq(int, e, ERR_OK), "%s", rig->ss.log_text);
}

Test(log, a_partition_never_written_has_no_file)
{
    struct log_rig *rig = rig_open(1);
    cr_assert(eq(u64, log_last_index(rig->log), 0));
    cr_assert(eq(i64, log_next_offset(rig->log), 0));
    cr_assert(eq(u64, log_size(rig->log), 0));
    char path[256];
    log_rig_path(1, ".log", path);
    uint64_t size;
    cr_assert(eq(int, disk_sim_file_size(rig->disk, path, &size), ERR_NOT_FOUND));
    rig_close(rig);
}

Test(log, what_is_appended_is_flushed_and_read_back)
{
    struct log_rig *rig = rig_open(2);
    append_ok(rig, 3, 100);
    cr_assert(eq(u64, log_last_index(rig->log), 1));
    cr_assert(eq(u64, log_flushed_index(rig->log), 0), "not before the disk said so");
    log_rig_flush(rig);
    cr_assert(eq(u64, rig->flushed_index, 1));
    cr_assert(eq(i64, log_flushed_offset(rig->log), 3));
    log_rig_expect_readable(rig, 64 << 10);
    rig_close(rig);
}

Test(log, a_closed_log_opens_with_all_it_had)
{
    struct log_rig *rig = rig_open(3);
    for (int i = 0; i < 50; i++) {
        append_ok(rig, 1 + (uint32_t)i % 5, (size_t)i * 37);
    }
    log_rig_stop(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    rig->acked_index = rig->model_count; /* A clean close flushes everything. */
    log_rig_expect_recovered(rig);
    log_rig_expect_readable(rig, 64 << 10);
    append_ok(rig, 1, 10);
    log_rig_flush(rig);
    log_rig_expect_readable(rig, 64 << 10);
    rig_close(rig);
}

Test(log, segments_roll_by_size_and_reads_cross_them)
{
    struct log_rig *rig = rig_open(4);
    for (int i = 0; i < 400; i++) {
        append_ok(rig, 2, 500);
        if (i % 7 == 0) {
            log_rig_flush(rig);
        }
        if (i % 50 == 0) {
            cr_assert(eq(int, log_rig_append_other(rig, ENTRY_NOOP, (size_t)i), ERR_OK));
        }
    }
    log_rig_flush(rig);
    cr_assert(ge(u64, log_stats(rig->log)->rolls, 5));
    log_rig_expect_readable(rig, 4 << 10);
    log_rig_expect_readable(rig, 256 << 10);
    rig_close(rig);
}

/* Without a cache every read comes from the disk. */
Test(log, reads_from_disk_give_the_same)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, 5);
    rig->shared_options.cache_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    for (int i = 0; i < 300; i++) {
        append_ok(rig, 1 + (uint32_t)i % 3, (size_t)(i * 13) % 2000);
        if (i % 5 == 0) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
    log_rig_settle(rig);
    log_rig_expect_readable(rig, 5 << 10);
    log_rig_expect_readable(rig, 300 << 10);
    cr_assert(lt(u64, 0, log_stats(rig->log)->disk_read_bytes));
    rig_close(rig);
}

Test(log, a_batch_larger_than_a_segment_fits)
{
    struct log_rig *rig = rig_open(6);
    append_ok(rig, 1, 10);
    append_ok(rig, 1, 300 << 10);
    append_ok(rig, 1, 10);
    log_rig_flush(rig);
    cr_assert(eq(u64, rig->flushed_index, 3));
    log_rig_expect_readable(rig, 4 << 10);
    log_rig_stop(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    rig->acked_index = 3;
    log_rig_expect_recovered(rig);
    log_rig_expect_readable(rig, 4 << 10);
    rig_close(rig);
}

Test(log, reads_have_bounds)
{
    struct log_rig *rig = rig_open(7);
    for (int i = 0; i < 4; i++) {
        append_ok(rig, 10, 100); /* Offsets 0-9, 10-19, ... */
    }
    log_rig_flush(rig);
    static const struct {
        int64_t offset;
        int64_t end_offset;
        size_t dst_size;
        enum err result;
        int batches;
    } rows[] = {
        {0, 40, 64 << 10, ERR_OK, 4},
        {5, 40, 64 << 10, ERR_OK, 4}, /* The batch that contains it comes whole. */
        {10, 40, 64 << 10, ERR_OK, 3},
        {0, 10, 64 << 10, ERR_OK, 1},
        {0, 19, 64 << 10, ERR_OK, 1}, /* Only whole batches below end_offset. */
        {0, 9, 64 << 10, ERR_OK, 0},
        {40, 40, 64 << 10, ERR_OK, 0},
        {40, 50, 64 << 10, ERR_OK, 0},
        {41, 50, 64 << 10, ERR_OUT_OF_RANGE, 0},
        {-1, 40, 64 << 10, ERR_OUT_OF_RANGE, 0},
        {0, 40, 2500, ERR_OK, 1 + 1},
        {0, 40, 10, ERR_TOO_LARGE, 0},
    };
    const size_t batch_size = rig->model[0].payload_size;
    uint8_t dst[64 << 10];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t size;
        enum err e =
            log_rig_read(rig, rows[i].offset, rows[i].end_offset, dst, rows[i].dst_size, &size);
        cr_assert(eq(int, e, rows[i].result), "row=%zu", i);
        if (e == ERR_TOO_LARGE) {
            cr_assert(eq(sz, size, batch_size));
        } else {
            cr_assert(eq(sz, size, (size_t)rows[i].batches * batch_size), "row=%zu", i);
        }
    }
    cr_assert(eq(sz, log_readable_size(rig->log, 0, 40, 1 << 20), 4 * batch_size));
    cr_assert(eq(sz, log_readable_size(rig->log, 15, 30, 1 << 20), 2 * batch_size));
    cr_assert(eq(sz, log_readable_size(rig->log, 40, 40, 1 << 20), 0));
    cr_assert(eq(sz, log_readable_size(rig->log, 0, 40, 7), 7));
    rig_close(rig);
}

/* The backlog has a limit; what is refused changed nothing, and on_room comes. */
Test(log, a_full_backlog_refuses_and_calls_back)
{
    struct log_rig *rig = rig_open(8);
    enum err e = ERR_OK;
    uint64_t taken = 0;
    while (e == ERR_OK) {
        e = log_rig_append(rig, 1, 60 << 10, 1000);
        taken += e == ERR_OK;
        cr_assert(lt(u64, taken, 1000), "no limit");
    }
    cr_assert(eq(int, e, ERR_BUSY));
    cr_assert(eq(u64, log_last_index(rig->log), taken));
    cr_assert(eq(u32, rig->rooms_count, 0));
    log_rig_flush(rig);
    cr_assert(ge(u32, rig->rooms_count, 1));
    append_ok(rig, 1, 10);
    log_rig_flush(rig);
    log_rig_expect_readable(rig, 1 << 20);
    rig_close(rig);
}

Test(log, term_ends)
{
    struct log_rig *rig = rig_open(9);
    uint64_t term;
    int64_t offset;
    cr_assert(not(log_term_end(rig->log, 9, &term, &offset)));
    rig->term = 2;
    append_ok(rig, 5, 1);
    rig->term = 4;
    append_ok(rig, 3, 1);
    rig->term = 7;
    append_ok(rig, 1, 1);
    log_rig_flush(rig);
    for (int life = 0; life < 2; life++) {
        static const struct {
            uint64_t asked;
            bool is_known;
            uint64_t term;
            int64_t offset;
        } rows[] = {
            {1, false, 0, 0},
            {2, true, 2, 5},
            {3, true, 2, 5},
            {4, true, 4, 8},
            {6, true, 4, 8},
            {7, true, 7, 9},
            {8, true, 7, 9},
        };
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            bool is_known = log_term_end(rig->log, rows[i].asked, &term, &offset);
            cr_assert(eq(int, is_known, rows[i].is_known), "row=%zu", i);
            if (is_known) {
                cr_assert(eq(u64, term, rows[i].term), "row=%zu", i);
                cr_assert(eq(i64, offset, rows[i].offset), "row=%zu", i);
            }
        }
        log_rig_stop(rig);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    }
    rig_close(rig);
}

struct query_wait {
    struct log_time_query query;
    bool is_done;
};

static void on_query(struct log_time_query *q)
{
    container_of(q, struct query_wait, query)->is_done = true;
}

static void expect_time(struct log_rig *rig, int64_t timestamp, int64_t end_offset)
{
    struct query_wait w = {
        .query = {.timestamp = timestamp, .end_offset = end_offset, .on_done = on_query},
    };
    log_time_query_begin(rig->log, &w.query);
    cr_assert(sim_shard_run_until(&rig->ss, &w.is_done));
    cr_assert(eq(int, w.query.result, ERR_OK));
    int64_t expected = -1;
    for (size_t i = 0; i < rig->model_count && expected == -1; i++) {
        const struct rig_entry *m = &rig->model[i];
        if (m->type != ENTRY_DATA || m->next_offset > end_offset) {
            continue;
        }
        int64_t first_timestamp = m->max_timestamp - (m->next_offset - m->base_offset) + 1;
        if (m->max_timestamp >= timestamp) {
            int64_t skip = timestamp > first_timestamp ? timestamp - first_timestamp : 0;
            expected = m->base_offset + skip;
        }
    }
    cr_assert(eq(i64, w.query.ret_offset, expected), "timestamp=%lld", (long long)timestamp);
}

Test(log, the_first_record_at_or_after_a_time)
{
    for (int cached = 0; cached < 2; cached++) {
        struct log_rig *rig = malloc(sizeof(*rig));
        log_rig_init(rig, 10);
        rig->shared_options.cache_size_max = cached ? 64 << 20 : 0;
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        int64_t timestamp = 1000;
        for (int i = 0; i < 200; i++) {
            /* Clocks of producers differ: times go back now and then. */
            timestamp += (int64_t)rand_below(&rig->ss.rand, 50) - 10;
            enum err e = log_rig_append(rig, 1 + (uint32_t)i % 4, 700, timestamp);
            cr_assert(eq(int, e, ERR_OK));
            log_rig_flush(rig);
        }
        for (int64_t t = 900; t < timestamp + 20; t += 7) {
            expect_time(rig, t, log_flushed_offset(rig->log));
        }
        expect_time(rig, timestamp, 50);
        expect_time(rig, 0, 0);
        rig_close(rig);
    }
}

/* A query walks from the disk to entries that are in memory only, waiting for zeros ahead of the
 * tail: the end of the zeros is not the end of the log. Appends that run ahead of the zero-fill by
 * drawn amounts make the two meet at many places. */
Test(log, a_query_meets_entries_that_wait_for_zeros)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct log_rig *rig = malloc(sizeof(*rig));
        log_rig_init(rig, seed);
        rig->shared_options.cache_size_max = 0;
        rig->options.segment_size_max = 256 << 10;
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        for (int i = 0; i < 300; i++) {
            enum err e = log_rig_append(rig, 1, rand_below(&rig->ss.rand, 1500), 1000 + i);
            cr_assert(e == ERR_OK || e == ERR_BUSY);
            uint64_t flushed_index = log_flushed_index(rig->log);
            bool is_burst = rand_below(&rig->ss.rand, 20) != 0;
            for (uint64_t steps = is_burst ? 0 : 200; steps > 0; steps--) {
                (void)sim_shard_step(&rig->ss);
                if (log_flushed_index(rig->log) > flushed_index) {
                    break;
                }
            }
            if (log_flushed_index(rig->log) > flushed_index) {
                /* The newest has that time, and is not to be seen yet. */
                expect_time(rig,
                            rig->model[rig->model_count - 1].max_timestamp,
                            log_flushed_offset(rig->log));
            }
        }
        log_rig_flush(rig);
        log_rig_expect_readable(rig, 16 << 10);
        rig_close(rig);
    }
}

Test(log, a_deleted_log_leaves_nothing)
{
    struct log_rig *rig = rig_open(12);
    for (int i = 0; i < 200; i++) {
        append_ok(rig, 1, 1000);
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    log_rig_delete(rig);
    cr_assert(eq(int, rig->delete_result, ERR_OK));
    char path[256];
    uint64_t size;
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_file_size(rig->disk, path, &size), ERR_NOT_FOUND));
    /* The same log again is a new one. */
    log_rig_model_cut(rig, 1);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    cr_assert(eq(u64, log_last_index(rig->log), 0));
    append_ok(rig, 1, 10);
    log_rig_flush(rig);
    log_rig_expect_readable(rig, 4 << 10);
    rig_close(rig);
}

/* A full disk refuses, and space that comes back brings the log back by itself. */
Test(log, a_full_disk_is_no_failure)
{
    struct log_rig *rig = rig_open(13);
    append_ok(rig, 1, 1000);
    log_rig_flush(rig);
    log_rig_settle(rig);
    disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk) + (8 << 10));
    enum err e = ERR_OK;
    for (int i = 0; i < 1000 && e == ERR_OK; i++) {
        e = log_rig_append(rig, 1, 1000, 1000);
        for (int turn = 0; turn < 200; turn++) {
            (void)sim_shard_step(&rig->ss);
        }
    }
    cr_assert(eq(int, e, ERR_NO_SPACE));
    cr_assert(eq(int, rig->failure, ERR_OK));
    disk_sim_set_capacity(rig->disk, 0);
    log_rig_settle(rig);
    cr_assert(eq(u64, rig->flushed_index, rig->model_count));
    append_ok(rig, 1, 1000);
    log_rig_flush(rig);
    log_rig_expect_readable(rig, 64 << 10);
    rig_close(rig);
}

/* The name-link goes with its log, unless it leads to the log of a newer topic meanwhile, which may
 * live on a shard that we do not see. */
Test(log, a_delete_removes_only_its_own_name)
{
    static const char name[] = "/data/logs/topic-0";
    for (int is_taken = 0; is_taken < 2; is_taken++) {
        struct log_rig *rig = rig_open(70);
        struct io *io = &rig->ss.s->io;
        append_ok(rig, 1, 1000);
        log_rig_settle(rig);
        struct io_op link = {.kind = IO_SYMLINK, .path = "newer-0", .new_path = name};
        cr_assert(eq(int, io_call(io, &link), ERR_EXISTS));
        if (is_taken) {
            struct io_op op = {.kind = IO_MKDIR, .path = "/data/logs/newer-0"};
            cr_assert(eq(int, io_call(io, &op), ERR_OK));
            op = (struct io_op){.kind = IO_UNLINK, .path = name};
            cr_assert(eq(int, io_call(io, &op), ERR_OK));
            link = (struct io_op){.kind = IO_SYMLINK, .path = "newer-0", .new_path = name};
            cr_assert(eq(int, io_call(io, &link), ERR_OK));
        }
        log_rig_delete(rig);
        cr_assert(eq(int, rig->delete_result, ERR_OK));
        link = (struct io_op){.kind = IO_SYMLINK, .path = "newer-0", .new_path = name};
        cr_assert(eq(int, io_call(io, &link), is_taken ? ERR_EXISTS : ERR_OK));
        rig_close(rig);
    }
}

/* What a task could not remove when it was given up. */
Test(log, a_delete_removes_leftovers)
{
    static const char *const NAMES[] = {"next.tmp", "index.tmp", "checkpoint.tmp", "rewrite.tmp"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct log_rig *rig = rig_open(71);
        struct io *io = &rig->ss.s->io;
        append_ok(rig, 1, 1000);
        log_rig_settle(rig);
        char path[256];
        log_rig_path(1, ".log", path);
        char *name = strrchr(path, '/') + 1;
        (void)snprintf(name, sizeof(path) - (size_t)(name - path), "%s", NAMES[i]);
        struct io_op op = {
            .kind = IO_OPEN, .path = path, .open_flags = IO_OPEN_WRITE | IO_OPEN_CREATE};
        cr_assert(eq(int, io_call(io, &op), ERR_OK));
        op = (struct io_op){.kind = IO_CLOSE, .fd = op.result_fd};
        cr_assert(eq(int, io_call(io, &op), ERR_OK));
        log_rig_delete(rig);
        cr_assert(eq(int, rig->delete_result, ERR_OK), "%s", NAMES[i]);
        name[-1] = '\0';
        op = (struct io_op){.kind = IO_MKDIR, .path = path};
        cr_assert(eq(int, io_call(io, &op), ERR_OK), "%s: the directory is gone", NAMES[i]);
        rig_close(rig);
    }
}

/* A round that was in flight ends after the delete began, and the unlinks take long: nothing of the
 * log is put into the store again. */
Test(log, a_delete_with_a_round_in_flight_leaves_no_value)
{
    for (uint32_t steps = 0; steps < 24; steps++) {
        struct log_rig *rig = rig_open(40 + steps);
        append_ok(rig, 1, 1000);
        log_rig_settle(rig);
        append_ok(rig, 1, 1000);
        for (uint32_t i = 0; i < steps; i++) {
            (void)sim_shard_step(&rig->ss);
        }
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = IO_UNLINK,
                         .fd = IO_FAULT_ANY,
                         .at = 1,
                         .count = UINT32_MAX,
                         .action = IO_FAULT_DELAY,
                         .delay_us = 30 * 1000,
                     });
        log_rig_delete(rig);
        log_rig_settle(rig);
        cr_assert(eq(sz, log_rig_store_count(rig), 0), "steps=%u", steps);
        rig_close(rig);
    }
}

static void run_steps(struct log_rig *rig, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)sim_shard_step(&rig->ss);
    }
}

/* With space back, all that was taken gets to the disk, and the log goes on. */
static void expect_comes_back(struct log_rig *rig, const char *what, uint32_t at)
{
    log_rig_settle(rig);
    cr_assert(eq(int, rig->failure, ERR_OK), "%s at=%u %s", what, at, rig->ss.log_text);
    cr_assert(eq(u64, rig->flushed_index, log_last_index(rig->log)), "%s at=%u", what, at);
    append_ok(rig, 1, 1000);
    log_rig_settle(rig);
    cr_assert(eq(u64, rig->flushed_index, log_last_index(rig->log)), "%s at=%u", what, at);
}

/* Who was refused for want of room when there still was space is told that there is none, once, and
 * then gets ERR_NO_SPACE, however much of what was taken waits. */
Test(log, who_waits_for_room_learns_that_the_disk_is_full)
{
    struct log_rig *rig = rig_open(14);
    append_ok(rig, 1, 1000);
    log_rig_settle(rig);
    disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk));
    enum err e = ERR_OK;
    while (e == ERR_OK) {
        e = log_rig_append(rig, 1, 30 << 10, 1000);
    }
    cr_assert(eq(int, e, ERR_BUSY));
    uint32_t rooms_count = rig->rooms_count;
    run_steps(rig, 300);
    cr_assert(eq(u32, rig->rooms_count, rooms_count + 1));
    cr_assert(eq(int, log_rig_append(rig, 1, 30 << 10, 1000), ERR_NO_SPACE));
    run_steps(rig, 100);
    cr_assert(eq(u32, rig->rooms_count, rooms_count + 1), "told once");
    disk_sim_set_capacity(rig->disk, 0);
    expect_comes_back(rig, "room", 0);
    cr_assert(lt(u32, rooms_count + 1, rig->rooms_count));
    rig_close(rig);
}

/* However little space is left, and wherever it ends: in a fill, a spare, or a birth that met the
 * end of a spare. */
Test(log, a_disk_that_becomes_full_at_any_byte)
{
    static const uint32_t steps[] = {0, 1, 4};
    for (uint32_t at = 0; at < 3 * 36; at++) {
        struct log_rig *rig = rig_open(300 + at);
        append_ok(rig, 1, 1000);
        log_rig_settle(rig);
        disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk) + (at / 3) * (4 << 10));
        for (int i = 0; i < 150; i++) {
            (void)log_rig_append(rig, 1, 1000, 1000);
            run_steps(rig, steps[at % 3]);
        }
        run_steps(rig, 300);
        disk_sim_set_capacity(rig->disk, 0);
        expect_comes_back(rig, "byte", at);
        rig_close(rig);
    }
}

/* The same, with the n-th op of a birth as the first one that meets it. */
Test(log, the_nth_op_may_meet_a_full_disk)
{
    static const struct {
        const char *name;
        enum io_kind kind;
    } kinds[] = {
        {"open", IO_OPEN},
        {"mkdir", IO_MKDIR},
        {"fsync", IO_FSYNC},
        {"rename", IO_RENAME},
        {"fsync_dir", IO_FSYNC_DIR},
    };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t at = 1; at < 10; at++) {
            struct log_rig *rig = rig_open(500 + at);
            io_fault_add(&rig->ss.io_fault,
                         &(struct io_fault_rule){
                             .kind = kinds[k].kind,
                             .fd = IO_FAULT_ANY,
                             .path_part = "/logs",
                             .at = at,
                             .count = UINT32_MAX,
                             .action = IO_FAULT_FAIL,
                             .code = ENOSPC,
                         });
            for (int i = 0; i < 150; i++) {
                (void)log_rig_append(rig, 1, 1000, 1000);
                run_steps(rig, at % 4);
            }
            run_steps(rig, 300);
            io_fault_clear(&rig->ss.io_fault);
            expect_comes_back(rig, kinds[k].name, at);
            rig_close(rig);
        }
    }
}

/* Allocating room is a help, not a condition: whatever it says, the zeros decide. */
Test(log, a_fill_does_not_need_its_room_allocated)
{
    static const int codes[] = {EOPNOTSUPP, ENOSPC, EIO};
    for (size_t k = 0; k < sizeof(codes) / sizeof(codes[0]); k++) {
        struct log_rig *rig = rig_open(700);
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = IO_ALLOCATE,
                         .fd = IO_FAULT_ANY,
                         .at = 1,
                         .count = UINT32_MAX,
                         .action = IO_FAULT_FAIL,
                         .code = codes[k],
                     });
        for (int i = 0; i < 100; i++) {
            append_ok(rig, 1, 1000);
            log_rig_settle(rig);
        }
        cr_assert(lt(u64, 0, rig->ss.io_fault.injected));
        expect_comes_back(rig, "allocate", k);
        rig_close(rig);
    }
}

/* Whatever op fails: the log says so once, and closing it still ends. */
/* The step grows while a log is written to, and shrinks when it pauses. What is filled may then be
 * enough for the smaller one, wherever the tail stands. */
Test(log, filling_ahead_is_content_with_more_after_a_pause)
{
    uint32_t contents_count = 0;
    for (int blocks = 0; blocks < 24; blocks++) {
        struct log_rig *rig = malloc(sizeof(*rig));
        log_rig_init(rig, 40 + (uint64_t)blocks);
        rig->options.segment_size_max = 4 << 20;
        rig->options.fill_step_max = 128 << 10;
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        for (int i = 0; i < 200 + blocks; i++) {
            append_ok(rig, 1, 3000);
            log_rig_flush(rig);
        }
        for (int n = 0; n < 200; n++) {
            (void)sim_shard_step(&rig->ss); /* What is being filled. */
        }
        rig->ss.clock.now_us += 31 * 1000 * 1000;
        (void)sim_shard_step(&rig->ss);
        uint64_t filled_bytes = log_stats(rig->log)->filled_bytes;
        append_ok(rig, 1, 3000);
        log_rig_flush(rig);
        log_rig_settle(rig);
        contents_count += log_stats(rig->log)->filled_bytes == filled_bytes;
        cr_assert(le(u64, log_stats(rig->log)->filled_bytes, filled_bytes + (32 << 10)));
        log_rig_expect_readable(rig, 64 << 10);
        rig_close(rig);
    }
    cr_assert(lt(u32, 0, contents_count));
}

Test(log, the_nth_write_or_sync_may_fail)
{
    static const enum io_kind kinds[] = {
        IO_WRITE,
        IO_FSYNC,
        IO_FDATASYNC,
        IO_OPEN,
        IO_RENAME,
        IO_FSYNC_DIR,
        IO_MKDIR,
    };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        bool has_hit = true;
        for (uint32_t at = 1; has_hit && at < 40; at++) {
            struct log_rig *rig = rig_open(100 + at);
            uint64_t injected = rig->ss.io_fault.injected;
            io_fault_add(&rig->ss.io_fault,
                         &(struct io_fault_rule){
                             .kind = kinds[k],
                             .fd = IO_FAULT_ANY,
                             .path_part = "/logs",
                             .at = at,
                             .action = IO_FAULT_FAIL,
                             .code = EIO,
                         });
            for (int i = 0; i < 120 && rig->failure == ERR_OK; i++) {
                enum err e = log_rig_append(rig, 1, 1000, 1000);
                cr_assert(e == ERR_OK || e == ERR_BUSY || e == ERR_FAILED);
                log_rig_flush(rig);
            }
            has_hit = rig->ss.io_fault.injected > injected;
            bool is_sync =
                kinds[k] == IO_FSYNC || kinds[k] == IO_FDATASYNC || kinds[k] == IO_FSYNC_DIR;
            if (is_sync && has_hit) { /* Whoever's it was: others may count on what it dropped. */
                cr_assert(flusher_is_failed(rig->flusher), "kind=%d at=%u", (int)kinds[k], at);
            }
            /* A spare may fail without harm. */
            bool is_fine = rig->failure != ERR_OK || log_last_index(rig->log) == 120 || !has_hit;
            cr_assert(is_fine, "kind=%d at=%u", (int)kinds[k], at);
            io_fault_clear(&rig->ss.io_fault);
            uint64_t acked = rig->acked_index;
            log_rig_stop(rig);
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
            rig->acked_index = acked;
            log_rig_expect_recovered(rig);
            rig_close(rig);
        }
    }
}

/* Partitions that rest have no descriptor, and get one again when they are used. */
Test(log, a_file_that_nobody_uses_is_closed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, 70);
    rig->shared_options.files_idle_us = 1000 * 1000;
    rig->shared_options.cache_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    append_ok(rig, 1, 100);
    log_rig_flush(rig);
    cr_assert(eq(u64, log_shared_stats(rig->shared)->files_open, 1));
    log_rig_settle(rig);
    cr_assert(ge(u64, rig->ss.s->now_us, 1000 * 1000));
    cr_assert(eq(u64, log_shared_stats(rig->shared)->files_open, 0));
    log_rig_expect_readable(rig, 4096);
    append_ok(rig, 1, 100);
    log_rig_flush(rig);
    log_rig_expect_readable(rig, 4096);
    rig_close(rig);
}
