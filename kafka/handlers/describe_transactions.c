/* DescribeTransactions: there are none. */
#include "kafka/proto/describe_transactions.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_describe_transactions(struct request *r)
{
    const struct describe_transactions_request *in = r->in;
    struct describe_transactions_response out;
    describe_transactions_response_init(&out);
    out.transaction_states_count = in->transactional_ids_count;
    out.transaction_states =
        request_alloc(r, in->transactional_ids_count, sizeof(*out.transaction_states));
    if (out.transaction_states == NULL) {
        request_abort(r, "too many ids");
        return;
    }
    for (size_t i = 0; i < out.transaction_states_count; i++) {
        struct describe_transactions_response_transaction_state *t = &out.transaction_states[i];
        describe_transactions_response_transaction_state_init(t);
        t->transactional_id = in->transactional_ids[i];
        t->error_code = t->transactional_id.size == 0 ? KAFKA_INVALID_REQUEST
                                                      : KAFKA_TRANSACTIONAL_ID_NOT_FOUND;
    }
    request_answer(r, &out);
}
