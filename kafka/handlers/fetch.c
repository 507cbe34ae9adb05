/* Fetch, as a task:
 *
 *   WAIT_ROOM -> WAIT_PEEK ...    (or DONE: an answer that names nothing)
 *   WAIT_PEEK -> WAIT_DATA -> WAIT_CANCEL -+-> WAIT_READ -> DONE
 *       |                                  |     |   ^
 *       +----------------------------------+     v   |
 *                                          +-> WAIT_MEMORY -> DONE
 *
 * Each partition's shard is asked what there is to read (peek). If that is less than min_bytes, the
 * shards tell when more is committed (wait), and only partitions that moved are asked again. Then
 * memory is granted in the order of the request, and the shards read into it.
 *
 * Fetches that wait may take a part of the memory of requests, so that others of any kind find
 * some: a further one waits for the room its partitions take, at most as long as it would for data.
 *
 * In a session (KIP-227) the request's partitions are the session's, and the answer leaves out
 * those that did not change (fetch_session.c).
 */
#include "core/assert.h"
#include "core/reached.h"
#include "core/shard.h"
#include "core/sm.h"
#include "kafka/handlers/fetch_priv.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"

enum {
    VERSION_REPLICA_STATE = 15,
    VERSION_STORAGE_ERROR = 6, /* Knows KAFKA_STORAGE_ERROR. */
    ISOLATION_READ_COMMITTED = 1,
    OWNER_RETRY_US = 10 * 1000,
    ROOM_RETRY_US = 20 * 1000,
    /* Parts of the memory of requests that fetches leave to others. */
    ROOM_SHARES = 4,
};

static const struct sm_state fetch_states[FETCH_STATE_COUNT] = {
    [FETCH_WAIT_ROOM] = {"WAIT_ROOM", SM_BIT(FETCH_WAIT_PEEK) | SM_BIT(FETCH_DONE)},
    [FETCH_WAIT_PEEK] = {"WAIT_PEEK", SM_BIT(FETCH_WAIT_DATA) | SM_BIT(FETCH_WAIT_READ)},
    [FETCH_WAIT_DATA] = {"WAIT_DATA", SM_BIT(FETCH_WAIT_CANCEL)},
    [FETCH_WAIT_CANCEL] = {"WAIT_CANCEL", SM_BIT(FETCH_WAIT_READ)},
    [FETCH_WAIT_READ] = {"WAIT_READ", SM_BIT(FETCH_WAIT_MEMORY) | SM_BIT(FETCH_DONE)},
    [FETCH_WAIT_MEMORY] = {"WAIT_MEMORY", SM_BIT(FETCH_WAIT_READ) | SM_BIT(FETCH_DONE)},
    [FETCH_DONE] = {"DONE", 0},
};

static void fetch_run(struct fetch *f);

static const struct fetch_request *fetch_in(const struct fetch *f)
{
    return f->request->in;
}

static void move(struct fetch *f, enum fetch_state to)
{
    sm_move(fetch_states, &f->state, (uint8_t)to);
}

/* The Java consumer gives up on codes it does not expect from a fetch (PROTOCOL 5). */
static enum kafka_error error_of(enum err e, int16_t version)
{
    if (e == ERR_NOT_FOUND && version >= FETCH_VERSION_IDS) {
        return KAFKA_UNKNOWN_TOPIC_ID; /* Deleted while it was asked. */
    }
    if (e == ERR_CANCELLED || e == ERR_BUSY || e == ERR_TIMED_OUT) {
        return KAFKA_NOT_LEADER_OR_FOLLOWER;
    }
    const enum kafka_error error = kafka_error_of(e);
    if (error == KAFKA_KAFKA_STORAGE_ERROR && version < VERSION_STORAGE_ERROR) {
        return KAFKA_NOT_LEADER_OR_FOLLOWER;
    }
    return error;
}

void fetch_part_fail(struct fetch *f, struct fetch_part *part, enum kafka_error error)
{
    part->state = PART_FAILED;
    part->out->error_code = (int16_t)error;
    part->out->high_watermark = -1;
    part->out->last_stable_offset = -1;
    part->out->log_start_offset = -1;
    f->is_failed = true;
}

void fetch_part_fail_by(struct fetch *f, struct fetch_part *part, enum err e)
{
    fetch_part_fail(f, part, error_of(e, f->request->version));
}

