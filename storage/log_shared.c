#include "storage/log_shared.h"

#include <stdlib.h>
#include <string.h>

#include "core/reached.h"
#include "storage/log_priv.h"

const struct log_shared_options LOG_SHARED_OPTIONS_DEFAULT = {
    .cache_size_max = 64 << 20,
    .ahead_size_max = 16 << 20,
    .ahead_chunk_size_max = 1 << 20,
    .pinned_size_max = 32 << 20,
    .piece_size_min = 16 << 10,
    .index_size_max = 16 << 20,
    .files_max = 1024,
    .files_idle_us = 30 * 1000 * 1000,
    .quiet_us = 10 * 1000,
    .background = {.ops_per_s = 20, .bytes_per_s = 64 << 20, .burst_ms = 250},
    .compact_interval_us = 15 * 1000 * 1000,
    .compact_keys_size_max = 16 << 20,
    .recycle_file_size_min = 1 << 20,
};

enum {
    DELETES_PER_TURN = 8,
    /* Waiters are served by what is given back anyway, if it comes soon. */
    RECLAIM_AFTER_US = 20 * 1000,
};

static void on_quiet_timer(struct timer *t);

void log_shared_reclaim_soon(struct log_shared *ls)
{
    const bool has_some = !list_is_empty(&ls->cache) || ls->stats.ahead_size > 0;
    if (has_some && buf_pool_has_waiters(ls->s->bufs) && !timer_is_armed(&ls->reclaim_timer)) {
        shard_timer_arm(ls->s, &ls->reclaim_timer, RECLAIM_AFTER_US);
    }
}

static void on_starving(struct buf_reclaimer *r)
{
    log_shared_reclaim_soon(container_of(r, struct log_shared, reclaimer));
}

/* Somebody has waited for a while. What was read ahead goes, and half of the cache each time: to
 * the last page, if need be, for what is waited for may be a large block that any page stands in
 * the way of. With nothing left to give the timer rests until a page is cached again. */
static void on_reclaim_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, reclaim_timer);
    if (buf_pool_has_waiters(ls->s->bufs)) {
        (void)log_ahead_give_back(ls, SIZE_MAX);
        (void)log_shared_evict(ls, ls->stats.cache_used_size / 2 + 1);
        log_shared_reclaim_soon(ls);
    }
}

enum err log_shared_new(struct shard *s,
                        struct store *store,
                        const struct log_shared_options *options,
                        struct log_shared **ret_shared)
{
    struct log_shared *ls = calloc(1, sizeof(*ls));
    if (ls == NULL) {
        return ERR_BUSY;
    }
    ls->zeros = buf_alloc(s->bufs, LOG_ZERO_SIZE, BUF_RESERVED);
    if (ls->zeros == NULL) {
        free(ls);
        return ERR_BUSY;
    }
    memset(ls->zeros->data, 0, LOG_ZERO_SIZE);
    ls->s = s;
    ls->store = store;
    ls->options = *options;
    list_init(&ls->logs);
    list_init(&ls->cache);
    list_init(&ls->idle_files);
    list_init(&ls->purges);
    list_init(&ls->indexes);
    log_checkpoints_init(ls);
    list_init(&ls->births);
    pace_init(&ls->pace, s, &options->background);
    recycle_init(&ls->recycle, s);
    list_init(&ls->index_tasks);
    task_init(&ls->index_turns, "index turns", log_index_on_turns_task);
    log_compact_init(ls);
    log_ahead_init(ls);
    log_gate_init(&ls->gate, s);
    list_init(&ls->starved_files);
    timer_init(&ls->starved_timer, segment_file_on_starved_timer);
    timer_init(&ls->idle_timer, segment_file_on_idle_timer);
    list_init(&ls->quiet);
    timer_init(&ls->quiet_timer, on_quiet_timer);
    timer_init(&ls->reclaim_timer, on_reclaim_timer);
    ls->reclaimer.on_starving = on_starving;
    buf_pool_add_reclaimer(s->bufs, &ls->reclaimer);
    *ret_shared = ls;
    return ERR_OK;
}

