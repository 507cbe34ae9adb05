/* Writing checkpoints (checkpoint.h), so that the next recovery reads little.
 *
 *   WAIT_COMMIT -> [WAIT_FILE] -> WAIT_STORE -> [WAIT_UNLINK] -> done
 *
 *  1. What is told is the state after the last entry appended, taken between two turns of the loop,
 *     when the owner's state is as far as the log. It is written when that entry is flushed and
 *     committed, so that no cut can take it back; a cut that comes before that takes the
 *     checkpoint along.
 *  2. One is due when so many bytes came since the last one that reading them would be felt, when a
 *     segment was closed, and at a clean stop if there is something to gain. A log that is idle, or
 *     small, pays nothing. One that was asked for stays asked for until it is durable: an idle log
 *     tries it again by a timer.
 *  3. Ends of closed segments go to their manifest records, before the checkpoint's own record and
 *     in the same store. A file goes under its own name first, the record comes when its name is
 *     durable, the older file goes when the record is. A crash leaves the older checkpoint, or the
 *     newer one, and at most a file that nobody names.
 *  4. A log with damage makes none: recovery is what reports the damage, so it has to go on
 *     reading.
 *
 * Bounded: so many at a time on a shard; further logs wait their turn, once each.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "core/wbuf.h"
#include "storage/checkpoint.h"
#include "storage/log_priv.h"
#include "storage/whole_file.h"

enum {
    CHECKPOINTS_MAX = 16, /* Of a shard at the same time. */
    ROLL_SHARE = 64,      /* Of checkpoint_size, when a segment was closed. */
    CLOSE_SHARE = 16,     /* And at a clean stop. */
};

enum checkpoint_state {
    CHECKPOINT_WAIT_COMMIT,
    CHECKPOINT_WAIT_FILE,
    CHECKPOINT_WAIT_STORE,
    CHECKPOINT_WAIT_UNLINK,
};

struct log_checkpoint {
    struct log *log;
    enum checkpoint_state state;
    uint64_t index;
    uint64_t segment; /* Base index. */
    uint32_t crc;
    uint64_t covered_size; /* Of log.uncovered_size. */
    bool has_file;
    bool was_asked;
    enum err result;
    struct wbuf bytes;
    char *path; /* Of the file written, or to be unlinked. */
    char *tmp_path;
    struct buf *buf;
    struct whole_file file;
    struct io_op op;
    struct store_wait store_wait;
};

static void check(struct log *l);

/* ---- ending ---- */

/* Of a task: what starts may fail at once, and end here. */
static void start_next(struct task *task)
{
    struct log_shared *ls = container_of(task, struct log_shared, checkpoint_turns);
    while (ls->checkpoints_count < CHECKPOINTS_MAX && !list_is_empty(&ls->checkpoint_queue)) {
        struct log *l =
            container_of(list_pop_front(&ls->checkpoint_queue), struct log, checkpoint_link);
        check(l);
        log_poke(l); /* A close may wait for its turn. */
    }
}

static void task_free(struct log_checkpoint *t)
{
    struct log *l = t->log;
    buf_unref(t->buf);
    free(t->path);
    free(t->tmp_path);
    wbuf_done(&t->bytes);
    free(t);
    l->checkpoint = NULL;
    l->env.shared->checkpoints_count--;
    log_poke(l);
    shard_post(log_shard(l), &l->env.shared->checkpoint_turns);
}

static void on_retry(struct timer *timer)
{
    log_poke(container_of(timer, struct log, checkpoint_retry));
}

/* Whoever only had a checkpoint due sees that again at the next flush. */
static void try_later(struct log *l)
{
    l->checkpoint_due_us = log_shard(l)->now_us + LOG_RETRY_US;
    if (l->is_checkpoint_asked && !l->is_failed) {
        timer_arm(&log_shard(l)->timers, &l->checkpoint_retry, l->checkpoint_due_us);
    }
}

