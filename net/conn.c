/* One connection: which requests run, how answers leave, how it ends.
 *
 * Everything happens in conn_pump, which the loop calls: from the stream's callbacks, or by the
 * connection's task after a handler ended a request. So a handler is never called inside a call of
 * its own, and what was answered in one turn leaves together.
 */
#include "net/conn.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "net/conn_priv.h"

static_assert(sizeof(struct conn) <= 1024, "an idle connection is small: net rule 4");

static void try_free(struct conn *c);

static bool is_discarding(const struct conn *c)
{
    return c->state >= CONN_ABORTING;
}

/* --- requests --------------------------------------------------------------------------------- */

struct conn_request *conn_request_new(struct conn *c)
{
    struct conn_server *cs = c->server;
    struct conn_request *r;
    struct list *spare = list_pop_front(&cs->spare_requests);
    if (spare != NULL) {
        cs->spare_requests_count--;
        r = container_of(spare, struct conn_request, link);
    } else {
        r = malloc(sizeof(*r));
        if (r == NULL) {
            return NULL;
        }
    }
    memset(r, 0, offsetof(struct conn_request, iov));
    list_init(&r->link);
    r->conn = c;
    c->requests_count++;
    return r;
}

static void answer_free(struct conn_request *r)
{
    for (uint32_t i = 0; i < r->iov_count; i++) {
        buf_unref(r->answer_bufs[i]);
    }
    r->iov_count = 0;
    while (r->releases != NULL) {
        struct conn_release *rel = r->releases;
        r->releases = rel->next;
        rel->run(rel);
    }
    free(r->answer_memory);
    r->answer_memory = NULL;
    r->conn->answers_size -= r->answer_size;
    r->answer_size = 0;
}

void conn_request_drop_frame(struct conn_request *r)
{
    struct conn *c = r->conn;
    if (r->frame_buf == NULL) {
        return;
    }
    c->frames_size -= r->frame_buf->capacity;
    buf_unref(r->frame_buf);
    r->frame_buf = NULL;
    r->frame = (struct slice){0};
    if (c->is_blocked) {
        shard_post(c->server->shard, &c->task);
    }
}

void conn_request_free(struct conn_request *r)
{
    struct conn *c = r->conn;
    struct conn_server *cs = c->server;
    list_remove(&r->link);
    conn_request_drop_frame(r);
    answer_free(r);
    c->requests_count--;
    if (cs->spare_requests_count < CONN_SPARE_REQUESTS_MAX) {
        cs->spare_requests_count++;
        list_push_front(&cs->spare_requests, &r->link);
    } else {
        free(r);
    }
}

static struct conn_request *first_of(const struct list *l)
{
    return list_is_empty(l) ? NULL : container_of(l->next, struct conn_request, link);
}

/* --- starting --------------------------------------------------------------------------------- */

static bool can_start(const struct conn *c)
{
    if (c->state > CONN_ENDING || c->is_abort_pending || list_is_empty(&c->waiting)) {
        return false;
    }
    if (c->answers_size > c->server->limits.answers_size_max) {
        return false;
    }
    bool may_overlap = first_of(&c->waiting)->class == CONN_OVERLAP && !c->is_barrier_running;
    return c->unanswered_count == 0 || may_overlap;
}

static bool start_ready(struct conn *c)
{
    const struct conn_handler *h = &c->server->handler;
    bool any = false;
    while (can_start(c)) {
        struct conn_request *r = first_of(&c->waiting);
        list_remove(&r->link);
        list_push_back(&c->running, &r->link);
        r->is_started = true;
        c->unanswered_count++;
        c->is_barrier_running = r->class == CONN_BARRIER;
        c->is_behind_told = false;
        any = true;
        h->on_request(h->context, r); /* May end r. */
    }
    return any;
}

