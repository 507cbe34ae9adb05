/* Checkpoints: their bytes, when they are written, what recovery makes of them, and that they are
 * never trusted over the log. The owner's state of the rig is a checksum of all entries, which
 * on_restore compares with the model.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "storage/checkpoint.h"
#include "storage/dump_values.h"
#include "storage/log_priv.h"
#include "storage/segment_format.h"

#include "tests/support/log_rig.h"

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0"; /* A life that a crash ends leaks. */
}

/* ---- bytes ---- */

static void encode(struct wbuf *w)
{
    static const struct log_term terms[] = {{2, 1, 0}, {5, 30, 70}};
    static const struct segment_point points[] = {
        {.pos = 4096, .index = 21, .offset = 44, .max_timestamp = -1},
        {.pos = 9000, .index = 33, .offset = 75, .max_timestamp = 900},
    };
    struct checkpoint c = {
        .header =
            {
                .index = 40,
                .term = 5,
                .entry_id = 77,
                .next_offset = 90,
                .segment = 21,
                .salt = 8,
                .pos = 20000,
                .max_timestamp = 1000,
                .generation = 3,
                .start_index = 1,
            },
        .terms = slice_of(terms, sizeof(terms)),
        .points = slice_of(points, sizeof(points)),
        .state = slice_of_string("state"),
    };
    wbuf_init(w, 1 << 20);
    checkpoint_encode(&c, w);
    cr_assert(eq(int, wbuf_failure(w), ERR_OK));
}

Test(checkpoint, bytes_come_back)
{
    struct wbuf w;
    encode(&w);
    struct checkpoint c;
    cr_assert(eq(int, checkpoint_decode(wbuf_slice(&w), &c), ERR_OK));
    cr_assert(eq(u64, c.header.index, 40));
    cr_assert(eq(u64, c.header.pos, 20000));
    cr_assert(eq(u32, c.header.terms_count, 2));
    cr_assert(eq(u32, c.header.points_count, 2));
    cr_assert(eq(sz, c.configuration.size, 0));
    cr_assert(slice_equal_string(c.state, "state"));
    wbuf_done(&w);
}

Test(checkpoint, no_bytes_but_its_own_are_one)
{
    struct wbuf w;
    encode(&w);
    struct checkpoint c;
    for (size_t size = 0; size < w.size; size++) {
        cr_assert(ne(int, checkpoint_decode(slice_of(w.data, size), &c), ERR_OK), "%zu", size);
    }
    for (size_t at = 0; at < w.size; at++) {
        w.data[at] ^= 16;
        cr_assert(ne(int, checkpoint_decode(wbuf_slice(&w), &c), ERR_OK), "byte=%zu", at);
        w.data[at] ^= 16;
    }
    wbuf_done(&w);
}

/* ---- lives ---- */

static struct log_rig *rig_new(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->options.checkpoint_size = 16 << 10;
    return rig;
}

static struct log_rig *rig_open(uint64_t seed)
{
    struct log_rig *rig = rig_new(seed);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    return rig;
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* Appends entries of about 1 KiB, flushed and committed one by one. */
static void fill(struct log_rig *rig, int count)
{
    for (int i = 0; i < count; i++) {
        enum err e = log_rig_append(rig, 2, 500, 1000 + i);
        if (e == ERR_BUSY) {
            log_rig_flush(rig);
            e = log_rig_append(rig, 2, 500, 1000 + i);
        }
        cr_assert(eq(int, e, ERR_OK));
        log_rig_flush(rig);
        log_set_commit(rig->log, log_last_index(rig->log));
    }
}

static void die(struct log_rig *rig)
{
    log_rig_settle(rig);
    log_rig_crash(rig, &(struct disk_sim_crash){.is_power_loss = true});
}

static void reopen(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    log_rig_expect_recovered(rig);
    cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "%s", rig->ss.log_text);
    log_rig_expect_readable(rig, 8 << 10);
    rig->term++;
}

/* Recovery reads about what came since, however long the log is; everything is there all the same.
 * With the state in the store, and in a file. */
