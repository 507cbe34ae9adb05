/* Topics of a pool with equally many partitions are shared out once, and all alike. */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "groups/assignor.h"
#include "groups/assignor_priv.h"

/* Who has each partition so far: whoever has it of the first of the topics in which anybody has. */
static void
find_holders(struct assignor_plan *p, const uint32_t *topics, uint32_t count, uint32_t *holders)
{
    const uint32_t partitions_count = p->group->topics[topics[0]].partitions_count;
    memset(holders, 0xff, partitions_count * sizeof(uint32_t));
    for (uint32_t t = 0; t < count; t++) {
        const uint32_t *owners = p->owners + p->first[topics[t]];
        for (uint32_t i = 0; i < partitions_count; i++) {
            holders[i] = holders[i] == ASSIGNOR_NOBODY ? owners[i] : holders[i];
        }
    }
}

/* Everybody keeps the first of his that he is to have; what is left goes out in runs. */
static void share_out(struct assignor_plan *p,
                      const struct assignor_pool *pool,
                      uint32_t *holders,
                      uint32_t partitions_count)
{
    assignor_plan_open(p, pool);
    for (uint32_t i = 0; i < partitions_count; i++) {
        if (holders[i] != ASSIGNOR_NOBODY) {
            p->shares[holders[i]].held++;
        }
    }
    assignor_plan_level(p, pool, partitions_count);
    for (uint32_t i = 0; i < partitions_count; i++) {
        if (holders[i] == ASSIGNOR_NOBODY) {
            continue;
        }
        struct assignor_share *s = &p->shares[holders[i]];
        if (s->seen == s->wanted) {
            holders[i] = ASSIGNOR_NOBODY;
        } else {
            s->seen++;
        }
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < partitions_count; i++) {
        if (holders[i] != ASSIGNOR_NOBODY) {
            continue;
        }
        while (p->shares[p->pool_members[next]].seen == p->shares[p->pool_members[next]].wanted) {
            next++;
            assert_cmp(next, <, pool->members_count);
        }
        holders[i] = p->pool_members[next];
        p->shares[holders[i]].seen++;
    }
}

static int compare_topics(const void *a, const void *b, void *context)
{
    const struct assignor_plan *p = context;
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    const uint32_t x_count = p->group->topics[x].partitions_count;
    const uint32_t y_count = p->group->topics[y].partitions_count;
    if (x_count != y_count) {
        return x_count > y_count ? 1 : -1;
    }
    return (x > y) - (x < y);
}

static enum err assign_pool(struct assignor_plan *p, const struct assignor_pool *pool)
{
    uint32_t *topics = arena_alloc_array(p->arena, pool->topics_count, sizeof(uint32_t));
    if (topics == NULL) {
        return ERR_TOO_LARGE;
    }
    memcpy(topics, pool->topics, pool->topics_count * sizeof(uint32_t));
    qsort_r(topics, pool->topics_count, sizeof(uint32_t), compare_topics, p);
    const uint32_t largest = topics[pool->topics_count - 1];
    uint32_t *holders =
        arena_alloc_array(p->arena, p->group->topics[largest].partitions_count, sizeof(uint32_t));
    if (holders == NULL) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t from = 0, to; from < pool->topics_count; from = to) {
        const uint32_t partitions_count = p->group->topics[topics[from]].partitions_count;
        for (to = from + 1; to < pool->topics_count; to++) {
            if (p->group->topics[topics[to]].partitions_count != partitions_count) {
                break;
            }
        }
        find_holders(p, topics + from, to - from, holders);
        share_out(p, pool, holders, partitions_count);
        for (uint32_t t = from; t < to; t++) {
            memcpy(p->owners + p->first[topics[t]], holders, partitions_count * sizeof(uint32_t));
        }
    }
    return ERR_OK;
}

enum err assignor_range(struct assignor_group *g, struct arena *a)
{
    struct assignor_plan p;
    enum err e = assignor_plan_init(&p, g, a);
    for (uint32_t i = 0; e == ERR_OK && i < p.pools_count; i++) {
        e = assign_pool(&p, &p.pools[i]);
    }
    return e == ERR_OK ? assignor_plan_finish(&p) : e;
}
