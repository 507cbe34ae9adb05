/* A member of the classic protocol: joins, syncs (its leader with a plan for all), beats. */
#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "core/wbuf.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/sync_group.h"

#include "tests/sim/groups_mode.h"

enum {
    PATIENCE_US = 10 * 1000 * 1000,
    RETRY_US_MAX = 1000 * 1000,
    BYTES_MAX = 4096,
    PLAN_MEMBERS_MAX = 64,
};

void groups_classic_forget(struct groups_actor *a)
{
    a->step = GROUPS_JOINS;
    a->is_leader = false;
    a->joined = NULL;
}

static void send(struct groups_actor *a, enum group_call_kind kind, int16_t version, const void *in)
{
    struct groups_call *call = groups_call_new(a->run, kind, version, a->group, in);
    call->owner = a->owner;
    a->gives_up_us = a->run->sim->clock.now_us + PATIENCE_US +
                     (kind == GROUP_HEARTBEAT ? 0 : (uint64_t)a->rebalance_ms * 1000);
    groups_call_send(call, a);
}

static struct slice id_of(const struct groups_actor *a)
{
    return a->owner == NULL ? slice_of("", 0) : a->owner->id;
}

static struct slice instance_of(const struct groups_actor *a)
{
    return slice_of_string(a->instance[0] == '\0' ? NULL : a->instance);
}

/* ---- join ---- */

static struct slice subscription(struct groups_actor *a)
{
    struct consumer_protocol_subscription s;
    consumer_protocol_subscription_init(&s);
    struct slice topics[GROUPS_TOPICS];
    s.topics = topics;
    for (uint32_t i = 0; i < GROUPS_TOPICS; i++) {
        if ((a->topics >> i & 1) != 0) {
            topics[s.topics_count++] = slice_of_string(groups_topic_name(i));
        }
    }
    struct consumer_protocol_subscription_topic owned[GROUPS_LIVES_MAX];
    int32_t numbers[GROUPS_LIVES_MAX][GROUPS_PARTITIONS_MAX];
    s.owned_partitions = owned;
    for (uint32_t life = 0; life < a->run->lives_count; life++) {
        if (a->owned.of[life] == 0 || !a->run->lives[life].is_alive) {
            continue;
        }
        struct consumer_protocol_subscription_topic *t = &owned[s.owned_partitions_count++];
        consumer_protocol_subscription_topic_init(t);
        t->topic = slice_of_string(groups_topic_name(a->run->lives[life].topic));
        t->partitions = numbers[life];
        for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            if (groups_parts_has(&a->owned, life, p)) {
                t->partitions[t->partitions_count++] = (int32_t)p;
            }
        }
    }
    struct wbuf w;
    wbuf_init(&w, BYTES_MAX);
    const enum err e = consumer_protocol_subscription_encode(&w, 1, &s);
    assert(e == ERR_OK);
    const struct slice bytes = groups_copy(a->run, wbuf_slice(&w));
    wbuf_done(&w);
    return bytes;
}

static void join(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    struct join_group_request *in = groups_alloc(run, 1, sizeof(*in));
    join_group_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->session_timeout_ms = a->session_ms;
    in->rebalance_timeout_ms = a->rebalance_ms;
    in->member_id = id_of(a);
    in->group_instance_id = instance_of(a);
    in->protocol_type = slice_of_string("consumer");
    in->protocols = groups_alloc(run, 2, sizeof(*in->protocols));
    in->protocols_count = (size_t)sim_between(run->sim, 1, 2);
    static const char *const NAMES[] = {"range", "cooperative-sticky"};
    for (size_t i = 0; i < in->protocols_count; i++) {
        join_group_request_protocol_init(&in->protocols[i]);
        in->protocols[i].name = slice_of_string(NAMES[i]);
        in->protocols[i].metadata = subscription(a);
    }
    groups_classic_forget(a);
    send(a, GROUP_JOIN, a->version, in);
}

/* ---- the leader's plan ---- */

struct plan {
    struct groups_parts of[PLAN_MEMBERS_MAX];
};

static uint32_t topics_of(struct groups_run *run, struct slice metadata)
{
    struct rbuf in = rbuf_over(metadata.data, metadata.size);
    struct consumer_protocol_subscription s;
    const enum err e = consumer_protocol_subscription_decode(&in, &run->arena, &s);
    sim_check(run->sim, e == ERR_OK, "a leader gets metadata that nobody sent");
    uint32_t topics = 0;
    for (size_t i = 0; i < s.topics_count; i++) {
        for (uint32_t t = 0; t < GROUPS_TOPICS; t++) {
            topics |= slice_equal_string(s.topics[i], groups_topic_name(t)) ? 1U << t : 0;
        }
    }
    return topics;
}

