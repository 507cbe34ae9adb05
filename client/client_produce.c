/* The thread's side of producers: what is due goes out, one request per leader and round with at
 * most one batch per partition; what comes back settles the batches. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "client/client_producer.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/produce.h"

enum {
    TOPIC_ID_VERSION_MIN = 13,
    GONE_ATTEMPTS = 5, /* So often a topic may be unknown before it counts as deleted. */
    NODE_REQUESTS_MAX = 5,
    REQUEST_SIZE_MAX = 16 << 20, /* But a batch alone may be larger. */
};

/* A Produce request and the batches in it. */
struct client_produce {
    struct list link; /* producer.requests */
    struct client *client;
    struct client_producer *producer; /* NULL: it was freed. */
    struct client_call call;
    struct arena arena;
    struct produce_request request;
    struct produce_response response;
    struct client_batch **batches; /* NULL: settled. */
    size_t batches_count;
};

/* ---- what became of batches ---- */

/* The batch is given up, and the lane goes on without it. */
static void give_up(struct client_batch *b, enum err e, const char *why)
{
    client_lane_give_up(b->lane, b);
    client_producer_finish(b, e, why);
}

static bool is_late(const struct client_batch *b)
{
    return client_now_us(b->producer->client) >= b->deadline_us;
}

static void give_up_late(struct client_batch *b)
{
    char why[CLIENT_WHY_SIZE];
    enum err e = b->err != ERR_OK ? b->err : ERR_TIMED_OUT;
    (void)client_say(why,
                     e,
                     "%.400s; gave up after %u attempts",
                     b->err != ERR_OK ? b->why : "the records could not be sent in time",
                     b->attempts);
    give_up(b, e, why);
}

/* The batch goes again after a pause, when it is known who leads now. */
static void try_again(struct client_batch *b, enum err e, const char *why)
{
    struct client_producer *p = b->producer;
    struct client *c = p->client;
    b->err = e;
    memcpy(b->why, why, sizeof(b->why));
    if (is_late(b)) {
        give_up_late(b);
        return;
    }
    p->stats.retries_count++;
    b->lane->failures++;
    b->lane->retry_us = client_now_us(c) + client_back_off_us(c, b->lane->failures);
    client_topic_want(c, &p->topic);
}

/* No answer, or none that tells. */
static void settle_lost(struct client_batch *b, enum err e, const char *why)
{
    client_lane_settle_unknown(b->lane, b);
    try_again(b, e, why);
}

/* It never left. */
static void settle_unsent(struct client_batch *b, enum err e, const char *why)
{
    client_lane_settle_refused(b->lane, b);
    if (e == ERR_UNSUPPORTED || e == ERR_INVALID) {
        give_up(b, e, why);
    } else {
        try_again(b, e, why);
    }
}

/* Errors that come before the leader writes anything; after others it may have. */
static bool is_refusal(int16_t code)
{
    return code == KAFKA_NOT_ENOUGH_REPLICAS || code == KAFKA_CORRUPT_MESSAGE ||
           (!kafka_error_is_retriable(code) && code != KAFKA_UNKNOWN_SERVER_ERROR);
}

/* What the sequence numbers of an idempotent producer cannot go on from. */
static bool is_sequence_trouble(int16_t code)
{
    return code == KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER || code == KAFKA_INVALID_PRODUCER_EPOCH ||
           code == KAFKA_UNKNOWN_PRODUCER_ID || code == KAFKA_INVALID_PRODUCER_ID_MAPPING ||
           code == KAFKA_DUPLICATE_SEQUENCE_NUMBER;
}

static void settle_sequence(struct client_batch *b, int16_t code, enum err e, const char *why)
{
    struct client_producer *p = b->producer;
    struct client_lane *l = b->lane;
    const bool is_gap = code == KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER;
    const bool is_epoch =
        code == KAFKA_INVALID_PRODUCER_EPOCH || code == KAFKA_INVALID_PRODUCER_ID_MAPPING;
    if (is_epoch && l->producer_id == p->producer_id) {
        p->producer_id = -1; /* Another one is asked for. */
    }
    const enum err verdict = client_lane_settle_sequence(l, b, is_gap);
    l->needs_bump |= code == KAFKA_DUPLICATE_SEQUENCE_NUMBER;
    if (verdict != ERR_OK) {
        give_up(b, verdict, why);
    } else {
        try_again(b, e, why);
    }
}

