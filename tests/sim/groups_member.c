/* A member of KIP-848. Half of them do as Java does, half as librdkafka does:
 *
 *                          Java                           librdkafka
 *   says what it has       when that changed              when that changed
 *   gives a request up     after request.timeout.ms       when the interval has passed that it was
 *                                                         told last; an answer after that is lost
 *   then says              all there is                   what it wanted to say before
 *
 * What it is told and has already is no news to it, and answered with nothing: who did not hear of
 * a partition before it is asked to give that back never says that he does not have it. As with
 * Kafka he loses his place in the end, and comes again (is_content).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/consumer_group_heartbeat.h"

#include "tests/sim/groups_mode.h"

enum {
    PATIENCE_MS = 30000,     /* request.timeout.ms */
    BACKOFF_US = 100 * 1000, /* retry.backoff.ms */
    RETRY_US_MAX = 1000 * 1000,
    REVOKE_US_MAX = 3000 * 1000,
    NAP_US_MAX = 20 * 1000 * 1000,
    REFUSED_US_MAX = 20 * 1000 * 1000,
};

static bool is_of_java(const struct groups_actor *a)
{
    return (a - a->run->actors) % 2 == 0;
}

/* ---- the request ---- */

static void put_topics(struct groups_actor *a, struct consumer_group_heartbeat_request *in)
{
    if (a->is_by_regex) {
        in->subscribed_topic_regex = slice_of_string("[ab].*"); /* Not cherries. */
        in->subscribed_topic_names = groups_alloc(a->run, 1, sizeof(struct slice));
        return;
    }
    in->subscribed_topic_names = groups_alloc(a->run, GROUPS_TOPICS, sizeof(struct slice));
    for (uint32_t i = 0; i < GROUPS_TOPICS; i++) {
        if ((a->topics >> i & 1) != 0) {
            in->subscribed_topic_names[in->subscribed_topic_names_count++] =
                slice_of_string(groups_topic_name(i));
        }
    }
    in->subscribed_topic_regex = slice_of("", 0);
}

static void put_owned(struct groups_actor *a, struct consumer_group_heartbeat_request *in)
{
    struct groups_run *run = a->run;
    in->topic_partitions = groups_alloc(run, run->lives_count + 1, sizeof(*in->topic_partitions));
    for (uint32_t life = 0; life < run->lives_count; life++) {
        if (a->owned.of[life] == 0) {
            continue;
        }
        struct consumer_group_heartbeat_request_topic_partition *t =
            &in->topic_partitions[in->topic_partitions_count++];
        consumer_group_heartbeat_request_topic_partition_init(t);
        t->topic_id = groups_life_id(life);
        t->partitions = groups_alloc(run, GROUPS_PARTITIONS_MAX, sizeof(int32_t));
        for (uint32_t p = 0; p < GROUPS_PARTITIONS_MAX; p++) {
            if (groups_parts_has(&a->owned, life, p)) {
                t->partitions[t->partitions_count++] = (int32_t)p;
            }
        }
    }
}