Test(checkpoint, bounds_what_recovery_reads)
{
    static const size_t state_sizes[] = {0, 30 << 10};
    for (size_t i = 0; i < 2; i++) {
        struct log_rig *rig = rig_open(10 + i);
        rig->state_size_max = state_sizes[i];
        fill(rig, 300);
        cr_assert(lt(u64, 3, log_stats(rig->log)->checkpoints));
        die(rig);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
        cr_assert(lt(u64, 270, rig->restored_index), "restored=%d", (int)rig->restored_index);
        cr_assert(le(u64, log_stats(rig->log)->disk_read_bytes, 64 << 10));
        log_rig_expect_recovered(rig);
        log_rig_expect_readable(rig, 8 << 10);
        fill(rig, 20);
        log_rig_stop(rig);
        reopen(rig);
        rig_close(rig);
    }
}

Test(checkpoint, a_clean_stop_leaves_nothing_to_replay)
{
    struct log_rig *rig = rig_open(20);
    fill(rig, 8);
    cr_assert(eq(u64, log_checkpoint_index(rig->log), 0), "little came");
    log_rig_stop(rig);
    reopen(rig);
    cr_assert(eq(u64, rig->restored_index, 8));
    cr_assert(eq(u64, rig->replayed_count, 0));
    rig_close(rig);
}

Test(checkpoint, a_small_log_pays_nothing)
{
    struct log_rig *rig = rig_open(21);
    rig->options.checkpoint_size = 1 << 20;
    log_rig_stop(rig);
    reopen(rig);
    fill(rig, 10);
    log_rig_stop(rig);
    log_rig_start(rig);
    struct slice value;
    struct store_key key = {.log = log_rig_id(), .kind = STORE_CHECKPOINT};
    cr_assert(not(store_get(rig->store, &key, &value)));
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    rig_close(rig);
}

/* What is not committed may be cut, so no checkpoint covers it, and one that waits goes with it. */
Test(checkpoint, covers_only_what_is_committed)
{
    struct log_rig *rig = rig_open(22);
    fill(rig, 5);
    for (int i = 0; i < 40; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 500, 1000), ERR_OK));
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    cr_assert(eq(u64, log_checkpoint_index(rig->log), 0));
    cr_assert(eq(int, log_rig_cut(rig, 6), ERR_OK));
    rig->term++;
    fill(rig, 3);
    die(rig);
    reopen(rig);
    const uint64_t checkpoint_index = log_checkpoint_index(rig->log);
    cr_assert(le(u64, checkpoint_index, 8));
    for (int i = 0; i < 40; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 500, 1000), ERR_OK));
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    cr_assert(eq(u64, log_checkpoint_index(rig->log), checkpoint_index));
    log_set_commit(rig->log, log_last_index(rig->log)); /* The one that waited goes on. */
    log_rig_settle(rig);
    cr_assert(lt(u64, 8, log_checkpoint_index(rig->log)));
    die(rig);
    reopen(rig);
    cr_assert(lt(u64, 8, rig->restored_index));
    rig_close(rig);
}

/* ---- doubt ---- */

static struct slice stored(struct log_rig *rig)
{
    struct slice value;
    struct store_key key = {.log = log_rig_id(), .kind = STORE_CHECKPOINT};
    cr_assert(store_get(rig->store, &key, &value));
    return value;
}

/* A log that was closed names its end: the zeros behind it, however many, are not read. The first
 * start forgets that end, or what is then appended would not be there after a crash. */
