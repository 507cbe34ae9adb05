/* The synchronous producer: batches per partition, sent when full, old or flushed.
 *
 *   open batch --full, old, flush--> sealed --sent--> acknowledged
 *                                      ^  |
 *                                      +--+ retriable error: again after a pause, same bytes
 *
 * Invariants
 * 1. A partition has at most one sealed batch, and no other is sealed before it is settled: so
 *    records keep their order through any retry, with or without idempotence.
 * 2. A sealed batch keeps its sequence numbers until it is acknowledged. If it is given up, they
 *    may or may not have been used: an idempotent producer then takes no more records (is_fenced),
 *    because what follows could only be refused or leave a gap unseen.
 * 3. Each round sends one request per leader, and waits for all answers before the next.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "client/partitioner.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/produce.h"
#include "storage/batch.h"

enum {
    BATCH_SIZE_DEFAULT = 256 << 10,
    BATCH_SIZE_MAX = 64 << 20,
    RECORD_SIZE_MAX = 64 << 20, /* One record may be larger than batch_size: it goes alone. */
    DELIVERY_TIMEOUT_MS_DEFAULT = 120000,
    TOPIC_ID_VERSION_MIN = 13,
    NODE_NONE = -1,
    GONE_ATTEMPTS = 5, /* So often a topic may be unknown before it counts as deleted. */
};

static_assert((int)CLIENT_CODEC_GZIP == (int)CODEC_GZIP, "same numbers");
static_assert((int)CLIENT_CODEC_ZSTD == (int)CODEC_ZSTD, "same numbers");
static_assert(sizeof(struct client_header) == sizeof(struct record_header), "same layout");
static_assert(offsetof(struct client_header, value) == offsetof(struct record_header, value),
              "same layout");

/* One partition's records on their way. */
struct lane {
    int32_t partition;
    struct batch_builder open; /* Records not sealed yet. */
    uint64_t opened_us;        /* When the first of them came. */
    struct wbuf sealed;        /* The batch as sent; empty: none. */
    int32_t sealed_count;      /* Records in it. */
    uint64_t sealed_deadline_us;
    uint32_t attempts;
    int32_t sequence_next;
    int32_t node_id; /* Whom the current round sends it to; NODE_NONE: nobody. */
    bool is_used;    /* open is initialised. */
    bool is_cut;     /* The open batch takes no more: it is due whatever its size and age. */
};

struct client_producer {
    struct client *client;
    struct client_producer_options options;
    struct client_topic topic;
    struct lane *lanes; /* One per partition. */
    int32_t lanes_count;
    int32_t sticky;       /* Where records without a key go now. */
    uint32_t sticky_size; /* Bytes that went there since it was chosen. */
    uint64_t oldest_us;   /* When the oldest open batch was; UINT64_MAX: none is. */
    int64_t producer_id;  /* -1: none yet, or not idempotent. */
    int16_t producer_epoch;
    bool is_fenced;
    struct client_producer_stats stats;
};

static const struct client_producer_options defaults = {0};

enum err client_producer_new(struct client *c,
                             const char *topic,
                             const struct client_producer_options *options,
                             struct client_producer **ret_producer)
{
    struct client_producer *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory for a producer");
    }
    p->client = c;
    p->options = options != NULL ? *options : defaults;
    p->oldest_us = UINT64_MAX;
    p->producer_id = -1;
    p->producer_epoch = -1;
    struct client_producer_options *o = &p->options;
    o->batch_size = o->batch_size == 0 ? BATCH_SIZE_DEFAULT : o->batch_size;
    o->batch_size = o->batch_size > BATCH_SIZE_MAX ? BATCH_SIZE_MAX : o->batch_size;
    o->delivery_timeout_ms =
        o->delivery_timeout_ms == 0 ? DELIVERY_TIMEOUT_MS_DEFAULT : o->delivery_timeout_ms;
    enum err e = ERR_OK;
    if (o->is_idempotent && o->acks != CLIENT_ACKS_ALL) {
        e = client_fail(c->env, ERR_INVALID, "an idempotent producer needs acks all");
    }
    if (e == ERR_OK) {
        e = client_topic_init(c, topic, &p->topic);
    }
    if (e == ERR_OK) {
        p->lanes_count = p->topic.partitions_count;
        p->lanes = calloc((size_t)p->lanes_count, sizeof(*p->lanes));
        e = p->lanes == NULL ? client_fail(c->env, ERR_BUSY, "no memory for a producer") : ERR_OK;
    }
    if (e != ERR_OK) {
        p->lanes_count = 0;
        client_producer_free(p);
        return e;
    }
    p->sticky = (int32_t)rand_below(c->env->rand, (uint64_t)p->lanes_count);
    *ret_producer = p;
    return ERR_OK;
}

