/* Cuts: what was removed is gone, for readers at once and for every later recovery, also when a
 * crash interrupts the cut at any step, and whatever the disk kept of the old bytes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/segment_format.h"

#include "tests/support/log_rig.h"

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* A life that a crash ends leaks. */
}

static struct log_rig *rig_new(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    return rig;
}

static void rig_start(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
}

static void rig_end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* Entries of about size bytes, group of them in one write. */
static void fill(struct log_rig *rig, int count, size_t size, int group)
{
    for (int i = 0; i < count; i++) {
        enum err e = log_rig_append(rig, 1, size, 1000 + i);
        if (e == ERR_BUSY) {
            log_rig_flush(rig);
            e = log_rig_append(rig, 1, size, 1000 + i);
        }
        cr_assert(eq(int, e, ERR_OK));
        if (i % group == group - 1) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
}

static void reopen(struct log_rig *rig)
{
    log_rig_stop(rig);
    rig_start(rig);
    cr_assert(eq(u64, log_last_index(rig->log), rig->model_count));
    log_rig_expect_recovered(rig);
    log_rig_expect_readable(rig, 8 << 10);
}

/* Every cut point of a log of several segments, in the middle of blocks and at their start. */
Test(cut, at_every_index)
{
    for (uint64_t index = 1; index <= 62; index += 3) {
        struct log_rig *rig = rig_new(1000 + index);
        rig->options.segment_size_max = 32 << 10;
        rig->shared_options.cache_size_max = index % 2 == 0 ? 0 : 64 << 20;
        rig_start(rig);
        fill(rig, 60, 1300, 3);
        cr_assert(eq(int, log_rig_cut(rig, index), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(u64, log_last_index(rig->log), index > 60 ? 60 : index - 1));
        cr_assert(eq(i64, log_next_offset(rig->log), (int64_t)rig->model_count));
        log_rig_expect_readable(rig, 8 << 10);
        rig->term++;
        fill(rig, 10, 900, 2);
        log_rig_expect_readable(rig, 8 << 10);
        reopen(rig);
        fill(rig, 10, 900, 2);
        reopen(rig);
        rig_end(rig);
    }
}

Test(cut, behind_the_end_changes_nothing)
{
    struct log_rig *rig = rig_new(2000);
    rig_start(rig);
    fill(rig, 5, 100, 1);
    cr_assert(eq(int, log_rig_cut(rig, 6), ERR_OK));
    cr_assert(eq(u64, log_last_index(rig->log), 5));
    cr_assert(eq(u64, log_stats(rig->log)->cuts, 0));
    reopen(rig);
    rig_end(rig);
}

/* What was appended and is not even written yet can be cut. */
Test(cut, of_entries_in_memory)
{
    struct log_rig *rig = rig_new(2001);
    rig_start(rig);
    for (int i = 0; i < 5; i++) {
        cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000), ERR_OK));
    }
    cr_assert(eq(int, log_rig_cut(rig, 3), ERR_OK));
    cr_assert(eq(u64, log_last_index(rig->log), 2));
    fill(rig, 3, 500, 1);
    reopen(rig);
    rig_end(rig);
}

struct cut_wait {
    struct log_cut cut;
    bool is_done;
};

static void on_cut(struct log_cut *c)
{
    container_of(c, struct cut_wait, cut)->is_done = true;
}

/* A crash after any number of steps: the cut happened or it did not, nothing else; and what comes
 * after it is never mixed with what was cut. */
static bool crash_in_cut(uint64_t seed, uint64_t steps, uint64_t index)
{
    struct log_rig *rig = rig_new(seed);
    rig->options.segment_size_max = 24 << 10;
    rig_start(rig);
    fill(rig, 30, 1300, 3);
    if (seed % 2 == 0) {
        log_rig_settle(rig);
    }
    uint64_t last_index = log_last_index(rig->log);
    struct cut_wait w = {.cut = {.index = index, .on_cut = on_cut}};
    log_cut_begin(rig->log, &w.cut);
    for (uint64_t i = 0; i < steps && !w.is_done; i++) {
        (void)sim_shard_step(&rig->ss);
    }
    bool is_done = w.is_done;
    log_rig_crash(rig, NULL);
    /* Recovery may be interrupted, too. */
    log_rig_start(rig);
    log_rig_open_begin(rig);
    for (uint64_t i = rand_below(&rig->ss.rand, 300); i > 0; i--) {
        (void)sim_shard_step(&rig->ss);
    }
    log_rig_crash(rig, NULL);

    rig_start(rig);
    uint64_t recovered_index = log_last_index(rig->log);
    bool is_legal = recovered_index == index - 1 || (recovered_index == last_index && !is_done);
    cr_assert(is_legal,
              "seed=%llu steps=%llu index=%llu\n%s",
              (unsigned long long)seed,
              (unsigned long long)steps,
              (unsigned long long)recovered_index,
              rig->ss.log_text);
    log_rig_model_cut(rig, recovered_index + 1);
    log_rig_expect_recovered(rig);
    rig->term++;
    fill(rig, 6, 700, 2);
    log_rig_crash(rig, NULL);
    rig_start(rig);
    log_rig_expect_recovered(rig);
    log_rig_expect_readable(rig, 8 << 10);
    rig_end(rig);
    return is_done;
}

