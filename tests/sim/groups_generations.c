/* Groups of the classic protocol, by what their members were told:
 *
 * One leader and one protocol per generation; generations that became durable (somebody's SyncGroup
 * was answered) are never formed again; what SyncGroup gives is what the leader of that generation
 * planned; nobody is thrown out without a cause; who lost its place as a static member is not
 * served any more.
 */
#include <inttypes.h>

#include "core/assert.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/sync_group.h"

#include "tests/sim/groups_mode.h"

static bool is_judged(const struct groups_call *call)
{
    return call->run->groups[call->group].kind == GROUPS_OF_CLASSICS;
}

static struct groups_generation *find(struct groups_group *g, int32_t id)
{
    for (uint32_t i = 0; i < GROUPS_GENERATIONS_MAX; i++) {
        if (g->generations[i].id == id && id > 0) {
            return &g->generations[i];
        }
    }
    return NULL;
}

/* One of a term that is over is gone if nobody had synced, or its batch was lost. */
static struct groups_generation *
find_now(struct groups_run *run, struct groups_group *g, int32_t id)
{
    struct groups_generation *gen = find(g, id);
    return gen != NULL && (gen->is_synced || gen->may_be_durable || gen->term == run->term) ? gen
                                                                                            : NULL;
}

static struct groups_generation *make(struct groups_run *run, struct groups_group *g, int32_t id)
{
    struct groups_generation *gen = find(g, id);
    if (gen == NULL) {
        gen = &g->generations[g->generations_next++ % GROUPS_GENERATIONS_MAX];
    }
    *gen = (struct groups_generation){.id = id, .term = run->term};
    return gen;
}

/* ---- plans ---- */

void groups_generations_there(struct groups_call *call)
{
    if (!is_judged(call) || call->call.kind != GROUP_SYNC) {
        return;
    }
    const struct sync_group_request *in = call->call.in;
    struct groups_generation *gen =
        find_now(call->run, &call->run->groups[call->group], in->generation_id);
    if (in->assignments_count > 0 && gen != NULL) {
        struct groups_plan *plan = groups_alloc(call->run, 1, sizeof(*plan));
        *plan = (struct groups_plan){gen->plans, in};
        gen->plans = plan;
    }
}

/* "<instance>-...": of a member whose answer, and with it its id, never came to anybody. */
static bool is_named_after(struct slice member_id, struct slice instance)
{
    return !slice_is_null(instance) && member_id.size > instance.size &&
           member_id.data[instance.size] == '-' &&
           slice_equal(slice_of(member_id.data, instance.size), instance);
}

static struct slice
planned(const struct sync_group_request *plan, const struct groups_owner *o, struct groups_run *run)
{
    for (size_t i = 0; i < plan->assignments_count; i++) {
        const struct groups_owner *of =
            groups_owner_find(run, o->group, plan->assignments[i].member_id);
        const bool is_its =
            of == o ||
            (of != NULL && !slice_is_null(o->instance) && slice_equal(of->instance, o->instance)) ||
            (of == NULL && is_named_after(plan->assignments[i].member_id, o->instance));
        if (is_its) {
            return plan->assignments[i].assignment;
        }
    }
    return slice_of("", 0);
}

/* ---- errors ---- */

static void check_thrown_out(const struct groups_call *call, int16_t error, int32_t generation)
{
    struct groups_run *run = call->run;
    const struct groups_owner *o = call->owner;
    if (o == NULL || call->is_copy || call->actor == NULL || o->is_tainted ||
        run->swarm.is_limiting) {
        return;
    }
    bool has_cause = groups_owner_may_be_gone(run, o) || (o->synced == 0 && o->term != run->term);
    if (error == KAFKA_ILLEGAL_GENERATION) {
        has_cause |= o->is_unsure || o->term != run->term || generation != o->epoch;
        for (uint32_t i = 0; i < GROUPS_GENERATIONS_MAX; i++) {
            has_cause |= run->groups[call->group].generations[i].id > generation;
        }
    }
    sim_check(run->sim,
              has_cause,
              "%.*s is thrown out without a cause: %d in generation %d",
              (int)o->id.size,
              (const char *)o->id.data,
              error,
              generation);
}

static void check_not_replaced(const struct groups_call *call)
{
    const struct groups_run *run = call->run;
    const struct groups_owner *o = call->owner;
    sim_check(run->sim,
              o == NULL || o->replaced_us == 0 || o->replaced_term != run->term ||
                  call->there_us <= o->replaced_us,
              "%.*s is served though another has its place",
              (int)o->id.size,
              (const char *)o->id.data);
}

/* ---- JoinGroup ---- */

