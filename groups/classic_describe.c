/* DescribeGroups: one group in the words of its answer. */
#include <stdio.h>

#include "groups/classic_priv.h"
#include "kafka/proto/describe_groups.h"

enum {
    NOT_FOUND_VERSION = 6,
    MESSAGE_SIZE_MAX = SLICE_SHOWN_MAX + 64,
};

/* A group that is not there is dead; later versions say so. */
static void describe_missing(struct group *g, struct group_call *call)
{
    enum kafka_error e = KAFKA_NONE;
    char text[MESSAGE_SIZE_MAX] = "";
    if (call->version >= NOT_FOUND_VERSION) {
        const char *why = g->consumer == NULL ? "not found" : "is not a classic group";
        const struct slice id = group_id(g);
        e = KAFKA_GROUP_ID_NOT_FOUND;
        (void)snprintf(text,
                       sizeof(text),
                       "Group %.*s %s.",
                       slice_shown(id, SLICE_SHOWN_MAX),
                       (const char *)id.data,
                       why);
    }
    group_call_refuse(call, e, e == KAFKA_NONE ? (struct slice){0} : slice_of_string(text));
    struct describe_groups_response_group *out = call->out;
    if (out != NULL) {
        out->group_state = slice_of_string("Dead");
    }
    group_answer(g->c, call);
}

/* The metadata is shown in a stable group alone; the assignment is the last there was. */
static bool fill_members(const struct classic *c,
                         struct group_call *call,
                         struct describe_groups_response_group *out)
{
    out->members = group_call_alloc(call, c->members_count, sizeof(*out->members));
    if (out->members == NULL) {
        return false;
    }
    list_for_each (link, &c->members) {
        const struct classic_member *m = classic_member_at(link);
        const struct group_metadata_value_member *durable =
            classic_record_member(c, m->identity->member_id);
        struct describe_groups_response_member *to = &out->members[out->members_count++];
        describe_groups_response_member_init(to);
        to->member_id = group_call_copy(call, m->identity->member_id);
        to->group_instance_id = group_call_copy(call, m->identity->instance_id);
        to->client_id = group_call_copy(call, m->identity->client_id);
        to->client_host = group_call_copy(call, m->identity->client_host);
        if (c->state == CLASSIC_STABLE) {
            to->member_metadata =
                group_call_copy(call, classic_protocols_metadata(m->protocols, c->protocol));
        }
        if (durable != NULL) {
            to->member_assignment = group_call_copy(call, durable->assignment);
        }
    }
    return !call->is_out_of_memory;
}

static bool
fill(const struct group *g, struct group_call *call, struct describe_groups_response_group *out)
{
    const struct classic *c = g->classic;
    describe_groups_response_group_init(out);
    out->group_id = call->group_id;
    out->group_state = slice_of_string(classic_state_name(g));
    out->protocol_type = group_call_copy(call, classic_protocol_type(g));
    if (c == NULL) {
        return !call->is_out_of_memory;
    }
    if (c->state == CLASSIC_STABLE) {
        out->protocol_data = group_call_copy(call, c->protocol);
    }
    return fill_members(c, call, out);
}

void classic_describe(struct group *g, struct group_call *call)
{
    if (g->consumer != NULL || !group_exists(g)) {
        describe_missing(g, call);
        return;
    }
    struct describe_groups_response_group *out = group_call_alloc(call, 1, sizeof(*out));
    call->out = out != NULL && fill(g, call, out) ? out : NULL;
    group_answer(g->c, call);
}