/* KIP-126. An uncertain batch may be in the log, under a larger limit: its halves must not. */
static bool can_split(const struct client_batch *b, int16_t code)
{
    return code == KAFKA_MESSAGE_TOO_LARGE && b->records_count > 1 && !b->is_uncertain &&
           !b->is_whole;
}

static void split(struct client_batch *b, enum err e, const char *why)
{
    if (client_batch_split(b) != ERR_OK) {
        give_up(b, e, why);
        return;
    }
    b->producer->stats.splits_count++;
    client_batch_free(b); /* Its halves have its share of the buffer. */
}

static void settle_refused(struct client_batch *b, int16_t code, enum err e, const char *why)
{
    if (b->producer->options.is_idempotent && is_sequence_trouble(code)) {
        settle_sequence(b, code, e, why);
        return;
    }
    client_lane_settle_refused(b->lane, b);
    if (kafka_error_is_retriable(code)) {
        try_again(b, e, why);
    } else if (can_split(b, code)) {
        split(b, e, why);
    } else {
        give_up(b, e, why);
    }
}

/* A duplicate is one we sent before: it is in the log, only its offset may be forgotten. But of a
 * batch that cannot be in the log the broker means another one, and this one was not written. */
static bool is_written(const struct client_batch *b, int16_t code)
{
    return code == KAFKA_NONE || (code == KAFKA_DUPLICATE_SEQUENCE_NUMBER && b->is_uncertain);
}

static void settle_answer(struct client_batch *b, const struct produce_response_partition *answer)
{
    const int16_t code = answer->error_code;
    if (is_written(b, code)) {
        b->base_offset = code == KAFKA_NONE ? answer->base_offset : -1;
        b->append_time_ms = answer->log_append_time_ms;
        client_lane_settle_ok(b->lane, b);
        client_producer_finish(b, ERR_OK, NULL);
        return;
    }
    char why[CLIENT_WHY_SIZE];
    const struct slice message = answer->error_message;
    const size_t size = message.size < CLIENT_WHY_SIZE ? message.size : CLIENT_WHY_SIZE;
    enum err e = client_say(why,
                            client_err_of(code),
                            "%s[%d] refused %d record%s: %s%s%.*s",
                            b->producer->topic.name,
                            b->lane->partition,
                            b->records_count,
                            b->records_count == 1 ? "" : "s",
                            client_error_text(code),
                            size > 0 ? ": " : "",
                            (int)size,
                            size > 0 ? (const char *)message.data : "");
    if (is_refusal(code)) {
        settle_refused(b, code, e, why);
    } else {
        settle_lost(b, e, why);
    }
}

/* ---- a request ---- */

static void free_request(struct client_produce *x)
{
    client_call_done(&x->call);
    arena_done(&x->arena);
    list_remove(&x->link);
    free(x);
}

static void settle_partition(struct client_produce *x, const struct produce_response_partition *one)
{
    for (size_t i = 0; i < x->batches_count; i++) {
        struct client_batch *b = x->batches[i];
        if (b != NULL && b->lane->partition == one->index) {
            x->batches[i] = NULL;
            settle_answer(b, one);
            return;
        }
    }
}

/* Without acks there is no answer: with the kernel is all that is known. */
static void settle_unanswered(struct client_produce *x)
{
    char why[CLIENT_WHY_SIZE];
    enum err e = client_say(why,
                            ERR_CORRUPT,
                            "the leader of %s did not answer for every partition",
                            x->producer->topic.name);
    for (size_t i = 0; i < x->batches_count; i++) {
        struct client_batch *b = x->batches[i];
        if (b == NULL) {
            continue;
        }
        if (x->call.has_no_answer) {
            client_lane_settle_ok(b->lane, b);
            client_producer_finish(b, ERR_OK, NULL);
        } else {
            settle_lost(b, e, why);
        }
    }
}

static void on_produced(struct client_call *call)
{
    struct client_produce *x = container_of(call, struct client_produce, call);
    if (x->producer == NULL) {
        free_request(x);
        return;
    }
    for (size_t i = 0; call->err != ERR_OK && i < x->batches_count; i++) {
        if (call->was_sent) {
            settle_lost(x->batches[i], call->err, call->why);
        } else {
            settle_unsent(x->batches[i], call->err, call->why);
        }
    }
    if (call->err == ERR_OK) {
        for (size_t i = 0; i < x->response.responses_count; i++) {
            const struct produce_response_topic *t = &x->response.responses[i];
            for (size_t j = 0; j < t->partition_responses_count; j++) {
                settle_partition(x, &t->partition_responses[j]);
            }
        }
        settle_unanswered(x);
    }
    free_request(x);
}

