/* SyncGroup, Heartbeat, LeaveGroup, and whether a member may commit offsets. */
#include "groups/classic_priv.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/sync_group.h"

enum {
    SYNC_PROTOCOL_VERSION = 5,
    LEAVE_MEMBERS_VERSION = 3,
    COMMIT_GROUP_NOT_FOUND_VERSION = 9,
};

static void refuse(struct group *g, struct group_call *call, enum kafka_error e)
{
    group_refuse(g->c, call, e, NULL);
}

/* ---- SyncGroup ---- */

static void answer_sync(struct classic *c, struct group_call *call, const struct classic_member *m)
{
    const struct group_metadata_value_member *durable =
        classic_record_member(c, m->identity->member_id);
    struct sync_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        sync_group_response_init(out);
        if (call->version >= SYNC_PROTOCOL_VERSION) {
            out->protocol_type = group_call_copy(call, c->protocol_type);
            out->protocol_name = group_call_copy(call, c->protocol);
        }
        if (durable != NULL) {
            out->assignment = group_call_copy(call, durable->assignment);
        }
        call->out = call->is_out_of_memory ? NULL : out;
    }
    group_answer(classic_coordinator(c), call);
}

void classic_refuse_syncs(struct classic *c, enum kafka_error e)
{
    list_for_each (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        if (!m->is_syncing) {
            continue;
        }
        struct group_call *call = classic_member_take_sync(m);
        classic_member_touch(m);
        if (call != NULL) {
            refuse(c->g, call, e);
        }
    }
}

static void on_assigned(struct classic *c, enum err e)
{
    if (e != ERR_OK) {
        reached(classic_coordinator(c)->env, "classic_not_assigned");
        classic_refuse_syncs(c, proposal_error(e));
        classic_prepare(c);
        return;
    }
    c->state = CLASSIC_STABLE;
    list_for_each (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        if (!m->is_syncing) {
            continue;
        }
        struct group_call *call = classic_member_take_sync(m);
        classic_member_touch(m);
        if (call != NULL) {
            answer_sync(c, call, m);
        }
    }
    classic_stop_waiting_for_syncs(c);
}

/* Who is named twice has the last, who is not named nothing; strangers do not count. False without
 * memory. */
static bool add_assignments(struct classic_draft *d, const struct sync_group_request *in)
{
    struct group_metadata_value_member **by_id = classic_sort_by_id(&d->value, &d->arena);
    if (by_id == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->assignments_count; i++) {
        struct group_metadata_value_member *found =
            classic_find_by_id(by_id, d->value.members_count, in->assignments[i].member_id);
        if (found != NULL) {
            found->assignment = in->assignments[i].assignment;
        }
    }
    return true;
}

static int64_t size_of_assignments(const struct group_metadata_value *v)
{
    int64_t size = 0;
    for (size_t i = 0; i < v->members_count; i++) {
        size += (int64_t)v->members[i].assignment.size;
    }
    return size;
}

/* False without room. */
static bool draft_assigned(const struct classic *c,
                           const struct sync_group_request *in,
                           struct classic_draft *d)
{
    if (!classic_draft_init(d, c, c->members_count)) {
        return false;
    }
    list_for_each (link, &c->members) {
        const struct classic_member *m = classic_member_at(link);
        struct group_metadata_value_member *to = &d->value.members[d->value.members_count++];
        group_metadata_value_member_init(to);
        to->member_id = m->identity->member_id;
        to->group_instance_id = m->identity->instance_id;
        to->client_id = m->identity->client_id;
        to->client_host = m->identity->client_host;
        to->rebalance_timeout = m->rebalance_timeout_ms;
        to->session_timeout = m->session_timeout_ms;
        to->subscription = classic_protocols_metadata(m->protocols, c->protocol);
    }
    if (!add_assignments(d, in)) {
        return false;
    }
    const int64_t before = c->durable == NULL ? 0 : size_of_assignments(&c->durable->value);
    return group_memory_has_room(classic_coordinator(c)->env->memory,
                                 size_of_assignments(&d->value) - before);
}

