/* Produce: each partition's batch goes to the shard that owns it, in the order of the request, and
 * is waited for as kafka/fanout.h has it. A batch that is called back is one that waits for room:
 * its frame, which no connection is charged for any more, must not stay.
 */
#include "kafka/proto/produce.h"

#include "core/assert.h"
#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    VERSION_IDS = 13,
    VERSION_STORAGE_ERROR = 4,
    ACKS_ALL = -1,
    ACKS_NONE = 0,
    ACKS_LEADER = 1,
};

struct part {
    struct fanout_part fan;
    struct produce_response_record_error record_error; /* What the answer may point at. */
};

struct produce_state {
    struct fanout fanout;
    struct produce_response out;
    size_t uncopied_count; /* Partitions whose batch in the frame is still needed. */
    bool is_failed;        /* Some partition has an error. */
    int16_t acks;
};

static void set_error(struct request *r,
                      struct produce_response_partition *out,
                      enum kafka_error error,
                      struct slice message)
{
    struct produce_state *state = r->state;
    out->error_code = (int16_t)error;
    out->error_message = message;
    out->base_offset = -1;
    state->is_failed = true;
}

/* KAFKA_STORAGE_ERROR is younger than the oldest version: as in Kafka, who cannot know it is told
 * something that lets him try again, too. */
static enum kafka_error error_of(const struct request *r, enum err e)
{
    if (e == ERR_NOT_FOUND && r->version >= VERSION_IDS) {
        return KAFKA_UNKNOWN_TOPIC_ID; /* Deleted while it was asked. */
    }
    const enum kafka_error error = kafka_error_of(e);
    return error == KAFKA_KAFKA_STORAGE_ERROR && r->version < VERSION_STORAGE_ERROR
               ? KAFKA_NOT_LEADER_OR_FOLLOWER
               : error;
}

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    struct part *part = container_of(fan, struct part, fan);
    struct produce_response_partition *out = fan->answer;
    const struct partition_op *op = &fan->op;
    if (e == ERR_OK) {
        out->base_offset = op->out.produce.base_offset;
        out->log_append_time_ms = op->out.produce.append_time_ms;
        out->log_start_offset = op->offsets.log_start_offset;
        return;
    }
    set_error(f->request, out, error_of(f->request, e), kafka_error_advice(e));
    if (e == ERR_TIMED_OUT) {
        return;
    }
    const struct batch_fault *fault = &op->out.produce.fault;
    if (fault->message == NULL) {
        return;
    }
    out->error_message = slice_of_string(fault->message);
    if (fault->record_index >= 0) {
        part->record_error = (struct produce_response_record_error){
            .batch_index = fault->record_index,
            .batch_index_error_message = slice_of_string(fault->message),
        };
        out->record_errors = &part->record_error;
        out->record_errors_count = 1;
    }
}

static void on_all(struct fanout *f)
{
    struct request *r = f->request;
    const struct produce_state *state = r->state;
    if (state->acks != ACKS_NONE) {
        request_answer(r, &state->out);
    } else if (state->is_failed) {
        /* The only way to tell a client that listens to no answer: it then asks for metadata. */
        request_abort(r, "a produce with acks=0 failed");
    } else {
        request_answer_nothing(r);
    }
}

static void drop_batch(struct request *r)
{
    struct produce_state *state = r->state;
    assert_cmp(state->uncopied_count, >, 0);
    state->uncopied_count--;
    if (state->uncopied_count == 0) {
        request_drop_frame(r);
    }
}

static void on_copied(struct partition_op *op)
{
    const struct fanout *f = op->context;
    drop_batch(f->request);
}

