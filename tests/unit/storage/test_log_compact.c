/* Compaction and repacking of a log on the simulated disk. Goal: what readers see and what a start
 * finds is, at any moment and after a crash at any step, what a naive compaction could have left;
 * no file stays that the manifest does not name; readers of the old files go on. Method: tiny
 * segments, keys with a number in them, everything read back record by record. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/recycle.h"

#include "tests/support/log_rig.h"

enum {
    KEYS_MAX = 32,
    RECORDS_MAX = 4096,
    READ_SIZE = 256 << 10,
};

/* What was appended: the naive list. */
struct appended {
    int key;
    bool is_tombstone;
};

struct world {
    struct log_rig rig;
    struct appended records[RECORDS_MAX]; /* By offset. */
};

static struct world *world_new(uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    log_rig_init(&w->rig, seed);
    w->rig.shared_options.cache_size_max = 0;
    w->rig.shared_options.background = (struct pace_limits){0};
    w->rig.shared_options.compact_interval_us = 1000;
    w->rig.has_compaction = true;
    w->rig.compaction = (struct compaction_config){
        .is_compacted = true,
        .lag_ms_max = INT64_MAX,
        .delete_retention_ms = 1 << 30,
    };
    return w;
}

static void world_open(struct world *w)
{
    log_rig_start(&w->rig);
    cr_assert(eq(int, log_rig_open(&w->rig), ERR_OK), "%s", w->rig.ss.log_text);
    log_set_commit(w->rig.log, log_flushed_index(w->rig.log));
}

static void world_free(struct world *w)
{
    log_rig_stop(&w->rig);
    log_rig_done(&w->rig);
    free(w);
}

/* One batch; keys[i] < 0 is a tombstone of -keys[i] - 1. */
static void put(struct world *w, const int *keys, size_t count, size_t value_size)
{
    struct batch_builder b;
    batch_builder_init(&b, 1 << 20);
    uint8_t *value = calloc(1, value_size + 1);
    for (size_t i = 0; i < count; i++) {
        char name[16];
        const bool is_tombstone = keys[i] < 0;
        const int key = is_tombstone ? -keys[i] - 1 : keys[i];
        (void)snprintf(name, sizeof(name), "%d", key);
        const struct batch_record r = {
            .timestamp = w->rig.ss.s->wall_ms,
            .key = slice_of_string(name),
            .value = is_tombstone ? (struct slice){0} : slice_of(value, value_size),
        };
        cr_assert(eq(int, batch_builder_add(&b, &r), ERR_OK));
        w->records[log_next_offset(w->rig.log) + (int64_t)i] = (struct appended){key, is_tombstone};
    }
    struct wbuf bytes;
    wbuf_init(&bytes, 1 << 20);
    const struct batch_identity id = {-1, -1, -1};
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &id, &bytes), ERR_OK));
    while (log_rig_append_bytes(&w->rig, wbuf_slice(&bytes)) == ERR_BUSY) {
        cr_assert(sim_shard_step(&w->rig.ss));
    }
    wbuf_done(&bytes);
    batch_builder_done(&b);
    free(value);
}

static void flush(struct world *w)
{
    log_rig_flush(&w->rig);
    log_set_commit(w->rig.log, log_flushed_index(w->rig.log));
}

/* Random batches, flushed and committed. */
static void fill(struct world *w, int batches)
{
    struct rand *r = &w->rig.ss.rand;
    for (int i = 0; i < batches; i++) {
        int keys[6];
        const size_t count = 1 + rand_below(r, 6);
        for (size_t k = 0; k < count; k++) {
            const int key = (int)rand_below(r, KEYS_MAX);
            keys[k] = rand_one_in(r, 6) ? -key - 1 : key;
        }
        put(w, keys, count, 500);
        if (rand_one_in(r, 3)) {
            log_rig_flush(&w->rig);
        }
        if (rand_one_in(r, 20)) {
            w->rig.term++;
        }
    }
    flush(w);
}

static const struct log_shared_stats *stats(const struct world *w)
{
    return log_shared_stats(w->rig.shared);
}