Test(checkpoint, the_end_of_a_closed_log_is_trusted_once)
{
    struct log_rig *rig = rig_open(26);
    rig->options.fill_step_min = rig->options.fill_step_max = 4 << 20;
    fill(rig, 60);
    log_rig_stop(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    const uint64_t closed_size = log_stats(rig->log)->disk_read_bytes;
    cr_assert(le(u64, closed_size, 16 << 10));
    fill(rig, 3);
    die(rig);
    reopen(rig);
    cr_assert(lt(u64, 1 << 20, log_stats(rig->log)->disk_read_bytes));
    rig_close(rig);
}

static void put(struct log_rig *rig, enum store_kind kind, uint64_t sub, struct slice value)
{
    struct store_key key = {.log = log_rig_id(), .kind = (uint32_t)kind, .sub = sub};
    cr_assert(eq(int, store_put(rig->store, &key, value), ERR_OK));
}

static void checkpoint_path(struct log_rig *rig, char path[256])
{
    struct checkpoint_record r;
    struct slice rest;
    cr_assert(eq(int, checkpoint_record_decode(stored(rig), &r, &rest), ERR_OK));
    cr_assert(lt(u64, 0, r.file_size));
    log_rig_path(r.index, ".checkpoint", path);
}

/* `coreflume log dump` shows the file, and refuses bytes that are none. */
Test(checkpoint, a_file_of_one_can_be_shown)
{
    struct log_rig *rig = rig_open(25);
    rig->state_size_max = 30 << 10;
    char path[256];
    do { /* Its size is drawn; small ones stand in the store. */
        fill(rig, 20);
        log_rig_settle(rig);
    } while (stored(rig).size > sizeof(struct checkpoint_record));
    checkpoint_path(rig, path);
    struct checkpoint_dump d;
    cr_assert(eq(int, checkpoint_dump_load(&rig->ss.s->io, path, &d), ERR_OK));
    cr_assert(eq(u64, d.checkpoint.header.index, log_checkpoint_index(rig->log)));
    cr_assert(lt(u64, 0, d.checkpoint.header.state_size));
    checkpoint_dump_done(&d);
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, checkpoint_dump_load(&rig->ss.s->io, path, &d), ERR_CORRUPT));
    rig_close(rig);
}

enum doubt {
    DOUBT_NOTHING,
    DOUBT_RECORD,
    DOUBT_STATE,
    DOUBT_FILE_GONE,
    DOUBT_FILE_DAMAGED,
    DOUBT_FILE_OLDER,
    DOUBT_CUT,
    DOUBT_CUT_PLACE,
    DOUBT_SEGMENT_SHORT,
    DOUBT_SEGMENT_END,
    DOUBT_COUNT,
};

static const char *const DOUBTS[DOUBT_COUNT] = {
    NULL,
    "why=\"CORRUPT\"",
    "why=\"CORRUPT\"",
    "its file is gone",
    "why=\"CORRUPT\"",
    "it is another one than the store names",
    "the log was cut below it",
    "the log was cut below it",
    "a segment before it is shorter than it was",
    "the end of a segment before is unknown",
};

static void unlink_path(struct log_rig *rig, const char *path)
{
    struct io_op op = {.kind = IO_UNLINK, .path = path};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK), "%s", path);
}

static void truncate_path(struct log_rig *rig, const char *path, uint64_t size)
{
    uint8_t *kept = aligned_alloc(IO_ALIGN, size);
    cr_assert(eq(int, disk_sim_peek(rig->disk, path, 0, kept, size), ERR_OK));
    struct io *io = &rig->ss.s->io;
    struct io_op op = {
        .kind = IO_OPEN, .path = path, .open_flags = IO_OPEN_WRITE | IO_OPEN_TRUNCATE};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    int fd = op.result_fd;
    op = (struct io_op){.kind = IO_WRITE, .fd = fd, .buf = kept, .size = size};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    op = (struct io_op){.kind = IO_CLOSE, .fd = fd};
    cr_assert(eq(int, io_call(io, &op), ERR_OK));
    free(kept);
}

