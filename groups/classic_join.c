/* JoinGroup: who comes, and whether it starts a rebalance. */
#include <string.h>

#include "core/rand.h"
#include "groups/classic_priv.h"
#include "groups/settings.h"

enum {
    TEXT_SIZE_MAX = INT16_MAX,
    UUID_HEX_SIZE = 36, /* As Java writes it. */
    MEMBER_ID_REQUIRED_VERSION = 4,
    PROTOCOL_TYPE_VERSION = 7,
    SKIP_ASSIGNMENT_VERSION = 9,
};

/* ---- answers ---- */

static void add_members_of(const struct classic *c,
                           bool is_static,
                           struct group_call *call,
                           struct join_group_response *out)
{
    list_for_each (link, &c->members) {
        const struct classic_member *m = classic_member_at(link);
        if (slice_is_null(m->identity->instance_id) == is_static) {
            continue;
        }
        struct join_group_response_member *to = &out->members[out->members_count++];
        to->member_id = group_call_copy(call, m->identity->member_id);
        to->group_instance_id = group_call_copy(call, m->identity->instance_id);
        to->metadata = group_call_copy(call, classic_protocols_metadata(m->protocols, c->protocol));
    }
}

/* Static ones first: the assignors of kafka-python 3 (RangePartitionAssignor) give nothing to
 * members of one kind that stand before and behind one of the other. */
static bool
add_members(const struct classic *c, struct group_call *call, struct join_group_response *out)
{
    out->members = group_call_alloc(call, c->members_count, sizeof(*out->members));
    if (out->members == NULL) {
        return false;
    }
    add_members_of(c, true, call, out);
    add_members_of(c, false, call, out);
    return !call->is_out_of_memory;
}

static void
fill_joined(const struct classic *c, struct group_call *call, const struct classic_joined *joined)
{
    struct join_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out == NULL) {
        return;
    }
    join_group_response_init(out);
    out->generation_id = c->generation;
    if (call->version >= PROTOCOL_TYPE_VERSION) {
        out->protocol_type = group_call_copy(call, c->protocol_type);
    }
    out->protocol_name = group_call_copy(call, c->protocol);
    out->leader = group_call_copy(call, joined->leader);
    out->member_id = group_call_copy(call, joined->member->identity->member_id);
    out->skip_assignment = joined->is_skipping;
    const bool is_whole = !joined->has_members || add_members(c, call, out);
    call->out = is_whole && !call->is_out_of_memory ? out : NULL;
}

void classic_answer_join(struct classic *c,
                         struct group_call *call,
                         const struct classic_joined *joined)
{
    fill_joined(c, call, joined);
    group_answer(classic_coordinator(c), call);
}

static void answer_current(struct classic *c, struct group_call *call, struct classic_member *m)
{
    const struct classic_joined joined = {
        .member = m,
        .leader = c->leader->identity->member_id,
        .has_members = m == c->leader,
    };
    classic_answer_join(c, call, &joined);
}

static void refuse(struct group *g, struct group_call *call, enum kafka_error e)
{
    group_refuse(g->c, call, e, NULL);
}

void classic_refuse_join(struct group *g,
                         struct group_call *call,
                         enum kafka_error e,
                         struct slice member_id)
{
    group_call_refuse(call, e, (struct slice){0});
    struct join_group_response *out = call->out;
    if (out != NULL) {
        out->member_id = group_call_copy(call, member_id);
    }
    if (call->is_out_of_memory) {
        call->out = NULL;
    }
    group_answer(g->c, call);
}

/* ---- what is checked ---- */

static enum kafka_error check_request(const struct group *g, const struct join_group_request *in)
{
    const struct groups_settings *s = g->c->env->settings;
    if (g->id_size == 0) {
        return KAFKA_INVALID_GROUP_ID;
    }
    if (in->session_timeout_ms < s->session_timeout_ms_min ||
        in->session_timeout_ms > s->session_timeout_ms_max) {
        return KAFKA_INVALID_SESSION_TIMEOUT;
    }
    if (in->protocols_count == 0 || in->protocols_count > CLASSIC_PROTOCOLS_MAX ||
        in->protocol_type.size == 0) {
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL;
    }
    return KAFKA_NONE;
}