void client_producer_free(struct client_producer *p)
{
    if (p == NULL) {
        return;
    }
    for (int32_t i = 0; i < p->lanes_count; i++) {
        if (p->lanes[i].is_used) {
            batch_builder_done(&p->lanes[i].open);
            wbuf_done(&p->lanes[i].sealed);
        }
    }
    free(p->lanes);
    client_topic_done(&p->topic);
    free(p);
}

void client_producer_stats(const struct client_producer *p, struct client_producer_stats *ret_stats)
{
    *ret_stats = p->stats;
}

int32_t client_producer_partitions_count(const struct client_producer *p)
{
    return p->lanes_count;
}

/* ---- sealing ---- */

static bool is_sealed(const struct lane *l)
{
    return l->sealed.size > 0;
}

static bool has_open(const struct lane *l)
{
    return l->is_used && l->open.records_count > 0;
}

static void reset_open(struct lane *l)
{
    batch_builder_done(&l->open);
    batch_builder_init(&l->open, RECORD_SIZE_MAX);
    l->is_cut = false;
}

static enum err seal(struct client_producer *p, struct lane *l)
{
    assert(!is_sealed(l));
    assert(has_open(l));
    const struct batch_identity identity = {
        .producer_id = p->producer_id,
        .producer_epoch = p->producer_epoch,
        .base_sequence = p->options.is_idempotent ? l->sequence_next : -1,
    };
    enum err e =
        batch_builder_finish(&l->open, (enum batch_codec)p->options.codec, &identity, &l->sealed);
    if (e != ERR_OK) {
        wbuf_done(&l->sealed);
        wbuf_init(&l->sealed, CLIENT_FRAME_SIZE_MAX);
        p->stats.failed_count += (uint64_t)l->open.records_count;
        reset_open(l);
        return client_fail(p->client->env, e, "no memory for a batch (%s)", err_name(e));
    }
    l->sealed_count = l->open.records_count;
    l->sealed_deadline_us = client_deadline_us(p->client->env, p->options.delivery_timeout_ms);
    l->attempts = 0;
    reset_open(l);
    return ERR_OK;
}

/* The batch is over, with success or without. */
static void unseal(struct lane *l)
{
    l->sealed.size = 0;
    l->sealed_count = 0;
}

static enum err need_producer_id(struct client_producer *p)
{
    if (!p->options.is_idempotent || p->producer_id != -1) {
        return ERR_OK;
    }
    struct client *c = p->client;
    const uint64_t deadline_us = client_deadline_us(c->env, p->options.delivery_timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        struct arena arena;
        arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
        struct init_producer_id_request request;
        init_producer_id_request_init(&request);
        request.transactional_id = (struct slice){0};
        request.transaction_timeout_ms = INT32_MAX;
        struct init_producer_id_response response;
        init_producer_id_response_init(&response);
        const struct client_call call = {
            .api_key = API_INIT_PRODUCER_ID,
            .request = &request,
            .arena = &arena,
            .response = &response,
        };
        /* Carried out twice it only wastes an id. */
        enum err e = client_ask_any(c, &call);
        arena_done(&arena);
        if (e != ERR_OK) {
            return e;
        }
        if (response.error_code == KAFKA_NONE) {
            p->producer_id = response.producer_id;
            p->producer_epoch = response.producer_epoch;
            return ERR_OK;
        }
        if (!kafka_error_is_retriable(response.error_code) ||
            clock_now_us(c->env->clock) >= deadline_us) {
            return client_fail(c->env,
                               client_err_of(response.error_code),
                               "the broker gives no producer id: %s",
                               client_error_text(response.error_code));
        }
        client_back_off(c, attempt, deadline_us);
    }
}

/* ---- a round: one request to each leader ---- */

struct round {
    struct client_producer *p;
    struct arena arena;
    enum err failure; /* The first batch that was given up. */
    char why[CLIENT_WHY_SIZE];
    uint32_t attempts;    /* Most of any batch that has to be sent again; 0: none has. */
    uint64_t deadline_us; /* The last of theirs. */
};