/* Until count more runs have ended well. */
static void compact(struct world *w, uint64_t count)
{
    const uint64_t wanted = stats(w)->compactions + stats(w)->repacks + count;
    for (int steps = 0; stats(w)->compactions + stats(w)->repacks < wanted; steps++) {
        cr_assert(steps < 200 * 1000, "%s", w->rig.ss.log_text);
        cr_assert(sim_shard_step(&w->rig.ss));
    }
}

/* ---- what is there ---- */

struct census {
    uint32_t logs;
    uint32_t others;
};

static void on_file(void *context, const char *path, uint64_t size)
{
    struct census *c = context;
    (void)size;
    if (strstr(path, "/logs/") != NULL) {
        c->logs += strstr(path, ".log") != NULL;
        c->others += strstr(path, "rewrite.tmp") != NULL;
    }
}

static struct census files(const struct world *w)
{
    struct census c = {0};
    disk_sim_each_file(w->rig.disk, &c, on_file);
    return c;
}

static void count_value(void *context, uint64_t sub, struct slice value)
{
    (void)sub;
    (void)value;
    (*(uint32_t *)context)++;
}

static uint32_t manifest_records(const struct world *w)
{
    const struct partition_id id = log_rig_id();
    uint32_t count = 0;
    store_each(w->rig.store, &id, STORE_SEGMENT, &count, count_value);
    return count;
}

struct seen {
    int64_t offsets[RECORDS_MAX];
    size_t count;
    int64_t latest[KEYS_MAX];
};

/* Every record readers get from offset on; each must be what was appended at its offset. */
static void read_all(struct world *w, int64_t offset, struct seen *seen)
{
    uint8_t *dst = malloc(READ_SIZE);
    seen->count = 0;
    memset(seen->latest, -1, sizeof(seen->latest));
    const int64_t end = log_flushed_offset(w->rig.log);
    while (offset < end) {
        size_t size;
        enum err e = log_rig_read(&w->rig, offset, end, dst, READ_SIZE, &size);
        cr_assert(eq(int, e, ERR_OK), "offset=%lld %s", (long long)offset, w->rig.ss.log_text);
        if (size == 0) {
            break; /* Nothing is left up to the end. */
        }
        for (size_t at = 0; at < size;) {
            struct batch_header h;
            e = batch_header_decode(slice_of(dst + at, size - at), &h);
            cr_assert(eq(int, e, ERR_OK));
            const struct slice batch = slice_of(dst + at, batch_size(&h));
            cr_assert(batch_crc_matches(batch));
            cr_assert(lt(i64, offset - 1, h.base_offset + h.last_offset_delta));
            struct record_cursor cursor;
            struct record r;
            record_cursor_init(
                &cursor,
                &h,
                slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE));
            while (record_next(&cursor, &r) == ERR_OK) {
                const struct appended *was = &w->records[r.offset];
                cr_assert(eq(int, atoi((const char *)r.key.data), was->key));
                cr_assert(eq(int, slice_is_null(r.value), was->is_tombstone));
                seen->offsets[seen->count++] = r.offset;
                seen->latest[was->key] = r.offset;
            }
            offset = h.base_offset + h.last_offset_delta + 1;
            at += batch.size;
        }
    }
    free(dst);
}

/* The latest of each key is there, unless it is a tombstone. */
static void expect_latest(struct world *w, const struct seen *seen)
{
    int64_t latest[KEYS_MAX];
    memset(latest, -1, sizeof(latest));
    for (int64_t o = log_start_offset(w->rig.log); o < log_flushed_offset(w->rig.log); o++) {
        latest[w->records[o].key] = o;
    }
    for (int key = 0; key < KEYS_MAX; key++) {
        if (latest[key] >= 0 && !w->records[latest[key]].is_tombstone) {
            cr_assert(eq(i64, seen->latest[key], latest[key]), "key=%d", key);
        }
    }
}

static void expect_sound(struct world *w)
{
    struct seen seen;
    read_all(w, log_start_offset(w->rig.log), &seen);
    expect_latest(w, &seen);
}

/* ---- tests ---- */