static void replace(struct groups_run *run, const struct groups_owner *o)
{
    for (uint32_t i = 0; !slice_is_null(o->instance) && i < run->owners_count; i++) {
        struct groups_owner *old = run->owners[i];
        if (old != o && old->group == o->group && slice_equal(old->instance, o->instance) &&
            !slice_is_null(old->instance) && old->replaced_us == 0) {
            groups_owner_left(old);
            old->replaced_us = run->sim->clock.now_us;
            old->replaced_term = run->term;
        }
    }
}

static void check_members(const struct groups_run *run, const struct join_group_response *out)
{
    bool has_itself = out->members_count == 0;
    for (size_t i = 0; i < out->members_count; i++) {
        has_itself |= slice_equal(out->members[i].member_id, out->member_id);
        for (size_t j = 0; j < i; j++) {
            sim_check(run->sim,
                      !slice_equal(out->members[i].member_id, out->members[j].member_id),
                      "a member is named twice");
        }
    }
    sim_check(run->sim, has_itself, "a leader is not among its members");
}

/* Static members keep their seat under another id; some are told the old one. */
static bool is_same_leader(struct groups_run *run, uint32_t group, struct slice a, struct slice b)
{
    const struct groups_owner *one = groups_owner_find(run, group, a);
    const struct groups_owner *other = groups_owner_find(run, group, b);
    const struct groups_owner *known = one == NULL ? other : one;
    if (one == NULL || other == NULL) {
        /* An id that nobody lived to hear. */
        return slice_equal(a, b) || known == NULL || !slice_is_null(known->instance);
    }
    return one == other ||
           (!slice_is_null(one->instance) && slice_equal(one->instance, other->instance));
}

static void check_generation(struct groups_call *call, const struct groups_owner *o)
{
    struct groups_run *run = call->run;
    struct groups_group *g = &run->groups[call->group];
    const struct join_group_response *out = call->call.out;
    struct groups_generation *gen = find_now(run, g, out->generation_id);
    /* It may never have become durable, and be another one by now. */
    const bool is_doubtful = gen != NULL && !gen->is_synced && gen->term != run->term;
    const bool is_odd = out->generation_id < g->synced_max ||
                        (gen != NULL && !is_doubtful &&
                         !is_same_leader(run, call->group, gen->leader, out->leader));
    sim_say(run->sim,
            "%.*s is told generation %d of leader %.*s, known=%d odd=%d",
            (int)o->id.size,
            (const char *)o->id.data,
            out->generation_id,
            (int)out->leader.size,
            (const char *)out->leader.data,
            gen != NULL,
            is_odd);
    if (is_odd && groups_group_may_be_empty(run, call->group, o)) {
        groups_owners_reset(run, call->group); /* Another group of that name. */
        gen = NULL;
    }
    sim_check(run->sim, out->generation_id > 0, "a generation that is none");
    sim_check(run->sim,
              out->generation_id >= g->synced_max &&
                  (o->term != run->term || out->generation_id >= o->epoch),
              "a generation falls: %d, durable was %d, %.*s had %d",
              out->generation_id,
              g->synced_max,
              (int)o->id.size,
              (const char *)o->id.data,
              o->epoch);
    if (gen != NULL && is_doubtful &&
        (!is_same_leader(run, call->group, gen->leader, out->leader) ||
         !slice_equal(gen->protocol, out->protocol_name))) {
        gen = NULL;
    }
    if (gen == NULL) {
        gen = make(run, g, out->generation_id);
        gen->leader = out->leader;
        gen->protocol = out->protocol_name;
        sim_check(run->sim, out->generation_id > g->synced_max, "a generation is formed twice");
    }
    sim_check(run->sim,
              slice_equal(gen->protocol, out->protocol_name),
              "two protocols in one generation");
    const bool is_led = is_same_leader(run, call->group, gen->leader, out->leader);
    const bool is_taken = !slice_is_null(o->instance) && slice_equal(out->leader, o->id);
    sim_check(run->sim, is_led || is_taken, "two leaders in generation %d", gen->id);
    gen->leader = out->leader;
}

static void joined(struct groups_call *call)
{
    struct groups_run *run = call->run;
    const struct join_group_request *in = call->call.in;
    const struct join_group_response *out = call->call.out;
    struct groups_owner *o = groups_owner_find(run, call->group, out->member_id);
    if (o == NULL) {
        o = groups_owner_new(run, call->group, out->member_id);
    }
    call->owner = o;
    check_not_replaced(call);
    o->is_classic = true;
    o->instance = in->group_instance_id;
    replace(run, o);
    check_members(run, out);
    check_generation(call, o);
    o->is_in = true;
    o->may_be_fenced = false;
    o->may_have_left = false;
    o->is_tainted = call->is_copy || call->actor == NULL;
    o->session_ms = in->session_timeout_ms;
    o->contact_us = run->sim->clock.now_us;
    o->calm_us = o->contact_us;
    o->epoch = out->generation_id;
    o->term = run->term;
    o->topics = 0;
}

