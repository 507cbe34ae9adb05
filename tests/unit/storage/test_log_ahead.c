/* Reading ahead of readers that lag. Goal: a reader that goes through a log finds most of it in
 * memory, sees what it would see without, and nothing is held for long or beyond the budget.
 * Method: no cache of tails and small chunks, so that everything comes from the disk and crosses
 * them; cuts, removals, failures and damage in between. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/log_ahead_priv.h"
#include "storage/log_priv.h"

#include "tests/support/log_rig.h"

enum {
    VALUE_SIZE = 3000,
    BATCHES = 100,
    PIECE_SIZE = 16 << 10,
    CHUNK_SIZE = 32 << 10,
    BUDGET_SIZE = 256 << 10,
};

static const struct log_shared_stats *stats_of(const struct log_rig *rig)
{
    return log_shared_stats(rig->shared);
}

/* count batches of one record, flushed. */
static void append_some(struct log_rig *rig, int count)
{
    for (int i = 0; i < count; i++) {
        while (log_rig_append(rig, 1, VALUE_SIZE, 1000 + i) == ERR_BUSY) {
            cr_assert(sim_shard_step(&rig->ss));
        }
        if (i % 10 == 9) {
            log_rig_flush(rig);
        }
    }
    log_rig_flush(rig);
}

static struct log_rig *rig_open(uint64_t seed, uint64_t segment_size)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, seed);
    rig->shared_options.cache_size_max = 0;
    rig->shared_options.ahead_size_max = BUDGET_SIZE;
    rig->shared_options.ahead_chunk_size_max = CHUNK_SIZE;
    rig->options.segment_size_max = segment_size;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    append_some(rig, BATCHES);
    return rig;
}

static void rig_close(struct log_rig *rig)
{
    log_rig_stop(rig);
    log_rig_done(rig);
    free(rig);
}

/* Reads a piece; returns where the next one begins. */
static int64_t read_piece(struct log_rig *rig, int64_t offset)
{
    uint8_t piece[PIECE_SIZE];
    size_t size;
    const int64_t end_offset = log_flushed_offset(rig->log);
    enum err e = log_rig_read(rig, offset, end_offset, piece, sizeof(piece), &size);
    cr_assert(eq(int, e, ERR_OK), "%s", rig->ss.log_text);
    for (size_t done = 0; done < size;) {
        const struct rig_entry *m = &rig->model[offset]; /* One record each. */
        cr_assert(eq(i64, m->base_offset, offset));
        cr_assert(le(sz, m->payload_size, size - done));
        cr_assert(memcmp(piece + done, m->payload, m->payload_size) == 0);
        done += m->payload_size;
        offset = m->next_offset;
    }
    return offset;
}

/* So far that chunks are there, and the reader stands in the middle of the log. */
static int64_t lag(struct log_rig *rig)
{
    int64_t offset = 0;
    while (offset < BATCHES / 4) {
        offset = read_piece(rig, offset);
    }
    cr_assert(lt(u64, 0, stats_of(rig)->ahead_size));
    return offset;
}