static void end(struct log_checkpoint *t)
{
    struct log *l = t->log;
    if (t->result != ERR_OK) {
        log_warn(log_shard(l)->log,
                 "log_checkpoint_not_written",
                 "log=%s index=%" PRIu64 " err=%s",
                 l->name,
                 t->index,
                 err_name(t->result));
        l->is_checkpoint_asked |= t->was_asked;
        try_later(l);
    }
    task_free(t);
}

static void on_unlinked(struct io_op *op)
{
    end(container_of(op, struct log_checkpoint, op)); /* What stays is removed by the next start. */
}

/* The file is one that no record names, any more or yet. */
static void unlink_and_end(struct log_checkpoint *t, uint64_t index)
{
    struct log *l = t->log;
    free(t->path);
    t->path = log_checkpoint_path(l, index);
    if (t->path == NULL || flusher_is_failed(l->env.flusher)) {
        end(t);
        return;
    }
    t->state = CHECKPOINT_WAIT_UNLINK;
    t->op = (struct io_op){.kind = IO_UNLINK, .path = t->path, .on_done = on_unlinked};
    io_submit(&log_shard(l)->io, &t->op);
}

static void fail(struct log_checkpoint *t, enum err e)
{
    t->result = e;
    if (t->has_file && t->index != t->log->checkpoint_file) {
        unlink_and_end(t, t->index);
    } else {
        end(t);
    }
}

/* ---- record ---- */

static void on_durable(struct store_wait *w)
{
    struct log_checkpoint *t = container_of(w, struct log_checkpoint, store_wait);
    struct log *l = t->log;
    const uint64_t old_file = l->checkpoint_file;
    l->checkpoint_index = t->index;
    l->checkpoint_segment = t->segment;
    l->checkpoint_file = t->has_file ? t->index : 0;
    l->uncovered_size -= t->covered_size;
    l->stats.checkpoints++;
    l->stats.checkpoint_bytes += t->bytes.size;
    reached(log_shard(l), t->has_file ? "log_checkpoint_in_file" : "log_checkpoint_in_store");
    log_trim(l);
    if (old_file != 0 && old_file != l->checkpoint_file) {
        unlink_and_end(t, old_file);
    } else {
        end(t);
    }
}

/* Recovery will not read these segments: what it would have learnt goes to their records. */
static enum err put_ends(const struct log_checkpoint *t)
{
    list_for_each (n, &t->log->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.index >= t->segment) {
            break;
        }
        if (!seg->is_end_put) {
            seg->is_end_put = true;
            enum err e = log_segment_put(seg, seg->filled_to_put);
            if (e != ERR_OK) {
                seg->is_end_put = false;
                return e;
            }
        }
    }
    return ERR_OK;
}

static enum err put_record(struct log_checkpoint *t)
{
    struct checkpoint_record r = {
        .crc = t->crc,
        .index = t->index,
        .file_size = t->has_file ? t->bytes.size : 0,
    };
    struct wbuf value;
    wbuf_init(&value, STORE_VALUE_SIZE_MAX);
    checkpoint_record_encode(&r, &value);
    if (!t->has_file) {
        wbuf_bytes(&value, t->bytes.data, t->bytes.size);
    }
    enum err e = wbuf_failure(&value);
    if (e == ERR_OK) {
        struct store_key key = log_store_key(t->log, STORE_CHECKPOINT, 0);
        e = store_put(t->log->env.store, &key, wbuf_slice(&value));
    }
    wbuf_done(&value);
    return e;
}

static void put(struct log_checkpoint *t)
{
    struct log *l = t->log;
    enum err e = flusher_is_failed(l->env.flusher) ? ERR_FAILED : put_ends(t);
    if (e == ERR_OK) {
        e = put_record(t);
    }
    if (e != ERR_OK) {
        fail(t, e);
        return;
    }
    t->state = CHECKPOINT_WAIT_STORE;
    t->store_wait.on_durable = on_durable;
    e = log_store_wait(l, &t->store_wait);
    assert_cmp(e, ==, ERR_OK); /* Looked at before anything was put. */
}

/* ---- file ---- */