/* ---- one partition ---- */

void fetch_take_offsets(struct fetch_part *part)
{
    const struct partition_offsets *offsets = &part->op.offsets;
    part->out->high_watermark = offsets->high_watermark;
    part->out->last_stable_offset = offsets->last_stable_offset;
    part->out->log_start_offset = offsets->log_start_offset;
}

/* The reader's log took another way than ours (KIP-320, KIP-595): it is told where they part, and
 * gets no records. */
static bool is_diverging(struct fetch_part *part)
{
    const struct partition_op *op = &part->op;
    const int32_t epoch = op->out.term_end.leader_epoch;
    const int64_t end_offset = op->out.term_end.end_offset;
    if (epoch >= part->in->last_fetched_epoch && end_offset >= part->in->fetch_offset) {
        return false;
    }
    part->out->diverging_epoch.epoch = epoch;
    part->out->diverging_epoch.end_offset = end_offset;
    return true;
}

static void end_check(struct fetch *f, struct fetch_part *part)
{
    const struct partition_op *op = &part->op;
    if (op->result != ERR_OK) {
        fetch_part_fail_by(f, part, op->result);
    } else if (op->out.term_end.leader_epoch < 0 || op->out.term_end.end_offset < 0) {
        fetch_part_fail(f, part, KAFKA_OFFSET_OUT_OF_RANGE);
    } else if (is_diverging(part)) {
        fetch_take_offsets(part);
        part->state = PART_FAILED;
        f->is_failed = true;
    } else {
        part->state = PART_PEEKING;
        fetch_submit(f, part, PARTITION_PEEK);
    }
}

static void end_peek(struct fetch *f, struct fetch_part *part)
{
    if (part->op.result != ERR_OK) {
        fetch_part_fail_by(f, part, part->op.result);
        return;
    }
    fetch_take_offsets(part);
    part->readable_size = part->op.out.fetch.size;
    part->state = PART_PEEKED;
}

/* More is committed, the wait was cancelled, or the partition is gone. */
static void end_wait(struct fetch *f, struct fetch_part *part)
{
    if (part->op.result == ERR_OK) {
        part->state = PART_PEEKING;
        fetch_submit(f, part, PARTITION_PEEK);
    } else if (part->op.result == ERR_CANCELLED) {
        part->state = PART_PEEKED;
    } else {
        fetch_part_fail_by(f, part, part->op.result);
    }
}

static void on_done(struct partition_op *op)
{
    struct fetch *f = op->context;
    struct fetch_part *part = container_of(op, struct fetch_part, op);
    assert_cmp(f->ops_pending, >, 0);
    f->ops_pending--;
    switch (part->state) {
    case PART_CHECKING:
        end_check(f, part);
        break;
    case PART_PEEKING:
        end_peek(f, part);
        break;
    case PART_WAITING:
        end_wait(f, part);
        break;
    case PART_READING:
        fetch_end_read(f, part);
        break;
    case PART_FAILED:
    case PART_PEEKED:
    case PART_READ:
        assert(false && "no operation is in flight in this state");
    }
    fetch_run(f);
}

void fetch_submit(struct fetch *f, struct fetch_part *part, enum partition_op_kind kind)
{
    const struct fetch_request *in = fetch_in(f);
    struct partition_op *op = &part->op;
    op->kind = kind;
    op->on_done = on_done;
    op->context = f;
    op->current_leader_epoch = part->in->current_leader_epoch;
    const bool is_read_committed = in->isolation_level == ISOLATION_READ_COMMITTED;
    switch (kind) {
    case PARTITION_TERM_END:
        op->in.term_end.leader_epoch = part->in->last_fetched_epoch;
        break;
    case PARTITION_PEEK:
        op->in.fetch.offset = part->in->fetch_offset;
        op->in.fetch.size_max =
            part->in->partition_max_bytes > 0 ? (size_t)part->in->partition_max_bytes : 1;
        op->in.fetch.is_read_committed = is_read_committed;
        break;
    case PARTITION_WAIT:
        op->in.wait.high_watermark = part->out->high_watermark;
        break;
    case PARTITION_READ: /* Offset and memory are there. */
        op->in.fetch.is_read_committed = is_read_committed;
        break;
    case PARTITION_PRODUCE:
    case PARTITION_OFFSETS:
    case PARTITION_FIND_TIME:
    case PARTITION_SIZE:
    case PARTITION_PRODUCERS:
    case PARTITION_DELETE_RECORDS:
        assert(false && "not part of a fetch");
    }
    f->ops_pending++;
    cluster_partition_submit(f->request->d->cluster, op);
}

