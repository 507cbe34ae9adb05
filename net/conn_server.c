/* Accepting, bounds over all connections, stopping, statistics. */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "net/conn_priv.h"

enum {
    SPILL_SHARE = 16, /* At most one sixteenth of the shard's memory, beside it. */
    SPILL_SIZE_MIN = 1 << 20,
    FIRST_SHARE = 8,
    ANNOUNCED_SHARE = 2,
};

static void log_refused(struct conn_server *cs, const char *peer, const char *reason)
{
    cs->counters.refused++;
    uint64_t held;
    if (log_limit_pass(&cs->log_refused, cs->shard->now_us, &held)) {
        log_warn(cs->shard->log,
                 "connection_refused",
                 "peer=%s reason=%s connections=%llu connections_max=%u held_back=%llu",
                 peer,
                 reason,
                 (unsigned long long)cs->counters.conns,
                 cs->limits.conns_max,
                 (unsigned long long)held);
    }
}

static void *on_accept(void *context,
                       struct stream *st,
                       const char *peer,
                       const struct stream_user_ops **ret_ops)
{
    struct conn_listener *l = context;
    struct conn_server *cs = l->server;
    if (cs->is_stopping) {
        return NULL;
    }
    if (cs->counters.conns >= cs->limits.conns_max) {
        log_refused(cs, peer, "connections_max");
        return NULL;
    }
    struct conn *c;
    if (conn_new(cs, st, peer, &c) != ERR_OK) {
        log_refused(cs, peer, "no_memory");
        return NULL;
    }
    c->listener_index = l->index;
    cs->counters.conns++;
    cs->counters.accepted++;
    conn_pressure_watch(cs);
    *ret_ops = &conn_stream_ops;
    return c;
}

static void add_stats(struct conn_server *cs, const char *labels)
{
    const struct {
        const char *name;
        const char *help;
        const uint64_t *value;
        enum stat_kind kind;
    } rows[CONN_SERVER_STATS] = {
        {"coreflume_connections", "Open connections.", &cs->counters.conns, STAT_GAUGE},
        {"coreflume_connections_accepted_total",
         "Connections accepted.",
         &cs->counters.accepted,
         STAT_COUNTER},
        {"coreflume_connections_refused_total",
         "Connections closed at accept, at the limit of connections or without memory.",
         &cs->counters.refused,
         STAT_COUNTER},
        {"coreflume_frames_refused_total",
         "Connections closed for a frame size that is not allowed.",
         &cs->counters.frames_refused,
         STAT_COUNTER},
        {"coreflume_connections_idle_closed_total",
         "Connections closed for being idle.",
         &cs->counters.idle_closed,
         STAT_COUNTER},
        {"coreflume_requests_received_total",
         "Complete frames received.",
         &cs->counters.requests,
         STAT_COUNTER},
        {"coreflume_receive_bytes_total",
         "Bytes received.",
         &cs->counters.receive_bytes,
         STAT_COUNTER},
        {"coreflume_send_bytes_total",
         "Bytes of answers handed to the peer.",
         &cs->counters.send_bytes,
         STAT_COUNTER},
        {"coreflume_connections_paused_total",
         "Times reading stopped for back-pressure.",
         &cs->counters.blocked,
         STAT_COUNTER},
        {"coreflume_connections_memory_closed_total",
         "Connections closed for lack of memory for received bytes.",
         &cs->counters.spill_refused,
         STAT_COUNTER},
        {"coreflume_connections_stale_closed_total",
         "Connections closed for holding memory others waited for: half frames, untaken answers.",
         &cs->counters.stale_closed,
         STAT_COUNTER},
    };
    for (size_t i = 0; i < CONN_SERVER_STATS; i++) {
        cs->stats[i] = (struct stat){.kind = rows[i].kind,
                                     .name = rows[i].name,
                                     .labels = labels == NULL ? "" : labels,
                                     .help = rows[i].help,
                                     .value = rows[i].value};
        stats_add(&cs->shard->stats, &cs->stats[i]);
    }
}

static void fit_limits(struct conn_server *cs)
{
    struct conn_limits *l = &cs->limits;
    struct buf_pool_stats pool;
    buf_pool_stats(cs->shard->bufs, &pool);

    /* A buf above this could meet the reserve whatever else is free: it would wait for ever. */
    size_t frame_size_max = pool.size_max / 2;
    if (l->frame_size_max > frame_size_max) {
        log_warn(cs->shard->log,
                 "frame_size_max_lowered",
                 "configured=%u used=%zu hint=\"raise --memory\"",
                 l->frame_size_max,
                 frame_size_max);
        l->frame_size_max = (uint32_t)frame_size_max;
    }
    if (l->frame_size_max > INT32_MAX) {
        l->frame_size_max = INT32_MAX;
    }
    if (l->answers_size_max == 0) {
        l->answers_size_max = CONN_ANSWERS_SIZE_DEFAULT;
    }
    if (l->patience_us == 0) {
        l->patience_us = CONN_PATIENCE_US_DEFAULT;
    }
    if (l->stop_timeout_us == 0) {
        l->stop_timeout_us = CONN_STOP_TIMEOUT_US_DEFAULT;
    }
    cs->spill_size_max = pool.size_max / SPILL_SHARE;
    if (cs->spill_size_max < SPILL_SIZE_MIN) {
        cs->spill_size_max = SPILL_SIZE_MIN;
    }
    cs->first_size_max = pool.size_max / FIRST_SHARE;
    cs->announced_size_max = pool.size_max / ANNOUNCED_SHARE;
}

