/* The search against brokers whose highest rate is known. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/search.h"

/* hiccup: the step that fails whatever its rate; -1: none. */
static double find(double start, double capacity, int hiccup, int *ret_steps)
{
    struct search s;
    search_init(&s, start);
    while (search_goes_on(&s)) {
        search_tell(&s, s.rate <= capacity && s.steps_count != hiccup);
    }
    *ret_steps = s.steps_count;
    return s.held;
}

Test(bench_search, finds_what_is_sustained_from_wherever_it_begins)
{
    static const double capacities[] = {1, 3, 100, 5000, 123456, 3e6};
    static const double starts[] = {1, 1000, 1e7};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        for (size_t k = 0; k < sizeof(starts) / sizeof(starts[0]); k++) {
            int steps;
            const double found = find(starts[k], capacities[i], -1, &steps);
            cr_assert(found <= capacities[i], "%zu %zu", i, k);
            cr_assert(found * (1 + SEARCH_PRECISION) >= capacities[i] * 0.999, "%zu %zu", i, k);
            cr_assert(lt(int, steps, SEARCH_STEPS_MAX), "%zu %zu", i, k);
        }
    }
}

/* A search that was ended before has found what held, not the highest. */
Test(bench_search, says_whether_it_has_found_the_highest)
{
    struct search s;
    search_init(&s, 1000);
    for (double capacity = 100000; search_goes_on(&s); search_tell(&s, s.rate <= capacity)) {
        cr_assert(not(search_is_bracketed(&s)));
    }
    cr_assert(search_is_bracketed(&s));
    search_init(&s, 1000);
    while (search_goes_on(&s)) {
        search_tell(&s, true);
    }
    cr_assert(not(search_is_bracketed(&s)));
}

Test(bench_search, one_hiccup_decides_nothing)
{
    int steps;
    const double undisturbed = find(1000, 123456, -1, &steps);
    for (int hiccup = 0; hiccup < 12; hiccup++) {
        const double found = find(1000, 123456, hiccup, &steps);
        cr_assert(found == undisturbed, "%d", hiccup);
    }
}

Test(bench_search, ends_where_nothing_holds_or_everything_does)
{
    int steps;
    cr_assert(find(1000, 0, -1, &steps) == 0);
    cr_assert(find(1000, 1e300, -1, &steps) > 0);
    cr_assert(eq(int, steps, SEARCH_STEPS_MAX));
}