/* The batch is given up; why is set. is_unknown: it may be in the log, or get there. */
static void settle_failed(struct round *r, struct lane *l, enum err e, bool is_unknown)
{
    struct client_producer *p = r->p;
    p->stats.failed_count += (uint64_t)l->sealed_count;
    p->is_fenced |= p->options.is_idempotent && is_unknown;
    unseal(l);
    if (r->failure == ERR_OK) {
        r->failure = e;
        memcpy(r->why, p->client->env->why, sizeof(r->why));
    }
}

static void settle_acked(struct client_producer *p, struct lane *l)
{
    p->stats.acked_count += (uint64_t)l->sealed_count;
    p->stats.batches_count++;
    if (p->options.is_idempotent) {
        l->sequence_next = batch_last_sequence(l->sequence_next, l->sealed_count);
    }
    unseal(l);
}

/* The batch goes again, unless its time is over. why is set. */
static void settle_retriable(struct round *r, struct lane *l, enum err e)
{
    struct client_env *env = r->p->client->env;
    if (clock_now_us(env->clock) >= l->sealed_deadline_us) {
        (void)client_fail(env, e, "%.400s; gave up after %u attempts", env->why, l->attempts);
        settle_failed(r, l, e, true);
        return;
    }
    r->p->stats.retries_count++;
    r->attempts = l->attempts > r->attempts ? l->attempts : r->attempts;
    if (l->sealed_deadline_us > r->deadline_us) {
        r->deadline_us = l->sealed_deadline_us;
    }
}

/* What the sequence numbers of an idempotent producer cannot go on from. */
static bool is_sequence_trouble(int16_t code)
{
    return code == KAFKA_OUT_OF_ORDER_SEQUENCE_NUMBER || code == KAFKA_INVALID_PRODUCER_EPOCH ||
           code == KAFKA_UNKNOWN_PRODUCER_ID || code == KAFKA_INVALID_PRODUCER_ID_MAPPING;
}

static void
settle_answer(struct round *r, struct lane *l, const struct produce_response_partition *answer)
{
    struct client_producer *p = r->p;
    const int16_t code = answer->error_code;
    /* A duplicate is one we sent before: it is in the log, only its offset is forgotten. */
    if (code == KAFKA_NONE || code == KAFKA_DUPLICATE_SEQUENCE_NUMBER) {
        settle_acked(p, l);
        return;
    }
    const struct slice message = answer->error_message;
    const size_t size = message.size < CLIENT_WHY_SIZE ? message.size : CLIENT_WHY_SIZE;
    enum err e = client_fail(p->client->env,
                             client_err_of(code),
                             "%s[%d] refused %d records: %s%s%.*s",
                             p->topic.name,
                             l->partition,
                             l->sealed_count,
                             client_error_text(code),
                             size > 0 ? ": " : "",
                             (int)size,
                             size > 0 ? (const char *)message.data : "");
    if (kafka_error_is_retriable(code)) {
        settle_retriable(r, l, e);
    } else {
        settle_failed(r, l, e, is_sequence_trouble(code));
    }
}

static bool is_bound_for(const struct lane *l, int32_t node_id)
{
    return l->node_id == node_id && is_sealed(l);
}

/* All batches that are bound for a node meet the same trouble; why is set. */
static void settle_node(struct round *r, int32_t node_id, enum err e)
{
    const bool is_final = e == ERR_UNSUPPORTED || e == ERR_INVALID;
    char why[CLIENT_WHY_SIZE];
    memcpy(why, r->p->client->env->why, sizeof(why));
    for (int32_t i = 0; i < r->p->lanes_count; i++) {
        struct lane *l = &r->p->lanes[i];
        if (!is_bound_for(l, node_id)) {
            continue;
        }
        memcpy(r->p->client->env->why, why, sizeof(why));
        l->node_id = NODE_NONE;
        if (is_final) {
            settle_failed(r, l, e, false);
        } else {
            settle_retriable(r, l, e);
        }
    }
}