/* group.max.size. Who is in already stays, but in a rebalance only so many come in again. */
static bool has_place(const struct classic *c, const struct classic_member *m)
{
    const uint32_t members_max = (uint32_t)classic_coordinator(c)->env->settings->members_max;
    switch (c->state) {
    case CLASSIC_EMPTY:
        return true;
    case CLASSIC_PREPARING:
        return (m != NULL && m->is_joining) || c->joining_count < members_max;
    case CLASSIC_COMPLETING:
    case CLASSIC_STABLE:
        break;
    }
    return m != NULL || c->members_count < members_max;
}

/* Whether what m says now has room, and later its record; NULL = a new member. Who says no more
 * than before always has. */
static bool has_room(const struct classic *c,
                     const struct classic_member *m,
                     const struct join_group_request *in)
{
    const struct group_memory *memory = classic_coordinator(c)->env->memory;
    const int64_t before = m == NULL ? 0 : (int64_t)m->protocols->said_size;
    const int64_t growth = (int64_t)classic_said_size(in->protocols, in->protocols_count) - before;
    if (m != NULL && growth <= 0) {
        return true;
    }
    int64_t all = growth;
    list_for_each (link, &c->members) {
        all += (int64_t)classic_member_at(link)->protocols->said_size;
    }
    const int64_t member_size = m == NULL ? (int64_t)sizeof(*m) : 0;
    return all <= CLASSIC_METADATA_SIZE_MAX &&
           group_memory_has_room(memory, 2 * growth + member_size) &&
           (m != NULL || memory->members_count < memory->members_max);
}

/* ---- new members ---- */

/* "<client id or instance id>-<uuid>" in the call's memory. Null without memory. */
static struct slice make_member_id(struct group *g, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct slice name =
        slice_is_null(in->group_instance_id) ? call->client_id : in->group_instance_id;
    if (name.size > TEXT_SIZE_MAX - UUID_HEX_SIZE - 1) {
        name.size = TEXT_SIZE_MAX - UUID_HEX_SIZE - 1;
    }
    const size_t size = name.size + 1 + UUID_HEX_SIZE;
    char *id = group_call_alloc(call, size, 1);
    if (id == NULL) {
        return (struct slice){0};
    }
    if (name.size > 0) {
        memcpy(id, name.data, name.size);
    }
    static const char DIGITS[] = "0123456789abcdef";
    const struct uuid u = rand_uuid(g->c->env->rand);
    char *at = id + name.size;
    for (size_t i = 0; i < UUID_SIZE; i++) {
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        *at++ = DIGITS[u.bytes[i] >> 4];
        *at++ = DIGITS[u.bytes[i] & 0xf];
    }
    return slice_of(id, size);
}

static struct classic_identity *
new_identity(struct classic *c, const struct group_call *call, struct slice member_id)
{
    const struct join_group_request *in = call->in;
    const struct classic_identity identity = {
        .member_id = member_id,
        .instance_id = in->group_instance_id,
        .client_id = call->client_id,
        .client_host = call->client_host,
    };
    return classic_identity_new(c, &identity);
}

static void set_timeouts(struct classic_member *m, const struct join_group_request *in)
{
    const bool is_given = in->rebalance_timeout_ms >= 0; /* Not in v0. */
    m->session_timeout_ms = in->session_timeout_ms;
    m->rebalance_timeout_ms = is_given ? in->rebalance_timeout_ms : in->session_timeout_ms;
}

