/* A walk in the background: it stops when a turn of the loop has had enough of it, and when the
 * shard's pace says so.
 *
 *   IDLE -> WAIT_PACE -> WAIT_WALK -> [WAIT_TURN | WAIT_PACE -> WAIT_WALK]* -> IDLE
 *
 * While it waits it keeps its place and its window, and what it stands in stays (log_segment_hold).
 */
#include "storage/log_compact_priv.h"

static void end(struct log_paced *p, enum err e)
{
    p->state = PACED_IDLE;
    p->on_end(p, p->is_stopping ? ERR_CANCELLED : e);
}

static void ask_pace(struct log_paced *p)
{
    const uint64_t bytes = p->bytes;
    p->bytes = 0;
    p->state = PACED_WAIT_PACE;
    pace_ask(&p->log->env.shared->pace, &p->pace, 0, bytes);
}

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_paced *p = container_of(w, struct log_paced, walk);
    if (p->is_stopping) {
        return WALK_STOP;
    }
    p->bytes += entry_size(entry->header.payload_size);
    const enum paced_verdict verdict = p->on_entry(p, entry);
    if (verdict != PACED_ON) {
        p->state = PACED_IDLE; /* The owner is told when the walk has stopped. */
        p->is_paused = verdict == PACED_PAUSE;
        return WALK_STOP;
    }
    return p->cost_ns >= COMPACT_TURN_NS || p->bytes >= COMPACT_CHUNK_SIZE ? WALK_STOP : WALK_ON;
}

static void stopped(struct log_paced *p)
{
    if (p->is_stopping) {
        end(p, ERR_CANCELLED);
    } else if (p->state == PACED_IDLE && p->is_paused) {
        p->on_paused(p);
    } else if (p->state == PACED_IDLE) {
        end(p, ERR_OK);
    } else if (p->bytes >= COMPACT_CHUNK_SIZE) {
        ask_pace(p);
    } else {
        p->state = PACED_WAIT_TURN;
        shard_post(log_shard(p->log), &p->task);
    }
}

static void on_walk_ended(struct log_walk *w, enum walk_reason reason)
{
    struct log_paced *p = container_of(w, struct log_paced, walk);
    switch (reason) {
    case WALK_STOPPED:
        stopped(p);
        break;
    case WALK_AT_END:
        end(p, ERR_OK);
        break;
    case WALK_BAD:
        log_report_corruption(w);
        end(p, ERR_CORRUPT);
        break;
    case WALK_DAMAGE:
        end(p, ERR_CORRUPT);
        break;
    case WALK_GONE:
        end(p, ERR_CANCELLED);
        break;
    case WALK_ERROR:
        end(p, w->error);
        break;
    }
}

static void walk_on(struct log_paced *p)
{
    p->cost_ns = 0;
    p->state = PACED_WAIT_WALK;
    log_walk_run(&p->walk);
}

static void on_task(struct task *t)
{
    struct log_paced *p = container_of(t, struct log_paced, task);
    if (p->is_stopping || p->log->is_failed) {
        end(p, ERR_CANCELLED);
    } else {
        walk_on(p);
    }
}

static void on_turn(struct pace_wait *w, enum err e)
{
    struct log_paced *p = container_of(w, struct log_paced, pace);
    if (e != ERR_OK || p->is_stopping || p->log->is_failed) {
        end(p, ERR_CANCELLED);
    } else {
        walk_on(p);
    }
}

void log_paced_init(struct log_paced *p, struct log *l)
{
    *p = (struct log_paced){.log = l, .state = PACED_IDLE};
    log_walk_init(&p->walk, l);
    task_init(&p->task, "log_paced", on_task);
    pace_wait_init(&p->pace, on_turn);
    p->walk.window_size = COMPACT_CHUNK_SIZE;
    p->walk.is_patient = true;
    p->walk.on_entry = on_entry;
    p->walk.on_end = on_walk_ended;
}

void log_paced_start(struct log_paced *p, struct log_segment *seg, int64_t skip_offset)
{
    assert_cmp(p->state, ==, PACED_IDLE);
    log_walk_seek_start(&p->walk, seg);
    p->walk.scan.skip_offset = skip_offset;
    list_push_back(&p->log->walks, &p->walk.link);
    ask_pace(p);
}

void log_paced_go(struct log_paced *p)
{
    assert_cmp(p->state, ==, PACED_IDLE);
    assert(!p->is_stopping);
    if (p->bytes >= COMPACT_CHUNK_SIZE) {
        ask_pace(p);
    } else {
        p->state = PACED_WAIT_TURN;
        shard_post(log_shard(p->log), &p->task);
    }
}

bool log_paced_stop(struct log_paced *p)
{
    if (p->state == PACED_IDLE) {
        return true;
    }
    p->is_stopping = true;
    const bool waits_for_memory = p->state == PACED_WAIT_WALK && p->walk.memory.is_waiting;
    if (p->state == PACED_WAIT_PACE || waits_for_memory) {
        pace_cancel(&p->log->env.shared->pace, &p->pace);
        buf_pool_cancel_wait(log_shard(p->log)->bufs, &p->walk.memory);
        p->state = PACED_WAIT_TURN;
        shard_post(log_shard(p->log), &p->task);
    }
    return false;
}

void log_paced_done(struct log_paced *p)
{
    assert_cmp(p->state, ==, PACED_IDLE);
    log_walk_done(&p->walk);
}
