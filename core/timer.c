/* Binary heap ordered by {deadline, arming order}. */
#include "core/timer.h"

#include <stdlib.h>

#include "core/assert.h"

enum {
    TIMERS_CAPACITY_MIN = 64,
};

void timers_init(struct timers *ts)
{
    *ts = (struct timers){0};
}

void timers_done(struct timers *ts)
{
    assert(ts->count == 0);
    free(ts->heap);
    *ts = (struct timers){0};
}

void timer_init(struct timer *t, timer_fn *on_expired)
{
    *t = (struct timer){.on_expired = on_expired, .heap_index = SIZE_MAX};
}

static bool is_earlier(const struct timer *a, const struct timer *b)
{
    if (a->deadline_us != b->deadline_us) {
        return a->deadline_us < b->deadline_us;
    }
    return a->sequence < b->sequence;
}

static void place(struct timers *ts, struct timer *t, size_t index)
{
    ts->heap[index] = t;
    t->heap_index = index;
}

/* Moves t from a free index towards the root or the leaves, to where it belongs. */
static void sift(struct timers *ts, struct timer *t, size_t index)
{
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!is_earlier(t, ts->heap[parent])) {
            break;
        }
        place(ts, ts->heap[parent], index);
        index = parent;
    }
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= ts->count) {
            break;
        }
        if (child + 1 < ts->count && is_earlier(ts->heap[child + 1], ts->heap[child])) {
            child++;
        }
        if (!is_earlier(ts->heap[child], t)) {
            break;
        }
        place(ts, ts->heap[child], index);
        index = child;
    }
    place(ts, t, index);
}

static void reserve_one(struct timers *ts)
{
    if (ts->count < ts->capacity) {
        return;
    }
    size_t capacity = ts->capacity == 0 ? TIMERS_CAPACITY_MIN : ts->capacity * 2;
    struct timer **heap = realloc(ts->heap, capacity * sizeof(struct timer *));
    if (heap == NULL) {
        /* Eight bytes per timer: whoever embeds one needed far more a moment ago. A timer that
         * cannot be armed has no caller that could do anything about it. */
        panic("out of memory for timers: count=%zu", ts->count);
    }
    ts->heap = heap;
    ts->capacity = capacity;
}

void timer_arm(struct timers *ts, struct timer *t, uint64_t deadline_us)
{
    t->deadline_us = deadline_us;
    t->sequence = ts->sequence_next++;
    if (timer_is_armed(t)) {
        assert(ts->heap[t->heap_index] == t);
        sift(ts, t, t->heap_index);
        return;
    }
    reserve_one(ts);
    ts->count++;
    /* The new slot is at the end: no child of it exists, so sift only goes up. */
    sift(ts, t, ts->count - 1);
}

void timer_cancel(struct timers *ts, struct timer *t)
{
    if (!timer_is_armed(t)) {
        return;
    }
    size_t index = t->heap_index;
    assert_cmp(index, <, ts->count);
    assert(ts->heap[index] == t);
    struct timer *last = ts->heap[--ts->count];
    t->heap_index = SIZE_MAX;
    if (last != t) {
        sift(ts, last, index);
    }
}

uint64_t timers_next_deadline_us(const struct timers *ts)
{
    return ts->count == 0 ? UINT64_MAX : ts->heap[0]->deadline_us;
}

size_t timers_run(struct timers *ts, uint64_t now_us, size_t budget)
{
    size_t ran = 0;
    while (ran < budget && ts->count > 0 && ts->heap[0]->deadline_us <= now_us) {
        struct timer *t = ts->heap[0];
        timer_cancel(ts, t);
        ran++;
        t->on_expired(t); /* May free t. */
    }
    return ran;
}
