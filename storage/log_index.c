/* Index files of sealed segments: written in the background, loaded when a reader needs points that
 * left memory, rebuilt from the log when the file is missing, damaged or disagrees with the log.
 *
 *   write:  [WAIT_TURN] -> WAIT_CREATE -> WAIT_WRITE -> WAIT_FSYNC -> WAIT_CLOSE -> WAIT_RENAME
 *                       -> WAIT_FSYNC_DIR -> done
 *   load:   [WAIT_TURN] -> [WAIT_DESCRIPTOR ->] WAIT_LOAD_OPEN -> WAIT_LOAD_READ
 *                       -> WAIT_LOAD_CLOSE -> done, or
 *                          WAIT_REBUILD -> done, and the file is written anew
 *
 * A few work at a time, of all logs together: each has a descriptor and a buffer of the file's
 * size.
 *
 * Nothing depends on an index file: a failure is logged and the segment is walked instead. Points
 * only say where to start looking; the entry there is checked against them by whoever goes there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_priv.h"

enum {
    STARVED_RETRY_US = 10 * 1000,
};

enum index_state {
    INDEX_WAIT_TURN,
    INDEX_WAIT_CREATE,
    INDEX_WAIT_WRITE,
    INDEX_WAIT_FSYNC,
    INDEX_WAIT_CLOSE,
    INDEX_WAIT_RENAME,
    INDEX_WAIT_FSYNC_DIR,
    INDEX_WAIT_DESCRIPTOR,
    INDEX_WAIT_LOAD_OPEN,
    INDEX_WAIT_LOAD_READ,
    INDEX_WAIT_LOAD_CLOSE,
    INDEX_WAIT_REBUILD,
};

struct log_index_task {
    struct log_segment *seg;
    enum index_state state;
    void (*on_turn)(struct log_index_task *t);
    bool has_turn;
    struct list turn_link; /* In log_shared.index_tasks. */
    struct timer retry;    /* Without a descriptor. */
    enum err result;       /* Of a write or load, carried over the close. */
    int fd;
    uint64_t file_size;
    struct buf *buf;
    char *path;
    char *tmp_path;
    struct io_op op;

    struct log_walk walk; /* Rebuilding, into these: */
    struct segment_points points;
    uint64_t point_next_pos;
};

static void index_run(struct log_index_task *t);

static void on_op_done(struct io_op *op)
{
    struct log_index_task *t = container_of(op, struct log_index_task, op);
    flusher_sync_done(t->seg->log->env.flusher, op);
    index_run(t);
}

static void submit(struct log_index_task *t, const struct io_op *op, enum index_state next)
{
    t->state = next;
    t->op = *op;
    t->op.on_done = on_op_done;
    io_submit(&log_shard(t->seg->log)->io, &t->op);
}

/* ---- memory ---- */

/* Points of sealed segments whose file exists may leave memory, the longest unused first. */
static void evict(struct log_shared *ls)
{
    while (ls->stats.index_used_size > ls->options.index_size_max && !list_is_empty(&ls->indexes)) {
        log_index_forget(container_of(ls->indexes.next, struct log_segment, index_link));
    }
}

static void make_evictable(struct log_segment *seg)
{
    struct log_shared *ls = seg->log->env.shared;
    assert(list_is_empty(&seg->index_link));
    list_push_back(&ls->indexes, &seg->index_link);
    ls->stats.index_used_size += segment_points_size(&seg->points);
    evict(ls);
}

static void make_permanent(struct log_segment *seg)
{
    if (!list_is_empty(&seg->index_link)) {
        seg->log->env.shared->stats.index_used_size -= segment_points_size(&seg->points);
        list_remove(&seg->index_link);
    }
}

void log_index_sealed(struct log_segment *seg)
{
    if (seg->index_file_size > 0 && !seg->is_index_pinned && list_is_empty(&seg->index_link)) {
        make_evictable(seg);
    }
}

void log_index_forget(struct log_segment *seg)
{
    make_permanent(seg);
    segment_points_done(&seg->points);
    seg->has_points = false;
}

