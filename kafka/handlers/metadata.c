/* Metadata, from what this shard knows; unknown topics are created on the way if the request and
 * the configuration allow it, and then the answer waits for them: Kafka answers "unknown" first and
 * lets the client poll, which costs it a round trip and a back-off for nothing.
 */
#include "kafka/proto/metadata.h"

#include "cluster/cluster.h"
#include "cluster/internal_topics.h"
#include "core/assert.h"
#include "core/shard.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/operations.h"
#include "kafka/request.h"
#include "kafka/seen.h"

enum {
    VERSION_NULL_IS_ALL = 1, /* Before: an empty list. */
    VERSION_IDS_ANSWERED = 10,
    VERSION_IDS_ASKED = 12,
    /* Topics that one request may create: more are created when the client asks again. */
    CREATES_MAX = 64,
};

struct create {
    struct controller_request request;
    size_t topic_index; /* In in->topics. */
};

struct metadata_state {
    struct create *creates;
    size_t creates_count;
    size_t creates_pending;
    int32_t node_id; /* What the replica lists point at. */
    char cluster_id[UUID_TEXT_SIZE];
};

static bool wants_all(const struct request *r)
{
    const struct metadata_request *in = r->in;
    if (r->version < VERSION_NULL_IS_ALL) {
        return in->topics_count == 0;
    }
    return in->topics == NULL;
}

static bool
fill_partitions(struct request *r, const struct topic *t, struct metadata_response_topic *out)
{
    struct metadata_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const size_t count = (size_t)t->partitions_count;
    struct metadata_response_partition *partitions = request_alloc(r, count, sizeof(*partitions));
    if (partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct metadata_response_partition *p = &partitions[i];
        metadata_response_partition_init(p);
        p->partition_index = (int32_t)i;
        p->leader_id = state->node_id;
        p->leader_epoch = metadata_leader_epoch(m);
        p->replica_nodes = &state->node_id;
        p->replica_nodes_count = 1;
        p->isr_nodes = &state->node_id;
        p->isr_nodes_count = 1;
        p->offline_replicas = &state->node_id;
        p->offline_replicas_count = lookup_is_served(r, t, (int32_t)i) ? 0 : 1;
    }
    out->partitions = partitions;
    out->partitions_count = count;
    return true;
}

static bool
fill_known(struct request *r, const struct topic *t, struct metadata_response_topic *out)
{
    const struct metadata_request *in = r->in;
    out->name = slice_of_string(t->name);
    out->topic_id = t->id;
    out->is_internal = t->is_internal;
    if (in->include_topic_authorized_operations) {
        out->topic_authorized_operations = TOPIC_OPERATIONS;
    }
    return fill_partitions(r, t, out);
}

/* Why there is no topic of the name at index, after its creation was tried, if it was. */
static enum kafka_error absence_error(const struct request *r, size_t index)
{
    const struct metadata_request *in = r->in;
    const struct metadata_state *state = r->state;
    for (size_t i = 0; i < state->creates_count; i++) {
        const struct create *c = &state->creates[i];
        if (c->topic_index == index && c->request.result == ERR_TOPIC_NAME_INVALID) {
            return KAFKA_INVALID_TOPIC_EXCEPTION;
        }
    }
    return lookup_absent(in->topics[index].name);
}

/* One topic that was asked for, by name or by id. */
static bool fill_asked(struct request *r, size_t index, struct metadata_response_topic *out)
{
    const struct metadata_request *in = r->in;
    const struct metadata_request_topic *asked = &in->topics[index];
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const bool is_by_id = !uuid_is_zero(&asked->topic_id);

    if (r->version < VERSION_IDS_ASKED && (is_by_id || slice_is_null(asked->name))) {
        /* The fields are there in 10 and 11, but may not be used (KIP-516). */
        out->name = slice_is_null(asked->name) ? slice_of("", 0) : asked->name;
        out->topic_id = asked->topic_id;
        out->error_code = KAFKA_INVALID_REQUEST;
        return true;
    }
    if (!is_by_id && slice_is_null(asked->name)) {
        out->error_code = KAFKA_UNKNOWN_TOPIC_ID;
        return true;
    }
    const struct topic *t = is_by_id ? metadata_topic_by_id(m, &asked->topic_id)
                                     : metadata_topic_by_name(m, asked->name);
    if (t != NULL) {
        return fill_known(r, t, out);
    }
    if (is_by_id) {
        out->topic_id = asked->topic_id;
        out->name = (struct slice){0};
        out->error_code = KAFKA_UNKNOWN_TOPIC_ID;
        return true;
    }
    out->name = asked->name;
    out->is_internal = internal_topic_is_kafkas(asked->name);
    out->error_code = (int16_t)absence_error(r, index);
    return true;
}