static void tell_behind(struct conn *c)
{
    const struct conn_handler *h = &c->server->handler;
    if (h->on_behind != NULL && c->is_barrier_running && !c->is_behind_told &&
        !list_is_empty(&c->waiting)) {
        c->is_behind_told = true;
        h->on_behind(h->context, c);
    }
}

/* --- answering -------------------------------------------------------------------------------- */

/* Common to all ways to end a request. False if the connection has no use for the answer. */
static bool end_request(struct conn_request *r)
{
    struct conn *c = r->conn;
    assert(r->is_started);
    assert(!r->is_answered);
    assert_cmp(c->unanswered_count, >, 0);

    c->unanswered_count--;
    c->is_barrier_running = false; /* Nothing runs beside a barrier: it was r, or there is none. */
    if (!c->is_pumping) {
        shard_post(c->server->shard, &c->task);
    }
    r->is_answered = true;
    return !is_discarding(c);
}

static void add_iov(struct conn_request *r, const void *data, size_t size, struct buf *b)
{
    assert_cmp(r->iov_count, <, CONN_ANSWER_IOV_MAX);
    r->iov[r->iov_count] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    r->answer_bufs[r->iov_count] = b;
    r->iov_count++;
    r->answer_size += size;
}

static void write_prefix(struct conn_request *r)
{
    uint64_t size = r->answer_size - CONN_PREFIX_SIZE;
    assert_cmp(size, <=, INT32_MAX);
    r->prefix[0] = (uint8_t)(size >> 24);
    r->prefix[1] = (uint8_t)(size >> 16);
    r->prefix[2] = (uint8_t)(size >> 8);
    r->prefix[3] = (uint8_t)size;
    r->conn->answers_size += r->answer_size;
}

void conn_answer(struct conn_request *r, uint8_t *data, size_t size)
{
    struct conn_piece piece = {.bytes = slice_of(data, size)};
    conn_answer_pieces(r, data, &piece, 1);
}

void conn_answer_pieces(struct conn_request *r,
                        void *memory,
                        const struct conn_piece *pieces,
                        uint32_t pieces_count)
{
    assert_cmp(pieces_count, <, CONN_ANSWER_IOV_MAX);
    bool is_wanted = end_request(r);

    r->answer_memory = memory;
    add_iov(r, r->prefix, CONN_PREFIX_SIZE, NULL);
    for (uint32_t i = 0; i < pieces_count; i++) {
        if (pieces[i].bytes.size == 0) {
            buf_unref(pieces[i].buf);
            continue;
        }
        add_iov(r, pieces[i].bytes.data, pieces[i].bytes.size, pieces[i].buf);
    }
    write_prefix(r);
    if (!is_wanted) {
        conn_request_free(r);
    }
}

void conn_request_on_release(struct conn_request *r, struct conn_release *rel)
{
    rel->next = r->releases;
    r->releases = rel;
}

void conn_answer_nothing(struct conn_request *r)
{
    r->is_silent = true;
    if (!end_request(r)) {
        conn_request_free(r);
    }
}

void conn_abort(struct conn_request *r)
{
    r->is_abort = true;
    r->conn->is_abort_pending = true;
    if (!end_request(r)) {
        conn_request_free(r);
    }
}

/* What a sent answer leaves room for, or was waited for by: nothing, on most connections. */
static bool is_held_up(const struct conn *c)
{
    return c->state != CONN_OPEN || c->is_eof || c->is_blocked || !list_is_empty(&c->waiting);
}

static void on_released(struct stream_send *send)
{
    struct conn_request *r = container_of(send, struct conn_request, send);
    struct conn *c = r->conn;
    c->active_us = c->server->shard->now_us;
    c->sending_us = c->active_us;
    c->server->counters.send_bytes += r->answer_size;
    conn_request_free(r);
    if (is_held_up(c)) {
        shard_post(c->server->shard, &c->task);
    }
}

/* Drops what nobody will be answered any more. */
static void drop_answered(struct conn *c)
{
    list_for_each_safe (node, &c->running) {
        struct conn_request *r = container_of(node, struct conn_request, link);
        if (r->is_answered) {
            conn_request_free(r);
        }
    }
}

