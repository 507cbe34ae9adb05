/* FindCoordinator before there are coordinators.
 *
 * It is listed because old librdkafka takes its presence as the sign of LZ4 and of consumer groups,
 * and it answers a code that no client retries: a retriable one would let clients wait for ever
 * without a word to their user (docs/differences-from-kafka.md). INVALID_REQUEST is shown as "sent
 * to an incompatible broker" by Java and as "Invalid request" by librdkafka; codes about rights or
 * versions would send the reader the wrong way.
 */
#include "kafka/proto/find_coordinator.h"

#include "core/shard.h"
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

static struct slice explain(int8_t key_type)
{
    switch (key_type) {
    case COORDINATOR_GROUP:
        return slice_of_string(
            "Consumer groups are not served by this version of Coreflume: assign "
            "partitions in the client instead of subscribing with a group.id.");
    case COORDINATOR_TRANSACTION:
        return slice_of_string("Transactions are not served by this version of Coreflume: produce "
                               "without a transactional.id (idempotence works).");
    case COORDINATOR_SHARE:
        return slice_of_string("Share groups are not served by this version of Coreflume.");
    default:
        return slice_of_string("No such type of coordinator.");
    }
}

void handle_find_coordinator(struct request *r)
{
    const struct find_coordinator_request *in = r->in;
    const struct slice message = explain(in->key_type);
    if (request_may_complain(r)) {
        log_warn(r->d->s->log,
                 "coordinator_refused",
                 "peer=%s why=\"%.*s\"",
                 conn_peer(r->conn),
                 (int)message.size,
                 (const char *)message.data);
    }

    struct find_coordinator_response out;
    find_coordinator_response_init(&out);
    if (r->version < VERSION_KEYS) {
        out.error_code = KAFKA_INVALID_REQUEST;
        out.error_message = message;
        out.node_id = -1;
        out.port = -1;
    }

    out.coordinators_count = in->coordinator_keys_count;
    out.coordinators = request_alloc(r, out.coordinators_count, sizeof(*out.coordinators));
    if (out.coordinators == NULL) {
        request_abort(r, "too many keys");
        return;
    }
    for (size_t i = 0; i < out.coordinators_count; i++) {
        struct find_coordinator_response_coordinator *c = &out.coordinators[i];
        find_coordinator_response_coordinator_init(c);
        c->key = in->coordinator_keys[i];
        c->node_id = -1;
        c->port = -1;
        c->error_code = KAFKA_INVALID_REQUEST;
        c->error_message = message;
    }
    request_answer(r, &out);
}
