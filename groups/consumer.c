#include "groups/consumer.h"

#include <stdlib.h>

#include "core/assert.h"
#include "groups/consumer_priv.h"
#include "groups/memory.h"

enum {
    /* While something moves, members come soon: each step of a reconciliation waits for one of
     * them. Clients take the interval from each answer. */
    INTERVAL_MOVING_MS = 200,
    /* Heartbeats of one group while something moves. */
    HEARTBEATS_PER_MS_MAX = 2,
};

void consumer_charge(struct consumer *c, uint64_t *charged, uint64_t size)
{
    struct group_memory *memory = c->g->c->env->memory;
    if (size > *charged) {
        group_memory_take(memory, size - *charged);
    } else {
        group_memory_give(memory, *charged - size);
    }
    *charged = size;
}

/* ---- life ---- */

enum err consumer_get(struct group *g, struct consumer **ret_consumer)
{
    if (g->consumer == NULL) {
        struct consumer *c = calloc(1, sizeof(*c));
        if (c == NULL) {
            return ERR_BUSY;
        }
        c->g = g;
        list_init(&c->regexes);
        partition_owners_init(&c->owners, g->c->env->hash_seed);
        consumer_target_init(c);
        consumer_resolve_init(c);
        consumer_hold_init_group(c);
        consumer_charge(c, &c->charged, sizeof(*c));
        g->consumer = c;
    }
    *ret_consumer = g->consumer;
    return ERR_OK;
}

static struct consumer_member *member_at(struct list *link)
{
    return container_of(name_link_at(link), struct consumer_member, by_id);
}

void consumer_free(struct group *g)
{
    struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    consumer_target_done(c);
    consumer_resolve_done(c);
    consumer_hold_done_group(c);
    for (uint32_t i = 0; i < c->members.buckets_count; i++) {
        while (!list_is_empty(&c->members.buckets[i])) {
            member_free(member_at(c->members.buckets[i].next));
        }
    }
    name_table_done(&c->members);
    name_table_done(&c->instances);
    consumer_regexes_done(c);
    consumer_topics_done(c);
    partition_owners_done(&c->owners);
    consumer_charge(c, &c->charged, 0);
    free(c);
    g->consumer = NULL;
}

void consumer_drop_unused(struct consumer *c)
{
    if (!c->has_epoch && !c->has_target && c->members.count == 0 && list_is_empty(&c->regexes)) {
        struct group *g = c->g;
        consumer_free(g);
        group_drop_unused(g);
    }
}

static void activate_member(void *context, struct consumer_member *m)
{
    (void)context;
    m->has_heard = false;
    member_touch(m);
    member_arm_revocation(m);
}

void consumer_activate(struct group *g)
{
    struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    consumer_for_each_member(c, activate_member, NULL);
    consumer_schedule_target(c);
    consumer_on_metadata(g);
}

static void resign_member(void *context, struct consumer_member *m)
{
    (void)context;
    consumer_hold_refuse(m, KAFKA_NOT_COORDINATOR);
    m->told_interval_ms = 0;
    member_cancel_timers(m);
}

void consumer_resign(struct group *g)
{
    struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    consumer_for_each_member(c, resign_member, NULL);
    consumer_target_done(c);
    consumer_target_init(c);
    consumer_resolve_done(c);
    consumer_resolve_init(c);
    consumer_hold_done_group(c);
    consumer_hold_init_group(c);
}

/* ---- members ---- */

static uint64_t hash_of(const struct consumer *c, struct slice name)
{
    return hash_bytes(c->g->c->env->hash_seed, name.data, name.size);
}

struct consumer_member *consumer_find_member(const struct consumer *c, struct slice id)
{
    const uint64_t hash = hash_of(c, id);
    list_for_each (link, name_table_bucket(&c->members, hash)) {
        struct consumer_member *m = member_at(link);
        if (m->by_id.hash == hash && slice_equal(member_id(m), id)) {
            return m;
        }
    }
    return NULL;
}