static bool fill_all(struct request *r, struct metadata_response *out)
{
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const uint32_t count = metadata_topics_count(m);
    out->topics = request_alloc(r, count, sizeof(*out->topics));
    if (out->topics == NULL) {
        return false;
    }
    out->topics_count = count;
    for (uint32_t i = 0; i < count; i++) {
        metadata_response_topic_init(&out->topics[i]);
        if (!fill_known(r, metadata_topic_at(m, i), &out->topics[i])) {
            return false;
        }
    }
    return true;
}

/* Each topic once, also if it was named twice. */
static bool fill_some(struct request *r, struct metadata_response *out)
{
    const struct metadata_request *in = r->in;
    struct seen seen;
    if (!seen_init(&seen, r, in->topics_count)) {
        return false;
    }
    out->topics = request_alloc(r, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        const struct metadata_request_topic *asked = &in->topics[i];
        const struct slice key = uuid_is_zero(&asked->topic_id)
                                     ? asked->name
                                     : slice_of(asked->topic_id.bytes, sizeof(asked->topic_id));
        if (seen_add(&seen, key, uuid_is_zero(&asked->topic_id) ? 0 : 1) > 1) {
            continue;
        }
        struct metadata_response_topic *t = &out->topics[out->topics_count++];
        metadata_response_topic_init(t);
        if (!fill_asked(r, i, t)) {
            return false;
        }
    }
    return true;
}

static void answer(struct request *r)
{
    const struct metadata_request *in = r->in;
    struct metadata_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const struct net_address *endpoint = request_endpoint(r);

    state->node_id = metadata_node_id(m);
    uuid_format(metadata_cluster_id(m), state->cluster_id);
    struct metadata_response_broker broker;
    metadata_response_broker_init(&broker);
    broker.node_id = state->node_id;
    broker.host = slice_of_string(endpoint->host);
    broker.port = endpoint->port;
    broker.rack = slice_of_string(r->d->settings->rack);

    struct metadata_response out;
    metadata_response_init(&out);
    out.brokers = &broker;
    out.brokers_count = 1;
    out.cluster_id = slice_of_string(state->cluster_id);
    out.controller_id = state->node_id;
    if (in->include_cluster_authorized_operations) {
        out.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    const bool is_filled = wants_all(r) ? fill_all(r, &out) : fill_some(r, &out);
    if (is_filled) {
        request_answer(r, &out);
    } else {
        request_abort(r, "the answer is too large");
    }
}

static void on_created(struct controller_request *c)
{
    struct request *r = c->context;
    struct metadata_state *state = r->state;
    assert_cmp(state->creates_pending, >, 0);
    state->creates_pending--;
    if (state->creates_pending == 0) {
        answer(r);
    }
    request_release(r);
}

static void submit_creates(struct request *r)
{
    const struct metadata_request *in = r->in;
    struct metadata_state *state = r->state;
    for (size_t i = 0; i < state->creates_count; i++) {
        struct controller_request *c = &state->creates[i].request;
        c->kind = CONTROLLER_CREATE_TOPIC;
        c->on_done = on_created;
        c->context = r;
        c->in.create_topic.name = in->topics[state->creates[i].topic_index].name;
        c->in.create_topic.partitions_count = -1;
        c->in.create_topic.replication_factor = -1;
        request_hold(r);
        controller_submit(r->d->cluster, c);
    }
}

/* Notes which of the topics asked for are to be created. False at the memory limit. */
static bool plan_creates(struct request *r)
{
    const struct metadata_request *in = r->in;
    struct metadata_state *state = r->state;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    if (wants_all(r) || !in->allow_auto_topic_creation || !r->d->settings->is_auto_create) {
        return true;
    }
    const size_t count_max = in->topics_count < CREATES_MAX ? in->topics_count : CREATES_MAX;
    state->creates = request_alloc(r, count_max, sizeof(*state->creates));
    if (state->creates == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count && state->creates_count < count_max; i++) {
        const struct metadata_request_topic *asked = &in->topics[i];
        if (uuid_is_zero(&asked->topic_id) && !slice_is_null(asked->name) &&
            metadata_topic_by_name(m, asked->name) == NULL) {
            state->creates[state->creates_count++].topic_index = i;
        }
    }
    state->creates_pending = state->creates_count;
    return true;
}

void handle_metadata(struct request *r)
{
    r->state = request_alloc(r, 1, sizeof(struct metadata_state));
    if (r->state == NULL || !plan_creates(r)) {
        request_abort(r, "no memory");
        return;
    }
    struct metadata_state *state = r->state;
    if (state->creates_pending == 0) {
        answer(r);
    } else {
        submit_creates(r);
    }
}
