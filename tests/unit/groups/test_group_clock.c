/* Time that stands still while the loop does. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "groups/group_clock.h"

enum {
    MS = 1000,
    LOOKS_MAX = 8,
};

/* When the loop looks, and what it is told. */
struct look {
    uint64_t loop_ms;
    uint64_t time_ms;
};

static const struct {
    const char *what;
    struct look looks[LOOKS_MAX];
} STORIES[] = {
    {"a loop that runs", {{1000, 1000}, {1001, 1001}, {2000, 2000}, {2900, 2900}}},
    {"a pulse that is late is no standstill", {{1000, 1000}, {3000, 3000}, {4500, 4500}}},
    {"what is read within the grace was said before the standstill",
     {{1000, 1000}, {16000, 1000}, {16000, 1000}, {16999, 1000}, {17000, 1000}, {17500, 1500}}},
    {"twice", {{1000, 1000}, {9000, 1000}, {10250, 1250}, {30000, 1250}, {31100, 1350}}},
    {"again within the grace", {{1000, 1000}, {9000, 1000}, {20000, 1000}, {21010, 1010}}},
};

Test(group_clock, stands_still_with_the_loop)
{
    for (size_t i = 0; i < sizeof(STORIES) / sizeof(STORIES[0]); i++) {
        struct group_clock c;
        group_clock_init(&c, 0);
        for (const struct look *k = STORIES[i].looks; k->loop_ms != 0; k++) {
            const uint64_t got_us = group_clock_look(&c, k->loop_ms * MS);
            cr_assert(eq(u64, got_us, k->time_ms * MS),
                      "%s at %llu",
                      STORIES[i].what,
                      (unsigned long long)k->loop_ms);
        }
    }
}

/* A look at the time that was told is not too early, and what is over comes in the next turn, also
 * within the grace. */
Test(group_clock, says_when_a_deadline_is_over)
{
    struct group_clock c;
    group_clock_init(&c, 0);
    cr_assert(eq(u64, group_clock_look(&c, 1000), 1000));
    cr_assert(eq(u64, group_clock_when_us(&c, 0), 1001));
    cr_assert(eq(u64, group_clock_when_us(&c, 1000), 1001));
    cr_assert(eq(u64, group_clock_when_us(&c, 1200), 1200));
    const uint64_t back_us = 60 * 1000 * MS;
    cr_assert(eq(u64, group_clock_look(&c, back_us), 1000));
    cr_assert(eq(u64, group_clock_when_us(&c, 900), back_us + 1));
    const uint64_t when_us = group_clock_when_us(&c, 1200);
    cr_assert(eq(u64, when_us, back_us + GROUP_CLOCK_GRACE_US + 200));
    cr_assert(eq(u64, group_clock_look(&c, when_us), 1200));
    cr_assert(eq(u64, group_clock_when_us(&c, UINT64_MAX), UINT64_MAX));
}
