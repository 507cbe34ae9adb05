#include "client/client_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/header.h"
#include "kafka/proto/schema.h"

enum {
    OUT_SIZE_MAX = 512 << 20,
    OUT_SIZE_KEPT = 1 << 20,  /* So much sent memory, or half of all, may stand before the rest. */
    PREFIX_HTTP = 0x48545450, /* "HTTP" */
    PREFIX_TLS = 0x15,        /* First byte of a TLS alert. */
    VERSIONS_ARENA_SIZE_MAX = 1 << 20,
    READS_MAX = 16, /* Of one turn: others have answers as well. */
};

void client_call_done(struct client_call *call)
{
    free(call->frame);
    call->frame = NULL;
}

void client_conn_init(struct client_conn *conn,
                      struct client_env *env,
                      const char *client_id,
                      struct list *finished)
{
    *conn = (struct client_conn){
        .env = env,
        .client_id = client_id,
        .finished = finished,
        .fd = -1,
    };
    list_init(&conn->waiting);
    list_init(&conn->in_flight);
    wbuf_init(&conn->out, OUT_SIZE_MAX);
}

/* ---- the end of calls and of connections ---- */

static void finish(struct client_conn *conn, struct client_call *call, enum err e, const char *why)
{
    call->err = e;
    if (e != ERR_OK) {
        memcpy(call->why, why, CLIENT_WHY_SIZE);
    }
    list_remove(&call->link);
    list_push_back(conn->finished, &call->link);
}

static void finish_all(struct client_conn *conn, struct list *calls)
{
    while (!list_is_empty(calls)) {
        struct client_call *call = container_of(calls->next, struct client_call, link);
        finish(conn, call, conn->failure, conn->why);
    }
}

static void shut(struct client_conn *conn)
{
    if (conn->fd != -1) {
        (void)close(conn->fd);
    }
    conn->fd = -1;
    conn->state = CLIENT_CONN_CLOSED;
    conn->out.size = 0;
    conn->out_sent = 0;
    conn->prefix_size = 0;
    free(conn->frame);
    conn->frame = NULL;
}

/* Every failure ends here; why stands in conn->why. */
static void give_up(struct client_conn *conn, enum err e)
{
    assert(e != ERR_OK);
    conn->failure = e;
    shut(conn);
    finish_all(conn, &conn->in_flight);
    conn->in_flight_count = 0;
    finish_all(conn, &conn->waiting);
}

void client_conn_fail(struct client_conn *conn, enum err e, const char *why)
{
    give_up(conn, client_say(conn->why, e, "%s", why));
}

void client_conn_done(struct client_conn *conn)
{
    assert(list_is_empty(&conn->waiting));
    assert(list_is_empty(&conn->in_flight));
    shut(conn);
    wbuf_done(&conn->out);
}

/* ---- out ---- */

static void give_up_ended(struct client_conn *conn)
{
    const bool is_first = conn->state == CLIENT_CONN_GREETING;
    give_up(conn,
            client_say(conn->why,
                       ERR_CLOSED,
                       is_first ? "%s closed the connection at the first request: is it a Kafka "
                                  "listener without TLS?"
                                : "%s closed the connection",
                       conn->name));
}

static void give_up_broken(struct client_conn *conn, int number)
{
    char text[64];
    client_errno_text(number, text);
    if (number == ECONNRESET && conn->state == CLIENT_CONN_GREETING) {
        give_up_ended(conn);
        return;
    }
    give_up(conn,
            client_say(conn->why, ERR_CLOSED, "the connection to %s broke (%s)", conn->name, text));
}

/* Requests without an answer are over when the kernel has them. */
static void finish_sent(struct client_conn *conn)
{
    list_for_each_safe (node, &conn->in_flight) {
        struct client_call *call = container_of(node, struct client_call, link);
        if (call->has_no_answer && call->out_end <= conn->sent_size) {
            conn->in_flight_count--;
            finish(conn, call, ERR_OK, NULL);
        }
    }
}

