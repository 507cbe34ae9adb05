/* Who may use which partition, by what the members of KIP-848 were told and what they said:
 *
 *   held(m) = what m was told, minus what m said it has no more, while it may be a member
 *
 * No partition is told to one while another holds it; a partition gets to another member in a
 * higher epoch only; a member hears of epochs that rise; nobody is thrown out without a cause.
 */
#include <inttypes.h>

#include "core/assert.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"

#include "tests/sim/groups_mode.h"

enum {
    HELD_US_MAX = 25 * 1000 * 1000, /* The longest interval, and then some. */
    /* After the faults: all have given up what was lost, and were told what they have again. */
    DARK_US_MAX = 35 * 1000 * 1000,
};

struct groups_owner *groups_owner_new(struct groups_run *run, uint32_t group, struct slice id)
{
    struct groups_owner *o = groups_alloc(run, 1, sizeof(*o));
    o->group = group;
    o->id = groups_copy(run, id);
    assert_cmp(run->owners_count, <, sizeof(run->owners) / sizeof(run->owners[0]));
    run->owners[run->owners_count++] = o;
    return o;
}

struct groups_owner *groups_owner_find(struct groups_run *run, uint32_t group, struct slice id)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        if (run->owners[i]->group == group && slice_equal(run->owners[i]->id, id)) {
            return run->owners[i];
        }
    }
    return NULL;
}

static bool has_passed(const struct groups_run *run, uint64_t since_us, int64_t ms)
{
    const uint64_t from_us = since_us > run->activated_us ? since_us : run->activated_us;
    return run->sim->clock.now_us >= from_us + (uint64_t)ms * 1000;
}

bool groups_owner_may_be_gone(const struct groups_run *run, const struct groups_owner *o)
{
    if (!o->is_in || o->may_have_left || o->may_be_fenced ||
        has_passed(run, o->contact_us, o->session_ms)) {
        return true;
    }
    if (o->is_classic) {
        return (o->synced == 0 && o->term != run->term) ||
               has_passed(run, o->calm_us, GROUPS_REBALANCE_MS_MIN);
    }
    if (o->revoke_us == 0 || !has_passed(run, o->revoke_us, o->rebalance_ms)) {
        return false;
    }
    /* Nobody stays in the dark for so long that it loses its place for it. */
    return !run->is_quiet || o->is_slow || o->is_content ||
           o->revoke_us + (uint64_t)o->rebalance_ms * 1000 < run->quiet_us + DARK_US_MAX;
}

void groups_owners_activate(struct groups_run *run)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        run->owners[i]->may_be_fenced = groups_owner_may_be_gone(run, run->owners[i]);
    }
}

void groups_owner_left(struct groups_owner *o)
{
    o->is_in = false;
    o->is_away = false;
    o->synced = 0;
    o->held = (struct groups_parts){0};
    o->told = (struct groups_parts){0};
    o->revoke_us = 0;
}

bool groups_group_may_be_empty(const struct groups_run *run,
                               uint32_t group,
                               const struct groups_owner *but)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        const struct groups_owner *o = run->owners[i];
        if (o->group == group && o != but && !groups_owner_may_be_gone(run, o)) {
            return false;
        }
    }
    return true;
}

void groups_owners_reset(struct groups_run *run, uint32_t group)
{
    struct groups_group *g = &run->groups[group];
    g->epoch_max = 0;
    g->synced_max = 0;
    memset(g->deeds, 0, sizeof(g->deeds));
    memset(g->generations, 0, sizeof(g->generations));
    for (uint32_t i = 0; i < run->owners_count; i++) {
        if (run->owners[i]->group == group) {
            run->owners[i]->epoch = 0;
            run->owners[i]->synced = 0;
        }
    }
}

/* ---- what is told ---- */

struct groups_parts groups_parts_said(const struct groups_run *run,
                                      const struct consumer_group_heartbeat_request *in)
{
    struct groups_parts ret = {0};
    for (size_t i = 0; i < in->topic_partitions_count; i++) {
        const int32_t life = groups_life_of(run, &in->topic_partitions[i].topic_id);
        for (size_t j = 0; j < in->topic_partitions[i].partitions_count; j++) {
            ret.of[life] |= (uint8_t)(1U << (uint32_t)in->topic_partitions[i].partitions[j]);
        }
    }
    return ret;
}

