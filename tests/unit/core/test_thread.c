/* Threads: pinned where asked, deaf to signals, refused on cores that do not exist. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sched.h>
#include <signal.h>

#include "core/thread.h"

struct seen {
    int cpus_count;
    int cpu;
    bool is_term_blocked;
};

static void look_around(void *context)
{
    struct seen *s = context;
    int cpus[8];
    s->cpus_count = thread_cpus(cpus, 8);
    s->cpu = cpus[0];
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    s->is_term_blocked = sigismember(&blocked, SIGTERM) == 1;
}

Test(thread, runs_pinned_and_without_signals)
{
    int cpus[8];
    int count = thread_cpus(cpus, 8);
    cr_assert(ge(int, count, 1));
    for (int i = 0; i < count; i++) {
        struct seen s = {0};
        struct thread t;
        cr_assert(eq(int, thread_start(&t, "pinned", cpus[i], look_around, &s), ERR_OK));
        thread_join(&t);
        cr_assert(eq(int, s.cpus_count, 1));
        cr_assert(eq(int, s.cpu, cpus[i]));
        cr_assert(s.is_term_blocked);
    }
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    cr_assert(eq(int, sigismember(&blocked, SIGTERM), 0), "the starter hears them still");
}

Test(thread, a_core_that_is_not_there_is_refused)
{
    struct seen s = {0};
    struct thread t;
    cr_assert(eq(int, thread_start(&t, "nowhere", CPU_SETSIZE - 1, look_around, &s), ERR_INVALID));
}

Test(thread, unpinned_threads_may_use_all_cores)
{
    int cpus[8];
    struct seen s = {0};
    struct thread t;
    cr_assert(eq(int, thread_start(&t, "free", -1, look_around, &s), ERR_OK));
    thread_join(&t);
    cr_assert(eq(int, s.cpus_count, thread_cpus(cpus, 8)));
}
