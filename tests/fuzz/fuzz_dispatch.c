/* Frames through the real dispatch: a whole broker of one shard, its handlers, groups, controller
 * and logs, on a simulated disk and clock, and clients on a transport in memory. The input is a
 * script of steps, each a byte and what that says:
 *
 *   0, 1   u16 size, bytes: a request without its length; with 1, lengths and checksums of the
 *          batches in a Produce are made right
 *   2      u16 size, bytes: sent as they stand
 *   3      u8 n: 2^n us pass, at most 17 minutes
 *   4      u8 n: client n goes on, connected anew if its connection is closed
 *   5      u8: the client hangs up, in order or not
 *   6      u8: the client takes so much of its answers and no more; 255 = all
 *
 * Correlation ids are set here. Sixteen bytes 0xEE stand for the id of topic "t", which has three
 * partitions and some records.
 *
 * What is answered has to be an answer of the request's version, in the order of the requests. At
 * the end somebody else is served, the broker stops in order, and nothing is left over.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/settings.h"
#include "broker/wiring.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/header.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/produce.h"
#include "kafka/proto/schema.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"
#include "tests/support/fake_transport.h"
#include "tests/support/sim_shard.h"

enum {
    PORT = 9092,
    CLIENTS_COUNT = 3,
    CONNS_MAX = 256,   /* More than a script can hold open. */
    REQUESTS_MAX = 64, /* Of one run; what comes behind them is not looked at. */
    FRAME_SIZE_MAX = 64 << 10,
    ARENA_SIZE_MAX = 64 << 20,
    STEP_US = 20 * 1000, /* After each request; the disk is done by then. */
    WAIT_US = 60 * 1000 * 1000,
    SHIFT_MAX = 30,
    TURNS_MAX = 1000 * 1000,
    CREATE_VERSION = 7,
    METADATA_VERSION = 12,
    PRODUCE_VERSION = 9,
    PLACEHOLDER = 0xEE,
};

/* A request that was sent, by its correlation id. */
struct sent {
    const struct schema_api *api; /* NULL: nobody knows what it was. */
    int16_t version;
    uint8_t client;
};

struct client {
    struct fake_peer *peer;
    size_t read_pos;      /* In what it received. */
    int32_t answered_max; /* Highest id that was answered on this connection. */
    bool is_wild; /* It sent bytes as they stood: what is answered, if anything, is not known. */
};

struct rig {
    struct disk_sim *disk;
    struct sim_shard ss;
    struct fake_transport *ft;
    const struct transport_ops *ops; /* Its own. */
    struct transport_ops kept_ops;   /* The same, but it outlives the broker. */
    struct broker_settings settings;
    struct broker *broker;
    bool is_started;
    bool is_stopped;
    struct uuid topic_id;
    struct client clients[CLIENTS_COUNT];
    uint32_t current;
    struct sent sent[REQUESTS_MAX];
    int32_t sent_count;
};

/* ---- time ---- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What there is to do now. */
static void run_now(struct rig *g)
{
    int turns = 0;
    do {
        while (shard_turn(g->ss.s)) {
            assert_cmp(turns++, <, TURNS_MAX);
        }
    } while (fake_transport_run(g->ft) > 0);
}

static void run_for(struct rig *g, uint64_t us)
{
    const uint64_t end_us = g->ss.clock.now_us + us;
    for (int turns = 0;; turns++) {
        assert_cmp(turns, <, TURNS_MAX);
        run_now(g);
        const uint64_t next_us = min_u64(shard_next_us(g->ss.s), io_sim_next_us(&g->ss.io_sim));
        if (next_us > end_us) {
            break;
        }
        g->ss.clock.now_us = next_us > g->ss.clock.now_us ? next_us : g->ss.clock.now_us;
    }
    g->ss.clock.now_us = end_us;
    run_now(g);
}

static void run_until(struct rig *g, const bool *is_done)
{
    const uint64_t end_us = g->ss.clock.now_us + WAIT_US;
    while (!*is_done) {
        assert(g->ss.clock.now_us < end_us);
        run_for(g, STEP_US);
    }
}

/* ---- the broker ---- */

static void on_fatal(void *context, enum err e, const char *what)
{
    (void)context;
    panic("the broker gave up: what=\"%s\" error=%s", what, err_name(e));
}

static void on_started(void *context, enum err e, const char *why)
{
    struct rig *g = context;
    if (e != ERR_OK) {
        panic("the broker does not start: why=\"%s\"", why);
    }
    g->is_started = true;
}

static void on_stopped(void *context)
{
    ((struct rig *)context)->is_stopped = true;
}

/* What the last answers were is read afterwards. */
static void keep(struct transport *t)
{
    (void)t;
}

static enum err transport_new(void *context, struct shard *s, struct transport **ret_transport)
{
    (void)s;
    *ret_transport = fake_transport_of(((struct rig *)context)->ft);
    return ERR_OK;
}

