#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "groups/classic.h"
#include "groups/classic_priv.h"
#include "groups/consumer_priv.h"
#include "kafka/proto/consumer_protocol_subscription.h"

enum {
    TEXT_SIZE_MAX = 512,
    SAID_NAMES_MAX = 500000, /* Of all members together: they are sorted in one turn. */
};

#define PROTOCOL_TYPE "consumer"

/* ---- from the classic protocol ---- */

/* A classic group on its way to this protocol. */
struct upgrade {
    struct consumer_beat *b;
    void (*then)(struct consumer_beat *b);
};

static const char *why_no_upgrade(const struct group *g)
{
    const struct groups_settings *settings = g->c->env->settings;
    if (settings->migration != GROUPS_MIGRATION_BIDIRECTIONAL &&
        settings->migration != GROUPS_MIGRATION_UPGRADE) {
        return "online upgrade is disabled";
    }
    if (!slice_equal_string(classic_protocol_type(g), PROTOCOL_TYPE)) {
        return "the group does not use the consumer embedded protocol";
    }
    if (g->classic->members_count >= (uint32_t)settings->consumer_members_max) {
        return "its size exceeds the consumer group maximum size";
    }
    return NULL;
}

static void refuse_upgrade(struct consumer_beat *b, const char *why)
{
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "Cannot upgrade classic group %.*s to consumer group because %s.",
                   slice_shown(group_id(b->g), SLICE_SHOWN_MAX),
                   b->g->id,
                   why);
    group_refuse(b->g->c, b->call, KAFKA_GROUP_ID_NOT_FOUND, text);
}

/* What becomes of a member; arrays in the arena. */
struct upgraded {
    const struct classic_member *from;
    size_t position; /* In the group. */
    struct consumer_group_member_metadata_value v;
    struct member_progress progress;
    struct partition_set claims; /* What it said it has when it joined last. */
    int32_t claims_generation;   /* In which it had that; -1 = it did not say. */
};

/* What it says of itself, as a member of this protocol would; adds to how many topics were named.
 */
static enum err convert_metadata(struct upgraded *to, struct arena *a, size_t *names_count)
{
    const struct classic_member *m = to->from;
    struct consumer_group_member_metadata_value *v = &to->v;
    struct consumer_protocol_subscription subscription;
    struct consumer_group_member_metadata_value_classic *classic = arena_alloc(a, sizeof(*classic));
    const struct classic_protocols *protocols = m->protocols;
    if (classic == NULL) {
        return ERR_TOO_LARGE;
    }
    enum err e = protocols->count == 0
                     ? ERR_CORRUPT
                     : consumer_read_subscription(protocols->items[0].metadata, a, &subscription);
    if (e == ERR_OK) {
        *names_count += subscription.topics_count;
        e = *names_count > SAID_NAMES_MAX
                ? ERR_CORRUPT
                : consumer_read_owned(m->classic->g->c->env, &subscription, a, &to->claims);
    }
    if (e != ERR_OK) {
        return e;
    }
    to->claims_generation = subscription.generation_id;
    classic->session_timeout_ms = m->session_timeout_ms;
    classic->supported_protocols_count = protocols->count;
    classic->supported_protocols =
        arena_alloc_array(a, protocols->count, sizeof(*classic->supported_protocols));
    if (classic->supported_protocols == NULL) {
        return ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < protocols->count; i++) {
        classic->supported_protocols[i].name = protocols->items[i].name;
        classic->supported_protocols[i].metadata = protocols->items[i].metadata;
    }
    consumer_group_member_metadata_value_init(v);
    v->instance_id = m->identity->instance_id;
    v->client_id = m->identity->client_id;
    v->client_host = m->identity->client_host;
    v->rebalance_timeout_ms = m->rebalance_timeout_ms;
    v->server_assignor = (struct slice){0};
    v->classic_member_metadata = classic;
    return consumer_set_subscription(v, &subscription, a);
}