/* What can be said without asking the partition's shard. */
static enum kafka_error check(const struct request *r,
                              const struct topic *t,
                              const struct produce_request_partition *in,
                              const char **ret_why)
{
    const struct produce_request *request = r->in;
    if (request->acks < ACKS_ALL || request->acks > ACKS_LEADER) {
        *ret_why = "acks must be -1 (all), 0 or 1.";
        return KAFKA_INVALID_REQUIRED_ACKS;
    }
    if (t->is_internal) { /* Of any client id: its coordinators would not know of it. */
        *ret_why = "The topic is the broker's own; clients may not write to it.";
        return KAFKA_INVALID_TOPIC_EXCEPTION;
    }
    if (in->records.size == 0) {
        *ret_why = "The records of a partition must be exactly one batch.";
        return KAFKA_INVALID_RECORD;
    }
    struct batch_header header;
    if (batch_header_decode(in->records, &header) == ERR_OK &&
        (header.attributes & BATCH_TRANSACTIONAL) != 0) {
        *ret_why = "Transactions are not served by this version of Coreflume.";
        return KAFKA_INVALID_TXN_STATE;
    }
    return KAFKA_NONE;
}

static bool begin(struct fanout *f)
{
    struct request *r = f->request;
    const struct produce_request *in = r->in;
    struct produce_state *state = r->state;
    state->acks = in->acks;
    produce_response_init(&state->out);
    f->topics_count = in->topic_data_count;
    state->out.responses_count = in->topic_data_count;
    state->out.responses = request_alloc(r, in->topic_data_count, sizeof(*state->out.responses));
    return state->out.responses != NULL;
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct produce_request *request = f->request->in;
    const struct produce_request_topic *in = &request->topic_data[index];
    ret->how = (struct lookup){
        .is_by_id = f->request->version >= VERSION_IDS,
        .name = in->name,
        .id = in->topic_id,
    };
    ret->partitions_count = in->partition_data_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct request *r = f->request;
    struct produce_state *state = r->state;
    struct produce_response_topic *out = &state->out.responses[t->index];
    state->uncopied_count = f->parts_count;
    produce_response_topic_init(out);
    out->topic_id = t->how.id;
    out->partition_responses_count = t->partitions_count;
    out->partition_responses = answers;
    /* A copy: the answer outlives the frame, and the topic. */
    const struct slice name = t->how.name;
    out->name = slice_of(arena_strndup(&r->arena, (const char *)name.data, name.size), name.size);
    return out->name.data != NULL;
}

static void ask(struct fanout *f, struct fanout_part *part, struct slice batch)
{
    const struct produce_state *state = f->request->state;
    struct partition_op *op = &part->op;
    op->kind = PARTITION_PRODUCE;
    op->in.produce.batch = batch;
    op->in.produce.acks = state->acks;
    op->in.produce.is_own = false;
    op->in.produce.produce_version = f->request->version;
    op->in.produce.on_copied = on_copied;
    fanout_ask(f, part);
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    struct request *r = f->request;
    const struct produce_request *request = r->in;
    const struct produce_request_partition *in =
        &request->topic_data[t->index].partition_data[number];
    struct produce_response_partition *out = part->answer;
    const char *why = (const char *)kafka_error_advice(ERR_TOPIC_UNKNOWN).data;
    enum kafka_error error = fanout_find(t, in->index, part);
    if (error == KAFKA_NONE) {
        error = check(r, t->topic, in, &why);
    }
    produce_response_partition_init(out);
    out->index = in->index;
    if (error == KAFKA_NONE) {
        ask(f, part, in->records);
    } else {
        set_error(r, out, error, slice_of_string(why));
        drop_batch(r);
    }
}

/* All at once: a connection's next produce request may overtake what is not yet asked. */
static const struct fanout_kind PRODUCE = {
    .state_size = sizeof(struct produce_state),
    .part_size = sizeof(struct part),
    .answer_size = sizeof(struct produce_response_partition),
    .in_flight_max = FANOUT_ALL_AT_ONCE,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_produce(struct request *r)
{
    const struct produce_request *in = r->in;
    fanout_handle(r, &PRODUCE, in->acks == ACKS_NONE ? FANOUT_NO_TIMEOUT : in->timeout_ms);
}