/* The store is open, the log is not. */
static void plant(struct log_rig *rig, enum doubt doubt)
{
    char path[256];
    struct slice value = stored(rig);
    uint8_t *copy = malloc(value.size);
    memcpy(copy, value.data, value.size);
    struct cut_record cut = {
        .generation = 2, .segment = 1, .pos = SEGMENT_HEADER_SIZE, .index = 1, .is_done = 1};
    struct checkpoint_record named;
    struct slice bytes;
    struct checkpoint c;
    struct slice segment;
    struct store_key segment_key = {.log = log_rig_id(), .kind = STORE_SEGMENT, .sub = 1};
    struct segment_record record;
    switch (doubt) {
    case DOUBT_NOTHING:
    case DOUBT_COUNT:
        break;
    case DOUBT_RECORD:
        put(rig, STORE_CHECKPOINT, 0, slice_of(copy, sizeof(struct checkpoint_record) - 1));
        break;
    case DOUBT_STATE:
        copy[value.size - 1] ^= 1;
        put(rig, STORE_CHECKPOINT, 0, slice_of(copy, value.size));
        break;
    case DOUBT_FILE_GONE:
        checkpoint_path(rig, path);
        unlink_path(rig, path);
        break;
    case DOUBT_FILE_DAMAGED:
        checkpoint_path(rig, path);
        cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, 500, 1), ERR_OK));
        break;
    case DOUBT_FILE_OLDER:
        ((struct checkpoint_record *)copy)->crc++;
        put(rig, STORE_CHECKPOINT, 0, slice_of(copy, value.size));
        break;
    case DOUBT_CUT: /* Behind the first block: it takes nothing, but it is newer. */
        put(rig, STORE_CUT, cut.generation, cut_record_encode(&cut));
        break;
    case DOUBT_CUT_PLACE: /* Behind all that it covers, but in front of where that had ended. */
        cr_assert(eq(int, checkpoint_record_decode(value, &named, &bytes), ERR_OK));
        cr_assert(eq(int, checkpoint_decode(bytes, &c), ERR_OK));
        cut.segment = c.header.segment;
        cut.index = c.header.index + 1;
        cr_assert(lt(u64, cut.pos, c.header.pos));
        put(rig, STORE_CUT, cut.generation, cut_record_encode(&cut));
        break;
    case DOUBT_SEGMENT_SHORT:
        log_rig_path(1, ".log", path);
        truncate_path(rig, path, 8 << 10);
        break;
    case DOUBT_SEGMENT_END:
        cr_assert(store_get(rig->store, &segment_key, &segment));
        cr_assert(eq(int, segment_record_decode(segment, &record), ERR_OK));
        record.end_pos = 0;
        put(rig, STORE_SEGMENT, 1, segment_record_encode(&record));
        break;
    }
    free(copy);
}

/* Whatever does not fit, the log is read as if there were no checkpoint, with one line. */
Test(checkpoint, is_never_trusted_over_the_log)
{
    for (enum doubt doubt = DOUBT_NOTHING; doubt < DOUBT_COUNT; doubt++) {
        bool has_file = doubt >= DOUBT_FILE_GONE && doubt <= DOUBT_FILE_OLDER;
        struct log_rig *rig = rig_open(100 + doubt);
        rig->options.segment_size_max = 32 << 10;
        log_rig_stop(rig);
        log_rig_start(rig);
        cr_assert(eq(int, log_rig_open(rig), ERR_OK));
        rig->state_size_max = has_file ? 200 << 10 : 0;
        fill(rig, 100);
        uint64_t checkpoint_index = log_checkpoint_index(rig->log);
        cr_assert(lt(u64, 60, checkpoint_index));
        die(rig);
        log_rig_start(rig);
        plant(rig, doubt);
        enum err e = log_rig_open(rig);
        if (doubt == DOUBT_CUT || doubt == DOUBT_CUT_PLACE) { /* What it left is not looked at. */
            cr_assert(eq(u64, rig->restored_index, 0));
            cr_assert(strstr(rig->ss.log_text, DOUBTS[doubt]) != NULL, "%s", rig->ss.log_text);
            log_rig_stop(rig);
            log_rig_done(rig);
            free(rig);
            continue;
        }
        cr_assert(eq(int, e, ERR_OK), "%d %s", (int)doubt, rig->ss.log_text);
        cr_assert(eq(u64, rig->restored_index, doubt == DOUBT_NOTHING ? checkpoint_index : 0));
        bool is_told = strstr(rig->ss.log_text, "log_checkpoint_ignored") != NULL;
        cr_assert(eq(int, is_told, doubt != DOUBT_NOTHING));
        if (is_told) {
            cr_assert(strstr(rig->ss.log_text, DOUBTS[doubt]) != NULL, "%s", rig->ss.log_text);
        }
        if (doubt == DOUBT_SEGMENT_SHORT) {
            cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 1), "what is missing is reported");
            cr_assert(eq(u64, log_last_index(rig->log), 100));
        } else {
            log_rig_expect_recovered(rig);
            log_rig_expect_readable(rig, 8 << 10);
            rig->term++;
            fill(rig, 40); /* The next one is as good as any. */
            die(rig);
            reopen(rig);
            cr_assert(lt(u64, 100, rig->restored_index), "%d", (int)doubt);
        }
        rig_close(rig);
    }
}