Test(cut, a_crash_at_every_step)
{
    static const uint64_t indexes[] = {1, 5, 16, 29};
    for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
        bool is_done = false;
        for (uint64_t steps = 0; !is_done; steps += 3) {
            is_done = crash_in_cut(3000 + i * 500 + steps, steps, indexes[i]);
        }
    }
}

/* D is lowered by a cut: what is torn behind it later was not known durable, though D had been
 * higher once. */
Test(cut, lowers_d)
{
    struct log_rig *rig = rig_new(4000);
    rig_start(rig);
    fill(rig, 10, 500, 1);
    log_rig_settle(rig); /* D = 10 is persisted. */
    cr_assert(eq(int, log_rig_cut(rig, 5), ERR_OK));
    log_rig_settle(rig);
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FDATASYNC,
                     .fd = IO_FAULT_ANY,
                     .at = 1,
                     .count = UINT32_MAX,
                     .action = IO_FAULT_HANG,
                 });
    rig->term++;
    cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000), ERR_OK));
    cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000), ERR_OK));
    for (int i = 0; i < 300; i++) {
        (void)sim_shard_step(&rig->ss);
    }
    cr_assert(eq(u64, log_size(rig->log) % 4096, 0), "not written");
    uint64_t pos = log_size(rig->log) - 4096; /* Of entry 5. */
    log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true, .keep_sector = 100});
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, pos + 30, 1), ERR_OK));
    rig_start(rig);
    cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "%s", rig->ss.log_text);
    cr_assert(eq(u64, log_last_index(rig->log), 4), "%s", rig->ss.log_text);
    log_rig_expect_recovered(rig);
    rig_end(rig);
}

/* Entry index, alone in its block at 4096 * index, is damaged at rest: it must be taken for that,
 * since it was known durable. */
static void expect_durable(struct log_rig *rig, uint64_t index, uint64_t pos)
{
    log_rig_settle(rig); /* D is persisted. */
    log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true});
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, pos + 30, 1), ERR_OK));
    rig_start(rig);
    struct log_damage d = {0};
    cr_assert(eq(sz, log_damage(rig->log, &d, 1), 1), "%s", rig->ss.log_text);
    cr_assert(eq(u64, d.first_index, index));
    cr_assert(eq(u64, log_stats(rig->log)->cuts, 0), "what was acknowledged is gone");
}

/* D comes due while the cut goes on: what it says then is of the generation before. As many entries
 * as before are appended after the cut, and D must say so. */
Test(cut, d_that_comes_due_meanwhile_is_persisted_again)
{
    struct log_rig *rig = rig_new(4100);
    rig_start(rig);
    fill(rig, 10, 500, 1);
    log_set_commit(rig->log, 4);
    log_rig_settle(rig);
    cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000), ERR_OK)); /* Flushed while it drains. */
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FSYNC_DIR,
                     .fd = IO_FAULT_ANY,
                     .at = 1,
                     .action = IO_FAULT_DELAY,
                     .delay_us = 3 * rig->shared_options.quiet_us,
                 });
    cr_assert(eq(int, log_rig_cut(rig, 5), ERR_OK));
    rig->term++;
    fill(rig, 7, 500, 1);
    cr_assert(eq(u64, log_flushed_index(rig->log), 11), "as many as before");
    expect_durable(rig, 11, log_size(rig->log) - 4096);
    rig_end(rig);
}

/* What is flushed while a cut drains is not forgotten when there turns out to be nothing to cut. */
Test(cut, of_nothing_leaves_d_to_be_persisted)
{
    struct log_rig *rig = rig_new(4200);
    rig->shared_options.quiet_us = 0;
    rig_start(rig);
    fill(rig, 3, 500, 1);
    cr_assert(eq(int, log_rig_append(rig, 1, 500, 1000), ERR_OK));
    cr_assert(eq(int, log_rig_cut(rig, 5), ERR_OK));
    expect_durable(rig, 4, log_size(rig->log) - 4096);
    rig_end(rig);
}

/* The intent is durable and the D that went with it is not: the one from before the cut says less
 * than it did, so the log may not think that it is what was put last. */