/* What it was given that nobody else was: one owner per partition, whatever a leader gave. */
static enum err convert_assignment(const struct classic_member *m,
                                   struct arena *a,
                                   struct partition_owners *given,
                                   struct partition_set *ret_set)
{
    const struct classic *c = m->classic;
    const struct coordinator_env *env = c->g->c->env;
    const struct group_metadata_value_member *durable =
        classic_record_member(c, m->identity->member_id);
    const struct slice bytes = durable == NULL ? (struct slice){0} : durable->assignment;
    struct partition_set all;
    const enum err e = consumer_read_assignment(env, bytes, a, &all);
    if (e != ERR_OK) {
        return e;
    }
    if (!partition_set_init(ret_set, a, all.count)) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < all.count; i++) {
        const struct held_partition *p = &all.items[i];
        if (partition_owners_find(given, &p->topic_id, p->partition) == NULL) {
            partition_set_add(ret_set, &p->topic_id, p->partition, c->generation);
        } else {
            reached(env, "consumer_upgrade_two_owners");
        }
    }
    return partition_owners_put(given, ret_set, m);
}

static enum err
convert(struct upgraded *to, struct arena *a, struct partition_owners *given, size_t *names_count)
{
    to->progress = (struct member_progress){
        .epoch = to->from->classic->generation,
        .previous_epoch = -1,
        .state = MEMBER_STABLE,
    };
    const enum err e = convert_metadata(to, a, names_count);
    return e == ERR_OK ? convert_assignment(to->from, a, given, &to->progress.assigned) : e;
}

/* A leader holds back what a member has and is to lose, until that says that it has it no more: it
 * has to give back what it claims and nobody was given. A claim may be stale: then its next join
 * says so. Who claims it again in each join keeps it until its deadline is over. */
static enum err claim(struct upgraded *to, struct arena *a, struct partition_owners *given)
{
    struct member_progress *progress = &to->progress;
    const struct partition_set *claims = &to->claims;
    if (!partition_set_init(&progress->pending, a, claims->count)) {
        return ERR_TOO_LARGE;
    }
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct held_partition *p = &claims->items[i];
        if (partition_owners_find(given, &p->topic_id, p->partition) == NULL) {
            partition_set_add(&progress->pending, &p->topic_id, p->partition, progress->epoch);
        }
    }
    if (progress->pending.count > 0) {
        progress->state = MEMBER_UNREVOKED;
    }
    return partition_owners_put(given, &progress->pending, to->from);
}

/* Of two claims to a partition the later one is true. */
static int compare_claims(const void *a, const void *b)
{
    const struct upgraded *left = a;
    const struct upgraded *right = b;
    if (left->claims_generation != right->claims_generation) {
        return left->claims_generation > right->claims_generation ? -1 : 1;
    }
    return (left->position > right->position) - (left->position < right->position);
}

static void put_upgraded(const struct group *g, struct proposal *p, const struct upgraded *m)
{
    const struct slice id = m->from->identity->member_id;
    consumer_put_metadata(g, p, id, &m->v);
    consumer_put_target(g, p, id, &m->progress.assigned);
    consumer_put_progress(g, p, id, &m->progress);
}

/* A topic that the members name. */
struct named {
    struct name_link by_name;
    struct slice name;
};

static bool is_named(const struct name_table *names, uint64_t hash, struct slice name)
{
    list_for_each (link, name_table_bucket(names, hash)) {
        const struct named *n = container_of(name_link_at(link), struct named, by_name);
        if (n->by_name.hash == hash && slice_equal(n->name, name)) {
            return true;
        }
    }
    return false;
}

/* Puts what is not there yet into room, which has CONSUMER_NAMES_MAX; ERR_CORRUPT: it is full. */
static enum err add_names(struct name_table *names,
                          struct named *room,
                          uint64_t seed,
                          const struct consumer_group_member_metadata_value *v)
{
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < v->subscribed_topic_names_count; i++) {
        const struct slice name = v->subscribed_topic_names[i];
        const uint64_t hash = hash_bytes(seed, name.data, name.size);
        if (is_named(names, hash, name)) {
            continue;
        }
        if (names->count == CONSUMER_NAMES_MAX) {
            return ERR_CORRUPT;
        }
        struct named *n = &room[names->count];
        list_init(&n->by_name.link);
        n->name = name;
        e = name_table_add(names, &n->by_name, hash);
    }
    return e;
}