/* Recovery does not read it, and still does not do without it. */
Test(checkpoint, a_missing_segment_below_it_is_refused)
{
    struct log_rig *rig = rig_open(30);
    rig->options.segment_size_max = 32 << 10;
    fill(rig, 200);
    cr_assert(lt(u64, 100, log_checkpoint_index(rig->log)));
    die(rig);
    log_rig_start(rig);
    char path[256];
    log_rig_path(1, ".log", path);
    unlink_path(rig, path);
    cr_assert(eq(int, log_rig_open(rig), ERR_CORRUPT));
    cr_assert(strstr(rig->ss.log_text, "log_segment_missing") != NULL);
    rig_close(rig);
}

/* Damage below it is not looked for: reads meet it, everything else is served. */
Test(checkpoint, damage_below_it_is_met_by_reads)
{
    struct log_rig *rig = rig_open(31);
    fill(rig, 200);
    die(rig);
    char path[256];
    log_rig_path(1, ".log", path);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, 4096 * 3 + 300, 1), ERR_OK));
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    cr_assert(lt(u64, 100, rig->restored_index));
    cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0));
    uint8_t dst[4096];
    size_t size;
    cr_assert(eq(int, log_rig_read(rig, 0, 2, dst, sizeof(dst), &size), ERR_OK));
    cr_assert(eq(int, log_rig_read(rig, 4, 6, dst, sizeof(dst), &size), ERR_CORRUPT));
    cr_assert(eq(int, log_rig_read(rig, 200, 202, dst, sizeof(dst), &size), ERR_OK));
    cr_assert(eq(u64, log_stats(rig->log)->corrupt_reads, 1));
    fill(rig, 10);
    rig_close(rig);
}

/* ---- crashes, failures ---- */

/* A crash at any point of a life full of checkpoints, also of the recovery. */
Test(checkpoint, crashes_at_any_point)
{
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct log_rig *rig = rig_new(seed * 1000);
        struct rand r;
        rand_init_seed(&r, seed);
        rig->options.checkpoint_size = rand_one_in(&r, 2) ? 4 << 10 : 20 << 10;
        rig->options.segment_size_max = rand_one_in(&r, 2) ? 24 << 10 : 200 << 10;
        rig->options.index_interval = rand_one_in(&r, 2) ? 512 : 16 << 10;
        rig->state_size_max = rand_one_in(&r, 2) ? 0 : 20 << 10;
        rig->has_decoy = rand_one_in(&r, 2);
        for (int life = 0; life < 10; life++) {
            log_rig_start(rig);
            if (rand_one_in(&r, 3)) {
                log_rig_open_begin(rig);
                for (uint64_t i = rand_below(&r, 300); i > 0; i--) {
                    (void)sim_shard_step(&rig->ss);
                }
                log_rig_crash(rig, NULL);
                log_rig_start(rig);
            }
            cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
            log_rig_expect_recovered(rig);
            log_rig_expect_readable(rig, 1 + rand_below(&r, 60 << 10));
            cr_assert(eq(sz, log_damage(rig->log, NULL, 0), 0), "%s", rig->ss.log_text);
            rig->term++;
            fill(rig, (int)rand_below(&r, 60));
            for (uint64_t i = rand_below(&r, 30); i > 0; i--) {
                (void)log_rig_append(rig, 1, rand_below(&r, 3000), 1000);
                (void)sim_shard_step(&rig->ss);
            }
            uint64_t commit_index = log_flushed_index(rig->log);
            log_set_commit(rig->log, commit_index);
            if (rand_one_in(&r, 3) && log_last_index(rig->log) > commit_index) {
                cr_assert(eq(int, log_rig_cut(rig, commit_index + 1), ERR_OK));
            }
            for (uint64_t i = rand_below(&r, 200); i > 0; i--) {
                (void)sim_shard_step(&rig->ss);
            }
            if (rand_one_in(&r, 5)) {
                log_rig_stop(rig);
                rig->acked_index = rig->model_count;
            } else {
                log_rig_crash(rig, NULL);
            }
        }
        log_rig_done(rig);
        free(rig);
    }
}