struct groups_parts groups_parts_told(const struct groups_run *run,
                                      const struct consumer_group_heartbeat_response_assignment *a)
{
    struct groups_parts ret = {0};
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        const int32_t life = groups_life_of(run, &a->topic_partitions[i].topic_id);
        for (size_t j = 0; j < a->topic_partitions[i].partitions_count; j++) {
            const int32_t p = a->topic_partitions[i].partitions[j];
            sim_check(run->sim,
                      p >= 0 && p < run->lives[life].partitions_count,
                      "a partition that does not exist is assigned: %s-%d",
                      groups_topic_name(run->lives[life].topic),
                      p);
            sim_check(run->sim,
                      !groups_parts_has(&ret, (uint32_t)life, (uint32_t)p),
                      "a partition is told twice");
            ret.of[life] |= (uint8_t)(1U << (uint32_t)p);
        }
    }
    return ret;
}

static bool is_same_seat(const struct groups_owner *a, const struct groups_owner *b)
{
    return a == b || (!slice_is_null(a->instance) && slice_equal(a->instance, b->instance));
}

/* Others that hold some of it have to be gone. */
static void
check_holders(struct groups_run *run, const struct groups_owner *o, const struct groups_parts *told)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        struct groups_owner *other = run->owners[i];
        if (other->group != o->group || other == o) {
            continue;
        }
        const struct groups_parts both = groups_parts_both(&other->held, told);
        if (groups_parts_is_empty(&both)) {
            continue;
        }
        sim_check(run->sim,
                  groups_owner_may_be_gone(run, other),
                  "two own a partition: %.*s was told one that %.*s holds",
                  (int)o->id.size,
                  (const char *)o->id.data,
                  (int)other->id.size,
                  (const char *)other->id.data);
        sim_say(run->sim,
                "the model takes %.*s for gone",
                (int)other->id.size,
                (const char *)other->id.data);
        sim_mark(run->sim, "sim_groups_taken_for_gone");
        other->was_given_away = true;
        other->held = groups_parts_minus(&other->held, told);
    }
}

static void check_deeds(struct groups_run *run, struct groups_owner *o, int32_t epoch)
{
    struct groups_group *g = &run->groups[o->group];
    for (uint32_t life = 0; life < run->lives_count; life++) {
        for (uint32_t p = 0; o->told.of[life] != 0 && p < GROUPS_PARTITIONS_MAX; p++) {
            struct groups_deed *d = &g->deeds[life][p];
            if (!groups_parts_has(&o->told, life, p)) {
                continue;
            }
            sim_check(run->sim,
                      d->owner == NULL || is_same_seat(d->owner, o) || epoch > d->epoch,
                      "two own a partition in one epoch: %s-%u epoch=%d, before %d",
                      groups_topic_name(run->lives[life].topic),
                      p,
                      epoch,
                      d->epoch);
            *d = (struct groups_deed){o, epoch};
        }
    }
}

/* Of KIP-848 nobody is in a group that somebody leads. */
static void
fence_holders(struct groups_run *run, const struct groups_owner *o, const struct groups_parts *told)
{
    for (uint32_t i = 0; i < run->owners_count; i++) {
        struct groups_owner *other = run->owners[i];
        const struct groups_parts both = groups_parts_both(&other->held, told);
        if (other->group != o->group || other == o || groups_parts_is_empty(&both)) {
            continue;
        }
        sim_check(run->sim,
                  other->is_classic || groups_owner_may_be_gone(run, other),
                  "two own a partition: a leader gave %.*s one that %.*s holds",
                  (int)o->id.size,
                  (const char *)o->id.data,
                  (int)other->id.size,
                  (const char *)other->id.data);
        other->was_given_away = true;
        other->held = groups_parts_minus(&other->held, told);
    }
}

