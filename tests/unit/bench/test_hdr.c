/* The histogram against what it says of itself: where a value lies, how wide a bucket is, and
 * percentiles against a sorted list. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "core/rand.h"

#include "perf/bench/hdr.h"

static struct hdr h;

static void setup(void)
{
    hdr_reset(&h);
}

TestSuite(bench_hdr, .init = setup);

/* As HdrHistogram lays it out: 2048 single values, then 1024 buckets per power of two. */
Test(bench_hdr, values_lie_where_hdrhistogram_puts_them)
{
    static const struct {
        uint64_t value;
        uint32_t index;
        uint64_t highest;
    } rows[] = {
        {0, 0, 0},
        {1, 1, 1},
        {2047, 2047, 2047},
        {2048, 2048, 2049},
        {2049, 2048, 2049},
        {2050, 2049, 2051},
        {4095, 3071, 4095},
        {4096, 3072, 4099},
        {1000000, 11169, 1000447},
        {HDR_VALUE_MAX, 23220, 3600809983ULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(u32, hdr_index(rows[i].value), rows[i].index), "%zu", i);
        cr_assert(eq(u64, hdr_highest_at(rows[i].index), rows[i].highest), "%zu", i);
    }
}

/* No gap, no overlap, and never wider than a thousandth. */
Test(bench_hdr, buckets_follow_each_other)
{
    uint64_t from = 0;
    for (uint32_t i = 0; i <= hdr_index(HDR_VALUE_MAX); i++) {
        const uint64_t to = hdr_highest_at(i);
        cr_assert(le(u64, from, to));
        cr_assert(eq(u32, hdr_index(from), i));
        cr_assert(eq(u32, hdr_index(to), i));
        cr_assert(le(u64, (to - from) * 1000, from < 1000 ? 1000 : from));
        from = to + 1;
    }
}

Test(bench_hdr, nothing_recorded_is_zero)
{
    cr_assert(eq(u64, hdr_value_at(&h, 0.99), 0));
    cr_assert(hdr_mean(&h) == 0);
}

Test(bench_hdr, small_values_are_exact)
{
    for (uint64_t v = 1; v <= 1000; v++) {
        hdr_record(&h, v, 1);
    }
    static const struct {
        double quantile;
        uint64_t value;
    } rows[] = {{0, 1},
                {0.001, 1},
                {0.0011, 2},
                {0.5, 500},
                {0.9, 900},
                {0.99, 990},
                {0.999, 999},
                {1, 1000}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert(eq(u64, hdr_value_at(&h, rows[i].quantile), rows[i].value), "%zu", i);
    }
    cr_assert(hdr_mean(&h) == 500.5);
}

/* The highest ever seen is not rounded up, and what is above the range is told. */
Test(bench_hdr, the_highest_stays_within_what_was_seen)
{
    hdr_record(&h, 1000001, 3);
    cr_assert(eq(u64, hdr_value_at(&h, 0.5), 1000001));
    hdr_record(&h, UINT64_MAX, 1);
    cr_assert(eq(u64, hdr_value_at(&h, 1), HDR_VALUE_MAX));
    cr_assert(eq(u64, h.above_count, 1));
    cr_assert(eq(u64, h.count, 4));
    cr_assert(eq(u64, h.value_min, 1000001));
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Against the sorted list, over six powers of ten; in two halves that are added. */
Test(bench_hdr, percentiles_are_those_of_the_list)
{
    enum {
        COUNT = 20000,
    };
    static uint64_t list[COUNT];
    static struct hdr half;
    struct rand r;
    rand_init_seed(&r, 7);
    hdr_reset(&half);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t bound = 10;
        for (uint64_t digits = rand_below(&r, 7); digits > 0; digits--) {
            bound *= 10;
        }
        list[i] = rand_below(&r, bound);
        hdr_record(i % 2 == 0 ? &h : &half, list[i], 1);
    }
    hdr_add(&h, &half);
    qsort(list, COUNT, sizeof(list[0]), compare);
    for (int percent = 1; percent <= 100; percent++) {
        const uint64_t exact = list[(size_t)percent * COUNT / 100 - 1];
        const uint64_t got = hdr_value_at(&h, percent / 100.0);
        cr_assert(le(u64, exact, got), "%d", percent);
        cr_assert(le(u64, (got - exact) * 1000, exact), "%d", percent);
    }
    cr_assert(eq(u64, h.count, COUNT));
}