static void run_stop_task(struct task *t)
{
    struct conn_server *cs = container_of(t, struct conn_server, stop_task);
    cs->on_stopped(cs->stop_context); /* May free cs. */
}

static void on_stop_timeout(struct timer *t)
{
    struct conn_server *cs = container_of(t, struct conn_server, stop_timer);
    log_warn(cs->shard->log,
             "connections_cut",
             "connections=%llu stop_timeout_us=%llu",
             (unsigned long long)cs->counters.conns,
             (unsigned long long)cs->limits.stop_timeout_us);
    list_for_each (node, &cs->conns) {
        conn_close(container_of(node, struct conn, link));
    }
}

enum err conn_server_new(const struct conn_server_options *o, struct conn_server **ret_server)
{
    assert(o->limits.requests_max > 0);
    assert(o->limits.frame_size_max > 0);
    struct conn_server *cs = calloc(1, sizeof(*cs));
    if (cs == NULL) {
        return ERR_BUSY;
    }
    cs->shard = o->shard;
    cs->transport = o->transport;
    cs->limits = o->limits;
    cs->handler = o->handler;
    list_init(&cs->listeners);
    list_init(&cs->conns);
    list_init(&cs->spare_requests);
    list_init(&cs->announce_waiters);
    task_init(&cs->stop_task, "conn_server_stop", run_stop_task);
    timer_init(&cs->stop_timer, on_stop_timeout);
    conn_pressure_init(cs);
    fit_limits(cs);
    add_stats(cs, o->stats_labels);
    *ret_server = cs;
    return ERR_OK;
}

enum err conn_server_listen(struct conn_server *cs,
                            const struct net_address *address,
                            uint32_t index,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE])
{
    struct conn_listener *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        (void)strncpy(why, "no memory for a listener", NET_WHY_SIZE);
        return ERR_BUSY;
    }
    l->server = cs;
    l->index = index;
    list_init(&l->link);
    struct listen_options o = {.address = *address, .context = l, .on_accept = on_accept};
    enum err e = cs->transport->ops->listen(cs->transport, &o, ret_port, why);
    if (e != ERR_OK) {
        free(l);
        return e;
    }
    list_push_back(&cs->listeners, &l->link);
    return ERR_OK;
}

void conn_server_on_gone(struct conn_server *cs)
{
    assert_cmp(cs->counters.conns, >, 0);
    cs->counters.conns--;
    if (cs->is_stopping && cs->counters.conns == 0) {
        timer_cancel(&cs->shard->timers, &cs->stop_timer);
        shard_post(cs->shard, &cs->stop_task);
    }
}

void conn_server_set_conns_max(struct conn_server *cs, uint32_t conns_max)
{
    cs->limits.conns_max = conns_max;
}

void conn_server_stop(struct conn_server *cs, void *context, void (*on_stopped)(void *context))
{
    assert(!cs->is_stopping);
    cs->is_stopping = true;
    cs->stop_context = context;
    cs->on_stopped = on_stopped;
    list_for_each (node, &cs->listeners) {
        cs->transport->ops->stop_listening(cs->transport,
                                           container_of(node, struct conn_listener, link));
    }
    if (cs->counters.conns == 0) {
        shard_post(cs->shard, &cs->stop_task);
        return;
    }
    shard_timer_arm(cs->shard, &cs->stop_timer, cs->limits.stop_timeout_us);
    list_for_each (node, &cs->conns) {
        struct conn *c = container_of(node, struct conn, link);
        conn_end(c);
        conn_drop_waiting(c);
    }
}

void conn_server_free(struct conn_server *cs)
{
    if (cs == NULL) {
        return;
    }
    assert(list_is_empty(&cs->conns));
    timer_cancel(&cs->shard->timers, &cs->stop_timer);
    conn_pressure_done(cs);
    list_remove(&cs->stop_task.link);
    for (size_t i = 0; i < CONN_SERVER_STATS; i++) {
        stats_remove(&cs->stats[i]);
    }
    struct list *node;
    while ((node = list_pop_front(&cs->listeners)) != NULL) {
        free(container_of(node, struct conn_listener, link));
    }
    while ((node = list_pop_front(&cs->spare_requests)) != NULL) {
        free(container_of(node, struct conn_request, link));
    }
    free(cs);
}

uint32_t conn_server_count(const struct conn_server *cs)
{
    return (uint32_t)cs->counters.conns;
}