void groups_owner_tell(struct groups_run *run,
                       struct groups_owner *o,
                       const struct groups_parts *told,
                       bool is_planned)
{
    if (is_planned) {
        fence_holders(run, o, told);
        o->held = *told;
    } else {
        check_holders(run, o, told);
    }
    const struct groups_parts never = groups_parts_of_topics(run, ~o->topics);
    const struct groups_parts odd = groups_parts_both(told, &never);
    sim_check(
        run->sim, groups_parts_is_empty(&odd), "a partition of a topic that was not subscribed");
    const struct groups_parts shrunk = groups_parts_minus(&o->held, told);
    if (groups_parts_is_empty(&shrunk)) {
        o->revoke_us = 0;
    } else if (o->revoke_us == 0) {
        o->revoke_us = run->sim->clock.now_us;
    }
    o->told = *told;
    o->held = groups_parts_or(&o->held, told);
    check_deeds(run, o, o->epoch);
}

/* ---- heartbeats ---- */

/* A static member comes under a new id; only those of KIP-848 have to leave for each other. */
void groups_owner_take_place(struct groups_run *run, struct groups_owner *o)
{
    for (uint32_t i = 0; !slice_is_null(o->instance) && i < run->owners_count; i++) {
        struct groups_owner *old = run->owners[i];
        if (old->group == o->group && is_same_seat(old, o)) {
            o->topics |= old->topics; /* It may be given what the other had, for a while. */
        }
        if (old != o && old->group == o->group && is_same_seat(old, o) && old->is_in) {
            if (old->is_classic != o->is_classic) {
                sim_mark(run->sim, "sim_groups_place_goes_over");
            }
            sim_check(run->sim,
                      old->is_away || old->is_classic || o->is_classic ||
                          groups_owner_may_be_gone(run, old),
                      "%.*s takes the place of a member that is there",
                      (int)o->id.size,
                      (const char *)o->id.data);
            groups_owner_left(old);
        }
    }
}

static void joined(struct groups_call *call, struct groups_owner *o)
{
    struct groups_run *run = call->run;
    /* Whose session is over may be gone, and with it the last one; then the group may be, too. */
    if (groups_owner_may_be_gone(run, o) && groups_group_may_be_empty(run, o->group, o)) {
        groups_owners_reset(run, o->group);
    }
    groups_both_is_modern(run, o->group);
    groups_owner_take_place(run, o);
    o->held = (struct groups_parts){0};
    o->was_given_away = false;
    o->is_away = false;
    o->may_have_left = false;
    o->is_tainted = call->is_late;
}

static void subscribe(struct groups_owner *o, const struct consumer_group_heartbeat_request *in)
{
    if (in->subscribed_topic_names == NULL) {
        return;
    }
    o->subscribed = in->subscribed_topic_regex.size > 0 ? 7 : 0;
    for (size_t i = 0; i < in->subscribed_topic_names_count; i++) {
        for (uint32_t t = 0; t < GROUPS_TOPICS; t++) {
            const bool is_it =
                slice_equal_string(in->subscribed_topic_names[i], groups_topic_name(t));
            o->subscribed |= is_it ? 1U << t : 0;
        }
    }
}

static void said(struct groups_owner *o,
                 const struct groups_run *run,
                 const struct consumer_group_heartbeat_request *in,
                 bool has_parts)
{
    subscribe(o, in);
    if (has_parts) {
        const struct groups_parts owned = groups_parts_said(run, in);
        o->held = groups_parts_both(&o->held, &owned);
    }
}

static void left(struct groups_call *call, int32_t epoch)
{
    struct groups_owner *o = call->owner;
    if (epoch == -1) {
        groups_owner_left(o);
    } else {
        o->is_away = true;
        o->held = o->told;
    }
}

