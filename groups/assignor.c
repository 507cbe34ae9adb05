#include "groups/assignor.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "groups/assignor_priv.h"

assignor_fn *assignor_find(struct slice name)
{
    if (slice_is_null(name) || slice_equal_string(name, "uniform")) {
        return assignor_uniform;
    }
    return slice_equal_string(name, "range") ? assignor_range : NULL;
}

bool assignor_topic_index(const struct assignor_group *g,
                          const struct uuid *id,
                          uint32_t *ret_index)
{
    size_t low = 0;
    size_t high = g->topics_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = memcmp(&g->topics[middle].id, id, sizeof(*id));
        if (order == 0) {
            *ret_index = (uint32_t)middle;
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* ---- members in order, and those with equal subscriptions ---- */

static int compare_members(const void *a, const void *b)
{
    const struct assignor_member *x = *(struct assignor_member *const *)a;
    const struct assignor_member *y = *(struct assignor_member *const *)b;
    const bool x_is_static = !slice_is_null(x->instance_id);
    const bool y_is_static = !slice_is_null(y->instance_id);
    if (x_is_static != y_is_static) {
        return x_is_static ? -1 : 1;
    }
    const int order = x_is_static ? slice_compare(x->instance_id, y->instance_id) : 0;
    return order != 0 ? order : slice_compare(x->id, y->id);
}

static int compare_lists(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count)
{
    if (a_count != b_count) {
        return a_count > b_count ? 1 : -1;
    }
    if (a == b) {
        return 0;
    }
    for (size_t i = 0; i < a_count; i++) {
        if (a[i] != b[i]) {
            return a[i] > b[i] ? 1 : -1;
        }
    }
    return 0;
}

static int compare_subscriptions(const struct assignor_member *a, const struct assignor_member *b)
{
    return compare_lists(a->topics, a->topics_count, b->topics, b->topics_count);
}

/* Of places in the order of members. */
static int compare_places(const void *a, const void *b, void *context)
{
    const struct assignor_plan *p = context;
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    const int order = compare_subscriptions(p->members[x], p->members[y]);
    return order != 0 ? order : (x > y) - (x < y);
}

static enum err order_members(struct assignor_plan *p)
{
    const size_t count = p->members_count;
    p->members = arena_alloc_array(p->arena, count, sizeof(struct assignor_member *));
    p->class_members = arena_alloc_array(p->arena, count, sizeof(uint32_t));
    p->class_first = arena_alloc_array(p->arena, count + 1, sizeof(uint32_t));
    if (p->members == NULL || p->class_members == NULL || p->class_first == NULL) {
        return ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < count; i++) {
        p->members[i] = &p->group->members[i];
        p->class_members[i] = (uint32_t)i;
    }
    qsort(p->members, count, sizeof(struct assignor_member *), compare_members);
    qsort_r(p->class_members, count, sizeof(uint32_t), compare_places, p);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || compare_subscriptions(p->members[p->class_members[i - 1]],
                                            p->members[p->class_members[i]]) != 0) {
            p->class_first[p->classes_count++] = i;
        }
    }
    p->class_first[p->classes_count] = (uint32_t)count;
    return ERR_OK;
}

/* A member that stands for its class. */
static const struct assignor_member *member_of_class(const struct assignor_plan *p, uint32_t class)
{
    return p->members[p->class_members[p->class_first[class]]];
}

/* ---- pools ---- */

/* Topics with the classes that subscribe to them: those of topic t are classes[first[t]..]. */
struct subscribers {
    uint32_t *first; /* Per topic, and one more. */
    uint32_t *classes;
};

static enum err list_subscribers(struct assignor_plan *p, struct subscribers *s)
{
    const size_t topics_count = p->group->topics_count;
    size_t total = 0;
    for (uint32_t c = 0; c < p->classes_count; c++) {
        total += member_of_class(p, c)->topics_count;
    }
    s->first = arena_alloc_array(p->arena, topics_count + 1, sizeof(uint32_t));
    s->classes = arena_alloc_array(p->arena, total, sizeof(uint32_t));
    if (s->first == NULL || s->classes == NULL || total > UINT32_MAX) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t c = 0; c < p->classes_count; c++) {
        const struct assignor_member *m = member_of_class(p, c);
        for (size_t i = 0; i < m->topics_count; i++) {
            assert_cmp(m->topics[i], <, topics_count);
            assert(i == 0 || m->topics[i - 1] < m->topics[i]);
            s->first[m->topics[i] + 1]++;
        }
    }
    for (size_t t = 0; t < topics_count; t++) {
        s->first[t + 1] += s->first[t];
    }
    /* Filled from the back, so that first ends up where each topic's classes begin. */
    for (uint32_t c = p->classes_count; c-- > 0;) {
        const struct assignor_member *m = member_of_class(p, c);
        for (size_t i = 0; i < m->topics_count; i++) {
            s->classes[--s->first[m->topics[i] + 1]] = c;
        }
    }
    memmove(s->first, s->first + 1, topics_count * sizeof(uint32_t));
    s->first[topics_count] = (uint32_t)total;
    return ERR_OK;
}