static void on_written(struct whole_file *f, enum err e)
{
    struct log_checkpoint *t = container_of(f, struct log_checkpoint, file);
    buf_unref(t->buf);
    t->buf = NULL;
    if (e != ERR_OK) {
        fail(t, e);
    } else {
        put(t);
    }
}

static void write_file(struct log_checkpoint *t)
{
    struct log *l = t->log;
    const uint64_t size = block_align_up(t->bytes.size);
    t->has_file = true;
    t->path = log_checkpoint_path(l, t->index);
    t->tmp_path = log_path(l->dir, "checkpoint.tmp");
    t->buf = log_shared_alloc(l->env.shared, size, BUF_RESERVED);
    if (t->path == NULL || t->tmp_path == NULL || t->buf == NULL) {
        t->has_file = false;
        fail(t, ERR_BUSY);
        return;
    }
    memcpy(t->buf->data, t->bytes.data, t->bytes.size);
    memset(t->buf->data + t->bytes.size, 0, size - t->bytes.size);
    t->state = CHECKPOINT_WAIT_FILE;
    t->file = (struct whole_file){
        .s = log_shard(l),
        .flusher = l->env.flusher,
        .path = t->path,
        .tmp_path = t->tmp_path,
        .dir = l->dir,
        .data = t->buf->data,
        .size = size,
        .on_done = on_written,
    };
    whole_file_write_begin(&t->file);
}

/* ---- the state ---- */

/* As it stands after the last entry appended. */
static enum err take_state(struct log_checkpoint *t)
{
    struct log *l = t->log;
    const struct log_segment *tail = log_tail_segment(l);
    struct wbuf state;
    wbuf_init(&state, CHECKPOINT_SIZE_MAX / 2);
    if (l->callbacks->on_checkpoint != NULL) {
        l->callbacks->on_checkpoint(l->context, &state);
    }
    struct checkpoint c = {
        .header =
            {
                .index = l->last_index,
                .term = l->last_term,
                .entry_id = l->last_id,
                .next_offset = l->next_offset,
                .segment = tail->base.index,
                .salt = tail->salt,
                .pos = tail->end_pos,
                .max_timestamp = tail->max_timestamp,
                .generation = l->generation,
                .start_index = log_first_index(l),
                .start_offset = log_start_offset(l),
                .first_timestamp = tail->first_timestamp,
            },
        .terms = slice_of(l->terms, l->terms_count * sizeof(l->terms[0])),
        .points = slice_of(tail->points.all, tail->points.count * sizeof(tail->points.all[0])),
        .state = wbuf_slice(&state),
    };
    wbuf_init(&t->bytes, CHECKPOINT_SIZE_MAX);
    enum err e = wbuf_failure(&state);
    if (e == ERR_OK) {
        checkpoint_encode(&c, &t->bytes);
        e = wbuf_failure(&t->bytes);
    }
    wbuf_done(&state);
    t->index = c.header.index;
    t->segment = c.header.segment;
    t->crc = c.header.crc;
    t->covered_size = l->uncovered_size;
    return e;
}

static void advance(struct log_checkpoint *t)
{
    const struct log *l = t->log;
    if (t->index > l->flushed_index || t->index > l->commit_index) {
        return;
    }
    if (t->bytes.size > CHECKPOINT_INLINE_SIZE_MAX) {
        write_file(t);
    } else {
        put(t);
    }
}

static void start(struct log *l)
{
    struct log_checkpoint *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        try_later(l);
        return;
    }
    t->log = l;
    t->state = CHECKPOINT_WAIT_COMMIT;
    l->checkpoint = t;
    t->was_asked = l->is_checkpoint_asked;
    l->is_checkpoint_asked = false;
    l->env.shared->checkpoints_count++;
    enum err e = take_state(t);
    if (e != ERR_OK) {
        fail(t, e);
    } else {
        advance(t);
    }
}

/* ---- when ---- */

static uint64_t gain_min(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    const uint64_t size = l->options.checkpoint_size;
    if (l->is_checkpoint_asked) {
        return 1;
    }
    if (l->state == LOG_CLOSING) {
        return size / CLOSE_SHARE;
    }
    bool is_rolled = log_has_sealed(l) && tail->base.index > l->checkpoint_segment;
    return is_rolled ? size / ROLL_SHARE : size;
}