bool log_index_doubt(struct log_segment *seg)
{
    if (!seg->is_index_loaded || seg->index_task != NULL) {
        return false;
    }
    reached(log_shard(seg->log), "log_index_doubted");
    seg->index_file_size = 0;
    seg->is_index_loaded = false;
    log_index_forget(seg);
    return true;
}

void log_index_pin(struct log_segment *seg)
{
    assert(seg->has_points);
    make_permanent(seg);
    seg->is_index_pinned = true;
}

void log_index_unseal(struct log_segment *seg)
{
    assert(seg->has_points);
    make_permanent(seg);
    seg->is_index_pinned = false;
    assert(!seg->is_index_loaded);
    seg->index_file_size = 0;
    seg->is_index_hopeless = false;
}

/* ---- turns ---- */

/* At most a quarter of the descriptors that files may have. */
static bool has_free_turn(const struct log_shared *ls)
{
    const uint32_t share = ls->options.files_max / 4;
    const uint32_t turns = share < LOG_INDEX_TURNS_MAX ? share : LOG_INDEX_TURNS_MAX;
    return ls->index_turns_count < (turns > 0 ? turns : 1);
}

static void begin_turn(struct log_index_task *t)
{
    t->has_turn = true;
    t->seg->log->env.shared->index_turns_count++;
    t->on_turn(t);
}

static void ask_for_turn(struct log_index_task *t, void (*on_turn)(struct log_index_task *t))
{
    struct log_shared *ls = t->seg->log->env.shared;
    t->on_turn = on_turn;
    if (has_free_turn(ls) && list_is_empty(&ls->index_tasks)) {
        begin_turn(t);
        return;
    }
    reached(ls->s, "log_index_waits_for_turn");
    t->state = INDEX_WAIT_TURN;
    list_push_back(&ls->index_tasks, &t->turn_link);
}

/* From the loop: those that wait may have much to do, and finish at once. */
void log_index_on_turns_task(struct task *task)
{
    struct log_shared *ls = container_of(task, struct log_shared, index_turns);
    while (has_free_turn(ls) && !list_is_empty(&ls->index_tasks)) {
        begin_turn(
            container_of(list_pop_front(&ls->index_tasks), struct log_index_task, turn_link));
    }
}

static void end_turn(struct log_index_task *t)
{
    struct log_shared *ls = t->seg->log->env.shared;
    assert(t->has_turn);
    ls->index_turns_count--;
    if (!list_is_empty(&ls->index_tasks)) {
        shard_post(ls->s, &ls->index_turns);
    }
}

/* ---- ending ---- */

static void tell_waiters(struct log_segment *seg)
{
    struct list waiters;
    list_init(&waiters);
    list_splice_back(&waiters, &seg->index_waiters);
    for (struct list *n = list_pop_front(&waiters); n != NULL; n = list_pop_front(&waiters)) {
        struct segment_wait *w = container_of(n, struct segment_wait, link);
        w->on_ready(w, ERR_OK);
    }
}

static void finish(struct log_index_task *t)
{
    struct log_segment *seg = t->seg;
    struct log *l = seg->log;
    end_turn(t);
    buf_unref(t->buf);
    free(t->path);
    free(t->tmp_path);
    free(t);
    seg->index_task = NULL;
    l->index_tasks_count--;
    tell_waiters(seg); /* Before the points may leave again. */
    if (seg->has_points) {
        log_index_sealed(seg);
    }
    log_segment_release(seg);
    log_index_seal(l);
    log_poke(l);
}

static void on_retry(struct timer *timer);

static struct log_index_task *task_new(struct log_segment *seg)
{
    struct log_index_task *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        panic("no memory for an index");
    }
    t->seg = seg;
    t->fd = -1;
    list_init(&t->turn_link);
    timer_init(&t->retry, on_retry);
    t->path = log_segment_path(seg, ".index");
    t->tmp_path = log_path(seg->log->dir, "index.tmp");
    if (t->path == NULL || t->tmp_path == NULL) {
        panic("no memory for a path");
    }
    assert(seg->index_task == NULL);
    log_segment_hold(seg);
    seg->index_task = t;
    seg->log->index_tasks_count++;
    return t;
}

