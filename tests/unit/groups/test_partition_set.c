/* Sets of partitions and their owners, against a naive model. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "core/rand.h"
#include "groups/partition_owners.h"
#include "groups/partition_set.h"

enum {
    ROUNDS = 300,
    SPACE = 24, /* Partitions there are: as bits of a mask. */
    TOPICS = 4,
    ARENA_SIZE_MAX = 1 << 20,
};

static struct uuid topic_id(uint32_t bit)
{
    struct uuid id = {{0}};
    id.bytes[UUID_SIZE - 1] = (uint8_t)(bit % TOPICS);
    return id;
}

static int32_t partition_of(uint32_t bit)
{
    return (int32_t)(bit / TOPICS);
}

/* In any order, some of them twice. */
static struct partition_set set_of(struct rand *r, struct arena *a, uint32_t mask)
{
    struct partition_set set;
    cr_assert(partition_set_init(&set, a, 2 * SPACE));
    const uint32_t start = (uint32_t)rand_below(r, SPACE);
    for (uint32_t i = 0; i < SPACE; i++) {
        const uint32_t bit = (start + i * 7) % SPACE;
        for (uint32_t n = 0; (mask >> bit & 1) != 0 && n < 1 + rand_below(r, 2); n++) {
            const struct uuid id = topic_id(bit);
            partition_set_add(&set, &id, partition_of(bit), (int32_t)(bit + n));
        }
    }
    partition_set_sort(&set);
    return set;
}

static uint32_t mask_of(const struct partition_set *set)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct held_partition *p = &set->items[i];
        const uint32_t bit = (uint32_t)p->partition * TOPICS + p->topic_id.bytes[UUID_SIZE - 1];
        cr_assert(eq(u32, mask >> bit & 1, 0), "each once");
        cr_assert(eq(i32, p->epoch, (int32_t)bit), "the lowest epoch stays");
        mask |= 1U << bit;
    }
    return mask;
}

static void check_pair(struct rand *r, struct arena *a)
{
    const uint32_t left = (uint32_t)rand_u64(r) & (uint32_t)rand_u64(r) & ((1U << SPACE) - 1);
    const uint32_t right = rand_one_in(r, 4) ? left & (uint32_t)rand_u64(r)
                                             : (uint32_t)rand_u64(r) & ((1U << SPACE) - 1);
    const struct partition_set x = set_of(r, a, left);
    const struct partition_set y = set_of(r, a, right);
    struct partition_set both;
    struct partition_set only;
    cr_assert(eq(u32, mask_of(&x), left));
    cr_assert(partition_set_filter(&both, a, &x, &y, true));
    cr_assert(partition_set_filter(&only, a, &x, &y, false));
    cr_assert(eq(u32, mask_of(&both), left & right));
    cr_assert(eq(u32, mask_of(&only), left & ~right));
    cr_assert(eq(int, partition_set_equal(&x, &y), left == right));
    cr_assert(eq(int, partition_set_is_subset(&x, &y), (right & ~left) == 0));
    cr_assert(eq(int, partition_set_overlaps(&x, &y), (left & right) != 0));
    for (uint32_t bit = 0; bit < SPACE; bit++) {
        const struct uuid id = topic_id(bit);
        const bool is_in = partition_set_find(&x, &id, partition_of(bit)) != NULL;
        cr_assert(eq(int, is_in, (int)(left >> bit & 1)));
    }
}

Test(partition_set, is_as_the_model)
{
    struct rand r;
    struct arena a;
    rand_init_seed(&r, 1);
    for (int i = 0; i < ROUNDS; i++) {
        arena_init(&a, ARENA_SIZE_MAX);
        check_pair(&r, &a);
        arena_done(&a);
    }
}

Test(partition_set, counts_topics)
{
    struct rand r;
    struct arena a;
    rand_init_seed(&r, 1);
    arena_init(&a, ARENA_SIZE_MAX);
    const struct partition_set set = set_of(&r, &a, 1 << 0 | 1 << 4 | 1 << 3);
    const struct partition_set none = set_of(&r, &a, 0);
    cr_assert(eq(u32, partition_set_topics_count(&set), 2));
    cr_assert(eq(u32, partition_set_topic_end(&set, 0), 2));
    cr_assert(eq(u32, partition_set_topics_count(&none), 0));
    arena_done(&a);
}

/* Holders are numbers; 0 is nobody. */
static void check_owners(const struct partition_owners *o, const uint32_t *holders)
{
    uint32_t count = 0;
    for (uint32_t bit = 0; bit < SPACE; bit++) {
        const struct uuid id = topic_id(bit);
        const void *holder = partition_owners_find(o, &id, partition_of(bit));
        cr_assert(eq(sz, (size_t)(uintptr_t)holder, holders[bit]));
        count += holders[bit] != 0;
    }
    cr_assert(eq(u32, o->count, count));
}

Test(partition_owners, is_as_the_model)
{
    struct rand r;
    struct arena a;
    struct partition_owners o;
    uint32_t holders[SPACE] = {0};
    rand_init_seed(&r, 2);
    arena_init(&a, ARENA_SIZE_MAX * 16);
    partition_owners_init(&o, 3);
    for (int i = 0; i < ROUNDS * 4; i++) {
        const uint32_t mask = (uint32_t)rand_u64(&r) & (uint32_t)rand_u64(&r) & ((1U << SPACE) - 1);
        const uint32_t holder = 1 + (uint32_t)rand_below(&r, 3);
        const struct partition_set set = set_of(&r, &a, mask);
        const bool is_put = rand_one_in(&r, 2);
        if (is_put) {
            cr_assert(
                eq(int, partition_owners_put(&o, &set, (const void *)(uintptr_t)holder), ERR_OK));
        } else {
            partition_owners_remove(&o, &set, (const void *)(uintptr_t)holder);
        }
        for (uint32_t bit = 0; bit < SPACE; bit++) {
            if ((mask >> bit & 1) != 0 && (is_put || holders[bit] == holder)) {
                holders[bit] = is_put ? holder : 0;
            }
        }
        check_owners(&o, holders);
    }
    partition_owners_done(&o);
    arena_done(&a);
}
