/* Which log is compacted or repacked next, and how a run goes. The rules of what stays are in
 * compaction.h, how files are swapped in log_compact_priv.h.
 *
 *   compaction:  WAIT_KEYS -> [WAIT_OUTCOMES -> WAIT_KEYS] -> WAIT_REWRITE* -> done
 *   repacking:   WAIT_REWRITE -> done
 *
 * Logs that may have something to do stand in one list per shard. A timer looks at them, some per
 * turn; one run goes on at a time. A log comes into the list when it seals a segment, opens or gets
 * other settings, and leaves it when time alone changes nothing: what is idle costs nothing, and
 * with an empty list nothing is armed.
 *
 * A run of compaction rewrites, oldest first, every group of neighbouring segments below the end of
 * what it learnt; a group is as many as fit into one segment. What was learnt is durable only as
 * the clean offset {STORE_CLEAN}, put behind the last swap: a run that ends early is begun again
 * from where the last whole one ended, and finds some of its work done.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/logger.h"
#include "core/rand.h"
#include "core/reached.h"
#include "storage/log_compact_priv.h"

enum {
    LOOK_MAX = 32,              /* Logs looked at per turn of the loop. */
    REPACK_SIZE_MIN = 16 << 10, /* Bytes of a file; below there is nothing to win. */
    BACKOFF_ROUNDS = 4,         /* After trouble a log is left alone for as many intervals. */
};

enum run_state {
    RUN_WAIT_KEYS,
    RUN_WAIT_OUTCOMES,
    RUN_WAIT_REWRITE,
};

struct log_compact_run {
    struct log *log;
    enum run_state state;
    bool is_repack;
    bool is_stopping;
    struct compaction engine;
    struct log_compaction_bounds bounds;
    struct log_paced paced; /* Learning. */
    struct log_rewrite *rewrite;
    uint64_t next_index;  /* Segments below are done. */
    uint64_t clean_index; /* What it will be after the run. */
    uint64_t began_us;

    uint64_t read_size;
    uint64_t written_size;
    uint64_t old_size; /* On disk, of what was replaced. */
    uint32_t segments_before;
    uint32_t segments_after;
};

static void next_group(struct log_compact_run *run);
static void look_soon(struct log_shared *ls);

/* ---- what may be touched ---- */

static bool is_damaged(const struct log_segment *seg)
{
    for (uint32_t i = 0; i < seg->jumps_count; i++) {
        if (seg->jumps[i].is_damage && !seg->jumps[i].is_accepted) {
            return true;
        }
    }
    return false;
}

/* Sealed, and nothing of it can be cut any more. */
static bool is_settled(const struct log_segment *seg)
{
    const struct log *l = seg->log;
    const struct log_segment *next = log_segment_after(seg);
    if (next == NULL || !seg->is_usable || !next->is_usable || is_damaged(seg)) {
        return false;
    }
    const uint64_t last_index = next->base.index - 1;
    return last_index <= l->commit_index && last_index <= l->flushed_index &&
           log_checkpoint_covers(seg);
}

static struct log_segment *first_segment(const struct log *l)
{
    return list_is_empty(&l->segments) ? NULL
                                       : container_of(l->segments.next, struct log_segment, link);
}

static bool can_run(const struct log *l)
{
    return l->state == LOG_OPEN && !l->is_failed && !l->is_end_unknown && !l->is_full &&
           !l->is_compact_hopeless && l->cut == NULL && l->end == NULL &&
           log_shard(l)->now_us >= l->compact_due_us;
}

/* ---- ending ---- */

static void say_done(const struct log_compact_run *run)
{
    const struct log *l = run->log;
    const uint64_t took_us = log_shard(l)->now_us - run->began_us;
    log_info(log_shard(l)->log,
             run->is_repack ? "log_repacked" : "log_compacted",
             "log=%s records_read=%" PRIu64 " records_removed=%" PRIu64 " segments=%u->%u"
             " bytes=%" PRIu64 "->%" PRIu64 " clean_offset=%" PRId64 " took_ms=%" PRIu64,
             l->name,
             run->engine.counters.records_read,
             run->engine.counters.records_removed,
             run->segments_before,
             run->segments_after,
             run->old_size,
             run->written_size,
             l->clean_offset,
             took_us / 1000);
}

