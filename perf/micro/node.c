#include "perf/micro/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/header.h"

#include "perf/micro/micro.h"

enum {
    PORT = 9092,
    SEED = 1,
    FRAME_SIZE_MAX = 8 << 20,
    ARENA_SIZE_MAX = 64 << 20,
    CREATE_VERSION = 7,
    PREFIX_SIZE = 4,
    /* Large enough that births of segments and zeros ahead are rare. */
    SEGMENT_SIZE = 64 << 20,
};

/* ---- the disk, uncounted ---- */

static struct node *node_of(struct io_backend *b)
{
    return container_of(b, struct node, ss.io_fault.backend);
}

static MICRO_SEEN void uncounted_start(struct io_backend *b, struct io_op *op)
{
    node_of(b)->sim_ops->start(b, op);
    micro_keep_frame();
}

static MICRO_SEEN void uncounted_flush(struct io_backend *b)
{
    node_of(b)->sim_ops->flush(b);
    micro_keep_frame();
}

/* It calls io_complete, which micro.py has counted again. */
static MICRO_SEEN size_t uncounted_reap(struct io_backend *b, size_t budget)
{
    const size_t count = node_of(b)->sim_ops->reap(b, budget);
    micro_keep_frame();
    return count;
}

static void take_disk(struct node *n)
{
    /* A disk that is only a disk: whole transfers, no hiccups. */
    n->ss.io_sim.options.short_one_in = 0;
    n->ss.io_sim.options.slow_one_in = 0;
    n->sim_ops = n->ss.io_fault.backend.ops;
    n->kept_ops = *n->sim_ops;
    n->kept_ops.start = uncounted_start;
    n->kept_ops.flush = uncounted_flush;
    n->kept_ops.reap = uncounted_reap;
    n->ss.io_fault.backend.ops = &n->kept_ops;
}

/* ---- time ---- */

static MICRO_SEEN bool counted_turn(struct shard *s)
{
    const bool has_run = shard_turn(s);
    micro_keep_frame();
    return has_run;
}

static void run_now(struct node *n)
{
    do {
        while (shard_next_us(n->ss.s) <= n->ss.clock.now_us ||
               io_sim_next_us(&n->ss.io_sim) <= n->ss.clock.now_us) {
            (void)counted_turn(n->ss.s);
        }
    } while (wire_take(&n->wire));
}

void node_run(struct node *n)
{
    for (;;) {
        run_now(n);
        const uint64_t next_us = io_sim_next_us(&n->ss.io_sim);
        if (next_us == UINT64_MAX) {
            return;
        }
        n->ss.clock.now_us = next_us > n->ss.clock.now_us ? next_us : n->ss.clock.now_us;
    }
}

/* Timers, too. */
static void run_until(struct node *n, const bool *is_done)
{
    while (!*is_done) {
        node_run(n);
        const uint64_t next_us = shard_next_us(n->ss.s);
        if (!*is_done && next_us > n->ss.clock.now_us) {
            assert(next_us != UINT64_MAX);
            n->ss.clock.now_us = next_us;
        }
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
    if (e != ERR_OK) {
        panic("the broker does not start: why=\"%s\"", why);
    }
    ((struct node *)context)->is_started = true;
}

static void on_stopped(void *context)
{
    ((struct node *)context)->is_stopped = true;
}

static enum err transport_new(void *context, struct shard *s, struct transport **ret_transport)
{
    (void)s;
    *ret_transport = &((struct node *)context)->wire.transport;
    return ERR_OK;
}

static void fill_settings(struct broker_settings *settings)
{
    settings_init(settings);
    settings->has_admin = false;
    settings->data_dirs[0] = "/data";
    settings->data_dirs_count = 1;
    settings->listeners_count = 1;
    (void)snprintf(settings->listeners[0].name, sizeof(settings->listeners[0].name), "MICRO");
    (void)snprintf(settings->listeners[0].bind.host, NET_HOST_SIZE, "micro");
    settings->listeners[0].bind.port = PORT;
    settings->listeners[0].advertised = settings->listeners[0].bind;
    settings->cluster.log.segment_size_max = SEGMENT_SIZE;
    settings->cluster.on_fatal = on_fatal;
}

void node_init(struct node *n)
{
    *n = (struct node){.disk = sim_disk_new()};
    sim_shard_init(&n->ss, n->disk, SEED);
    take_disk(n);
    wire_init(&n->wire);
    fill_settings(&n->settings);
    enum err e = broker_new(
        &(struct broker_options){
            .version = "micro",
            .settings = &n->settings,
            .group = n->ss.group,
            .context = n,
            .transport_new = transport_new,
        },
        &n->broker);
    assert_cmp(e, ==, ERR_OK);
    broker_start(n->broker, n, on_started);
    run_until(n, &n->is_started);
}

void node_done(struct node *n)
{
    broker_stop(n->broker, n, on_stopped);
    run_until(n, &n->is_stopped);
    broker_free(n->broker);
    wire_done(&n->wire);
    n->ss.io_fault.backend.ops = n->sim_ops;
    sim_shard_settle(&n->ss);
    sim_shard_done(&n->ss);
    disk_sim_free(n->disk);
}

/* ---- requests ---- */

struct slice node_request(const struct schema_api *api, int16_t version, const void *request)
{
    const struct request_header header = {
        .api_key = api->key,
        .api_version = version,
        .correlation_id = 1,
        .client_id = slice_of_string("micro"),
    };
    struct wbuf w;
    wbuf_init(&w, FRAME_SIZE_MAX);
    wbuf_u32(&w, 0);
    enum err e = request_header_encode(&w, &header);
    assert_cmp(e, ==, ERR_OK);
    e = api->request.encode(&w, version, request);
    assert_cmp(e, ==, ERR_OK);
    size_t size;
    uint8_t *data = wbuf_take(&w, &size);
    for (int i = 0; i < PREFIX_SIZE; i++) {
        data[i] = (uint8_t)((size - PREFIX_SIZE) >> (24 - 8 * i));
    }
    return slice_of(data, size);
}

const void *node_answer(const struct wire_conn *c,
                        const struct schema_api *api,
                        int16_t version,
                        struct arena *a)
{
    const struct slice frame = wire_answer(c);
    struct rbuf r = rbuf_over(frame.data, frame.size);
    int32_t id;
    enum err e = response_header_decode(&r, api->key, version, &id);
    assert_cmp(e, ==, ERR_OK);
    void *response = arena_alloc(a, api->response.root->size);
    assert(response != NULL);
    e = api->response.decode(&r, version, a, response);
    assert_cmp(e, ==, ERR_OK);
    return response;
}

void node_create_topic(struct node *n, struct wire_conn *c, const char *name, struct uuid *ret_id)
{
    const struct schema_api *api = schema_api_find(API_CREATE_TOPICS);
    struct create_topics_request request;
    struct create_topics_request_topic topic;
    create_topics_request_init(&request);
    create_topics_request_topic_init(&topic);
    topic.name = slice_of_string(name);
    topic.num_partitions = 1;
    topic.replication_factor = 1;
    request.topics = &topic;
    request.topics_count = 1;
    const struct slice frame = node_request(api, CREATE_VERSION, &request);
    wire_request(c, frame);
    free((void *)(uintptr_t)frame.data);
    node_run(n);
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    const struct create_topics_response *response = node_answer(c, api, CREATE_VERSION, &a);
    assert_cmp(response->topics[0].error_code, ==, 0);
    *ret_id = response->topics[0].topic_id;
    arena_done(&a);
}