/* False without memory. */
static bool fill_request(struct client_produce *x)
{
    static const int16_t acks[] = {
        [CLIENT_ACKS_ALL] = -1,
        [CLIENT_ACKS_LEADER] = 1,
        [CLIENT_ACKS_NONE] = 0,
    };
    struct client_producer *p = x->producer;
    struct produce_request *request = &x->request;
    produce_request_init(request);
    request->acks = acks[p->options.acks];
    request->timeout_ms = (int32_t)p->client->timeout_ms;
    struct produce_request_topic *t = arena_alloc(&x->arena, sizeof(*t));
    struct produce_request_partition *partitions =
        arena_alloc_array(&x->arena, x->batches_count, sizeof(*partitions));
    if (t == NULL || partitions == NULL) {
        return false;
    }
    produce_request_topic_init(t);
    t->name = slice_of_string(p->topic.name);
    t->topic_id = p->topic.id;
    t->partition_data = partitions;
    t->partition_data_count = x->batches_count;
    for (size_t i = 0; i < x->batches_count; i++) {
        produce_request_partition_init(&partitions[i]);
        partitions[i].index = x->batches[i]->lane->partition;
        partitions[i].records = wbuf_slice(&x->batches[i]->bytes);
    }
    request->topic_data = t;
    request->topic_data_count = 1;
    return true;
}

/* The request for these batches, not sent yet. NULL without memory. */
static struct client_produce *
new_request(struct client_producer *p, struct client_batch *const *batches, size_t count)
{
    struct client *c = p->client;
    struct client_produce *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return NULL;
    }
    list_init(&x->link);
    x->client = c;
    x->producer = p;
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    produce_response_init(&x->response);
    x->batches_count = count;
    x->batches = arena_alloc_array(&x->arena, count, sizeof(struct client_batch *));
    if (x->batches != NULL) {
        memcpy(x->batches, batches, count * sizeof(struct client_batch *));
    }
    if (x->batches == NULL || !fill_request(x)) {
        free_request(x);
        return NULL;
    }
    x->call = (struct client_call){
        .api_key = API_PRODUCE,
        .version_max = uuid_is_zero(&p->topic.id) ? TOPIC_ID_VERSION_MIN - 1 : 0,
        .has_no_answer = p->options.acks == CLIENT_ACKS_NONE,
        .node_id = batches[0]->lane->node_id,
        .timeout_ms = c->timeout_ms,
        .request = &x->request,
        .arena = &x->arena,
        .response = &x->response,
        .on_done = on_produced,
    };
    return x;
}

static void
send_request(struct client_producer *p, struct client_batch *const *batches, size_t count)
{
    struct client_produce *x = new_request(p, batches, count);
    if (x != NULL) {
        list_push_back(&p->requests, &x->link);
        client_post(p->client, &x->call);
        return;
    }
    char why[CLIENT_WHY_SIZE];
    enum err e = client_say(why, ERR_BUSY, "no memory for the request");
    for (size_t i = 0; i < count; i++) {
        settle_unsent(batches[i], e, why);
    }
}

/* ---- the producer's id ---- */

struct client_identify {
    struct client *client;
    struct client_producer *producer; /* NULL: it was freed. */
    struct client_call call;
    struct arena arena;
    struct init_producer_id_request request;
    struct init_producer_id_response response;
};

/* Without an id nothing can be sent, and no time helps. */
static void give_up_all(struct client_producer *p, enum err e, const char *why)
{
    list_for_each_safe (lane_node, &p->active) {
        struct client_lane *l = container_of(lane_node, struct client_lane, active_link);
        list_for_each_safe (node, &l->batches) {
            struct client_batch *b = container_of(node, struct client_batch, link);
            if (!b->is_in_flight) {
                give_up(b, e, why);
            }
        }
    }
}

static void take_identity(struct client_producer *p, struct client_identify *x)
{
    struct client *c = p->client;
    const int16_t code = x->response.error_code;
    enum err e = x->call.err;
    if (e == ERR_OK && code == KAFKA_NONE) {
        p->producer_id = x->response.producer_id;
        p->producer_epoch = x->response.producer_epoch;
        p->identify_failures = 0;
        return;
    }
    bool is_final = e == ERR_UNSUPPORTED || e == ERR_INVALID;
    if (e == ERR_OK) {
        is_final = !kafka_error_is_retriable(code);
        e = client_say(x->call.why,
                       client_err_of(code),
                       "the broker gives no producer id: %s",
                       client_error_text(code));
    }
    p->identify_failures++;
    p->identify_retry_us = client_now_us(c) + client_back_off_us(c, p->identify_failures);
    if (is_final) {
        give_up_all(p, e, x->call.why);
        return;
    }
    list_for_each (node, &p->batches) {
        struct client_batch *b = container_of(node, struct client_batch, age_link);
        if (b->attempts == 0) {
            b->err = e;
            memcpy(b->why, x->call.why, sizeof(b->why));
        }
    }
}

