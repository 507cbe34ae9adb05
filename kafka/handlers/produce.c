/* Produce: each partition's batch goes to the shard that owns it, in the order of the request, and
 * is waited for as kafka/fanout.h has it. A batch that is called back is one that waits for room:
 * its frame, which no connection is charged for any more, must not stay.
 */
#include "kafka/proto/produce.h"

#include "core/assert.h"
#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
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
    struct produce_response_partition *out;
    struct produce_response_record_error record_error; /* What out may point at. */
};

struct produce_state {
    struct fanout fanout;
    struct produce_response out;
    struct part *parts;
    size_t parts_count;
    size_t uncopied_count; /* Parts whose batch still lies in the frame. */
    bool is_failed;        /* Some partition has an error. */
    int16_t acks;
};

static void set_error(struct produce_state *state,
                      struct part *part,
                      enum kafka_error error,
                      struct slice message)
{
    part->out->error_code = (int16_t)error;
    part->out->error_message = message;
    part->out->base_offset = -1;
    state->is_failed = true;
}

/* KAFKA_STORAGE_ERROR is younger than the oldest version: as in Kafka, who cannot know it is told
 * something that lets him try again, too. */
static enum kafka_error error_of(const struct request *r, enum err e)
{
    const enum kafka_error error = kafka_error_of(e);
    return error == KAFKA_KAFKA_STORAGE_ERROR && r->version < VERSION_STORAGE_ERROR
               ? KAFKA_NOT_LEADER_OR_FOLLOWER
               : error;
}

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    struct part *part = container_of(fan, struct part, fan);
    struct produce_state *state = f->request->state;
    const struct partition_op *op = &fan->op;
    if (e == ERR_OK) {
        part->out->base_offset = op->out.produce.base_offset;
        part->out->log_append_time_ms = op->out.produce.append_time_ms;
        part->out->log_start_offset = op->offsets.log_start_offset;
        return;
    }
    set_error(state, part, error_of(f->request, e), kafka_error_advice(e));
    if (e == ERR_TIMED_OUT) {
        return;
    }
    const struct batch_fault *fault = &op->out.produce.fault;
    if (fault->message == NULL) {
        return;
    }
    part->out->error_message = slice_of_string(fault->message);
    if (fault->record_index >= 0) {
        part->record_error = (struct produce_response_record_error){
            .batch_index = fault->record_index,
            .batch_index_error_message = slice_of_string(fault->message),
        };
        part->out->record_errors = &part->record_error;
        part->out->record_errors_count = 1;
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

static void on_copied(struct partition_op *op)
{
    const struct fanout *f = op->context;
    struct produce_state *state = f->request->state;
    assert_cmp(state->uncopied_count, >, 0);
    state->uncopied_count--;
    if (state->uncopied_count == 0) {
        request_drop_frame(f->request);
    }
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
    if (t->is_internal && !slice_equal_string(r->client_id, "__admin_client")) {
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

static void prepare_op(struct request *r, struct part *part, struct slice batch)
{
    const struct produce_request *in = r->in;
    struct produce_state *state = r->state;
    struct partition_op *op = &part->fan.op;
    op->kind = PARTITION_PRODUCE;
    op->current_leader_epoch = -1;
    op->in.produce.batch = batch;
    op->in.produce.acks = in->acks;
    op->in.produce.produce_version = r->version;
    op->in.produce.on_copied = on_copied;
    fanout_add(&state->fanout, &part->fan);
    state->uncopied_count++;
}

static void prepare_part(struct request *r,
                         struct part *part,
                         enum kafka_error topic_error,
                         const struct topic *t,
                         const struct produce_request_partition *in)
{
    const char *why = (const char *)kafka_error_advice(ERR_TOPIC_UNKNOWN).data;
    enum kafka_error error = lookup_partition(topic_error, t, in->index, &part->fan.op.id);
    if (error == KAFKA_NONE) {
        error = check(r, t, in, &why);
    }
    if (error == KAFKA_NONE) {
        prepare_op(r, part, in->records);
    } else {
        set_error(r->state, part, error, slice_of_string(why));
    }
}

/* Fills the answer's topic and the parts of its partitions; part is the first of them. */
static bool prepare_topic(struct request *r,
                          const struct produce_request_topic *in,
                          struct produce_response_topic *out,
                          struct part *part)
{
    const struct lookup how = {
        .is_by_id = r->version >= VERSION_IDS,
        .name = in->name,
        .id = in->topic_id,
    };
    const struct topic *t = NULL;
    const enum kafka_error topic_error = lookup_topic(r, &how, &t);

    produce_response_topic_init(out);
    out->topic_id = in->topic_id;
    /* A copy: the answer outlives the frame, and the topic. */
    const char *name = arena_strndup(&r->arena, (const char *)in->name.data, in->name.size);
    out->partition_responses_count = in->partition_data_count;
    out->partition_responses =
        request_alloc(r, in->partition_data_count, sizeof(*out->partition_responses));
    if (name == NULL || out->partition_responses == NULL) {
        return false;
    }
    out->name = slice_of(name, in->name.size);

    for (size_t i = 0; i < in->partition_data_count; i++, part++) {
        const struct produce_request_partition *in_part = &in->partition_data[i];
        part->out = &out->partition_responses[i];
        produce_response_partition_init(part->out);
        part->out->index = in_part->index;
        prepare_part(r, part, topic_error, t, in_part);
    }
    return true;
}

static bool prepare(struct request *r)
{
    const struct produce_request *in = r->in;
    struct produce_state *state = r->state;
    for (size_t i = 0; i < in->topic_data_count; i++) {
        state->parts_count += in->topic_data[i].partition_data_count;
    }
    state->parts = request_alloc(r, state->parts_count, sizeof(*state->parts));
    struct produce_response_topic *topics = request_alloc(r, in->topic_data_count, sizeof(*topics));
    if (state->parts == NULL || topics == NULL) {
        return false;
    }
    produce_response_init(&state->out);
    state->out.responses = topics;
    state->out.responses_count = in->topic_data_count;
    struct part *part = state->parts;
    for (size_t i = 0; i < in->topic_data_count; i++) {
        if (!prepare_topic(r, &in->topic_data[i], &topics[i], part)) {
            return false;
        }
        part += in->topic_data[i].partition_data_count;
    }
    return true;
}

void handle_produce(struct request *r)
{
    const struct produce_request *in = r->in;
    struct produce_state *state = request_alloc(r, 1, sizeof(*state));
    r->state = state;
    if (state == NULL) {
        request_abort(r, "no memory");
        return;
    }
    state->acks = in->acks;
    fanout_init(&state->fanout, r);
    state->fanout.on_part = on_part;
    state->fanout.on_all = on_all;
    if (!prepare(r)) {
        request_abort(r, "too many partitions");
        return;
    }
    fanout_run(&state->fanout, state->acks == ACKS_NONE ? FANOUT_NO_TIMEOUT : in->timeout_ms);
}
