/* DescribeTopicPartitions: topics a page of partitions at a time, in order of name; where the next
 * page begins stands in the answer. Never creates a topic.
 */
#include "kafka/proto/describe_topic_partitions.h"

#include <stdlib.h>

#include "cluster/cluster.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/operations.h"
#include "kafka/request.h"

enum {
    PARTITIONS_MAX = 2000, /* In one answer, whatever the client would take. */
};

struct describe_state {
    struct describe_topic_partitions_response out;
    struct describe_topic_partitions_response_next_cursor next;
    int32_t left; /* Partitions that this answer still takes. */
    int32_t node_id;
};

typedef struct describe_topic_partitions_response_topic topic_out;

static bool fill_partitions(struct request *r, const struct topic *t, int32_t first, topic_out *out)
{
    struct describe_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const int32_t there = first < t->partitions_count ? t->partitions_count - first : 0;
    const int32_t count = there < state->left ? there : state->left;
    out->partitions_count = (size_t)count;
    out->partitions = request_alloc(r, out->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        struct describe_topic_partitions_response_partition *p = &out->partitions[i];
        describe_topic_partitions_response_partition_init(p);
        p->partition_index = first + i;
        p->leader_id = state->node_id;
        p->leader_epoch = metadata_leader_epoch(m);
        p->replica_nodes = &state->node_id;
        p->replica_nodes_count = 1;
        p->isr_nodes = &state->node_id;
        p->isr_nodes_count = 1;
        p->offline_replicas = &state->node_id;
        p->offline_replicas_count = lookup_is_served(r, t, first + i) ? 0 : 1;
        p->eligible_leader_replicas = &state->node_id; /* Not null, and none of them. */
        p->last_known_elr = &state->node_id;
    }
    state->left -= count;
    if (count < there) {
        state->next.topic_name = out->name;
        state->next.partition_index = first + count;
        state->out.next_cursor = &state->next;
    }
    return true;
}

/* The next topic of the answer; t is NULL if there is none of that name. */
static bool add_topic(struct request *r, struct slice name, const struct topic *t)
{
    const struct describe_topic_partitions_request *in = r->in;
    struct describe_state *state = r->state;
    if (state->left == 0) {
        state->next = (struct describe_topic_partitions_response_next_cursor){.topic_name = name};
        state->out.next_cursor = &state->next;
        return true;
    }
    topic_out *out = &state->out.topics[state->out.topics_count++];
    describe_topic_partitions_response_topic_init(out);
    out->name = name;
    out->topic_authorized_operations = TOPIC_OPERATIONS;
    if (t == NULL) {
        out->error_code = (int16_t)lookup_absent(name);
        return true;
    }
    out->topic_id = t->id;
    out->is_internal = t->is_internal;
    const bool is_first = in->cursor != NULL && slice_equal(in->cursor->topic_name, name);
    return fill_partitions(r, t, is_first ? in->cursor->partition_index : 0, out);
}

static bool is_before_cursor(const struct request *r, struct slice name)
{
    const struct describe_topic_partitions_request *in = r->in;
    return in->cursor != NULL && slice_compare(name, in->cursor->topic_name) < 0;
}

static bool fill_all(struct request *r)
{
    const struct describe_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    for (uint32_t i = 0; i < metadata_topics_count(m) && state->out.next_cursor == NULL; i++) {
        const struct topic *t = metadata_topic_at(m, i);
        const struct slice name = slice_of_string(t->name);
        if (!is_before_cursor(r, name) && !add_topic(r, name, t)) {
            return false;
        }
    }
    return true;
}

static int compare_topics(const void *a, const void *b)
{
    const struct describe_topic_partitions_request_topic *left = a;
    const struct describe_topic_partitions_request_topic *right = b;
    return slice_compare(left->name, right->name);
}

/* Sorts the request's own list: nobody needs its order. */
static bool fill_some(struct request *r)
{
    const struct describe_topic_partitions_request *in = r->in;
    const struct describe_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    qsort(in->topics, in->topics_count, sizeof(in->topics[0]), compare_topics);
    for (size_t i = 0; i < in->topics_count && state->out.next_cursor == NULL; i++) {
        const struct slice name = in->topics[i].name;
        const bool is_repeated = i > 0 && slice_equal(name, in->topics[i - 1].name);
        if (is_repeated || is_before_cursor(r, name)) {
            continue;
        }
        if (!add_topic(r, name, metadata_topic_by_name(m, name))) {
            return false;
        }
    }
    return true;
}

static bool is_cursor_valid(const struct request *r)
{
    const struct describe_topic_partitions_request *in = r->in;
    if (in->cursor == NULL) {
        return true;
    }
    bool is_named = in->topics_count == 0;
    for (size_t i = 0; i < in->topics_count && !is_named; i++) {
        is_named = slice_equal(in->topics[i].name, in->cursor->topic_name);
    }
    return is_named && in->cursor->partition_index >= 0;
}

/* There is no error for the whole: each topic has it. */
static void fill_invalid(struct request *r)
{
    const struct describe_topic_partitions_request *in = r->in;
    struct describe_state *state = r->state;
    for (size_t i = 0; i < in->topics_count; i++) {
        topic_out *out = &state->out.topics[state->out.topics_count++];
        describe_topic_partitions_response_topic_init(out);
        out->name = in->topics[i].name;
        out->error_code = KAFKA_INVALID_REQUEST;
    }
}

void handle_describe_topic_partitions(struct request *r)
{
    const struct describe_topic_partitions_request *in = r->in;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    struct describe_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    if (state == NULL) {
        request_abort(r, "no memory");
        return;
    }
    describe_topic_partitions_response_init(&state->out);
    const size_t capacity = in->topics_count > 0 ? in->topics_count : metadata_topics_count(m);
    state->out.topics = request_alloc(r, capacity, sizeof(*state->out.topics));
    state->node_id = metadata_node_id(m);
    state->left = in->response_partition_limit < 1 ? 1 : in->response_partition_limit;
    state->left = state->left > PARTITIONS_MAX ? PARTITIONS_MAX : state->left;
    if (state->out.topics == NULL) {
        request_abort(r, "too many topics");
        return;
    }
    bool is_filled = true;
    if (!is_cursor_valid(r)) {
        fill_invalid(r);
    } else {
        is_filled = in->topics_count == 0 ? fill_all(r) : fill_some(r);
    }
    if (is_filled) {
        request_answer(r, &state->out);
    } else {
        request_abort(r, "the answer is too large");
    }
}