static void on_identified(struct client_call *call)
{
    struct client_identify *x = container_of(call, struct client_identify, call);
    if (x->producer != NULL) {
        x->producer->identify = NULL;
        take_identity(x->producer, x);
    }
    client_call_done(call);
    arena_done(&x->arena);
    free(x);
}

void client_produce_abandon(struct client_producer *p)
{
    list_for_each_safe (node, &p->requests) {
        struct client_produce *x = container_of(node, struct client_produce, link);
        x->producer = NULL;
        list_remove(&x->link);
        if (client_cancel(&x->call)) {
            free_request(x);
        }
    }
    if (p->identify != NULL) {
        p->identify->producer = NULL;
        p->identify = NULL;
    }
}

/* True once there is an id. */
static bool has_identity(struct client_producer *p, uint64_t now_us, uint64_t *next_us)
{
    struct client *c = p->client;
    if (p->producer_epoch == INT16_MAX) {
        p->producer_id = -1; /* Its epochs are used up. */
    }
    if (!p->options.is_idempotent || p->producer_id != -1) {
        return true;
    }
    if (p->identify != NULL) {
        return false;
    }
    struct client_identify *x = p->identify_retry_us <= now_us ? calloc(1, sizeof(*x)) : NULL;
    if (x == NULL) {
        const uint64_t retry_us =
            p->identify_retry_us > now_us ? p->identify_retry_us : client_after_us(c, 1000);
        *next_us = retry_us < *next_us ? retry_us : *next_us;
        return false;
    }
    x->client = c;
    x->producer = p;
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    init_producer_id_request_init(&x->request);
    x->request.transactional_id = (struct slice){0};
    x->request.transaction_timeout_ms = INT32_MAX;
    init_producer_id_response_init(&x->response);
    x->call = (struct client_call){
        .api_key = API_INIT_PRODUCER_ID,
        .node_id = CLIENT_NODE_ANY,
        .is_repeatable = true, /* Carried out twice it only wastes an id. */
        .timeout_ms = c->timeout_ms,
        .request = &x->request,
        .arena = &x->arena,
        .response = &x->response,
        .on_done = on_identified,
    };
    p->identify = x;
    client_post(c, &x->call);
    return false;
}

/* ---- a round ---- */

/* Batches whose time is over; those in flight wait for their answer. */
static void expire(struct client_producer *p, uint64_t now_us, uint64_t *next_us)
{
    list_for_each_safe (lane_node, &p->active) {
        struct client_lane *l = container_of(lane_node, struct client_lane, active_link);
        list_for_each_safe (node, &l->batches) {
            struct client_batch *b = container_of(node, struct client_batch, link);
            if (b->deadline_us > now_us) {
                *next_us = b->deadline_us < *next_us ? b->deadline_us : *next_us;
                break;
            }
            if (!b->is_in_flight) {
                give_up_late(b);
            }
        }
    }
}

static size_t requests_to(const struct client_producer *p, int32_t node_id)
{
    size_t count = 0;
    list_for_each (node, &p->requests) {
        count += container_of(node, struct client_produce, link)->call.node_id == node_id;
    }
    return count;
}

/* Nobody leads the partition, as far as is known. */
static void say_leaderless(struct client_producer *p, struct client_lane *l)
{
    struct client *c = p->client;
    struct client_batch *head = client_lane_head(l);
    head->err = client_say(
        head->why, ERR_NOT_LEADER, "%s[%d] has no leader now", p->topic.name, l->partition);
    l->failures++;
    l->retry_us = client_now_us(c) + client_back_off_us(c, l->failures);
    client_topic_want(c, &p->topic);
}