static void heartbeat_served(struct groups_call *call, bool has_parts)
{
    struct groups_run *run = call->run;
    struct groups_owner *o = call->owner;
    const struct consumer_group_heartbeat_request *in = call->call.in;
    const struct consumer_group_heartbeat_response *out = call->call.out;
    sim_say(run->sim,
            "%.*s at epoch %d is told epoch %d, assignment=%d",
            (int)o->id.size,
            (const char *)o->id.data,
            in->member_epoch,
            out->member_epoch,
            out->assignment != NULL);
    sim_check(run->sim, slice_equal(out->member_id, o->id), "an answer for another member");
    sim_check(run->sim,
              run->sim->clock.now_us - call->there_us < HELD_US_MAX,
              "a heartbeat was held too long");
    if (in->member_epoch < 0) {
        left(call, in->member_epoch);
        return;
    }
    if (in->member_epoch == 0) {
        joined(call, o);
    } else {
        sim_check(run->sim, o->is_in, "a heartbeat of a member that is not in is served");
        sim_check(run->sim,
                  !o->was_given_away,
                  "%.*s is still served: what it had was given to others",
                  (int)o->id.size,
                  (const char *)o->id.data);
        o->is_tainted |= call->is_late;
    }
    said(o, run, in, has_parts);
    sim_check(run->sim,
              out->member_epoch >= o->epoch && out->member_epoch >= in->member_epoch &&
                  out->member_epoch >= 0,
              "an epoch falls: %.*s was at %d and is told %d",
              (int)o->id.size,
              (const char *)o->id.data,
              o->epoch,
              out->member_epoch);
    sim_check(run->sim, out->heartbeat_interval_ms > 0, "no heartbeat interval");
    o->is_in = true;
    o->may_be_fenced = false;
    o->contact_us = call->there_us;
    o->previous_epoch = out->member_epoch == o->epoch ? o->previous_epoch : o->epoch;
    o->epoch = out->member_epoch;
    o->may_have_moved = false;
    if (out->assignment != NULL) {
        const struct groups_parts told = groups_parts_told(run, out->assignment);
        groups_owner_tell(run, o, &told, false);
    } else {
        sim_check(run->sim, in->member_epoch > 0, "who joins is not told its assignment");
    }
    struct groups_group *g = &run->groups[o->group];
    g->epoch_max = g->epoch_max < o->epoch ? o->epoch : g->epoch_max;
    if (g->kind == GROUPS_OF_BOTH && g->synced_max < o->epoch) {
        g->synced_max = o->epoch;
    }
    const struct groups_parts shrunk = groups_parts_minus(&o->held, &o->told);
    if (groups_parts_is_empty(&shrunk)) {
        o->revoke_us = 0;
    }
}

/* Whoever says no more than that he is there, in the epoch that he was told last or in the one
 * before that: the last answer may be lost. */
static bool is_to_be_heard(const struct groups_owner *o,
                           const struct consumer_group_heartbeat_request *in)
{
    const bool says_nothing = in->topic_partitions == NULL && in->subscribed_topic_names == NULL &&
                              slice_is_null(in->subscribed_topic_regex);
    return says_nothing && !o->is_tainted && !o->is_away && !o->may_have_moved &&
           (in->member_epoch == o->epoch || in->member_epoch == o->previous_epoch);
}

static void thrown_out(const struct groups_call *call, int16_t error)
{
    const struct groups_run *run = call->run;
    const struct groups_owner *o = call->owner;
    const struct consumer_group_heartbeat_request *in = call->call.in;
    if (call->is_copy || call->actor == NULL || in->member_epoch <= 0) {
        return;
    }
    const bool is_stale = error == KAFKA_FENCED_MEMBER_EPOCH && !is_to_be_heard(o, in) &&
                          (o->is_tainted || o->is_unsure || o->is_away);
    sim_check(run->sim,
              is_stale || groups_owner_may_be_gone(run, o),
              "%.*s is thrown out without a cause: %d",
              (int)o->id.size,
              (const char *)o->id.data,
              error);
}

/* It may have taken the place of one that is away. */
static void doubt_seat(struct groups_run *run, const struct groups_owner *o, int32_t epoch)
{
    for (uint32_t i = 0; epoch == 0 && i < run->owners_count; i++) {
        struct groups_owner *old = run->owners[i];
        old->may_have_left |=
            old != o && old->group == o->group && old->is_away && is_same_seat(old, o);
    }
}

