/* The queue of those that match patterns: its share of the core, its lanes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "groups/matching.h"

enum {
    STEPS_PER_MS = 200 * 1000, /* Of the core's time: 5 ns each. */
    US_PER_S = 1000 * 1000,
};

static const uint64_t START_US = 1000000000;

/* Has somebody who never ends take turns of a millisecond until the end; how many he got. */
static uint64_t turns_until(struct matching *m, uint64_t *now_us, uint64_t end_us)
{
    struct list one;
    list_init(&one);
    uint64_t count = 0;
    for (;; count++) {
        matching_enter(m, &one, false);
        const uint64_t due_us = matching_deadline_us(m);
        *now_us = due_us > *now_us ? due_us : *now_us;
        cr_assert(matching_pop(m) == &one);
        if (*now_us > end_us) {
            return count;
        }
        matching_charge(m, *now_us, STEPS_PER_MS);
    }
}

Test(matching, all_together_have_a_tenth_of_a_core)
{
    struct matching m;
    matching_init(&m);
    uint64_t now_us = START_US;
    (void)turns_until(&m, &now_us, START_US);
    const uint64_t from_us = now_us;
    const uint64_t count = turns_until(&m, &now_us, from_us + 100 * US_PER_S);
    cr_assert(ge(u64, count, 9990), "milliseconds of 100 s");
    cr_assert(le(u64, count, 10010));
}

Test(matching, a_second_is_credited_after_a_rest)
{
    struct matching m;
    matching_init(&m);
    uint64_t now_us = START_US;
    for (int i = 0; i < 3; i++) {
        const uint64_t count = turns_until(&m, &now_us, now_us);
        cr_assert(ge(u64, count, 100), "milliseconds: a tenth of a second");
        cr_assert(le(u64, count, 101));
        now_us += 3600ULL * US_PER_S;
    }
}

Test(matching, nobody_is_due_without_anybody)
{
    struct matching m;
    struct list one;
    matching_init(&m);
    list_init(&one);
    matching_charge(&m, START_US, 10 * 1000 * STEPS_PER_MS);
    cr_assert(eq(u64, matching_deadline_us(&m), UINT64_MAX));
    matching_enter(&m, &one, true);
    cr_assert(eq(u64, matching_deadline_us(&m), START_US + 99 * US_PER_S),
              "100 s, less the credit");
    list_remove(&one);
    cr_assert(eq(u64, matching_deadline_us(&m), UINT64_MAX));
}

Test(matching, lanes_take_turns_and_are_in_order)
{
    struct matching m;
    struct list links[6];
    static const bool IS_FIRST[] = {false, false, false, true, true, true};
    static const size_t ORDER[] = {3, 0, 4, 1, 5, 2};
    matching_init(&m);
    for (size_t i = 0; i < 6; i++) {
        list_init(&links[i]);
        matching_enter(&m, &links[i], IS_FIRST[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        cr_assert(matching_pop(&m) == &links[ORDER[i]], "%zu", i);
    }
}

Test(matching, who_comes_new_goes_at_once_where_nobody_is_ahead)
{
    struct matching m;
    struct list one;
    struct list other;
    matching_init(&m);
    list_init(&one);
    list_init(&other);
    cr_assert(matching_take(&m, START_US));
    cr_assert(matching_take(&m, START_US), "nobody wants a turn");
    matching_enter(&m, &one, false);
    cr_assert(not(matching_take(&m, START_US)), "it is the other lane's turn");
    cr_assert(matching_pop(&m) == &one);
    matching_enter(&m, &one, false);
    cr_assert(matching_take(&m, START_US), "one turn each");
    cr_assert(not(matching_take(&m, START_US)));
    matching_enter(&m, &other, true);
    cr_assert(matching_pop(&m) == &one);
    cr_assert(not(matching_take(&m, START_US)), "another member waits");
    cr_assert(matching_pop(&m) == &other);
    matching_charge(&m, START_US, 101 * STEPS_PER_MS);
    cr_assert(not(matching_take(&m, START_US)), "the share is used");
}