static void flush_out(struct client_conn *conn)
{
    while (conn->out_sent < conn->out.size) {
        const ssize_t sent = send(conn->fd,
                                  conn->out.data + conn->out_sent,
                                  conn->out.size - conn->out_sent,
                                  MSG_NOSIGNAL);
        if (sent >= 0) {
            conn->out_sent += (size_t)sent;
            conn->sent_size += (uint64_t)sent;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            give_up_broken(conn, errno);
            return;
        }
    }
    struct wbuf *w = &conn->out;
    if (conn->out_sent == w->size) {
        conn->out_sent = w->size = 0;
    } else if (conn->out_sent > OUT_SIZE_KEPT && conn->out_sent > w->size / 2) {
        /* What is moved was sent before: each byte moves once at most, on the average. */
        memmove(w->data, w->data + conn->out_sent, w->size - conn->out_sent);
        w->size -= conn->out_sent;
        conn->out_sent = 0;
    }
    finish_sent(conn);
}

/* The newest version of the api that both know, not above version_max unless that is 0. */
static enum err
choose_version(struct client_conn *conn, struct client_call *call, int16_t *ret_version)
{
    const struct schema_api *api = schema_api_find(call->api_key);
    assert(api != NULL);
    assert_cmp(call->api_key, <, CLIENT_APIS_MAX);
    const struct client_versions theirs = conn->versions[call->api_key];
    if (theirs.max < theirs.min) {
        return client_say(
            call->why, ERR_UNSUPPORTED, "%s does not serve %s", conn->name, api->name);
    }
    int16_t version = api->version_stable_max;
    version = version > theirs.max ? theirs.max : version;
    version = call->version_max != 0 && version > call->version_max ? call->version_max : version;
    if (version < theirs.min || version < api->version_min) {
        return client_say(call->why,
                          ERR_UNSUPPORTED,
                          "%s serves %s in versions %d-%d, this client knows %d-%d",
                          conn->name,
                          api->name,
                          theirs.min,
                          theirs.max,
                          api->version_min,
                          api->version_stable_max);
    }
    *ret_version = version;
    return ERR_OK;
}

/* Appends the request to out. On failure out is as before. */
static enum err encode(struct client_conn *conn,
                       const struct request_header *header,
                       const void *request,
                       char why[CLIENT_WHY_SIZE])
{
    const struct schema_api *api = schema_api_find(header->api_key);
    struct wbuf *w = &conn->out;
    const size_t start = w->size;
    wbuf_i32(w, 0);
    enum err e = request_header_encode(w, header);
    if (e == ERR_OK) {
        e = api->request.encode(w, header->api_version, request);
    }
    if (e == ERR_OK && wbuf_failure(w) != ERR_OK) {
        e = wbuf_failure(w);
    }
    if (e != ERR_OK) {
        w->size = start;
        w->failure = ERR_OK;
        return e == ERR_BUSY || e == ERR_TOO_LARGE
                   ? client_say(why, ERR_BUSY, "no memory for a request")
                   : client_say(why,
                                e,
                                "%s knows no version of %s that can say this request "
                                "(version %d: %s)",
                                conn->name,
                                api->name,
                                header->api_version,
                                err_name(e));
    }
    wbuf_patch_i32(w, start, (int32_t)(w->size - start - CLIENT_PREFIX_SIZE));
    conn->taken_size += w->size - start;
    return ERR_OK;
}

/* They wrap: a connection may live long. */
static int32_t take_correlation(struct client_conn *conn)
{
    const int32_t id = conn->correlation_next;
    conn->correlation_next = id == INT32_MAX ? 0 : id + 1;
    return id;
}

/* Only for an open connection. */
static void send_call(struct client_conn *conn, struct client_call *call)
{
    enum err e = choose_version(conn, call, &call->version);
    if (e == ERR_OK) {
        if (call->fit != NULL) {
            call->fit(call->request, call->version);
        }
        const struct request_header header = {
            .api_key = call->api_key,
            .api_version = call->version,
            .correlation_id = conn->correlation_next,
            .client_id = slice_of_string(conn->client_id),
        };
        e = encode(conn, &header, call->request, call->why);
    }
    if (e != ERR_OK) {
        finish(conn, call, e, call->why);
        return;
    }
    call->correlation_id = take_correlation(conn);
    call->deadline_us = clock_now_us(conn->env->clock) + (uint64_t)call->timeout_ms * 1000;
    call->out_end = conn->taken_size;
    call->was_sent = true;
    list_remove(&call->link);
    list_push_back(&conn->in_flight, &call->link);
    conn->in_flight_count++;
}

void client_conn_post(struct client_conn *conn, struct client_call *call)
{
    list_init(&call->link);
    if (conn->state != CLIENT_CONN_OPEN) {
        list_push_back(&conn->waiting, &call->link);
        return;
    }
    send_call(conn, call);
    flush_out(conn);
}

