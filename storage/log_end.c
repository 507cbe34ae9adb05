/* The end of a log in memory (close) or altogether (delete).
 *
 *   close:   WAIT_QUIET (-> checkpoint -> WAIT_QUIET) -> WAIT_STORE -> [WAIT_FILE]* -> gone
 *   delete:  WAIT_QUIET -> WAIT_STORE -> [WAIT_PACE ->]
 *                       [WAIT_FILE -> WAIT_UNLINK_INDEX -> WAIT_DISCARD]*
 *                       -> WAIT_UNLINK_OTHERS* -> WAIT_RMDIR
 *                       -> WAIT_OPEN_LINK -> WAIT_UNLINK_LINK | WAIT_CLOSE_LINK
 *                       -> WAIT_FSYNC_DIR -> gone
 *
 * A delete removes the store's values first: files without them are leftovers for any later start,
 * while values without their files would be damage. It takes the names away and no more: what large
 * files hold is freed later, at the shard's pace, or used again (recycle.h).
 */
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "storage/log_priv.h"

enum end_state {
    END_WAIT_QUIET,
    END_WAIT_STORE,
    END_WAIT_PACE,
    END_WAIT_FILE,
    END_WAIT_UNLINK_INDEX,
    END_WAIT_DISCARD,
    END_WAIT_UNLINK_OTHERS,
    END_WAIT_RMDIR,
    END_WAIT_OPEN_LINK,
    END_WAIT_CLOSE_LINK,
    END_WAIT_UNLINK_LINK,
    END_WAIT_FSYNC_DIR,
};

struct log_end_task {
    struct log *log;
    enum end_state state;
    enum log_state log_state; /* LOG_CLOSING or LOG_DELETING. */
    bool had_checkpoint;      /* A close looked whether one is worth writing. */
    uint32_t others_next;     /* Of what is not a segment's. */
    bool keeps_files;         /* A close, or a delete whose store values may still be there. */
    enum err result;
    void *context;
    void (*on_closed)(void *context);
    void (*on_deleted)(void *context, enum err e);
    char *path;
    struct recycle_discard discard;
    struct io_op op;
    struct store_wait store_wait;
    struct segment_wait file_wait;
    struct pace_wait pace_wait;
};

static void end_run(struct log_end_task *t);

static void step_done(struct log_end_task *t, enum err e)
{
    free(t->path);
    t->path = NULL;
    bool is_fine = e == ERR_OK || e == ERR_NOT_FOUND ||
                   t->state == END_WAIT_OPEN_LINK; /* Then the name is not ours. */
    if (!is_fine && t->result == ERR_OK) {
        t->result = e; /* Go on: the rest is not better off for staying. */
    }
    end_run(t);
}

static void on_op_done(struct io_op *op)
{
    struct log_end_task *t = container_of(op, struct log_end_task, op);
    flusher_sync_done(t->log->env.flusher, op);
    step_done(t, op->result);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    step_done(container_of(d, struct log_end_task, discard), e);
}

static void on_store_durable(struct store_wait *w)
{
    end_run(container_of(w, struct log_end_task, store_wait));
}

/* A stop of the background does not leave the rest to anybody: it is not much. */
static void on_turn(struct pace_wait *w, enum err e)
{
    (void)e;
    end_run(container_of(w, struct log_end_task, pace_wait));
}

static void on_file_closed(struct segment_wait *w, enum err e)
{
    (void)e;
    end_run(container_of(w, struct log_end_task, file_wait));
}

/* Takes path over. */
static void submit(struct log_end_task *t, enum io_kind kind, char *path, enum end_state next)
{
    if (path == NULL) {
        panic("no memory for a path");
    }
    t->state = next;
    t->path = path;
    t->op = (struct io_op){.kind = kind, .path = path, .on_done = on_op_done};
    io_submit(&log_shard(t->log)->io, &t->op);
}

static void gone(struct log_end_task *t)
{
    struct log *l = t->log;
    if (t->on_closed != NULL) {
        t->on_closed(t->context);
    } else {
        t->on_deleted(t->context, t->result);
    }
    log_free(l);
    free(t);
}

static void submit_discard(struct log_end_task *t, const struct log_segment *seg)
{
    t->path = log_segment_path(seg, ".log");
    if (t->path == NULL) {
        panic("no memory for a path");
    }
    t->state = END_WAIT_DISCARD;
    t->discard = (struct recycle_discard){
        .path = t->path,
        .written_size = log_segment_recyclable_size(seg),
        .on_done = on_discarded,
    };
    recycle_discard(&t->log->env.shared->recycle, &t->discard);
}