struct consumer_member *consumer_find_instance(const struct consumer *c, struct slice instance_id)
{
    const uint64_t hash = hash_of(c, instance_id);
    list_for_each (link, name_table_bucket(&c->instances, hash)) {
        struct consumer_member *m =
            container_of(name_link_at(link), struct consumer_member, by_instance);
        if (m->by_instance.hash == hash && slice_equal(member_instance_id(m), instance_id)) {
            return m;
        }
    }
    return NULL;
}

void consumer_for_each_member(const struct consumer *c,
                              void (*visit)(void *context, struct consumer_member *m),
                              void *context)
{
    for (uint32_t i = 0; i < c->members.buckets_count; i++) {
        list_for_each (link, &c->members.buckets[i]) {
            visit(context, member_at(link));
        }
    }
}

/* ---- states and intervals ---- */

struct groups_intervals consumer_intervals(const struct consumer *c)
{
    struct groups_intervals intervals;
    const struct coordinator_env *env = c->g->c->env;
    env->intervals(env->context, group_id(c->g), &intervals);
    return intervals;
}

bool consumer_is_settled(const struct consumer *c, const struct consumer_member *m)
{
    return m->progress.state == MEMBER_STABLE && m->progress.epoch == c->target_epoch;
}

int32_t consumer_heartbeat_interval_ms(const struct consumer *c, const struct consumer_member *m)
{
    const int32_t configured_ms = consumer_intervals(c).heartbeat_interval_ms;
    if (c->epoch == c->target_epoch && consumer_is_settled(c, m)) {
        return configured_ms;
    }
    const int32_t fair_ms = (int32_t)(c->members.count / HEARTBEATS_PER_MS_MAX);
    const int32_t moving_ms = fair_ms > INTERVAL_MOVING_MS ? fair_ms : INTERVAL_MOVING_MS;
    return moving_ms < configured_ms ? moving_ms : configured_ms;
}

static bool is_all_settled(const struct consumer *c)
{
    for (uint32_t i = 0; i < c->members.buckets_count; i++) {
        list_for_each (link, &c->members.buckets[i]) {
            if (!consumer_is_settled(c, member_at(link))) {
                return false;
            }
        }
    }
    return true;
}

const char *consumer_state_name(const struct group *g)
{
    const struct consumer *c = g->consumer;
    if (c->members.count == 0) {
        return "Empty";
    }
    if (group_epoch_is_later(c->epoch, c->target_epoch)) {
        return "Assigning";
    }
    return is_all_settled(c) ? "Stable" : "Reconciling";
}

bool consumer_has_members(const struct group *g)
{
    return g->consumer != NULL && g->consumer->members.count > 0;
}

/* ---- for the other modules ---- */

int64_t consumer_empty_since_ms(const struct group *g)
{
    const struct consumer *c = g->consumer;
    return c->has_epoch && c->members.count == 0 ? c->epoch_ms : -1;
}

