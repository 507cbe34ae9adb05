/* The consumer by assignment: positions in partitions of one topic, records one after the other.
 *
 * Invariants
 * 1. A position is the offset of the next record to hand out. It moves when a record is handed out
 *    and, behind the last record of a batch, to the batch's end: so offsets that compaction or
 *    control batches took are passed over.
 * 2. What was fetched stays in frames that the consumer owns, until all of it was handed out; only
 *    then the next fetch goes out. So nothing else that the client does can touch a record.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "storage/batch.h"

enum {
    FETCH_SIZE_DEFAULT = 16 << 20,
    PARTITION_SIZE_DEFAULT = 1 << 20,
    FETCH_WAIT_MS = 500,        /* At most, of one request. */
    RECORDS_SIZE_MAX = 1 << 30, /* Of one batch, uncompressed: against batches made to explode. */
    TOPIC_ID_VERSION_MIN = 13,
    RETRY_MS_MAX = 30000, /* So long retriable errors are retried without progress. */
    NONE = -1,
};

struct position {
    int32_t partition;
    int64_t offset;
    int64_t high_watermark; /* As the latest answer told; NONE: not told yet. */
    struct slice fetched;   /* Batches not looked at yet; in one of the frames. */
    bool is_in_request;     /* The current round asked for it. */
};

struct client_consumer {
    struct client *client;
    struct client_consumer_options options;
    struct client_topic topic;
    struct position *positions;
    size_t positions_count;
    struct arena arena; /* Of the current answers. */
    uint8_t **frames;   /* Their bytes. */
    size_t frames_count;
    size_t frames_capacity;
    size_t current; /* Index of the position that records come from. */
    /* The batch that records come from. */
    bool has_batch;
    struct batch_header batch;
    struct record_cursor cursor;
    struct wbuf records;           /* Uncompressed, if it was compressed. */
    struct client_header *headers; /* Of the record handed out last. */
    size_t headers_count;
    size_t headers_capacity;
    uint32_t retries; /* Rounds that failed since the last that did not. */
    uint64_t retries_since_us;
};

enum err client_consumer_new(struct client *c,
                             const char *topic,
                             const struct client_consumer_options *options,
                             struct client_consumer **ret_consumer)
{
    struct client_consumer *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory for a consumer");
    }
    s->client = c;
    if (options != NULL) {
        s->options = *options;
    }
    struct client_consumer_options *o = &s->options;
    o->fetch_size_max = o->fetch_size_max == 0 ? FETCH_SIZE_DEFAULT : o->fetch_size_max;
    o->partition_size_max =
        o->partition_size_max == 0 ? PARTITION_SIZE_DEFAULT : o->partition_size_max;
    arena_init(&s->arena, CLIENT_ARENA_SIZE_MAX);
    wbuf_init(&s->records, RECORDS_SIZE_MAX);
    enum err e = client_topic_init(c, topic, &s->topic);
    if (e != ERR_OK) {
        client_consumer_free(s);
        return e;
    }
    *ret_consumer = s;
    return ERR_OK;
}

static void drop_frames(struct client_consumer *s)
{
    for (size_t i = 0; i < s->frames_count; i++) {
        free(s->frames[i]);
    }
    s->frames_count = 0;
    arena_reset(&s->arena);
}

void client_consumer_free(struct client_consumer *s)
{
    if (s == NULL) {
        return;
    }
    drop_frames(s);
    free(s->frames);
    free(s->positions);
    free(s->headers);
    arena_done(&s->arena);
    wbuf_done(&s->records);
    client_topic_done(&s->topic);
    free(s);
}

int32_t client_consumer_partitions_count(const struct client_consumer *s)
{
    return s->topic.partitions_count;
}

static struct position *find_position(const struct client_consumer *s, int32_t partition)
{
    for (size_t i = 0; i < s->positions_count; i++) {
        if (s->positions[i].partition == partition) {
            return &s->positions[i];
        }
    }
    return NULL;
}

