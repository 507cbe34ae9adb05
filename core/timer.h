/* Deadlines of one shard, in a heap with intrusive nodes. Arming and cancelling are O(log n), the
 * heap's array is bounded by timers_init's limit hint and grows on demand.
 *
 * A timer fires once, from the loop, never inside timer_arm. Re-arming an armed timer moves it.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer;
typedef void timer_fn(struct timer *t);

struct timer {
    uint64_t deadline_us; /* Absolute, clock.h's now_us. */
    timer_fn *on_expired; /* May re-arm or free the timer. */
    size_t heap_index;    /* Written by timers only; SIZE_MAX = not armed. */
    uint64_t sequence;    /* Written by timers only: equal deadlines fire in arming order. */
};

struct timers {
    struct timer **heap;
    size_t count;
    size_t capacity;
    uint64_t sequence_next;
};

void timers_init(struct timers *ts);
/* Nothing may be armed. */
void timers_done(struct timers *ts);

void timer_init(struct timer *t, timer_fn *on_expired);
static inline bool timer_is_armed(const struct timer *t)
{
    return t->heap_index != SIZE_MAX;
}
void timer_arm(struct timers *ts, struct timer *t, uint64_t deadline_us);
/* Harmless if not armed. */
void timer_cancel(struct timers *ts, struct timer *t);

/* UINT64_MAX if none is armed. */
uint64_t timers_next_deadline_us(const struct timers *ts);

/* Fires at most budget expired timers; returns how many. */
size_t timers_run(struct timers *ts, uint64_t now_us, size_t budget);