Test(log_compact, the_worked_example)
{
    struct world *w = world_new(1);
    world_open(w);
    static const int keys[] = {0, 1, 0, 2, 1, 0, 3, 2}; /* A B A C B A D C */
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        put(w, &keys[i], 1, 100);
    }
    /* Others, to seal what is before them. */
    for (int i = 0; log_stats(w->rig.log)->rolls == 0; i++) {
        const int key = 10 + i;
        put(w, &key, 1, 9000);
    }
    flush(w);
    compact(w, 1);
    struct seen seen;
    read_all(w, 0, &seen);
    static const int64_t wanted[] = {4, 5, 6, 7};
    for (size_t i = 0; i < 4; i++) {
        cr_assert(eq(i64, seen.offsets[i], wanted[i]));
    }
    cr_assert(eq(i64, seen.offsets[4], 8));
    /* At an offset that is gone, a read starts with what comes next. */
    for (int64_t offset = 0; offset < 8; offset++) {
        read_all(w, offset, &seen);
        cr_assert(eq(i64, seen.offsets[0], offset < 4 ? 4 : offset));
    }
    log_rig_stop(&w->rig);
    world_open(w);
    read_all(w, 0, &seen);
    cr_assert(eq(i64, seen.offsets[0], 4));
    world_free(w);
}

Test(log_compact, random_logs_over_restarts)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct world *w = world_new(100 + seed);
        w->rig.shared_options.compact_keys_size_max = seed % 2 == 0 ? 24 * 16 : 1 << 20;
        world_open(w);
        for (int round = 0; round < 4; round++) {
            fill(w, 60);
            compact(w, 1);
            expect_sound(w);
            cr_assert(lt(u64, log_size(w->rig.log), 1 << 20));
            log_rig_stop(&w->rig);
            world_open(w);
            expect_sound(w);
            cr_assert(eq(u32, files(w).others, 0));
        }
        cr_assert(lt(u64, 1, log_clean_index(w->rig.log)));
        world_free(w);
    }
}

Test(log_compact, small_neighbours_become_one)
{
    struct world *w = world_new(2);
    world_open(w);
    for (int i = 0; log_stats(w->rig.log)->rolls < 6; i++) {
        const int key = i % 3;
        put(w, &key, 1, 3000);
    }
    flush(w);
    const uint32_t before = manifest_records(w);
    cr_assert(ge(u32, before, 7));
    compact(w, 1); /* Leaves little of each; only the next run knows how little. */
    for (int i = 0; log_stats(w->rig.log)->rolls < 8; i++) {
        const int key = i % 3;
        put(w, &key, 1, 3000);
    }
    flush(w);
    compact(w, 1);
    cr_assert(le(u32, manifest_records(w), 4));
    expect_sound(w);
    world_free(w);
}

/* Said again and again, even as other values, it puts nothing off. */
Test(log_compact, an_interval_that_is_set_again_puts_nothing_off)
{
    for (uint64_t other_us = 0; other_us <= 1000 * 1000; other_us += 1000 * 1000) {
        struct world *w = world_new(78);
        const uint64_t interval_us = 10ull * 1000 * 1000;
        w->rig.shared_options.compact_interval_us = interval_us;
        world_open(w);
        fill(w, 60);
        const uint64_t begin_us = w->rig.ss.clock.now_us;
        const size_t keys_size = w->rig.shared_options.compact_keys_size_max;
        for (int i = 0; stats(w)->compactions == 0; i++) {
            cr_assert(lt(u64, w->rig.ss.clock.now_us, begin_us + 3 * interval_us));
            log_shared_set_compaction(
                w->rig.env.shared, interval_us + (i % 2 == 0 ? 0 : other_us), keys_size);
            if (!shard_turn(w->rig.ss.s)) {
                w->rig.ss.clock.now_us += 1000;
            }
        }
        expect_sound(w);
        world_free(w);
    }
}

/* Whatever step it dies at: the old set of files or the new one counts, and nothing of the other
 * stays. */
Test(log_compact, a_crash_at_any_step)
{
    static const struct disk_sim_crash KINDS[] = {
        {.is_power_loss = false},
        {.is_power_loss = true},
        {.is_power_loss = true, .keep_sector = 50, .keep_extent = 50, .keep_name = 50},
    };
    for (int steps = 0; steps < 300; steps += 1 + steps / 60) {
        struct world *w = world_new(1000 + (uint64_t)steps);
        world_open(w);
        fill(w, 50);
        for (int i = 0; i < steps; i++) {
            (void)sim_shard_step(&w->rig.ss);
        }
        log_rig_crash(&w->rig, &KINDS[steps % 3]);
        world_open(w);
        cr_assert(ge(u64, log_last_index(w->rig.log), w->rig.acked_index));
        cr_assert(eq(u32, files(w).others, 0));
        cr_assert(eq(u32, files(w).logs, manifest_records(w)), "%s", w->rig.ss.log_text);
        expect_sound(w);
        fill(w, 60);
        compact(w, 1);
        expect_sound(w);
        cr_assert(eq(sz, log_damage(w->rig.log, NULL, 0), 0));
        world_free(w);
    }
}

