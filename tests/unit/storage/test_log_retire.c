/* Segments that leave a log: by the log start. Goal: whoever uses a segment goes on with it, nobody
 * else finds it, its file goes at the shard's pace, and a crash at any step leaves a log without a
 * hole and no file for good. Method: tiny segments on the simulated disk, reads that hang, crashes
 * after every number of steps. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/log_priv.h"

#include "tests/support/log_rig.h"

enum {
    VALUE_SIZE = 3000,
    READ_SIZE = 512 << 10,
};

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = 0; /* Reads come from the disk. */
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

static void reopen(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
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

struct census {
    uint32_t logs;
    uint32_t others;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct census *c = context;
    (void)size;
    if (strstr(path, "/logs/") == NULL) {
        return;
    }
    c->logs += strstr(path, ".log") != NULL;
    c->others += strstr(path, ".log") == NULL;
}

static uint32_t segment_files(const struct log_rig *rig)
{
    struct census c = {0};
    disk_sim_each_file(rig->disk, &c, on_file);
    return c.logs;
}

static void count_value(void *context, uint64_t sub, struct slice value)
{
    (void)sub;
    (void)value;
    (*(uint32_t *)context)++;
}

static uint32_t manifest_records(const struct log_rig *rig)
{
    const struct partition_id id = log_rig_id();
    uint32_t count = 0;
    store_each(rig->store, &id, STORE_SEGMENT, &count, count_value);
    return count;
}

static void expect_out_of_range(struct log_rig *rig, int64_t offset)
{
    uint8_t dst[16];
    size_t size;
    cr_assert(
        eq(int, log_rig_read(rig, offset, INT64_MAX, dst, sizeof(dst), &size), ERR_OUT_OF_RANGE));
}

Test(log_retire, what_lies_below_the_start_goes)
{
    struct log_rig *rig = rig_open(1);
    fill(rig, 100);
    const uint32_t files = segment_files(rig);
    const uint64_t size = log_size(rig->log);
    cr_assert(ge(u32, files, 5));

    log_rig_set_start(rig, 50);
    cr_assert(lt(u64, 1, log_first_index(rig->log)));
    cr_assert(le(u64, log_first_index(rig->log), 51));
    cr_assert(lt(u64, log_size(rig->log), size));
    cr_assert(eq(u32, segment_files(rig), files), "files go later");
    expect_out_of_range(rig, 0);
    expect_out_of_range(rig, 49);
    cr_assert(eq(sz, log_readable_size(rig->log, 49, 100, 1 << 20), 0));
    cr_assert(lt(sz, 0, log_readable_size(rig->log, 50, 100, 1 << 20)));
    log_rig_expect_readable(rig, READ_SIZE);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), manifest_records(rig)));
    cr_assert(eq(u64, log_stats(rig->log)->removed_segments, files - segment_files(rig)));

    log_rig_stop(rig);
    reopen(rig);
    log_rig_expect_recovered(rig);
    /* The log does not remember its start, but what is gone is gone. */
    cr_assert(le(i64, log_start_offset(rig->log), 50));
    cr_assert(lt(i64, 0, log_start_offset(rig->log)));
    log_rig_set_start(rig, 50);
    log_rig_expect_readable(rig, READ_SIZE);
    fill(rig, 50);
    log_rig_expect_readable(rig, READ_SIZE);
    rig_close(rig);
}

Test(log_retire, the_last_segment_stays_until_there_is_another)
{
    struct log_rig *rig = rig_open(2);
    fill(rig, 30);
    log_rig_set_start(rig, 30);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    cr_assert(eq(u32, manifest_records(rig), 1));
    log_rig_stop(rig);
    reopen(rig);
    log_rig_expect_recovered(rig);
    log_rig_set_start(rig, 30);
    log_rig_expect_readable(rig, READ_SIZE); /* Nothing. */
    fill(rig, 30);
    log_set_commit(rig->log, log_flushed_index(rig->log));
    log_rig_expect_readable(rig, READ_SIZE);
    cr_assert(lt(u64, 1, log_first_index(rig->log)), "rolled away from, it went");
    rig_close(rig);
}

/* Above the commit a cut may still come: what it would stand on stays. */
Test(log_retire, nothing_goes_that_is_not_committed)
{
    struct log_rig *rig = rig_open(3);
    fill(rig, 100);
    log_set_commit(rig->log, 3);
    log_set_start(rig->log, 100);
    cr_assert(eq(u64, log_first_index(rig->log), 1));
    log_set_commit(rig->log, 100);
    cr_assert(lt(u64, 1, log_first_index(rig->log)));
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    rig_close(rig);
}

