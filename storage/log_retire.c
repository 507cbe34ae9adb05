/* Retiring a segment: it leaves the log at once, its file when nobody uses it any more.
 *
 *   taken out of log.segments, manifest record and cuts deleted from the store
 *   WAIT_USERS -> WAIT_STORE -> WAIT_PACE -> WAIT_CLOSE -> WAIT_UNLINK_INDEX
 *              -> WAIT_DISCARD -> gone
 *
 *  1. A segment is used by walks, index tasks and fills (log_segment_hold): they find it as it was,
 *     go on where it ends, and nobody new finds it.
 *  2. The file goes only when the store no longer names it, durably: a crash in between leaves a
 *     file that the manifest does not name, and the next start removes it. The other order would
 *     leave a manifest whose file is missing.
 *  3. The record goes before the cuts of its segment, and segments at the start of the log in their
 *     order: what a crash leaves of the changes is a log without a hole, and perhaps cuts of a
 *     segment that is gone, which recovery ignores.
 *  4. A file that is to become a segment again (recycle.h) is renamed instead of being removed; for
 *     that it is as free of users and of the store as 1 and 2 say.
 *  5. One file of a log goes at a time; one that is unlinked here (small, or there is no
 *     directory to rename it to) when the shard's pace says so. A close leaves those that still
 *     wait to the next start; a delete of the log does not.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/logger.h"
#include "core/reached.h"
#include "storage/log_priv.h"

enum retire_state {
    RETIRE_WAIT_USERS,
    RETIRE_WAIT_STORE,
    RETIRE_WAIT_PACE,
    RETIRE_WAIT_CLOSE,
    RETIRE_WAIT_UNLINK_INDEX,
    RETIRE_WAIT_DISCARD,
};

/* There is one per log while log.retired holds segments. */
struct log_retirer {
    struct log *log;
    enum retire_state state;
    struct log_segment *seg; /* Whose file goes; NULL in WAIT_USERS. */
    char *path;
    struct recycle_discard discard;
    struct io_op op;
    struct store_wait store_wait;
    struct segment_wait file_wait;
    struct pace_wait pace_wait;
};

static void retire_run(struct log_retirer *t);
static void drop_retirer(struct log *l);

/* ---- users ---- */

void log_segment_hold(struct log_segment *seg)
{
    seg->holds_count++;
}

void log_segment_release(struct log_segment *seg)
{
    assert_cmp(seg->holds_count, >, 0);
    seg->holds_count--;
    if (seg->holds_count == 0 && seg->is_retired) {
        log_poke(seg->log);
    }
}

/* ---- one file ---- */

static void file_removed(struct log_retirer *t, enum err e)
{
    free(t->path);
    t->path = NULL;
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        /* Space is lost until the next start, which tries again; nothing else depends on it. */
        log_warn(log_shard(t->log)->log,
                 "log_segment_not_removed",
                 "log=%s segment=%" PRIu64 " err=%s",
                 t->log->name,
                 t->seg->base.index,
                 err_name(e));
    }
    retire_run(t);
}

static void on_op_done(struct io_op *op)
{
    file_removed(container_of(op, struct log_retirer, op), op->result);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    file_removed(container_of(d, struct log_retirer, discard), e);
}

static void on_store_durable(struct store_wait *w)
{
    retire_run(container_of(w, struct log_retirer, store_wait));
}

static void on_turn(struct pace_wait *w, enum err e)
{
    struct log_retirer *t = container_of(w, struct log_retirer, pace_wait);
    if (e == ERR_OK || t->log->state != LOG_OPEN) {
        retire_run(t);
    } /* Else the background stops, and a close comes: log_retire_hurry. */
}

static void on_file_closed(struct segment_wait *w, enum err e)
{
    (void)e;
    retire_run(container_of(w, struct log_retirer, file_wait));
}

