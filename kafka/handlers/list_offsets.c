/* ListOffsets: the bounds of a log, or the first record at or after a time. */
#include "kafka/proto/list_offsets.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"
#include "kafka/seen.h"

/* Timestamps with a meaning of their own. */
enum special_timestamp {
    TIMESTAMP_LATEST = -1,
    TIMESTAMP_EARLIEST = -2,
    TIMESTAMP_MAX = -3,
    TIMESTAMP_EARLIEST_LOCAL = -4,
    TIMESTAMP_LATEST_TIERED = -5,
    TIMESTAMP_EARLIEST_PENDING_UPLOAD = -6,
};

enum {
    VERSION_LEADER_EPOCH = 4,
    ISOLATION_READ_COMMITTED = 1,
    REPLICA_CONSUMER = -1,
};

struct part {
    struct fanout_part fan;
    int64_t timestamp; /* As asked. */
    struct list_offsets_response_partition *out;
};

struct list_offsets_state {
    struct fanout fanout;
    struct list_offsets_response out;
    struct part *parts;
    size_t parts_count;
};

static bool is_read_committed(const struct request *r)
{
    const struct list_offsets_request *in = r->in;
    return in->isolation_level == ISOLATION_READ_COMMITTED;
}

/* The first version that knows a special timestamp (PROTOCOL 13); INT16_MAX: none does. */
static int16_t version_of_special(int64_t timestamp)
{
    switch (timestamp) {
    case TIMESTAMP_LATEST:
    case TIMESTAMP_EARLIEST:
        return 1;
    case TIMESTAMP_MAX:
        return 7;
    case TIMESTAMP_EARLIEST_LOCAL:
        return 8;
    case TIMESTAMP_LATEST_TIERED:
        return 9;
    case TIMESTAMP_EARLIEST_PENDING_UPLOAD:
        return 11;
    default:
        return INT16_MAX;
    }
}

/* Where "latest" is for this reader. */
static int64_t latest_offset(const struct request *r, const struct partition_offsets *offsets)
{
    const struct list_offsets_request *in = r->in;
    if (in->replica_id != REPLICA_CONSUMER) {
        return offsets->log_end_offset; /* Debugging consumers and replicas see all. */
    }
    return is_read_committed(r) ? offsets->last_stable_offset : offsets->high_watermark;
}

static void set_offset(struct part *part, const struct request *r, int64_t offset, int32_t epoch)
{
    part->out->offset = offset;
    if (r->version >= VERSION_LEADER_EPOCH) {
        part->out->leader_epoch = epoch;
    }
}

static void set_found(struct part *part, const struct request *r)
{
    const struct partition_op *op = &part->fan.op;
    const int64_t offset = op->out.find_time.offset;
    if (offset < 0 || offset >= latest_offset(r, &op->offsets)) {
        return; /* None: -1, -1, -1 and no error (KIP-79). */
    }
    set_offset(part, r, offset, op->out.find_time.leader_epoch);
    part->out->timestamp = op->out.find_time.timestamp;
}

static void on_part(struct fanout *f, struct fanout_part *fan, enum err e)
{
    struct part *part = container_of(fan, struct part, fan);
    const struct request *r = f->request;
    const struct partition_op *op = &fan->op;
    if (e != ERR_OK) {
        part->out->error_code = (int16_t)kafka_error_of(e);
        return;
    }
    switch (part->timestamp) {
    case TIMESTAMP_LATEST:
        if (op->offsets.is_end_unknown) {
            part->out->error_code = KAFKA_KAFKA_STORAGE_ERROR;
            return;
        }
        set_offset(part, r, latest_offset(r, &op->offsets), op->offsets.leader_epoch);
        return;
    case TIMESTAMP_EARLIEST:
    case TIMESTAMP_EARLIEST_LOCAL: /* There is one tier. */
        set_offset(part, r, op->offsets.log_start_offset, op->offsets.leader_epoch);
        return;
    case TIMESTAMP_LATEST_TIERED:
    case TIMESTAMP_EARLIEST_PENDING_UPLOAD:
        return;
    default:
        set_found(part, r);
    }
}