static void add_member(struct classic *c, struct group_call *call, struct slice member_id)
{
    const struct join_group_request *in = call->in;
    struct group *g = c->g;
    if (!has_room(c, NULL, in)) {
        classic_refuse_join(g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
        return;
    }
    if (c->members_count == 0 && !classic_text_set(c, &c->protocol_type, in->protocol_type)) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    struct classic_member *m =
        classic_member_add(c,
                           new_identity(c, call, member_id),
                           classic_protocols_new(c, in->protocols, in->protocols_count));
    if (m == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    set_timeouts(m, in);
    m->is_new = true;
    c->is_member_added = true;
    classic_member_keep_join(m, call);
    group_timer_arm(&m->session, g->c->time.now_us + (uint64_t)CLASSIC_NEW_MEMBER_MS * 1000);
    classic_on_changed(c);
}

/* It is to come again with the id it gets: who never hears the answer leaves no member behind. */
static void give_member_id(struct classic *c, struct group_call *call, struct slice member_id)
{
    const struct join_group_request *in = call->in;
    if (!has_room(c, NULL, in)) {
        classic_refuse_join(c->g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
    } else if (!classic_pending_add(c, member_id, in->session_timeout_ms)) {
        refuse(c->g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
    } else {
        classic_refuse_join(c->g, call, KAFKA_MEMBER_ID_REQUIRED, member_id);
    }
}

/* ---- members that are known ---- */

static void update_member(struct classic *c, struct classic_member *m, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    if (!has_room(c, m, in)) {
        classic_refuse_join(c->g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
        return;
    }
    struct classic_protocols *protocols =
        classic_protocols_new(c, in->protocols, in->protocols_count);
    if (protocols == NULL) {
        refuse(c->g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    classic_protocols_free(c, m->protocols);
    m->protocols = protocols;
    set_timeouts(m, in);
    classic_member_keep_join(m, call);
    classic_on_changed(c);
}

/* ---- a static member that comes back ---- */

/* In a stable group all stays as it was, if the protocol does. */
static bool may_stay_stable(const struct classic *c)
{
    return c->state == CLASSIC_STABLE && slice_equal(classic_select_protocol(c), c->protocol);
}

static void answer_replaced(struct classic *c, struct classic_member *m, struct slice leader_before)
{
    struct group_call *call = c->write.call;
    const bool can_skip = call->version >= SKIP_ASSIGNMENT_VERSION;
    if (!can_skip && m == c->leader) {
        /* Else it would assign, and nobody would get that. */
        reached(classic_coordinator(c)->env, "classic_old_leader_named");
    }
    const struct classic_joined joined = {
        .member = m,
        .leader = can_skip ? c->leader->identity->member_id : leader_before,
        .has_members = can_skip && m == c->leader,
        .is_skipping = can_skip && m == c->leader,
    };
    classic_answer_join(c, call, &joined);
}

static void on_replaced(struct classic *c, enum err e)
{
    const struct classic_write write = c->write;
    struct classic_member *m = write.replaced;
    if (e != ERR_OK) {
        classic_identity_free(c, write.identity);
        classic_protocols_free(c, write.protocols);
        refuse(c->g, write.call, proposal_error(e));
        return;
    }
    classic_member_refuse(m, KAFKA_FENCED_INSTANCE_ID);
    const struct slice leader_before = c->leader->identity->member_id;
    classic_protocols_free(c, m->protocols);
    struct classic_identity *before = classic_member_rename(m, write.identity);
    m->protocols = write.protocols;
    set_timeouts(m, write.call->in);
    classic_member_touch(m);
    if (may_stay_stable(c)) {
        answer_replaced(c, m, leader_before);
    } else {
        classic_member_keep_join(m, write.call);
        classic_on_changed(c);
    }
    classic_identity_free(c, before);
}

/* The last record with m's new self in it. */
static bool
draft_replaced(const struct classic *c, const struct classic_write *write, struct classic_draft *d)
{
    const struct group_metadata_value *now = &c->durable->value;
    const struct slice before = write->replaced->identity->member_id;
    const struct join_group_request *in = write->call->in;
    if (!classic_draft_init(d, c, now->members_count)) {
        return false;
    }
    struct group_metadata_value_member *members = d->value.members;
    d->value = *now;
    d->value.members = members;
    if (slice_equal(now->leader, before)) {
        d->value.leader = write->identity->member_id;
    }
    for (size_t i = 0; i < now->members_count; i++) {
        members[i] = now->members[i];
        if (!slice_equal(members[i].member_id, before)) {
            continue;
        }
        const struct slice metadata = classic_protocols_metadata(write->protocols, now->protocol);
        members[i].member_id = write->identity->member_id;
        members[i].client_id = write->identity->client_id;
        members[i].client_host = write->identity->client_host;
        members[i].session_timeout = in->session_timeout_ms;
        members[i].rebalance_timeout = in->rebalance_timeout_ms;
        members[i].subscription = slice_is_null(metadata) ? members[i].subscription : metadata;
    }
    return true;
}

/* In any state: a coordinator that takes over must not fence the new one. */
static void replace_member(struct classic *c, struct classic_member *m, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct classic_write write = {
        .on_done = on_replaced,
        .call = call,
        .replaced = m,
        .identity = new_identity(c, call, make_member_id(c->g, call)),
        .protocols = classic_protocols_new(c, in->protocols, in->protocols_count),
    };
    struct classic_draft d;
    const bool is_durable = classic_record_member(c, m->identity->member_id) != NULL;
    c->write = write;
    if (write.identity == NULL || write.protocols == NULL || !has_room(c, m, in)) {
        on_replaced(c, ERR_BUSY);
    } else if (!is_durable) {
        on_replaced(c, ERR_OK);
    } else if (draft_replaced(c, &write, &d)) {
        classic_write_draft(c, &d, &write);
    } else {
        classic_draft_done(&d);
        on_replaced(c, ERR_BUSY);
    }
}

/* ---- JoinGroup ---- */

static void join_without_id(struct classic *c, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct classic_member *m = NULL;
    const bool is_static = !slice_is_null(in->group_instance_id);
    if (is_static) {
        m = classic_member_find_instance(c, in->group_instance_id);
    }
    if (m != NULL) {
        replace_member(c, m, call);
        return;
    }
    const struct slice member_id = make_member_id(c->g, call);
    if (!is_static && call->version >= MEMBER_ID_REQUIRED_VERSION) {
        give_member_id(c, call, member_id);
    } else {
        add_member(c, call, member_id);
    }
}

static void rejoin(struct classic *c, struct classic_member *m, struct group_call *call)
{
    const bool is_same = classic_protocols_match(m->protocols, call->in);
    const bool is_forced = c->state == CLASSIC_STABLE && m == c->leader;
    if (c->state == CLASSIC_PREPARING || !is_same || is_forced) {
        update_member(c, m, call);
        return;
    }
    classic_member_touch(m);
    answer_current(c, call, m);
}

static void join_with_id(struct classic *c, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct classic_pending *p = classic_pending_find(c, in->member_id);
    if (p != NULL && slice_is_null(in->group_instance_id)) {
        classic_pending_remove(p);
        add_member(c, call, in->member_id);
        return;
    }
    struct classic_member *m = NULL;
    const enum kafka_error e = classic_member_check(c, in->member_id, in->group_instance_id, &m);
    if (e != KAFKA_NONE) {
        refuse(c->g, call, e);
    } else {
        rejoin(c, m, call);
    }
}

static void join(struct classic *c, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    struct classic_member *m = classic_member_find(c, in->member_id);
    if (!has_place(c, m)) {
        if (m != NULL) {
            classic_member_remove(m, KAFKA_UNKNOWN_MEMBER_ID);
            classic_on_changed(c);
        }
        classic_refuse_join(c->g, call, KAFKA_GROUP_MAX_SIZE_REACHED, slice_of("", 0));
    } else if (!classic_fits(c, in)) {
        refuse(c->g, call, KAFKA_INCONSISTENT_GROUP_PROTOCOL);
    } else if (in->member_id.size == 0) {
        join_without_id(c, call);
    } else {
        join_with_id(c, call);
    }
}

void classic_join(struct group *g, struct group_call *call)
{
    const struct join_group_request *in = call->in;
    const enum kafka_error e = check_request(g, in);
    if (e != KAFKA_NONE) {
        refuse(g, call, e);
        return;
    }
    if (g->classic == NULL && in->member_id.size > 0) {
        refuse(g, call, KAFKA_UNKNOWN_MEMBER_ID);
        return;
    }
    struct classic *c = classic_get(g);
    if (c == NULL) {
        refuse(g, call, KAFKA_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    join(c, call);
    classic_drop_unused(c);
}