/* ---- connecting ---- */

static enum err say_unreachable(struct client_conn *conn, enum err e, const char *reason)
{
    if (conn->advertised_id < 0) {
        return client_say(conn->why, e, "cannot reach %s (%s)", conn->name, reason);
    }
    /* Others can be reached, and told where this one is: then the address may be the trouble. */
    return client_say(conn->why,
                      e,
                      "cannot reach %s (%s), where the cluster says that node %d is: if it runs, "
                      "its advertised.listeners may be wrong for this machine",
                      conn->name,
                      reason,
                      conn->advertised_id);
}

/* The current place was no good. */
static void dial_next(struct client_conn *conn, enum err e)
{
    int number = 0;
    while (conn->place_next < conn->places.count) {
        const uint64_t now_us = clock_now_us(conn->env->clock);
        const uint64_t left_us = conn->deadline_us > now_us ? conn->deadline_us - now_us : 0;
        const size_t places_left = conn->places.count - conn->place_next;
        number = conn->env->dial(conn->env, &conn->places.places[conn->place_next++], &conn->fd);
        if (number == 0 || number == EINPROGRESS) {
            conn->state = CLIENT_CONN_CONNECTING;
            conn->place_deadline_us = now_us + left_us / places_left;
            return;
        }
        char text[64];
        client_errno_text(number, text);
        e = say_unreachable(conn, ERR_CLOSED, text);
    }
    give_up(conn, e);
}

/* The place that was dialled is given up; why stands in conn->why. */
static void leave_place(struct client_conn *conn, enum err e)
{
    (void)close(conn->fd);
    conn->fd = -1;
    dial_next(conn, e);
}

void client_conn_resolve(struct client_env *env,
                         const struct client_address *address,
                         struct client_places *ret_places)
{
    ret_places->count = 0;
    ret_places->failure = env->resolve(env, address, ret_places->places, &ret_places->count);
}

void client_conn_dial(struct client_conn *conn,
                      const struct client_address *address,
                      const struct client_places *places,
                      int32_t advertised_id,
                      uint64_t deadline_us)
{
    assert(conn->state == CLIENT_CONN_CLOSED);
    assert(list_is_empty(&conn->in_flight));
    (void)snprintf(conn->name, sizeof(conn->name), "%s:%u", address->host, address->port);
    conn->advertised_id = advertised_id;
    conn->deadline_us = deadline_us;
    conn->places = *places;
    conn->place_next = 0;
    conn->correlation_next = 0;
    conn->sent_size = conn->taken_size = 0;
    if (places->failure != NULL) {
        give_up(conn, say_unreachable(conn, ERR_CLOSED, places->failure));
        return;
    }
    dial_next(conn, ERR_CLOSED);
}

/* The greeting is no call: it is what comes before calls. */
static void send_greeting(struct client_conn *conn)
{
    struct api_versions_request request;
    api_versions_request_init(&request);
    request.client_software_name = slice_of_string("coreflume");
    request.client_software_version = slice_of_string(COREFLUME_VERSION);
    const struct request_header header = {
        .api_key = API_API_VERSIONS,
        .api_version = conn->greeting_version,
        .correlation_id = take_correlation(conn),
        .client_id = slice_of_string(conn->client_id),
    };
    conn->state = CLIENT_CONN_GREETING;
    enum err e = encode(conn, &header, &request, conn->why);
    if (e != ERR_OK) {
        give_up(conn, e);
        return;
    }
    flush_out(conn);
}

static void finish_connect(struct client_conn *conn)
{
    int number = 0;
    socklen_t size = sizeof(number);
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &number, &size) == -1) {
        number = errno;
    }
    if (number == 0) {
        conn->greeting_version = API_VERSIONS_VERSION_MAX;
        send_greeting(conn);
        return;
    }
    char text[64];
    client_errno_text(number, text);
    leave_place(conn, say_unreachable(conn, ERR_CLOSED, text));
}

static void take_versions(struct client_conn *conn, const struct api_versions_response *response)
{
    for (size_t i = 0; i < CLIENT_APIS_MAX; i++) {
        conn->versions[i] = (struct client_versions){.min = 0, .max = -1};
    }
    for (size_t i = 0; i < response->api_keys_count; i++) {
        const struct api_versions_response_api_key *k = &response->api_keys[i];
        if (k->api_key >= 0 && k->api_key < CLIENT_APIS_MAX) {
            conn->versions[k->api_key] = (struct client_versions){k->min_version, k->max_version};
        }
    }
}