static void submit_unlink(struct log_retirer *t, const char *suffix, enum retire_state next)
{
    t->path = log_segment_path(t->seg, suffix);
    if (t->path == NULL) {
        panic("no memory for a path");
    }
    t->state = next;
    t->op = (struct io_op){.kind = IO_UNLINK, .path = t->path, .on_done = on_op_done};
    io_submit(&log_shard(t->log)->io, &t->op);
}

/* Where something could not be read, the next life shall not meet it. */
uint64_t log_segment_recyclable_size(const struct log_segment *seg)
{
    return seg->is_usable && seg->log->damages_count == 0 && !seg->log->is_failed
               ? seg->written_to
               : RECYCLE_SIZE_UNKNOWN;
}

static void submit_discard(struct log_retirer *t)
{
    t->path = log_segment_path(t->seg, ".log");
    if (t->path == NULL) {
        panic("no memory for a path");
    }
    t->state = RETIRE_WAIT_DISCARD;
    t->discard = (struct recycle_discard){
        .path = t->path,
        .written_size = log_segment_recyclable_size(t->seg),
        .on_done = on_discarded,
    };
    recycle_discard(&t->log->env.shared->recycle, &t->discard);
}

/* The log ends without its files being touched any more, or the store may still name them. */
static bool keeps_files(const struct log *l)
{
    return l->state == LOG_CLOSING || flusher_is_failed(l->env.flusher);
}

static void wait_store(struct log_retirer *t)
{
    t->state = RETIRE_WAIT_STORE;
    t->store_wait.on_durable = on_store_durable;
    if (log_store_wait(t->log, &t->store_wait) != ERR_OK) {
        retire_run(t); /* The flusher failed: keeps_files. */
    }
}

static void wait_pace(struct log_retirer *t)
{
    struct log *l = t->log;
    t->state = RETIRE_WAIT_PACE;
    if (keeps_files(l) || recycle_takes(&l->env.shared->recycle, t->seg->written_to)) {
        retire_run(t); /* A rename waits for nothing: what it holds is freed at the pace there. */
    } else {
        pace_ask(&l->env.shared->pace, &t->pace_wait, 1, 0);
    }
}

static void close_file(struct log_retirer *t)
{
    t->state = RETIRE_WAIT_CLOSE;
    t->file_wait.on_ready = on_file_closed;
    if (!segment_file_close(t->seg, &t->file_wait)) {
        retire_run(t);
    }
}

static void segment_gone(struct log_retirer *t)
{
    struct log *l = t->log;
    log_segment_free(t->seg);
    t->seg = NULL;
    t->state = RETIRE_WAIT_USERS;
    drop_retirer(l);
    log_poke(l); /* For the next one, or for whoever waits for the last. */
}

static void retire_run(struct log_retirer *t)
{
    struct log *l = t->log;
    switch (t->state) {
    case RETIRE_WAIT_USERS:
        if (keeps_files(l)) {
            close_file(t);
        } else {
            wait_store(t);
        }
        break;
    case RETIRE_WAIT_STORE:
        wait_pace(t);
        break;
    case RETIRE_WAIT_PACE:
        close_file(t);
        break;
    case RETIRE_WAIT_CLOSE:
        if (keeps_files(l)) {
            segment_gone(t);
        } else {
            submit_unlink(t, ".index", RETIRE_WAIT_UNLINK_INDEX);
        }
        break;
    case RETIRE_WAIT_UNLINK_INDEX:
        submit_discard(t);
        break;
    case RETIRE_WAIT_DISCARD:
        reached(log_shard(l), "log_segment_removed");
        l->stats.removed_segments++;
        segment_gone(t);
        break;
    }
}

void log_retire_poke(struct log *l)
{
    struct log_retirer *t = l->retirer;
    if (t == NULL || t->state != RETIRE_WAIT_USERS) {
        return;
    }
    list_for_each (n, &l->retired) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->holds_count == 0) {
            t->seg = seg;
            retire_run(t);
            return;
        }
    }
    reached(log_shard(l), "log_retired_segment_in_use");
}