/* ---- waiting for data ---- */

static void on_timeout(struct timer *t)
{
    struct fetch *f = container_of(t, struct fetch, timer);
    f->is_expired = f->request->d->s->now_us >= f->deadline_us;
    fetch_run(f);
}

static void unpark(struct request *r)
{
    struct fetch *f = r->state;
    request_unpark(r);
    f->is_expired = true;
    fetch_run(f);
}

static void start_parking(struct fetch *f, uint64_t until_us)
{
    timer_arm(&f->request->d->s->timers, &f->timer, until_us);
    request_park(f->request, unpark);
}

static void end_parking(struct fetch *f)
{
    timer_cancel(&f->request->d->s->timers, &f->timer);
    request_unpark(f->request);
}

/* A client that half-closed cannot ask again, and perhaps it only went: its fetches do not wait. */
static bool is_ending(const struct fetch *f)
{
    return f->request->d->is_stopping || conn_is_ending(f->request->conn);
}

/* The answer need not wait (any longer). */
static bool is_satisfied(const struct fetch *f)
{
    const struct fetch_request *in = fetch_in(f);
    if (f->is_expired || f->is_failed || f->parts_count == 0 || is_ending(f)) {
        return true;
    }
    if (in->max_wait_ms <= 0 || in->min_bytes <= 0) {
        return true;
    }
    size_t readable_size = 0;
    for (size_t i = 0; i < f->parts_count; i++) {
        readable_size += f->parts[i].readable_size;
    }
    return readable_size >= (size_t)in->min_bytes;
}

/* Partitions that were looked at and have no wait get one. */
static void start_waits(struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->state == PART_PEEKED) {
            part->state = PART_WAITING;
            fetch_submit(f, part, PARTITION_WAIT);
        }
    }
}

static void on_cancelled(struct partition_cancel *cancel)
{
    struct fetch_part *part = container_of(cancel, struct fetch_part, cancel);
    struct fetch *f = part->op.context;
    assert_cmp(f->cancels_pending, >, 0);
    f->cancels_pending--;
    fetch_run(f);
}

static void cancel_waits(struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->state == PART_WAITING) {
            part->cancel = (struct partition_cancel){
                .target = &part->op,
                .on_done = on_cancelled,
            };
            f->cancels_pending++;
            cluster_partition_cancel(f->request->d->cluster, &part->cancel);
        }
    }
}

/* ---- reading ---- */

static bool has_data(const struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        if (f->parts[i].size > 0) {
            return true;
        }
    }
    return false;
}

static void on_memory(struct buf_waiter *w)
{
    fetch_run(container_of(w, struct fetch, memory));
}

static bool may_wait(const struct fetch *f)
{
    return fetch_in(f)->max_wait_ms > 0 && !f->is_expired && !f->is_failed && !is_ending(f);
}

/* Our own memory tells when there is some. That of a part's shard does not, and ours, which this
 * round has just given back, would only start the next one at once. */
static void wait_for_memory(struct fetch *f)
{
    const uint64_t retry_us = f->request->d->s->now_us + OWNER_RETRY_US;
    if (f->is_owner_starved && retry_us < f->deadline_us) {
        start_parking(f, retry_us);
        return;
    }
    if (!f->is_owner_starved) {
        buf_pool_wait(f->request->d->s->bufs, &f->memory);
    }
    start_parking(f, f->deadline_us);
}

/* All reads of a round ended. With nothing read for want of memory, the answer waits for some as
 * it would wait for data: an empty one at once would make the client spin. */
static void end_reads(struct fetch *f)
{
    if (fetch_start_large_read(f)) {
        return;
    }
    if ((f->is_starved || f->is_owner_starved) && !has_data(f) && may_wait(f)) {
        move(f, FETCH_WAIT_MEMORY);
        wait_for_memory(f);
        return;
    }
    move(f, FETCH_DONE);
}