Test(log_ahead, a_reader_that_goes_on_is_read_ahead)
{
    struct {
        uint64_t segment_size;
        uint64_t wasted_max; /* Where a segment ends, and the log. */
    } rows[] = {{1 << 20, 2 * CHUNK_SIZE}, {64 << 10, 6 * CHUNK_SIZE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct log_rig *rig = rig_open(i, rows[i].segment_size);
        const uint64_t read_before = log_stats(rig->log)->disk_read_bytes;
        log_rig_expect_readable(rig, PIECE_SIZE);
        const uint64_t read_bytes = log_stats(rig->log)->disk_read_bytes - read_before;
        log_rig_settle(rig);
        cr_assert(lt(u64, log_size(rig->log) / 2, stats_of(rig)->ahead_taken_bytes), "row=%zu", i);
        cr_assert(le(u64, stats_of(rig)->ahead_wasted_bytes, rows[i].wasted_max), "row=%zu", i);
        /* Once, but for the first reads and the one of each segment. */
        cr_assert(lt(u64, read_bytes, log_size(rig->log) * 2), "row=%zu", i);
        rig_close(rig);
    }
}

struct header_read {
    struct log_read read;
    uint8_t bytes[BATCH_HEADER_SIZE];
    bool is_done;
};

static void on_header(struct log_read *r)
{
    container_of(r, struct header_read, read)->is_done = true;
}

/* However large the batch is; and who reads on finds what was read ahead for him. */
Test(log_ahead, headers_are_read_beside_readers)
{
    struct log_rig *rig = rig_open(4, 1 << 20);
    int64_t offset = lag(rig);
    const uint64_t held_bytes = stats_of(rig)->ahead_size;
    for (int64_t at = offset - 1; at <= offset + 1; at++) {
        struct header_read x = {.read = {.offset = at,
                                         .end_offset = log_flushed_offset(rig->log),
                                         .dst = x.bytes,
                                         .dst_size = sizeof(x.bytes),
                                         .pieces_max = LOG_PIECES_MAX,
                                         .is_header_enough = true,
                                         .on_done = on_header}};
        log_read_begin(rig->log, &x.read);
        cr_assert(sim_shard_run_until(&rig->ss, &x.is_done));
        cr_assert(eq(int, x.read.result, ERR_OK));
        cr_assert(eq(sz, x.read.copied_size, BATCH_HEADER_SIZE));
        cr_assert(eq(ptr, x.read.pin, NULL));
        cr_assert(memcmp(x.bytes, rig->model[at].payload, sizeof(x.bytes)) == 0);
    }
    cr_assert(eq(u64, stats_of(rig)->ahead_size, held_bytes));
    const uint64_t taken_before = stats_of(rig)->ahead_taken_bytes;
    while (offset < BATCHES) {
        offset = read_piece(rig, offset);
    }
    cr_assert(lt(u64, taken_before, stats_of(rig)->ahead_taken_bytes));
    rig_close(rig);
}

Test(log_ahead, a_reader_that_jumps_is_not)
{
    struct log_rig *rig = rig_open(3, 1 << 20);
    for (int64_t offset = BATCHES - 20; offset > 0; offset -= 7) {
        (void)read_piece(rig, offset);
    }
    cr_assert(eq(u64, stats_of(rig)->ahead_read_bytes, 0));
    rig_close(rig);
}

Test(log_ahead, none_without_a_budget)
{
    struct log_rig *rig = malloc(sizeof(*rig));
    log_rig_init(rig, 4);
    rig->shared_options.cache_size_max = 0;
    rig->shared_options.ahead_size_max = 0;
    log_rig_start(rig);
    cr_assert(eq(int, log_rig_open(rig), ERR_OK));
    append_some(rig, BATCHES);
    log_rig_expect_readable(rig, PIECE_SIZE);
    cr_assert(eq(u64, stats_of(rig)->ahead_read_bytes, 0));
    rig_close(rig);
}

Test(log_ahead, many_readers_stay_within_the_budget)
{
    enum { READERS = 12 };
    struct log_rig *rig = rig_open(5, 1 << 20);
    int64_t offsets[READERS];
    for (int i = 0; i < READERS; i++) {
        offsets[i] = i;
    }
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < READERS; i++) {
            offsets[i] = read_piece(rig, offsets[i]);
            cr_assert(le(u64, stats_of(rig)->ahead_size, BUDGET_SIZE));
        }
    }
    cr_assert(lt(u64, 0, stats_of(rig)->ahead_read_bytes));
    rig_close(rig);
}

Test(log_ahead, what_nobody_comes_for_is_given_back)
{
    struct log_rig *rig = rig_open(6, 1 << 20);
    (void)lag(rig);
    log_rig_settle(rig);
    cr_assert(eq(u64, stats_of(rig)->ahead_size, 0));
    log_rig_expect_readable(rig, PIECE_SIZE);
    rig_close(rig);
}

static void on_memory(struct buf_waiter *w)
{
    (void)w;
}

Test(log_ahead, others_who_wait_for_memory_get_it)
{
    struct log_rig *rig = rig_open(7, 1 << 20);
    const int64_t offset = lag(rig);
    const uint64_t now_us = rig->ss.s->now_us;
    struct buf_waiter w = {.on_memory = on_memory};
    while (stats_of(rig)->ahead_size > 0) {
        buf_pool_wait(rig->ss.s->bufs, &w); /* Still not enough. */
        cr_assert(sim_shard_step(&rig->ss));
    }
    buf_pool_cancel_wait(rig->ss.s->bufs, &w);
    cr_assert(lt(u64, rig->ss.s->now_us - now_us, LOG_AHEAD_IDLE_US), "not for being idle");
    (void)read_piece(rig, offset);
    rig_close(rig);
}