enum err client_consumer_assign(struct client_consumer *s, int32_t partition, int64_t offset)
{
    struct client_env *env = s->client->env;
    if (partition < 0 || partition >= s->topic.partitions_count) {
        return client_fail(env,
                           ERR_INVALID,
                           "topic '%s' has no partition %d, only 0 to %d",
                           s->topic.name,
                           partition,
                           s->topic.partitions_count - 1);
    }
    if (offset < 0) {
        return client_fail(env, ERR_INVALID, "%lld is no offset", (long long)offset);
    }
    if (find_position(s, partition) != NULL) {
        return client_fail(env, ERR_INVALID, "partition %d is assigned already", partition);
    }
    struct position *grown =
        realloc(s->positions, (s->positions_count + 1) * sizeof(*s->positions));
    if (grown == NULL) {
        return client_fail(env, ERR_BUSY, "no memory for a partition");
    }
    s->positions = grown;
    s->positions[s->positions_count++] =
        (struct position){.partition = partition, .offset = offset, .high_watermark = NONE};
    return ERR_OK;
}

int64_t client_consumer_position(const struct client_consumer *s, int32_t partition)
{
    const struct position *p = find_position(s, partition);
    return p == NULL ? NONE : p->offset;
}

bool client_consumer_has_buffered(const struct client_consumer *s)
{
    if (s->has_batch) {
        return true;
    }
    for (size_t i = 0; i < s->positions_count; i++) {
        if (s->positions[i].fetched.size > 0) {
            return true;
        }
    }
    return false;
}

bool client_consumer_is_at_end(const struct client_consumer *s)
{
    if (client_consumer_has_buffered(s)) {
        return false;
    }
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct position *p = &s->positions[i];
        if (p->high_watermark == NONE || p->offset < p->high_watermark) {
            return false;
        }
    }
    return true;
}

/* ---- fetching ---- */

struct fetch_round {
    struct client_consumer *s;
    uint32_t wait_ms;
    enum err failure; /* The first that asking again does not cure. */
    char why[CLIENT_WHY_SIZE];
    enum err retriable; /* The first that it may cure. */
};

static void note_failure(struct fetch_round *r, enum err e, bool is_retriable)
{
    if (is_retriable) {
        if (r->retriable == ERR_OK) {
            r->retriable = e;
        }
        return;
    }
    if (r->failure == ERR_OK) {
        r->failure = e;
        memcpy(r->why, r->s->client->env->why, sizeof(r->why));
    }
}

static bool is_led_by(const struct client_consumer *s, const struct position *p, int32_t node_id)
{
    return s->topic.leaders[p->partition] == node_id;
}

/* The request for all positions that a node leads; *ret_count of them. False without memory. */
static bool
fill_fetch(struct fetch_round *r, int32_t node_id, struct fetch_request *request, size_t *ret_count)
{
    struct client_consumer *s = r->s;
    fetch_request_init(request);
    request->max_wait_ms = (int32_t)r->wait_ms;
    request->min_bytes = 1;
    request->max_bytes = (int32_t)s->options.fetch_size_max;
    request->isolation_level = s->options.is_read_committed;
    struct fetch_request_topic *t = arena_alloc(&s->arena, sizeof(*t));
    struct fetch_request_partition *partitions =
        arena_alloc_array(&s->arena, s->positions_count, sizeof(*partitions));
    if (t == NULL || partitions == NULL) {
        return false;
    }
    fetch_request_topic_init(t);
    t->topic = slice_of_string(s->topic.name);
    t->topic_id = s->topic.id;
    t->partitions = partitions;
    for (size_t i = 0; i < s->positions_count; i++) {
        struct position *p = &s->positions[i];
        p->is_in_request = is_led_by(s, p, node_id);
        if (!p->is_in_request) {
            continue;
        }
        struct fetch_request_partition *one = &partitions[t->partitions_count++];
        fetch_request_partition_init(one);
        one->partition = p->partition;
        one->fetch_offset = p->offset;
        one->partition_max_bytes = (int32_t)s->options.partition_size_max;
    }
    request->topics = t;
    request->topics_count = 1;
    *ret_count = t->partitions_count;
    return true;
}