static void wait_store(struct log_end_task *t)
{
    t->state = END_WAIT_STORE;
    t->store_wait.on_durable = on_store_durable;
    enum err e = log_store_wait(t->log, &t->store_wait);
    assert(e == ERR_OK); /* Looked at before anything was put. */
}

/* Files that belong to no segment; NULL: there are no more. */
static char *next_other(struct log_end_task *t)
{
    static const char *const names[] = {"next.tmp", "index.tmp", "checkpoint.tmp", "rewrite.tmp"};
    const uint32_t count = sizeof(names) / sizeof(names[0]);
    const uint32_t i = t->others_next++;
    char *path = NULL;
    if (i < count) {
        path = log_path(t->log->dir, names[i]);
    } else if (i == count && t->log->checkpoint_file != 0) {
        path = log_checkpoint_path(t->log, t->log->checkpoint_file);
    } else {
        return NULL;
    }
    if (path == NULL) {
        panic("no memory for a path");
    }
    return path;
}

static void submit_rmdir(struct log_end_task *t);

static void unlink_others(struct log_end_task *t)
{
    char *path = next_other(t);
    if (path != NULL) {
        submit(t, IO_UNLINK, path, END_WAIT_UNLINK_OTHERS);
    } else {
        submit_rmdir(t);
    }
}

static void next_file(struct log_end_task *t)
{
    struct log_segment *seg = log_tail_segment(t->log);
    if (seg == NULL) {
        if (t->keeps_files) {
            gone(t);
        } else {
            unlink_others(t);
        }
        return;
    }
    t->state = END_WAIT_FILE;
    t->file_wait.on_ready = on_file_closed;
    if (!segment_file_close(seg, &t->file_wait)) {
        end_run(t);
    }
}

static void file_closed(struct log_end_task *t)
{
    struct log_segment *seg = log_tail_segment(t->log);
    if (t->keeps_files) {
        log_segment_free(seg);
        next_file(t);
    } else {
        submit(t, IO_UNLINK, log_segment_path(seg, ".index"), END_WAIT_UNLINK_INDEX);
    }
}

/* The name belongs to a newer topic's log if there is one of the same name. */
static bool owns_name(const struct log *l)
{
    list_for_each (n, &l->env.shared->logs) {
        const struct log *other = container_of(n, struct log, shared_link);
        if (other != l && strcmp(other->name, l->name) == 0) {
            return false;
        }
    }
    return true;
}

static char *logs_path(const struct log *l, const char *name)
{
    char *logs_dir = log_path(l->env.dir, "logs");
    char *path = logs_dir == NULL || name == NULL ? logs_dir : log_path(logs_dir, name);
    if (path != logs_dir) {
        free(logs_dir);
    }
    return path;
}

static void submit_rmdir(struct log_end_task *t)
{
    t->state = END_WAIT_RMDIR;
    t->path = NULL;
    t->op = (struct io_op){
        .kind = IO_UNLINK,
        .path = t->log->dir,
        .open_flags = IO_OPEN_DIRECTORY,
        .on_done = on_op_done,
    };
    io_submit(&log_shard(t->log)->io, &t->op);
}

static void sync_logs_dir(struct log_end_task *t)
{
    submit(t, IO_FSYNC_DIR, logs_path(t->log, NULL), END_WAIT_FSYNC_DIR);
}

/* The newer log may also live on another shard. But our directory is gone: if the name leads
 * somewhere, it is not ours. (One that is made between this look and the unlink is lost; it is for
 * people, nothing reads it.) */
static void look_at_link(struct log_end_task *t)
{
    if (!owns_name(t->log)) {
        sync_logs_dir(t);
        return;
    }
    t->state = END_WAIT_OPEN_LINK;
    t->path = logs_path(t->log, t->log->name);
    if (t->path == NULL) {
        panic("no memory for a path");
    }
    t->op = (struct io_op){
        .kind = IO_OPEN,
        .path = t->path,
        .open_flags = IO_OPEN_READ | IO_OPEN_DIRECTORY,
        .on_done = on_op_done,
    };
    io_submit(&log_shard(t->log)->io, &t->op);
}

static void link_looked_at(struct log_end_task *t)
{
    if (t->op.result == ERR_NOT_FOUND) {
        submit(t, IO_UNLINK, logs_path(t->log, t->log->name), END_WAIT_UNLINK_LINK);
    } else if (t->op.result == ERR_OK) {
        t->state = END_WAIT_CLOSE_LINK;
        t->op = (struct io_op){.kind = IO_CLOSE, .fd = t->op.result_fd, .on_done = on_op_done};
        io_submit(&log_shard(t->log)->io, &t->op);
    } else {
        sync_logs_dir(t);
    }
}

static void free_pages(struct log *l)
{
    while (!list_is_empty(&l->pages)) {
        log_page_free(container_of(l->pages.next, struct log_page, link));
    }
}