static void note_trouble(struct log *l, enum err e)
{
    const struct log_shared *ls = l->env.shared;
    l->compact_due_us = log_shard(l)->now_us + BACKOFF_ROUNDS * ls->options.compact_interval_us;
    if (e == ERR_CANCELLED) {
        return;
    }
    if (e != ERR_BUSY && e != ERR_NO_SPACE) {
        l->is_compact_hopeless = true; /* What it read or wrote fails: until the next start. */
    }
    log_warn(log_shard(l)->log, "log_not_compacted", "log=%s err=%s", l->name, err_name(e));
}

static void run_end(struct log_compact_run *run, enum err e)
{
    struct log *l = run->log;
    struct log_shared *ls = l->env.shared;
    struct log_shared_stats *stats = &ls->stats;
    stats->compact_read_bytes += run->read_size;
    stats->compact_written_bytes += run->written_size;
    stats->compact_removed_records += run->engine.counters.records_removed;
    stats->compactions += !run->is_repack && e == ERR_OK;
    stats->repacks += run->is_repack && e == ERR_OK;
    stats->compactions_failed += e != ERR_OK && e != ERR_CANCELLED;
    if (e == ERR_OK) {
        say_done(run);
        ls->compact_round_left++; /* There may be more to do in it: behind the others. */
    } else {
        note_trouble(l, e);
    }
    compaction_done(&run->engine);
    free(run);
    ls->compact_run = NULL;
    log_trim(l); /* It waited, if the log start moved meanwhile. */
    log_poke(l);
    look_soon(ls);
}

/* Nothing more may be begun at the log. A cut, a close or a delete that has begun may not have
 * asked for that yet: it waits for other things first. */
static bool is_over(const struct log_compact_run *run)
{
    return run->is_stopping || run->log->is_failed || run->log->state != LOG_OPEN;
}

/* ---- rewriting ---- */

static uint64_t judge(void *context, const struct scan_result *entry, struct compaction_result *ret)
{
    struct log_compact_run *run = context;
    const struct entry_header *h = &entry->header;
    compaction_judge(&run->engine, h, entry->payload, ret);
    if (h->next_offset <= run->engine.keys_end) {
        run->clean_index = entry_last_index(h) + 1;
    }
    const uint64_t cost_ns = run->engine.cost_ns;
    run->engine.cost_ns = 0;
    return cost_ns;
}

static void on_rewritten(void *context, enum err e, const struct log_rewrite_stats *stats)
{
    struct log_compact_run *run = context;
    run->rewrite = NULL;
    run->read_size += stats->read_size;
    run->next_index = stats->next_index;
    if (e != ERR_OK || is_over(run)) {
        run_end(run, e == ERR_OK ? ERR_CANCELLED : e);
        return;
    }
    if (stats->written_size > 0) {
        run->written_size += stats->written_size;
        run->old_size += stats->old_size;
        run->segments_before += stats->segments_count;
        run->segments_after++;
    }
    next_group(run);
}

/* Neighbours become one file as long as they are sure to fit into one segment. */
static bool takes_more(void *context, const struct log_segment *next, uint64_t size)
{
    const struct log_compact_run *run = context;
    return next->base.offset < run->engine.keys_end && is_settled(next) &&
           size + next->tail_pos <= run->log->options.segment_size_max;
}

static void rewrite(struct log_compact_run *run, struct log_segment *first)
{
    const struct log_rewrite_begin how = {
        .first = first,
        .takes_more = run->is_repack ? NULL : takes_more,
        .judge = run->is_repack ? NULL : judge,
        .on_done = on_rewritten,
        .context = run,
    };
    run->state = RUN_WAIT_REWRITE;
    enum err e = log_rewrite_start(&how, &run->rewrite);
    if (e != ERR_OK) {
        run_end(run, e);
    }
}

/* All groups are rewritten: what was learnt holds for all of the log. */
static void compacted(struct log_compact_run *run)
{
    struct log *l = run->log;
    l->clean_offset = run->engine.keys_end;
    l->clean_index = run->clean_index;
    struct clean_record r = {.clean_index = l->clean_index, .clean_offset = l->clean_offset};
    const struct store_key key = log_store_key(l, STORE_CLEAN, 0);
    (void)store_put(l->env.store, &key, clean_record_encode(&r)); /* Else a start does it again. */
    reached(log_shard(l), "log_compacted");
    run_end(run, ERR_OK);
}