static struct client_call fetch_call(const struct client_consumer *s)
{
    return (struct client_call){
        .api_key = API_FETCH,
        .version_max = uuid_is_zero(&s->topic.id) ? TOPIC_ID_VERSION_MIN - 1 : 0,
    };
}

/* True if a request is on its way. */
static bool ask_node(struct fetch_round *r, int32_t node_id, struct client_conn **ret_conn)
{
    struct client *c = r->s->client;
    struct fetch_request request;
    size_t count = 0;
    if (!fill_fetch(r, node_id, &request, &count)) {
        note_failure(r, client_fail(c->env, ERR_BUSY, "no memory for the request"), false);
        return false;
    }
    if (count == 0) {
        return false;
    }
    struct client_conn *conn = NULL;
    struct client_call call = fetch_call(r->s);
    call.request = &request;
    enum err e = client_link_to(c, node_id, &conn);
    if (e == ERR_OK) {
        e = client_conn_send(conn, &call, client_deadline_us(c->env, c->timeout_ms));
    }
    if (e != ERR_OK) {
        note_failure(r, e, e == ERR_CLOSED || e == ERR_TIMED_OUT || e == ERR_NOT_FOUND);
        return false;
    }
    *ret_conn = conn;
    return true;
}

static void take_partition(struct fetch_round *r, const struct fetch_response_partition *answer)
{
    struct client_consumer *s = r->s;
    struct position *p = find_position(s, answer->partition_index);
    if (p == NULL) {
        return;
    }
    const int16_t code = answer->error_code;
    if (code == KAFKA_NONE) {
        p->high_watermark = answer->high_watermark;
        p->fetched = answer->records;
        return;
    }
    enum err e = client_fail(s->client->env,
                             client_err_of(code),
                             "cannot read %s[%d] at offset %lld: %s",
                             s->topic.name,
                             p->partition,
                             (long long)p->offset,
                             client_error_text(code));
    note_failure(r, e, kafka_error_is_retriable(code));
}

static enum err keep_frame(struct client_consumer *s, struct client_conn *conn)
{
    if (s->frames_count == s->frames_capacity) {
        const size_t capacity = s->frames_capacity * 2 + 1;
        uint8_t **grown = realloc(s->frames, capacity * sizeof(*grown));
        if (grown == NULL) {
            return client_fail(s->client->env, ERR_BUSY, "no memory for an answer");
        }
        s->frames = grown;
        s->frames_capacity = capacity;
    }
    s->frames[s->frames_count++] = client_conn_take_frame(conn);
    return ERR_OK;
}

static void take_answer(struct fetch_round *r, struct client_conn *conn)
{
    struct client_consumer *s = r->s;
    struct client *c = s->client;
    struct fetch_response response;
    fetch_response_init(&response);
    struct client_call call = fetch_call(s);
    call.arena = &s->arena;
    call.response = &response;
    const uint64_t deadline_us = client_deadline_us(c->env, c->timeout_ms + r->wait_ms);
    enum err e = client_conn_receive(conn, &call, deadline_us);
    if (e != ERR_OK) {
        note_failure(r, e, e == ERR_CLOSED || e == ERR_TIMED_OUT);
        return;
    }
    e = keep_frame(s, conn);
    if (e != ERR_OK) {
        note_failure(r, e, false);
        return;
    }
    if (response.error_code != KAFKA_NONE) {
        e = client_fail(c->env,
                        client_err_of(response.error_code),
                        "cannot read %s: %s",
                        s->topic.name,
                        client_error_text(response.error_code));
        note_failure(r, e, kafka_error_is_retriable(response.error_code));
        return;
    }
    for (size_t i = 0; i < response.responses_count; i++) {
        const struct fetch_response_topic *t = &response.responses[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            take_partition(r, &t->partitions[j]);
        }
    }
}