bool log_retire_hurry(struct log *l)
{
    struct log_retirer *t = l->retirer;
    if (t != NULL && t->state == RETIRE_WAIT_PACE &&
        (keeps_files(l) || !pace_is_waiting(&t->pace_wait))) {
        pace_cancel(&l->env.shared->pace, &t->pace_wait);
        retire_run(t);
    }
    return l->retirer == NULL;
}

void log_retire_abandon(struct log *l)
{
    struct log_retirer *t = l->retirer;
    if (t != NULL && t->state == RETIRE_WAIT_STORE) {
        store_wait_cancel(l->env.store, &t->store_wait);
        retire_run(t);
    }
}

/* ---- out of the log ---- */

struct segment_cuts {
    uint64_t base_index;
    uint64_t subs[LOG_CUTS_DROPPED_MAX];
    uint32_t count;
};

static void collect_cut(void *context, uint64_t sub, struct slice value)
{
    struct segment_cuts *cuts = context;
    struct cut_record r;
    if (cuts->count < LOG_CUTS_DROPPED_MAX && cut_record_decode(value, &r) == ERR_OK &&
        r.segment == cuts->base_index) {
        cuts->subs[cuts->count++] = sub;
    }
}

/* Records that stay, for want of memory or because there are more, are dropped by the next open. */
void log_segment_drop_cuts(const struct log_segment *seg)
{
    const struct log *l = seg->log;
    if (seg->jumps_count == 0) {
        return;
    }
    struct segment_cuts cuts = {.base_index = seg->base.index};
    store_each(l->env.store, &l->id, STORE_CUT, &cuts, collect_cut);
    for (uint32_t i = 0; i < cuts.count; i++) {
        const struct store_key key = log_store_key(l, STORE_CUT, cuts.subs[i]);
        (void)store_delete(l->env.store, &key);
    }
}

static void free_pages(const struct log_segment *seg)
{
    list_for_each_safe (n, &seg->log->pages) {
        struct log_page *pg = container_of(n, struct log_page, link);
        if (pg->segment == seg) {
            assert(!pg->is_dirty);
            log_page_free(pg);
        }
    }
}

static enum err need_retirer(struct log *l)
{
    if (l->retirer != NULL) {
        return ERR_OK;
    }
    struct log_retirer *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return ERR_BUSY;
    }
    t->log = l;
    t->state = RETIRE_WAIT_USERS;
    pace_wait_init(&t->pace_wait, on_turn);
    l->retirer = t;
    return ERR_OK;
}

static void drop_retirer(struct log *l)
{
    if (list_is_empty(&l->retired)) {
        free(l->retirer);
        l->retirer = NULL;
    }
}

enum err log_retire(struct log_segment *seg, enum log_retire_reason reason)
{
    struct log *l = seg->log;
    const struct log_segment *next = log_segment_after(seg);
    assert(l->state == LOG_OPEN);
    assert(!seg->is_retired);
    assert(next != NULL); /* Never the tail. */
    assert_cmp(next->base.index - 1, <=, l->flushed_index);

    enum err e = need_retirer(l);
    if (e == ERR_OK && reason == LOG_RETIRE_REMOVED) {
        const struct store_key key = log_store_key(l, STORE_SEGMENT, seg->base.index);
        e = store_delete(l->env.store, &key);
    }
    if (e != ERR_OK) {
        drop_retirer(l);
        return e;
    }
    if (reason == LOG_RETIRE_REMOVED) {
        log_segment_drop_cuts(seg);
        log_holes_drop(seg);
    }
    free_pages(seg);
    seg->is_retired = true;
    l->retired_count++;
    seg->retired_next = next->base.index;
    log_ahead_forget(seg);
    l->sealed_size -= seg->tail_pos;
    list_remove(&seg->link);
    list_push_back(&l->retired, &seg->link);
    log_poke(l);
    return ERR_OK;
}