/* Everything is small, so that its limits are within reach of a few requests. */
static void fill_settings(struct rig *g)
{
    struct broker_settings *settings = &g->settings;
    settings_init(settings);
    settings->has_admin = false;
    settings->data_dirs[0] = "/data";
    settings->data_dirs_count = 1;
    settings->listeners_count = 1;
    (void)snprintf(settings->listeners[0].name, sizeof(settings->listeners[0].name), "FUZZ");
    (void)snprintf(settings->listeners[0].bind.host, NET_HOST_SIZE, "fuzz");
    settings->listeners[0].bind.port = PORT;
    settings->listeners[0].advertised = settings->listeners[0].bind;
    settings->kafka_limits.frame_size_max = FRAME_SIZE_MAX;
    settings->kafka_limits.requests_max = 8;
    settings->kafka_limits.conns_max = CONNS_MAX;
    settings->fetch_sessions_max = 2;
    settings->space_reserve_size = 1;
    settings->cluster.topics_max = 12;
    settings->cluster.partitions_max = 40;
    settings->cluster.partitions_per_topic_max = 8;
    settings->cluster.producers_max = 4;
    settings->cluster.log.segment_size_max = 64 << 10;
    settings->cluster.log.fill_step_min = 16 << 10;
    settings->cluster.log.fill_step_max = 16 << 10;
    settings->cluster.controller_log.fill_step_min = 16 << 10;
    settings->cluster.controller_log.fill_step_max = 16 << 10;
    settings->cluster.on_fatal = on_fatal;
    settings->groups.topic_partitions_count = 2;
    settings->groups.initial_delay_ms = 100;
    settings->groups.groups_max = 4;
    settings->groups.all_members_max = 8;
    settings->groups.state_size_max = 64 << 10;
}

/* ---- clients ---- */

/* Peers are freed with their transport: those of closed connections may have requests under way. */
static struct fake_peer *dial(struct rig *g)
{
    struct fake_peer *p = fake_transport_dial(g->ft, PORT, "127.0.0.1:1");
    run_now(g);
    assert(!fake_peer_is_refused(p));
    return p;
}

static void dial_client(struct rig *g, struct client *c)
{
    *c = (struct client){.peer = dial(g), .answered_max = -1};
}

/* A whole answer to a request of this client's, in the order of the requests. */
static void check_answer(struct rig *g, struct client *c, struct rbuf frame)
{
    int32_t id = 0;
    enum err e = response_correlation_id(&frame, &id);
    assert(e == ERR_OK);
    assert_cmp(id, >, c->answered_max);
    assert_cmp(id, <, g->sent_count);
    const struct sent *s = &g->sent[id];
    assert(&g->clients[s->client] == c);
    assert(s->api != NULL);
    c->answered_max = id;
    int16_t version = s->version;
    if (s->api->key == API_API_VERSIONS && (version < 0 || version > s->api->version_stable_max)) {
        version = 0;
    }
    e = response_header_decode(&frame, s->api->key, version, &id);
    assert(e == ERR_OK);
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    void *response = arena_alloc(&a, s->api->response.root->size);
    assert(response != NULL);
    e = s->api->response.decode(&frame, version, &a, response);
    assert_cmp(e, ==, ERR_OK);
    assert(rbuf_finish(&frame) == ERR_OK);
    arena_done(&a);
}

static void read_answers(struct rig *g, struct client *c)
{
    const struct slice received = fake_peer_received(c->peer);
    while (!c->is_wild && received.size - c->read_pos >= 4) {
        struct rbuf r = rbuf_over(received.data + c->read_pos, received.size - c->read_pos);
        const uint32_t size = rbuf_u32(&r);
        if (rbuf_left(&r) < size) {
            break;
        }
        check_answer(g, c, rbuf_over(r.cursor, size));
        c->read_pos += 4 + size;
    }
}

static void read_all(struct rig *g)
{
    for (uint32_t i = 0; i < CLIENTS_COUNT; i++) {
        if (g->clients[i].peer != NULL) {
            read_answers(g, &g->clients[i]);
        }
    }
}

/* The batches of a Produce: views into frame, which is ours. */
static void seal_batches(const struct sent *s, struct rbuf body)
{
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    struct produce_request request;
    if (s->api->request.decode(&body, s->version, &a, &request) == ERR_OK) {
        for (size_t i = 0; i < request.topic_data_count; i++) {
            const struct produce_request_topic *t = &request.topic_data[i];
            for (size_t j = 0; j < t->partition_data_count; j++) {
                const struct slice records = t->partition_data[j].records;
                seal_batch((uint8_t *)(uintptr_t)records.data, records.size);
            }
        }
    }
    arena_done(&a);
}