/* Requests to all leaders first, then the answers. */
static void run_round(struct fetch_round *r)
{
    struct client_consumer *s = r->s;
    struct client *c = s->client;
    drop_frames(s);
    struct client_conn **conns =
        arena_alloc_array(&s->arena, c->nodes_count, sizeof(struct client_conn *));
    if (conns == NULL) {
        note_failure(r, client_fail(c->env, ERR_BUSY, "no memory to ask"), false);
        return;
    }
    bool has_asked = false;
    for (size_t n = 0; n < c->nodes_count; n++) {
        if (!ask_node(r, c->nodes[n].id, &conns[n])) {
            conns[n] = NULL;
        }
        has_asked |= conns[n] != NULL;
    }
    for (size_t n = 0; n < c->nodes_count; n++) {
        if (conns[n] != NULL) {
            take_answer(r, conns[n]);
        }
    }
    if (!has_asked && r->retriable == ERR_OK && r->failure == ERR_OK) {
        enum err e = client_fail(
            c->env, ERR_NOT_LEADER, "no partition of %s has a leader now", s->topic.name);
        note_failure(r, e, true);
    }
}

/* Fetches once. ERR_OK, with or without records; or an error that asking again does not cure. */
static enum err fetch(struct client_consumer *s, uint32_t wait_ms)
{
    struct client *c = s->client;
    const uint64_t now_us = clock_now_us(c->env->clock);
    struct fetch_round r = {
        .s = s,
        .wait_ms = wait_ms < FETCH_WAIT_MS ? wait_ms : FETCH_WAIT_MS,
        .failure = ERR_OK,
        .retriable = ERR_OK,
    };
    run_round(&r);
    if (r.failure != ERR_OK) {
        return client_fail(c->env, r.failure, "%s", r.why);
    }
    if (r.retriable == ERR_OK) {
        s->retries = 0;
        return ERR_OK;
    }
    if (client_consumer_has_buffered(s)) {
        return ERR_OK;
    }
    if (s->retries == 0) {
        s->retries_since_us = now_us;
    }
    s->retries++;
    const uint64_t end_us = s->retries_since_us + RETRY_MS_MAX * (uint64_t)1000;
    if (now_us >= end_us) {
        return r.retriable;
    }
    client_back_off(c, s->retries, end_us);
    enum err e = client_topic_refresh(c, &s->topic);
    /* Brokers that are away may come back; a topic that is gone does not. */
    return e == ERR_TOPIC_UNKNOWN && s->retries >= 3 ? e : ERR_OK;
}

/* ---- walking what was fetched ---- */

static enum err say_damaged(struct client_consumer *s, const struct position *p, enum err e)
{
    return client_fail(s->client->env,
                       ERR_CORRUPT,
                       "%s[%d] holds a damaged batch at offset %lld (%s)",
                       s->topic.name,
                       p->partition,
                       (long long)p->offset,
                       err_name(e));
}

/* Passes over the batch that was opened. */
static void leave_batch(struct client_consumer *s)
{
    struct position *p = &s->positions[s->current];
    const int64_t next = s->batch.base_offset + s->batch.last_offset_delta + 1;
    p->offset = next > p->offset ? next : p->offset;
    s->has_batch = false;
}

/* Opens the next batch of a position. An incomplete one ends what was fetched: answers are cut at
 * their size. */
static enum err open_batch(struct client_consumer *s, struct position *p)
{
    enum err e = batch_header_decode(p->fetched, &s->batch);
    if (e == ERR_EOF) {
        p->fetched = (struct slice){0};
        return ERR_OK;
    }
    if (e != ERR_OK) {
        return say_damaged(s, p, e);
    }
    /* So that no sum of offsets below can overflow. */
    if (s->batch.base_offset < 0 || s->batch.last_offset_delta < 0 ||
        s->batch.base_offset >= INT64_MAX - s->batch.last_offset_delta) {
        return say_damaged(s, p, ERR_RECORD_INVALID);
    }
    const size_t size = batch_size(&s->batch);
    const struct slice batch = slice_of(p->fetched.data, size);
    if (!batch_crc_matches(batch)) {
        return say_damaged(s, p, ERR_CORRUPT);
    }
    p->fetched = slice_of(p->fetched.data + size, p->fetched.size - size);
    s->has_batch = true;
    if ((s->batch.attributes & BATCH_CONTROL) != 0) {
        leave_batch(s);
        return ERR_OK;
    }
    struct slice records;
    s->records.size = 0;
    e = batch_records(batch, RECORDS_SIZE_MAX, &s->records, &records);
    if (e != ERR_OK) {
        s->has_batch = false;
        return say_damaged(s, p, e);
    }
    record_cursor_init(&s->cursor, &s->batch, records);
    return ERR_OK;
}

