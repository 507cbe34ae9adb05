#include "storage/pace.h"

#include "core/assert.h"
#include "core/shard.h"

enum {
    /* Buckets count in millionths: what a rate of 1/s gives in a microsecond is then 1. */
    PACE_UNIT = 1000 * 1000,
    PACE_TURNS_MAX = 16, /* Given in one go of the timer, so that a burst is no stall. */
};

static int64_t capacity(uint64_t rate, const struct pace_limits *limits)
{
    return (int64_t)(rate * limits->burst_ms * 1000);
}

/* A product is only formed where it stays below the capacity. */
static int64_t filled(int64_t level, uint64_t rate, int64_t level_max, uint64_t elapsed_us)
{
    if (rate == 0) {
        return 0;
    }
    if (level >= level_max) {
        return level_max;
    }
    const uint64_t missing = (uint64_t)(level_max - level);
    return elapsed_us >= missing / rate + 1 ? level_max : level + (int64_t)(rate * elapsed_us);
}

static void fill(struct pace *p)
{
    const uint64_t elapsed_us = p->s->now_us - p->filled_us;
    const struct pace_limits *l = &p->limits;
    p->filled_us = p->s->now_us;
    p->ops = filled(p->ops, l->ops_per_s, capacity(l->ops_per_s, l), elapsed_us);
    p->bytes = filled(p->bytes, l->bytes_per_s, capacity(l->bytes_per_s, l), elapsed_us);
}

static uint64_t debt_us(int64_t level, uint64_t rate)
{
    return level >= 0 ? 0 : ((uint64_t)-level + rate - 1) / rate;
}

/* How long until the next turn can be given. */
static uint64_t wait_us(const struct pace *p)
{
    if (p->is_stopped) {
        return 0;
    }
    const uint64_t ops_us = debt_us(p->ops, p->limits.ops_per_s);
    const uint64_t bytes_us = debt_us(p->bytes, p->limits.bytes_per_s);
    return ops_us > bytes_us ? ops_us : bytes_us;
}

static void arm(struct pace *p)
{
    if (!list_is_empty(&p->waiters)) {
        shard_timer_arm(p->s, &p->timer, wait_us(p));
    }
}

static void give_turn(struct pace *p, struct pace_wait *w)
{
    if (!p->is_stopped) {
        p->ops -= p->limits.ops_per_s == 0 ? 0 : (int64_t)w->ops * PACE_UNIT;
        p->bytes -= p->limits.bytes_per_s == 0 ? 0 : (int64_t)w->bytes * PACE_UNIT;
        p->turns_count++;
        p->waited_us += p->s->now_us - w->asked_us;
    }
    w->on_turn(w, p->is_stopped ? ERR_CANCELLED : ERR_OK);
}

static void on_timer(struct timer *t)
{
    struct pace *p = container_of(t, struct pace, timer);
    fill(p);
    for (uint32_t i = 0; i < PACE_TURNS_MAX && wait_us(p) == 0; i++) {
        struct list *node = list_pop_front(&p->waiters);
        if (node == NULL) {
            return;
        }
        give_turn(p, container_of(node, struct pace_wait, link));
    }
    arm(p);
}

void pace_init(struct pace *p, struct shard *s, const struct pace_limits *limits)
{
    *p = (struct pace){.s = s, .limits = *limits, .filled_us = s->now_us};
    p->ops = capacity(limits->ops_per_s, limits);
    p->bytes = capacity(limits->bytes_per_s, limits);
    list_init(&p->waiters);
    timer_init(&p->timer, on_timer);
}

void pace_done(struct pace *p)
{
    assert(list_is_empty(&p->waiters));
    timer_cancel(&p->s->timers, &p->timer);
}

void pace_set_limits(struct pace *p, const struct pace_limits *limits)
{
    fill(p);
    p->limits = *limits;
    fill(p); /* Not more than the new buckets hold. */
    arm(p);
}

void pace_wait_init(struct pace_wait *w, void (*on_turn)(struct pace_wait *w, enum err e))
{
    *w = (struct pace_wait){.on_turn = on_turn};
    list_init(&w->link);
}

void pace_ask(struct pace *p, struct pace_wait *w, uint64_t ops, uint64_t bytes)
{
    assert(list_is_empty(&w->link));
    w->ops = ops;
    w->bytes = bytes;
    w->asked_us = p->s->now_us;
    const bool is_first = list_is_empty(&p->waiters);
    list_push_back(&p->waiters, &w->link);
    if (is_first) {
        fill(p);
        arm(p);
    }
}

void pace_cancel(struct pace *p, struct pace_wait *w)
{
    list_remove(&w->link);
    if (list_is_empty(&p->waiters)) {
        timer_cancel(&p->s->timers, &p->timer);
    }
}

void pace_stop(struct pace *p)
{
    p->is_stopped = true;
    arm(p);
}
