/* The meter: what counts in a window, and what does not. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/meter.h"

static struct meter m;

static void setup(void)
{
    cr_assert(meter_init(&m) == ERR_OK);
}

static void teardown(void)
{
    meter_done(&m);
}

TestSuite(bench_meter, .init = setup, .fini = teardown);

/* By when it was due, not by when it was over. */
Test(bench_meter, the_due_time_decides)
{
    static const struct {
        uint64_t due_us;
        uint64_t now_us;
        bool counts;
    } rows[] = {
        {99, 150, false}, {100, 150, true}, {199, 900, true}, {200, 201, false}, {150, 140, true}};
    uint64_t wanted = 0;
    meter_open(&m, 100, 200);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        meter_record(&m, rows[i].due_us, rows[i].now_us, 1);
        wanted += rows[i].counts;
    }
    const struct hdr *taken = meter_take(&m);
    cr_assert(eq(u64, taken->count, wanted));
    cr_assert(eq(u64, taken->value_max, 701));
    cr_assert(eq(u64, taken->value_min, 0));
    struct meter_counts counts;
    meter_counts(&m, &counts);
    cr_assert(eq(u64, counts.good_count, 5));
    cr_assert(eq(u64, counts.window_last_us, 900));
}

Test(bench_meter, intervals_add_up)
{
    meter_open(&m, 0, 1000);
    for (uint64_t i = 0; i < 30; i++) {
        meter_record(&m, i, i + 10 + i % 3, 2);
        if (i % 10 == 9) {
            cr_assert(eq(u64, meter_take(&m)->count, 20));
        }
    }
    cr_assert(eq(u64, meter_take(&m)->count, 0));
    cr_assert(eq(u64, m.total->count, 60));
    cr_assert(eq(u64, hdr_value_at(m.total, 0.34), 11));
    meter_open(&m, 0, 1000);
    cr_assert(eq(u64, m.total->count, 0));
}

/* What nobody answered must not be missing among the latencies: they would be those of a good run.
 */
Test(bench_meter, what_was_given_up_counts_with_its_wait)
{
    struct meter_counts counts;
    meter_open(&m, 100, 200);
    meter_record(&m, 120, 130, 5);
    meter_wait(&m, 150, 1150, 4);
    meter_wait(&m, 250, 9999, 4);
    meter_wait(&m, 160, 150, 1);
    meter_counts(&m, &counts);
    cr_assert(eq(u64, counts.window_good_count, 5));
    cr_assert(eq(u64, counts.good_count, 5));
    cr_assert(eq(u64, counts.window_last_us, 130));
    cr_assert(eq(u64, meter_take(&m)->count, 10));
    cr_assert(eq(u64, m.total->value_max, 1000));
    cr_assert(eq(u64, m.total->value_min, 0));
    meter_open(&m, 200, 300);
    meter_counts(&m, &counts);
    cr_assert(eq(u64, counts.window_good_count, 0));
}

Test(bench_meter, what_is_due_behind_a_stop_does_not_count)
{
    meter_open(&m, 0, 1000);
    meter_shorten(&m, 500);
    meter_shorten(&m, 700);
    meter_record(&m, 499, 600, 1);
    meter_record(&m, 500, 600, 1);
    cr_assert(eq(u64, meter_take(&m)->count, 1));
}

Test(bench_meter, the_first_failure_is_remembered)
{
    char why[CLIENT_WHY_SIZE];
    struct meter_counts counts;
    meter_why(&m, why);
    cr_assert(eq(str, why, (char *)""));
    meter_open(&m, 100, 200);
    meter_fail(&m, 50, 3, ERR_CLOSED, "gone");
    meter_fail(&m, 150, 4, ERR_TIMED_OUT, "late");
    meter_counts(&m, &counts);
    cr_assert(eq(u64, counts.bad_count, 7));
    cr_assert(eq(u64, counts.window_bad_count, 4));
    meter_why(&m, why);
    cr_assert(eq(str, why, (char *)"gone"));
}
