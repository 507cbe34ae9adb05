/* ListOffsets: the bounds of a log, or the first record at or after a time. */
#include "kafka/proto/list_offsets.h"

#include "kafka/fanout.h"
#include "kafka/handlers/handlers.h"
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
};

struct list_offsets_state {
    struct fanout fanout;
    struct list_offsets_response out;
    struct seen seen;
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

static void set_offset(struct list_offsets_response_partition *out,
                       const struct request *r,
                       int64_t offset,
                       int32_t epoch)
{
    out->offset = offset;
    if (r->version >= VERSION_LEADER_EPOCH) {
        out->leader_epoch = epoch;
    }
}

static void set_found(struct list_offsets_response_partition *out,
                      const struct request *r,
                      const struct partition_op *op)
{
    const int64_t offset = op->out.find_time.offset;
    if (offset < 0 || offset >= latest_offset(r, &op->offsets)) {
        return; /* None: -1, -1, -1 and no error (KIP-79). */
    }
    set_offset(out, r, offset, op->out.find_time.leader_epoch);
    out->timestamp = op->out.find_time.timestamp;
}

static void on_part(struct fanout *f, struct fanout_part *part, enum err e)
{
    const struct request *r = f->request;
    const struct partition_op *op = &part->op;
    struct list_offsets_response_partition *out = part->answer;
    if (e != ERR_OK) {
        out->error_code = (int16_t)kafka_error_of(e);
        return;
    }
    switch (container_of(part, struct part, fan)->timestamp) {
    case TIMESTAMP_LATEST:
        if (op->offsets.is_end_unknown) {
            out->error_code = KAFKA_KAFKA_STORAGE_ERROR;
            return;
        }
        set_offset(out, r, latest_offset(r, &op->offsets), op->offsets.leader_epoch);
        return;
    case TIMESTAMP_EARLIEST:
    case TIMESTAMP_EARLIEST_LOCAL: /* There is one tier. */
        set_offset(out, r, op->offsets.log_start_offset, op->offsets.leader_epoch);
        return;
    case TIMESTAMP_LATEST_TIERED:
    case TIMESTAMP_EARLIEST_PENDING_UPLOAD:
        return;
    default:
        set_found(out, r, op);
    }
}

static void on_all(struct fanout *f)
{
    struct list_offsets_state *state = f->request->state;
    request_answer(f->request, &state->out);
}

static bool find_duplicates(struct request *r, struct seen *seen)
{
    const struct list_offsets_request *in = r->in;
    size_t count = 0;
    for (size_t i = 0; i < in->topics_count; i++) {
        count += in->topics[i].partitions_count;
    }
    if (!seen_init(seen, r, count)) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        const struct list_offsets_request_topic *t = &in->topics[i];
        for (size_t k = 0; k < t->partitions_count; k++) {
            (void)seen_add(seen, t->name, t->partitions[k].partition_index);
        }
    }
    return true;
}

static bool begin(struct fanout *f)
{
    const struct list_offsets_request *in = f->request->in;
    struct list_offsets_state *state = f->request->state;
    list_offsets_response_init(&state->out);
    f->topics_count = in->topics_count;
    state->out.topics_count = in->topics_count;
    state->out.topics = request_alloc(f->request, in->topics_count, sizeof(*state->out.topics));
    return state->out.topics != NULL && find_duplicates(f->request, &state->seen);
}

static void describe_topic(const struct fanout *f, size_t index, struct fanout_topic *ret)
{
    const struct list_offsets_request *in = f->request->in;
    ret->how = (struct lookup){.name = in->topics[index].name};
    ret->partitions_count = in->topics[index].partitions_count;
}

static bool begin_topic(struct fanout *f, const struct fanout_topic *t, void *answers)
{
    struct list_offsets_state *state = f->request->state;
    struct list_offsets_response_topic *out = &state->out.topics[t->index];
    list_offsets_response_topic_init(out);
    out->name = t->how.name;
    out->partitions_count = t->partitions_count;
    out->partitions = answers;
    return true;
}

static void
ask(struct fanout *f, struct fanout_part *part, const struct list_offsets_request_partition *in)
{
    struct partition_op *op = &part->op;
    op->current_leader_epoch = in->current_leader_epoch;
    if (in->timestamp >= 0 || in->timestamp == TIMESTAMP_MAX) {
        op->kind = PARTITION_FIND_TIME;
        op->in.find_time.timestamp =
            in->timestamp == TIMESTAMP_MAX ? PARTITION_TIMESTAMP_MAX : in->timestamp;
        op->in.find_time.is_read_committed = is_read_committed(f->request);
    } else {
        op->kind = PARTITION_OFFSETS;
    }
    container_of(part, struct part, fan)->timestamp = in->timestamp;
    fanout_ask(f, part);
}

static void
begin_part(struct fanout *f, const struct fanout_topic *t, size_t number, struct fanout_part *part)
{
    const struct request *r = f->request;
    const struct list_offsets_request *request = r->in;
    const struct list_offsets_request_partition *in = &request->topics[t->index].partitions[number];
    const struct list_offsets_state *state = r->state;
    struct list_offsets_response_partition *out = part->answer;
    enum kafka_error error = fanout_find(t, in->partition_index, part);
    if (seen_times(&state->seen, t->how.name, in->partition_index) > 1) {
        error = KAFKA_INVALID_REQUEST;
    }
    if (error == KAFKA_NONE && in->timestamp < 0 &&
        version_of_special(in->timestamp) > r->version) {
        error = KAFKA_UNSUPPORTED_VERSION;
    }
    list_offsets_response_partition_init(out);
    out->partition_index = in->partition_index;
    out->error_code = (int16_t)error;
    if (error == KAFKA_NONE) {
        ask(f, part, in);
    }
}

static const struct fanout_kind LIST_OFFSETS = {
    .state_size = sizeof(struct list_offsets_state),
    .part_size = sizeof(struct part),
    .answer_size = sizeof(struct list_offsets_response_partition),
    .in_flight_max = FANOUT_IN_FLIGHT_MAX,
    .begin = begin,
    .describe_topic = describe_topic,
    .begin_topic = begin_topic,
    .begin_part = begin_part,
    .on_part = on_part,
    .on_all = on_all,
};

void handle_list_offsets(struct request *r)
{
    fanout_handle(r, &LIST_OFFSETS, FANOUT_NO_TIMEOUT); /* Nothing is waited for but the shards. */
}