Test(log_compact, a_cut_a_close_and_a_delete_interrupt_it)
{
    for (int how = 0; how < 3; how++) {
        for (int steps = 0; steps < 120; steps += 7) {
            struct world *w = world_new(3000 + (uint64_t)steps);
            world_open(w);
            fill(w, 50);
            const uint64_t committed = log_flushed_index(w->rig.log);
            const int key = 1;
            put(w, &key, 1, 100);
            put(w, &key, 1, 100);
            log_rig_flush(&w->rig);
            for (int i = 0; i < steps; i++) {
                (void)sim_shard_step(&w->rig.ss);
            }
            if (how == 0) {
                cr_assert(eq(int, log_rig_cut(&w->rig, committed + 1), ERR_OK));
                expect_sound(w);
                fill(w, 60);
                compact(w, 1);
                expect_sound(w);
            } else if (how == 1) {
                log_rig_stop(&w->rig);
                world_open(w);
                expect_sound(w);
            } else {
                log_rig_delete(&w->rig);
                cr_assert(eq(int, w->rig.delete_result, ERR_OK));
                cr_assert(eq(u32, files(w).logs + files(w).others, 0));
            }
            world_free(w);
        }
    }
}

/* It has begun, but waits for a flush first, while the run comes to its next group of segments. */
Test(log_compact, nothing_is_begun_at_a_log_that_is_being_cut)
{
    for (int steps = 0; steps < 400; steps += 3) {
        struct world *w = world_new(4000 + (uint64_t)steps);
        world_open(w);
        fill(w, 60);
        for (int i = 0; i < steps; i++) {
            (void)sim_shard_step(&w->rig.ss);
        }
        const int key = 1;
        put(w, &key, 1, 100);
        cr_assert(eq(int, log_rig_cut(&w->rig, log_last_index(w->rig.log)), ERR_OK));
        expect_sound(w);
        world_free(w);
    }
}

/* A cut into a segment that is sealed later: its record means nothing for the file that takes its
 * place. */
Test(log_compact, cuts_go_with_the_files_they_cut_into)
{
    struct world *w = world_new(5);
    world_open(w);
    const int key = 1;
    for (int i = 0; i < 10; i++) {
        put(w, &key, 1, 1000);
    }
    log_rig_flush(&w->rig);
    for (uint64_t index = 9; index > 6; index--) {
        cr_assert(eq(int, log_rig_cut(&w->rig, index), ERR_OK));
        put(w, &key, 1, 1000);
        log_rig_flush(&w->rig);
    }
    fill(w, 60);
    compact(w, 1);
    const struct partition_id id = log_rig_id();
    uint32_t cuts = 0;
    store_each(w->rig.store, &id, STORE_CUT, &cuts, count_value);
    cr_assert(eq(u32, cuts, 0));
    expect_sound(w);
    log_rig_stop(&w->rig);
    world_open(w);
    expect_sound(w);
    fill(w, 10); /* The generation did not fall back. */
    expect_sound(w);
    world_free(w);
}

static uint32_t holes(const struct world *w)
{
    const struct partition_id id = log_rig_id();
    uint32_t count = 0;
    store_each(w->rig.store, &id, STORE_HOLE, &count, count_value);
    return count;
}