/* The log of group 0: no entry takes an offset, and its start never moves. */
Test(log_retire, entries_without_offsets_stay)
{
    struct log_rig *rig = rig_open(10);
    for (int i = 0; i < 100; i++) {
        while (log_rig_append_other(rig, ENTRY_CONTROLLER, VALUE_SIZE) == ERR_BUSY) {
            cr_assert(sim_shard_step(&rig->ss));
        }
        log_rig_flush(rig);
        log_set_commit(rig->log, log_flushed_index(rig->log));
    }
    cr_assert(ge(u64, log_stats(rig->log)->rolls, 3));
    log_set_start(rig->log, 0);
    cr_assert(eq(u64, log_first_index(rig->log), 1));
    log_rig_stop(rig);
    reopen(rig);
    log_rig_expect_recovered(rig);
    rig_close(rig);
}

struct slow_read {
    struct log_read read;
    bool is_done;
    uint8_t *dst;
};

static void on_read(struct log_read *r)
{
    container_of(r, struct slow_read, read)->is_done = true;
}

/* Begins a read whose first read from the disk hangs. */
static struct slow_read *begin_slow(struct log_rig *rig, int64_t offset)
{
    struct slow_read *slow = calloc(1, sizeof(*slow));
    slow->dst = malloc(READ_SIZE);
    slow->read = (struct log_read){
        .offset = offset,
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
    return slow;
}

/* The bytes are those of the model from the read's offset on. */
static void end_slow(struct log_rig *rig, struct slow_read *slow)
{
    io_fault_clear(&rig->ss.io_fault);
    io_fault_release(&rig->ss.io_fault);
    cr_assert(sim_shard_run_until(&rig->ss, &slow->is_done));
    cr_assert(eq(int, slow->read.result, ERR_OK), "%s", rig->ss.log_text);
    cr_assert(lt(sz, 0, slow->read.size));
    size_t at = (size_t)slow->read.offset;
    for (size_t done = 0; done < slow->read.size; at++) {
        const struct rig_entry *m = &rig->model[at];
        cr_assert(le(sz, m->payload_size, slow->read.size - done));
        cr_assert(memcmp(slow->dst + done, m->payload, m->payload_size) == 0, "offset=%zu", at);
        done += m->payload_size;
    }
    free(slow->dst);
    free(slow);
}

Test(log_retire, a_read_keeps_its_segment)
{
    struct log_rig *rig = rig_open(4);
    fill(rig, 100);
    struct slow_read *slow = begin_slow(rig, 2);
    const uint32_t files = segment_files(rig);
    log_rig_set_start(rig, 100);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 2), "of %u: the tail and the one that is read", files);
    end_slow(rig, slow);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    rig_close(rig);
}

/* It reads what it has, and goes on behind it where the log goes on. */
Test(log_retire, a_read_crosses_from_a_retired_segment)
{
    struct log_rig *rig = rig_open(5);
    fill(rig, 100);
    const int64_t second = 20; /* In the second segment. */
    struct slow_read *slow = begin_slow(rig, 2);
    log_rig_set_start(rig, second + 5);
    cr_assert(lt(u64, 2, log_first_index(rig->log)));
    cr_assert(le(u64, log_first_index(rig->log), (uint64_t)second + 6));
    end_slow(rig, slow);
    rig_close(rig);
}

/* The index of a segment without points in memory is brought while the segment is retired. */
Test(log_retire, a_read_that_waits_for_an_index_keeps_its_segment)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, 6);
    rig->shared_options.cache_size_max = 0;
    rig->shared_options.index_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 100);
    log_rig_settle(rig);
    struct slow_read *slow = begin_slow(rig, 2); /* It is the index that hangs. */
    log_rig_set_start(rig, 100);
    log_rig_settle(rig);
    end_slow(rig, slow);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    cr_assert(eq(u64, log_stats(rig->log)->index_rebuilds, 0));
    rig_close(rig);
}

/* Nobody needs it any more when its turn comes. */
Test(log_retire, an_index_file_that_waits_for_its_turn)
{
    struct log_rig *rig = rig_open(9);
    rig->shared->index_turns_count = LOG_INDEX_TURNS_MAX; /* Other logs have them all. */
    fill(rig, 100);
    log_set_commit(rig->log, log_flushed_index(rig->log));
    log_set_start(rig->log, 100);
    rig->shared->index_turns_count = 0;
    shard_post(rig->ss.s, &rig->shared->index_turns);
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    rig_close(rig);
}