/* As consumer_has_room_for_names; ERR_CORRUPT if it has none. */
static enum err
check_names(const struct upgraded *members, size_t count, uint64_t seed, struct arena *a)
{
    struct name_table names = {0};
    struct named *room = arena_alloc_array(a, CONSUMER_NAMES_MAX, sizeof(*room));
    enum err e = room == NULL ? ERR_TOO_LARGE : ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < count; i++) {
        e = add_names(&names, room, seed, &members[i].v);
    }
    while (names.count > 0) {
        name_table_remove(&names, &room[names.count - 1].by_name);
    }
    name_table_done(&names);
    return e;
}

/* ERR_CORRUPT: a member cannot be read, or they name too many topics. Else there is no memory. */
static enum err put_members(const struct classic *c,
                            struct proposal *p,
                            struct arena *a,
                            struct partition_owners *given)
{
    struct upgraded *members = arena_alloc_array(a, c->members_count, sizeof(*members));
    enum err e = members == NULL ? ERR_TOO_LARGE : ERR_OK;
    size_t count = 0;
    size_t names_count = 0;
    list_for_each (link, &c->members) {
        if (e == ERR_OK) {
            members[count] = (struct upgraded){.from = classic_member_at(link), .position = count};
            e = convert(&members[count++], a, given, &names_count);
        }
    }
    if (e == ERR_OK && names_count > CONSUMER_NAMES_MAX) {
        e = check_names(members, count, c->g->c->env->hash_seed, a);
    }
    if (e == ERR_OK && count > 0) {
        qsort(members, count, sizeof(*members), compare_claims);
    }
    for (size_t i = 0; e == ERR_OK && i < count; i++) {
        e = claim(&members[i], a, given);
    }
    for (size_t i = 0; e == ERR_OK && i < count; i++) {
        put_upgraded(c->g, p, &members[i]);
    }
    return e;
}

/* As put_members. */
static enum err put_upgrade(const struct classic *c, struct proposal *p)
{
    const struct group *g = c->g;
    struct arena a;
    struct partition_owners given;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    partition_owners_init(&given, g->c->env->hash_seed);
    classic_put_tombstones(g, p);
    consumer_put_epoch(g, p, c->generation, 0);
    const enum err e = put_members(c, p, &a, &given);
    consumer_put_target_epoch(g, p, c->generation);
    partition_owners_done(&given);
    arena_done(&a);
    return e;
}

static void touch(void *context, struct consumer_member *m)
{
    (void)context;
    member_touch(m);
    member_arm_revocation(m);
}

static void on_upgraded(struct proposal *p, enum err e)
{
    struct upgrade *u = p->context;
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    log_info(p->c->env->log, "group_upgraded", "group=%s", p->g->id);
    consumer_for_each_member(p->g->consumer, touch, NULL);
    u->then(u->b);
}