/* Damage that was accepted becomes a gap like any other. */
Test(log_compact, an_accepted_loss_goes_with_the_file_it_is_in)
{
    struct world *w = world_new(15);
    w->rig.has_compaction = false;
    world_open(w);
    for (int key = 0; key < 4; key++) {
        put(w, &key, 1, 1000);
        log_rig_flush(&w->rig);
    }
    fill(w, 60);
    log_rig_stop(&w->rig);
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(w->rig.disk, path, 2 * 4096 + 200, 1), ERR_OK));
    w->rig.is_all_read = true;
    w->rig.accepts_loss = true;
    world_open(w);
    cr_assert(eq(u32, holes(w), 1));
    log_rig_stop(&w->rig);

    w->rig.is_all_read = false;
    w->rig.accepts_loss = false;
    w->rig.has_compaction = true;
    for (int life = 0; life < 2; life++) {
        world_open(w);
        fill(w, 10);
        compact(w, 1);
        cr_assert(eq(u32, holes(w), 0));
        cr_assert(eq(u64, stats(w)->losses, 0));
        expect_sound(w);
        log_rig_stop(&w->rig);
    }
    log_rig_done(&w->rig);
    free(w);
}

Test(log_compact, the_log_start_goes_on_beside_it)
{
    for (int steps = 0; steps < 120; steps += 5) {
        struct world *w = world_new(6000 + (uint64_t)steps);
        world_open(w);
        fill(w, 60);
        for (int i = 0; i < steps; i++) {
            (void)sim_shard_step(&w->rig.ss);
        }
        log_rig_set_start(&w->rig, log_flushed_offset(w->rig.log) - 20);
        for (int i = 0; i < 300; i++) {
            (void)sim_shard_step(&w->rig.ss);
        }
        expect_sound(w);
        cr_assert(eq(u32, files(w).logs, manifest_records(w)));
        world_free(w);
    }
}

/* ---- readers ---- */

struct slow_read {
    struct log_read read;
    bool is_done;
    uint8_t dst[READ_SIZE];
};

static void on_read(struct log_read *r)
{
    container_of(r, struct slow_read, read)->is_done = true;
}

/* It reads from the old files what was there when it began. */
Test(log_compact, a_read_that_is_under_way_goes_on)
{
    struct world *w = world_new(7);
    w->rig.shared_options.compact_interval_us = 600 * 1000 * 1000;
    world_open(w);
    fill(w, 60);
    io_fault_add(&w->rig.ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_READ,
                     .fd = IO_FAULT_ANY,
                     .path_part = "/logs",
                     .at = 1,
                     .action = IO_FAULT_HANG,
                 });
    struct slow_read *slow = calloc(1, sizeof(*slow));
    slow->read = (struct log_read){
        .offset = 0,
        .end_offset = log_flushed_offset(w->rig.log),
        .dst = slow->dst,
        .dst_size = READ_SIZE,
        .on_done = on_read,
    };
    log_read_begin(w->rig.log, &slow->read);
    compact(w, 1);
    cr_assert(not(slow->is_done));
    cr_assert(lt(u32, manifest_records(w), files(w).logs), "the old file is kept for it");
    io_fault_clear(&w->rig.ss.io_fault);
    io_fault_release(&w->rig.ss.io_fault);
    cr_assert(sim_shard_run_until(&w->rig.ss, &slow->is_done));
    cr_assert(eq(int, slow->read.result, ERR_OK));
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(slice_of(slow->dst, slow->read.size), &h), ERR_OK));
    cr_assert(eq(i64, h.base_offset, 0));
    expect_sound(w);
    world_free(w);
}

/* ---- repacking ---- */

Test(log_compact, padding_goes_and_nothing_else)
{
    struct world *w = world_new(8);
    w->rig.compaction = (struct compaction_config){.is_compacted = false};
    world_open(w);
    for (int i = 0; i < 100; i++) {
        const int key = i % KEYS_MAX;
        put(w, &key, 1, 100);
        log_rig_flush(&w->rig); /* So each is a block of its own. */
    }
    flush(w);
    const uint64_t size = log_size(w->rig.log);
    const uint64_t rolls = log_stats(w->rig.log)->rolls;
    cr_assert(ge(u64, rolls, 3));
    compact(w, rolls);
    cr_assert(lt(u64, log_size(w->rig.log), size / 2));
    log_rig_expect_readable(&w->rig, READ_SIZE);
    log_rig_settle(&w->rig); /* It comes to rest: no timer goes on. */
    cr_assert(eq(u64, stats(w)->repacks, rolls), "each once");
    log_rig_stop(&w->rig);
    world_open(w);
    log_rig_expect_recovered(&w->rig);
    log_rig_expect_readable(&w->rig, READ_SIZE);
    world_free(w);
}