static bool get_buffer(struct log_index_task *t, size_t size)
{
    t->buf = log_shared_alloc(t->seg->log->env.shared, size, BUF_RESERVED);
    return t->buf != NULL;
}

/* ---- write ---- */

static void write_failed(struct log_index_task *t, enum err e)
{
    struct log *l = t->seg->log;
    if (e == ERR_BUSY) {
        l->index_due_us = log_shard(l)->now_us + LOG_RETRY_US; /* Memory comes back. */
    } else {
        t->seg->is_index_hopeless = true; /* Until the next start. */
    }
    log_warn(log_shard(l)->log,
             "log_index_not_written",
             "log=%s segment=%" PRIu64 " err=%s",
             l->name,
             t->seg->base.index,
             err_name(e));
    finish(t);
}

static void start_write(struct log_index_task *t)
{
    struct log_segment *seg = t->seg;
    if (seg->log->state != LOG_OPEN || seg->log->is_failed || seg->is_retired) {
        finish(t); /* Nobody waits for it, but perhaps for its end. */
        return;
    }
    t->file_size = segment_index_file_size(&seg->points);
    if (!get_buffer(t, t->file_size)) {
        write_failed(t, ERR_BUSY);
        return;
    }
    struct segment_index_header h = {
        .salt = seg->salt,
        .base_index = seg->base.index,
        .generation = seg->log->generation,
        .covered_pos = seg->end_pos,
        .covered_next = log_segment_after(seg)->base.index,
        .max_timestamp = seg->max_timestamp,
    };
    segment_index_encode(&h, &seg->points, t->buf->data);
    submit(t,
           &(struct io_op){
               .kind = IO_OPEN,
               .path = t->tmp_path,
               .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE |
                             IO_OPEN_DIRECT,
           },
           INDEX_WAIT_CREATE);
}

void log_index_seal(struct log *l)
{
    if (!l->has_unindexed || l->index_tasks_count > 0 || l->state != LOG_OPEN || l->is_failed ||
        log_shard(l)->now_us < l->index_due_us) {
        return;
    }
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        const struct log_segment *next = log_segment_after(seg);
        if (next == NULL || next->base.index - 1 > l->flushed_index) {
            break;
        }
        if (seg->index_file_size == 0 && !seg->is_index_hopeless && seg->has_points) {
            make_permanent(seg);
            ask_for_turn(task_new(seg), start_write);
            return;
        }
    }
    /* Those that are sealed but not flushed yet come with their flush. */
    const struct log_segment *tail = log_tail_segment(l);
    l->has_unindexed = tail != NULL && tail->base.index - 1 > l->flushed_index;
}

static void run_write(struct log_index_task *t)
{
    const enum index_state state = t->state;
    if (t->op.result != ERR_OK && t->result == ERR_OK) {
        t->result = t->op.result;
    }
    if (state == INDEX_WAIT_CREATE && t->result == ERR_OK) {
        t->fd = t->op.result_fd;
        submit(t,
               &(struct io_op){
                   .kind = IO_WRITE,
                   .fd = t->fd,
                   .buf = t->buf->data,
                   .size = t->file_size,
               },
               INDEX_WAIT_WRITE);
    } else if (state == INDEX_WAIT_WRITE && t->result == ERR_OK) {
        submit(t, &(struct io_op){.kind = IO_FSYNC, .fd = t->fd}, INDEX_WAIT_FSYNC);
    } else if (t->fd != -1) {
        submit(t, &(struct io_op){.kind = IO_CLOSE, .fd = t->fd}, INDEX_WAIT_CLOSE);
        t->fd = -1;
    } else if (t->result != ERR_OK) {
        write_failed(t, t->result);
    } else if (state == INDEX_WAIT_CLOSE) {
        submit(t,
               &(struct io_op){.kind = IO_RENAME, .path = t->tmp_path, .new_path = t->path},
               INDEX_WAIT_RENAME);
    } else if (state == INDEX_WAIT_RENAME) {
        submit(t,
               &(struct io_op){.kind = IO_FSYNC_DIR, .path = t->seg->log->dir},
               INDEX_WAIT_FSYNC_DIR);
    } else {
        t->seg->index_file_size = t->file_size;
        finish(t);
    }
}