static struct consumer_group_heartbeat_request *request(struct groups_actor *a, int32_t epoch)
{
    struct groups_run *run = a->run;
    struct consumer_group_heartbeat_request *in = groups_alloc(run, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = slice_of_string(run->groups[a->group].name);
    in->member_id = a->owner->id;
    in->member_epoch = epoch;
    in->instance_id = a->owner->instance;
    return in;
}

static void
send(struct groups_actor *a, struct consumer_group_heartbeat_request *in, bool has_parts)
{
    struct groups_call *call = groups_call_new(a->run, GROUP_CONSUMER_HEARTBEAT, 1, a->group, in);
    call->owner = a->owner;
    call->number = has_parts; /* An empty list and none are told apart. */
    if (!slice_is_null(in->subscribed_topic_regex) || !slice_is_null(in->rack_id)) {
        sim_trace(a->run->sim, "full", a->group, (uint64_t)in->member_epoch);
    }
    a->sent_us = a->run->sim->clock.now_us;
    call->call.is_impatient = !is_of_java(a);
    const bool is_patient = is_of_java(a) || in->member_epoch == 0;
    a->gives_up_us = a->sent_us + (uint64_t)(is_patient ? PATIENCE_MS : a->interval_ms) * 1000;
    groups_call_send(call, a);
}

static void begin(struct groups_actor *a)
{
    char id[GROUPS_NAME_SIZE];
    (void)snprintf(id, sizeof(id), "m%u", a->run->owners_count);
    a->owner = groups_owner_new(a->run, a->group, slice_of_string(id));
    a->owner->instance = slice_of_string(a->instance[0] == '\0' ? NULL : a->instance);
    a->owner->session_ms = 45000; /* The least that a group may have. */
    a->owner->rebalance_ms = a->rebalance_ms;
    a->epoch = 0;
}

static void join(struct groups_actor *a)
{
    if (a->owner == NULL) {
        begin(a);
    }
    a->owned = (struct groups_parts){0};
    a->told = a->owned;
    a->revoked_us = 0;
    struct consumer_group_heartbeat_request *in = request(a, 0);
    in->rebalance_timeout_ms = a->rebalance_ms;
    in->rack_id = sim_chance(a->run->sim, 30) ? slice_of_string("rack") : (struct slice){0};
    in->server_assignor = slice_of_string(a->assignor);
    put_topics(a, in);
    put_owned(a, in);
    a->owner->topics |= a->topics;
    send(a, in, true);
}

static void beat(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    struct consumer_group_heartbeat_request *in = request(a, a->epoch);
    const bool is_full = a->must_say_all || (!run->is_quiet && sim_chance(run->sim, 10));
    in->topic_partitions = NULL;
    in->subscribed_topic_names = NULL;
    if (is_full || a->must_report) {
        put_owned(a, in);
    }
    if (is_full || a->must_subscribe) {
        put_topics(a, in);
        a->owner->topics |= a->topics;
    }
    if (is_full) {
        in->rebalance_timeout_ms = a->rebalance_ms;
        in->server_assignor = slice_of_string(a->assignor);
    }
    send(a, in, is_full || a->must_report);
}

/* ---- its life ---- */

static uint32_t draw_topics(struct groups_actor *a)
{
    if (a->is_by_regex) {
        return 7;
    }
    const uint32_t topics = (uint32_t)sim_between(a->run->sim, 1, (1U << GROUPS_TOPICS) - 1);
    return sim_chance(a->run->sim, 50) ? 3 : topics;
}

/* Of a group that goes over, which it may do there and back, each process speaks what is in favour
 * when it starts. */
static void choose_protocol(struct groups_actor *a)
{
    struct sim *sim = a->run->sim;
    struct groups_group *g = &a->run->groups[a->group];
    a->is_classic = g->kind == GROUPS_OF_CLASSICS;
    if (g->kind == GROUPS_OF_BOTH) {
        if (sim_chance(sim, 15)) {
            g->classic_percent = 50 * (uint32_t)sim_between(sim, 0, 2);
        }
        a->is_classic = sim_chance(sim, g->classic_percent);
    }
    a->interval_ms = a->is_classic ? 3000 : 5000;
}

void groups_actor_start(struct groups_run *run, struct groups_actor *a, uint32_t group)
{
    const uint32_t i = (uint32_t)(a - run->actors);
    a->run = run;
    a->group = group;
    a->is_alive = true;
    choose_protocol(a);
    a->is_by_regex = run->groups[group].kind != GROUPS_OF_CLASSICS && sim_chance(run->sim, 20);
    a->topics = draw_topics(a);
    a->assignor = sim_chance(run->sim, 50) ? "uniform" : sim_chance(run->sim, 50) ? "range" : NULL;
    a->rebalance_ms = (int32_t)sim_between(run->sim, GROUPS_REBALANCE_MS_MIN, 60000);
    a->session_ms = (int32_t)sim_between(run->sim, 10000, 30000);
    a->version = (int16_t)sim_between(run->sim, 5, 9);
    if (sim_chance(run->sim, 30)) {
        (void)snprintf(a->instance, sizeof(a->instance), "i%u", i);
    }
    a->next_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, NAP_US_MAX);
}

