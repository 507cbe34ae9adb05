#include "storage/log_gate.h"

#include "core/assert.h"
#include "core/reached.h"

static bool is_busy(const struct log_gate *g)
{
    return g->written_us > 0 && g->s->now_us < g->written_us + LOG_GATE_BUSY_US;
}

static uint64_t size_max(const struct log_gate *g)
{
    return is_busy(g) ? LOG_GATE_SIZE_BUSY : LOG_GATE_SIZE_CALM;
}

uint64_t log_gate_size(const struct log_gate *g)
{
    return is_busy(g) ? LOG_GATE_SIZE_BUSY : LOG_GATE_READ_SIZE;
}

static bool has_room(const struct log_gate *g, uint64_t size)
{
    return g->in_flight_size == 0 || g->in_flight_size + size <= size_max(g);
}

/* By a round of the flush. */
static bool is_held(const struct log_gate *g, const struct gate_wait *w)
{
    return g->rounds_count > 0 && !g->is_flusher_failed &&
           g->s->now_us < w->asked_us + LOG_GATE_HOLD_US;
}

static struct gate_wait *next_wait(const struct log_gate *g)
{
    const struct list *from = list_is_empty(&g->urgent) ? &g->others : &g->urgent;
    return list_is_empty(from) ? NULL : container_of(from->next, struct gate_wait, link);
}

static void run(struct log_gate *g)
{
    for (struct gate_wait *w = next_wait(g); w != NULL; w = next_wait(g)) {
        if (!has_room(g, w->size)) {
            return; /* log_gate_leave comes. */
        }
        if (is_held(g, w)) {
            timer_cancel(&g->s->timers, &g->timer);
            timer_arm(&g->s->timers, &g->timer, w->asked_us + LOG_GATE_HOLD_US);
            return;
        }
        list_remove(&w->link);
        g->in_flight_size += w->size;
        w->on_turn(w);
    }
    timer_cancel(&g->s->timers, &g->timer);
}

static void on_task(struct task *t)
{
    run(container_of(t, struct log_gate, task));
}

static void on_timer(struct timer *t)
{
    struct log_gate *g = container_of(t, struct log_gate, timer);
    reached(g->s, "log_gate_held_for_long");
    run(g);
}

void log_gate_init(struct log_gate *g, struct shard *s)
{
    *g = (struct log_gate){.s = s};
    list_init(&g->urgent);
    list_init(&g->others);
    task_init(&g->task, "log gate", on_task);
    timer_init(&g->timer, on_timer);
}

void log_gate_done(struct log_gate *g)
{
    assert(next_wait(g) == NULL);
    assert_cmp(g->in_flight_size, ==, 0);
    list_remove(&g->task.link);
    timer_cancel(&g->s->timers, &g->timer);
}

bool log_gate_enter(struct log_gate *g, struct gate_wait *w, uint64_t size, bool is_urgent)
{
    assert(!gate_is_waiting(w));
    w->size = size;
    w->asked_us = g->s->now_us;
    const bool is_first = list_is_empty(&g->urgent) && (is_urgent || list_is_empty(&g->others));
    if (is_first && has_room(g, size) && !is_held(g, w)) {
        g->in_flight_size += size;
        return true;
    }
    list_push_back(is_urgent ? &g->urgent : &g->others, &w->link);
    g->held_count++;
    shard_post(g->s, &g->task);
    return false;
}

void log_gate_hurry(struct log_gate *g, struct gate_wait *w)
{
    if (gate_is_waiting(w)) {
        list_remove(&w->link);
        list_push_back(&g->urgent, &w->link);
        shard_post(g->s, &g->task);
    }
}

void log_gate_cancel(struct log_gate *g, struct gate_wait *w)
{
    if (gate_is_waiting(w)) {
        list_remove(&w->link);
        shard_post(g->s, &g->task);
    }
}

void log_gate_leave(struct log_gate *g, uint64_t size)
{
    assert_cmp(g->in_flight_size, >=, size);
    g->in_flight_size -= size;
    shard_post(g->s, &g->task);
}

void log_gate_round_begun(struct log_gate *g)
{
    const uint64_t now_us = g->s->now_us;
    g->rounds_count++;
    g->written_us = now_us;
    const bool is_news = g->told_us == 0 || now_us >= g->told_us + LOG_GATE_TELL_US;
    if (is_news && g->on_writing != NULL) {
        g->told_us = now_us;
        g->on_writing(g->context);
    }
}

void log_gate_round_ended(struct log_gate *g)
{
    assert_cmp(g->rounds_count, >, 0);
    g->rounds_count--;
    if (g->rounds_count == 0 && next_wait(g) != NULL) {
        shard_post(g->s, &g->task);
    }
}

void log_gate_others_write(struct log_gate *g)
{
    g->written_us = g->s->now_us;
}

void log_gate_flusher_failed(struct log_gate *g)
{
    g->is_flusher_failed = true;
    shard_post(g->s, &g->task);
}
