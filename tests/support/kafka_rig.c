#include "tests/support/kafka_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "groups/groups.h"
#include "kafka/fetch_sessions.h"
#include "kafka/proto/header.h"
#include "kafka/request.h"

void kafka_rig_init(struct kafka_rig *g)
{
    *g = (struct kafka_rig){0};
    test_shard_init(&g->ts, RIG_MEMORY_SIZE);
    g->ft = fake_transport_new();
    fake_cluster_init(&g->cluster);
    g->advertised = (struct net_address){.host = "broker.example", .port = 1234};
    g->settings = (struct dispatch_settings){
        .advertised = &g->advertised,
        .advertised_count = 1,
        .is_auto_create = true,
        .is_delete_enabled = true,
        .fetch_size_max = 1 << 20,
        .fetch_sessions_max = 2,
        .fetch_session_eviction_us = UINT64_C(1000) * FETCH_SESSION_EVICTION_MS,
    };
    groups_settings_init(&g->groups_settings);
    enum err e = groups_set_new(&g->groups_settings, 1, &g->groups);
    cr_assert(eq(int, e, ERR_OK));
    groups_start(groups_set_get(g->groups, 0), &g->ts.shard, &g->cluster);
    e = dispatch_new(
        &(struct dispatch_options){
            .s = &g->ts.shard,
            .cluster = &g->cluster,
            .groups = groups_set_get(g->groups, 0),
            .settings = &g->settings,
        },
        &g->dispatch);
    cr_assert(eq(int, e, ERR_OK));
    e = conn_server_new(
        &(struct conn_server_options){
            .shard = &g->ts.shard,
            .transport = fake_transport_of(g->ft),
            .limits = {.frame_size_max = 1 << 20, .requests_max = 16, .conns_max = 4},
            .handler = dispatch_conn_handler(g->dispatch),
        },
        &g->server);
    cr_assert(eq(int, e, ERR_OK));
    char why[NET_WHY_SIZE];
    const struct net_address address = {.host = "127.0.0.1", .port = RIG_PORT};
    e = conn_server_listen(g->server, &address, 0, &g->port, why);
    cr_assert(eq(int, e, ERR_OK));
    g->peer = fake_transport_dial(g->ft, g->port, "client:1");
    arena_init(&g->arena, 4 << 20);
    kafka_rig_run(g);
}

void kafka_rig_run(struct kafka_rig *g)
{
    do {
        test_shard_run(&g->ts);
    } while (fake_transport_run(g->ft) > 0);
}

void kafka_rig_advance(struct kafka_rig *g, uint64_t us)
{
    test_shard_advance(&g->ts, us);
    kafka_rig_run(g);
}

static void note_stopped(void *context)
{
    *(bool *)context = true;
}

void kafka_rig_done(struct kafka_rig *g)
{
    bool is_stopped = false;
    dispatch_stop(g->dispatch);
    groups_quiesce(groups_set_get(g->groups, 0));
    kafka_rig_run(g);
    while (g->cluster.cancels_count > 0) {
        fake_cluster_end_cancel(&g->cluster);
        kafka_rig_run(g);
    }
    while (g->cluster.follows_count > 0) {
        fake_cluster_end_follow(&g->cluster);
        kafka_rig_run(g);
    }
    conn_server_stop(g->server, &is_stopped, note_stopped);
    kafka_rig_run(g);
    cr_assert(is_stopped);
    conn_server_free(g->server);
    dispatch_free(g->dispatch);
    groups_stop(groups_set_get(g->groups, 0));
    groups_set_free(g->groups); /* Asserts that no request is left. */
    fake_cluster_done(&g->cluster);
    cr_assert(eq(sz, fake_transport_streams_count(g->ft), 0));
    fake_peer_free(g->peer);
    fake_transport_of(g->ft)->ops->destroy(fake_transport_of(g->ft));
    cr_assert(eq(sz, kafka_rig_memory(g), 0));
    arena_done(&g->arena);
    test_shard_done(&g->ts);
}

void kafka_rig_send_frame(struct kafka_rig *g, struct slice frame)
{
    uint8_t prefix[4] = {
        (uint8_t)(frame.size >> 24),
        (uint8_t)(frame.size >> 16),
        (uint8_t)(frame.size >> 8),
        (uint8_t)frame.size,
    };
    fake_peer_send(g->peer, prefix, sizeof(prefix));
    fake_peer_send(g->peer, frame.data, frame.size);
    kafka_rig_run(g);
}

void kafka_rig_redial(struct kafka_rig *g)
{
    if (!fake_peer_is_closed(g->peer)) {
        return;
    }
    fake_peer_free(g->peer);
    g->peer = fake_transport_dial(g->ft, g->port, "client:1");
    g->read_pos = 0;
    kafka_rig_run(g);
}

void kafka_rig_limit_requests(struct kafka_rig *g, size_t size)
{
    cr_assert(eq(u32, g->dispatch->busy_count, 0));
    for (struct list *n = g->dispatch->idle.next; n != &g->dispatch->idle; n = n->next) {
        container_of(n, struct request, link)->arena.size_max = size;
    }
}

void kafka_rig_send(struct kafka_rig *g,
                    const struct schema_api *api,
                    int16_t version,
                    const void *request)
{
    struct wbuf w;
    wbuf_init(&w, 4 << 20);
    const size_t prefix_pos = wbuf_reserve(&w, 4);
    const struct request_header header = {
        .api_key = api->key,
        .api_version = version,
        .correlation_id = ++g->correlation_id,
        .client_id = slice_of_string("unit"),
    };
    enum err e = request_header_encode(&w, &header);
    cr_assert(eq(int, e, ERR_OK));
    e = api->request.encode(&w, version, request);
    cr_assert(eq(int, e, ERR_OK), "%s v%d cannot be encoded", api->name, version);
    wbuf_patch_i32(&w, prefix_pos, (int32_t)(w.size - 4));
    fake_peer_send(g->peer, w.data, w.size);
    wbuf_done(&w);
    kafka_rig_run(g);
}

const void *kafka_rig_answer(struct kafka_rig *g, const struct schema_api *api, int16_t version)
{
    kafka_rig_run(g);
    const struct slice received = fake_peer_received(g->peer);
    if (received.size == g->read_pos) {
        return NULL;
    }
    struct rbuf r = rbuf_over(received.data + g->read_pos, received.size - g->read_pos);
    const uint32_t size = rbuf_u32(&r);
    cr_assert(ge(sz, rbuf_left(&r), size), "half an answer");
    struct rbuf frame = rbuf_over(r.cursor, size);
    g->read_pos += 4 + size;
    int32_t correlation_id = 0;
    enum err e = response_header_decode(&frame, api->key, version, &correlation_id);
    cr_assert(eq(int, e, ERR_OK));
    void *response = arena_alloc(&g->arena, api->response.root->size);
    e = api->response.decode(&frame, version, &g->arena, response);
    cr_assert(eq(int, e, ERR_OK), "the answer of %s v%d: %s", api->name, version, err_name(e));
    cr_assert(eq(int, rbuf_finish(&frame), ERR_OK));
    return response;
}

size_t kafka_rig_memory(const struct kafka_rig *g)
{
    struct buf_pool_stats stats;
    buf_pool_stats(g->ts.shard.bufs, &stats);
    return stats.used_size;
}