/* ---- trouble ---- */

Test(log_compact, a_full_disk_and_a_failed_write_leave_the_old_files)
{
    static const struct {
        enum io_kind kind;
        int code;
        const char *part;
    } rows[] = {
        {IO_OPEN, 28, "rewrite.tmp"},
        {IO_WRITE, 28, "rewrite.tmp"},
        {IO_RENAME, 5, "rewrite.tmp"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world *w = world_new(50 + i);
        world_open(w);
        io_fault_add(&w->rig.ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = rows[i].kind,
                         .fd = IO_FAULT_ANY,
                         .path_part = rows[i].part,
                         .at = 1,
                         .count = 1,
                         .action = IO_FAULT_FAIL,
                         .code = rows[i].code,
                     });
        fill(w, 60);
        for (int steps = 0; stats(w)->compactions_failed == 0; steps++) {
            cr_assert(steps < 100 * 1000, "row %zu", i);
            cr_assert(sim_shard_step(&w->rig.ss));
        }
        cr_assert(eq(int, w->rig.failure, ERR_OK));
        expect_sound(w);
        cr_assert(eq(u32, files(w).others, 0));
        if (rows[i].code == 28) {
            compact(w, 1); /* It comes back by itself. */
            expect_sound(w);
        }
        world_free(w);
    }
}

/* The unfinished file may be as large as a segment: it is freed as one, and never used again. */
Test(log_compact, what_is_given_up_is_freed_at_the_pace)
{
    struct world *w = world_new(60);
    w->rig.has_recycling = true;
    w->rig.shared_options.recycle_size_max = 1 << 30;
    w->rig.shared_options.recycle_file_size_min = 4 << 10;
    world_open(w);
    struct io_fault *faults = &w->rig.ss.io_fault;
    struct io_fault_rule rule = {
        .kind = IO_UNLINK,
        .fd = IO_FAULT_ANY,
        .path_part = "rewrite.tmp",
        .at = UINT32_MAX, /* Only counted. */
    };
    io_fault_add(faults, &rule);
    rule.kind = IO_RENAME;
    rule.at = 1;
    rule.action = IO_FAULT_FAIL;
    rule.code = 5;
    io_fault_add(faults, &rule);
    fill(w, 60);
    for (int steps = 0; stats(w)->compactions_failed == 0; steps++) {
        cr_assert(steps < 100 * 1000);
        cr_assert(sim_shard_step(&w->rig.ss));
    }
    const struct recycle_stats *n = log_shared_recycle_stats(w->rig.shared);
    while (n->removed == 0) {
        cr_assert(sim_shard_step(&w->rig.ss));
    }
    cr_assert(eq(u32, io_fault_seen(faults, 0), 0));
    cr_assert(eq(u64, n->kept_count, 0));
    cr_assert(eq(int, w->rig.failure, ERR_OK));
    expect_sound(w);
    cr_assert(eq(u32, files(w).others, 0));
    world_free(w);
}

/* What nobody waits for leaves the reserve to those who do, and goes on when there is space. */
Test(log_compact, the_reserve_is_not_for_rewriting)
{
    struct world *w = world_new(77);
    const uint64_t interval_us = 10ull * 1000 * 1000;
    w->rig.shared_options.compact_interval_us = interval_us;
    log_rig_start(&w->rig);
    struct space space;
    const uint64_t reserve = 1 << 20;
    space_init(&space, w->rig.ss.s, "/data", reserve);
    w->rig.env.space = &space;
    cr_assert(eq(int, log_rig_open(&w->rig), ERR_OK), "%s", w->rig.ss.log_text);
    fill(w, 240);
    cr_assert(eq(u64, stats(w)->compactions, 0));
    const uint64_t used = disk_sim_used_size(w->rig.disk);
    disk_sim_set_capacity(w->rig.disk, used + reserve + (8 << 10));
    for (int steps = 0; stats(w)->compactions_failed < 2; steps++) {
        cr_assert(steps < 100 * 1000);
        cr_assert(sim_shard_step(&w->rig.ss));
    }
    cr_assert(le(u64, disk_sim_used_size(w->rig.disk), used + (8 << 10)));
    disk_sim_set_capacity(w->rig.disk, 0);
    compact(w, 1);
    expect_sound(w);
    world_free(w);
}
