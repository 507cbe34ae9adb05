/* Index files: written when a segment is sealed, loaded when points left memory, and never believed
 * when they are missing, damaged, or name a place where their entry is not. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "storage/segment_format.h"
#include "storage/segment_index.h"

#include "tests/support/log_rig.h"

/* Three sealed segments and a tail, on disk only: no cache, no points in memory. */
static struct log_rig *rig_sealed(uint64_t seed)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = 0;
    rig->shared_options.index_size_max = 0;
    rig->shared_options.ahead_size_max = 0; /* Reads look for their place in the index. */
    rig->options.segment_size_max = 32 << 10;
    rig->options.index_interval = 2 << 10;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    for (int i = 0; i < 60; i++) {
        cr_assert(eq(int, log_rig_append(rig, 2, 500, 1000 + i), ERR_OK));
        log_rig_flush(rig);
    }
    log_rig_settle(rig);
    return rig;
}

static void rig_end(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

static void reopen(struct log_rig *rig)
{
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK), "%s", rig->ss.log_text);
    log_rig_settle(rig);
}

static bool has_index(struct log_rig *rig)
{
    char path[256];
    log_rig_path(1, ".index", path);
    uint64_t size;
    return disk_sim_file_size(rig->disk, path, &size) == ERR_OK;
}

Test(log_index, a_sealed_segment_gets_its_file_and_is_read_by_it)
{
    struct log_rig *rig = rig_sealed(1);
    cr_assert(has_index(rig));
    cr_assert(eq(u64, log_shared_stats(rig->shared)->index_used_size, 0), "evicted");
    log_rig_expect_readable(rig, 2 << 10);
    cr_assert(eq(u64, log_stats(rig->log)->index_rebuilds, 0));
    rig_end(rig);
}

Test(log_index, a_missing_file_is_written_again)
{
    struct log_rig *rig = rig_sealed(2);
    log_rig_stop(rig);
    log_rig_start(rig);
    char path[256];
    log_rig_path(1, ".index", path);
    struct io_op op = {.kind = IO_UNLINK, .path = path};
    cr_assert(eq(int, io_call(&rig->ss.s->io, &op), ERR_OK));
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    log_rig_settle(rig);
    cr_assert(has_index(rig));
    log_rig_expect_readable(rig, 2 << 10);
    rig_end(rig);
}

Test(log_index, a_damaged_file_is_rebuilt)
{
    for (uint64_t pos = 0; pos < 200; pos += 9) {
        struct log_rig *rig = rig_sealed(3);
        log_rig_stop(rig);
        char path[256];
        log_rig_path(1, ".index", path);
        cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, pos, 5), ERR_OK));
        reopen(rig);
        log_rig_expect_readable(rig, 2 << 10);
        log_rig_settle(rig);
        cr_assert(eq(u64, log_stats(rig->log)->index_rebuilds, 1));
        log_rig_stop(rig);
        reopen(rig);
        log_rig_expect_readable(rig, 2 << 10);
        cr_assert(eq(u64, log_stats(rig->log)->index_rebuilds, 0), "the new file is good");
        rig_end(rig);
    }
}

/* A file with a good checksum that lies: each point is shifted by delta bytes. */
static void make_it_lie(struct log_rig *rig, int64_t delta, uint64_t salt_delta)
{
    char path[256];
    log_rig_path(1, ".index", path);
    uint64_t size;
    cr_assert(eq(int, disk_sim_file_size(rig->disk, path, &size), ERR_OK));
    uint8_t *file = malloc(size);
    cr_assert(eq(int, disk_sim_peek(rig->disk, path, 0, file, size), ERR_OK));
    struct segment_index_header h;
    struct segment_points points = {0};
    cr_assert(eq(int, segment_index_decode(slice_of(file, size), &h, &points), ERR_OK));
    cr_assert(lt(u32, 3, points.count));
    for (uint32_t i = 1; i < points.count; i++) {
        points.all[i].pos = (uint64_t)((int64_t)points.all[i].pos + delta);
    }
    h.salt += salt_delta;
    segment_index_encode(&h, &points, file);
    cr_assert(eq(int, disk_sim_damage(rig->disk, path, 0, file, size), ERR_OK));
    segment_points_done(&points);
    free(file);
}