/* The request with all batches for a node; false without memory. */
static bool fill_request(struct round *r, int32_t node_id, struct produce_request *request)
{
    static const int16_t acks[] = {
        [CLIENT_ACKS_ALL] = -1,
        [CLIENT_ACKS_LEADER] = 1,
        [CLIENT_ACKS_NONE] = 0,
    };
    struct client_producer *p = r->p;
    produce_request_init(request);
    request->acks = acks[p->options.acks];
    request->timeout_ms = (int32_t)p->client->timeout_ms;
    size_t count = 0;
    for (int32_t i = 0; i < p->lanes_count; i++) {
        count += is_bound_for(&p->lanes[i], node_id);
    }
    struct produce_request_topic *t = arena_alloc(&r->arena, sizeof(*t));
    struct produce_request_partition *partitions =
        arena_alloc_array(&r->arena, count, sizeof(*partitions));
    if (t == NULL || partitions == NULL) {
        return false;
    }
    produce_request_topic_init(t);
    t->name = slice_of_string(p->topic.name);
    t->topic_id = p->topic.id;
    t->partition_data = partitions;
    for (int32_t i = 0; i < p->lanes_count; i++) {
        struct lane *l = &p->lanes[i];
        if (is_bound_for(l, node_id)) {
            struct produce_request_partition *one = &partitions[t->partition_data_count++];
            produce_request_partition_init(one);
            one->index = l->partition;
            one->records = wbuf_slice(&l->sealed);
            l->attempts++;
        }
    }
    request->topic_data = t;
    request->topic_data_count = 1;
    return true;
}

static struct client_call produce_call(const struct round *r)
{
    const struct client_producer *p = r->p;
    return (struct client_call){
        .api_key = API_PRODUCE,
        .version_max = uuid_is_zero(&p->topic.id) ? TOPIC_ID_VERSION_MIN - 1 : 0,
        .has_no_answer = p->options.acks == CLIENT_ACKS_NONE,
    };
}

/* Sends a node its batches. False if they were settled, or if there are none. */
static bool send_to(struct round *r, int32_t node_id, struct client_conn **ret_conn)
{
    struct client *c = r->p->client;
    bool has_any = false;
    for (int32_t i = 0; i < r->p->lanes_count && !has_any; i++) {
        has_any = is_bound_for(&r->p->lanes[i], node_id);
    }
    if (!has_any) {
        return false;
    }
    struct client_conn *conn = NULL;
    struct produce_request request;
    struct client_call call = produce_call(r);
    call.request = &request;
    enum err e = client_link_to(c, node_id, &conn);
    if (e == ERR_OK && !fill_request(r, node_id, &request)) {
        e = client_fail(c->env, ERR_BUSY, "no memory for the request");
    }
    if (e == ERR_OK) {
        e = client_conn_send(conn, &call, client_deadline_us(c->env, c->timeout_ms));
    }
    if (e != ERR_OK) {
        settle_node(r, node_id, e);
        return false;
    }
    *ret_conn = conn;
    return true;
}

static struct lane *find_lane(struct client_producer *p, int32_t partition, int32_t node_id)
{
    struct lane *l = partition >= 0 && partition < p->lanes_count ? &p->lanes[partition] : NULL;
    return l != NULL && is_bound_for(l, node_id) ? l : NULL;
}

static void receive_from(struct round *r, int32_t node_id, struct client_conn *conn)
{
    struct client_producer *p = r->p;
    struct client *c = p->client;
    struct produce_response response;
    produce_response_init(&response);
    struct client_call call = produce_call(r);
    call.arena = &r->arena;
    call.response = &response;
    enum err e = client_conn_receive(conn, &call, client_deadline_us(c->env, c->timeout_ms));
    if (e != ERR_OK) {
        settle_node(r, node_id, e);
        return;
    }
    for (size_t i = 0; i < response.responses_count; i++) {
        const struct produce_response_topic *t = &response.responses[i];
        for (size_t j = 0; j < t->partition_responses_count; j++) {
            const struct produce_response_partition *answer = &t->partition_responses[j];
            struct lane *l = find_lane(p, answer->index, node_id);
            if (l != NULL) {
                l->node_id = NODE_NONE;
                settle_answer(r, l, answer);
            }
        }
    }
    e = client_fail(c->env, ERR_CORRUPT, "%s did not answer for every partition", conn->name);
    settle_node(r, node_id, e);
}

/* Where each sealed batch goes. */
static void address_batches(struct round *r)
{
    struct client_producer *p = r->p;
    struct client *c = p->client;
    for (int32_t i = 0; i < p->lanes_count; i++) {
        struct lane *l = &p->lanes[i];
        if (!is_sealed(l)) {
            continue;
        }
        l->node_id = p->topic.leaders[i];
        bool is_known = false;
        for (size_t n = 0; n < c->nodes_count && !is_known; n++) {
            is_known = c->nodes[n].id == l->node_id;
        }
        if (!is_known) {
            l->node_id = NODE_NONE;
            l->attempts++;
            enum err e = client_fail(
                c->env, ERR_NOT_LEADER, "%s[%d] has no leader now", p->topic.name, l->partition);
            settle_retriable(r, l, e);
        }
    }
}