void conn_drop_waiting(struct conn *c)
{
    struct conn_request *r;
    while ((r = first_of(&c->waiting)) != NULL) {
        conn_request_free(r);
    }
}

static void abort_rest(struct conn *c)
{
    c->state = CONN_ABORTING;
    conn_receive_stop(c);
    conn_drop_waiting(c);
    drop_answered(c);
}

/* Hands the answers at the head of the order to the transport. */
static bool send_answered(struct conn *c)
{
    bool any = false;
    struct conn_request *r;
    while (!is_discarding(c) && (r = first_of(&c->running)) != NULL && r->is_answered) {
        any = true;
        if (r->is_abort) {
            abort_rest(c);
        } else if (r->is_silent) {
            conn_request_free(r);
        } else {
            list_remove(&r->link);
            if (list_is_empty(&c->sending)) {
                c->sending_us = c->server->shard->now_us;
            }
            list_push_back(&c->sending, &r->link);
            const struct conn_request *next = first_of(&c->running);
            bool has_more =
                next != NULL && next->is_answered && !next->is_silent && !next->is_abort;
            r->send = (struct stream_send){.iov = r->iov,
                                           .iov_count = r->iov_count,
                                           .on_released = on_released,
                                           .has_more = has_more};
            stream_send(c->stream, &r->send);
        }
    }
    return any;
}

/* --- ends ------------------------------------------------------------------------------------- */

void conn_end(struct conn *c)
{
    if (c->state == CONN_OPEN) {
        c->state = CONN_ENDING;
        conn_receive_stop(c);
        shard_post(c->server->shard, &c->task);
    }
}

void conn_close(struct conn *c)
{
    if (c->state >= CONN_CLOSING) {
        return;
    }
    c->state = CONN_CLOSING;
    timer_cancel(&c->server->shard->timers, &c->idle_timer);
    conn_receive_stop(c);
    conn_drop_waiting(c);
    drop_answered(c);
    stream_close(c->stream);
}

static void close_if_drained(struct conn *c)
{
    if (!list_is_empty(&c->sending)) {
        return;
    }
    bool is_drained = list_is_empty(&c->waiting) && list_is_empty(&c->running);
    if (c->state == CONN_ABORTING || (c->state == CONN_ENDING && is_drained)) {
        conn_close(c);
    }
}

void conn_pump(struct conn *c)
{
    if (c->is_pumping) {
        return;
    }
    c->is_pumping = true;
    bool any;
    do {
        any = send_answered(c);
        any |= start_ready(c);
        any |= conn_receive_retry(c);
    } while (any);
    tell_behind(c); /* What it ends is sent by the task. */
    if (c->is_eof && !c->is_blocked) {
        conn_end(c); /* All it sent is a request by now, or never will be. */
    }
    close_if_drained(c);
    c->is_pumping = false;
    try_free(c);
}

static void try_free(struct conn *c)
{
    struct conn_server *cs = c->server;
    if (c->state != CONN_CLOSED || c->requests_count > 0) {
        return;
    }
    assert(list_is_empty(&c->waiting));
    assert(list_is_empty(&c->running));
    assert(list_is_empty(&c->sending));
    assert_cmp(c->frames_size, ==, 0);
    assert_cmp(c->answers_size, ==, 0);
    assert(!c->is_blocked);
    stream_free(c->stream);
    list_remove(&c->task.link);
    list_remove(&c->link);
    free(c);
    conn_server_on_gone(cs);
}

/* --- callbacks of the stream and the loop ----------------------------------------------------- */

static void on_data(void *user, const uint8_t *data, size_t size)
{
    struct conn *c = user;
    conn_receive_data(c, data, size);
    conn_pump(c);
}

static void on_received(void *user)
{
    struct conn *c = user;
    conn_receive_done(c);
    conn_pump(c);
}

