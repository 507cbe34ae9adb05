/* DescribeCluster: who is there, from the listener the question came in on. */
#include "kafka/proto/describe_cluster.h"

#include "cluster/cluster.h"
#include "kafka/handlers/handlers.h"
#include "kafka/operations.h"
#include "kafka/request.h"

enum {
    ENDPOINT_BROKER = 1,
    ENDPOINT_CONTROLLER = 2,
};

static void answer_error(struct request *r, enum kafka_error error, struct slice message)
{
    struct describe_cluster_response out;
    describe_cluster_response_init(&out);
    out.error_code = (int16_t)error;
    out.error_message = message;
    request_answer(r, &out);
}

void handle_describe_cluster(struct request *r)
{
    const struct describe_cluster_request *in = r->in;
    if (in->endpoint_type == ENDPOINT_CONTROLLER) {
        answer_error(r,
                     KAFKA_MISMATCHED_ENDPOINT_TYPE,
                     slice_of_string("The request was sent to an endpoint of type BROKER, but we "
                                     "wanted an endpoint of type CONTROLLER: use "
                                     "bootstrap.servers instead of bootstrap.controllers."));
        return;
    }
    if (in->endpoint_type != ENDPOINT_BROKER) {
        answer_error(r,
                     KAFKA_UNSUPPORTED_ENDPOINT_TYPE,
                     request_text(r, "Unsupported endpoint type %d", in->endpoint_type));
        return;
    }
    const struct metadata *m = cluster_metadata(r->d->cluster);
    const struct net_address *endpoint = request_endpoint(r);
    struct describe_cluster_response_broker broker;
    describe_cluster_response_broker_init(&broker);
    broker.broker_id = metadata_node_id(m);
    broker.host = slice_of_string(endpoint->host);
    broker.port = endpoint->port;
    broker.rack = slice_of_string(r->d->settings->rack);

    char cluster_id[UUID_TEXT_SIZE];
    uuid_format(metadata_cluster_id(m), cluster_id);
    struct describe_cluster_response out;
    describe_cluster_response_init(&out);
    out.cluster_id = slice_of_string(cluster_id);
    out.controller_id = metadata_node_id(m);
    out.brokers = &broker;
    out.brokers_count = 1;
    if (in->include_cluster_authorized_operations) {
        out.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    request_answer(r, &out);
}