Test(cut, an_older_d_counts_as_what_it_is_lowered_to)
{
    struct log_rig *rig = rig_new(4300);
    rig_start(rig);
    fill(rig, 10, 500, 1);
    log_rig_settle(rig);
    cr_assert(eq(int, log_rig_cut(rig, 5), ERR_OK));
    log_rig_stop(rig);
    log_rig_start(rig);
    struct store_key key = {.log = log_rig_id(), .kind = STORE_DURABLE};
    struct durable_record old = {.generation = 1, .durable_index = 10};
    cr_assert(eq(int, store_put(rig->store, &key, durable_record_encode(&old)), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    rig->term++;
    fill(rig, 6, 500, 1);
    cr_assert(eq(u64, log_flushed_index(rig->log), 10));
    expect_durable(rig, 10, log_size(rig->log) - 4096);
    rig_end(rig);
}

struct end_wait {
    struct log_cut cut;
    bool is_cut;
    bool is_ended;
};

static void on_end_cut(struct log_cut *c)
{
    container_of(c, struct end_wait, cut)->is_cut = true;
}

static void on_end_closed(void *context)
{
    ((struct end_wait *)context)->is_ended = true;
}

static void on_end_deleted(void *context, enum err e)
{
    cr_assert(eq(int, e, ERR_OK));
    ((struct end_wait *)context)->is_ended = true;
}

/* A close or delete that comes during a cut, at any step of it, waits for the cut. */
Test(cut, is_finished_before_the_log_ends)
{
    for (uint32_t steps = 0; steps < 40; steps++) {
        bool is_delete = steps % 2 == 1;
        struct log_rig *rig = rig_new(5000 + steps);
        rig_start(rig);
        fill(rig, 10, 500, 1);
        struct end_wait w = {.cut = {.index = 5, .on_cut = on_end_cut}};
        log_cut_begin(rig->log, &w.cut);
        for (uint32_t i = 0; i < steps && !w.is_cut; i++) {
            (void)sim_shard_step(&rig->ss);
        }
        if (is_delete) {
            log_delete(rig->log, &w, on_end_deleted);
        } else {
            log_close(rig->log, &w, on_end_closed);
        }
        cr_assert(sim_shard_run_until(&rig->ss, &w.is_ended), "%s", rig->ss.log_text);
        cr_assert(w.is_cut, "steps=%u", steps);
        cr_assert(eq(int, w.cut.result, ERR_OK));
        rig->log = NULL;
        log_rig_model_cut(rig, is_delete ? 1 : 5);
        rig->acked_index = is_delete ? 0 : 4;
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(eq(u64, log_last_index(rig->log), is_delete ? 0 : 4));
        rig_end(rig);
    }
}

/* Who was refused before a cut hears of room after it, and a segment whose birth met a full disk is
 * born once there is space, wherever the cut found it. */
Test(cut, wakes_what_waited)
{
    for (uint32_t at = 0; at < 48; at++) {
        struct log_rig *rig = rig_new(6000 + at);
        rig_start(rig);
        fill(rig, 3, 500, 1);
        log_rig_settle(rig);
        disk_sim_set_capacity(rig->disk, disk_sim_used_size(rig->disk) + (at / 3) * (4 << 10));
        uint32_t rooms_count = rig->rooms_count;
        enum err e = ERR_OK;
        for (int i = 0; i < 150 && e == ERR_OK; i++) {
            e = log_rig_append(rig, 1, 1000, 1000);
        }
        bool is_refused = e != ERR_OK;
        for (uint32_t i = 0; i < (at % 3) * 100; i++) {
            (void)sim_shard_step(&rig->ss);
        }
        struct end_wait w = {
            .cut = {.index = at % 2 == 0 ? 3 : log_last_index(rig->log) + 1, .on_cut = on_end_cut},
        };
        log_cut_begin(rig->log, &w.cut);
        for (int i = 0; i < 300; i++) {
            (void)sim_shard_step(&rig->ss);
        }
        disk_sim_set_capacity(rig->disk, 0);
        cr_assert(sim_shard_run_until(&rig->ss, &w.is_cut), "at=%u %s", at, rig->ss.log_text);
        cr_assert(eq(int, w.cut.result, ERR_OK));
        log_rig_model_cut(rig, w.cut.index);
        rig->flushed_index = log_flushed_index(rig->log);
        log_rig_settle(rig);
        bool is_told = rig->rooms_count > rooms_count;
        cr_assert(is_told || !is_refused, "at=%u", at);
        fill(rig, 80, 1000, 1);
        cr_assert(eq(int, rig->failure, ERR_OK));
        cr_assert(eq(u64, rig->flushed_index, rig->model_count), "at=%u", at);
        rig_end(rig);
    }
}

/* Old entries that stay in the first cut block have good checksums, and follow right behind the
 * cut. Nothing may take them for the log's. */
Test(cut, leaves_old_bytes_that_never_come_back)
{
    for (uint64_t index = 2; index <= 8; index++) {
        struct log_rig *rig = rig_new(5000 + index);
        rig_start(rig);
        fill(rig, 8, 100, 8); /* All in one block. */
        log_rig_settle(rig);
        cr_assert(eq(int, log_rig_cut(rig, index), ERR_OK));
        reopen(rig);
        cr_assert(eq(int, log_rig_cut(rig, index - 1), ERR_OK)); /* Again, in the same block. */
        reopen(rig);
        rig->term++;
        fill(rig, 3, 100, 1);
        reopen(rig);
        rig_end(rig);
    }
}