/* Each partition to the next member that wants it. */
static struct groups_parts make_plan(struct groups_actor *a, struct plan *plan)
{
    struct groups_run *run = a->run;
    const size_t count = a->joined->members_count;
    assert_cmp(count, <=, PLAN_MEMBERS_MAX);
    struct groups_parts wanted[PLAN_MEMBERS_MAX];
    struct groups_parts all = {0};
    for (size_t m = 0; m < count; m++) {
        wanted[m] = groups_parts_of_topics(run, topics_of(run, a->joined->members[m].metadata));
        all = groups_parts_or(&all, &wanted[m]);
        plan->of[m] = (struct groups_parts){0};
    }
    size_t next = 0;
    for (uint32_t i = 0; i < GROUPS_LIVES_MAX * GROUPS_PARTITIONS_MAX; i++) {
        const uint32_t life = i / GROUPS_PARTITIONS_MAX;
        const uint32_t p = i % GROUPS_PARTITIONS_MAX;
        if (!groups_parts_has(&all, life, p)) {
            continue;
        }
        while (!groups_parts_has(&wanted[next % count], life, p)) {
            next++;
        }
        plan->of[next % count].of[life] |= (uint8_t)(1U << p);
        next++;
    }
    return all;
}

static struct slice assignment(struct groups_run *run, const struct groups_parts *parts)
{
    struct consumer_protocol_assignment out;
    consumer_protocol_assignment_init(&out);
    struct consumer_protocol_assignment_topic topics[GROUPS_LIVES_MAX];
    int32_t numbers[GROUPS_LIVES_MAX][GROUPS_PARTITIONS_MAX];
    out.assigned_partitions = topics;
    for (uint32_t life = 0; life < run->lives_count; life++) {
        if (parts->of[life] == 0) {
            continue;
        }
        struct consumer_protocol_assignment_topic *t = &topics[out.assigned_partitions_count++];
        consumer_protocol_assignment_topic_init(t);
        t->topic = slice_of_string(groups_topic_name(run->lives[life].topic));
        t->partitions = numbers[life];
        for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            if (groups_parts_has(parts, life, p)) {
                t->partitions[t->partitions_count++] = (int32_t)p;
            }
        }
    }
    struct wbuf w;
    wbuf_init(&w, BYTES_MAX);
    const enum err e = consumer_protocol_assignment_encode(&w, 1, &out);
    assert(e == ERR_OK);
    const struct slice bytes = groups_copy(run, wbuf_slice(&w));
    wbuf_done(&w);
    return bytes;
}

static void sync(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    struct sync_group_request *in = groups_alloc(run, 1, sizeof(*in));
    sync_group_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->generation_id = a->epoch;
    in->member_id = id_of(a);
    in->group_instance_id = instance_of(a);
    in->protocol_type = slice_of_string("consumer");
    in->protocol_name = a->protocol;
    if (a->is_leader && !a->joined->skip_assignment) {
        struct plan plan;
        a->told = make_plan(a, &plan);
        in->assignments = groups_alloc(run, a->joined->members_count, sizeof(*in->assignments));
        in->assignments_count = a->joined->members_count;
        for (size_t i = 0; i < in->assignments_count; i++) {
            sync_group_request_assignment_init(&in->assignments[i]);
            in->assignments[i].member_id = a->joined->members[i].member_id;
            in->assignments[i].assignment = assignment(run, &plan.of[i]);
        }
    }
    send(a, GROUP_SYNC, a->version >= 7 ? 5 : 4, in);
}

/* ---- heartbeats ---- */

/* A leader rejoins when there is something else to share out. */
static bool has_news(const struct groups_actor *a)
{
    if (!a->is_leader || a->joined == NULL) {
        return false;
    }
    uint32_t topics = 0;
    for (size_t i = 0; i < a->joined->members_count; i++) {
        topics |= topics_of(a->run, a->joined->members[i].metadata);
    }
    const struct groups_parts all = groups_parts_of_topics(a->run, topics);
    return memcmp(&all, &a->told, sizeof(all)) != 0;
}

static void beat(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    struct heartbeat_request *in = groups_alloc(run, 1, sizeof(*in));
    heartbeat_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->generation_id = a->epoch;
    in->member_id = id_of(a);
    in->group_instance_id = instance_of(a);
    send(a, GROUP_HEARTBEAT, 4, in);
}

static void leave(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    struct leave_group_request *in = groups_alloc(run, 1, sizeof(*in));
    leave_group_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->members = groups_alloc(run, 1, sizeof(*in->members));
    in->members_count = 1;
    leave_group_request_member_init(in->members);
    in->members->member_id = a->owner->id;
    struct groups_call *call = groups_call_new(run, GROUP_LEAVE, 4, a->group, in);
    call->owner = a->owner;
    groups_call_send(call, NULL);
    a->owner = NULL;
    a->owned = (struct groups_parts){0};
    groups_classic_forget(a);
    a->next_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, 60 * RETRY_US_MAX);
}