/* ---- load ---- */

/* Where the segment behind seg begins; 0 if there is none. */
static uint64_t next_index(const struct log_segment *seg)
{
    if (seg->is_retired) {
        return seg->retired_next;
    }
    const struct log_segment *next = log_segment_after(seg);
    return next == NULL ? 0 : next->base.index;
}

/* The segment as the log knows it; a file that says otherwise is of another time. */
static bool is_of_segment(const struct segment_index_header *h, const struct log_segment *seg)
{
    uint32_t generation_min = seg->generation;
    for (uint32_t i = 0; i < seg->jumps_count; i++) {
        if (!seg->jumps[i].is_damage && seg->jumps[i].generation > generation_min) {
            generation_min = seg->jumps[i].generation;
        }
    }
    return h->salt == seg->salt && h->base_index == seg->base.index &&
           h->generation >= generation_min && h->generation <= seg->log->generation &&
           h->covered_pos == seg->end_pos && h->covered_next == next_index(seg) &&
           h->max_timestamp == seg->max_timestamp;
}

static enum err take_file(struct log_index_task *t, size_t size)
{
    struct log_segment *seg = t->seg;
    struct segment_points points = {0};
    struct segment_index_header h;
    enum err e = segment_index_decode(slice_of(t->buf->data, size), &h, &points);
    if (e != ERR_OK) {
        return e;
    }
    if (!is_of_segment(&h, seg)) {
        segment_points_done(&points);
        return ERR_CORRUPT;
    }
    seg->points = points;
    seg->has_points = true;
    seg->is_index_loaded = true;
    return ERR_OK;
}

static enum walk_verdict on_rebuild_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_index_task *t = container_of(w, struct log_index_task, walk);
    const struct segment_point p = {
        .pos = entry->pos,
        .index = entry->header.index,
        .offset = entry->header.base_offset,
        .max_timestamp = entry->header.max_timestamp,
    };
    segment_points_note(&t->points, &p, &t->point_next_pos, t->seg->log->options.index_interval);
    return WALK_ON;
}

static void on_rebuilt(struct log_walk *w, enum walk_reason reason)
{
    struct log_index_task *t = container_of(w, struct log_index_task, walk);
    if (reason == WALK_DAMAGE) {
        log_walk_leap(w);
        log_walk_run(w);
        return;
    }
    /* Whatever ended it: the points up to there are right, and beyond them a walk has further to
     * go. */
    struct log_segment *seg = t->seg;
    const bool is_complete = reason == WALK_AT_END && w->scan.index >= next_index(seg);
    log_walk_done(w);
    if (!is_complete && t->points.count > 0) {
        t->points.all[t->points.count - 1].max_timestamp = SEGMENT_TIME_UNKNOWN;
    }
    seg->points = t->points;
    seg->has_points = true;
    seg->is_index_loaded = false;
    seg->log->has_unindexed = true;
    finish(t);
}

static void start_rebuild(struct log_index_task *t)
{
    struct log_segment *seg = t->seg;
    log_warn(log_shard(seg->log)->log,
             "log_index_rebuilt",
             "log=%s segment=%" PRIu64 " err=%s",
             seg->log->name,
             seg->base.index,
             err_name(t->result));
    seg->log->stats.index_rebuilds++;
    if (t->result != ERR_BUSY) {
        seg->index_file_size = 0; /* Else the file is as good as ever. */
    }
    reached(log_shard(t->seg->log), "log_index_rebuilt");
    t->state = INDEX_WAIT_REBUILD;
    struct log_walk *w = &t->walk;
    log_walk_init(w, seg->log);
    w->class = BUF_RESERVED;
    w->is_one_segment = true;
    w->is_patient = true;
    w->on_entry = on_rebuild_entry;
    w->on_end = on_rebuilt;
    log_walk_seek_start(w, seg);
    w->scan.skip_offset = INT64_MAX; /* Headers only. */
    list_push_back(&seg->log->walks, &w->link);
    log_walk_run(w);
}