static void judge_join(struct groups_call *call, int16_t error)
{
    struct groups_run *run = call->run;
    const struct join_group_request *in = call->call.in;
    const struct join_group_response *out = call->call.out;
    if (error == KAFKA_NONE) {
        joined(call);
    } else if (error == KAFKA_MEMBER_ID_REQUIRED) {
        sim_check(run->sim,
                  groups_owner_find(run, call->group, out->member_id) == NULL,
                  "an id is given out twice");
        struct groups_owner *o = groups_owner_new(run, call->group, out->member_id);
        o->is_classic = true;
        o->instance = in->group_instance_id;
    } else if (error == KAFKA_UNKNOWN_MEMBER_ID && in->member_id.size > 0) {
        check_thrown_out(call, error, 0);
    } else if (groups_is_unsure(error) && !slice_is_null(in->group_instance_id)) {
        /* It may have taken a place. */
        for (uint32_t i = 0; i < run->owners_count; i++) {
            struct groups_owner *o = run->owners[i];
            o->may_have_left |= o->group == call->group &&
                                slice_equal(o->instance, in->group_instance_id) &&
                                !slice_equal(o->id, in->member_id);
        }
    }
}

/* ---- SyncGroup, Heartbeat ---- */

static void synced(struct groups_call *call)
{
    struct groups_run *run = call->run;
    struct groups_group *g = &run->groups[call->group];
    struct groups_owner *o = call->owner;
    const struct sync_group_request *in = call->call.in;
    const struct sync_group_response *out = call->call.out;
    struct groups_generation *gen = find_now(run, g, in->generation_id);
    check_not_replaced(call);
    sim_check(
        run->sim, gen != NULL, "generation %d is served that was never formed", in->generation_id);
    bool is_planned = gen->plans == NULL && out->assignment.size == 0;
    for (const struct groups_plan *plan = gen->plans; plan != NULL; plan = plan->next) {
        is_planned |= slice_equal(out->assignment, planned(plan->in, o, run));
    }
    sim_check(run->sim,
              is_planned,
              "%.*s gets what its leader did not plan, in generation %d",
              (int)o->id.size,
              (const char *)o->id.data,
              gen->id);
    gen->is_synced = true;
    if (g->synced_max < gen->id) {
        g->synced_max = gen->id;
    }
    o->synced = gen->id;
    o->term = run->term;
    o->contact_us = run->sim->clock.now_us;
    o->calm_us = o->contact_us;
}

static void judge_sync(struct groups_call *call, int16_t error)
{
    const struct sync_group_request *in = call->call.in;
    if (error == KAFKA_NONE) {
        synced(call);
    } else if (error == KAFKA_UNKNOWN_MEMBER_ID || error == KAFKA_ILLEGAL_GENERATION) {
        check_thrown_out(call, error, in->generation_id);
    } else if (groups_is_unsure(error) || error == KAFKA_REBALANCE_IN_PROGRESS) {
        /* The next rebalance may have begun while it was written. */
        struct groups_generation *gen =
            find_now(call->run, &call->run->groups[call->group], in->generation_id);
        if (gen != NULL && gen->plans != NULL) {
            gen->may_be_durable = true;
        }
    }
}

static void judge_heartbeat(struct groups_call *call, int16_t error)
{
    const struct heartbeat_request *in = call->call.in;
    struct groups_owner *o = call->owner;
    if (error == KAFKA_NONE || error == KAFKA_REBALANCE_IN_PROGRESS) {
        check_not_replaced(call);
        o->contact_us = call->there_us;
        o->calm_us = error == KAFKA_NONE ? call->there_us : o->calm_us;
        sim_check(call->run->sim,
                  in->generation_id >= call->floor || error != KAFKA_NONE,
                  "a heartbeat of generation %d is served, %d is durable",
                  in->generation_id,
                  call->floor);
    } else if (error == KAFKA_UNKNOWN_MEMBER_ID || error == KAFKA_ILLEGAL_GENERATION) {
        check_thrown_out(call, error, in->generation_id);
    }
}

void groups_generations_judge(struct groups_call *call)
{
    const int16_t error = groups_call_error(call);
    if (!is_judged(call)) {
        return;
    }
    switch ((int)call->call.kind) {
    case GROUP_JOIN:
        judge_join(call, error);
        break;
    case GROUP_SYNC:
        judge_sync(call, error);
        break;
    case GROUP_HEARTBEAT:
        judge_heartbeat(call, error);
        break;
    case GROUP_COMMIT:
        if (error == KAFKA_NONE && call->owner != NULL) {
            check_not_replaced(call);
        }
        break;
    default:
        break;
    }
}