static int compare_topic_subscribers(const void *a, const void *b, void *context)
{
    const struct subscribers *s = context;
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    const int order = compare_lists(s->classes + s->first[x],
                                    s->first[x + 1] - s->first[x],
                                    s->classes + s->first[y],
                                    s->first[y + 1] - s->first[y]);
    return order != 0 ? order : (x > y) - (x < y);
}

static int compare_pools(const void *a, const void *b)
{
    const struct assignor_pool *x = a;
    const struct assignor_pool *y = b;
    if (x->members_count != y->members_count) {
        return x->members_count > y->members_count ? 1 : -1;
    }
    return (x->topics[0] > y->topics[0]) - (x->topics[0] < y->topics[0]);
}

static void add_to_pool(struct assignor_plan *p, const struct subscribers *s, const uint32_t *topic)
{
    const uint32_t *classes = s->classes + s->first[*topic];
    const uint32_t classes_count = s->first[*topic + 1] - s->first[*topic];
    struct assignor_pool *pool = &p->pools[p->pools_count - 1];
    if (p->pools_count == 0 ||
        compare_lists(pool->classes, pool->classes_count, classes, classes_count) != 0) {
        pool = &p->pools[p->pools_count++];
        *pool = (struct assignor_pool){
            .topics = topic, .classes = classes, .classes_count = classes_count};
        for (uint32_t i = 0; i < classes_count; i++) {
            pool->members_count += p->class_first[classes[i] + 1] - p->class_first[classes[i]];
        }
    }
    pool->topics_count++;
    pool->partitions_count += p->group->topics[*topic].partitions_count;
}

static enum err make_pools(struct assignor_plan *p)
{
    struct subscribers s = {0};
    const enum err e = list_subscribers(p, &s);
    if (e != ERR_OK) {
        return e;
    }
    const size_t topics_count = p->group->topics_count;
    uint32_t *topics = arena_alloc_array(p->arena, topics_count, sizeof(uint32_t));
    p->pools = arena_alloc_array(p->arena, topics_count, sizeof(struct assignor_pool));
    if (topics == NULL || p->pools == NULL) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t t = 0; t < topics_count; t++) {
        topics[t] = t;
    }
    qsort_r(topics, topics_count, sizeof(uint32_t), compare_topic_subscribers, &s);
    for (size_t i = 0; i < topics_count; i++) {
        if (s.first[topics[i] + 1] > s.first[topics[i]]) { /* Somebody subscribes. */
            add_to_pool(p, &s, &topics[i]);
        }
    }
    qsort(p->pools, p->pools_count, sizeof(struct assignor_pool), compare_pools);
    return ERR_OK;
}

/* ---- owners ---- */

static bool is_subscribed(const struct assignor_member *m, uint32_t topic)
{
    return m->topics_count > 0 &&
           bsearch(&topic, m->topics, m->topics_count, sizeof(uint32_t), compare_u32) != NULL;
}

/* Of two that claim the same partition, the first in order has it. */
static void claim(struct assignor_plan *p)
{
    for (uint32_t i = 0; i < p->members_count; i++) {
        const struct assignor_member *m = p->members[i];
        for (size_t k = 0; k < m->current_count; k++) {
            const struct assignor_partition *c = &m->current[k];
            if (c->topic >= p->group->topics_count ||
                c->partition >= p->group->topics[c->topic].partitions_count ||
                !is_subscribed(m, c->topic)) {
                continue;
            }
            uint32_t *owner = &p->owners[p->first[c->topic] + c->partition];
            *owner = *owner == ASSIGNOR_NOBODY ? i : *owner;
        }
    }
}

static enum err make_owners(struct assignor_plan *p)
{
    const size_t topics_count = p->group->topics_count;
    uint64_t total = 0;
    p->first = arena_alloc_array(p->arena, topics_count + 1, sizeof(uint32_t));
    if (p->first == NULL) {
        return ERR_TOO_LARGE;
    }
    for (size_t t = 0; t < topics_count; t++) {
        p->first[t] = (uint32_t)total;
        total += p->group->topics[t].partitions_count;
        if (total >= ASSIGNOR_NOBODY) {
            return ERR_TOO_LARGE;
        }
    }
    p->first[topics_count] = (uint32_t)total;
    p->owners = arena_alloc_array(p->arena, total, sizeof(uint32_t));
    if (p->owners == NULL) {
        return ERR_TOO_LARGE;
    }
    memset(p->owners, 0xff, total * sizeof(uint32_t));
    claim(p);
    return ERR_OK;
}

