/* Arenas: alignment, limits, and what is kept between requests. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/arena.h"

static bool is_memory_gone;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return is_memory_gone ? NULL : __real_malloc(size);
}

Test(arena, memory_is_zeroed_aligned_and_apart)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    for (int round = 0; round < 3; round++) {
        uint8_t *previous = NULL;
        for (size_t size = 0; size < 3000; size += 37) {
            uint8_t *memory = arena_alloc(&a, size);
            cr_assert(ne(ptr, memory, NULL));
            cr_assert(ne(ptr, memory, previous));
            cr_assert(eq(sz, (uintptr_t)memory % alignof(max_align_t), 0));
            for (size_t i = 0; i < size; i++) {
                cr_assert(eq(u8, memory[i], 0));
            }
            memset(memory, 0xaa, size);
            previous = memory;
        }
        arena_reset(&a);
        cr_assert(eq(sz, a.used_size, 0));
    }
    arena_done(&a);
}

/* Of a hundred thousand with a few bytes in each. */
Test(arena, a_small_one_begins_small)
{
    struct arena_budget budget = {.size_max = 1 << 20};
    struct arena a;
    arena_init_small(&a, 1 << 20, 512);
    a.budget = &budget;
    for (int round = 0; round < 2; round++) {
        cr_assert(ne(ptr, arena_alloc(&a, 300), NULL));
        cr_assert(eq(sz, budget.size, 512));
        cr_assert(ne(ptr, arena_alloc(&a, 300), NULL));
        cr_assert(eq(sz, budget.size, 512 + 1024));
        arena_done(&a);
        cr_assert(eq(sz, budget.size, 0));
    }
}

Test(arena, at_the_limit_there_is_no_more)
{
    struct arena a;
    arena_init(&a, 10000);
    cr_assert(eq(ptr, arena_alloc(&a, 10001), NULL));
    cr_assert(ne(ptr, arena_alloc(&a, 6000), NULL));
    cr_assert(eq(ptr, arena_alloc(&a, 6000), NULL));
    cr_assert(ne(ptr, arena_alloc(&a, 3000), NULL));
    arena_reset(&a);
    cr_assert(ne(ptr, arena_alloc(&a, 10000), NULL));
    cr_assert(eq(ptr, arena_alloc(&a, 1), NULL));
    arena_done(&a);

    arena_init(&a, SIZE_MAX);
    cr_assert(eq(ptr, arena_alloc(&a, SIZE_MAX), NULL));
    cr_assert(eq(ptr, arena_alloc_array(&a, SIZE_MAX / 2, 3), NULL));
    cr_assert(eq(ptr, arena_strndup(&a, "", SIZE_MAX), NULL));
    arena_done(&a);
}

Test(arena, many_tiny_allocations_are_bounded_too)
{
    struct arena a;
    arena_init(&a, 4096);
    size_t count = 0;
    while (count < 10000 && arena_alloc(&a, 1) != NULL) {
        count++;
    }
    cr_assert(le(sz, count, 4096 / alignof(max_align_t) + 1));
    arena_done(&a);
}

Test(arena, strings_are_terminated)
{
    struct arena a;
    arena_init(&a, 1 << 16);
    char *copy = arena_strndup(&a, "partition", 4);
    cr_assert(eq(str, copy, "part"));
    copy = arena_strndup(&a, NULL, 0);
    cr_assert(eq(str, copy, ""));
    arena_done(&a);
}

Test(arena, a_budget_bounds_all_that_share_it)
{
    struct arena_budget budget = {.size_max = 13000};
    struct arena a;
    struct arena b;
    arena_init_shared(&a, 1 << 20, &budget);
    arena_init_shared(&b, 1 << 20, &budget);
    cr_assert(ne(ptr, arena_alloc(&a, 6000), NULL));
    cr_assert(eq(ptr, arena_alloc(&b, 8000), NULL));
    cr_assert(ne(ptr, arena_alloc(&b, 100), NULL), "a block of 4096 still fits");
    arena_reset(&a);
    cr_assert(ne(ptr, arena_alloc(&b, 5000), NULL));
    arena_done(&a);
    arena_done(&b);
    cr_assert(eq(sz, budget.size, 0));
    cr_assert(ne(ptr, arena_alloc(&a, 6000), NULL), "an arena that is done starts afresh");
    cr_assert(eq(ptr, arena_alloc(&b, 8000), NULL));
    arena_done(&a);
    cr_assert(eq(sz, budget.size, 0));
}

/* A limit and no memory are told apart: only the one is worth another try. */
Test(arena, it_says_whether_it_was_memory)
{
    struct arena_budget budget = {.size_max = 1 << 20};
    struct arena a;
    arena_init_shared(&a, 10000, &budget);
    cr_assert(eq(ptr, arena_alloc(&a, 10001), NULL));
    cr_assert(not(a.is_without_memory), "the limit");
    is_memory_gone = true;
    void *memory = arena_alloc(&a, 1);
    is_memory_gone = false;
    cr_assert(eq(ptr, memory, NULL));
    cr_assert(a.is_without_memory);
    cr_assert(not(a.is_over_budget));
    cr_assert(eq(sz, budget.size, 0));
    arena_reset(&a);
    cr_assert(not(a.is_without_memory));
    arena_done(&a);
}
