/* Zeros ahead of the tail (DESIGN 4.2), so that an append only overwrites blocks that were written
 * before and changes no metadata of the file.
 *
 *   [WAIT_ALLOCATE ->] WAIT_ZEROS ... -> WAIT_FSYNC -> WAIT_MANIFEST -> done
 *   WAIT_TURN -> WAIT_MANIFEST -> done        in a recycled file, up to written_to
 *
 * The blocks of a recycled file were written by an earlier life, and what stands there counts for
 * nothing in this one (entry.h, 2): all that a step costs is the record that says so. The steps are
 * kept nevertheless, since a recovery searches up to filled_to for what a crash left there.
 *
 * Room is allocated before it is zeroed: a write that makes the file longer keeps all others of the
 * file waiting, appends too, and one that fills allocated room does not.
 *
 * What lies beyond filled_to of the durable manifest record is undefined after a crash: the next
 * fill starts there again. Steps grow while they are needed more often than every ten seconds, and
 * shrink again for a log that became slow.
 */
#include <stdlib.h>

#include "core/reached.h"
#include "storage/log_priv.h"

enum {
    FILL_OFTEN_US = 10 * 1000 * 1000,
    FILL_SELDOM_US = 30 * 1000 * 1000,
};

enum fill_state {
    FILL_WAIT_TURN,
    FILL_WAIT_ALLOCATE,
    FILL_WAIT_ZEROS,
    FILL_WAIT_FSYNC,
    FILL_WAIT_MANIFEST,
};

struct log_fill {
    struct log_segment *seg;
    enum fill_state state;
    uint64_t zeroed_to;
    uint64_t end_pos;
    uint64_t room_end_pos; /* Up to where room is being allocated. */
    struct io_op op;
    struct iovec iov[LOG_ZERO_IOV_MAX];
    struct task task;
    struct store_wait wait;
    struct segment_wait file;
};

static void fill_run(struct log_fill *fl);

static void on_op_done(struct io_op *op)
{
    struct log_fill *fl = container_of(op, struct log_fill, op);
    flusher_sync_done(fl->seg->log->env.flusher, op);
    fill_run(fl);
}

static void on_manifest_durable(struct store_wait *w)
{
    fill_run(container_of(w, struct log_fill, wait));
}

/* Not inside of the append that found the step due: its owner may hear of a failure. */
static void on_turn(struct task *t)
{
    fill_run(container_of(t, struct log_fill, task));
}

static void submit(struct log_fill *fl, enum fill_state next)
{
    fl->state = next;
    fl->op.fd = fl->seg->file.fd;
    fl->op.on_done = on_op_done;
    io_submit(&log_shard(fl->seg->log)->io, &fl->op);
}

static void submit_zeros(struct log_fill *fl)
{
    fl->op = (struct io_op){0};
    fl->zeroed_to +=
        log_shared_zero_op(fl->seg->log->env.shared, &fl->op, fl->iov, fl->zeroed_to, fl->end_pos);
    submit(fl, FILL_WAIT_ZEROS);
}

/* One entry may be larger than a segment should be. */
static uint64_t segment_end_max(const struct log_segment *seg)
{
    uint64_t end_max = block_align_up(seg->log->options.segment_size_max);
    uint64_t tail_pos = block_align_up(seg->tail_pos);
    return end_max < tail_pos ? tail_pos : end_max;
}

/* Room for the next fill too: half the calls. */
static void submit_allocate(struct log_fill *fl)
{
    uint64_t end_max = segment_end_max(fl->seg);
    uint64_t end_pos = fl->end_pos + (fl->end_pos - fl->zeroed_to);
    fl->room_end_pos = end_pos < end_max ? end_pos : end_max;
    if (fl->room_end_pos < fl->end_pos) {
        fl->room_end_pos = fl->end_pos;
    }
    fl->op = (struct io_op){
        .kind = IO_ALLOCATE,
        .pos = fl->zeroed_to,
        .size = fl->room_end_pos - fl->zeroed_to,
    };
    submit(fl, FILL_WAIT_ALLOCATE);
}