static void name_topic(const struct rig *g, uint8_t *frame, size_t size)
{
    uint8_t placeholder[UUID_SIZE];
    memset(placeholder, PLACEHOLDER, sizeof(placeholder));
    uint8_t *at = frame;
    while ((at = memmem(at, size - (size_t)(at - frame), placeholder, UUID_SIZE)) != NULL) {
        memcpy(at, g->topic_id.bytes, UUID_SIZE);
        at += UUID_SIZE;
    }
}

static void send_frame(struct client *c, const uint8_t *frame, size_t size)
{
    const uint8_t prefix[4] = {
        (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
    fake_peer_send(c->peer, prefix, sizeof(prefix));
    fake_peer_send(c->peer, frame, size);
}

static void send_request(struct rig *g, struct client *c, struct slice bytes, bool is_sealed)
{
    uint8_t *frame = malloc(bytes.size + 1);
    assert(frame != NULL);
    if (bytes.size > 0) {
        memcpy(frame, bytes.data, bytes.size);
    }
    struct sent *s = &g->sent[g->sent_count];
    *s = (struct sent){.client = (uint8_t)(c - g->clients)};
    if (bytes.size >= 8) {
        for (int i = 0; i < 4; i++) {
            frame[4 + i] = (uint8_t)(g->sent_count >> (24 - 8 * i));
        }
    }
    name_topic(g, frame, bytes.size);
    struct rbuf r = rbuf_over(frame, bytes.size);
    struct request_header header;
    if (request_header_decode(&r, &header) == ERR_OK) {
        s->api = schema_api_find(header.api_key);
        s->version = header.api_version;
        if (is_sealed && header.api_key == API_PRODUCE && schema_api_has(s->api, s->version)) {
            seal_batches(s, r);
        }
    }
    g->sent_count++;
    send_frame(c, frame, bytes.size);
    free(frame);
}

/* ---- what is there before ---- */

/* One request that has to be answered without an error of its own; the response, in a. */
static const void *ask(struct rig *g,
                       const struct schema_api *api,
                       int16_t version,
                       const void *request,
                       struct arena *a)
{
    struct fake_peer *p = dial(g);
    struct wbuf w;
    wbuf_init(&w, FRAME_SIZE_MAX);
    const struct request_header header = {
        .api_key = api->key, .api_version = version, .client_id = slice_of_string("good")};
    enum err e = request_header_encode(&w, &header);
    assert(e == ERR_OK);
    e = api->request.encode(&w, version, request);
    assert(e == ERR_OK);
    struct client c = {.peer = p};
    send_frame(&c, w.data, w.size);
    wbuf_done(&w);
    const uint64_t end_us = g->ss.clock.now_us + WAIT_US;
    while (fake_peer_received(p).size == 0) {
        assert(g->ss.clock.now_us < end_us);
        run_for(g, STEP_US);
    }
    const struct slice received = fake_peer_received(p);
    struct rbuf frame = rbuf_over(received.data + 4, received.size - 4);
    int32_t id = 0;
    e = response_header_decode(&frame, api->key, version, &id);
    assert(e == ERR_OK);
    /* Its texts must outlive the connection. */
    uint8_t *copy = arena_alloc(a, rbuf_left(&frame));
    void *response = arena_alloc(a, api->response.root->size);
    assert(copy != NULL);
    assert(response != NULL);
    memcpy(copy, frame.cursor, rbuf_left(&frame));
    frame = rbuf_over(copy, rbuf_left(&frame));
    e = api->response.decode(&frame, version, a, response);
    assert(e == ERR_OK);
    fake_peer_close(p, ERR_CLOSED);
    run_now(g);
    return response;
}

static void make_topic(struct rig *g)
{
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    struct create_topics_request request;
    struct create_topics_request_topic topic;
    create_topics_request_init(&request);
    create_topics_request_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.num_partitions = 3;
    topic.replication_factor = 1;
    request.topics = &topic;
    request.topics_count = 1;
    request.timeout_ms = 10000;
    const struct create_topics_response *response =
        ask(g, schema_api_find(API_CREATE_TOPICS), CREATE_VERSION, &request, &a);
    assert_cmp(response->topics_count, ==, 1);
    assert_cmp(response->topics[0].error_code, ==, 0);
    g->topic_id = response->topics[0].topic_id;
    arena_done(&a);
}

static void make_records(struct rig *g)
{
    static const struct batch_identity nobody = {-1, -1, -1};
    struct arena a;
    struct batch_builder b;
    struct wbuf w;
    arena_init(&a, ARENA_SIZE_MAX);
    wbuf_init(&w, FRAME_SIZE_MAX);
    batch_builder_init(&b, FRAME_SIZE_MAX);
    for (int i = 0; i < 3; i++) {
        const struct batch_record record = {
            .timestamp = 1700000000000 + i,
            .key = slice_of_string("key"),
            .value = slice_of_string("value"),
        };
        enum err e = batch_builder_add(&b, &record);
        assert(e == ERR_OK);
    }
    enum err e = batch_builder_finish(&b, CODEC_NONE, &nobody, &w);
    assert(e == ERR_OK);
    batch_builder_done(&b);
    struct produce_request request;
    struct produce_request_topic topic;
    struct produce_request_partition partition;
    produce_request_init(&request);
    produce_request_topic_init(&topic);
    produce_request_partition_init(&partition);
    partition.records = wbuf_slice(&w);
    topic.name = slice_of_string("t");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    request.acks = -1;
    request.timeout_ms = 10000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    const struct produce_response *response =
        ask(g, schema_api_find(API_PRODUCE), PRODUCE_VERSION, &request, &a);
    assert_cmp(response->responses_count, ==, 1);
    assert_cmp(response->responses[0].partition_responses[0].error_code, ==, 0);
    wbuf_done(&w);
    arena_done(&a);
}

/* ---- a run ---- */

static void begin(struct rig *g)
{
    *g = (struct rig){.disk = sim_disk_new()};
    sim_shard_init(&g->ss, g->disk, 1);
    g->ft = fake_transport_new();
    g->ops = fake_transport_of(g->ft)->ops;
    g->kept_ops = *g->ops;
    g->kept_ops.destroy = keep;
    fake_transport_of(g->ft)->ops = &g->kept_ops;
    fill_settings(g);
    enum err e = broker_new(
        &(struct broker_options){
            .version = "fuzz",
            .settings = &g->settings,
            .group = g->ss.group,
            .context = g,
            .transport_new = transport_new,
        },
        &g->broker);
    assert(e == ERR_OK);
    broker_start(g->broker, g, on_started);
    run_until(g, &g->is_started);
    make_topic(g);
    make_records(g);
    dial_client(g, &g->clients[0]);
}

/* Somebody who did nothing wrong is served, whatever the others did. */
static void expect_service(struct rig *g)
{
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    struct metadata_request request;
    metadata_request_init(&request);
    request.topics = NULL;
    const struct metadata_response *response =
        ask(g, schema_api_find(API_METADATA), METADATA_VERSION, &request, &a);
    assert_cmp(response->brokers_count, ==, 1);
    arena_done(&a);
}

static void end(struct rig *g)
{
    for (uint32_t i = 0; i < CLIENTS_COUNT; i++) {
        if (g->clients[i].peer != NULL) {
            fake_peer_set_window(g->clients[i].peer, SIZE_MAX);
        }
    }
    run_for(g, STEP_US);
    read_all(g);
    expect_service(g);
    broker_stop(g->broker, g, on_stopped);
    run_until(g, &g->is_stopped);
    read_all(g);
    broker_free(g->broker);
    fake_transport_of(g->ft)->ops = g->ops;
    g->ops->destroy(fake_transport_of(g->ft));
    sim_shard_settle(&g->ss);
    sim_shard_done(&g->ss);
    disk_sim_free(g->disk);
}

static void step(struct rig *g, struct rbuf *in)
{
    const int kind = (uint8_t)rbuf_i8(in) % 7;
    struct client *c = &g->clients[g->current];
    const bool is_open = !fake_peer_is_closed(c->peer);
    if (kind <= 2) {
        const uint16_t size = rbuf_u16(in);
        const struct slice bytes = rbuf_bytes(in, size < rbuf_left(in) ? size : rbuf_left(in));
        if (is_open && kind == 2) {
            c->is_wild = true;
            fake_peer_send(c->peer, bytes.data, bytes.size);
        } else if (is_open) {
            send_request(g, c, bytes, kind == 1);
        }
        run_for(g, STEP_US);
        return;
    }
    const uint8_t argument = (uint8_t)rbuf_i8(in);
    if (kind == 3) {
        run_for(g, UINT64_C(1) << (argument % (SHIFT_MAX + 1)));
    } else if (kind == 4) {
        g->current = (uint32_t)argument % CLIENTS_COUNT;
        c = &g->clients[g->current];
        if (c->peer == NULL || fake_peer_is_closed(c->peer)) {
            dial_client(g, c);
        }
    } else if (kind == 5 && is_open) {
        fake_peer_close(c->peer, argument % 2 == 0 ? ERR_CLOSED : ERR_IO);
        run_for(g, STEP_US);
    } else if (kind == 6) {
        fake_peer_set_window(c->peer, argument == 255 ? SIZE_MAX : argument);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig g;
    struct rbuf in = rbuf_over(data, size);
    begin(&g);
    while (rbuf_left(&in) > 0 && g.sent_count < REQUESTS_MAX) {
        step(&g, &in);
        read_all(&g);
    }
    end(&g);
    return 0;
}
