/* OffsetForLeaderEpoch: where a leader epoch ends, by which a reader finds out that its position is
 * in a part of the log that was cut (KIP-320, PROTOCOL 14). */
#include "kafka/proto/offset_for_leader_epoch.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

struct part {
    struct fanout_part fan;
    struct offset_for_leader_epoch_response_partition *out;
};

struct offset_for_leader_epoch_state {
    struct fanout fanout;
    struct offset_for_leader_epoch_response out;
    struct part *parts;
    size_t parts_count;
};

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    (void)f;
    struct part *part = container_of(fan, struct part, fan);
    part->out->error_code = (int16_t)kafka_error_of(e);
    if (e == ERR_OK) {
        part->out->leader_epoch = fan->op.out.term_end.leader_epoch;
        part->out->end_offset = fan->op.out.term_end.end_offset;
    }
}

static void on_all(struct fanout *f)
{
    struct offset_for_leader_epoch_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static void prepare_part(struct request *r,
                         struct part *part,
                         const struct offset_for_leader_epoch_request_partition *in,
                         enum kafka_error error)
{
    struct offset_for_leader_epoch_state *state = r->state;
    offset_for_leader_epoch_response_partition_init(part->out);
    part->out->partition = in->partition;
    part->out->error_code = (int16_t)error;
    if (error != KAFKA_NONE) {
        return;
    }
    struct partition_op *op = &part->fan.op;
    op->kind = PARTITION_TERM_END;
    op->current_leader_epoch = in->current_leader_epoch;
    op->in.term_end.leader_epoch = in->leader_epoch;
    fanout_add(&state->fanout, &part->fan);
}

/* part is the first of the topic's partitions. */
static bool prepare_topic(struct request *r,
                          const struct offset_for_leader_epoch_request_topic *in,
                          struct part *part)
{
    struct offset_for_leader_epoch_state *state = r->state;
    const struct lookup how = {.name = in->topic};
    const struct topic *t = NULL;
    const enum kafka_error topic_error = lookup_topic(r, &how, &t);
    struct offset_for_leader_epoch_response_topic *out =
        &state->out.topics[state->out.topics_count++];
    offset_for_leader_epoch_response_topic_init(out);
    out->topic = in->topic;
    out->partitions_count = in->partitions_count;
    out->partitions = request_alloc(r, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++, part++) {
        const struct offset_for_leader_epoch_request_partition *in_part = &in->partitions[i];
        part->out = &out->partitions[i];
        const enum kafka_error error =
            lookup_partition(topic_error, t, in_part->partition, &part->fan.op.id);
        prepare_part(r, part, in_part, error);
    }
    return true;
}

static bool prepare(struct request *r)
{
    const struct offset_for_leader_epoch_request *in = r->in;
    struct offset_for_leader_epoch_state *state = r->state;
    for (size_t i = 0; i < in->topics_count; i++) {
        state->parts_count += in->topics[i].partitions_count;
    }
    state->parts = request_alloc(r, state->parts_count, sizeof(*state->parts));
    offset_for_leader_epoch_response_init(&state->out);
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

void handle_offset_for_leader_epoch(struct request *r)
{
    struct offset_for_leader_epoch_state *state = request_alloc(r, 1, sizeof(*state));
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
    fanout_run(&state->fanout, FANOUT_NO_TIMEOUT);
}