static void end_memory_wait(struct fetch *f)
{
    end_parking(f);
    buf_pool_cancel_wait(f->request->d->s->bufs, &f->memory);
    if (f->is_expired) {
        move(f, FETCH_DONE);
        return;
    }
    move(f, FETCH_WAIT_READ);
    fetch_start_reads(f);
}

/* ---- its partitions ---- */

static bool is_from_replica(const struct request *r)
{
    const struct fetch_request *in = r->in;
    const int32_t replica_id =
        r->version >= VERSION_REPLICA_STATE ? in->replica_state.replica_id : in->replica_id;
    return replica_id >= 0;
}

static void prepare_part(struct fetch *f,
                         struct fetch_part *part,
                         enum kafka_error topic_error,
                         const struct topic *t)
{
    fetch_response_partition_init(part->out);
    part->out->partition_index = part->in->partition;
    part->out->records = slice_of("", 0);
    enum kafka_error error = lookup_partition(topic_error, t, part->in->partition, &part->op.id);
    if (error == KAFKA_NONE && is_from_replica(f->request)) {
        error =
            KAFKA_TOPIC_AUTHORIZATION_FAILED; /* As Kafka does without the right to replicate. */
    }
    if (error != KAFKA_NONE) {
        fetch_part_fail(f, part, error);
    } else {
        part->state = part->in->last_fetched_epoch >= 0 ? PART_CHECKING : PART_PEEKING;
        if (fetch_in(f)->isolation_level != ISOLATION_READ_COMMITTED) {
            part->out->aborted_transactions = NULL; /* Of no interest, which is not none. */
        }
    }
}

/* part is the topic's first. */
static bool
prepare_topic(struct fetch *f, const struct fetch_request_topic *in, struct fetch_part *part)
{
    struct request *r = f->request;
    const struct lookup how = {
        .is_by_id = r->version >= FETCH_VERSION_IDS,
        .name = in->topic,
        .id = in->topic_id,
    };
    const struct topic *t = NULL;
    const enum kafka_error error = lookup_topic(r, &how, &t);

    struct fetch_response_topic *out = &f->out.responses[f->out.responses_count++];
    fetch_response_topic_init(out);
    out->topic = in->topic;
    out->topic_id = in->topic_id;
    out->partitions_count = in->partitions_count;
    out->partitions = request_alloc(r, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->partitions_count; i++, part++) {
        part->in = &in->partitions[i];
        part->out = &out->partitions[i];
        prepare_part(f, part, error, t);
    }
    return true;
}

static size_t count_parts(const struct fetch_request *in)
{
    size_t count = 0;
    for (size_t i = 0; i < in->topics_count; i++) {
        count += in->topics[i].partitions_count;
    }
    return count;
}

/* Whether there is room for what prepare takes. One that is too large for the fetches' share tries
 * when it has the memory for itself. */
static bool has_room(const struct fetch *f)
{
    const struct fetch_request *in = fetch_in(f);
    const struct arena_budget *all = &f->request->d->arenas;
    const size_t size_max = all->size_max - all->size_max / ROOM_SHARES;
    const bool is_in_session = f->session_use == FETCH_IN_SESSION;
    const size_t parts_count = is_in_session ? f->session_parts_count : count_parts(in);
    const size_t topics_count = is_in_session ? f->session_parts_count : in->topics_count;
    const size_t size =
        parts_count * (sizeof(struct fetch_part) + sizeof(struct fetch_response_partition)) +
        topics_count * sizeof(struct fetch_response_topic) + f->session_size;
    return (all->size <= size_max && size <= size_max - all->size) || all->size <= size_max / 2;
}

static bool prepare(struct fetch *f)
{
    struct request *r = f->request;
    const struct fetch_request *in = r->in;
    f->parts_count = count_parts(in);
    f->parts = request_alloc(r, f->parts_count, sizeof(*f->parts));
    f->out.responses = request_alloc(r, in->topics_count, sizeof(*f->out.responses));
    if (f->parts == NULL || f->out.responses == NULL) {
        return false;
    }
    struct fetch_part *part = f->parts;
    for (size_t i = 0; i < in->topics_count; i++) {
        if (!prepare_topic(f, &in->topics[i], part)) {
            return false;
        }
        part += in->topics[i].partitions_count;
    }
    return true;
}