/* What was read before a cut is not what is there afterwards. */
Test(log_ahead, a_cut_ends_it)
{
    struct log_rig *rig = rig_open(8, 1 << 20);
    const int64_t offset = lag(rig);
    cr_assert(eq(int, log_rig_cut(rig, (uint64_t)offset + 3), ERR_OK));
    cr_assert(eq(u64, stats_of(rig)->ahead_size, 0));
    append_some(rig, BATCHES);
    cr_assert(lt(i64, offset + 3, read_piece(rig, offset)));
    log_rig_expect_readable(rig, PIECE_SIZE);
    rig_close(rig);
}

Test(log_ahead, a_segment_that_leaves_the_log_takes_it_along)
{
    struct log_rig *rig = rig_open(9, 128 << 10);
    const int64_t offset = lag(rig);
    log_rig_set_start(rig, BATCHES - 10);
    uint8_t dst[16];
    size_t size;
    cr_assert(
        eq(int, log_rig_read(rig, offset, BATCHES, dst, sizeof(dst), &size), ERR_OUT_OF_RANGE));
    const uint64_t removed = log_stats(rig->log)->removed_segments;
    log_rig_settle(rig);
    cr_assert(lt(u64, removed, log_stats(rig->log)->removed_segments));
    cr_assert(eq(u64, stats_of(rig)->ahead_size, 0));
    log_rig_expect_readable(rig, PIECE_SIZE);
    rig_close(rig);
}

/* Not one byte comes to a reader that was not checked after it came from the disk. */
Test(log_ahead, damage_in_a_chunk_is_found)
{
    struct log_rig *rig = rig_open(10, 1 << 20);
    char path[256];
    log_rig_path(1, ".log", path);
    const uint64_t size = log_size(rig->log);
    cr_assert(eq(int, disk_sim_flip_bit(rig->disk, path, size / 2, 3), ERR_OK));
    int64_t offset = 0;
    enum err e = ERR_OK;
    while (e == ERR_OK) {
        uint8_t piece[PIECE_SIZE];
        size_t piece_size;
        e = log_rig_read(rig, offset, BATCHES, piece, sizeof(piece), &piece_size);
        for (size_t done = 0; e == ERR_OK && done < piece_size; offset++) {
            const struct rig_entry *m = &rig->model[offset];
            cr_assert(memcmp(piece + done, m->payload, m->payload_size) == 0);
            done += m->payload_size;
        }
    }
    cr_assert(eq(int, e, ERR_CORRUPT));
    cr_assert(lt(u64, 0, stats_of(rig)->ahead_read_bytes));
    rig_close(rig);
}

/* A read ahead that fails is not the reader's business: it reads for itself, and may be lucky. */
Test(log_ahead, a_failing_read_ahead_does_no_harm)
{
    for (uint32_t at = 1; at < 10; at++) {
        struct log_rig *rig = rig_open(11, 1 << 20);
        int64_t offset = read_piece(rig, read_piece(rig, 0));
        const struct io_fault_rule rule = {
            .kind = IO_READ,
            .fd = IO_FAULT_ANY,
            .at = at,
            .action = IO_FAULT_FAIL,
            .code = 5,
        };
        io_fault_add(&rig->ss.io_fault, &rule);
        while (offset < BATCHES) {
            uint8_t piece[PIECE_SIZE];
            size_t size;
            enum err e = log_rig_read(rig, offset, BATCHES, piece, sizeof(piece), &size);
            if (e == ERR_IO) {
                continue; /* Its own read. */
            }
            cr_assert(eq(int, e, ERR_OK));
            for (size_t done = 0; done < size; offset++) {
                done += rig->model[offset].payload_size;
            }
        }
        log_rig_expect_readable(rig, PIECE_SIZE);
        io_fault_clear(&rig->ss.io_fault);
        rig_close(rig);
    }
}

/* With reads under way that take long: a close, a delete and a cut wait for them. */
Test(log_ahead, ends_wait_for_what_is_on_its_way)
{
    enum { WAYS = 3 };
    for (int way = 0; way < WAYS; way++) {
        struct log_rig *rig = rig_open(12, 1 << 20);
        int64_t offset = read_piece(rig, 0);
        const struct io_fault_rule rule = {
            .kind = IO_READ,
            .fd = IO_FAULT_ANY,
            .at = 1,
            .count = UINT32_MAX,
            .action = IO_FAULT_DELAY,
            .delay_us = 50 * 1000,
        };
        io_fault_add(&rig->ss.io_fault, &rule);
        offset = read_piece(rig, offset);
        cr_assert(lt(u64, 0, stats_of(rig)->ahead_size));
        cr_assert(eq(u64, stats_of(rig)->ahead_read_bytes, 0), "still on their way");
        if (way == 0) {
            cr_assert(eq(int, log_rig_cut(rig, (uint64_t)offset + 1), ERR_OK));
            cr_assert(eq(u64, stats_of(rig)->ahead_size, 0));
        } else if (way == 1) {
            log_rig_delete(rig);
            cr_assert(eq(int, rig->delete_result, ERR_OK));
        }
        if (way == 1) {
            cr_assert(eq(u64, stats_of(rig)->ahead_size, 0));
        }
        io_fault_clear(&rig->ss.io_fault);
        rig_close(rig);
    }
}