static void next_group(struct log_compact_run *run)
{
    struct log *l = run->log;
    if (run->is_repack) {
        reached(log_shard(l), "log_repacked");
        run_end(run, ERR_OK);
        return;
    }
    struct log_segment *first = first_segment(l);
    while (first != NULL && first->base.index < run->next_index) {
        first = log_segment_after(first);
    }
    if (first == NULL || first->base.offset >= run->engine.keys_end || !is_settled(first)) {
        compacted(run);
        return;
    }
    rewrite(run, first);
}

/* ---- learning ---- */

static void start_walk(struct log_compact_run *run)
{
    const int64_t clean_offset = run->engine.options.clean_offset;
    struct log_segment *seg = log_segment_by_offset(run->log, clean_offset);
    if (seg == NULL) {
        seg = first_segment(run->log);
    }
    log_paced_start(&run->paced, seg, clean_offset);
}

static enum paced_verdict on_entry(struct log_paced *p, const struct scan_result *entry)
{
    struct log_compact_run *run = container_of(p, struct log_compact_run, paced);
    const struct entry_header *h = &entry->header;
    bool goes_on;
    if (run->state == RUN_WAIT_OUTCOMES) {
        goes_on = h->base_offset < run->bounds.stable_offset &&
                  compaction_learn_outcome(&run->engine, h, entry->payload);
    } else {
        goes_on = compaction_learn_keys(&run->engine, h, entry->payload);
    }
    p->cost_ns += run->engine.cost_ns + COMPACT_ENTRY_NS;
    run->engine.cost_ns = 0;
    run->read_size += entry_size(h->payload_size);
    return goes_on ? PACED_ON : PACED_END;
}

static void on_learnt(struct log_paced *p, enum err e)
{
    struct log_compact_run *run = container_of(p, struct log_compact_run, paced);
    struct compaction *c = &run->engine;
    log_paced_done(p);
    if (e == ERR_OK && is_over(run)) {
        e = ERR_CANCELLED;
    }
    if (e == ERR_OK && run->state == RUN_WAIT_OUTCOMES) {
        compaction_end_outcomes(c);
        run->state = RUN_WAIT_KEYS;
        start_walk(run);
        return;
    }
    if (e == ERR_OK && c->has_txns && c->txns.open == NULL) {
        e = compaction_begin_outcomes(c);
        if (e == ERR_OK) {
            run->state = RUN_WAIT_OUTCOMES;
            start_walk(run);
            return;
        }
    }
    if (e == ERR_OK && c->keys_end <= c->options.clean_offset) {
        e = ERR_CANCELLED; /* Behind the clean part begins a transaction that is still open. */
    }
    if (e != ERR_OK) {
        run_end(run, e);
    } else {
        next_group(run);
    }
}

/* ---- starting ---- */

static struct log_compact_run *run_new(struct log *l, bool is_repack)
{
    struct log_compact_run *run = calloc(1, sizeof(*run));
    if (run == NULL) {
        return NULL;
    }
    run->log = l;
    run->is_repack = is_repack;
    run->began_us = log_shard(l)->now_us;
    log_paced_init(&run->paced, l);
    run->paced.on_entry = on_entry;
    run->paced.on_end = on_learnt;
    l->env.shared->compact_run = run;
    return run;
}

/* What the owner says, and what the log knows. */
static struct log_compaction_bounds ask_bounds(const struct log *l)
{
    struct log_compaction_bounds bounds = {
        .stable_offset = l->flushed_offset,
        .clean_index = l->clean_index,
    };
    if (l->callbacks->on_compacting != NULL) {
        l->callbacks->on_compacting(l->context, &bounds);
    }
    if (bounds.clean_index > l->clean_index) {
        bounds.clean_index = l->clean_index;
    }
    return bounds;
}

static bool is_last_of_producer(void *context, const struct batch_header *h)
{
    const struct log *l = context;
    return l->callbacks->is_last_of_producer != NULL &&
           l->callbacks->is_last_of_producer(l->context, h);
}