/* A cold log gains nothing: one more call for a write that nobody waits behind. */
static void begin(struct log_fill *fl)
{
    const struct log *l = fl->seg->log;
    if (fl->end_pos <= fl->seg->written_to) {
        fl->state = FILL_WAIT_TURN;
        shard_post(log_shard(l), &fl->task);
    } else if (l->fill_step > l->options.fill_step_min && fl->end_pos > fl->seg->allocated_to) {
        submit_allocate(fl);
    } else {
        submit_zeros(fl);
    }
}

/* Allocation only makes the zeros cheaper: where there is none, or no room for two fills, they show
 * themselves what is possible. */
static void on_allocated(struct log_fill *fl)
{
    if (fl->op.result == ERR_OK) {
        fl->seg->allocated_to = fl->room_end_pos;
    } else if (fl->op.result == ERR_UNSUPPORTED) {
        fl->seg->allocated_to = UINT64_MAX;
    }
    submit_zeros(fl);
}

/* Ends the task; e says how. */
static void finish(struct log_fill *fl, enum err e)
{
    struct log *l = fl->seg->log;
    l->fill = NULL;
    if (e == ERR_OK && !fl->seg->is_retired) {
        if (fl->end_pos > fl->seg->written_to) {
            l->stats.filled_bytes += fl->end_pos - fl->seg->filled_to;
            fl->seg->written_to = fl->end_pos;
        }
        fl->seg->filled_to = fl->end_pos;
    }
    if (e == ERR_OK) {
        l->is_full = false;
        log_room_promise(l);
    }
    segment_file_unuse(fl->seg);
    log_segment_release(fl->seg);
    free(fl);

    if (e == ERR_NO_SPACE || e == ERR_BUSY) {
        log_room_set_full(l, "fill");
    } else if (e != ERR_OK) {
        log_fail(l, e, "zero-fill");
    } else {
        log_fill_check(l);
        log_kick(l);
        log_room_offer(l);
    }
    log_poke(l);
}

static void put_manifest(struct log_fill *fl)
{
    fl->wait.on_durable = on_manifest_durable;
    enum err e = log_segment_put(fl->seg, fl->end_pos);
    if (e == ERR_OK) {
        e = log_store_wait(fl->seg->log, &fl->wait);
    }
    if (e != ERR_OK) {
        finish(fl, e);
    } else {
        fl->state = FILL_WAIT_MANIFEST;
    }
}

static void fill_run(struct log_fill *fl)
{
    bool is_needed = fl->state == FILL_WAIT_ZEROS || fl->state == FILL_WAIT_FSYNC;
    if (is_needed && fl->op.result != ERR_OK) {
        finish(fl, fl->op.result);
        return;
    }
    if (fl->seg->is_retired) {
        finish(fl, ERR_OK); /* The store has forgotten it, and must not be told of it again. */
        return;
    }
    switch (fl->state) {
    case FILL_WAIT_TURN:
        reached(log_shard(fl->seg->log), "segment_fill_without_write");
        put_manifest(fl);
        break;
    case FILL_WAIT_ALLOCATE:
        on_allocated(fl);
        break;
    case FILL_WAIT_ZEROS:
        if (fl->zeroed_to < fl->end_pos) {
            submit_zeros(fl);
        } else {
            /* Sizes and extents of the new blocks: no shared flush covers those. */
            fl->op = (struct io_op){.kind = IO_FSYNC};
            submit(fl, FILL_WAIT_FSYNC);
        }
        break;
    case FILL_WAIT_FSYNC:
        put_manifest(fl);
        break;
    case FILL_WAIT_MANIFEST:
        finish(fl, ERR_OK);
        break;
    }
}

static void on_file_ready(struct segment_wait *w, enum err e)
{
    struct log_fill *fl = container_of(w, struct log_fill, file);
    if (e != ERR_OK) {
        finish(fl, e);
    } else {
        begin(fl);
    }
}

