/* The set of names of a request, against a naive count. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "core/rand.h"
#include "core/shard.h"
#include "kafka/request.h"
#include "kafka/seen.h"

enum { NAMES = 20, NUMBERS = 3, STEPS = 300 };

Test(seen, counts_like_a_table)
{
    struct shard s = {.hash_seed = 7};
    struct dispatch d = {.s = &s};
    struct request r = {.d = &d};
    arena_init(&r.arena, 1 << 20);
    struct seen set;
    cr_assert(seen_init(&set, &r, STEPS));

    char names[NAMES][16];
    uint32_t counts[NAMES][NUMBERS] = {0};
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i);
    }
    struct rand rand;
    rand_init_seed(&rand, 1);
    for (int step = 0; step < STEPS; step++) {
        const size_t name = rand_below(&rand, NAMES);
        const size_t number = rand_below(&rand, NUMBERS);
        counts[name][number]++;
        const uint32_t times = seen_add(&set, slice_of_string(names[name]), (int32_t)number);
        cr_assert(eq(u32, times, counts[name][number]));
    }
    for (size_t name = 0; name < NAMES; name++) {
        for (size_t number = 0; number < NUMBERS; number++) {
            const uint32_t times = seen_times(&set, slice_of_string(names[name]), (int32_t)number);
            cr_assert(eq(u32, times, counts[name][number]));
        }
    }
    cr_assert(eq(u32, seen_times(&set, slice_of_string("other"), 0), 0));
    arena_done(&r.arena);
}

/* A request that names more than its memory holds is refused, not half remembered. */
Test(seen, is_bounded_by_the_requests_memory)
{
    struct shard s = {0};
    struct dispatch d = {.s = &s};
    struct request r = {.d = &d};
    arena_init(&r.arena, 4096);
    struct seen set;
    cr_assert(not(seen_init(&set, &r, 100000)));
    arena_done(&r.arena);
}
