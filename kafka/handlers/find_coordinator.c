/* FindCoordinator: the coordinator of every group is here, once there is a topic for what it has to
 * remember; the first who asks makes it, and is answered when it is there (Kafka answers
 * COORDINATOR_NOT_AVAILABLE meanwhile, which costs a client its back-off).
 *
 * Other types of coordinators get a code that no client retries: a retriable one would let clients
 * wait for ever without a word to their user (docs/differences-from-kafka.md). INVALID_REQUEST is
 * shown as "sent to an incompatible broker" by Java and as "Invalid request" by librdkafka; codes
 * about rights or versions would send the reader the wrong way.
 */
#include "kafka/proto/find_coordinator.h"

#include "cluster/cluster.h"
#include "cluster/internal_topics.h"
#include "core/shard.h"
#include "groups/settings.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    VERSION_KEYS = 4, /* Many keys, an answer for each. */
};

enum coordinator_type {
    COORDINATOR_GROUP = 0,
    COORDINATOR_TRANSACTION = 1,
    COORDINATOR_SHARE = 2,
};

/* Where the coordinators are, or why nobody can say. */
struct coordinator_place {
    enum kafka_error error;
    struct slice message;
    int32_t node_id;
    struct slice host;
    int32_t port;
};

static struct slice explain(int8_t key_type)
{
    switch (key_type) {
    case COORDINATOR_TRANSACTION:
        return slice_of_string("Transactions are not served by this version of Coreflume: produce "
                               "without a transactional.id (idempotence works).");
    case COORDINATOR_SHARE:
        return slice_of_string("Share groups are not served by this version of Coreflume.");
    default:
        return slice_of_string("No such type of coordinator.");
    }
}

static void answer(struct request *r, const struct coordinator_place *place)
{
    const struct find_coordinator_request *in = r->in;
    struct find_coordinator_response out;
    find_coordinator_response_init(&out);
    if (r->version < VERSION_KEYS) {
        out.error_code = (int16_t)place->error;
        out.error_message = place->message;
        out.node_id = place->node_id;
        out.host = place->host;
        out.port = place->port;
    }
    out.coordinators_count = in->coordinator_keys_count;
    out.coordinators = request_alloc(r, out.coordinators_count, sizeof(*out.coordinators));
    if (out.coordinators == NULL) {
        request_abort(r, "too many keys");
        return;
    }
    for (size_t i = 0; i < out.coordinators_count; i++) {
        out.coordinators[i] = (struct find_coordinator_response_coordinator){
            .key = in->coordinator_keys[i],
            .error_code = (int16_t)place->error,
            .error_message = place->message,
            .node_id = place->node_id,
            .host = place->host,
            .port = place->port,
        };
    }
    request_answer(r, &out);
}

static void refuse(struct request *r, enum kafka_error error, struct slice message)
{
    if (request_may_complain(r)) {
        log_warn(r->d->s->log,
                 "coordinator_refused",
                 "peer=%s why=\"%.*s\"",
                 conn_peer(r->conn),
                 (int)message.size,
                 (const char *)message.data);
    }
    answer(r,
           &(struct coordinator_place){
               .error = error,
               .message = message,
               .node_id = -1,
               .host = slice_of("", 0),
               .port = -1,
           });
}

static void answer_here(struct request *r)
{
    const struct net_address *here = request_endpoint(r);
    answer(r,
           &(struct coordinator_place){
               .message = slice_of_string(r->version < VERSION_KEYS ? "NONE" : ""), /* As Kafka. */
               .node_id = metadata_node_id(cluster_metadata(r->d->cluster)),
               .host = slice_of_string(here->host),
               .port = here->port,
           });
}

static void on_ensured(struct internal_topic_request *topic, enum err e)
{
    struct request *r = topic->context;
    const char *message = topic->request.message;
    if (e == ERR_OK) {
        answer_here(r);
    } else {
        refuse(r,
               KAFKA_COORDINATOR_NOT_AVAILABLE,
               request_text(r,
                            "The topic " GROUPS_TOPIC " could not be created: %s",
                            message[0] != '\0' ? message : err_name(e)));
    }
    request_release(r);
}

static void ensure_topic(struct request *r)
{
    struct internal_topic_request *topic = request_alloc(r, 1, sizeof(*topic));
    if (topic == NULL) {
        request_abort(r, "no memory");
        return;
    }
    topic->context = r;
    topic->on_done = on_ensured;
    request_hold(r);
    cluster_ensure_internal_topic(r->d->cluster, topic, GROUPS_TOPIC);
}

void handle_find_coordinator(struct request *r)
{
    const struct find_coordinator_request *in = r->in;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    if (in->key_type != COORDINATOR_GROUP) {
        refuse(r, KAFKA_INVALID_REQUEST, explain(in->key_type));
    } else if (metadata_topic_by_name(m, slice_of_string(GROUPS_TOPIC)) != NULL) {
        answer_here(r);
    } else {
        ensure_topic(r);
    }
}
