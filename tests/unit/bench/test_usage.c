/* What the generator takes: figures between two samples, and when they deserve a warning. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/usage.h"

/* Two seconds apart; threads 1 and 3 live through both, 2 ended, 4 came. */
static struct usage_thread threads_before[] = {{1, 100}, {2, 900}, {3, 0}};
static struct usage_thread threads_after[] = {{1, 1000100}, {3, 1900000000}, {4, 1999999999}};

static const struct usage_sample before = {
    .at_us = 1000000,
    .own_us = 500000,
    .machine_all = 1000,
    .machine_idle = 800,
    .threads = threads_before,
    .threads_count = 3,
};

static struct usage_sample after(uint64_t idle)
{
    return (struct usage_sample){
        .at_us = 3000000,
        .own_us = 1500000,
        .machine_all = 1400,
        .machine_idle = idle,
        .threads = threads_after,
        .threads_count = 3,
    };
}

static bool is_near(double a, double b)
{
    return a > b - 1e-6 && a < b + 1e-6;
}

Test(bench_usage, figures_between_two_samples)
{
    struct usage u;
    const struct usage_sample end = after(1000);
    usage_between(&before, &end, &u);
    cr_assert(is_near(u.seconds, 1));
    cr_assert(is_near(u.cores, 0.5));
    cr_assert(is_near(u.busiest_share, 0.95), "%f", u.busiest_share);
    cr_assert(is_near(u.machine_share, 0.5));
    cr_assert(usage_is_thread_full(&u));
    cr_assert(not(usage_is_machine_full(&u)));
}

Test(bench_usage, a_machine_without_idle_time_is_full)
{
    struct usage u;
    const struct usage_sample end = after(810);
    usage_between(&before, &end, &u);
    cr_assert(is_near(u.machine_share, 0.975));
    cr_assert(usage_is_machine_full(&u));
}

/* Counters that stand still, or that could not be read, are nothing, and no division by it. */
Test(bench_usage, nothing_between_them_is_nothing)
{
    struct usage u;
    const struct usage_sample none = {.at_us = 5};
    usage_between(&before, &before, &u);
    cr_assert(is_near(u.cores, 0));
    usage_between(&none, &(struct usage_sample){.at_us = 10}, &u);
    cr_assert(is_near(u.busiest_share, 0));
    cr_assert(is_near(u.machine_share, 0));
}

Test(bench_usage, this_process_is_found)
{
    struct usage_sample s;
    usage_take(&s, 7);
    cr_assert(eq(u64, s.at_us, 7));
    cr_assert(lt(sz, 0, s.threads_count));
    cr_assert(lt(u64, 0, s.machine_all));
    cr_assert(le(u64, s.machine_idle, s.machine_all));
    usage_done(&s);
    usage_done(&s);
}
