/* OffsetForLeaderEpoch: where a leader epoch ends, by which a reader finds out that its position is
 * in a part of the log that was cut (KIP-320, PROTOCOL 14). */
#include "kafka/proto/offset_for_leader_epoch.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

struct offset_for_leader_epoch_state {
    struct fanout fanout;
    struct offset_for_leader_epoch_response out;
};

static bool begin(struct fanout *f)
{
    const struct offset_for_leader_epoch_request *in = f->request->in;
    struct offset_for_leader_epoch_state *state = f->request->state;
    offset_for_leader_epoch_response_init(&state->out);
    f->topics_count = in->topics_count;
    state->out.topics_count = in->topics_count;
    state->out.topics = request_alloc(f->request, in->topics_count, sizeof(*state->out.topics));
    return state->out.topics != NULL;
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct offset_for_leader_epoch_request *in = f->request->in;
    ret->how = (struct lookup){.name = in->topics[index].topic};
    ret->partitions_count = in->topics[index].partitions_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct offset_for_leader_epoch_state *state = f->request->state;
    struct offset_for_leader_epoch_response_topic *out = &state->out.topics[t->index];
    offset_for_leader_epoch_response_topic_init(out);
    out->topic = t->how.name;
    out->partitions_count = t->partitions_count;
    out->partitions = answers;
    return true;
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    const struct offset_for_leader_epoch_request *request = f->request->in;
    const struct offset_for_leader_epoch_request_partition *in =
        &request->topics[t->index].partitions[number];
    struct offset_for_leader_epoch_response_partition *out = part->answer;
    const enum kafka_error error = fanout_find(t, in->partition, part);
    offset_for_leader_epoch_response_partition_init(out);
    out->partition = in->partition;
    out->error_code = (int16_t)error;
    if (error == KAFKA_NONE) {
        part->op.kind = PARTITION_TERM_END;
        part->op.current_leader_epoch = in->current_leader_epoch;
        part->op.in.term_end.leader_epoch = in->leader_epoch;
        fanout_ask(f, part);
    }
}

static void on_part(struct fanout *f, struct fanout_part *part, enum err e)
{
    (void)f;
    struct offset_for_leader_epoch_response_partition *out = part->answer;
    out->error_code = (int16_t)kafka_error_of(e);
    if (e == ERR_OK) {
        out->leader_epoch = part->op.out.term_end.leader_epoch;
        out->end_offset = part->op.out.term_end.end_offset;
    }
}

static void on_all(struct fanout *f)
{
    struct offset_for_leader_epoch_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static const struct fanout_kind OFFSET_FOR_LEADER_EPOCH = {
    .state_size = sizeof(struct offset_for_leader_epoch_state),
    .part_size = sizeof(struct fanout_part),
    .answer_size = sizeof(struct offset_for_leader_epoch_response_partition),
    .in_flight_max = FANOUT_IN_FLIGHT_MAX,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_offset_for_leader_epoch(struct request *r)
{
    fanout_handle(r, &OFFSET_FOR_LEADER_EPOCH, FANOUT_NO_TIMEOUT);
}