void groups_classics_leave_old_versions(struct groups_run *run)
{
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        struct groups_actor *a = &run->actors[i];
        if (!a->is_classic || a->instance[0] == '\0') {
            continue;
        }
        if (a->call != NULL) {
            groups_call_abandon(a->call);
            a->call = NULL;
        }
        a->version = 9;
        a->owner = NULL;
        a->next_us = run->sim->clock.now_us;
        groups_classic_forget(a);
    }
}

void groups_classic_act(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    if (!run->is_quiet && a->owner != NULL && sim_chance(run->sim, run->swarm.leave_percent)) {
        leave(a);
        return;
    }
    if (a->step == GROUPS_BEATS && (has_news(a) || (!run->is_quiet && sim_chance(run->sim, 2)))) {
        join(a);
        return;
    }
    switch (a->step) {
    case GROUPS_JOINS:
        join(a);
        break;
    case GROUPS_SYNCS:
        sync(a);
        break;
    case GROUPS_BEATS:
        beat(a);
        break;
    }
}

/* ---- what it hears ---- */

static void hear_join(struct groups_actor *a, struct groups_call *call)
{
    const struct join_group_response *out = call->call.out;
    a->owner = groups_owner_find(a->run, a->group, out->member_id);
    sim_check(a->run->sim, a->owner != NULL, "a member id from nowhere");
    a->joined = out;
    a->epoch = out->generation_id;
    a->protocol = out->protocol_name;
    a->is_leader = slice_equal(out->leader, out->member_id);
    if (a->is_leader && out->members_count == 0) {
        a->is_leader = false; /* An old leader's id, or a group that nobody leads. */
    }
    a->step = GROUPS_SYNCS;
    a->next_us = a->run->sim->clock.now_us + sim_log_between(a->run->sim, 0, 100000);
}

static void hear_sync(struct groups_actor *a, struct groups_call *call)
{
    const struct sync_group_response *out = call->call.out;
    a->owned = (struct groups_parts){0};
    a->step = GROUPS_BEATS;
    a->next_us = a->run->sim->clock.now_us + (uint64_t)a->interval_ms * 1000;
    if (out->assignment.size == 0) {
        return;
    }
    struct consumer_protocol_assignment told;
    struct rbuf in = rbuf_over(out->assignment.data, out->assignment.size);
    const enum err e = consumer_protocol_assignment_decode(&in, &a->run->arena, &told);
    sim_check(a->run->sim, e == ERR_OK, "an assignment that cannot be read");
    for (size_t i = 0; i < told.assigned_partitions_count; i++) {
        const struct consumer_protocol_assignment_topic *t = &told.assigned_partitions[i];
        for (uint32_t topic = 0; topic < GROUPS_TOPICS; topic++) {
            const int32_t life = groups_life_now(a->run, topic);
            for (size_t j = 0;
                 life >= 0 && slice_equal_string(t->topic, groups_topic_name(topic)) &&
                 j < t->partitions_count;
                 j++) {
                a->owned.of[life] |= (uint8_t)(1U << (uint32_t)t->partitions[j]);
            }
        }
    }
}

static void hear_error(struct groups_actor *a, struct groups_call *call, int16_t error)
{
    const struct join_group_response *out = call->call.out;
    a->next_us = a->run->sim->clock.now_us + sim_log_between(a->run->sim, 100000, RETRY_US_MAX);
    switch (error) {
    case KAFKA_MEMBER_ID_REQUIRED:
        a->owner = groups_owner_find(a->run, a->group, out->member_id);
        break;
    case KAFKA_UNKNOWN_MEMBER_ID:
    case KAFKA_FENCED_INSTANCE_ID:
    case KAFKA_INCONSISTENT_GROUP_PROTOCOL:
        a->owner = NULL;
        a->owned = (struct groups_parts){0};
        groups_classic_forget(a);
        break;
    case KAFKA_ILLEGAL_GENERATION:
    case KAFKA_REBALANCE_IN_PROGRESS:
        groups_classic_forget(a);
        break;
    default:
        break;
    }
}

void groups_classic_hear(struct groups_actor *a, struct groups_call *call)
{
    if (call == NULL) {
        if (a->owner != NULL) {
            a->owner->is_unsure = true;
        }
        if (a->step == GROUPS_SYNCS) {
            groups_classic_forget(a);
        }
        a->next_us = a->run->sim->clock.now_us + sim_log_between(a->run->sim, 100000, RETRY_US_MAX);
        return;
    }
    const int16_t error = groups_call_error(call);
    if (error != KAFKA_NONE) {
        hear_error(a, call, error);
        return;
    }
    if (call->call.kind == GROUP_JOIN) {
        hear_join(a, call);
    } else if (call->call.kind == GROUP_SYNC) {
        hear_sync(a, call);
    } else {
        a->next_us = a->run->sim->clock.now_us + (uint64_t)a->interval_ms * 1000;
    }
    if (a->owner != NULL) {
        a->owner->is_unsure = false;
    }
}
