/* Sets of partitions, each with the epoch in which its holder got it: sorted arrays without
 * duplicates. All sets of the new consumer protocol (owned, to be given back, targets) are these.
 *
 * The epoch is no part of the identity: sets are compared, cut and searched by partition alone.
 *
 * Shard: the owner's.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/ids.h"

struct held_partition {
    struct uuid topic_id;
    int32_t partition;
    int32_t epoch;
};

static_assert(sizeof(struct held_partition) == 24, "hashed as bytes: no padding");

struct partition_set {
    struct held_partition *items; /* The arena's, or malloc's (partition_set_copy). */
    uint32_t count;
};

/* For qsort. */
int held_partition_compare(const void *a, const void *b);

/* Room for count items in the arena; false at its limit. The set is empty. */
[[nodiscard]] bool partition_set_init(struct partition_set *set, struct arena *a, size_t count);
/* Behind all others, within the room; partition_set_sort follows. */
static inline void partition_set_add(struct partition_set *set,
                                     const struct uuid *topic_id,
                                     int32_t partition,
                                     int32_t epoch)
{
    set->items[set->count++] = (struct held_partition){*topic_id, partition, epoch};
}
/* Sorts, and drops duplicates: that of the lowest epoch stays. */
void partition_set_sort(struct partition_set *set);

/* NULL if it is not in it. */
const struct held_partition *
partition_set_find(const struct partition_set *set, const struct uuid *topic_id, int32_t partition);
bool partition_set_equal(const struct partition_set *a, const struct partition_set *b);
bool partition_set_is_subset(const struct partition_set *of, const struct partition_set *set);
bool partition_set_overlaps(const struct partition_set *a, const struct partition_set *b);

/* Those of from that are in `in` (is_in), or that are not; with from's epochs, in the arena. */
[[nodiscard]] bool partition_set_filter(struct partition_set *ret_set,
                                        struct arena *a,
                                        const struct partition_set *from,
                                        const struct partition_set *in,
                                        bool is_in);

/* All of both, with the lower epoch of what is in both; in the arena. */
[[nodiscard]] bool partition_set_unite(struct partition_set *ret_set,
                                       struct arena *a,
                                       const struct partition_set *left,
                                       const struct partition_set *right);

/* The end of the run of items that have the topic of items[start]. */
uint32_t partition_set_topic_end(const struct partition_set *set, uint32_t start);
uint32_t partition_set_topics_count(const struct partition_set *set);

/* malloc's memory, partition_set_done ends it. ERR_BUSY. */
enum err partition_set_copy(struct partition_set *ret_set, const struct partition_set *from);
void partition_set_done(struct partition_set *set);

static inline size_t partition_set_size(const struct partition_set *set)
{
    return set->count * sizeof(set->items[0]);
}
