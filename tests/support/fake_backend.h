/* An io backend without a disk, for tests of what stands on it: the front of io and the loop.
 *
 * Ops that were started wait in order until the test completes them (fake_complete), or complete at
 * the next reap by themselves with what the script says. Sleeping and waking work across threads.
 */
#pragma once

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/io.h"
#include "core/list.h"

struct fake_backend {
    struct io_backend backend;
    struct list started; /* struct io_op */
    size_t starts_count;
    size_t flushes_count;

    /* The result of the n-th attempt, taken at reap; attempts beyond it wait for the test. */
    const int64_t *script;
    size_t script_size;
    size_t script_next;

    /* Called by wait instead of sleeping, if set. */
    void (*on_wait)(struct fake_backend *f, uint64_t deadline_us);
    void *context;

    pthread_mutex_t mutex;
    pthread_cond_t woken;
    bool is_woken;
    size_t wakes_count; /* Read after the threads ended. */
};

static inline void fake_start(struct io_backend *b, struct io_op *op)
{
    struct fake_backend *f = container_of(b, struct fake_backend, backend);
    f->starts_count++;
    list_push_back(&f->started, &op->link);
}

static inline void fake_flush(struct io_backend *b)
{
    container_of(b, struct fake_backend, backend)->flushes_count++;
}

/* Ends the oldest attempt with result. */
static inline void fake_complete(struct fake_backend *f, int64_t result)
{
    struct list *node = list_pop_front(&f->started);
    cr_assert(node != NULL);
    struct io_op *op = container_of(node, struct io_op, link);
    op->backend_result = result;
    io_complete(op);
}

static inline size_t fake_reap(struct io_backend *b, size_t budget)
{
    struct fake_backend *f = container_of(b, struct fake_backend, backend);
    size_t count = 0;
    while (count < budget && f->script_next < f->script_size && !list_is_empty(&f->started)) {
        fake_complete(f, f->script[f->script_next++]);
        count++;
    }
    return count;
}

static inline void fake_wait(struct io_backend *b, uint64_t deadline_us)
{
    struct fake_backend *f = container_of(b, struct fake_backend, backend);
    if (f->on_wait != NULL) {
        f->on_wait(f, deadline_us);
        return;
    }
    pthread_mutex_lock(&f->mutex);
    while (!f->is_woken) {
        pthread_cond_wait(&f->woken, &f->mutex);
    }
    f->is_woken = false;
    pthread_mutex_unlock(&f->mutex);
}

static inline void fake_wake(struct io_backend *self, struct io_backend *other)
{
    (void)self;
    struct fake_backend *f = container_of(other, struct fake_backend, backend);
    pthread_mutex_lock(&f->mutex);
    f->is_woken = true;
    f->wakes_count++;
    pthread_cond_signal(&f->woken);
    pthread_mutex_unlock(&f->mutex);
}

static inline void fake_backend_init(struct fake_backend *f)
{
    static const struct io_backend_ops ops = {
        .start = fake_start,
        .flush = fake_flush,
        .reap = fake_reap,
        .wait = fake_wait,
        .wake = fake_wake,
    };
    *f = (struct fake_backend){.backend = {.ops = &ops}};
    list_init(&f->started);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->woken, NULL);
}

static inline void fake_backend_done(struct fake_backend *f)
{
    cr_assert(list_is_empty(&f->started));
    pthread_cond_destroy(&f->woken);
    pthread_mutex_destroy(&f->mutex);
}