static enum err say_damaged(struct client_conn *conn, int16_t api_key, int16_t version, enum err e)
{
    return client_say(conn->why,
                      ERR_CORRUPT,
                      "%s sent an answer to %s (version %d) that cannot be read (%s)",
                      conn->name,
                      schema_api_find(api_key)->name,
                      version,
                      err_name(e));
}

/* ---- in ---- */

/* A broker that does not know our version answers in version 0 with error 35 and, if it is not
 * ancient, with the versions it does know: then the greeting goes again in one of those. Versions
 * fall from round to round, so this ends: at most ours, theirs, 0. */
static enum err take_greeting(struct client_conn *conn, struct arena *arena)
{
    const int16_t version = conn->greeting_version;
    struct rbuf body = rbuf_over(conn->frame, conn->frame_size);
    int32_t correlation_id = -1;
    enum err e = response_header_decode(&body, API_API_VERSIONS, version, &correlation_id);
    if (e == ERR_OK && correlation_id != conn->correlation_next - 1) {
        e = ERR_CORRUPT;
    }
    struct rbuf peek = body;
    const bool is_refused = rbuf_i16(&peek) == KAFKA_UNSUPPORTED_VERSION;
    struct api_versions_response response;
    if (e == ERR_OK) {
        e = api_versions_response_decode(&body, is_refused ? 0 : version, arena, &response);
    }
    if (e != ERR_OK) {
        return say_damaged(conn, API_API_VERSIONS, version, e);
    }
    if (!is_refused && response.error_code != KAFKA_NONE) {
        return client_say(conn->why,
                          ERR_FAILED,
                          "%s refuses to tell its versions: %s",
                          conn->name,
                          kafka_error_name(response.error_code));
    }
    take_versions(conn, &response);
    if (!is_refused || version == 0) {
        conn->state = CLIENT_CONN_OPEN;
        return ERR_OK;
    }
    const struct client_versions own = conn->versions[API_API_VERSIONS];
    conn->greeting_version = own.max > 0 && own.max < version ? own.max : 0;
    return ERR_OK;
}

static void on_greeted(struct client_conn *conn)
{
    struct arena arena;
    arena_init(&arena, VERSIONS_ARENA_SIZE_MAX);
    enum err e = take_greeting(conn, &arena);
    arena_done(&arena);
    free(conn->frame);
    conn->frame = NULL;
    if (e != ERR_OK) {
        give_up(conn, e);
        return;
    }
    if (conn->state == CLIENT_CONN_GREETING) {
        send_greeting(conn);
        return;
    }
    while (!list_is_empty(&conn->waiting)) {
        send_call(conn, container_of(conn->waiting.next, struct client_call, link));
    }
    flush_out(conn);
}

/* The oldest call that waits for an answer. */
static struct client_call *oldest_of(struct client_conn *conn)
{
    list_for_each (node, &conn->in_flight) {
        struct client_call *call = container_of(node, struct client_call, link);
        if (!call->has_no_answer) {
            return call;
        }
    }
    return NULL;
}

/* Answers come in the order of the requests: one with another number is none of ours. */
static void on_answer(struct client_conn *conn)
{
    struct client_call *call = oldest_of(conn);
    if (call == NULL) {
        give_up(
            conn,
            client_say(
                conn->why, ERR_CORRUPT, "%s sent an answer that nobody had asked for", conn->name));
        return;
    }
    struct rbuf body = rbuf_over(conn->frame, conn->frame_size);
    int32_t correlation_id = -1;
    enum err e = response_header_decode(&body, call->api_key, call->version, &correlation_id);
    if (e == ERR_OK && correlation_id != call->correlation_id) {
        e = ERR_CORRUPT;
    }
    if (e == ERR_OK) {
        const struct schema_api *api = schema_api_find(call->api_key);
        e = api->response.decode(&body, call->version, call->arena, call->response);
    }
    if (e != ERR_OK) {
        give_up(conn, say_damaged(conn, call->api_key, call->version, e));
        return;
    }
    call->frame = conn->frame;
    call->frame_size = conn->frame_size;
    conn->frame = NULL;
    conn->in_flight_count--;
    finish(conn, call, ERR_OK, NULL);
}