/* False: it takes more than a request may. */
static bool begin(struct fetch *f)
{
    if (!prepare(f)) {
        return false;
    }
    f->is_prepared = true;
    move(f, FETCH_WAIT_PEEK);
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->state == PART_CHECKING) {
            fetch_submit(f, part, PARTITION_TERM_END);
        } else if (part->state == PART_PEEKING) {
            fetch_submit(f, part, PARTITION_PEEK);
        }
    }
    return true;
}

static bool step_room(struct fetch *f)
{
    end_parking(f);
    const enum err e = has_room(f) ? fetch_fill_session(f) : ERR_BUSY;
    if (e == ERR_NOT_FOUND) {
        f->session_use = FETCH_WITHOUT_SESSION;
        f->out.error_code = KAFKA_FETCH_SESSION_ID_NOT_FOUND;
        move(f, FETCH_DONE);
        return true;
    }
    if (e == ERR_OK) {
        f->is_too_large = !begin(f);
        if (f->is_too_large) {
            move(f, FETCH_DONE);
        }
        return true;
    }
    const uint64_t now_us = f->request->d->s->now_us;
    if (f->is_expired || is_ending(f) || now_us >= f->deadline_us) {
        reached(f->request->d->s, "fetch_without_room");
        move(f, FETCH_DONE);
        return true;
    }
    const uint64_t retry_us = now_us + ROOM_RETRY_US;
    start_parking(f, retry_us < f->deadline_us ? retry_us : f->deadline_us);
    return false;
}

/* One step; true if the next can be tried at once. */
static bool step(struct fetch *f)
{
    switch ((enum fetch_state)f->state) {
    case FETCH_WAIT_ROOM:
        return step_room(f);
    case FETCH_WAIT_PEEK:
        if (f->ops_pending > 0) {
            return false;
        }
        if (is_satisfied(f)) {
            move(f, FETCH_WAIT_READ);
            fetch_start_reads(f);
            return true;
        }
        move(f, FETCH_WAIT_DATA);
        start_parking(f, f->deadline_us);
        start_waits(f);
        return false;
    case FETCH_WAIT_DATA:
        if (!is_satisfied(f)) {
            start_waits(f);
            return false;
        }
        move(f, FETCH_WAIT_CANCEL);
        end_parking(f);
        cancel_waits(f);
        return true;
    case FETCH_WAIT_CANCEL:
        if (f->ops_pending > 0 || f->cancels_pending > 0) {
            return false;
        }
        move(f, FETCH_WAIT_READ);
        fetch_start_reads(f);
        return true;
    case FETCH_WAIT_READ:
        if (f->ops_pending > 0) {
            return false;
        }
        end_reads(f);
        return f->state == FETCH_DONE;
    case FETCH_WAIT_MEMORY:
        end_memory_wait(f);
        return true;
    case FETCH_DONE:
    case FETCH_STATE_COUNT:
        break;
    }
    return false;
}

/* Goes as far as it can. */
static void fetch_run(struct fetch *f)
{
    while (step(f)) {
    }
    if (f->state == FETCH_DONE) {
        struct request *r = f->request;
        if (f->is_too_large) {
            request_abort(r, "too many partitions");
        } else {
            fetch_answer(f);
        }
        request_release(r); /* May free f. */
    }
}

/* ---- the request ---- */

static void refuse(struct request *r, enum kafka_error error)
{
    struct fetch_response out;
    fetch_response_init(&out);
    out.error_code = (int16_t)error;
    request_answer(r, &out);
}

void handle_fetch(struct request *r)
{
    const struct fetch_request *in = r->in;
    struct fetch *f = request_alloc(r, 1, sizeof(*f));
    r->state = f;
    if (f == NULL) {
        request_abort(r, "no memory");
        return;
    }
    f->state = FETCH_WAIT_ROOM;
    f->request = r;
    fetch_response_init(&f->out);
    f->memory.on_memory = on_memory;
    timer_init(&f->timer, on_timeout);
    f->deadline_us = r->d->s->now_us + (in->max_wait_ms > 0 ? (uint64_t)in->max_wait_ms * 1000 : 0);
    const enum kafka_error error = fetch_begin_session(f);
    if (error != KAFKA_NONE) {
        refuse(r, error);
        return;
    }
    request_hold(r);
    fetch_run(f);
}
