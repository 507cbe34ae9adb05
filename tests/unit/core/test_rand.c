/* Random numbers: the same for the same seed, within bounds, even. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/rand.h"

Test(rand, a_seed_says_everything)
{
    struct rand a;
    struct rand b;
    struct rand c;
    rand_init_seed(&a, 5);
    rand_init_seed(&b, 5);
    rand_init_seed(&c, 6);
    bool is_different = false;
    for (int i = 0; i < 100; i++) {
        uint64_t v = rand_u64(&a);
        cr_assert(eq(u64, v, rand_u64(&b)));
        is_different |= v != rand_u64(&c);
    }
    cr_assert(is_different);
}

/* First outputs of xoshiro256** for the state {1, 2, 3, 4}, as its authors publish them. */
Test(rand, vectors)
{
    struct rand r = {.state = {1, 2, 3, 4}};
    const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        cr_assert(eq(u64, rand_u64(&r), expected[i]));
    }
}

Test(rand, below_is_below_and_even)
{
    struct rand r;
    rand_init_seed(&r, 8);
    uint32_t counts[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint64_t v = rand_below(&r, 7);
        cr_assert(lt(u64, v, 7));
        counts[v]++;
    }
    for (size_t i = 0; i < 7; i++) {
        cr_assert(ge(u32, counts[i], 850));
        cr_assert(le(u32, counts[i], 1150));
    }
    cr_assert(eq(u64, rand_below(&r, 1), 0));
    for (int i = 0; i < 100; i++) {
        cr_assert(le(u64, rand_below(&r, UINT64_MAX), UINT64_MAX - 1));
    }
}

Test(rand, real_seeds_differ)
{
    struct rand a;
    struct rand b;
    rand_init_real(&a);
    rand_init_real(&b);
    cr_assert(ne(u64, rand_u64(&a), rand_u64(&b)));
}

Test(rand, uuids_are_version_4)
{
    struct rand r;
    rand_init_seed(&r, 9);
    for (int i = 0; i < 1000; i++) {
        struct uuid u = rand_uuid(&r);
        cr_assert(eq(int, u.bytes[6] >> 4, 4));
        cr_assert(eq(int, u.bytes[8] >> 6, 2));
        cr_assert(not(uuid_is_zero(&u)));
    }
}

Test(rand, bytes_of_any_size)
{
    struct rand r;
    rand_init_seed(&r, 10);
    for (size_t size = 0; size < 20; size++) {
        uint8_t bytes[24] = {0};
        rand_bytes(&r, bytes, size);
        for (size_t i = size; i < sizeof(bytes); i++) {
            cr_assert(eq(u8, bytes[i], 0));
        }
    }
}
