/* Ids and their text, and the hash that keeps strangers from choosing collisions. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/ids.h"
#include "core/rand.h"

Test(ids, text_of_known_ids)
{
    char text[UUID_TEXT_SIZE];
    struct uuid u = {0};
    uuid_format(&u, text);
    cr_assert(eq(str, text, "AAAAAAAAAAAAAAAAAAAAAA"));
    cr_assert(uuid_is_zero(&u));
    uuid_format(&CONTROLLER_TOPIC_ID, text);
    cr_assert(eq(str, text, "AAAAAAAAAAAAAAAAAAAAAQ"));
    memset(u.bytes, 0xff, sizeof(u.bytes));
    uuid_format(&u, text);
    cr_assert(eq(str, text, "_____________________w"));
}

Test(ids, text_and_back)
{
    struct rand r;
    rand_init_seed(&r, 7);
    for (int i = 0; i < 1000; i++) {
        struct uuid u = rand_uuid(&r);
        struct uuid back = {0};
        char text[UUID_TEXT_SIZE];
        uuid_format(&u, text);
        cr_assert(ne(chr, text[0], '-'));
        cr_assert(uuid_parse(text, &back));
        cr_assert(uuid_equal(&u, &back));
    }
}

Test(ids, only_the_one_spelling_is_parsed)
{
    const char *const bad[] = {
        "",
        "AAAAAAAAAAAAAAAAAAAAA",   /* 21 characters */
        "AAAAAAAAAAAAAAAAAAAAAAA", /* 23 */
        "AAAAAAAAAAAAAAAAAAAAAA=", /* padding */
        "AAAAAAAAAA+AAAAAAAAAAA",  /* the other alphabet */
        "AAAAAAAAAA/AAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAB", /* bits that no byte holds */
        "AAAAAAAAAA AAAAAAAAAAA",
        "AAAAAAAAAA\303\244AAAAAAAAAA",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct uuid u = {.bytes = {42}};
        cr_assert(not(uuid_parse(bad[i], &u)), "%s", bad[i]);
        cr_assert(eq(u8, u.bytes[0], 42));
    }
}

Test(ids, hash_depends_on_every_bit_and_on_the_seed)
{
    uint8_t data[24] = {0};
    for (size_t size = 0; size < sizeof(data); size++) {
        uint64_t base = hash_bytes(1, data, size);
        cr_assert(ne(u64, base, hash_bytes(2, data, size)));
        cr_assert(ne(u64, base, hash_bytes(1, data, size + 1)));
        for (size_t bit = 0; bit < size * 8; bit++) {
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            uint64_t flipped = hash_bytes(1, data, size);
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            /* About half of the bits change; fewer than 10 of 64 would be one in 10^9. */
            cr_assert(ge(int, __builtin_popcountll(base ^ flipped), 10));
        }
    }
}

/* Computed apart, for speed. */
Test(ids, hash_of_a_partition_is_that_of_its_bytes)
{
    struct partition_id id = {.partition = 0x01020304};
    uint8_t bytes[UUID_SIZE + 4] = {[UUID_SIZE] = 4, 3, 2, 1};
    for (uint8_t i = 0; i < UUID_SIZE; i++) {
        id.topic_id.bytes[i] = bytes[i] = (uint8_t)(i * 37 + 1);
    }
    cr_assert(eq(u64, partition_id_hash(7, &id), hash_bytes(7, bytes, sizeof(bytes))));
}

Test(ids, hash_of_small_numbers_fills_buckets_evenly)
{
    enum { BUCKETS_COUNT = 64, KEYS_COUNT = 64 * 100 };
    uint32_t counts[BUCKETS_COUNT] = {0};
    struct partition_id id = {.topic_id = CONTROLLER_TOPIC_ID};
    for (int32_t i = 0; i < KEYS_COUNT; i++) {
        id.partition = i;
        counts[partition_id_hash(99, &id) % BUCKETS_COUNT]++;
    }
    for (size_t i = 0; i < BUCKETS_COUNT; i++) {
        cr_assert(ge(u32, counts[i], 50)); /* Five standard deviations. */
        cr_assert(le(u32, counts[i], 150));
    }
}