static void judge_heartbeat(struct groups_call *call)
{
    struct groups_run *run = call->run;
    struct groups_owner *o = call->owner;
    const struct consumer_group_heartbeat_request *in = call->call.in;
    const bool has_parts = in->member_epoch == 0 || in->topic_partitions_count > 0 ||
                           (in->topic_partitions != NULL && call->number == 1);
    const int16_t error = groups_call_error(call);
    if (error == KAFKA_NONE) {
        heartbeat_served(call, has_parts);
        return;
    }
    if (groups_is_unsure(error)) {
        /* It may have been served, and what it said counts then. */
        o->is_unsure = true;
        o->may_have_moved = true;
        groups_both_is_modern(run, o->group);
        said(o, run, in, has_parts);
        /* It may have been asked to give back, and its time runs. */
        o->revoke_us = o->revoke_us == 0 ? run->sim->clock.now_us : o->revoke_us;
        o->may_have_left |= in->member_epoch < 0;
        o->may_have_left |= !slice_is_null(o->instance) && in->member_epoch == 0;
        doubt_seat(run, o, in->member_epoch);
        return;
    }
    if (error == KAFKA_UNKNOWN_MEMBER_ID || error == KAFKA_FENCED_MEMBER_EPOCH ||
        error == KAFKA_GROUP_ID_NOT_FOUND) {
        thrown_out(call, error);
        if (error != KAFKA_FENCED_MEMBER_EPOCH && in->member_epoch > 0) {
            groups_owner_left(o);
        }
    }
}

/* LeaveGroup, of members or by an admin. */
static void judge_leave(struct groups_call *call)
{
    const struct leave_group_request *in = call->call.in;
    const struct leave_group_response *out = call->call.out;
    const bool is_unsure = groups_is_unsure(out->error_code);
    for (size_t i = 0; i < in->members_count; i++) {
        struct groups_owner *o =
            groups_owner_find(call->run, call->group, in->members[i].member_id);
        if (o != NULL && is_unsure) {
            o->may_have_left = true;
        } else if (o != NULL && i < out->members_count && out->members[i].error_code == 0) {
            groups_owner_left(o);
        }
    }
}

/* The place of an instance is perhaps another's now. */
static void doubt_place(const struct groups_call *call, struct slice instance, struct slice id)
{
    const struct groups_run *run = call->run;
    const bool is_classic = call->call.kind == GROUP_JOIN;
    for (uint32_t i = 0; !slice_is_null(instance) && i < run->owners_count; i++) {
        struct groups_owner *o = run->owners[i];
        /* Those of KIP-848 wait for each other. */
        o->may_have_left |= o->group == call->group && (is_classic || o->is_classic) &&
                            !slice_is_null(o->instance) && slice_equal(o->instance, instance) &&
                            !slice_equal(o->id, id);
    }
}

/* One that its client gave up, and that came after the next one of it, is late, as a copy is. */
static void note_order(struct groups_call *call)
{
    struct groups_owner *o = call->owner;
    if (o != NULL) {
        call->is_late = call->is_copy || call->order < o->order;
        o->order = call->order > o->order ? call->order : o->order;
    }
}

/* What may end somebody's place does so before it is answered itself. */
void groups_owners_there(struct groups_call *call)
{
    struct groups_run *run = call->run;
    note_order(call);
    if (call->call.kind == GROUP_LEAVE) {
        const struct leave_group_request *in = call->call.in;
        for (size_t i = 0; i < in->members_count; i++) {
            struct groups_owner *o = groups_owner_find(run, call->group, in->members[i].member_id);
            if (o != NULL) {
                o->may_have_left = true;
            }
        }
    } else if (call->call.kind == GROUP_JOIN) {
        const struct join_group_request *in = call->call.in;
        doubt_place(call, in->group_instance_id, in->member_id);
    } else if (call->call.kind == GROUP_CONSUMER_HEARTBEAT) {
        const struct consumer_group_heartbeat_request *in = call->call.in;
        if (in->member_epoch == 0) {
            doubt_place(call, in->instance_id, in->member_id);
        }
    }
}

void groups_owners_judge(struct groups_call *call)
{
    if (call->call.kind == GROUP_CONSUMER_HEARTBEAT) {
        judge_heartbeat(call);
    } else if (call->call.kind == GROUP_LEAVE) {
        judge_leave(call);
    } else if (call->call.kind == GROUP_DELETE && groups_call_error(call) == KAFKA_NONE) {
        groups_owners_reset(call->run, call->group);
    }
}