static struct compaction_tally tally(const struct log *l, const struct log_compaction_bounds *b)
{
    const int64_t start_offset = log_start_offset(l);
    struct compaction_tally t = {
        .config = &l->compact_config,
        .clean_offset = l->clean_offset > start_offset ? l->clean_offset : start_offset,
        .bound_offset = b->stable_offset,
        .now_ms = log_shard(l)->wall_ms,
        .dirty_since_ms = -1,
    };
    for (struct log_segment *seg = first_segment(l); seg != NULL && is_settled(seg);
         seg = log_segment_after(seg)) {
        compaction_tally_add(&t,
                             &(struct compaction_segment){
                                 .base_offset = seg->base.offset,
                                 .next_offset = log_segment_after(seg)->base.offset,
                                 .size = seg->tail_pos,
                                 .first_timestamp = seg->first_timestamp,
                                 .max_timestamp = seg->max_timestamp,
                             });
    }
    return t;
}

static bool start_compaction(struct log *l, bool *ret_is_dirty)
{
    const struct log_compaction_bounds bounds = ask_bounds(l);
    const struct compaction_tally t = tally(l, &bounds);
    *ret_is_dirty = t.dirty_size > 0 || t.is_ended;
    if (!compaction_is_due(&t) || t.end_offset <= t.clean_offset) {
        return false;
    }
    struct log_compact_run *run = run_new(l, false);
    if (run == NULL) {
        return false;
    }
    struct shard *s = log_shard(l);
    run->bounds = bounds;
    run->state = RUN_WAIT_KEYS;
    const struct compaction_options o = {
        .clean_offset = t.clean_offset,
        .end_offset = t.end_offset,
        .clean_index = bounds.clean_index,
        .now_ms = s->wall_ms,
        .delete_retention_ms = l->compact_config.delete_retention_ms,
        .keys_size_max = l->env.shared->options.compact_keys_size_max,
        .secret = {rand_u64(&s->rand), rand_u64(&s->rand)},
        .is_last_of_producer = is_last_of_producer,
        .context = l,
    };
    enum err e = compaction_init(&run->engine, &o);
    if (e != ERR_OK) {
        run_end(run, e);
        return true;
    }
    start_walk(run);
    return true;
}

/* Less than half of the file are entries: tiny batches, or a recycled file that was not filled. */
static bool is_mostly_padding(const struct log_segment *seg)
{
    const uint64_t used_size = SEGMENT_HEADER_SIZE + seg->entries_size;
    return seg->written_to >= REPACK_SIZE_MIN && used_size < seg->written_to / 2;
}

static bool start_repack(struct log *l)
{
    for (struct log_segment *seg = first_segment(l); seg != NULL && is_settled(seg);
         seg = log_segment_after(seg)) {
        if (!is_mostly_padding(seg)) {
            continue;
        }
        struct log_compact_run *run = run_new(l, true);
        if (run == NULL) {
            return false;
        }
        rewrite(run, seg);
        return true;
    }
    return false;
}

/* ---- whose turn it is ---- */

enum look {
    LOOK_RUNS,    /* A run was begun. */
    LOOK_LATER,   /* Time alone may make one due. */
    LOOK_NOTHING, /* Nothing is to be done before log_compact_note. */
};

/* The last sealed segment waits for its commit, its flush or a checkpoint. */
static bool has_unsettled(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    if (tail == NULL || tail == first_segment(l)) {
        return false;
    }
    const struct log_segment *last = container_of(tail->link.prev, struct log_segment, link);
    return !is_settled(last) && !is_damaged(last);
}

/* A small log makes no checkpoint by itself, and nothing is rewritten above one. */
static void ask_for_checkpoint(struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    const struct log_segment *last = container_of(tail->link.prev, struct log_segment, link);
    if (!log_checkpoint_covers(last)) {
        reached(log_shard(l), "log_compaction_asks_for_checkpoint");
        log_checkpoint_ask(l);
    }
}

static enum look look_at(struct log *l)
{
    if (l->is_failed || l->is_end_unknown || l->is_compact_hopeless ||
        log_tail_segment(l) == first_segment(l)) {
        return LOOK_NOTHING;
    }
    if (!can_run(l)) {
        return LOOK_LATER;
    }
    bool is_dirty = false;
    const bool is_compacted =
        l->compact_config.is_compacted && !l->env.shared->options.is_compaction_off;
    if ((is_compacted && start_compaction(l, &is_dirty)) || start_repack(l)) {
        return LOOK_RUNS;
    }
    if (has_unsettled(l)) {
        ask_for_checkpoint(l);
        return LOOK_LATER;
    }
    return is_dirty ? LOOK_LATER : LOOK_NOTHING;
}

