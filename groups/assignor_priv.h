/* What the assignors have in common: the group put in order, owners per partition, and how to share
 * a number of partitions among members.
 *
 * A pool is all topics that have the same subscribers: among those any partition may go to anyone.
 */
#pragma once

#include "groups/assignor.h"

#define ASSIGNOR_NOBODY UINT32_MAX /* Not an enum: those are signed. */

struct assignor_pool {
    const uint32_t *topics; /* Ascending. */
    uint32_t topics_count;
    const uint32_t *classes; /* Of members with equal subscriptions; ascending. */
    uint32_t classes_count;
    uint32_t members_count;
    uint32_t partitions_count;
};

/* One member's part in a pool, while that is shared out. */
struct assignor_share {
    uint32_t base;   /* What it has elsewhere. */
    uint32_t held;   /* What it has of the pool. */
    uint32_t wanted; /* What it is to have of the pool. */
    uint32_t seen;   /* Scratch of those who walk its partitions. */
};

struct assignor_plan {
    struct assignor_group *group;
    struct arena *arena;
    struct assignor_member **members; /* In order; a member's place here stands for it below. */
    uint32_t members_count;
    uint32_t *first;  /* Per topic, and one more: where its partitions begin in owners. */
    uint32_t *owners; /* Per partition. */

    uint32_t *class_first;   /* Per class, and one more: where its members begin. */
    uint32_t *class_members; /* Ascending within their class. */
    uint32_t classes_count;
    struct assignor_pool *pools; /* Fewest members first. */
    uint32_t pools_count;

    struct assignor_share *shares; /* Per member. */
    uint32_t *pool_members;        /* Of the pool that is being shared out; ascending. */
    uint32_t *scratch;             /* Per member. */
};

/* Orders everything, and makes members owners of what they claim rightly. */
enum err assignor_plan_init(struct assignor_plan *p, struct assignor_group *g, struct arena *a);

/* Fills pool_members, and sets their shares to zero. */
void assignor_plan_open(struct assignor_plan *p, const struct assignor_pool *pool);

/* Sets what each of pool_members is to have of total, so that base + wanted is as level as can be.
 * Where one more or less is the same, who holds more keeps it. */
void assignor_plan_level(struct assignor_plan *p, const struct assignor_pool *pool, uint32_t total);

/* Owners become targets. */
enum err assignor_plan_finish(struct assignor_plan *p);
