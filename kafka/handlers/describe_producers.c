/* DescribeProducers: who produced idempotently to a partition lately. A partition is asked how many
 * there are, and then for as many.
 */
#include "kafka/proto/describe_producers.h"

#include "cluster/topic_name.h"
#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

typedef struct describe_producers_response_partition partition_out;
typedef struct describe_producers_response_active_producer producer_out;

enum {
    COORDINATOR_NONE = -1,
    /* Beyond those that were counted: some may begin meanwhile. */
    VIEWS_SPARE = 16,
};

struct describe_producers_state {
    struct fanout fanout;
    struct describe_producers_response out;
    bool is_too_large;
};

static bool begin(struct fanout *f)
{
    const struct describe_producers_request *in = f->request->in;
    struct describe_producers_state *state = f->request->state;
    describe_producers_response_init(&state->out);
    f->topics_count = in->topics_count;
    state->out.topics_count = in->topics_count;
    state->out.topics = request_alloc(f->request, in->topics_count, sizeof(*state->out.topics));
    return state->out.topics != NULL;
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct describe_producers_request *in = f->request->in;
    ret->how = (struct lookup){.name = in->topics[index].name};
    ret->partitions_count = in->topics[index].partition_indexes_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct describe_producers_state *state = f->request->state;
    struct describe_producers_response_topic *out = &state->out.topics[t->index];
    describe_producers_response_topic_init(out);
    out->name = t->how.name;
    out->partitions_count = t->partitions_count;
    out->partitions = answers;
    return true;
}

/* As Kafka: words only for what is wrong with the topic as a whole. */
static void refuse(struct request *r, const struct fanout_topic *t, partition_out *out)
{
    char why[TOPIC_NAME_WHY_SIZE];
    out->error_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    if (t->topic != NULL) {
        return;
    }
    if (topic_name_check(t->how.name, why) == ERR_OK) {
        out->error_message = slice_of_string("This server does not host this topic-partition.");
    } else {
        out->error_code = KAFKA_INVALID_TOPIC_EXCEPTION;
        out->error_message = request_text(r, "%s", why);
    }
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    const struct describe_producers_request *in = f->request->in;
    partition_out *out = part->answer;
    describe_producers_response_partition_init(out);
    out->partition_index = in->topics[t->index].partition_indexes[number];
    if (fanout_find(t, out->partition_index, part) != KAFKA_NONE) {
        refuse(f->request, t, out);
        return;
    }
    part->op.kind = PARTITION_PRODUCERS;
    fanout_ask(f, part);
}

static void fill(struct request *r, const struct partition_op *op, partition_out *out)
{
    struct describe_producers_state *state = r->state;
    const uint32_t count = op->out.producers.count;
    producer_out *producers = request_alloc(r, count, sizeof(*producers));
    if (producers == NULL) {
        state->is_too_large = true;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct producer_view *view = &op->in.producers.views[i];
        describe_producers_response_active_producer_init(&producers[i]);
        producers[i].producer_id = view->id;
        producers[i].producer_epoch = view->epoch;
        producers[i].last_sequence = view->last_sequence;
        producers[i].last_timestamp = view->last_timestamp;
        producers[i].coordinator_epoch = COORDINATOR_NONE;
    }
    out->active_producers = producers;
    out->active_producers_count = count;
}

static void on_part(struct fanout *f, struct fanout_part *part, enum err e)
{
    struct describe_producers_state *state = f->request->state;
    struct partition_op *op = &part->op;
    partition_out *out = part->answer;
    out->error_code = (int16_t)kafka_error_of(e);
    if (e != ERR_OK || op->out.producers.count == 0 || state->is_too_large) {
        return;
    }
    if (op->out.producers.count <= op->in.producers.views_max) {
        fill(f->request, op, out);
        return;
    }
    op->in.producers.views_max = op->out.producers.count + VIEWS_SPARE;
    op->in.producers.views =
        request_alloc(f->request, op->in.producers.views_max, sizeof(*op->in.producers.views));
    if (op->in.producers.views == NULL) {
        state->is_too_large = true;
        return;
    }
    fanout_ask(f, part);
}

static void on_all(struct fanout *f)
{
    const struct describe_producers_state *state = f->request->state;
    if (state->is_too_large) {
        request_abort(f->request, "the answer is too large: ask for fewer partitions");
        return;
    }
    request_answer(f->request, &state->out);
}

static const struct fanout_kind DESCRIBE_PRODUCERS = {
    .state_size = sizeof(struct describe_producers_state),
    .part_size = sizeof(struct fanout_part),
    .answer_size = sizeof(partition_out),
    .in_flight_max = FANOUT_IN_FLIGHT_MAX,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_describe_producers(struct request *r)
{
    fanout_handle(r, &DESCRIBE_PRODUCERS, FANOUT_NO_TIMEOUT);
}