void log_shared_set_compaction(struct log_shared *ls, uint64_t interval_us, size_t keys_size_max)
{
    ls->options.compact_interval_us = interval_us;
    ls->options.compact_keys_size_max = keys_size_max;
    /* Only sooner: whoever says so again and again would put it off for ever. */
    if (timer_is_armed(&ls->compact_timer) &&
        ls->s->now_us + interval_us < ls->compact_timer.deadline_us) {
        shard_timer_arm(ls->s, &ls->compact_timer, interval_us);
    }
}

static void rest(struct log_shared *ls)
{
    if (!ls->is_compact_stopped && !list_is_empty(&ls->compactables) &&
        !timer_is_armed(&ls->compact_timer)) {
        shard_timer_arm(ls->s, &ls->compact_timer, ls->options.compact_interval_us);
    }
}

static void look_soon(struct log_shared *ls)
{
    if (ls->is_compact_stopped) {
        return;
    }
    shard_post(ls->s, &ls->compact_task);
}

/* Goes round the list, once per round; where a run begins, the round goes on when it has ended. */
static void on_look(struct task *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, compact_task);
    for (uint32_t i = 0; i < LOOK_MAX && ls->compact_run == NULL; i++) {
        if (ls->is_compact_stopped || ls->compact_round_left == 0 ||
            list_is_empty(&ls->compactables)) {
            rest(ls);
            return;
        }
        ls->compact_round_left--;
        struct log *l = container_of(list_pop_front(&ls->compactables), struct log, compact_link);
        list_push_back(&ls->compactables, &l->compact_link);
        const enum look look = look_at(l);
        if (look == LOOK_RUNS) {
            return;
        }
        if (look == LOOK_NOTHING) {
            list_remove(&l->compact_link);
        }
    }
    if (ls->compact_run == NULL) {
        look_soon(ls);
    }
}

static void on_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, compact_timer);
    ls->compact_round_left = 0;
    list_for_each (n, &ls->compactables) {
        ls->compact_round_left++;
    }
    look_soon(ls);
}

/* ---- the door ---- */

void log_compact_init(struct log_shared *ls)
{
    list_init(&ls->compactables);
    timer_init(&ls->compact_timer, on_timer);
    task_init(&ls->compact_task, "log_compact", on_look);
}

void log_compact_done(struct log_shared *ls)
{
    assert(list_is_empty(&ls->compactables));
    assert(ls->compact_run == NULL);
    timer_cancel(&ls->s->timers, &ls->compact_timer);
    list_remove(&ls->compact_task.link);
}

void log_compact_stop_all(struct log_shared *ls)
{
    ls->is_compact_stopped = true;
    timer_cancel(&ls->s->timers, &ls->compact_timer);
    if (ls->compact_run != NULL) {
        (void)log_compact_stop(ls->compact_run->log);
    }
}

void log_compact_note(struct log *l)
{
    struct log_shared *ls = l->env.shared;
    if (!l->has_compact_config || ls->is_compact_stopped || !list_is_empty(&l->compact_link) ||
        log_tail_segment(l) == first_segment(l)) {
        return;
    }
    list_push_back(&ls->compactables, &l->compact_link);
    if (ls->compact_run == NULL && list_is_empty(&ls->compact_task.link)) {
        rest(ls);
    }
}

bool log_compact_stop(struct log *l)
{
    struct log_compact_run *run = l->env.shared->compact_run;
    if (run == NULL || run->log != l) {
        return true;
    }
    if (!run->is_stopping) {
        run->is_stopping = true;
        reached(log_shard(l), "log_compaction_stopped");
        if (run->rewrite != NULL) {
            log_rewrite_stop(run->rewrite);
        } else {
            (void)log_paced_stop(&run->paced);
        }
    }
    return false;
}

bool log_compact_needs(const struct log_segment *seg)
{
    const struct log_compact_run *run = seg->log->env.shared->compact_run;
    return run != NULL && run->rewrite != NULL && run->log == seg->log &&
           log_rewrite_has(run->rewrite, seg);
}

void log_set_compaction(struct log *l, const struct compaction_config *config)
{
    l->compact_config = *config;
    l->has_compact_config = true;
    if (l->state != LOG_OPENING) {
        log_compact_note(l);
    }
}

uint64_t log_clean_index(const struct log *l)
{
    return l->clean_index;
}
