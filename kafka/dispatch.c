#include "kafka/dispatch.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "core/shard.h"
#include "kafka/dispatch_priv.h"
#include "kafka/fetch_sessions.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/header.h"
#include "kafka/request.h"

enum {
    REQUESTS_IDLE_MAX = 64,
    HEADER_FIXED_SIZE = 8, /* Key, version, correlation id. */
    LABELS_SIZE = 40,
    FETCH_MEMORY_SHARE = 8, /* One answer takes at most this part of a shard's memory. */
    DEFER_RETRY_US = 5 * 1000,
    DEFER_TURN_MAX = 64,     /* Deferred requests that are begun in one turn. */
    DEFER_SHARE = 16,        /* What is kept for those that run. */
    ARENAS_MEMORY_SHARE = 4, /* All requests' arenas: as much as this part, beside the pool. */
};

struct api_stats {
    uint64_t requests;
    struct histogram latency;
    char labels[LABELS_SIZE];
    struct stat requests_stat;
    struct stat latency_stat;
};

static bool is_served(const struct api *api, int16_t version)
{
    if (api->key == API_API_VERSIONS) {
        return true;
    }
    return version >= api->served_min && version <= api->max;
}

static enum conn_class classify(void *context, struct slice frame)
{
    (void)context;
    if (frame.size < HEADER_FIXED_SIZE) {
        return CONN_REFUSE;
    }
    struct rbuf in = rbuf_over(frame.data, frame.size);
    const struct api *api = api_find(rbuf_i16(&in));
    if (api == NULL || !is_served(api, rbuf_i16(&in))) {
        return CONN_REFUSE;
    }
    return api->class;
}

static struct request *request_new(struct dispatch *d)
{
    struct list *node = list_pop_front(&d->idle);
    if (node != NULL) {
        d->idle_count--;
        return container_of(node, struct request, link);
    }
    struct request *r = calloc(1, sizeof(*r));
    if (r != NULL) {
        list_init(&r->link);
        arena_init_shared(&r->arena, REQUEST_ARENA_SIZE_MAX, &d->arenas);
    }
    return r;
}

static void request_free(struct request *r)
{
    arena_done(&r->arena);
    free(r);
}

/* Their first blocks count, too. */
static void drop_idle(struct dispatch *d)
{
    struct list *node = NULL;
    while ((node = list_pop_front(&d->idle)) != NULL) {
        request_free(container_of(node, struct request, link));
    }
    d->idle_count = 0;
}

/* Everything but memory starts afresh. */
static void request_start(struct request *r, struct dispatch *d, struct conn_request *cr)
{
    *r = (struct request){
        .d = d,
        .arena = r->arena,
        .conn_request = cr,
        .conn = cr->conn,
        .frame_buf = cr->frame_buf,
        .holds_count = 1,
        .received_us = cr->received_us,
    };
    list_init(&r->link);
    list_init(&r->parked_link);
    buf_ref(r->frame_buf);
    d->busy_count++;
}

void dispatch_recycle(struct request *r)
{
    struct dispatch *d = r->d;
    assert_cmp(d->busy_count, >, 0);
    d->busy_count--;
    buf_unref(r->frame_buf);
    r->frame_buf = NULL;
    if (d->idle_count == REQUESTS_IDLE_MAX) {
        request_free(r);
        return;
    }
    arena_reset(&r->arena);
    list_push_front(&d->idle, &r->link);
    d->idle_count++;
}

void dispatch_count_answer(struct request *r)
{
    struct dispatch *d = r->d;
    struct api_stats *stats = &d->stats[r->api - API_TABLE];
    stats->requests++;
    histogram_record(&stats->latency, d->s->now_us - r->received_us);
}

/* Reads header and body; NULL in r->in stands for a version of ApiVersions that is not known, whose
 * body must not be read and whose answer has version 0 (KIP-511). */
static enum err decode(struct request *r, struct slice frame)
{
    struct rbuf in = rbuf_over(frame.data, frame.size);
    struct request_header header;
    enum err e = request_header_decode(&in, &header);
    if (e != ERR_OK) {
        return e;
    }
    r->client_id = header.client_id;
    r->correlation_id = header.correlation_id;
    r->version = header.api_version;
    if (r->version < r->api->served_min || r->version > r->api->max) {
        r->version = 0;
        return ERR_OK;
    }
    const struct schema_message *message = &r->api->schema->request;
    void *body = arena_alloc(&r->arena, message->root->size);
    if (body == NULL) {
        return ERR_TOO_LARGE;
    }
    e = message->decode(&in, r->version, &r->arena, body);
    if (e == ERR_OK) {
        r->in = body;
    }
    return e;
}

/* Decodes and handles it. False, and nothing happened: there is no memory now, and others, which
 * have it, will give it back. */
static bool begin(struct request *r)
{
    struct dispatch *d = r->d;
    const bool are_others = !d->is_stopping && d->busy_count > d->deferred_count + 1;
    const struct arena_budget *all = &d->arenas;
    if (all->size > all->size_max / 2) {
        drop_idle(d);
    }
    if (are_others && all->size > all->size_max - all->size_max / DEFER_SHARE) {
        return false;
    }
    const enum err e = decode(r, r->conn_request->frame);
    if (e == ERR_OK) {
        r->api->handle(r);
        return true;
    }
    if (are_others && r->arena.is_over_budget) {
        arena_reset(&r->arena);
        r->in = NULL;
        return false;
    }
    request_abort(r, err_name(e));
    return true;
}

static void defer(struct request *r)
{
    struct dispatch *d = r->d;
    list_push_back(&d->deferred, &r->link);
    d->deferred_count++;
    if (!timer_is_armed(&d->defer_timer)) {
        shard_timer_arm(d->s, &d->defer_timer, DEFER_RETRY_US);
    }
}