/* The frame's size is the first thing a stranger says: say who it might be. */
static enum err begin_frame(struct client_conn *conn)
{
    struct rbuf r = rbuf_over(conn->prefix, sizeof(conn->prefix));
    const uint32_t size = rbuf_u32(&r);
    if (size == PREFIX_HTTP) {
        return client_say(conn->why,
                          ERR_CORRUPT,
                          "%s is an HTTP server, not a Kafka listener: check the port",
                          conn->name);
    }
    if (size >> 24 == PREFIX_TLS) {
        return client_say(conn->why,
                          ERR_CORRUPT,
                          "%s speaks TLS, this client does not: use a plaintext listener",
                          conn->name);
    }
    if (size < CLIENT_PREFIX_SIZE || size > CLIENT_FRAME_SIZE_MAX) {
        return client_say(conn->why,
                          ERR_CORRUPT,
                          "%s sent a frame of %u bytes: is it a Kafka listener?",
                          conn->name,
                          size);
    }
    conn->frame = malloc(size);
    if (conn->frame == NULL) {
        return client_say(conn->why, ERR_BUSY, "no memory for an answer of %u bytes", size);
    }
    conn->frame_size = size;
    conn->frame_got = 0;
    return ERR_OK;
}

static void on_bytes(struct client_conn *conn, size_t size)
{
    if (conn->frame == NULL) {
        conn->prefix_size += size;
        if (conn->prefix_size < sizeof(conn->prefix)) {
            return;
        }
        conn->prefix_size = 0;
        enum err e = begin_frame(conn);
        if (e != ERR_OK) {
            give_up(conn, e);
        }
        return;
    }
    conn->frame_got += size;
    if (conn->frame_got < conn->frame_size) {
        return;
    }
    if (conn->state == CLIENT_CONN_GREETING) {
        on_greeted(conn);
    } else {
        on_answer(conn);
    }
}

static void read_in(struct client_conn *conn)
{
    for (int i = 0; i < READS_MAX && conn->fd != -1; i++) {
        const bool is_prefix = conn->frame == NULL;
        uint8_t *to = is_prefix ? conn->prefix + conn->prefix_size : conn->frame + conn->frame_got;
        const size_t size = is_prefix ? sizeof(conn->prefix) - conn->prefix_size
                                      : conn->frame_size - conn->frame_got;
        const ssize_t got = recv(conn->fd, to, size, 0);
        if (got > 0) {
            on_bytes(conn, (size_t)got);
        } else if (got == 0) {
            give_up_ended(conn);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            give_up_broken(conn, errno);
        }
    }
}

/* ---- what the owner drives ---- */

short client_conn_events(const struct client_conn *conn)
{
    if (conn->state == CLIENT_CONN_CLOSED) {
        return 0;
    }
    if (conn->state == CLIENT_CONN_CONNECTING) {
        return POLLOUT;
    }
    return (short)(POLLIN | (conn->out_sent < conn->out.size ? POLLOUT : 0));
}

void client_conn_ready(struct client_conn *conn, short events)
{
    if (conn->state == CLIENT_CONN_CONNECTING) {
        finish_connect(conn);
        return;
    }
    if ((events & POLLOUT) != 0 && conn->fd != -1) {
        flush_out(conn);
    }
    if ((events & (POLLIN | POLLERR | POLLHUP)) != 0 && conn->fd != -1) {
        read_in(conn);
    }
}

uint64_t client_conn_deadline(const struct client_conn *conn)
{
    if (conn->state == CLIENT_CONN_CONNECTING) {
        return conn->place_deadline_us;
    }
    if (conn->state == CLIENT_CONN_GREETING) {
        return conn->deadline_us;
    }
    uint64_t first_us = UINT64_MAX;
    list_for_each (node, &conn->in_flight) {
        const struct client_call *call = container_of(node, struct client_call, link);
        first_us = call->deadline_us < first_us ? call->deadline_us : first_us;
    }
    return first_us;
}

void client_conn_expire(struct client_conn *conn, uint64_t now_us)
{
    if (conn->state == CLIENT_CONN_CLOSED || now_us < client_conn_deadline(conn)) {
        return;
    }
    if (conn->state == CLIENT_CONN_CONNECTING) {
        leave_place(conn, say_unreachable(conn, ERR_TIMED_OUT, "no answer in time"));
        return;
    }
    give_up(conn, client_say(conn->why, ERR_TIMED_OUT, "%s did not answer in time", conn->name));
}