static void on_eof(void *user)
{
    struct conn *c = user;
    const struct conn_handler *h = &c->server->handler;
    conn_receive_eof(c);
    if (h->on_eof != NULL) {
        h->on_eof(h->context, c);
    }
    conn_pump(c);
}

static void on_closed(void *user, enum err reason)
{
    struct conn *c = user;
    struct conn_server *cs = c->server;
    assert(c->state != CONN_CLOSED);
    log_debug(cs->shard->log,
              "connection_closed",
              "peer=%s reason=%s unanswered=%u",
              c->peer,
              err_name(reason),
              c->unanswered_count);
    timer_cancel(&cs->shard->timers, &c->idle_timer);
    if (c->state < CONN_CLOSING) {
        c->state = CONN_CLOSING; /* The stream takes no more calls but the last one. */
        conn_receive_stop(c);
        conn_drop_waiting(c);
        drop_answered(c);
    }
    c->state = CONN_CLOSED;
    conn_receive_drop(c);
    cs->handler.on_closed(cs->handler.context, c);
    shard_post(cs->shard, &c->task);
}

const struct stream_user_ops conn_stream_ops = {
    .on_data = on_data,
    .on_received = on_received,
    .on_eof = on_eof,
    .on_closed = on_closed,
};

static void run_task(struct task *t)
{
    conn_pump(container_of(t, struct conn, task));
}

/* One timer, moved only when it fires: a busy connection pays nothing per request. */
static void on_idle(struct timer *t)
{
    struct conn *c = container_of(t, struct conn, idle_timer);
    struct conn_server *cs = c->server;
    uint64_t timeout_us = cs->limits.idle_timeout_us;
    if (c->unanswered_count > 0) {
        c->active_us = cs->shard->now_us; /* The handler is at work, the peer waits. */
    }
    uint64_t deadline_us = c->active_us + timeout_us;
    if (cs->shard->now_us < deadline_us) {
        timer_arm(&cs->shard->timers, t, deadline_us);
        return;
    }
    cs->counters.idle_closed++;
    log_debug(cs->shard->log, "connection_idle", "peer=%s action=closing", c->peer);
    conn_close(c);
}

enum err
conn_new(struct conn_server *cs, struct stream *st, const char *peer, struct conn **ret_conn)
{
    struct conn *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return ERR_BUSY;
    }
    c->server = cs;
    c->stream = st;
    (void)strncpy(c->peer, peer, sizeof(c->peer) - 1);
    list_init(&c->waiting);
    list_init(&c->running);
    list_init(&c->sending);
    list_init(&c->announce_link);
    c->waiter.on_memory = conn_receive_on_memory;
    task_init(&c->task, "conn", run_task);
    timer_init(&c->idle_timer, on_idle);
    c->active_us = cs->shard->now_us;
    if (cs->limits.idle_timeout_us > 0) {
        shard_timer_arm(cs->shard, &c->idle_timer, cs->limits.idle_timeout_us);
    }
    list_push_back(&cs->conns, &c->link);
    *ret_conn = c;
    return ERR_OK;
}

uint32_t conn_listener_index(const struct conn *c)
{
    return c->listener_index;
}

const char *conn_peer(const struct conn *c)
{
    return c->peer;
}

bool conn_is_ending(const struct conn *c)
{
    return c->is_eof || c->state != CONN_OPEN;
}

bool conn_is_half_closed(const struct conn *c)
{
    return c->is_eof && c->state == CONN_OPEN;
}

bool conn_is_behind(const struct conn *c)
{
    return c->is_behind_told;
}

void conn_set_state(struct conn *c, void *state)
{
    c->handler_state = state;
}

void *conn_state(const struct conn *c)
{
    return c->handler_state;
}

void conn_set_client(struct conn *c, uint32_t client)
{
    c->handler_client = client;
}

uint32_t conn_client(const struct conn *c)
{
    return c->handler_client;
}
