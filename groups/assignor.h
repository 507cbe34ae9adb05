/* Who is to have which partitions in a group of the new protocol: the server's assignors. Pure:
 * from members, their subscriptions and their targets so far to new targets.
 *
 * uniform: as even as the subscriptions allow: members with equal ones differ by one partition at
 * most, and no member could hand one to another that has at least two fewer. What that does not ask
 * for does not move.
 *
 * range: each topic by itself: its partitions in runs, in the order of the members; topics with the
 * same number of partitions and the same subscribers go alike ("co-partitioned": who has partition
 * 3 of one has it of all). Keeps what the evenness of each topic allows.
 *
 * Rules
 * 1. Every partition of a topic that somebody subscribes to is in exactly one target. Partitions of
 *    topics that nobody subscribes to are in none.
 * 2. The result depends on nothing but the input, and not on the order of the members in it: they
 *    are taken in the order of their instance ids, and after them those without one, by member id.
 *    So a static member that comes back under another member id gets what it had.
 * 3. What members claim and cannot have (no such partition, not subscribed, claimed by another
 *    too) is passed over.
 * 4. Time: (members + partitions + different subscriptions) * log; for uniform with unequal
 *    subscriptions that for each round, of which there are ASSIGNOR_ROUNDS_MAX at most.
 * 5. Memory comes from the arena: some 40 bytes a member, 16 a partition, 12 for each topic of each
 *    different subscription.
 *
 * Shard: any; owns nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

enum {
    ASSIGNOR_ROUNDS_MAX = 32, /* Of uniform; groups of practice need two. */
};

struct assignor_topic {
    struct uuid id;
    uint32_t partitions_count;
};

struct assignor_partition {
    uint32_t topic; /* Index in the group's topics. */
    uint32_t partition;
};

struct assignor_member {
    struct slice id;
    struct slice instance_id;                 /* Null: not static. */
    const uint32_t *topics;                   /* Subscribed, as indexes; ascending, each once. */
    size_t topics_count;                      /* Members that share the array are the cheap case. */
    const struct assignor_partition *current; /* Its target so far, in any order. */
    size_t current_count;

    /* The result, in the arena: ascending by topic, then partition. */
    struct assignor_partition *target;
    size_t target_count;
};

struct assignor_group {
    const struct assignor_topic *topics; /* Ascending by the bytes of id, each once. */
    size_t topics_count;
    struct assignor_member *members;
    size_t members_count;
};

/* Fills the members' targets. ERR_TOO_LARGE: the arena is full; targets are then untouched. */
typedef enum err assignor_fn(struct assignor_group *g, struct arena *a);
assignor_fn assignor_uniform;
assignor_fn assignor_range;

/* By the name that members use: "uniform", "range"; null for the default. NULL if there is none. */
assignor_fn *assignor_find(struct slice name);

/* The index of a topic, or false. */
bool assignor_topic_index(const struct assignor_group *g,
                          const struct uuid *id,
                          uint32_t *ret_index);