static void run_deferred(struct dispatch *d, uint32_t count_max)
{
    for (; count_max > 0 && !list_is_empty(&d->deferred); count_max--) {
        struct request *r = container_of(list_pop_front(&d->deferred), struct request, link);
        d->deferred_count--;
        if (!begin(r)) {
            list_push_front(&d->deferred, &r->link);
            d->deferred_count++;
            break;
        }
        request_release(r);
    }
    if (!list_is_empty(&d->deferred)) {
        shard_timer_arm(d->s, &d->defer_timer, DEFER_RETRY_US);
    }
}

static void on_defer_timer(struct timer *t)
{
    run_deferred(container_of(t, struct dispatch, defer_timer), DEFER_TURN_MAX);
}

static void on_request(void *context, struct conn_request *cr)
{
    struct dispatch *d = context;
    struct request *r = request_new(d);
    if (r == NULL) {
        conn_abort(cr);
        return;
    }
    request_start(r, d, cr);

    struct rbuf key = rbuf_over(cr->frame.data, cr->frame.size);
    r->api = api_find(rbuf_i16(&key));
    assert(r->api != NULL); /* classify saw the same bytes. */

    /* In the order in which they came, whatever they are. */
    if (!list_is_empty(&d->deferred) || !begin(r)) {
        defer(r);
    } else {
        request_release(r);
    }
}

/* Nobody waits any more, or nobody could ask again: a parked request ends with what there is. */
static void end_wait(void *context, struct conn *c)
{
    (void)context;
    struct request *r = conn_state(c);
    if (r != NULL) {
        r->unpark(r);
    }
}

static void on_behind(void *context, struct conn *c)
{
    (void)context;
    struct request *r = conn_state(c);
    if (r != NULL && r->on_behind != NULL) {
        r->on_behind(r);
    }
}

static void add_stats(struct dispatch *d)
{
    for (size_t i = 0; i < API_COUNT; i++) {
        struct api_stats *stats = &d->stats[i];
        (void)snprintf(
            stats->labels, sizeof(stats->labels), "api=\"%s\"", API_TABLE[i].schema->name);
        stats->requests_stat = (struct stat){
            .kind = STAT_COUNTER,
            .name = "coreflume_kafka_requests_total",
            .labels = stats->labels,
            .help = "Requests answered or refused.",
            .value = &stats->requests,
        };
        stats->latency_stat = (struct stat){
            .kind = STAT_HISTOGRAM,
            .name = "coreflume_kafka_request_latency_seconds",
            .labels = stats->labels,
            .help = "From the last byte of a request to its answer.",
            .value = &stats->latency,
        };
        stats_add(&d->s->stats, &stats->requests_stat);
        stats_add(&d->s->stats, &stats->latency_stat);
    }
}

static void set_limits(struct dispatch *d)
{
    struct buf_pool_stats stats;
    buf_pool_stats(d->s->bufs, &stats);
    /* A single slow reader must not hold all memory. */
    const size_t share = stats.size_max / FETCH_MEMORY_SHARE;
    d->fetch_size_max = d->settings->fetch_size_max < share ? d->settings->fetch_size_max : share;
    d->arenas.size_max = stats.size_max / ARENAS_MEMORY_SHARE;
}

enum err dispatch_new(const struct dispatch_options *o, struct dispatch **ret_dispatch)
{
    struct dispatch *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return ERR_BUSY;
    }
    d->stats = calloc(API_COUNT, sizeof(*d->stats));
    d->fetch_sessions = fetch_sessions_new(&(struct fetch_sessions_options){
        .shard_id = o->s->id,
        .sessions_max = o->settings->fetch_sessions_max,
        .eviction_us = o->settings->fetch_session_eviction_us,
        .hash_seed = o->s->hash_seed,
        .rand = &o->s->rand,
    });
    if (d->stats == NULL || d->fetch_sessions == NULL) {
        fetch_sessions_free(d->fetch_sessions);
        free(d->stats);
        free(d);
        return ERR_BUSY;
    }
    d->s = o->s;
    d->cluster = o->cluster;
    d->groups = o->groups;
    d->settings = o->settings;
    set_limits(d);
    list_init(&d->parked);
    list_init(&d->deferred);
    list_init(&d->idle);
    timer_init(&d->defer_timer, on_defer_timer);
    add_stats(d);
    *ret_dispatch = d;
    return ERR_OK;
}

struct conn_handler dispatch_conn_handler(struct dispatch *d)
{
    return (struct conn_handler){
        .context = d,
        .classify = classify,
        .on_request = on_request,
        .on_behind = on_behind,
        .on_eof = end_wait,
        .on_closed = end_wait,
    };
}

void dispatch_stop(struct dispatch *d)
{
    d->is_stopping = true;
    timer_cancel(&d->s->timers, &d->defer_timer);
    run_deferred(d, UINT32_MAX); /* None is deferred any more. */
    /* Ending a wait takes the request off the list. */
    while (!list_is_empty(&d->parked)) {
        struct request *r = container_of(d->parked.next, struct request, parked_link);
        r->unpark(r);
        assert(d->parked.next != &r->parked_link);
    }
}

void dispatch_free(struct dispatch *d)
{
    if (d == NULL) {
        return;
    }
    assert_cmp(d->busy_count, ==, 0);
    for (size_t i = 0; i < API_COUNT; i++) {
        stats_remove(&d->stats[i].requests_stat);
        stats_remove(&d->stats[i].latency_stat);
    }
    drop_idle(d);
    fetch_sessions_free(d->fetch_sessions);
    free(d->stats);
    free(d);
}
