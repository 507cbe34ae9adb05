/* The few threads of the program: one per shard, started by broker/ and by tests.
 *
 * Shard: none; called by whoever starts and joins.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "core/err.h"

struct thread {
    pthread_t handle;
    void (*run)(void *context);
    void *context;
};

/* Starts run(context), pinned to a core unless cpu is -1. Signals stay blocked in it, so that the
 * process's signals go to whom main chose. name has at most 15 characters. t must outlive the
 * thread.
 *   ERR_INVALID  this process may not use that cpu
 *   ERR_BUSY     the system has no room for another thread */
enum err thread_start(
    struct thread *t, const char *name, int cpu, void (*run)(void *context), void *context);

/* Waits for its end. */
void thread_join(struct thread *t);

/* The cpus this process may use, ascending, at most max. Returns how many. */
int thread_cpus(int *ret_cpus, int max);

/* A place where count threads wait for each other. What they wrote before it is seen by all behind
 * it. */
struct thread_barrier {
    pthread_barrier_t handle;
};

/* count > 0. ERR_BUSY: the system has no room for another. */
enum err thread_barrier_init(struct thread_barrier *b, unsigned count);
void thread_barrier_done(struct thread_barrier *b);
void thread_barrier_wait(struct thread_barrier *b);