/* Requests to all leaders first, then the answers: leaders work at the same time. */
static enum err run_round(struct round *r)
{
    struct client_producer *p = r->p;
    struct client *c = p->client;
    struct client_conn **conns =
        arena_alloc_array(&r->arena, c->nodes_count, sizeof(struct client_conn *));
    if (conns == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory to send");
    }
    address_batches(r);
    for (size_t n = 0; n < c->nodes_count; n++) {
        if (!send_to(r, c->nodes[n].id, &conns[n])) {
            conns[n] = NULL;
        }
    }
    for (size_t n = 0; n < c->nodes_count; n++) {
        if (conns[n] == NULL) {
            continue;
        }
        if (p->options.acks != CLIENT_ACKS_NONE) {
            receive_from(r, c->nodes[n].id, conns[n]);
            continue;
        }
        for (int32_t i = 0; i < p->lanes_count; i++) {
            if (is_bound_for(&p->lanes[i], c->nodes[n].id)) {
                p->lanes[i].node_id = NODE_NONE;
                settle_acked(p, &p->lanes[i]);
            }
        }
    }
    return ERR_OK;
}

/* ---- what is sent when ---- */

enum due {
    DUE_FULL_OR_OLD,
    DUE_ALL,
};

static bool
is_due(const struct client_producer *p, const struct lane *l, enum due due, uint64_t now_us)
{
    return has_open(l) &&
           (due == DUE_ALL || l->is_cut || l->open.records.size >= p->options.batch_size ||
            now_us >= l->opened_us + (uint64_t)p->options.linger_ms * 1000);
}

/* Seals what is due, in partitions that have nothing on its way. */
static enum err seal_due(struct client_producer *p, enum due due, bool *ret_has_sealed)
{
    const uint64_t now_us = clock_now_us(p->client->env->clock);
    *ret_has_sealed = false;
    p->oldest_us = UINT64_MAX;
    for (int32_t i = 0; i < p->lanes_count; i++) {
        struct lane *l = &p->lanes[i];
        if (!is_sealed(l) && is_due(p, l, due, now_us)) {
            enum err e = seal(p, l);
            if (e != ERR_OK) {
                return e;
            }
        }
        if (has_open(l) && l->opened_us < p->oldest_us) {
            p->oldest_us = l->opened_us;
        }
        *ret_has_sealed |= is_sealed(l);
    }
    return ERR_OK;
}

static bool is_oldest_due(const struct client_producer *p)
{
    return p->oldest_us != UINT64_MAX && clock_now_us(p->client->env->clock) >=
                                             p->oldest_us + (uint64_t)p->options.linger_ms * 1000;
}

/* Before a batch goes again: a pause, then where the leaders are now. A topic that is gone for good
 * is not waited for until the end of the delivery timeout. */
static void prepare_retry(struct round *r)
{
    struct client_producer *p = r->p;
    client_back_off(p->client, r->attempts, r->deadline_us);
    enum err e = client_topic_refresh(p->client, &p->topic);
    if (e != ERR_TOPIC_UNKNOWN || r->attempts < GONE_ATTEMPTS) {
        return;
    }
    for (int32_t i = 0; i < p->lanes_count; i++) {
        if (is_sealed(&p->lanes[i])) {
            settle_failed(r, &p->lanes[i], e, true);
        }
    }
}

static enum err check_fenced(struct client_producer *p)
{
    return !p->is_fenced
               ? ERR_OK
               : client_fail(p->client->env,
                             ERR_SEQUENCE_OUT_OF_ORDER,
                             "the idempotent producer lost a batch and cannot go on without a gap");
}

/* Sends what is due until none of it is left. */
static enum err send_due(struct client_producer *p, enum due due)
{
    struct round r = {.p = p, .failure = ERR_OK};
    enum err e = need_producer_id(p);
    while (e == ERR_OK) {
        bool has_sealed = false;
        e = seal_due(p, due, &has_sealed);
        if (e != ERR_OK || !has_sealed) {
            break;
        }
        r.attempts = 0;
        r.deadline_us = 0;
        arena_init(&r.arena, CLIENT_ARENA_SIZE_MAX);
        e = run_round(&r);
        arena_done(&r.arena);
        if (e == ERR_OK && r.attempts > 0) {
            prepare_retry(&r);
        }
        if (e == ERR_OK && p->is_fenced) {
            e = check_fenced(p);
        }
    }
    if (r.failure != ERR_OK) {
        return client_fail(p->client->env, r.failure, "%s", r.why);
    }
    return e;
}