void consumer_upgrade(struct consumer_beat *b, void (*then)(struct consumer_beat *b))
{
    const char *why = why_no_upgrade(b->g);
    if (why != NULL) {
        refuse_upgrade(b, why);
        return;
    }
    struct upgrade *u = group_call_alloc(b->call, 1, sizeof(*u));
    struct proposal *p = u == NULL ? NULL : proposal_new(b->g, PROPOSAL_EXCLUSIVE, on_upgraded);
    if (p == NULL) {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    *u = (struct upgrade){b, then};
    p->call = b->call;
    p->context = u;
    const enum err e = put_upgrade(b->g->classic, p);
    if (e == ERR_OK) {
        proposal_submit(p);
        return;
    }
    proposal_free(p);
    if (e == ERR_CORRUPT) {
        refuse_upgrade(b, "the embedded consumer protocol is malformed, or names too many topics");
    } else {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
    }
}

/* ---- and back ---- */

bool consumer_may_downgrade(const struct consumer *c)
{
    const enum groups_migration migration = c->g->c->env->settings->migration;
    return migration == GROUPS_MIGRATION_BIDIRECTIONAL || migration == GROUPS_MIGRATION_DOWNGRADE;
}

bool consumer_is_downgrade(const struct consumer *c,
                           struct consumer_member *const *members,
                           size_t count)
{
    const struct groups_settings *settings = c->g->c->env->settings;
    uint32_t classic_count = c->classic_count;
    for (size_t i = 0; i < count; i++) {
        classic_count -= member_is_classic(members[i]);
    }
    const uint32_t left_count = c->members.count - (uint32_t)count;
    return consumer_may_downgrade(c) && left_count > 0 && classic_count == left_count &&
           left_count <= (uint32_t)settings->members_max;
}

/* A classic group in the making. */
struct downgrade {
    const struct consumer *c;
    struct arena *a;
    struct group_metadata_value v;
    struct slice protocol;
    bool is_spoken; /* That protocol is, by all of them. */
    bool is_failed;
};

/* The first of v's that all speak; else v's first, if records say that there is none. */
static void choose_protocol(struct downgrade *d,
                            const struct consumer_group_member_metadata_value *v)
{
    const struct consumer_group_member_metadata_value_classic *classic = v->classic_member_metadata;
    for (size_t i = 0; i < classic->supported_protocols_count; i++) {
        d->protocol = classic->supported_protocols[i].name;
        d->is_spoken = consumer_classic_do_all_speak(d->c, d->protocol);
        if (d->is_spoken) {
            return;
        }
    }
    d->protocol = classic->supported_protocols[0].name;
}

static void add_back(struct downgrade *d,
                     struct slice id,
                     const struct consumer_group_member_metadata_value *from,
                     const struct partition_set *assigned)
{
    if (d->v.members_count == 0) {
        choose_protocol(d, from);
        d->v.protocol = d->protocol;
        d->v.leader = id;
    }
    struct group_metadata_value_member *to = &d->v.members[d->v.members_count++];
    group_metadata_value_member_init(to);
    to->member_id = id;
    to->group_instance_id = from->instance_id;
    to->client_id = from->client_id;
    to->client_host = from->client_host;
    to->rebalance_timeout = from->rebalance_timeout_ms;
    to->session_timeout = from->classic_member_metadata->session_timeout_ms;
    to->subscription = consumer_classic_metadata(from, d->protocol);
    if (slice_is_null(to->subscription)) {
        to->subscription = slice_of("", 0);
    }
    to->assignment = consumer_write_assignment(d->c->g->c->env, assigned, to->subscription, d->a);
    d->is_failed = d->is_failed || slice_is_null(to->assignment);
}

/* What it is asked to give back it may have, too, until it says otherwise. */
static bool take_all(const struct member_progress *from, struct arena *a, struct partition_set *ret)
{
    if (!partition_set_init(ret, a, (size_t)from->assigned.count + from->pending.count)) {
        return false;
    }
    const struct partition_set *const sets[] = {&from->assigned, &from->pending};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t j = 0; j < sets[i]->count; j++) {
            const struct held_partition *p = &sets[i]->items[j];
            partition_set_add(ret, &p->topic_id, p->partition, p->epoch);
        }
    }
    partition_set_sort(ret);
    return true;
}

static void convert_back(void *context, struct consumer_member *m)
{
    struct downgrade *d = context;
    struct partition_set held;
    if (m->is_going) {
        return;
    }
    if (take_all(&m->progress, d->a, &held)) {
        add_back(d, member_id(m), &m->metadata->v, &held);
    } else {
        d->is_failed = true;
    }
}