bool groups_actor_leaves(const struct groups_actor *a)
{
    const struct groups_run *run = a->run;
    const uint32_t more_percent = run->groups[a->group].kind == GROUPS_OF_BOTH ? 3 : 0;
    return !run->is_quiet && sim_chance(run->sim, run->swarm.leave_percent + more_percent);
}

void groups_actor_end(struct groups_actor *a)
{
    if (a->owner != NULL) {
        a->owner->is_slow = true;
    }
    a->owner = NULL;
    a->epoch = 0;
    a->owned = (struct groups_parts){0};
    a->told = a->owned;
    a->given = a->owned;
    a->revoked_us = 0;
    groups_classic_forget(a);
    choose_protocol(a);
}

/* Its process ends without a word. */
static void crash(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    sim_say(run->sim, "actor %d crashes", (int)(a - run->actors));
    if (a->call != NULL) {
        groups_call_abandon(a->call);
        a->call = NULL;
    }
    groups_actor_end(a);
    a->next_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, 4 * NAP_US_MAX);
}

static void leave(struct groups_actor *a)
{
    const bool is_static = a->instance[0] != '\0';
    struct consumer_group_heartbeat_request *in =
        request(a, is_static && sim_chance(a->run->sim, 70) ? -2 : -1);
    in->topic_partitions = NULL;
    in->subscribed_topic_names = NULL;
    struct groups_call *call = groups_call_new(a->run, GROUP_CONSUMER_HEARTBEAT, 1, a->group, in);
    call->owner = a->owner;
    groups_call_send(call, NULL);
    crash(a);
}

void groups_member_act(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    const uint64_t now_us = run->sim->clock.now_us;
    if (a->revoked_us != 0 && now_us >= a->revoked_us) {
        a->revoked_us = 0;
        a->owned = a->told;
        a->must_report = true;
    }
    if (a->owner == NULL || a->epoch == 0) {
        join(a);
        return;
    }
    if (groups_actor_leaves(a)) {
        leave(a);
        return;
    }
    if (!run->is_quiet && sim_chance(run->sim, 3)) {
        a->topics = draw_topics(a);
        a->must_subscribe = true;
    }
    beat(a);
}

/* ---- what it hears ---- */

static void reconcile(struct groups_actor *a, const struct consumer_group_heartbeat_response *out)
{
    struct groups_run *run = a->run;
    const struct groups_parts told = groups_parts_told(run, out->assignment);
    if (a->revoked_us != 0 && memcmp(&told, &a->told, sizeof(told)) == 0) {
        return; /* It is at it. */
    }
    a->told = told;
    a->revoked_us = 0;
    a->owner->is_content = memcmp(&told, &a->owned, sizeof(told)) == 0;
    const struct groups_parts lost = groups_parts_minus(&a->owned, &a->told);
    const struct groups_parts won = groups_parts_minus(&a->told, &a->owned);
    if (!groups_parts_is_empty(&lost)) {
        const bool is_slow = !run->is_quiet && sim_chance(run->sim, run->swarm.slow_revoke_percent);
        const uint64_t wait_us = is_slow ? (uint64_t)a->rebalance_ms * 1500
                                         : sim_log_between(run->sim, 1, REVOKE_US_MAX);
        a->revoked_us = run->sim->clock.now_us + wait_us;
        a->owner->is_slow |= is_slow;
    } else if (!groups_parts_is_empty(&won)) {
        a->owned = a->told;
        a->must_report = true;
    }
}