static void on_all(struct fanout *f)
{
    struct list_offsets_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static void
prepare_op(struct request *r, struct part *part, const struct list_offsets_request_partition *in)
{
    struct list_offsets_state *state = r->state;
    struct partition_op *op = &part->fan.op;
    op->current_leader_epoch = in->current_leader_epoch;
    if (in->timestamp >= 0 || in->timestamp == TIMESTAMP_MAX) {
        op->kind = PARTITION_FIND_TIME;
        op->in.find_time.timestamp =
            in->timestamp == TIMESTAMP_MAX ? PARTITION_TIMESTAMP_MAX : in->timestamp;
        op->in.find_time.is_read_committed = is_read_committed(r);
    } else {
        op->kind = PARTITION_OFFSETS;
    }
    part->timestamp = in->timestamp;
    fanout_add(&state->fanout, &part->fan);
}

static void prepare_part(struct request *r,
                         struct part *part,
                         const struct list_offsets_request_partition *in,
                         enum kafka_error error)
{
    if (error == KAFKA_NONE && in->timestamp < 0 &&
        version_of_special(in->timestamp) > r->version) {
        error = KAFKA_UNSUPPORTED_VERSION;
    }
    list_offsets_response_partition_init(part->out);
    part->out->partition_index = in->partition_index;
    part->out->error_code = (int16_t)error;
    if (error == KAFKA_NONE) {
        prepare_op(r, part, in);
    }
}

/* Fills the answer's topic and the parts of its partitions; part is the first of them. */
static bool prepare_topic(struct request *r,
                          const struct list_offsets_request_topic *in,
                          const struct seen *seen,
                          struct part *part)
{
    struct list_offsets_state *state = r->state;
    const struct lookup how = {.name = in->name};
    const struct topic *t = NULL;
    const enum kafka_error topic_error = lookup_topic(r, &how, &t);

    struct list_offsets_response_topic *out = &state->out.topics[state->out.topics_count++];
    list_offsets_response_topic_init(out);
    out->name = in->name;
    out->partitions_count = in->partitions_count;
    out->partitions = request_alloc(r, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++, part++) {
        const struct list_offsets_request_partition *in_part = &in->partitions[i];
        part->out = &out->partitions[i];
        enum kafka_error error =
            lookup_partition(topic_error, t, in_part->partition_index, &part->fan.op.id);
        if (seen_times(seen, in->name, in_part->partition_index) > 1) {
            error = KAFKA_INVALID_REQUEST;
        }
        prepare_part(r, part, in_part, error);
    }
    return true;
}

static bool prepare(struct request *r)
{
    const struct list_offsets_request *in = r->in;
    struct list_offsets_state *state = r->state;
    for (size_t i = 0; i < in->topics_count; i++) {
        state->parts_count += in->topics[i].partitions_count;
    }
    struct seen seen;
    state->parts = request_alloc(r, state->parts_count, sizeof(*state->parts));
    list_offsets_response_init(&state->out);
    state->out.topics = request_alloc(r, in->topics_count, sizeof(*state->out.topics));
    if (state->parts == NULL || state->out.topics == NULL ||
        !seen_init(&seen, r, state->parts_count)) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        const struct list_offsets_request_topic *t = &in->topics[i];
        for (size_t k = 0; k < t->partitions_count; k++) {
            (void)seen_add(&seen, t->name, t->partitions[k].partition_index);
        }
    }
    struct part *part = state->parts;
    for (size_t i = 0; i < in->topics_count; i++) {
        if (!prepare_topic(r, &in->topics[i], &seen, part)) {
            return false;
        }
        part += in->topics[i].partitions_count;
    }
    return true;
}

void handle_list_offsets(struct request *r)
{
    struct list_offsets_state *state = request_alloc(r, 1, sizeof(*state));
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
    fanout_run(&state->fanout, FANOUT_NO_TIMEOUT); /* Nothing is waited for but the shards. */
}
