/* Groups that go over from the classic protocol to KIP-848, and back: what their classic members
 * are told. The others are judged as everywhere (groups_owners.c), and all by one table of who has
 * what.
 *
 * While somebody speaks KIP-848 the coordinator shares out among all. A classic member's generation
 * is its epoch, nobody leads; what SyncGroup gives it, it has until it says in a JoinGroup that it
 * has it no more. While nobody does, one of them leads, and what SyncGroup gives is its plan.
 *
 * In an epoch a partition has one owner, whatever that speaks. The epochs of a member rise, and so
 * do the generations of a group that is led, over what any member was told before. Nobody is thrown
 * out without a cause, or told that its protocols do not fit.
 *
 * A group that is empty is no more when somebody comes who speaks the other protocol: as in Kafka,
 * another group of that name begins, and counts from the start. Nobody of the old one can be taken
 * for a member of the new one, whose ids the coordinator makes.
 */
#include <inttypes.h>

#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/sync_group.h"

#include "tests/sim/groups_mode.h"

static void check_rises(const struct groups_run *run, const struct groups_owner *o, int32_t epoch)
{
    /* A generation that a leader did not live to plan is no more than a promise. */
    sim_check(run->sim,
              epoch >= 0 && epoch >= o->synced && (epoch >= o->epoch || o->term != run->term),
              "an epoch falls: %.*s was at %d, durably at %d, and is told %d",
              (int)o->id.size,
              (const char *)o->id.data,
              o->epoch,
              o->synced,
              epoch);
}

static void is_durable(struct groups_run *run, struct groups_owner *o, int32_t epoch)
{
    struct groups_group *g = &run->groups[o->group];
    o->synced = epoch;
    g->synced_max = g->synced_max < epoch ? epoch : g->synced_max;
}

static void is_heard(struct groups_run *run, struct groups_owner *o, uint64_t at_us)
{
    o->term = run->term;
    o->contact_us = at_us;
    o->calm_us = at_us;
    o->may_be_fenced = false;
}

/* ---- JoinGroup ---- */

static struct groups_owner *
owner_of(struct groups_run *run, uint32_t group, struct slice id, struct slice instance)
{
    struct groups_owner *o = groups_owner_find(run, group, id);
    if (o == NULL) {
        o = groups_owner_new(run, group, id);
        o->is_classic = true;
        o->instance = instance;
    }
    return o;
}

void groups_both_is_modern(struct groups_run *run, uint32_t group)
{
    run->groups[group].may_be_modern = true;
}

/* The group is not the one before: that was deleted, or of the other protocol. Where nobody leads a
 * member may be behind the group, if it was in it. */
static bool is_another(const struct groups_call *call, const struct groups_owner *o, bool is_led)
{
    const struct groups_group *g = &call->run->groups[call->group];
    const struct join_group_response *out = call->call.out;
    const bool is_low = out->generation_id < g->synced_max ||
                        (is_led && out->generation_id == g->synced_max && g->may_be_modern);
    return is_low && (is_led || groups_owner_may_be_gone(call->run, o)) &&
           groups_group_may_be_empty(call->run, call->group, o);
}

static void check_generation(struct groups_call *call, const struct groups_owner *o)
{
    struct groups_run *run = call->run;
    struct groups_group *g = &run->groups[call->group];
    const struct join_group_response *out = call->call.out;
    const bool is_led = out->leader.size > 0;
    sim_say(run->sim,
            "%.*s joins generation %d, is_led=%d, durable was %d",
            (int)o->id.size,
            (const char *)o->id.data,
            out->generation_id,
            is_led,
            g->synced_max);
    if (is_another(call, o, is_led)) {
        groups_owners_reset(run, call->group);
    }
    g->may_be_modern = !is_led;
    check_rises(run, o, out->generation_id);
    sim_check(run->sim,
              !is_led || out->generation_id >= g->synced_max,
              "a generation falls: %d, %d was durable",
              out->generation_id,
              g->synced_max);
    for (size_t i = 0; i < out->members_count; i++) {
        const struct groups_owner *other =
            groups_owner_find(run, call->group, out->members[i].member_id);
        sim_check(run->sim,
                  other == NULL || other->is_classic,
                  "a leader is told of %.*s, who speaks the other protocol",
                  (int)other->id.size,
                  (const char *)other->id.data);
    }
}

/* What it says it has. Who says so itself, and not a late copy, has no more from here on. */
static void keep_said(struct groups_run *run, struct groups_owner *o, const struct group_call *call)
{
    const struct join_group_request *in = call->in;
    const struct groups_subscription said = groups_subscription_of(run, in->protocols[0].metadata);
    o->held = groups_parts_both(&o->held, &said.owned);
}

void groups_both_there(struct groups_call *call)
{
    const bool is_its = call->call.kind == GROUP_JOIN && call->owner != NULL && !call->is_copy;
    if (is_its && call->run->groups[call->group].kind == GROUPS_OF_BOTH) {
        keep_said(call->run, call->owner, &call->call);
    }
}