enum err log_shared_recycle(const struct log_env *env)
{
    struct log_shared *ls = env->shared;
    return recycle_start(&ls->recycle,
                         &(struct recycle_options){
                             .dir = env->dir,
                             .size_max = ls->options.recycle_size_max,
                             .file_size_min = ls->options.recycle_file_size_min,
                             .pace = &ls->pace,
                             .space = env->space,
                             .flusher = env->flusher,
                         });
}

bool log_shared_is_busy(const struct log_shared *ls)
{
    return ls != NULL && recycle_is_busy(&ls->recycle);
}

void log_shared_stop_background(struct log_shared *ls)
{
    log_compact_stop_all(ls);
    recycle_stop(&ls->recycle);
    pace_stop(&ls->pace);
}

void log_shared_free(struct log_shared *ls)
{
    if (ls == NULL) {
        return;
    }
    assert(list_is_empty(&ls->logs));
    assert(list_is_empty(&ls->cache));
    assert(list_is_empty(&ls->purges));
    log_checkpoints_done(ls);
    assert(list_is_empty(&ls->births));
    assert_cmp(ls->births_count, ==, 0);
    assert(list_is_empty(&ls->index_tasks));
    assert_cmp(ls->index_turns_count, ==, 0);
    assert(list_is_empty(&ls->starved_files));
    log_compact_done(ls);
    assert(!log_shared_is_pinned(ls));
    log_ahead_done(ls);
    recycle_done(&ls->recycle);
    log_gate_done(&ls->gate);
    pace_done(&ls->pace);
    timer_cancel(&ls->s->timers, &ls->quiet_timer);
    timer_cancel(&ls->s->timers, &ls->reclaim_timer);
    timer_cancel(&ls->s->timers, &ls->starved_timer);
    list_remove(&ls->index_turns.link);
    timer_cancel(&ls->s->timers, &ls->idle_timer);
    buf_pool_remove_reclaimer(&ls->reclaimer);
    buf_unref(ls->zeros);
    free(ls);
}

void log_shared_fail(struct log_shared *ls, enum err e)
{
    recycle_stop(&ls->recycle);
    log_gate_flusher_failed(&ls->gate);
    list_for_each_safe (n, &ls->logs) {
        struct log *l = container_of(n, struct log, shared_link);
        log_fail(l, e, "flush");
        /* No value of the store will become durable any more: nobody may wait for that. */
        log_birth_abandon(l);
        log_fill_abandon(l);
        log_checkpoint_abandon(l);
        log_recovery_abandon(l);
        log_cut_abandon(l);
        log_retire_abandon(l);
        log_end_abandon(l); /* The end of l. */
    }
    log_purge_abandon(ls);
}

void log_shared_on_writing(struct log_shared *ls, void *context, void (*on_writing)(void *context))
{
    ls->gate.context = context;
    ls->gate.on_writing = on_writing;
}

void log_shared_others_write(struct log_shared *ls)
{
    log_gate_others_write(&ls->gate);
}

const struct log_shared_stats *log_shared_stats(const struct log_shared *ls)
{
    return &ls->stats;
}

const struct recycle_stats *log_shared_recycle_stats(const struct log_shared *ls)
{
    return &ls->recycle.stats;
}

bool log_shared_evict(struct log_shared *ls, size_t size)
{
    size_t freed_size = 0;
    while (freed_size < size && !list_is_empty(&ls->cache)) {
        struct log_page *pg = container_of(ls->cache.next, struct log_page, cache_link);
        freed_size += pg->buf->capacity;
        ls->stats.cache_evicted_pages++;
        log_page_free(pg);
    }
    return freed_size > 0;
}

struct buf *log_shared_alloc(struct log_shared *ls, size_t size, enum buf_class class)
{
    struct buf *b = buf_alloc(ls->s->bufs, size, class);
    if (b == NULL && log_ahead_give_back(ls, size)) {
        b = buf_alloc(ls->s->bufs, size, class);
    }
    while (b == NULL && log_shared_evict(ls, size)) {
        b = buf_alloc(ls->s->bufs, size, class);
        if (class != BUF_RESERVED) {
            break; /* What clients hold is no reason to empty the cache. */
        }
    }
    return b;
}