static void run_load(struct log_index_task *t)
{
    const enum index_state state = t->state;
    if (state == INDEX_WAIT_LOAD_OPEN && t->op.result == ERR_BUSY) {
        t->state = INDEX_WAIT_DESCRIPTOR; /* To read the whole segment instead takes one, too. */
        shard_timer_arm(log_shard(t->seg->log), &t->retry, STARVED_RETRY_US);
        return;
    }
    if (t->op.result != ERR_OK && t->result == ERR_OK) {
        t->result = t->op.result;
    }
    if (state == INDEX_WAIT_LOAD_OPEN && t->result == ERR_OK) {
        t->fd = t->op.result_fd;
        submit(t,
               &(struct io_op){
                   .kind = IO_READ,
                   .fd = t->fd,
                   .buf = t->buf->data,
                   .size = t->file_size,
               },
               INDEX_WAIT_LOAD_READ);
    } else if (t->fd != -1) {
        submit(t, &(struct io_op){.kind = IO_CLOSE, .fd = t->fd}, INDEX_WAIT_LOAD_CLOSE);
        t->fd = -1;
    } else {
        if (t->result == ERR_OK) {
            t->result = take_file(t, t->file_size);
        }
        if (t->result == ERR_OK) {
            finish(t);
        } else {
            start_rebuild(t);
        }
    }
}

static void open_file(struct log_index_task *t)
{
    submit(t,
           &(struct io_op){
               .kind = IO_OPEN,
               .path = t->path,
               .open_flags = IO_OPEN_READ | IO_OPEN_DIRECT,
           },
           INDEX_WAIT_LOAD_OPEN);
}

static void on_retry(struct timer *timer)
{
    open_file(container_of(timer, struct log_index_task, retry));
}

static void start_load(struct log_index_task *t)
{
    t->file_size = t->seg->index_file_size;
    if (t->file_size == 0) {
        t->result = ERR_NOT_FOUND;
    } else if (t->file_size % ENTRY_BLOCK_SIZE != 0) {
        t->result = ERR_CORRUPT;
    } else if (!get_buffer(t, t->file_size)) {
        t->result = ERR_BUSY;
    }
    if (t->result != ERR_OK) {
        start_rebuild(t);
    } else {
        open_file(t);
    }
}

static void index_run(struct log_index_task *t)
{
    switch (t->state) {
    case INDEX_WAIT_CREATE:
    case INDEX_WAIT_WRITE:
    case INDEX_WAIT_FSYNC:
    case INDEX_WAIT_CLOSE:
    case INDEX_WAIT_RENAME:
    case INDEX_WAIT_FSYNC_DIR:
        run_write(t);
        break;
    case INDEX_WAIT_LOAD_OPEN:
    case INDEX_WAIT_LOAD_READ:
    case INDEX_WAIT_LOAD_CLOSE:
        run_load(t);
        break;
    case INDEX_WAIT_TURN:
    case INDEX_WAIT_DESCRIPTOR:
    case INDEX_WAIT_REBUILD:
        break;
    }
}

bool log_index_want(struct log_segment *seg, struct segment_wait *w)
{
    if (seg->has_points) {
        if (!list_is_empty(&seg->index_link)) {
            struct log_shared *ls = seg->log->env.shared;
            list_remove(&seg->index_link);
            list_push_back(&ls->indexes, &seg->index_link);
        }
        return true;
    }
    list_push_back(&seg->index_waiters, &w->link);
    if (seg->index_task == NULL) {
        ask_for_turn(task_new(seg), start_load);
    }
    return false;
}