static void adapt_step(struct log *l)
{
    uint64_t now_us = log_shard(l)->now_us;
    uint64_t gap_us = now_us - l->filled_at_us;
    if (gap_us < FILL_OFTEN_US) {
        l->fill_step = l->fill_step < l->options.fill_step_max / 2 ? l->fill_step * 2
                                                                   : l->options.fill_step_max;
    } else if (gap_us > FILL_SELDOM_US) {
        l->fill_step = l->options.fill_step_min;
    }
    l->filled_at_us = now_us;
}

/* The segment to fill next: one that was rolled away from may still hold entries that wait for
 * zeros, because appends only need memory. */
static struct log_segment *next_segment(const struct log *l)
{
    const struct log_page *pg = log_first_untaken(l);
    if (pg != NULL && block_align_up(pg->segment->tail_pos) > pg->segment->filled_to) {
        return pg->segment;
    }
    return log_tail_segment(l);
}

/* Up to where the segment is to be filled now; filled_to if it is enough. */
static uint64_t wanted_end(const struct log_segment *seg)
{
    const struct log *l = seg->log;
    uint64_t tail_pos = block_align_up(seg->tail_pos);
    if (seg != log_tail_segment(l)) {
        return seg->filled_to > tail_pos ? seg->filled_to : tail_pos;
    }
    if (seg->filled_to >= tail_pos + l->fill_step / 2) {
        return seg->filled_to;
    }
    uint64_t end_max = segment_end_max(seg);
    if (seg->filled_to >= end_max) {
        return seg->filled_to;
    }
    uint64_t from_pos = seg->filled_to > tail_pos ? seg->filled_to : tail_pos;
    uint64_t end_pos = block_align_up(from_pos + l->fill_step);
    return end_pos < end_max ? end_pos : end_max;
}

void log_fill_check(struct log *l)
{
    struct log_segment *seg = next_segment(l);
    if (l->fill != NULL || l->is_failed || seg == NULL || !seg->is_usable ||
        (l->state != LOG_OPEN && l->state != LOG_CUTTING && l->state != LOG_CLOSING)) {
        return;
    }
    if (log_room_waits_for_space(l) || wanted_end(seg) == seg->filled_to) {
        return;
    }
    adapt_step(l);
    uint64_t end_pos = wanted_end(seg);
    if (seg->filled_to < seg->written_to) {
        end_pos = end_pos < seg->written_to ? end_pos : seg->written_to; /* First what is free. */
    } else if (end_pos > seg->filled_to &&
               !space_has_spare(l->env.space, l->tier, end_pos - seg->filled_to)) {
        end_pos =
            block_align_up(seg->tail_pos); /* What was taken is written, nothing ahead of it. */
    }
    if (end_pos <= seg->filled_to) {
        return; /* Also after a pause: the step has shrunk, and what is filled is enough for it. */
    }
    if (end_pos > seg->written_to) {
        space_take(l->env.space, end_pos - seg->filled_to);
    }
    struct log_fill *fl = calloc(1, sizeof(*fl));
    if (fl == NULL) {
        panic("no memory for a fill task");
    }
    fl->seg = seg;
    fl->zeroed_to = seg->filled_to;
    fl->end_pos = end_pos;
    fl->state = FILL_WAIT_ZEROS;
    task_init(&fl->task, "log fill", on_turn);
    l->fill = fl;
    log_segment_hold(seg);
    segment_file_use(seg);
    if (segment_file_is_open(seg)) {
        begin(fl);
    } else {
        fl->file.on_ready = on_file_ready;
        segment_file_wait(seg, &fl->file);
    }
}

void log_fill_abandon(struct log *l)
{
    if (l->fill != NULL && l->fill->state == FILL_WAIT_MANIFEST) {
        store_wait_cancel(l->env.store, &l->fill->wait);
        finish(l->fill, ERR_FAILED);
    }
}