enum kafka_error consumer_check_commit(struct group *g,
                                       struct slice member_id,
                                       int32_t member_epoch,
                                       int16_t version)
{
    enum {
        VERSION_WITH_EPOCHS = 9,
    };
    struct consumer *c = g->consumer;
    if (member_epoch < 0 && c->members.count == 0) {
        return KAFKA_NONE; /* An administrator's, or who assigns partitions itself. */
    }
    struct consumer_member *m = consumer_find_member(c, member_id);
    if (m == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    if (member_is_classic(m)) {
        if (member_epoch != m->progress.epoch) {
            return KAFKA_ILLEGAL_GENERATION;
        }
        member_touch(m);
        return KAFKA_NONE;
    }
    if (version < VERSION_WITH_EPOCHS) {
        return KAFKA_UNSUPPORTED_VERSION;
    }
    const bool is_stale = member_epoch < 0 || group_epoch_is_later(member_epoch, m->progress.epoch);
    return is_stale ? KAFKA_STALE_MEMBER_EPOCH : KAFKA_NONE;
}

enum kafka_error consumer_check_commit_partition(const struct group *g,
                                                 struct slice member_id,
                                                 int32_t member_epoch,
                                                 const struct partition_id *id)
{
    const struct consumer_member *m = consumer_find_member(g->consumer, member_id);
    if (m == NULL || member_epoch == m->progress.epoch) {
        return KAFKA_NONE;
    }
    const struct held_partition *held =
        partition_set_find(&m->progress.assigned, &id->topic_id, id->partition);
    if (held == NULL) {
        held = partition_set_find(&m->progress.pending, &id->topic_id, id->partition);
    }
    return held == NULL || group_epoch_is_later(held->epoch, member_epoch)
               ? KAFKA_STALE_MEMBER_EPOCH
               : KAFKA_NONE;
}

enum kafka_error
consumer_check_fetch(const struct group *g, struct slice member_id, int32_t member_epoch)
{
    if (slice_is_null(member_id) && member_epoch < 0) {
        return KAFKA_NONE;
    }
    const struct consumer_member *m = consumer_find_member(g->consumer, member_id);
    if (m == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    if (member_epoch == m->progress.epoch) {
        return KAFKA_NONE;
    }
    return member_is_classic(m) ? KAFKA_ILLEGAL_GENERATION : KAFKA_STALE_MEMBER_EPOCH;
}

bool consumer_is_subscribed(const struct group *g, struct slice topic)
{
    return consumer_topics_find(g->consumer, topic) != NULL;
}

/* ---- for tests ---- */

static uint64_t digest_set(uint64_t seed, const struct partition_set *set)
{
    return hash_bytes(seed, set->items, partition_set_size(set));
}

static uint64_t digest_member(const struct consumer_member *m)
{
    const struct member_progress *p = &m->progress;
    const int64_t numbers[] = {
        p->epoch, p->previous_epoch, p->state, m->has_progress, m->has_target};
    uint64_t digest = hash_bytes(1, m->id, m->id_size);
    if (m->metadata != NULL) {
        digest = hash_bytes(digest, m->metadata->bytes.data, m->metadata->bytes.size);
    }
    digest = hash_bytes(digest, numbers, sizeof(numbers));
    digest = digest_set(digest, &p->assigned);
    digest = digest_set(digest, &p->pending);
    return digest_set(digest, &m->target);
}

uint64_t consumer_digest(const struct group *g)
{
    const struct consumer *c = g->consumer;
    if (c == NULL) {
        return 0;
    }
    const int64_t numbers[] = {
        c->has_epoch, c->epoch, c->topics_hash, c->has_target, c->target_epoch, c->target_ms};
    uint64_t digest = hash_bytes(0, numbers, sizeof(numbers)) + consumer_regexes_digest(c);
    for (uint32_t i = 0; i < c->members.buckets_count; i++) {
        list_for_each (link, &c->members.buckets[i]) {
            digest += digest_member(member_at(link));
        }
    }
    return digest;
}

static void check_held(const struct consumer_member *m, const struct partition_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct held_partition *p = &set->items[i];
        assert(partition_owners_find(&m->consumer->owners, &p->topic_id, p->partition) == m);
        assert(!group_epoch_is_later(p->epoch, m->consumer->target_epoch));
    }
}

static void check_member(const struct consumer *c, const struct consumer_member *m)
{
    const struct member_progress *p = &m->progress;
    assert(m->consumer == c);
    assert(!group_epoch_is_later(p->epoch, c->target_epoch));
    assert((p->state == MEMBER_UNREVOKED) == (p->pending.count > 0));
    check_held(m, &p->assigned);
    check_held(m, &p->pending);
    /* Of a classic member the timer is for its next call. */
    assert(p->state == MEMBER_UNREVOKED || member_is_classic(m) ||
           !timer_is_armed(&m->revocation.timer));
}

void consumer_check(const struct group *g)
{
    const struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    uint32_t members_count = 0;
    uint32_t classic_count = 0;
    uint64_t held_count = 0;
    assert(!group_epoch_is_later(c->target_epoch, c->epoch));
    for (uint32_t i = 0; i < c->members.buckets_count; i++) {
        list_for_each (link, &c->members.buckets[i]) {
            const struct consumer_member *m = member_at(link);
            check_member(c, m);
            members_count++;
            classic_count += member_is_classic(m);
            held_count += (uint64_t)m->progress.assigned.count + m->progress.pending.count;
        }
    }
    assert_cmp(members_count, ==, c->members.count);
    assert_cmp(classic_count, ==, c->classic_count);
    assert_cmp(held_count, ==, c->owners.count);
}
