/* ListTransactions: there are none. State names that Kafka does not have come back as unknown. */
#include "kafka/proto/list_transactions.h"

#include "core/pattern.h"
#include "kafka/handlers/handlers.h"
#include "kafka/proto/error_codes.h"
#include "kafka/request.h"

static bool is_state_name(struct slice name)
{
    static const char *const names[] = {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (slice_equal_string(name, names[i])) {
            return true;
        }
    }
    return false;
}

void handle_list_transactions(struct request *r)
{
    const struct list_transactions_request *in = r->in;
    struct list_transactions_response out;
    list_transactions_response_init(&out);
    out.unknown_state_filters =
        request_alloc(r, in->state_filters_count, sizeof(*out.unknown_state_filters));
    if (out.unknown_state_filters == NULL) {
        request_abort(r, "too many filters");
        return;
    }
    for (size_t i = 0; i < in->state_filters_count; i++) {
        if (!is_state_name(in->state_filters[i])) {
            out.unknown_state_filters[out.unknown_state_filters_count++] = in->state_filters[i];
        }
    }
    if (!slice_is_null(in->transactional_id_pattern) &&
        !pattern_is_balanced(in->transactional_id_pattern)) {
        out.error_code = KAFKA_INVALID_REGULAR_EXPRESSION;
        out.unknown_state_filters_count = 0;
    }
    request_answer(r, &out);
}
