/* DeleteRecords: the log of a partition starts further on, for good. */
#include "kafka/proto/delete_records.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    LOW_WATERMARK_NONE = -1,
};

struct delete_records_state {
    struct fanout fanout;
    struct delete_records_response out;
};

static bool begin(struct fanout *f)
{
    const struct delete_records_request *in = f->request->in;
    struct delete_records_state *state = f->request->state;
    delete_records_response_init(&state->out);
    f->topics_count = in->topics_count;
    state->out.topics_count = in->topics_count;
    state->out.topics = request_alloc(f->request, in->topics_count, sizeof(*state->out.topics));
    return state->out.topics != NULL;
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct delete_records_request *in = f->request->in;
    ret->how = (struct lookup){.name = in->topics[index].name};
    ret->partitions_count = in->topics[index].partitions_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct delete_records_state *state = f->request->state;
    struct delete_records_response_topic *out = &state->out.topics[t->index];
    delete_records_response_topic_init(out);
    out->name = t->how.name;
    out->partitions_count = t->partitions_count;
    out->partitions = answers;
    return true;
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    const struct delete_records_request *request = f->request->in;
    const struct delete_records_request_partition *in =
        &request->topics[t->index].partitions[number];
    struct delete_records_response_partition *out = part->answer;
    enum kafka_error error = fanout_find(t, in->partition_index, part);
    if (t->topic != NULL && t->topic->is_internal) {
        error = KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    delete_records_response_partition_init(out);
    out->partition_index = in->partition_index;
    out->low_watermark = LOW_WATERMARK_NONE;
    out->error_code = (int16_t)error;
    if (error == KAFKA_NONE) {
        part->op.kind = PARTITION_DELETE_RECORDS;
        part->op.in.delete_records.offset = in->offset; /* -1 means the same to both. */
        fanout_ask(f, part);
    }
}

static void on_part(struct fanout *f, struct fanout_part *part, enum err e)
{
    (void)f;
    struct delete_records_response_partition *out = part->answer;
    out->error_code = (int16_t)kafka_error_of(e);
    if (e == ERR_OK) {
        out->low_watermark = part->op.offsets.log_start_offset;
    }
}

static void on_all(struct fanout *f)
{
    struct delete_records_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static const struct fanout_kind DELETE_RECORDS = {
    .state_size = sizeof(struct delete_records_state),
    .part_size = sizeof(struct fanout_part),
    .answer_size = sizeof(struct delete_records_response_partition),
    .in_flight_max = FANOUT_IN_FLIGHT_MAX,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_delete_records(struct request *r)
{
    const struct delete_records_request *in = r->in;
    fanout_handle(r, &DELETE_RECORDS, in->timeout_ms);
}
