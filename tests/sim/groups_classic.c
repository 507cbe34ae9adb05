/* A member of the classic protocol: joins, syncs (its leader with a plan for all), beats.
 *
 * Where its group goes over to KIP-848 it keeps to what consumers do: eager ones have nothing while
 * they join; cooperative ones keep what they have, give up what SyncGroup does not name any more,
 * and join again to say so; and its leader gives nobody what another says it has. */
#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
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
    REVOKE_US_MAX = 3000 * 1000,
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

static bool goes_over(const struct groups_actor *a)
{
    return a->run->groups[a->group].kind == GROUPS_OF_BOTH;
}

static bool is_cooperative(const struct groups_actor *a)
{
    return goes_over(a) && a->run->groups[a->group].is_cooperative;
}

static void lose_all(struct groups_actor *a)
{
    a->owned = (struct groups_parts){0};
    a->given = a->owned;
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

/* A cooperative consumer offers nothing else, or it would be eager. */
static void offer_protocols(struct groups_actor *a, struct join_group_request *in)
{
    const bool is_alone = is_cooperative(a);
    const char *const names[] = {is_alone ? "cooperative-sticky" : "range",
                                 goes_over(a) ? "roundrobin" : "cooperative-sticky"};
    in->protocols = groups_alloc(a->run, 2, sizeof(*in->protocols));
    in->protocols_count = is_alone || sim_chance(a->run->sim, 50) ? 1 : 2;
    for (size_t i = 0; i < in->protocols_count; i++) {
        join_group_request_protocol_init(&in->protocols[i]);
        in->protocols[i].name = slice_of_string(names[i]);
        in->protocols[i].metadata = subscription(a);
    }
}

static void join(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    if (goes_over(a)) {
        a->owned = is_cooperative(a) ? a->given : (struct groups_parts){0};
    }
    struct join_group_request *in = groups_alloc(run, 1, sizeof(*in));
    join_group_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->session_timeout_ms = a->session_ms;
    in->rebalance_timeout_ms = a->rebalance_ms;
    in->member_id = id_of(a);
    in->group_instance_id = instance_of(a);
    in->protocol_type = slice_of_string("consumer");
    offer_protocols(a, in);
    groups_classic_forget(a);
    send(a, GROUP_JOIN, a->version, in);
}

/* ---- the leader's plan ---- */

struct plan {
    struct groups_parts of[PLAN_MEMBERS_MAX];
};

/* Nobody gets what another says it has: that one gives it up first. All that is kept back so. */
static struct groups_parts
keep_back(struct plan *plan, const struct groups_subscription *said, size_t count)
{
    struct groups_parts kept = {0};
    for (size_t m = 0; m < count; m++) {
        for (size_t other = 0; other < count; other++) {
            if (other != m) {
                const struct groups_parts both =
                    groups_parts_both(&plan->of[m], &said[other].owned);
                kept = groups_parts_or(&kept, &both);
                plan->of[m] = groups_parts_minus(&plan->of[m], &both);
            }
        }
    }
    return kept;
}

/* Each partition to the next member that wants it. All that is shared out. */
static struct groups_parts make_plan(struct groups_actor *a, struct plan *plan)
{
    struct groups_run *run = a->run;
    const size_t count = a->joined->members_count;
    assert_cmp(count, >, 0);
    assert_cmp(count, <=, PLAN_MEMBERS_MAX);
    struct groups_subscription said[PLAN_MEMBERS_MAX];
    struct groups_parts wanted[PLAN_MEMBERS_MAX];
    struct groups_parts all = {0};
    for (size_t m = 0; m < count; m++) {
        said[m] = groups_subscription_of(run, a->joined->members[m].metadata);
        wanted[m] = groups_parts_of_topics(run, said[m].topics);
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
    if (is_cooperative(a)) {
        const struct groups_parts kept = keep_back(plan, said, count);
        all = groups_parts_minus(&all, &kept); /* The rest is news, later. */
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
        topics |= groups_subscription_of(a->run, a->joined->members[i].metadata).topics;
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
    const bool is_back_soon = a->instance[0] != '\0' && goes_over(a) && sim_chance(run->sim, 50);
    struct leave_group_request *in = groups_alloc(run, 1, sizeof(*in));
    leave_group_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->members = groups_alloc(run, 1, sizeof(*in->members));
    in->members_count = 1;
    leave_group_request_member_init(in->members);
    in->members->member_id = a->owner->id;
    struct groups_call *call = groups_call_new(run, GROUP_LEAVE, 4, a->group, in);
    call->owner = a->owner;
    if (!is_back_soon) {
        groups_call_send(call, NULL);
    }
    groups_actor_end(a);
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
        a->told = (struct groups_parts){0};
        lose_all(a);
        a->next_us = run->sim->clock.now_us;
        groups_classic_forget(a);
    }
}

void groups_classic_act(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    if (a->owner != NULL && groups_actor_leaves(a)) {
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
    if (a->is_leader && out->skip_assignment) {
        /* What was shared out another knew: like nothing that there is, so it shares out anew. */
        memset(&a->told, 0xff, sizeof(a->told));
    }
    a->step = GROUPS_SYNCS;
    a->next_us = a->run->sim->clock.now_us + sim_log_between(a->run->sim, 0, 100000);
}

static void hear_sync(struct groups_actor *a, struct groups_call *call)
{
    const struct sync_group_response *out = call->call.out;
    struct groups_run *run = a->run;
    a->given = groups_parts_given(run, out->assignment);
    const struct groups_parts lost = groups_parts_minus(&a->owned, &a->given);
    if (goes_over(a) && !groups_parts_is_empty(&lost)) {
        groups_classic_forget(a);
        a->next_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, REVOKE_US_MAX);
        return;
    }
    a->owned = a->given;
    a->step = GROUPS_BEATS;
    a->next_us = run->sim->clock.now_us + (uint64_t)a->interval_ms * 1000;
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
        lose_all(a);
        groups_classic_forget(a);
        break;
    case KAFKA_ILLEGAL_GENERATION:
        if (goes_over(a)) {
            lose_all(a);
        }
        groups_classic_forget(a);
        break;
    case KAFKA_REBALANCE_IN_PROGRESS:
        groups_classic_forget(a);
        break;
    default:
        if (a->step == GROUPS_SYNCS) { /* Whether its plan counts it does not know. */
            groups_classic_forget(a);
        }
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