struct begun_read {
    struct log_read read;
    bool is_done;
    uint8_t dst[64 << 10];
};

static void on_begun_done(struct log_read *r)
{
    container_of(r, struct begun_read, read)->is_done = true;
}

static struct begun_read *begin_read(struct log_rig *rig, int64_t offset, int64_t end_offset)
{
    struct begun_read *b = calloc(1, sizeof(*b));
    b->read = (struct log_read){
        .offset = offset,
        .end_offset = end_offset,
        .dst = b->dst,
        .dst_size = sizeof(b->dst),
        .on_done = on_begun_done,
    };
    log_read_begin(rig->log, &b->read);
    return b;
}

static void end_read(struct log_rig *rig, struct begun_read *b)
{
    cr_assert(sim_shard_run_until(&rig->ss, &b->is_done), "%s", rig->ss.log_text);
    cr_assert(eq(int, b->read.result, ERR_OK));
    cr_assert(lt(sz, 0, b->read.size));
    free(b);
}

static void delay_reads(struct log_rig *rig, uint64_t delay_us)
{
    const struct io_fault_rule rule = {
        .kind = IO_READ,
        .fd = IO_FAULT_ANY,
        .at = 1,
        .count = UINT32_MAX,
        .action = IO_FAULT_DELAY,
        .delay_us = delay_us,
    };
    io_fault_add(&rig->ss.io_fault, &rule);
}

static struct ahead_stream *first_stream(const struct log_rig *rig)
{
    const struct list *streams = &rig->log->ahead_streams;
    cr_assert(not(list_is_empty(streams)));
    return container_of(streams->next, struct ahead_stream, log_link);
}

/* The segment went while the reader waited, and another reader's stream stands at its offset. */
Test(log_ahead, a_read_that_starts_again_leaves_its_stream)
{
    struct log_rig *rig = rig_open(13, 1 << 20);
    int64_t offset = read_piece(rig, 0);
    delay_reads(rig, LOG_AHEAD_IDLE_US / 4);
    offset = read_piece(rig, offset);
    io_fault_clear(&rig->ss.io_fault);
    cr_assert(eq(i64, read_piece(rig, read_piece(rig, 0)), offset));
    struct ahead_stream *st = first_stream(rig);
    cr_assert(eq(i64, st->offset, offset));
    struct begun_read *b = begin_read(rig, offset, BATCHES);
    while (!st->is_waited_for) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    st->walk->on_end(st->walk, WALK_GONE);
    end_read(rig, b);
    log_rig_settle(rig);
    cr_assert(list_is_empty(&rig->log->ahead_streams));
    rig_close(rig); /* Waits for every stream. */
}

/* Also if the last read of a segment had to wait for its last chunk. */
Test(log_ahead, goes_on_behind_the_end_of_a_segment)
{
    struct log_rig *rig = rig_open(14, 64 << 10);
    const struct log_segment *first =
        container_of(rig->log->segments.next, struct log_segment, link);
    const struct log_segment *second = log_segment_after(first);
    delay_reads(rig, 5000);
    const int64_t offset = read_piece(rig, read_piece(rig, 0));
    struct begun_read *b = begin_read(rig, offset, second->base.offset);
    struct ahead_stream *st = first_stream(rig);
    while (!st->is_waited_for) {
        cr_assert(sim_shard_step(&rig->ss));
    }
    end_read(rig, b);
    st = first_stream(rig);
    cr_assert(eq(i64, st->offset, second->base.offset));
    cr_assert(eq(u64, st->segment->base.index, second->base.index));
    cr_assert(eq(u32, st->runs_count, 2));
    cr_assert(lt(u32, 0, st->fills_count));
    io_fault_clear(&rig->ss.io_fault);
    rig_close(rig);
}