/* Appends that nobody was told about need not be waited for when they cannot get to the disk. */
static bool is_drained(const struct log *l)
{
    return l->state == LOG_DELETING || l->is_failed || l->is_full || l->is_end_unknown ||
           l->flushed_index == l->last_index;
}

static void check_quiet(struct log_end_task *t)
{
    struct log *l = t->log;
    if (!is_drained(l)) {
        log_kick(l);
        return;
    }
    bool is_birth_over = log_birth_stop(l);
    bool is_retired_over = log_retire_hurry(l);
    bool is_compact_over = log_compact_stop(l);
    bool is_ahead_over = log_ahead_stop(l);
    if (!is_birth_over || !is_compact_over || !is_retired_over || !is_ahead_over ||
        !log_is_quiet(l) || !list_is_empty(&l->parked)) {
        return;
    }
    if (l->state == LOG_CLOSING && !t->had_checkpoint) {
        t->had_checkpoint = true;
        log_checkpoint_check(l);
        if (!log_checkpoint_is_quiet(l)) {
            return; /* log_poke comes. */
        }
    }
    free_pages(l);
    timer_cancel(&log_shard(l)->timers, &l->retry);
    flusher_withdraw(l->env.flusher, &l->client);
    bool is_store_dead = flusher_is_failed(l->env.flusher);
    if (is_store_dead) {
        t->result = ERR_FAILED;
        t->keeps_files = true;
    }
    if (is_store_dead || (l->is_failed && l->state == LOG_CLOSING)) {
        next_file(t); /* What is durable is not known any more. */
        return;
    }
    enum err e =
        l->state == LOG_DELETING ? store_delete_log(l->env.store, &l->id) : log_persist_durable(l);
    if (e != ERR_OK) {
        t->result = e;
        t->keeps_files = true;
    }
    wait_store(t);
}

static void end_run(struct log_end_task *t)
{
    struct log *l = t->log;
    switch (t->state) {
    case END_WAIT_QUIET:
        check_quiet(t);
        break;
    case END_WAIT_STORE:
        t->state = END_WAIT_PACE;
        if (t->keeps_files || !log_shared_paces_delete(l->env.shared, &t->pace_wait)) {
            next_file(t);
        }
        break;
    case END_WAIT_PACE:
        next_file(t);
        break;
    case END_WAIT_FILE:
        file_closed(t);
        break;
    case END_WAIT_UNLINK_INDEX:
        submit_discard(t, log_tail_segment(l));
        break;
    case END_WAIT_DISCARD:
        log_segment_free(log_tail_segment(l));
        next_file(t);
        break;
    case END_WAIT_UNLINK_OTHERS:
        unlink_others(t);
        break;
    case END_WAIT_RMDIR:
        look_at_link(t);
        break;
    case END_WAIT_OPEN_LINK:
        link_looked_at(t);
        break;
    case END_WAIT_CLOSE_LINK:
    case END_WAIT_UNLINK_LINK:
        sync_logs_dir(t);
        break;
    case END_WAIT_FSYNC_DIR:
        gone(t);
        break;
    }
}

void log_end_poke(struct log *l)
{
    if (l->end->state == END_WAIT_QUIET) {
        end_run(l->end);
    }
}

void log_end_start(struct log *l)
{
    assert(l->state == LOG_OPEN);
    l->state = l->end->log_state;
    log_checkpoint_cancel(l);
    list_remove(&l->quiet_link);
    log_poke(l);
}

static struct log_end_task *begin(struct log *l, enum log_state state, void *context)
{
    assert(l->state == LOG_OPEN || l->state == LOG_CUTTING);
    assert(l->end == NULL);
    struct log_end_task *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        panic("no memory to end a log");
    }
    t->log = l;
    t->state = END_WAIT_QUIET;
    pace_wait_init(&t->pace_wait, on_turn);
    t->log_state = state;
    t->context = context;
    l->end = t;
    if (l->state == LOG_OPEN) {
        log_end_start(l);
    } /* Else when the cut is done. */
    return t;
}

void log_close(struct log *l, void *context, void (*on_closed)(void *context))
{
    struct log_end_task *t = begin(l, LOG_CLOSING, context);
    t->keeps_files = true;
    t->on_closed = on_closed;
}

void log_delete(struct log *l, void *context, void (*on_deleted)(void *context, enum err e))
{
    begin(l, LOG_DELETING, context)->on_deleted = on_deleted;
}

void log_end_abandon(struct log *l)
{
    if (l->end != NULL && l->end->state == END_WAIT_STORE) {
        store_wait_cancel(l->env.store, &l->end->store_wait);
        l->end->result = ERR_FAILED;
        l->end->keeps_files = true;
        next_file(l->end);
    }
}
