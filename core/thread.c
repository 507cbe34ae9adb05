#include "core/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "core/assert.h"

static void *run_thread(void *argument)
{
    struct thread *t = argument;
    t->run(t->context);
    return NULL;
}

static int start_blocked(struct thread *t, const pthread_attr_t *attributes)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&t->handle, attributes, run_thread, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum err
thread_start(struct thread *t, const char *name, int cpu, void (*run)(void *context), void *context)
{
    *t = (struct thread){.run = run, .context = context};

    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) {
        return ERR_BUSY;
    }
    if (cpu >= 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET((size_t)cpu, &cpus);
        /* Before it runs: its memory shall come from the core's own node. */
        (void)pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
    }
    int error = start_blocked(t, &attributes);
    (void)pthread_attr_destroy(&attributes);
    if (error == EINVAL) {
        return ERR_INVALID;
    }
    if (error != 0) {
        return ERR_BUSY;
    }
    (void)pthread_setname_np(t->handle, name);
    return ERR_OK;
}

void thread_join(struct thread *t)
{
    int error = pthread_join(t->handle, NULL);
    assert(error == 0);
}

int thread_cpus(int *ret_cpus, int max)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
        return 0;
    }
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < max; cpu++) {
        if (CPU_ISSET((size_t)cpu, &cpus)) {
            ret_cpus[count++] = cpu;
        }
    }
    return count;
}

enum err thread_barrier_init(struct thread_barrier *b, unsigned count)
{
    return pthread_barrier_init(&b->handle, NULL, count) == 0 ? ERR_OK : ERR_BUSY;
}

void thread_barrier_done(struct thread_barrier *b)
{
    (void)pthread_barrier_destroy(&b->handle);
}

void thread_barrier_wait(struct thread_barrier *b)
{
    (void)pthread_barrier_wait(&b->handle);
}