/* A batch in each partition in turn: fewer, larger batches than a record each. Partitions without a
 * leader are passed over while others have one. */
static int32_t next_sticky(struct client_producer *p, size_t size)
{
    if (p->sticky_size >= p->options.batch_size || p->topic.leaders[p->sticky] < 0) {
        p->sticky_size = 0;
        for (int32_t i = 0; i < p->lanes_count; i++) {
            p->sticky = (p->sticky + 1) % p->lanes_count;
            if (p->topic.leaders[p->sticky] >= 0) {
                break;
            }
        }
    }
    p->sticky_size += (uint32_t)(size > BATCH_SIZE_MAX ? BATCH_SIZE_MAX : size);
    return p->sticky;
}

static enum err
choose_lane(struct client_producer *p, const struct client_message *m, struct lane **ret_lane)
{
    int32_t partition = m->partition;
    if (partition < -1 || partition >= p->lanes_count) {
        return client_fail(p->client->env,
                           ERR_INVALID,
                           "topic '%s' has no partition %d, only 0 to %d",
                           p->topic.name,
                           partition,
                           p->lanes_count - 1);
    }
    if (partition == -1) {
        partition = slice_is_null(m->key) ? next_sticky(p, m->value.size)
                                          : partitioner_of_key(m->key, p->lanes_count);
    }
    struct lane *l = &p->lanes[partition];
    if (!l->is_used) {
        l->is_used = true;
        l->partition = partition;
        l->node_id = NODE_NONE;
        batch_builder_init(&l->open, RECORD_SIZE_MAX);
        wbuf_init(&l->sealed, CLIENT_FRAME_SIZE_MAX);
    }
    *ret_lane = l;
    return ERR_OK;
}

static enum err add(struct client_producer *p, struct lane *l, const struct client_message *m)
{
    struct client_env *env = p->client->env;
    const struct batch_record record = {
        .timestamp =
            m->timestamp != 0 || m->has_timestamp ? m->timestamp : clock_wall_ms(env->clock),
        .key = m->key,
        .value = m->value,
        .headers = (const struct record_header *)m->headers,
        .headers_count = (uint32_t)m->headers_count,
    };
    enum err e = batch_builder_add(&l->open, &record);
    if (e != ERR_OK) {
        return client_fail(env, e, "a record is larger than %d MiB", RECORD_SIZE_MAX >> 20);
    }
    if (l->open.records_count == 1) {
        l->opened_us = clock_now_us(env->clock);
        p->oldest_us = l->opened_us < p->oldest_us ? l->opened_us : p->oldest_us;
    }
    return ERR_OK;
}

static size_t size_guess(const struct client_message *m)
{
    size_t size = m->key.size + m->value.size;
    for (size_t i = 0; i < m->headers_count; i++) {
        size += m->headers[i].key.size + m->headers[i].value.size;
    }
    return size;
}

enum err client_producer_send(struct client_producer *p, const struct client_message *message)
{
    struct lane *l = NULL;
    enum err e = check_fenced(p);
    if (e == ERR_OK) {
        e = choose_lane(p, message, &l);
    }
    if (e != ERR_OK) {
        return e;
    }
    assert(l != NULL);
    /* A record that would make the batch too large starts the next one: batches above batch_size
     * hold a single record. The failure of the batch before does not keep this one out. */
    enum err before = ERR_OK;
    if (has_open(l) && l->open.records.size + size_guess(message) > p->options.batch_size) {
        l->is_cut = true;
        before = send_due(p, DUE_FULL_OR_OLD);
    }
    e = add(p, l, message);
    if (e == ERR_OK && before == ERR_OK &&
        (l->open.records.size >= p->options.batch_size || is_oldest_due(p))) {
        e = send_due(p, DUE_FULL_OR_OLD);
    }
    return before != ERR_OK ? before : e;
}

enum err client_producer_poll(struct client_producer *p)
{
    enum err e = check_fenced(p);
    return e == ERR_OK && is_oldest_due(p) ? send_due(p, DUE_FULL_OR_OLD) : e;
}

enum err client_producer_flush(struct client_producer *p)
{
    enum err e = check_fenced(p);
    return e == ERR_OK && p->oldest_us != UINT64_MAX ? send_due(p, DUE_ALL) : e;
}