static void downgrade_init(struct downgrade *d, const struct consumer *c, struct arena *a)
{
    arena_init(a, CONSUMER_SCRATCH_SIZE_MAX);
    *d = (struct downgrade){.c = c, .a = a};
    group_metadata_value_init(&d->v);
    d->v.protocol_type = slice_of_string(PROTOCOL_TYPE);
    d->v.generation = c->epoch;
    d->v.current_state_timestamp = c->g->c->time.wall_ms;
    d->v.members = arena_alloc_array(a, c->members.count, sizeof(*d->v.members));
    d->is_failed = d->v.members == NULL;
}

/* Ends it. is_led: the first member leads, all stays as it is. Else nobody does until they have
 * joined again, also where another coordinator takes over before. */
static void put_downgrade(struct downgrade *d, struct proposal *p, bool is_led)
{
    if (!d->is_failed) {
        consumer_for_each_member(d->c, convert_back, d);
    }
    consumer_put_tombstones(d->c->g, p);
    if (d->is_failed) {
        p->failure = p->failure == ERR_OK ? ERR_BUSY : p->failure;
    } else {
        d->v.leader = is_led ? d->v.leader : (struct slice){0};
        classic_put_record(d->c->g, p, &d->v);
    }
    arena_done(d->a);
}

void consumer_put_downgrade(struct consumer *c, struct proposal *p)
{
    struct arena a;
    struct downgrade d;
    downgrade_init(&d, c, &a);
    put_downgrade(&d, p, false);
}

/* ---- a classic member in the place of the last of the new protocol ---- */

/* A join that makes a group classic. */
struct takeover {
    struct consumer_beat *b;
    const struct consumer *c;
    const struct consumer_member *former;
    bool is_at_rest; /* All have what they are to have: nobody needs to join again. */
};

static void look_whether_at_rest(void *context, struct consumer_member *m)
{
    struct takeover *t = context;
    if (m != t->former) {
        t->is_at_rest = t->is_at_rest && consumer_is_settled(t->c, m);
        return;
    }
    /* It may be away, between two versions of its program. */
    t->is_at_rest = t->is_at_rest && m->progress.state == MEMBER_STABLE &&
                    partition_set_equal(&m->progress.assigned, &m->target);
}

static void on_taken_over(struct proposal *p, enum err e)
{
    const struct takeover *t = p->context;
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    struct classic *c = p->g->classic;
    log_info(p->c->env->log, "group_downgraded", "group=%s", p->g->id);
    if (!t->is_at_rest && c->state == CLASSIC_STABLE) {
        classic_prepare(c);
    }
    consumer_answer_join(t->b, c->generation, c->protocol);
}

void consumer_downgrade(struct consumer_beat *b,
                        struct consumer_member *former,
                        const struct consumer_group_member_metadata_value *v)
{
    struct consumer *c = b->g->consumer;
    struct takeover *t = group_call_alloc(b->call, 1, sizeof(*t));
    struct proposal *p = t == NULL ? NULL : proposal_new(b->g, PROPOSAL_EXCLUSIVE, on_taken_over);
    if (p == NULL) {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    *t = (struct takeover){.b = b, .c = c, .former = former};
    t->is_at_rest =
        c->epoch == c->target_epoch && consumer_is_subscription_equal(&former->metadata->v, v);
    consumer_for_each_member(c, look_whether_at_rest, t);
    p->call = b->call;
    p->context = t;
    struct arena a;
    struct downgrade d;
    downgrade_init(&d, c, &a);
    former->is_going = true;
    if (!d.is_failed) {
        add_back(&d, b->member_id, v, &former->progress.assigned);
    }
    t->is_at_rest = t->is_at_rest && d.is_spoken;
    put_downgrade(&d, p, t->is_at_rest);
    former->is_going = false;
    proposal_submit(p);
}

void consumer_on_removed(struct group *g)
{
    if (g->consumer != NULL) {
        consumer_schedule_target(g->consumer);
    } else if (g->classic != NULL && g->classic->state == CLASSIC_STABLE) {
        log_info(g->c->env->log, "group_downgraded", "group=%s", g->id);
        classic_prepare(g->classic);
    }
}
