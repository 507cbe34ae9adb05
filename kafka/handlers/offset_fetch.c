/* OffsetFetch: one call per group. Up to version 7 a request is of one group and has fields of its
 * own for it; they are read as, and answered from, the newer ones.
 */
#include "kafka/proto/offset_fetch.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    VERSION_TOP_LEVEL_ERROR = 2, /* Before: in the partitions. */
    VERSION_GROUPS = 8,
};

typedef struct offset_fetch_request_group group_in;
typedef struct offset_fetch_response_group group_out;

struct offset_fetch_state {
    struct group_asks asks; /* First: group_asks_init. */
    group_in single;
};

/* ---- one group, up to version 7 ---- */

static bool read_single(struct request *r, group_in *ret)
{
    const struct offset_fetch_request *in = r->in;
    offset_fetch_request_group_init(ret);
    ret->group_id = in->group_id;
    ret->topics = NULL;
    if (in->topics == NULL) {
        return true;
    }
    ret->topics_count = in->topics_count;
    ret->topics = request_alloc(r, in->topics_count, sizeof(*ret->topics));
    if (ret->topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        offset_fetch_request_group_topic_init(&ret->topics[i]);
        ret->topics[i].name = in->topics[i].name;
        ret->topics[i].partition_indexes = in->topics[i].partition_indexes;
        ret->topics[i].partition_indexes_count = in->topics[i].partition_indexes_count;
    }
    return true;
}

static bool write_partitions(struct request *r,
                             const struct offset_fetch_response_group_topic *from,
                             struct offset_fetch_response_topic *to)
{
    offset_fetch_response_topic_init(to);
    to->name = from->name;
    to->partitions_count = from->partitions_count;
    to->partitions = request_alloc(r, from->partitions_count, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < from->partitions_count; i++) {
        const struct offset_fetch_response_group_topic_partition *p = &from->partitions[i];
        to->partitions[i] = (struct offset_fetch_response_partition){
            .partition_index = p->partition_index,
            .committed_offset = p->committed_offset,
            .committed_leader_epoch = p->committed_leader_epoch,
            .metadata = p->metadata,
            .error_code = p->error_code,
        };
    }
    return true;
}

/* Version 1 has no other place for the group's error than all partitions asked for. */
static bool
write_error_to_partitions(struct request *r, int16_t error_code, struct offset_fetch_response *out)
{
    const struct offset_fetch_request *in = r->in;
    out->topics_count = in->topics_count;
    out->topics = request_alloc(r, in->topics_count, sizeof(*out->topics));
    for (size_t i = 0; out->topics != NULL && i < in->topics_count; i++) {
        const struct offset_fetch_request_topic *from = &in->topics[i];
        struct offset_fetch_response_topic *to = &out->topics[i];
        offset_fetch_response_topic_init(to);
        to->name = from->name;
        to->partitions_count = from->partition_indexes_count;
        to->partitions = request_alloc(r, to->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL) {
            return false;
        }
        for (size_t j = 0; j < to->partitions_count; j++) {
            to->partitions[j] = (struct offset_fetch_response_partition){
                .partition_index = from->partition_indexes[j],
                .committed_offset = -1,
                .committed_leader_epoch = -1,
                .metadata = slice_of("", 0),
                .error_code = error_code,
            };
        }
    }
    return out->topics != NULL;
}

static bool
write_single(struct request *r, const group_out *from, struct offset_fetch_response *out)
{
    if (r->version < VERSION_TOP_LEVEL_ERROR && from->error_code != KAFKA_NONE) {
        return write_error_to_partitions(r, from->error_code, out);
    }
    out->error_code = from->error_code;
    out->topics_count = from->topics_count;
    out->topics = request_alloc(r, from->topics_count, sizeof(*out->topics));
    if (out->topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < from->topics_count; i++) {
        if (!write_partitions(r, &from->topics[i], &out->topics[i])) {
            return false;
        }
    }
    return true;
}

/* What fits the call's memory may still be too large for the request's. */
static bool
answer_single(struct request *r, const struct group_asks *all, struct offset_fetch_response *out)
{
    const group_out *group = all->asks[0].call.out;
    if (write_single(r, group, out)) {
        return true;
    }
    const group_out refusal = {.error_code = (int16_t)group_asks_error(r)};
    offset_fetch_response_init(out);
    return write_single(r, &refusal, out);
}

static void on_all(struct request *r)
{
    const struct group_asks *all = r->state;
    struct offset_fetch_response out;
    offset_fetch_response_init(&out);
    bool is_whole = group_asks_are_whole(all);
    if (is_whole && r->version < VERSION_GROUPS) {
        is_whole = answer_single(r, all, &out);
    } else if (is_whole) {
        out.groups = all->results;
        out.groups_count = all->count;
    }
    if (is_whole) {
        request_answer(r, &out);
    } else {
        request_abort(r, "no memory");
    }
}

void handle_offset_fetch(struct request *r)
{
    const struct offset_fetch_request *in = r->in;
    const bool is_single = r->version < VERSION_GROUPS;
    struct offset_fetch_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    const size_t count = is_single ? 1 : in->groups_count;
    if (state == NULL || !group_asks_init(r, GROUP_FETCH, count) ||
        (is_single && !read_single(r, &state->single))) {
        request_abort(r, "too many groups");
        return;
    }
    for (size_t i = 0; i < state->asks.count; i++) {
        const group_in *group = is_single ? &state->single : &in->groups[i];
        state->asks.asks[i].call.group_id = group->group_id;
        state->asks.asks[i].call.in = group;
    }
    group_asks_begin(r, on_all);
}