static struct client_batch *
choose(struct client_producer *p, struct client_lane *l, uint64_t now_us, uint64_t *next_us)
{
    /* Who leads is asked first, when something went wrong. */
    if (l->failures > 0 && p->topic.is_wanted) {
        return NULL;
    }
    struct client_batch *b = client_lane_choose(p, l, now_us, next_us);
    if (b == NULL) {
        return NULL;
    }
    const int32_t node_id = p->topic.leaders[l->partition];
    if (node_id < 0 || !client_node_is_known(p->client, node_id)) {
        say_leaderless(p, l);
        *next_us = l->retry_us < *next_us ? l->retry_us : *next_us;
        return NULL;
    }
    if (l->in_flight_count > 0 && l->node_id != node_id) {
        return NULL; /* The new leader may get it before the old one has the batch in front. */
    }
    return requests_to(p, node_id) < NODE_REQUESTS_MAX ? b : NULL;
}

/* One batch of every lane that may send; they are in flight from here on. */
static size_t choose_all(struct client_producer *p, uint64_t now_us, uint64_t *next_us)
{
    size_t count = 0;
    list_for_each (node, &p->active) {
        struct client_lane *l = container_of(node, struct client_lane, active_link);
        struct client_batch *b = count < p->chosen_capacity ? choose(p, l, now_us, next_us) : NULL;
        if (b != NULL) {
            l->node_id = p->topic.leaders[l->partition];
            client_lane_send(p, l, b);
            p->chosen[count++] = b;
        }
    }
    return count;
}

/* Takes time: without the lock. */
static void encode_all(struct client_producer *p, size_t count)
{
    const enum client_codec codec = p->options.codec;
    p->is_held = true;
    client_unlock(p->client);
    for (size_t i = 0; i < count; i++) {
        p->chosen[i]->err = client_batch_encode(p->chosen[i], codec);
    }
    client_lock(p->client);
    p->is_held = false;
    client_changed(p->client);
}

/* The batches of chosen that go to one node, moved to its start. */
static size_t gather(struct client_batch **chosen, size_t count)
{
    const int32_t node_id = chosen[0]->lane->node_id;
    size_t size = chosen[0]->bytes.size;
    size_t gathered = 1;
    for (size_t i = 1; i < count; i++) {
        struct client_batch *b = chosen[i];
        if (b->lane->node_id == node_id && size + b->bytes.size <= REQUEST_SIZE_MAX) {
            size += b->bytes.size;
            chosen[i] = chosen[gathered];
            chosen[gathered++] = b;
        }
    }
    return gathered;
}

/* Those that could not be encoded fail; the others are moved together. */
static size_t drop_failed(struct client_producer *p, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct client_batch *b = p->chosen[i];
        if (b->err == ERR_OK) {
            p->chosen[kept++] = b;
            continue;
        }
        char why[CLIENT_WHY_SIZE];
        enum err e = client_say(why, b->err, "no memory for a batch (%s)", err_name(b->err));
        client_lane_settle_refused(b->lane, b);
        give_up(b, e, why);
    }
    return kept;
}

static void send_chosen(struct client_producer *p, size_t count)
{
    encode_all(p, count);
    count = drop_failed(p, count);
    for (size_t i = 0; i < count;) {
        const size_t gathered = gather(&p->chosen[i], count - i);
        send_request(p, &p->chosen[i], gathered);
        i += gathered;
    }
}

/* Room to choose from every lane. */
static void grow_chosen(struct client_producer *p)
{
    const size_t wanted = (size_t)p->lanes_count;
    if (p->chosen_capacity < wanted) {
        struct client_batch **grown = realloc(p->chosen, wanted * sizeof(struct client_batch *));
        if (grown != NULL) {
            p->chosen = grown;
            p->chosen_capacity = wanted;
        }
    }
}

/* Lanes without batches leave the list of the active. */
static void drop_idle(struct client_producer *p)
{
    list_for_each_safe (node, &p->active) {
        if (list_is_empty(&container_of(node, struct client_lane, active_link)->batches)) {
            list_remove(node);
        }
    }
}

static void turn(struct client_producer *p, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(p->client);
    if (p->topic.unknown_count >= GONE_ATTEMPTS) {
        give_up_all(p, ERR_TOPIC_UNKNOWN, p->topic.why);
    }
    expire(p, now_us, next_us);
    drop_idle(p);
    if (list_is_empty(&p->active) || !has_identity(p, now_us, next_us)) {
        return;
    }
    grow_chosen(p);
    const size_t count = choose_all(p, now_us, next_us);
    if (count > 0) {
        send_chosen(p, count);
        *next_us = now_us; /* There may be more of the same lanes. */
    }
}

void client_producers_turn(struct client *c, uint64_t *next_us)
{
    list_for_each (node, &c->producers) {
        struct client_producer *p = container_of(node, struct client_producer, link);
        if (!p->is_closing && !c->is_stopping) {
            turn(p, next_us);
        }
    }
}