/* Each operation on its file may find the disk full: it is tried again, nothing else suffers. */
Test(checkpoint, a_full_disk_only_delays_it)
{
    static const enum io_kind kinds[] = {IO_OPEN, IO_WRITE, IO_RENAME};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct log_rig *rig = rig_open(40 + i);
        rig->state_size_max = 200 << 10;
        io_fault_add(&rig->ss.io_fault,
                     &(struct io_fault_rule){
                         .kind = (int)kinds[i],
                         .fd = IO_FAULT_ANY,
                         .path_part = "checkpoint.tmp",
                         .at = 1,
                         .action = IO_FAULT_FAIL,
                         .code = ENOSPC,
                     });
        fill(rig, 60);
        cr_assert(eq(u64, rig->ss.io_fault.injected, 1));
        cr_assert(strstr(rig->ss.log_text, "log_checkpoint_not_written") != NULL);
        cr_assert(eq(u64, log_checkpoint_index(rig->log), 0));
        rig->ss.clock.now_us += 2 * 1000 * 1000;
        (void)sim_shard_step(&rig->ss);
        fill(rig, 60);
        log_rig_settle(rig);
        cr_assert(lt(u64, 60, log_checkpoint_index(rig->log)));
        cr_assert(eq(int, rig->failure, ERR_OK));
        die(rig);
        reopen(rig);
        rig_close(rig);
    }
}

/* One that was asked for is tried again although nothing is appended or flushed any more. */
Test(checkpoint, an_idle_log_gets_what_it_asked_for)
{
    struct log_rig *rig = rig_new(50);
    rig->options.segment_size_max = 64 << 10;
    rig->options.checkpoint_size = 1 << 30;
    rig->state_size_max = 200 << 10;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 50);
    log_rig_settle(rig);
    io_fault_add(&rig->ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_RENAME,
                     .fd = IO_FAULT_ANY,
                     .path_part = "checkpoint.tmp",
                     .at = 1,
                     .count = 3,
                     .action = IO_FAULT_FAIL,
                     .code = ENOSPC,
                 });
    log_set_start(rig->log, 90);
    log_rig_settle(rig);
    for (int i = 0; i < 4; i++) {
        rig->ss.clock.now_us += LOG_RETRY_US;
        (void)sim_shard_step(&rig->ss);
        log_rig_settle(rig);
    }
    cr_assert(eq(u64, rig->ss.io_fault.injected, 3));
    cr_assert(eq(u64, log_checkpoint_index(rig->log), 50));
    cr_assert(lt(u64, 30, log_first_index(rig->log)));
    rig_close(rig);
}

/* A segment below the log start stays until a checkpoint points behind it, however little there is
 * to gain: what the owner knows of its entries would go with it. Afterwards start and state are
 * there. */
Test(checkpoint, holds_segments_until_they_are_covered)
{
    struct log_rig *rig = rig_new(60);
    rig->options.segment_size_max = 64 << 10;
    rig->options.checkpoint_size = 1 << 30;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    fill(rig, 50);
    log_rig_settle(rig);
    const uint64_t sealed_count = log_stats(rig->log)->rolls;
    cr_assert(lt(u64, 2, sealed_count));
    cr_assert(eq(u64, log_checkpoint_index(rig->log), 0));
    log_set_start(rig->log, 90);
    cr_assert(eq(u64, log_first_index(rig->log), 1), "nothing covers it");
    log_rig_settle(rig);
    cr_assert(eq(u64, log_checkpoint_index(rig->log), 50));
    const uint64_t first_index = log_first_index(rig->log);
    cr_assert(lt(u64, 30, first_index));
    die(rig);
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    cr_assert(eq(u64, rig->restored_index, 50));
    cr_assert(eq(u64, log_first_index(rig->log), first_index));
    cr_assert(eq(i64, log_start_offset(rig->log), 90));
    log_rig_expect_recovered(rig);
    uint8_t dst[4096];
    size_t size;
    cr_assert(eq(int, log_rig_read(rig, 88, 100, dst, sizeof(dst), &size), ERR_OUT_OF_RANGE));
    cr_assert(eq(int, log_rig_read(rig, 90, 92, dst, sizeof(dst), &size), ERR_OK));
    rig_close(rig);
}

/* A deleted log leaves neither value nor file. */
Test(checkpoint, goes_with_its_log)
{
    struct log_rig *rig = rig_open(50);
    rig->state_size_max = 200 << 10;
    fill(rig, 60);
    log_rig_settle(rig);
    cr_assert(lt(u64, 0, log_checkpoint_index(rig->log)));
    log_rig_delete(rig);
    cr_assert(eq(int, rig->delete_result, ERR_OK));
    cr_assert(eq(sz, log_rig_store_count(rig), 0));
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}
