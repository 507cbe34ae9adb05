/* Members of the classic protocol in a group of the new one, while it is migrated. To them it looks
 * like a classic group: the generation is the member's epoch, they are told to join again when
 * there is a step to take, and nobody leads. */
#include "core/assert.h"
#include "core/rand.h"
#include "groups/classic.h"
#include "groups/classic_priv.h"
#include "groups/consumer_priv.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/sync_group.h"

enum {
    USEC_PER_MS = 1000,
    MEMBER_ID_REQUIRED_VERSION = 4,
    SYNC_PROTOCOL_VERSION = 5,
    JOIN_PROTOCOL_TYPE_VERSION = 7,
    LEAVE_MEMBERS_VERSION = 3,
};

#define PROTOCOL_TYPE "consumer"

static void refuse(struct group *g, struct group_call *call, enum kafka_error e)
{
    group_refuse(g->c, call, e, NULL);
}

static const struct consumer_group_member_metadata_value_protocol *
protocol_of(const struct consumer_member *m)
{
    return &m->metadata->v.classic_member_metadata->supported_protocols[0];
}

/* It has so long for its next call: a join, or a sync after one. While it has something to give
 * back the deadline of that stands, which began when it was told: its calls alone do not move it.
 * (Kafka has no such deadline for members of the classic protocol.) */