static enum err read_headers(struct client_consumer *s, struct record *record)
{
    const uint32_t count = record->headers_count; /* Reading them counts it down. */
    if (count > s->headers_capacity) {
        struct client_header *grown = realloc(s->headers, count * sizeof(*s->headers));
        if (grown == NULL) {
            return ERR_BUSY;
        }
        s->headers = grown;
        s->headers_capacity = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct record_header header;
        enum err e = record_next_header(record, &header);
        if (e != ERR_OK) {
            return e;
        }
        s->headers[i] = (struct client_header){.key = header.key, .value = header.value};
    }
    s->headers_count = count;
    return ERR_OK;
}

/* The next record of the open batch. ERR_EOF: it has none. */
static enum err next_of_batch(struct client_consumer *s, struct client_record *ret_record)
{
    struct position *p = &s->positions[s->current];
    for (;;) {
        struct record record;
        enum err e = record_next(&s->cursor, &record);
        if (e == ERR_OK && record.offset < p->offset) {
            continue; /* The batch starts before the position. */
        }
        if (e == ERR_OK && record.offset - s->batch.base_offset > s->batch.last_offset_delta) {
            e = ERR_RECORD_INVALID;
        }
        if (e == ERR_OK) {
            e = read_headers(s, &record);
        }
        if (e == ERR_EOF) {
            return e;
        }
        if (e != ERR_OK) {
            return say_damaged(s, p, e);
        }
        p->offset = record.offset + 1;
        *ret_record = (struct client_record){
            .partition = p->partition,
            .offset = record.offset,
            .timestamp = record.timestamp,
            .is_log_append_time = (s->batch.attributes & BATCH_LOG_APPEND_TIME) != 0,
            .key = record.key,
            .value = record.value,
            .headers = s->headers,
            .headers_count = s->headers_count,
        };
        return ERR_OK;
    }
}

/* The next record that was fetched. ERR_EOF: all were handed out. */
static enum err next_buffered(struct client_consumer *s, struct client_record *ret_record)
{
    for (;;) {
        if (s->has_batch) {
            enum err e = next_of_batch(s, ret_record);
            /* Left with its last record, not with the look behind it: so that the end is known
             * when it is reached. */
            if (e == ERR_EOF ||
                (s->cursor.records_left == 0 && rbuf_left(&s->cursor.records) == 0)) {
                leave_batch(s);
            }
            if (e != ERR_EOF) {
                return e;
            }
        }
        size_t tried = 0;
        while (tried < s->positions_count && s->positions[s->current].fetched.size == 0) {
            s->current = (s->current + 1) % s->positions_count;
            tried++;
        }
        if (tried == s->positions_count) {
            return ERR_EOF;
        }
        enum err e = open_batch(s, &s->positions[s->current]);
        if (e != ERR_OK) {
            return e;
        }
    }
}

enum err client_consumer_next(struct client_consumer *s,
                              uint32_t timeout_ms,
                              struct client_record *ret_record)
{
    struct client_env *env = s->client->env;
    const uint64_t deadline_us = client_deadline_us(env, timeout_ms);
    for (bool is_first = true;; is_first = false) {
        enum err e = next_buffered(s, ret_record);
        if (e != ERR_EOF) {
            return e;
        }
        const uint64_t now_us = clock_now_us(env->clock);
        const bool is_over = now_us >= deadline_us && !is_first;
        if (is_over || s->positions_count == 0 || (!is_first && client_consumer_is_at_end(s))) {
            return client_fail(env, ERR_TIMED_OUT, "no record came in time");
        }
        const uint64_t left_ms = now_us >= deadline_us ? 0 : (deadline_us - now_us + 999) / 1000;
        e = fetch(s, (uint32_t)left_ms);
        if (e != ERR_OK) {
            return e;
        }
    }
}
