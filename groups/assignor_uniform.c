/* Pools share partitions out one after the other, in rounds until none moves anything: each round
 * makes the sum of the squares of what members have smaller, so there is an end. In a group where
 * all subscribe alike there is one pool, and the first round is the last but one. */
#include "core/assert.h"
#include "groups/assignor.h"
#include "groups/assignor_priv.h"

struct uniform {
    struct assignor_plan plan;
    uint32_t *loads; /* Per member: what it has of all pools. */
};

/* The partitions of a pool, one after the other; their owners may be changed meanwhile. */
struct walk {
    const struct assignor_plan *plan;
    const struct assignor_pool *pool;
    uint32_t topic; /* In the pool. */
    uint32_t at;    /* In owners. */
};

static struct walk walk_begin(const struct assignor_plan *p, const struct assignor_pool *pool)
{
    return (struct walk){.plan = p, .pool = pool, .at = p->first[pool->topics[0]]};
}

/* NULL at the end. */
static uint32_t *walk_next(struct walk *w)
{
    while (w->at == w->plan->first[w->pool->topics[w->topic] + 1]) {
        if (++w->topic == w->pool->topics_count) {
            w->topic--; /* Stays at the end. */
            return NULL;
        }
        w->at = w->plan->first[w->pool->topics[w->topic]];
    }
    return &w->plan->owners[w->at++];
}

/* Counts what members have of the pool; returns how many partitions nobody has. */
static uint32_t count_held(struct assignor_plan *p, const struct assignor_pool *pool)
{
    uint32_t free_count = 0;
    struct walk w = walk_begin(p, pool);
    for (uint32_t *owner; (owner = walk_next(&w)) != NULL;) {
        if (*owner == ASSIGNOR_NOBODY) {
            free_count++;
        } else {
            p->shares[*owner].held++;
        }
    }
    return free_count;
}

/* Takes from those who hold too much. Spread over all that they hold, so that whoever gets it has
 * something of each topic. */
static void release(struct assignor_plan *p, const struct assignor_pool *pool)
{
    struct walk w = walk_begin(p, pool);
    for (uint32_t *owner; (owner = walk_next(&w)) != NULL;) {
        if (*owner == ASSIGNOR_NOBODY) {
            continue;
        }
        struct assignor_share *s = &p->shares[*owner];
        if (s->held <= s->wanted) {
            continue;
        }
        const uint64_t surplus = s->held - s->wanted;
        const uint64_t before = s->seen * surplus / s->held;
        s->seen++;
        if (s->seen * surplus / s->held > before) {
            *owner = ASSIGNOR_NOBODY;
        }
    }
}

/* Gives what nobody has, one by one in turn, to those who are to have more. */
static void deal(struct uniform *u, const struct assignor_pool *pool)
{
    struct assignor_plan *p = &u->plan;
    uint32_t *in_turn = p->scratch;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->members_count; i++) {
        const uint32_t member = p->pool_members[i];
        struct assignor_share *s = &p->shares[member];
        const bool was_released = s->held > s->wanted;
        s->held = was_released ? s->wanted : s->held;
        u->loads[member] = s->base + s->held;
        if (s->held < s->wanted) {
            in_turn[count++] = member;
        }
    }
    uint32_t turn = 0;
    uint32_t kept = 0; /* Of this round's, those who want still more. */
    struct walk w = walk_begin(p, pool);
    for (uint32_t *owner; count > 0 && (owner = walk_next(&w)) != NULL;) {
        if (*owner != ASSIGNOR_NOBODY) {
            continue;
        }
        const uint32_t member = in_turn[turn++];
        *owner = member;
        u->loads[member]++;
        if (++p->shares[member].held < p->shares[member].wanted) {
            in_turn[kept++] = member;
        }
        if (turn == count) {
            count = kept;
            turn = 0;
            kept = 0;
        }
    }
    assert_cmp(count, ==, 0);
}

/* Gives away what nobody has, and lets everybody keep what he has. */
static void place(struct uniform *u, const struct assignor_pool *pool)
{
    struct assignor_plan *p = &u->plan;
    assignor_plan_open(p, pool);
    const uint32_t free_count = count_held(p, pool);
    if (free_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < pool->members_count; i++) {
        struct assignor_share *s = &p->shares[p->pool_members[i]];
        *s = (struct assignor_share){.base = u->loads[p->pool_members[i]]};
    }
    assignor_plan_level(p, pool, free_count);
    deal(u, pool);
}

/* True if something moved. */
static bool level(struct uniform *u, const struct assignor_pool *pool)
{
    struct assignor_plan *p = &u->plan;
    assignor_plan_open(p, pool);
    const uint32_t free_count = count_held(p, pool);
    assert_cmp(free_count, ==, 0);
    uint32_t load_min = UINT32_MAX;
    uint32_t load_max = 0; /* Of those who could give. */
    for (uint32_t i = 0; i < pool->members_count; i++) {
        struct assignor_share *s = &p->shares[p->pool_members[i]];
        const uint32_t load = u->loads[p->pool_members[i]];
        s->base = load - s->held;
        load_min = load < load_min ? load : load_min;
        load_max = s->held > 0 && load > load_max ? load : load_max;
    }
    if (load_max <= load_min + 1) {
        return false;
    }
    assignor_plan_level(p, pool, pool->partitions_count);
    release(p, pool);
    deal(u, pool);
    return true;
}

enum err assignor_uniform(struct assignor_group *g, struct arena *a)
{
    struct uniform u;
    struct assignor_plan *p = &u.plan;
    const enum err e = assignor_plan_init(p, g, a);
    u.loads = arena_alloc_array(a, g->members_count, sizeof(uint32_t));
    if (e != ERR_OK || u.loads == NULL) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < p->first[g->topics_count]; i++) {
        if (p->owners[i] != ASSIGNOR_NOBODY) {
            u.loads[p->owners[i]]++;
        }
    }
    for (uint32_t i = 0; i < p->pools_count; i++) {
        place(&u, &p->pools[i]);
    }
    bool has_moved = true;
    for (int round = 0; has_moved && round < ASSIGNOR_ROUNDS_MAX; round++) {
        has_moved = false;
        for (uint32_t i = 0; i < p->pools_count; i++) {
            has_moved |= level(&u, &p->pools[i]);
        }
    }
    return assignor_plan_finish(p);
}