Test(log_retire, files_go_at_the_pace)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, 7);
    rig->shared_options.background = (struct pace_limits){.ops_per_s = 2};
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 200);
    const uint32_t files = segment_files(rig);
    cr_assert(ge(u32, files, 9));
    log_rig_set_start(rig, 200);
    const uint64_t from_us = rig->ss.s->now_us;
    log_rig_settle(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    cr_assert(ge(u64, rig->ss.s->now_us - from_us, (files - 2) * 490 * 1000));
    rig_close(rig);
}

/* A close does not wait for them, the next start removes them. A delete takes them along. */
Test(log_retire, a_close_and_a_delete_with_files_still_there)
{
    for (int is_delete = 0; is_delete < 2; is_delete++) {
        for (int steps = 0; steps < 40; steps++) {
            struct log_rig *rig = malloc(sizeof(*rig));
            log_rig_init(rig, 800 + (uint64_t)steps);
            rig->shared_options.background = (struct pace_limits){.ops_per_s = 1000};
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK));
            fill(rig, 100);
            log_rig_set_start(rig, 100);
            for (int i = 0; i < steps; i++) {
                (void)sim_shard_step(&rig->ss);
            }
            if (is_delete == 1) {
                log_rig_delete(rig);
                cr_assert(eq(int, rig->delete_result, ERR_OK), "%s", rig->ss.log_text);
                cr_assert(eq(u32, segment_files(rig), 0));
            }
            log_rig_stop(rig);
            log_rig_start(rig);
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
            cr_assert(eq(u32, segment_files(rig), manifest_records(rig)));
            if (is_delete == 0) {
                log_rig_expect_recovered(rig);
            }
            rig_close(rig);
        }
    }
}

/* Whatever step it dies at: all records from the start on are there, no file stays that the
 * manifest does not name, also with cuts in what was retired. */
Test(log_retire, a_crash_at_any_step)
{
    static const struct disk_sim_crash KINDS[] = {
        {.is_power_loss = false},
        {.is_power_loss = true},
        {.is_power_loss = true, .keep_sector = 50, .keep_extent = 50, .keep_name = 50},
    };
    for (int with_cut = 0; with_cut < 2; with_cut++) {
        for (int steps = 0; steps < 60; steps++) {
            struct log_rig *rig = rig_open(1000 + (uint64_t)steps);
            fill(rig, 60);
            if (with_cut == 1) {
                cr_assert(eq(int, log_rig_cut(rig, 40), ERR_OK));
                cr_assert(eq(int, log_rig_cut(rig, 25), ERR_OK));
                fill(rig, 60);
            }
            const int64_t start = log_flushed_offset(rig->log) - 5;
            log_rig_set_start(rig, start);
            for (int i = 0; i < steps; i++) {
                (void)sim_shard_step(&rig->ss);
            }
            log_rig_crash(rig, &KINDS[steps % 3]);
            reopen(rig);
            log_rig_expect_recovered(rig);
            cr_assert(le(i64, log_start_offset(rig->log), start));
            cr_assert(eq(u32, segment_files(rig), manifest_records(rig)));
            log_rig_expect_readable(rig, READ_SIZE);
            log_rig_set_start(rig, start);
            log_rig_settle(rig);
            log_rig_stop(rig);
            reopen(rig); /* The cuts that were left have gone, too. */
            log_rig_expect_recovered(rig);
            rig_close(rig);
        }
    }
}

/* The store has no room for a deletion's record or the unlink fails: nothing but space is lost. */
Test(log_retire, a_file_that_cannot_be_removed_stays_for_the_next_start)
{
    struct log_rig *rig = rig_open(9);
    fill(rig, 100);
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_UNLINK,
                     .fd = IO_FAULT_ANY,
                     .path_part = ".log",
                     .at = 1,
                     .count = 2,
                     .action = IO_FAULT_FAIL,
                     .code = 5,
                 });
    log_rig_set_start(rig, 100);
    log_rig_settle(rig);
    cr_assert(eq(int, rig->failure, ERR_OK));
    cr_assert(eq(u32, segment_files(rig), 3));
    cr_assert(ne(ptr, strstr(rig->ss.log_text, "log_segment_not_removed"), NULL));
    io_fault_clear(&rig->ss.io_fault);
    log_rig_stop(rig);
    reopen(rig);
    cr_assert(eq(u32, segment_files(rig), 1));
    rig_close(rig);
}