Test(log_index, a_file_that_disagrees_with_the_log_is_rebuilt)
{
    static const struct {
        int64_t delta;
        uint64_t salt_delta;
        uint64_t
            rebuilds_min; /* A place in the padding before the entry leads to it all the same. */
    } rows[] = {{8, 0, 1}, {-8, 0, 0}, {4096, 0, 1}, {-2000, 0, 0}, {-4000, 0, 1}, {0, 1, 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_sealed(10 + i);
        log_rig_stop(rig);
        make_it_lie(rig, rows[i].delta, rows[i].salt_delta);
        reopen(rig);
        log_rig_expect_readable(rig, 2 << 10);
        cr_assert(eq(u64, log_stats(rig->log)->corrupt_reads, 0));
        cr_assert(ge(u64, log_stats(rig->log)->index_rebuilds, rows[i].rebuilds_min), "row=%zu", i);
        rig_end(rig);
    }
}

/* A cut into a sealed segment: its old index must not answer for what is written there later. */
Test(log_index, a_cut_segments_index_is_not_used_again)
{
    for (uint64_t index = 2; index < 40; index += 5) {
        struct log_rig *rig = rig_sealed(20 + index);
        cr_assert(eq(int, log_rig_cut(rig, index), ERR_OK), "%s", rig->ss.log_text);
        for (int i = 0; i < 40; i++) {
            cr_assert(eq(int, log_rig_append(rig, 1, (size_t)(i * 50), 3000 + i), ERR_OK));
            log_rig_flush(rig);
        }
        log_rig_settle(rig);
        log_rig_expect_readable(rig, 2 << 10);
        log_rig_stop(rig);
        reopen(rig);
        log_rig_expect_readable(rig, 2 << 10);
        rig_end(rig);
    }
}

/* Whatever fails about index files, the log is served. */
Test(log_index, failures_do_no_harm)
{
    static const enum io_kind kinds[] = {IO_OPEN, IO_READ, IO_RENAME, IO_CLOSE};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint32_t at = 1; at <= 3; at++) {
            struct log_rig *rig = rig_sealed(100 + at);
            log_rig_stop(rig);
            log_rig_start(rig);
            io_fault_add(&rig->ss.io_fault,
                         &(struct io_fault_rule){
                             .kind = (int)kinds[k],
                             .fd = IO_FAULT_ANY,
                             .path_part = "index",
                             .at = at,
                             .count = 2,
                             .action = IO_FAULT_FAIL,
                             .code = 5,
                         });
            cr_assert(eq(int, log_rig_open(rig), ERR_OK));
            log_rig_expect_readable(rig, 2 << 10);
            log_rig_settle(rig);
            rig_end(rig);
        }
    }
}

/* ---- with another log ---- */

struct other_log {
    struct log *log;
    bool is_opened;
    bool is_closed;
};

static void other_on_flushed(void *context, uint64_t index)
{
    (void)context;
    (void)index;
}

static void other_on_room(void *context)
{
    (void)context;
}

static void other_on_failed(void *context, enum err e)
{
    (void)context;
    cr_fail("%s", err_name(e));
}

static enum err other_on_replay(void *context, const struct log_entry *entry)
{
    (void)context;
    (void)entry;
    return ERR_OK;
}

static void other_on_opened(void *context, enum err e)
{
    struct other_log *other = context;
    cr_assert(eq(int, e, ERR_OK));
    other->is_opened = true;
}

static void other_on_closed(void *context)
{
    ((struct other_log *)context)->is_closed = true;
}

static void other_open(struct log_rig *rig, struct other_log *other)
{
    static const struct log_callbacks callbacks = {
        .on_flushed = other_on_flushed,
        .on_room = other_on_room,
        .on_failed = other_on_failed,
        .on_replay = other_on_replay,
        .on_opened = other_on_opened,
    };
    struct partition_id id = log_rig_id();
    id.partition++;
    *other = (struct other_log){0};
    enum err e = log_open(
        &(struct log_open){
            .env = &rig->env,
            .id = id,
            .name = "topic-1",
            .options = rig->options,
            .callbacks = &callbacks,
            .context = other,
        },
        &other->log);
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(sim_shard_run_until(&rig->ss, &other->is_opened));
}

/* Entries until it rolls; the file of the sealed segment's index is then on its way. */
static void other_roll(struct log_rig *rig, struct other_log *other)
{
    static const uint8_t payload[3000];
    while (log_stats(other->log)->rolls == 0) {
        const struct log_entry entry = {
            .type = ENTRY_CONTROLLER,
            .term = 1,
            .max_timestamp = -1,
            .payload = slice_of(payload, sizeof(payload)),
        };
        uint64_t index;
        if (log_append(other->log, &entry, &index) == ERR_BUSY) {
            cr_assert(sim_shard_step(&rig->ss));
        }
    }
}

/* Its index is to be written when there is a turn for it, and by then it has left the log. */
Test(log_index, a_segment_that_goes_while_it_waits_for_a_turn)
{
    struct log_rig rig;
    log_rig_init(&rig, 77);
    rig.shared_options.files_max = 4; /* One turn. */
    log_rig_start(&rig);
    cr_assert(eq(int, log_rig_open(&rig), ERR_OK));
    io_fault_add(&rig.ss.io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_OPEN,
                     .fd = IO_FAULT_ANY,
                     .path_part = "-1/index.tmp",
                     .at = 1,
                     .action = IO_FAULT_HANG,
                 });
    struct other_log other;
    other_open(&rig, &other);
    other_roll(&rig, &other);
    log_rig_settle(&rig);
    for (int i = 0; i < 60; i++) {
        while (log_rig_append(&rig, 1, 3000, 1000) == ERR_BUSY) {
            cr_assert(sim_shard_step(&rig.ss));
        }
        log_rig_flush(&rig);
    }
    cr_assert(le(u64, 1, log_stats(rig.log)->rolls));
    log_rig_set_start(&rig, 60);
    log_rig_settle(&rig);
    cr_assert(eq(u64, log_stats(rig.log)->removed_segments, log_stats(rig.log)->rolls - 1),
              "the first one is held");
    io_fault_clear(&rig.ss.io_fault);
    io_fault_release(&rig.ss.io_fault);
    log_rig_settle(&rig);
    cr_assert(eq(u64, log_stats(rig.log)->removed_segments, log_stats(rig.log)->rolls));
    log_close(other.log, &other, other_on_closed);
    cr_assert(sim_shard_run_until(&rig.ss, &other.is_closed));
    log_rig_stop(&rig);
    log_rig_done(&rig);
}
