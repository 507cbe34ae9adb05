/* DescribeQuorum: who decides what the cluster is like, and how far they are. Kafka's name for
 * group 0 is partition 0 of __cluster_metadata; its offsets are group 0's indexes, and its epoch
 * the term.
 */
#include "kafka/proto/describe_quorum.h"

#include "cluster/cluster.h"
#include "core/shard.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

typedef struct describe_quorum_response_partition partition_out;
typedef struct describe_quorum_response_replica_state voter_out;
typedef struct describe_quorum_response_node node_out;
typedef struct describe_quorum_response_listener listener_out;

enum {
    VERSION_NODES = 2, /* And the directories of voters. */
};

static const char NAME[] = "__cluster_metadata";

static bool is_about_group_0(const struct describe_quorum_request *in)
{
    return in->topics_count == 1 && slice_equal_string(in->topics[0].topic_name, NAME) &&
           in->topics[0].partitions_count == 1 && in->topics[0].partitions[0].partition_index == 0;
}

/* Anything else at all, as in Kafka: nothing in the request is known. */
static bool refuse_all(struct request *r, struct describe_quorum_response *out)
{
    const struct describe_quorum_request *in = r->in;
    out->topics_count = in->topics_count;
    out->topics = request_alloc(r, in->topics_count, sizeof(*out->topics));
    for (size_t i = 0; i < in->topics_count && out->topics != NULL; i++) {
        const struct describe_quorum_request_topic *topic = &in->topics[i];
        struct describe_quorum_response_topic *t = &out->topics[i];
        describe_quorum_response_topic_init(t);
        t->topic_name = topic->topic_name;
        t->partitions_count = topic->partitions_count;
        t->partitions = request_alloc(r, topic->partitions_count, sizeof(*t->partitions));
        if (t->partitions == NULL) {
            return false;
        }
        for (size_t k = 0; k < topic->partitions_count; k++) {
            partition_out *p = &t->partitions[k];
            describe_quorum_response_partition_init(p);
            p->partition_index = topic->partitions[k].partition_index;
            p->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
            p->error_message = slice_of_string("This server does not host this topic-partition.");
        }
    }
    return out->topics != NULL;
}

/* The one voter was asked where it stands just now. */
static void
describe_voter(const struct request *r, const struct controller_request *c, voter_out *out)
{
    describe_quorum_response_replica_state_init(out);
    out->replica_id = metadata_node_id(cluster_metadata(r->d->cluster));
    if (r->version >= VERSION_NODES) {
        out->replica_directory_id = c->out.describe.directory;
    }
    out->log_end_offset = (int64_t)c->out.describe.last_index + 1;
    out->last_fetch_timestamp = r->d->s->wall_ms;
    out->last_caught_up_timestamp = r->d->s->wall_ms;
}

/* With the endpoint that the question came in on: the controller has no listener of its own. */
static void describe_node(const struct request *r, node_out *out, listener_out *listener)
{
    const struct net_address *endpoint = request_endpoint(r);
    describe_quorum_response_listener_init(listener);
    listener->name = slice_of_string("CONTROLLER");
    listener->host = slice_of_string(endpoint->host);
    listener->port = endpoint->port;
    describe_quorum_response_node_init(out);
    out->node_id = metadata_node_id(cluster_metadata(r->d->cluster));
    out->listeners = listener;
    out->listeners_count = 1;
}

static void answer(struct request *r, const struct controller_request *c)
{
    voter_out voter;
    describe_voter(r, c, &voter);
    partition_out partition;
    describe_quorum_response_partition_init(&partition);
    partition.leader_id = voter.replica_id;
    partition.leader_epoch = (int32_t)c->out.describe.term;
    partition.high_watermark = (int64_t)c->out.describe.commit_index + 1;
    partition.current_voters = &voter;
    partition.current_voters_count = 1;
    struct describe_quorum_response_topic topic;
    describe_quorum_response_topic_init(&topic);
    topic.topic_name = slice_of_string(NAME);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    node_out node;
    listener_out listener;
    describe_node(r, &node, &listener);

    struct describe_quorum_response out;
    describe_quorum_response_init(&out);
    out.topics = &topic;
    out.topics_count = 1;
    if (r->version >= VERSION_NODES) {
        out.nodes = &node;
        out.nodes_count = 1;
    }
    request_answer(r, &out);
}

static void on_described(struct controller_request *c)
{
    struct request *r = c->context;
    if (c->result == ERR_OK) {
        answer(r, c);
    } else {
        struct describe_quorum_response out;
        describe_quorum_response_init(&out);
        out.error_code = (int16_t)kafka_error_of(c->result);
        out.error_message = kafka_error_advice(c->result);
        request_answer(r, &out);
    }
    request_release(r);
}

void handle_describe_quorum(struct request *r)
{
    if (!is_about_group_0(r->in)) {
        struct describe_quorum_response out;
        describe_quorum_response_init(&out);
        if (refuse_all(r, &out)) {
            request_answer(r, &out);
        } else {
            request_abort(r, "too many partitions");
        }
        return;
    }
    struct controller_request *c = request_alloc(r, 1, sizeof(*c));
    if (c == NULL) {
        request_abort(r, "no memory");
        return;
    }
    c->kind = CONTROLLER_DESCRIBE;
    c->on_done = on_described;
    c->context = r;
    request_hold(r);
    controller_submit(r->d->cluster, c);
}
