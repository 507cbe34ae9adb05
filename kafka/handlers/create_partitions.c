/* CreatePartitions: a topic gets more partitions; never fewer. */
#include "kafka/proto/create_partitions.h"

#include "cluster/cluster.h"
#include "core/assert.h"
#include "kafka/assignment.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"
#include "kafka/seen.h"

enum {
    NO_ASSIGNMENTS = -1,
};

struct growth {
    struct controller_request request;
    const struct create_partitions_request_topic *in;
    struct create_partitions_response_result *out;
    bool is_submitted;
};

struct create_partitions_state {
    struct create_partitions_response out;
    struct growth *growths;
    size_t pending_count;
};

static void set_error(struct growth *g, enum kafka_error error, struct slice message)
{
    g->out->error_code = (int16_t)error;
    g->out->error_message = message;
}

static void on_grown(struct controller_request *request)
{
    struct request *r = request->context;
    struct create_partitions_state *state = r->state;
    struct growth *g = container_of(request, struct growth, request);
    if (request->result != ERR_OK) {
        set_error(g,
                  kafka_error_of(request->result),
                  request->message[0] != '\0' ? slice_of_string(request->message)
                                              : kafka_error_advice(request->result));
    }
    assert_cmp(state->pending_count, >, 0);
    state->pending_count--;
    if (state->pending_count == 0) {
        request_answer(r, &state->out);
    }
    request_release(r);
}

/* How many lists there are is for the controller to judge: it knows how many are needed. */
static enum kafka_error check_assignments(struct request *r,
                                          const struct create_partitions_request_topic *in,
                                          struct slice *ret_why)
{
    enum kafka_error error = KAFKA_NONE;
    for (size_t i = 0; i < in->assignments_count && error == KAFKA_NONE; i++) {
        const struct create_partitions_request_assignment *a = &in->assignments[i];
        error = assignment_check(r, a->broker_ids, a->broker_ids_count, ret_why);
    }
    return error;
}

static void prepare(struct request *r, struct growth *g, bool is_repeated)
{
    const struct create_partitions_request *request = r->in;
    struct create_partitions_state *state = r->state;
    create_partitions_response_result_init(g->out);
    g->out->name = g->in->name;
    if (is_repeated) {
        set_error(g, KAFKA_INVALID_REQUEST, slice_of_string("Duplicate topic name."));
        return;
    }
    struct slice why = {0};
    const enum kafka_error error = check_assignments(r, g->in, &why);
    if (error != KAFKA_NONE) {
        set_error(g, error, why);
        return;
    }
    g->request.kind = CONTROLLER_CREATE_PARTITIONS;
    g->request.on_done = on_grown;
    g->request.context = r;
    g->request.in.create_partitions.name = g->in->name;
    g->request.in.create_partitions.partitions_count = g->in->count;
    g->request.in.create_partitions.assignments_count =
        g->in->assignments == NULL ? NO_ASSIGNMENTS : (int32_t)g->in->assignments_count;
    g->request.in.create_partitions.is_validate_only = request->validate_only;
    g->is_submitted = true;
    state->pending_count++;
}

static bool prepare_all(struct request *r)
{
    const struct create_partitions_request *in = r->in;
    struct create_partitions_state *state = r->state;
    create_partitions_response_init(&state->out);
    state->growths = request_alloc(r, in->topics_count, sizeof(*state->growths));
    state->out.results_count = in->topics_count;
    state->out.results = request_alloc(r, in->topics_count, sizeof(*state->out.results));
    struct seen seen;
    if (state->growths == NULL || state->out.results == NULL ||
        !seen_init(&seen, r, in->topics_count)) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        (void)seen_add(&seen, in->topics[i].name, 0);
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        struct growth *g = &state->growths[i];
        g->in = &in->topics[i];
        g->out = &state->out.results[i];
        prepare(r, g, seen_times(&seen, g->in->name, 0) > 1);
    }
    return true;
}

void handle_create_partitions(struct request *r)
{
    const struct create_partitions_request *in = r->in;
    struct create_partitions_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    if (state == NULL || !prepare_all(r)) {
        request_abort(r, "too many topics");
        return;
    }
    if (state->pending_count == 0) {
        request_answer(r, &state->out);
        return;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        if (state->growths[i].is_submitted) {
            request_hold(r);
            controller_submit(r->d->cluster, &state->growths[i].request);
        }
    }
}