enum err assignor_plan_init(struct assignor_plan *p, struct assignor_group *g, struct arena *a)
{
    *p = (struct assignor_plan){
        .group = g,
        .arena = a,
        .members_count = (uint32_t)g->members_count,
    };
    if (g->members_count >= ASSIGNOR_NOBODY || g->topics_count >= ASSIGNOR_NOBODY) {
        return ERR_TOO_LARGE;
    }
    p->shares = arena_alloc_array(a, g->members_count, sizeof(struct assignor_share));
    p->pool_members = arena_alloc_array(a, g->members_count, sizeof(uint32_t));
    p->scratch = arena_alloc_array(a, g->members_count, sizeof(uint32_t));
    if (p->shares == NULL || p->pool_members == NULL || p->scratch == NULL) {
        return ERR_TOO_LARGE;
    }
    enum err e = order_members(p);
    e = e != ERR_OK ? e : make_pools(p);
    return e != ERR_OK ? e : make_owners(p);
}

enum err assignor_plan_finish(struct assignor_plan *p)
{
    const uint32_t total = p->first[p->group->topics_count];
    struct assignor_partition *all = arena_alloc_array(p->arena, total, sizeof(*all));
    uint32_t *counts = p->scratch;
    if (all == NULL) {
        return ERR_TOO_LARGE;
    }
    memset(counts, 0, p->members_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < total; i++) {
        if (p->owners[i] != ASSIGNOR_NOBODY) {
            counts[p->owners[i]]++;
        }
    }
    for (uint32_t i = 0; i < p->members_count; i++) {
        p->members[i]->target = all;
        p->members[i]->target_count = 0;
        all += counts[i];
    }
    for (uint32_t t = 0; t < p->group->topics_count; t++) {
        for (uint32_t i = p->first[t]; i < p->first[t + 1]; i++) {
            if (p->owners[i] != ASSIGNOR_NOBODY) {
                struct assignor_member *m = p->members[p->owners[i]];
                m->target[m->target_count++] = (struct assignor_partition){t, i - p->first[t]};
            }
        }
    }
    return ERR_OK;
}

/* ---- shares ---- */

/* Puts the members of a pool in order; by marks if they are many of all, which is faster. */
static void sort_pool_members(struct assignor_plan *p, uint32_t count)
{
    if (count < p->members_count / 16) {
        qsort(p->pool_members, count, sizeof(uint32_t), compare_u32);
        return;
    }
    memset(p->scratch, 0, p->members_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        p->scratch[p->pool_members[i]] = 1;
    }
    uint32_t sorted = 0;
    for (uint32_t i = 0; i < p->members_count; i++) {
        if (p->scratch[i] != 0) {
            p->pool_members[sorted++] = i;
        }
    }
}

void assignor_plan_open(struct assignor_plan *p, const struct assignor_pool *pool)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < pool->classes_count; c++) {
        const uint32_t class = pool->classes[c];
        for (uint32_t i = p->class_first[class]; i < p->class_first[class + 1]; i++) {
            p->pool_members[count++] = p->class_members[i];
        }
    }
    assert_cmp(count, ==, pool->members_count);
    if (pool->classes_count > 1) {
        sort_pool_members(p, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        p->shares[p->pool_members[i]] = (struct assignor_share){0};
    }
}

/* Like water: the height to which total fills up the lowest, and what is left then. */
static uint32_t
find_level(const uint32_t *bases, uint32_t count, uint32_t total, uint32_t *ret_rest)
{
    uint64_t sum = total;
    for (uint32_t k = 1; k <= count; k++) {
        sum += bases[k - 1];
        const uint64_t level = sum / k;
        if (k == count || bases[k] > level) {
            *ret_rest = (uint32_t)(sum % k);
            return (uint32_t)level;
        }
    }
    *ret_rest = total;
    return 0;
}

void assignor_plan_level(struct assignor_plan *p, const struct assignor_pool *pool, uint32_t total)
{
    const uint32_t count = pool->members_count;
    for (uint32_t i = 0; i < count; i++) {
        p->scratch[i] = p->shares[p->pool_members[i]].base;
    }
    qsort(p->scratch, count, sizeof(uint32_t), compare_u32);
    uint32_t rest = 0;
    const uint32_t level = find_level(p->scratch, count, total, &rest);
    for (uint32_t i = 0; i < count; i++) {
        struct assignor_share *s = &p->shares[p->pool_members[i]];
        s->wanted = s->base < level ? level - s->base : 0;
        if (rest > 0 && s->base <= level && s->held > s->wanted) {
            s->wanted++;
            rest--;
        }
    }
    for (uint32_t i = 0; i < count && rest > 0; i++) {
        struct assignor_share *s = &p->shares[p->pool_members[i]];
        if (s->base + s->wanted == level) { /* Not one that got one above. */
            s->wanted++;
            rest--;
        }
    }
    assert_cmp(rest, ==, 0);
}
