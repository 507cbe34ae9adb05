/* DeleteRecords: the log of a partition starts further on, for good. */
#include "kafka/proto/delete_records.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

enum {
    LOW_WATERMARK_NONE = -1,
};

struct part {
    struct fanout_part fan;
    struct delete_records_response_partition *out;
};

struct delete_records_state {
    struct fanout fanout;
    struct delete_records_response out;
    struct part *parts;
    size_t parts_count;
};

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    (void)f;
    struct part *part = container_of(fan, struct part, fan);
    part->out->error_code = (int16_t)kafka_error_of(e);
    if (e == ERR_OK) {
        part->out->low_watermark = fan->op.offsets.log_start_offset;
    }
}

static void on_all(struct fanout *f)
{
    struct delete_records_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static void prepare_part(struct request *r,
                         struct part *part,
                         const struct delete_records_request_partition *in,
                         enum kafka_error error)
{
    struct delete_records_state *state = r->state;
    delete_records_response_partition_init(part->out);
    part->out->partition_index = in->partition_index;
    part->out->low_watermark = LOW_WATERMARK_NONE;
    part->out->error_code = (int16_t)error;
    if (error != KAFKA_NONE) {
        return;
    }
    struct partition_op *op = &part->fan.op;
    op->kind = PARTITION_DELETE_RECORDS;
    op->current_leader_epoch = -1;
    op->in.delete_records.offset = in->offset; /* -1 means the same to both. */
    fanout_add(&state->fanout, &part->fan);
}

/* part is the first of the topic's partitions. */
static bool
prepare_topic(struct request *r, const struct delete_records_request_topic *in, struct part *part)
{
    struct delete_records_state *state = r->state;
    const struct lookup how = {.name = in->name};
    const struct topic *t = NULL;
    enum kafka_error topic_error = lookup_topic(r, &how, &t);
    if (topic_error == KAFKA_NONE && t->is_internal) {
        topic_error = KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    struct delete_records_response_topic *out = &state->out.topics[state->out.topics_count++];
    delete_records_response_topic_init(out);
    out->name = in->name;
    out->partitions_count = in->partitions_count;
    out->partitions = request_alloc(r, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++, part++) {
        const struct delete_records_request_partition *in_part = &in->partitions[i];
        part->out = &out->partitions[i];
        const enum kafka_error error =
            lookup_partition(topic_error, t, in_part->partition_index, &part->fan.op.id);
        prepare_part(r, part, in_part, error);
    }
    return true;
}

static bool prepare(struct request *r)
{
    const struct delete_records_request *in = r->in;
    struct delete_records_state *state = r->state;
    for (size_t i = 0; i < in->topics_count; i++) {
        state->parts_count += in->topics[i].partitions_count;
    }
    state->parts = request_alloc(r, state->parts_count, sizeof(*state->parts));
    delete_records_response_init(&state->out);
    state->out.topics = request_alloc(r, in->topics_count, sizeof(*state->out.topics));
    if (state->parts == NULL || state->out.topics == NULL) {
        return false;
    }
    struct part *part = state->parts;
    for (size_t i = 0; i < in->topics_count; i++) {
        if (!prepare_topic(r, &in->topics[i], part)) {
            return false;
        }
        part += in->topics[i].partitions_count;
    }
    return true;
}

void handle_delete_records(struct request *r)
{
    const struct delete_records_request *in = r->in;
    struct delete_records_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    if (state == NULL) {
        request_abort(r, "no memory");
        return;
    }
    fanout_init(&state->fanout, r);
    state->fanout.on_part = on_part;
    state->fanout.on_all = on_all;
    if (!prepare(r)) {
        request_abort(r, "too many partitions");
        return;
    }
    fanout_run(&state->fanout, in->timeout_ms);
}
