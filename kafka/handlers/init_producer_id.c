#include "kafka/proto/init_producer_id.h"

#include "cluster/cluster.h"
#include "core/shard.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

static void answer(struct request *r, enum kafka_error error, int64_t producer_id)
{
    struct init_producer_id_response out;
    init_producer_id_response_init(&out);
    out.error_code = (int16_t)error;
    out.producer_id = producer_id;
    out.producer_epoch = error == KAFKA_NONE ? 0 : -1;
    request_answer(r, &out);
}

static void on_allocated(struct controller_request *c)
{
    struct request *r = c->context;
    const enum kafka_error error = kafka_error_of(c->result);
    answer(r, error, error == KAFKA_NONE ? c->out.allocate_producer_id.producer_id : -1);
    request_release(r);
}

/* The response has no message: what is wrong stands in the log. */
static void refuse_transactional(struct request *r)
{
    if (request_may_complain(r)) {
        log_warn(r->d->s->log,
                 "transactional_id_refused",
                 "peer=%s why=\"Transactions are not served by this version of Coreflume: produce "
                 "without a transactional.id (idempotence works).\"",
                 conn_peer(r->conn));
    }
    answer(r, KAFKA_INVALID_REQUEST, -1);
}

void handle_init_producer_id(struct request *r)
{
    const struct init_producer_id_request *in = r->in;
    if ((in->producer_id == -1) != (in->producer_epoch == -1)) {
        answer(r, KAFKA_INVALID_REQUEST, -1);
        return;
    }
    if (!slice_is_null(in->transactional_id)) {
        refuse_transactional(r);
        return;
    }
    /* Without a transactional id every call gets a fresh id; a given one and the timeout say
     * nothing (KIP-360: such producers raise their epoch by themselves). */
    struct controller_request *c = request_alloc(r, 1, sizeof(*c));
    if (c == NULL) {
        request_abort(r, "no memory");
        return;
    }
    c->kind = CONTROLLER_ALLOCATE_PRODUCER_ID;
    c->on_done = on_allocated;
    c->context = r;
    request_hold(r);
    controller_submit(r->d->cluster, c);
}
