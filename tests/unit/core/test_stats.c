/* Histograms and the registry of metrics. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/stats.h"

struct bucket_row {
    uint64_t value;
    size_t bucket;
};

Test(stats, bucket_i_holds_values_below_two_to_the_i)
{
    const struct bucket_row rows[] = {
        {0, 0},
        {1, 1},
        {2, 2},
        {3, 2},
        {4, 3},
        {1023, 10},
        {1024, 11},
        {1ull << 30, 31},
        {1ull << 31, 31},
        {UINT64_MAX, 31},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct histogram h = {0};
        histogram_record(&h, rows[i].value);
        cr_assert(eq(u64, h.buckets[rows[i].bucket], 1));
        cr_assert(eq(u64, h.count, 1));
        cr_assert(eq(u64, h.sum, rows[i].value));
    }
}

Test(stats, registry_keeps_order)
{
    struct stats ss;
    struct stat a = {.name = "a"};
    struct stat b = {.name = "b"};
    stats_init(&ss);
    stats_add(&ss, &a);
    stats_add(&ss, &b);
    cr_assert(eq(ptr, container_of(ss.all.next, struct stat, link), &a));
    stats_remove(&a);
    stats_remove(&a); /* Harmless. */
    cr_assert(eq(ptr, container_of(ss.all.next, struct stat, link), &b));
    stats_remove(&b);
    cr_assert(list_is_empty(&ss.all));
}