bool log_shared_paces_delete(struct log_shared *ls, struct pace_wait *w)
{
    ls->deletes_count++;
    if (ls->deletes_count < DELETES_PER_TURN) {
        return false;
    }
    reached(ls->s, "log_delete_waits_for_turn");
    ls->deletes_count = 0;
    pace_ask(&ls->pace, w, 1, 0);
    return true;
}

uint64_t log_shared_zero_op(
    struct log_shared *ls, struct io_op *op, struct iovec *iov, uint64_t pos, uint64_t end)
{
    assert_cmp(pos, <, end);
    uint64_t size = 0;
    uint32_t count = 0;
    while (count < LOG_ZERO_IOV_MAX && pos + size < end) {
        uint64_t part = end - pos - size;
        part = part < LOG_ZERO_SIZE ? part : LOG_ZERO_SIZE;
        iov[count++] = (struct iovec){.iov_base = ls->zeros->data, .iov_len = part};
        size += part;
    }
    op->kind = IO_WRITE;
    op->iov = iov;
    op->iov_count = count;
    op->size = size;
    op->pos = pos;
    return size;
}

/* Where a log that closes ends for sure; NULL: no more is known of it than D. What closes appends
 * nothing more, so that nothing is written behind what is durable. */
static const struct log_segment *closed_end(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    const bool is_whole = l->state == LOG_CLOSING && l->flushed_index == l->last_index;
    return is_whole && tail != NULL && tail->is_usable ? tail : NULL;
}

enum err log_persist_durable(struct log *l)
{
    if (l->is_end_unknown) {
        /* What is durable goes on beyond what can be read: a lower D would turn the damage into a
         * torn write at the next start. */
        return ERR_OK;
    }
    if (l->state == LOG_CUTTING) {
        return ERR_OK; /* The intent has put what counts from now on. */
    }
    const struct log_segment *end = closed_end(l);
    const uint64_t end_pos = end != NULL ? block_align_up(end->tail_pos) : 0;
    if (l->persisted_index == l->flushed_index && l->persisted_commit == l->commit_index &&
        l->persisted_end_pos == end_pos) {
        return ERR_OK;
    }
    struct durable_record r = {
        .generation = l->generation,
        .durable_index = l->flushed_index,
        .commit_index = l->commit_index,
        .end_segment = end != NULL ? end->base.index : 0,
        .end_pos = end_pos,
    };
    struct store_key key = log_store_key(l, STORE_DURABLE, 0);
    enum err e = store_put(l->env.store, &key, durable_record_encode(&r));
    if (e == ERR_OK) {
        l->persisted_index = l->flushed_index;
        l->persisted_commit = l->commit_index;
        l->persisted_end_pos = end_pos;
        l->env.shared->stats.quiet_persisted++;
    }
    return e;
}

/* All deadlines are one delay after a touch, so the list is sorted by appending. */
void log_shared_touch(struct log_shared *ls, struct log *l)
{
    if (l->state != LOG_OPEN && l->state != LOG_CUTTING) {
        return; /* A close persists by itself; after a delete nothing may be put. */
    }
    list_remove(&l->quiet_link);
    list_push_back(&ls->quiet, &l->quiet_link);
    l->quiet_deadline_us = ls->s->now_us + ls->options.quiet_us;
    if (!timer_is_armed(&ls->quiet_timer)) {
        timer_arm(&ls->s->timers, &ls->quiet_timer, l->quiet_deadline_us);
    }
}

static void on_quiet_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, quiet_timer);
    while (!list_is_empty(&ls->quiet)) {
        struct log *l = container_of(ls->quiet.next, struct log, quiet_link);
        if (l->quiet_deadline_us > ls->s->now_us) {
            timer_arm(&ls->s->timers, t, l->quiet_deadline_us);
            return;
        }
        list_remove(&l->quiet_link);
        if (!l->is_failed && log_persist_durable(l) != ERR_OK) {
            /* The store is full for now. D only makes recovery surer: try again later. */
            log_shared_touch(ls, l);
            return;
        }
    }
}
