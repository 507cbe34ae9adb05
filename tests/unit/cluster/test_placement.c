/* Placement: stable, within bounds, even; group 0 on shard 0. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cluster/placement.h"
#include "core/rand.h"

Test(placement, group_zero_is_on_shard_zero)
{
    const struct partition_id id = {.topic_id = CONTROLLER_TOPIC_ID};
    for (uint16_t count = 1; count <= SHARDS_MAX; count++) {
        cr_assert(eq(u16, placement_shard(&id, count), 0));
    }
}

Test(placement, partitions_of_a_topic_are_spread_evenly)
{
    struct rand r;
    rand_init_seed(&r, 1);
    for (uint16_t count = 1; count <= 16; count++) {
        uint32_t used[16] = {0};
        const struct uuid topic = rand_uuid(&r);
        for (int32_t i = 0; i < 3 * count; i++) {
            const struct partition_id id = {topic, i};
            const uint16_t shard = placement_shard(&id, count);
            cr_assert(lt(u16, shard, count));
            used[shard]++;
        }
        for (uint16_t i = 0; i < count; i++) {
            cr_assert(eq(u32, used[i], 3));
        }
    }
}

Test(placement, single_partition_topics_are_spread_too)
{
    struct rand r;
    rand_init_seed(&r, 2);
    uint32_t used[4] = {0};
    for (int i = 0; i < 4000; i++) {
        const struct partition_id id = {rand_uuid(&r), 0};
        used[placement_shard(&id, 4)]++;
    }
    for (int i = 0; i < 4; i++) {
        cr_assert(lt(u32, 900, used[i]));
        cr_assert(lt(u32, used[i], 1100));
    }
}

Test(placement, the_answer_never_changes)
{
    /* Data of running clusters depends on it: these may not be edited. */
    const struct partition_id id = {{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, 5};
    uint16_t answers[4];
    for (uint16_t count = 1; count <= 4; count++) {
        answers[count - 1] = placement_shard(&id, count);
    }
    cr_assert(eq(u16, answers[0], 0));
    cr_assert(eq(u16, answers[1], 0));
    cr_assert(eq(u16, answers[2], 1));
    cr_assert(eq(u16, answers[3], 0));
}

/* Where each of a hundred goes, by what is free and what is there already. */
Test(placement, directories_get_partitions_by_the_space_there_is)
{
    static const struct {
        uint64_t free_size[3];
        uint64_t partitions[3];
        uint64_t expected[3]; /* After 100 more. */
    } rows[] = {
        {{1000, 1000, 1000}, {0, 0, 0}, {34, 33, 33}},
        {{2000000, 1000000, 1000000}, {0, 0, 0}, {50, 25, 25}},
        {{0, 0, 0}, {0, 0, 0}, {34, 33, 33}},
        {{1000000, 0, 0}, {0, 0, 0}, {100, 0, 0}},
        {{1000000, 1000000, 1000000}, {100, 0, 50}, {100, 75, 75}},
        {{UINT64_MAX, UINT64_MAX, 1}, {0, 0, 0}, {50, 50, 0}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct placement_directory d[3];
        for (size_t j = 0; j < 3; j++) {
            d[j] = (struct placement_directory){
                .free_size = rows[i].free_size[j],
                .partitions_count = rows[i].partitions[j],
            };
        }
        for (int n = 0; n < 100; n++) {
            d[placement_pick_directory(d, 3)].partitions_count++;
        }
        for (size_t j = 0; j < 3; j++) {
            cr_assert(
                eq(u64, d[j].partitions_count, rows[i].expected[j]), "row %zu directory %zu", i, j);
        }
    }
}