static void mark_joined(struct sim *sim, const struct groups_owner *o, bool is_led)
{
    if (!is_led) {
        sim_mark(sim, "sim_groups_classic_among_consumers");
    } else if (o->is_in && !o->is_led) {
        sim_mark(sim, "sim_groups_classic_again");
    }
}

static void joined(struct groups_call *call)
{
    struct groups_run *run = call->run;
    const struct join_group_request *in = call->call.in;
    const struct join_group_response *out = call->call.out;
    struct groups_owner *o = owner_of(run, call->group, out->member_id, in->group_instance_id);
    call->owner = o;
    check_generation(call, o);
    /* Whose session is over may be another by that id now, who holds nothing. */
    const bool was_there = !groups_owner_may_be_gone(run, o);
    groups_owner_take_place(run, o);
    const bool is_led = out->leader.size > 0;
    mark_joined(run->sim, o, is_led);
    const struct groups_subscription said = groups_subscription_of(run, in->protocols[0].metadata);
    o->topics |= said.topics;
    o->subscribed = said.topics;
    keep_said(run, o, &call->call);
    o->held = was_there ? o->held : (struct groups_parts){0};
    o->is_in = true;
    o->is_led = is_led;
    o->may_have_left = false;
    o->was_given_away = false;
    o->is_tainted = call->is_copy || call->actor == NULL;
    o->session_ms = in->session_timeout_ms;
    o->epoch = out->generation_id;
    is_heard(run, o, run->sim->clock.now_us);
    if (!is_led) {
        is_durable(run, o, out->generation_id);
    }
}

/* It is not known there; so it is gone, whatever it holds. */
static void thrown_out(const struct groups_call *call)
{
    const struct groups_run *run = call->run;
    struct groups_owner *o = call->owner;
    if (o == NULL) {
        return;
    }
    const bool may_be_gone = groups_owner_may_be_gone(run, o);
    groups_owner_left(o);
    if (call->is_copy || call->actor == NULL || o->is_tainted || run->swarm.is_limiting) {
        return;
    }
    sim_check(run->sim,
              may_be_gone,
              "%.*s is thrown out without a cause",
              (int)o->id.size,
              (const char *)o->id.data);
}

static void judge_join(struct groups_call *call, int16_t error)
{
    struct groups_run *run = call->run;
    const struct join_group_request *in = call->call.in;
    const struct join_group_response *out = call->call.out;
    sim_check(run->sim,
              error != KAFKA_INCONSISTENT_GROUP_PROTOCOL,
              "the protocols that all speak do not fit");
    if (error == KAFKA_NONE) {
        joined(call);
    } else if (error == KAFKA_MEMBER_ID_REQUIRED) {
        (void)owner_of(run, call->group, out->member_id, in->group_instance_id);
    } else if (error == KAFKA_UNKNOWN_MEMBER_ID && in->member_id.size > 0) {
        thrown_out(call);
    } else if (groups_is_unsure(error) && call->owner != NULL) {
        /* It may have been served, and what it said counts then. */
        keep_said(run, call->owner, &call->call);
    }
}

/* ---- SyncGroup, Heartbeat ---- */

static void synced(struct groups_call *call)
{
    struct groups_run *run = call->run;
    struct groups_owner *o = call->owner;
    const struct sync_group_request *in = call->call.in;
    const struct sync_group_response *out = call->call.out;
    check_rises(run, o, in->generation_id);
    o->epoch = in->generation_id;
    const struct groups_parts told = groups_parts_given(run, out->assignment);
    groups_owner_tell(run, o, &told, o->is_led);
    is_durable(run, o, in->generation_id);
    is_heard(run, o, run->sim->clock.now_us);
}

static void beaten(struct groups_call *call, int16_t error)
{
    struct groups_run *run = call->run;
    struct groups_owner *o = call->owner;
    const struct heartbeat_request *in = call->call.in;
    const uint64_t calm_us = error == KAFKA_NONE ? call->there_us : o->calm_us;
    sim_check(run->sim,
              in->generation_id >= call->floor,
              "%.*s is served in epoch %d, and was in %d",
              (int)o->id.size,
              (const char *)o->id.data,
              in->generation_id,
              call->floor);
    o->epoch = o->term == run->term ? o->epoch : in->generation_id;
    is_heard(run, o, call->there_us);
    o->calm_us = calm_us;
}

void groups_both_judge(struct groups_call *call)
{
    if (call->run->groups[call->group].kind != GROUPS_OF_BOTH) {
        return;
    }
    const int16_t error = groups_call_error(call);
    const bool is_known = error == KAFKA_NONE || error == KAFKA_REBALANCE_IN_PROGRESS;
    if (call->call.kind == GROUP_JOIN) {
        judge_join(call, error);
    } else if (call->call.kind == GROUP_SYNC && error == KAFKA_NONE) {
        synced(call);
    } else if (call->call.kind == GROUP_HEARTBEAT && is_known) {
        beaten(call, error);
    } else if (call->call.kind == GROUP_SYNC || call->call.kind == GROUP_HEARTBEAT) {
        if (error == KAFKA_UNKNOWN_MEMBER_ID) {
            thrown_out(call);
        }
    }
}