static void assign(struct classic *c, const struct sync_group_request *in)
{
    const struct classic_write write = {.on_done = on_assigned};
    struct classic_draft d;
    if (draft_assigned(c, in, &d)) {
        classic_write_draft(c, &d, &write);
    } else {
        classic_draft_done(&d);
        on_assigned(c, ERR_TOO_LARGE);
    }
}

static enum kafka_error
check_sync(const struct group *g, const struct group_call *call, struct classic_member **ret_member)
{
    const struct sync_group_request *in = call->in;
    const struct classic *c = g->classic;
    const bool has_protocol = call->version >= SYNC_PROTOCOL_VERSION;
    if (has_protocol && (slice_is_null(in->protocol_type) || slice_is_null(in->protocol_name))) {
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
    }
    if (g->id_size == 0) {
        return KAFKA_INVALID_GROUP_ID;
    }
    if (c == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    const enum kafka_error e =
        classic_member_check(c, in->member_id, in->group_instance_id, ret_member);
    if (e != KAFKA_NONE) {
        return e;
    }
    if (in->generation_id != c->generation) {
        return KAFKA_ILLEGAL_GENERATION;
    }
    const bool is_same = slice_equal(in->protocol_type, c->protocol_type) &&
                         slice_equal(in->protocol_name, c->protocol);
    return has_protocol && !is_same ? KAFKA_INCONSISTENT_GROUP_PROTOCOL : KAFKA_NONE;
}

/* Waits for the leader's assignment; the leader brings it. */
static void await_assignment(struct classic *c, struct classic_member *m, struct group_call *call)
{
    const bool is_hurried = call->is_hurried;
    classic_member_keep_sync(m, call);
    if (m == c->leader) {
        assign(c, call->in);
    }
    if (is_hurried && m->sync == call) { /* Still: whoever sent it is gone. */
        call->on_cancel(call);
    }
}

void classic_sync(struct group *g, struct group_call *call)
{
    struct classic_member *m = NULL;
    const enum kafka_error e = check_sync(g, call, &m);
    if (e != KAFKA_NONE) {
        refuse(g, call, e);
        return;
    }
    struct classic *c = g->classic;
    switch (c->state) {
    case CLASSIC_EMPTY:
        refuse(g, call, KAFKA_UNKNOWN_MEMBER_ID);
        break;
    case CLASSIC_PREPARING:
        refuse(g, call, KAFKA_REBALANCE_IN_PROGRESS);
        break;
    case CLASSIC_COMPLETING:
        m->is_sync_due = false;
        await_assignment(c, m, call);
        break;
    case CLASSIC_STABLE:
        m->is_sync_due = false;
        classic_member_touch(m);
        answer_sync(c, call, m);
        classic_stop_waiting_for_syncs(c);
        break;
    }
}

/* ---- Heartbeat ---- */

static enum kafka_error check_heartbeat(struct group *g, const struct heartbeat_request *in)
{
    const struct classic *c = g->classic;
    if (g->id_size == 0) {
        return KAFKA_INVALID_GROUP_ID;
    }
    if (c == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    struct classic_member *m = NULL;
    const enum kafka_error e = classic_member_check(c, in->member_id, in->group_instance_id, &m);
    if (e != KAFKA_NONE) {
        return e;
    }
    if (in->generation_id != c->generation) {
        return KAFKA_ILLEGAL_GENERATION;
    }
    classic_member_touch(m);
    return c->state == CLASSIC_PREPARING ? KAFKA_REBALANCE_IN_PROGRESS : KAFKA_NONE;
}

void classic_heartbeat(struct group *g, struct group_call *call)
{
    refuse(g, call, check_heartbeat(g, call->in));
}

/* ---- LeaveGroup ---- */

static enum kafka_error find_leaving(const struct classic *c,
                                     const struct leave_group_request_member *who,
                                     struct classic_member **ret_member)
{
    if (who->member_id.size > 0) {
        return classic_member_check(c, who->member_id, who->group_instance_id, ret_member);
    }
    /* An administrator removes static members so. */
    struct classic_member *m = NULL;
    if (!slice_is_null(who->group_instance_id)) {
        m = classic_member_find_instance(c, who->group_instance_id);
    }
    *ret_member = m;
    return m == NULL ? KAFKA_UNKNOWN_MEMBER_ID : KAFKA_NONE;
}

static enum kafka_error
leave(struct classic *c, const struct leave_group_request_member *who, bool *is_changed)
{
    if (c == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    struct classic_pending *p = classic_pending_find(c, who->member_id);
    if (p != NULL) {
        classic_pending_remove(p);
        *is_changed = *is_changed || c->state == CLASSIC_PREPARING;
        return KAFKA_NONE;
    }
    struct classic_member *m = NULL;
    const enum kafka_error e = find_leaving(c, who, &m);
    if (e == KAFKA_NONE) {
        classic_member_remove(m, KAFKA_UNKNOWN_MEMBER_ID);
        *is_changed = true;
    }
    return e;
}

/* Ends the call, unless the group is empty now: that has to be durable first. */
static void end_leave(struct group *g, struct group_call *call, bool is_changed)
{
    struct classic *c = g->classic;
    if (is_changed) {
        c->leaving = call;
        classic_on_changed(c);
        const bool is_waiting = c->leaving == NULL;
        c->leaving = NULL;
        if (is_waiting) {
            return;
        }
    }
    group_answer(g->c, call);
    if (c != NULL) {
        classic_drop_unused(c);
    }
}

static struct leave_group_response *new_leave_answer(struct group_call *call)
{
    const struct leave_group_request *in = call->in;
    struct leave_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out == NULL) {
        return NULL;
    }
    leave_group_response_init(out);
    out->members = group_call_alloc(call, in->members_count, sizeof(*out->members));
    return out->members == NULL ? NULL : out;
}

void classic_leave(struct group *g, struct group_call *call)
{
    const struct leave_group_request *in = call->in;
    if (g->id_size == 0) {
        refuse(g, call, KAFKA_INVALID_GROUP_ID);
        return;
    }
    struct leave_group_response *out = new_leave_answer(call);
    if (out == NULL) {
        group_answer(g->c, call);
        return;
    }
    call->out = out;
    bool is_changed = false;
    if (call->version < LEAVE_MEMBERS_VERSION) {
        const struct leave_group_request_member who = {.member_id = in->member_id};
        out->error_code = (int16_t)leave(g->classic, &who, &is_changed);
        end_leave(g, call, is_changed);
        return;
    }
    for (size_t i = 0; i < in->members_count; i++) {
        struct leave_group_response_member *to = &out->members[out->members_count++];
        leave_group_response_member_init(to);
        to->member_id = in->members[i].member_id;
        to->group_instance_id = in->members[i].group_instance_id;
        to->error_code = (int16_t)leave(g->classic, &in->members[i], &is_changed);
    }
    end_leave(g, call, is_changed);
}

/* ---- OffsetCommit ---- */

enum kafka_error
classic_check_commit(struct group *g, const struct offset_commit_request *in, int16_t version)
{
    const struct classic *c = g->classic;
    const bool is_simple = in->generation_id_or_member_epoch < 0;
    if (!group_exists(g) && !is_simple) {
        const bool is_new = version >= COMMIT_GROUP_NOT_FOUND_VERSION;
        return is_new ? KAFKA_GROUP_ID_NOT_FOUND : KAFKA_ILLEGAL_GENERATION;
    }
    if (c == NULL || c->members_count == 0) {
        return is_simple ? KAFKA_NONE : KAFKA_UNKNOWN_MEMBER_ID;
    }
    struct classic_member *m = NULL;
    const enum kafka_error e = classic_member_check(c, in->member_id, in->group_instance_id, &m);
    if (e != KAFKA_NONE) {
        return e;
    }
    if (in->generation_id_or_member_epoch != c->generation) {
        return KAFKA_ILLEGAL_GENERATION;
    }
    if (c->state == CLASSIC_COMPLETING) {
        return KAFKA_REBALANCE_IN_PROGRESS;
    }
    classic_member_touch(m);
    return KAFKA_NONE;
}