static bool is_due(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    const bool is_alive = (l->state == LOG_OPEN || l->state == LOG_CLOSING) && !l->is_failed;
    if (!is_alive || l->checkpoint != NULL || tail == NULL || !tail->is_usable ||
        l->options.checkpoint_size == 0) {
        return false;
    }
    if (l->damages_count > 0 || log_shard(l)->now_us < l->checkpoint_due_us) {
        return false;
    }
    if (l->state == LOG_CLOSING && l->commit_index < l->last_index) {
        return false; /* Nobody would tell that it is committed. */
    }
    return l->last_index > l->checkpoint_index && l->uncovered_size > 0 &&
           l->uncovered_size >= gain_min(l);
}

static void check(struct log *l)
{
    struct log_shared *ls = l->env.shared;
    if (!is_due(l)) {
        return;
    }
    if (ls->checkpoints_count < CHECKPOINTS_MAX) {
        list_remove(&l->checkpoint_link);
        start(l);
    } else if (list_is_empty(&l->checkpoint_link)) {
        reached(log_shard(l), "log_checkpoint_waits_for_turn");
        list_push_back(&ls->checkpoint_queue, &l->checkpoint_link);
    }
}

void log_checkpoint_check(struct log *l)
{
    if (l->checkpoint != NULL && l->checkpoint->state == CHECKPOINT_WAIT_COMMIT) {
        advance(l->checkpoint);
    } else {
        check(l);
    }
}

bool log_checkpoint_is_quiet(const struct log *l)
{
    return l->checkpoint == NULL && list_is_empty(&l->checkpoint_link);
}

void log_checkpoint_cancel(struct log *l)
{
    list_remove(&l->checkpoint_link);
    if (l->checkpoint != NULL && l->checkpoint->state == CHECKPOINT_WAIT_COMMIT) {
        reached(log_shard(l), "log_checkpoint_cancelled");
        l->is_checkpoint_asked |= l->checkpoint->was_asked;
        task_free(l->checkpoint);
    }
}

void log_checkpoint_abandon(struct log *l)
{
    log_checkpoint_cancel(l);
    if (l->checkpoint != NULL && l->checkpoint->state == CHECKPOINT_WAIT_STORE) {
        store_wait_cancel(l->env.store, &l->checkpoint->store_wait);
        fail(l->checkpoint, ERR_FAILED);
    }
}

void log_checkpoint_ask(struct log *l)
{
    l->is_checkpoint_asked = true;
    log_poke(l);
}

void log_checkpoint_init(struct log *l)
{
    list_init(&l->checkpoint_link);
    timer_init(&l->checkpoint_retry, on_retry);
}

void log_checkpoint_done(struct log *l)
{
    assert(log_checkpoint_is_quiet(l));
    timer_cancel(&log_shard(l)->timers, &l->checkpoint_retry);
}

void log_checkpoints_init(struct log_shared *ls)
{
    list_init(&ls->checkpoint_queue);
    task_init(&ls->checkpoint_turns, "checkpoint turns", start_next);
}

void log_checkpoints_done(struct log_shared *ls)
{
    assert(list_is_empty(&ls->checkpoint_queue));
    assert_cmp(ls->checkpoints_count, ==, 0);
    list_remove(&ls->checkpoint_turns.link);
}

uint64_t log_checkpoint_index(const struct log *l)
{
    return l->checkpoint_index;
}

bool log_checkpoint_covers(const struct log_segment *seg)
{
    const struct log *l = seg->log;
    bool has_checkpoints = l->options.checkpoint_size > 0 && l->damages_count == 0;
    return !has_checkpoints || seg->base.index < l->checkpoint_segment;
}

char *log_checkpoint_path(const struct log *l, uint64_t index)
{
    const struct segment_name n = {.base_index = index};
    char name[SEGMENT_NAME_SIZE];
    segment_name_format(&n, ".checkpoint", name);
    return log_path(l->dir, name);
}