static void retry(struct groups_actor *a)
{
    a->next_us = a->run->sim->clock.now_us + sim_log_between(a->run->sim, 100000, RETRY_US_MAX);
}

static void hear_error(struct groups_actor *a, struct groups_call *call, int16_t error)
{
    const struct consumer_group_heartbeat_response *out = call->call.out;
    sim_say(a->run->sim,
            "%.*s hears %d: %.*s",
            (int)a->owner->id.size,
            (const char *)a->owner->id.data,
            error,
            (int)out->error_message.size,
            (const char *)out->error_message.data);
    const bool is_refused = error == KAFKA_GROUP_ID_NOT_FOUND && a->epoch == 0;
    switch (error) {
    case KAFKA_UNKNOWN_MEMBER_ID:
    case KAFKA_FENCED_MEMBER_EPOCH:
    case KAFKA_GROUP_ID_NOT_FOUND:
        a->epoch = 0;
        a->owned = (struct groups_parts){0};
        break;
    case KAFKA_FENCED_INSTANCE_ID:
        crash(a);
        return;
    default:
        break;
    }
    a->must_say_all = true;
    retry(a);
    if (is_refused) { /* By the policy. */
        sim_mark(a->run->sim, "sim_groups_going_over_refused");
        a->next_us += sim_log_between(a->run->sim, 0, REFUSED_US_MAX);
    }
}

static bool is_in_full(const struct groups_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->call.in;
    return in->rebalance_timeout_ms != -1;
}

void groups_member_hear(struct groups_actor *a, struct groups_call *call)
{
    struct groups_run *run = a->run;
    if (call == NULL) {
        a->owner->is_unsure = true;
        a->kept_us = 0;
        if (is_of_java(a)) {
            a->must_say_all = true;
            retry(a);
        } else {
            a->next_us = run->sim->clock.now_us + BACKOFF_US;
        }
        return;
    }
    const int16_t error = groups_call_error(call);
    if (error != KAFKA_NONE) {
        hear_error(a, call, error);
        return;
    }
    const struct consumer_group_heartbeat_response *out = call->call.out;
    a->owner->is_unsure = false;
    a->kept_us = run->sim->clock.now_us - a->sent_us;
    a->epoch = out->member_epoch;
    a->interval_ms = out->heartbeat_interval_ms;
    a->must_report = false;
    a->must_subscribe = false;
    a->must_say_all = a->must_say_all && !is_in_full(call);
    if (out->assignment != NULL) {
        reconcile(a, out);
    }
    const uint64_t due_us = a->sent_us + (uint64_t)a->interval_ms * 1000;
    a->next_us =
        a->must_report || due_us < run->sim->clock.now_us ? run->sim->clock.now_us : due_us;
    if (a->revoked_us != 0 && a->revoked_us < a->next_us) {
        a->next_us = a->revoked_us;
    }
}

/* ---- of both kinds ---- */

uint64_t groups_actor_deadline_us(const struct groups_actor *a)
{
    return a->call != NULL ? a->gives_up_us : a->next_us;
}

void groups_actor_hear(struct groups_actor *a, struct groups_call *call)
{
    if (a->is_classic) {
        groups_classic_hear(a, call);
    } else {
        groups_member_hear(a, call);
    }
}

void groups_actor_turn(struct groups_actor *a)
{
    struct groups_run *run = a->run;
    if (!a->is_alive || groups_actor_deadline_us(a) > run->sim->clock.now_us) {
        return;
    }
    if (a->call != NULL) {
        struct groups_call *call = a->call;
        a->call = NULL;
        groups_call_abandon(call);
        groups_actor_hear(a, NULL);
        return;
    }
    if (!run->is_quiet && run->swarm.crash_one_in > 0 &&
        rand_one_in(&run->sim->rand, run->swarm.crash_one_in)) {
        crash(a);
        return;
    }
    if (a->is_classic) {
        groups_classic_act(a);
    } else {
        groups_member_act(a);
    }
}