static void expect_call(struct consumer_member *m)
{
    if (m->progress.state == MEMBER_UNREVOKED && timer_is_armed(&m->revocation.timer)) {
        return;
    }
    const int32_t timeout_ms = m->metadata->v.rebalance_timeout_ms;
    group_timer_arm(&m->revocation,
                    m->consumer->g->c->time.now_us +
                        (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * USEC_PER_MS);
}

/* ---- who it is ---- */

/* For all but joins. */
static enum kafka_error find_member(const struct consumer *c,
                                    struct slice id,
                                    struct slice instance_id,
                                    struct consumer_member **ret_member)
{
    struct consumer_member *m = consumer_find_member(c, id);
    const bool is_static = !slice_is_null(instance_id);
    if (is_static && (m == NULL || !slice_equal(member_instance_id(m), instance_id))) {
        m = consumer_find_instance(c, instance_id);
        if (m != NULL) {
            return KAFKA_FENCED_INSTANCE_ID;
        }
    }
    *ret_member = m;
    return m == NULL || m->metadata == NULL ? KAFKA_UNKNOWN_MEMBER_ID : KAFKA_NONE;
}

static enum kafka_error find_classic(const struct consumer *c,
                                     struct slice id,
                                     struct slice instance_id,
                                     struct consumer_member **ret_member)
{
    const enum kafka_error e = find_member(c, id, instance_id, ret_member);
    if (e == KAFKA_NONE && !member_is_classic(*ret_member)) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    return e;
}

/* ---- what they speak ---- */

struct slice consumer_classic_metadata(const struct consumer_group_member_metadata_value *v,
                                       struct slice protocol)
{
    const struct consumer_group_member_metadata_value_classic *classic = v->classic_member_metadata;
    for (size_t i = 0; i < classic->supported_protocols_count; i++) {
        if (slice_equal(classic->supported_protocols[i].name, protocol)) {
            return classic->supported_protocols[i].metadata;
        }
    }
    return (struct slice){0};
}

struct question {
    struct slice protocol;
    bool is_spoken; /* By all that were asked. */
};

static void ask(void *context, struct consumer_member *m)
{
    struct question *q = context;
    if (q->is_spoken && member_is_classic(m) && !m->is_going) {
        q->is_spoken = !slice_is_null(consumer_classic_metadata(&m->metadata->v, q->protocol));
    }
}

bool consumer_classic_do_all_speak(const struct consumer *c, struct slice protocol)
{
    struct question q = {protocol, true};
    consumer_for_each_member(c, ask, &q);
    return q.is_spoken;
}

/* Else the group could not become classic again: as classic_fits. */
static bool fits(const struct consumer *c, const struct join_group_request *in)
{
    for (size_t i = 0; i < in->protocols_count; i++) {
        if (consumer_classic_do_all_speak(c, in->protocols[i].name)) {
            return true;
        }
    }
    return false;
}

/* ---- JoinGroup: what is checked ---- */

static enum kafka_error check_join(const struct group *g, const struct join_group_request *in)
{
    const struct groups_settings *s = g->c->env->settings;
    if (in->session_timeout_ms < s->session_timeout_ms_min ||
        in->session_timeout_ms > s->session_timeout_ms_max) {
        return KAFKA_INVALID_SESSION_TIMEOUT;
    }
    if (in->protocols_count == 0 || in->protocols_count > CLASSIC_PROTOCOLS_MAX ||
        !slice_equal_string(in->protocol_type, PROTOCOL_TYPE) || !fits(g->consumer, in)) {
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
    }
    return KAFKA_NONE;
}

/* Static members; null as error: it may join. */
static enum kafka_error find_static(const struct consumer *c,
                                    const struct join_group_request *in,
                                    struct consumer_speaker *ret_who)
{
    struct consumer_member *m = consumer_find_instance(c, in->group_instance_id);
    if (in->member_id.size == 0) {
        ret_who->former = m;
        return KAFKA_NONE;
    }
    if (m == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    ret_who->member = m;
    return slice_equal(member_id(m), in->member_id) ? KAFKA_NONE : KAFKA_FENCED_INSTANCE_ID;
}

static enum kafka_error find_speaker(const struct consumer *c,
                                     const struct join_group_request *in,
                                     struct consumer_speaker *ret_who)
{
    *ret_who = (struct consumer_speaker){0};
    if (!slice_is_null(in->group_instance_id)) {
        return find_static(c, in, ret_who);
    }
    struct consumer_member *m = consumer_find_member(c, in->member_id);
    ret_who->member = m == NULL || m->metadata == NULL ? NULL : m;
    return KAFKA_NONE;
}

static bool has_place(const struct consumer *c, const struct consumer_speaker *who)
{
    const struct coordinator_env *env = c->g->c->env;
    const bool is_new = who->member == NULL && who->former == NULL;
    return !is_new || (c->members.count < (uint32_t)env->settings->consumer_members_max &&
                       env->memory->members_count < env->memory->members_max);
}

static struct slice make_member_id(struct group_call *call, struct group *g)
{
    char text[UUID_TEXT_SIZE];
    const struct uuid id = rand_uuid(g->c->env->rand);
    uuid_format(&id, text);
    return group_call_copy(call, slice_of_string(text));
}

/* ---- JoinGroup: the group becomes classic ---- */

/* Then so is the group, once a classic member comes in its place. */
static bool is_last_of_its_kind(const struct consumer *c, const struct consumer_member *former)
{
    const uint32_t members_max = (uint32_t)c->g->c->env->settings->members_max;
    return !member_is_classic(former) && c->classic_count == c->members.count - 1 &&
           consumer_may_downgrade(c) && c->members.count <= members_max;
}

static void on_classic(struct proposal *p, enum err e)
{
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    classic_join(p->g, p->call);
}

/* Nobody is in the group. */
static void join_classic(struct group *g, struct group_call *call)
{
    struct proposal *p = proposal_new(g, PROPOSAL_EXCLUSIVE, on_classic);
    if (p == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    p->call = call;
    consumer_put_tombstones(g, p);
    proposal_submit(p);
}

/* ---- JoinGroup ---- */

void consumer_answer_join(struct consumer_beat *b, int32_t generation, struct slice protocol)
{
    struct group_call *call = b->call;
    struct join_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        join_group_response_init(out);
        out->generation_id = generation;
        if (call->version >= JOIN_PROTOCOL_TYPE_VERSION) {
            out->protocol_type = slice_of_string(PROTOCOL_TYPE);
        }
        out->protocol_name = group_call_copy(call, protocol);
        out->member_id = b->member_id;
        call->out = call->is_out_of_memory ? NULL : out;
    }
    group_answer(b->g->c, call);
}

static void answer_join(struct consumer_beat *b)
{
    struct consumer *c = b->g->consumer;
    struct consumer_member *m = consumer_find_member(c, b->member_id);
    member_touch(m);
    expect_call(m);
    consumer_schedule_target(c);
    consumer_answer_join(b, m->progress.epoch, protocol_of(m)->name);
}

/* Of the request, as a member's record has it; also sets what it owns. ERR_CORRUPT: it cannot be
 * read; else there is no memory. */
static enum err read_join(struct consumer_beat *b, struct consumer_group_member_metadata_value *v)
{
    const struct join_group_request *in = b->call->in;
    struct arena *a = &b->call->arena;
    struct consumer_protocol_subscription subscription;
    struct consumer_group_member_metadata_value_classic *classic = arena_alloc(a, sizeof(*classic));
    if (classic == NULL) {
        return ERR_TOO_LARGE;
    }
    enum err e = consumer_read_subscription(in->protocols[0].metadata, a, &subscription);
    if (e == ERR_OK) {
        e = consumer_read_owned(b->g->c->env, &subscription, a, &b->owned);
    }
    if (e != ERR_OK) {
        return e;
    }
    b->has_owned = true;
    classic->session_timeout_ms = in->session_timeout_ms;
    classic->supported_protocols_count = in->protocols_count;
    classic->supported_protocols =
        arena_alloc_array(a, in->protocols_count, sizeof(*classic->supported_protocols));
    if (classic->supported_protocols == NULL) {
        return ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < in->protocols_count; i++) {
        classic->supported_protocols[i].name = in->protocols[i].name;
        classic->supported_protocols[i].metadata = in->protocols[i].metadata;
    }
    consumer_group_member_metadata_value_init(v);
    v->instance_id = in->group_instance_id;
    v->client_id = slice_is_null(b->call->client_id) ? slice_of("", 0) : b->call->client_id;
    v->client_host = slice_is_null(b->call->client_host) ? slice_of("", 0) : b->call->client_host;
    v->rebalance_timeout_ms =
        in->rebalance_timeout_ms < 0 ? in->session_timeout_ms : in->rebalance_timeout_ms;
    v->server_assignor = (struct slice){0};
    v->classic_member_metadata = classic;
    return consumer_set_subscription(v, &subscription, a);
}

static void join(struct group *g, struct group_call *call, const struct consumer_speaker *who)
{
    const struct join_group_request *in = call->in;
    struct consumer_beat *b = group_call_alloc(call, 1, sizeof(*b));
    struct consumer_group_member_metadata_value v;
    if (b == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    b->g = g;
    b->call = call;
    b->answer = answer_join;
    b->member_id =
        in->member_id.size == 0 ? make_member_id(call, g) : group_call_copy(call, in->member_id);
    const enum err e = slice_is_null(b->member_id) ? ERR_TOO_LARGE : read_join(b, &v);
    if (e != ERR_OK && e != ERR_CORRUPT) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
    } else if (e == ERR_CORRUPT) {
        classic_refuse_join(g, call, KAFKA_INCONSISTENT_GROUP_PROTOCOL, slice_of("", 0));
    } else if (!consumer_has_room_for_names(g, who, &v) || !consumer_has_room(g, who, &v)) {
        classic_refuse_join(g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
    } else if (who->former != NULL && is_last_of_its_kind(g->consumer, who->former)) {
        consumer_downgrade(b, who->former, &v);
    } else {
        consumer_say(b, who, &v);
    }
}

void consumer_classic_join(struct group *g, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct consumer *c = g->consumer;
    struct consumer_speaker who = {0};
    enum kafka_error e = check_join(g, in);
    if (e == KAFKA_INVALID_SESSION_TIMEOUT) {
        refuse(g, call, e);
        return;
    }
    if (e == KAFKA_NONE && c->members.count == 0) {
        join_classic(g, call);
        return;
    }
    if (e == KAFKA_NONE) {
        e = find_speaker(c, in, &who);
    }
    if (e != KAFKA_NONE) {
        classic_refuse_join(g, call, e, slice_of("", 0));
        return;
    }
    const bool is_dynamic = slice_is_null(in->group_instance_id);
    if (!has_place(c, &who)) {
        classic_refuse_join(g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
    } else if (in->member_id.size == 0 && is_dynamic &&
               call->version >= MEMBER_ID_REQUIRED_VERSION) {
        classic_refuse_join(g, call, KAFKA_MEMBER_ID_REQUIRED, make_member_id(call, g));
    } else {
        join(g, call, &who);
    }
}

/* ---- SyncGroup ---- */

static enum kafka_error check_sync(const struct group *g,
                                   const struct group_call *call,
                                   struct consumer_member **ret_member)
{
    const struct sync_group_request *in = call->in;
    const bool has_protocol = call->version >= SYNC_PROTOCOL_VERSION;
    if (has_protocol && (slice_is_null(in->protocol_type) || slice_is_null(in->protocol_name))) {
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
    }
    const enum kafka_error e =
        find_classic(g->consumer, in->member_id, in->group_instance_id, ret_member);
    if (e != KAFKA_NONE) {
        return e;
    }
    const struct consumer_member *m = *ret_member;
    if (in->generation_id != m->progress.epoch) {
        return KAFKA_ILLEGAL_GENERATION;
    }
    if (has_protocol && (!slice_equal_string(in->protocol_type, PROTOCOL_TYPE) ||
                         !slice_equal(in->protocol_name, protocol_of(m)->name))) {
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
    }
    /* In the old epoch it has joined again only if it has something to give back. */
    const bool is_behind = group_epoch_is_later(g->consumer->target_epoch, m->progress.epoch);
    return is_behind && m->progress.state != MEMBER_UNREVOKED ? KAFKA_REBALANCE_IN_PROGRESS
                                                              : KAFKA_NONE;
}

void consumer_classic_sync(struct group *g, struct group_call *call)
{
    struct consumer_member *m = NULL;
    const enum kafka_error e = check_sync(g, call, &m);
    if (e != KAFKA_NONE) {
        refuse(g, call, e);
        return;
    }
    member_touch(m);
    if (m->progress.state != MEMBER_UNREVOKED) {
        group_timer_cancel(&m->revocation);
    }
    struct sync_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        sync_group_response_init(out);
        if (call->version >= SYNC_PROTOCOL_VERSION) {
            out->protocol_type = slice_of_string(PROTOCOL_TYPE);
            out->protocol_name = group_call_copy(call, protocol_of(m)->name);
        }
        out->assignment = consumer_write_assignment(
            g->c->env, &m->progress.assigned, protocol_of(m)->metadata, &call->arena);
    }
    const bool is_whole = out != NULL && !slice_is_null(out->assignment);
    call->is_out_of_memory = call->is_out_of_memory || !is_whole;
    call->out = is_whole ? out : NULL;
    group_answer(g->c, call);
}

/* ---- Heartbeat ---- */

/* It has a step to take, for which it has to join again. */
static bool has_to_join(const struct consumer_member *m)
{
    struct arena a;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    struct reconcile_input in;
    struct member_progress next;
    const bool has_step = !consumer_reconcile_begin(m, &a, &in) ||
                          !consumer_reconcile(&in, &a, &next) ||
                          !member_progress_equal(&next, &m->progress);
    arena_done(&a);
    return has_step || m->progress.state == MEMBER_UNREVOKED;
}

void consumer_classic_heartbeat(struct group *g, struct group_call *call)
{
    const struct heartbeat_request *in = call->in;
    struct consumer_member *m = NULL;
    enum kafka_error e = find_classic(g->consumer, in->member_id, in->group_instance_id, &m);
    if (e == KAFKA_NONE && in->generation_id != m->progress.epoch) {
        e = KAFKA_ILLEGAL_GENERATION;
    }
    if (e == KAFKA_NONE) {
        member_touch(m);
        if (has_to_join(m)) {
            e = KAFKA_REBALANCE_IN_PROGRESS;
            if (!timer_is_armed(&m->revocation.timer)) {
                expect_call(m);
            }
        }
    }
    refuse(g, call, e);
}

/* ---- LeaveGroup: of both protocols' members ---- */

static void on_left(struct proposal *p, enum err e)
{
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    consumer_on_removed(p->g);
    p->call->out = p->context;
    group_answer(p->c, p->call);
}

static enum kafka_error find_leaving(const struct consumer *c,
                                     const struct leave_group_request_member *who,
                                     struct consumer_member **ret_member)
{
    if (who->member_id.size == 0 && !slice_is_null(who->group_instance_id)) {
        *ret_member = consumer_find_instance(c, who->group_instance_id);
        return *ret_member == NULL ? KAFKA_UNKNOWN_MEMBER_ID : KAFKA_NONE;
    }
    return find_member(c, who->member_id, who->group_instance_id, ret_member);
}

/* Judges all, before any of them goes. */
static size_t judge_leaving(struct consumer *c,
                            const struct leave_group_request *in,
                            struct leave_group_response *out,
                            struct consumer_member **members)
{
    size_t count = 0;
    for (size_t i = 0; i < in->members_count; i++) {
        struct consumer_member *m = NULL;
        struct leave_group_response_member *to = &out->members[out->members_count++];
        leave_group_response_member_init(to);
        to->member_id = in->members[i].member_id;
        to->group_instance_id = in->members[i].group_instance_id;
        to->error_code = (int16_t)find_leaving(c, &in->members[i], &m);
        if (to->error_code == KAFKA_NONE && !m->is_going) {
            m->is_going = true;
            members[count++] = m;
        }
    }
    for (size_t i = 0; i < count; i++) {
        members[i]->is_going = false;
    }
    return count;
}

static void leave(struct group *g,
                  struct group_call *call,
                  struct leave_group_response *out,
                  struct consumer_member *const *members,
                  size_t count)
{
    if (count == 0) {
        call->out = out;
        group_answer(g->c, call);
        return;
    }
    struct proposal *p = proposal_new(g, PROPOSAL_EXCLUSIVE, on_left);
    if (p == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    p->call = call;
    p->context = out;
    consumer_put_removal(g->consumer, p, members, count);
    proposal_submit(p);
}

void consumer_classic_leave(struct group *g, struct group_call *call)
{
    const struct leave_group_request *in = call->in;
    struct leave_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    const size_t room = in->members_count + 1;
    struct consumer_member **members = group_call_alloc(call, room, sizeof(*members));
    struct leave_group_response_member *answers = group_call_alloc(call, room, sizeof(*answers));
    if (out == NULL || members == NULL || answers == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    leave_group_response_init(out);
    out->members = answers;
    size_t count = 0;
    if (call->version < LEAVE_MEMBERS_VERSION) {
        const enum kafka_error e =
            find_member(g->consumer, in->member_id, (struct slice){0}, &members[0]);
        out->error_code = (int16_t)e;
        count = e == KAFKA_NONE ? 1 : 0;
    } else {
        count = judge_leaving(g->consumer, in, out, members);
    }
    leave(g, call, out, members, count);
}
