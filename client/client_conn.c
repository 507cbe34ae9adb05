#include "client/client_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/header.h"
#include "kafka/proto/schema.h"

enum {
    PREFIX_SIZE = 4,
    OUT_SIZE_MAX = 256 << 20,
    PREFIX_HTTP = 0x48545450, /* "HTTP" */
    PREFIX_TLS = 0x15,        /* First byte of a TLS alert. */
};

void client_conn_init(struct client_conn *conn, struct client_env *env, const char *client_id)
{
    *conn = (struct client_conn){.env = env, .client_id = client_id, .fd = -1};
    wbuf_init(&conn->out, OUT_SIZE_MAX);
}

void client_conn_close(struct client_conn *conn)
{
    if (conn->fd != -1) {
        (void)close(conn->fd);
        conn->fd = -1;
    }
    conn->in_flight_count = 0;
}

void client_conn_done(struct client_conn *conn)
{
    client_conn_close(conn);
    wbuf_done(&conn->out);
    free(conn->frame);
    conn->frame = NULL;
}

uint8_t *client_conn_take_frame(struct client_conn *conn)
{
    uint8_t *frame = conn->frame;
    conn->frame = NULL;
    conn->frame_capacity = 0;
    return frame;
}

/* Every failure of the stream ends here. */
static enum err give_up(struct client_conn *conn, enum err e)
{
    assert(e != ERR_OK);
    client_conn_close(conn);
    return e;
}

static enum err wait_for(struct client_conn *conn, short events, uint64_t deadline_us)
{
    struct client_env *env = conn->env;
    const enum err e = env->wait(env, conn->fd, events, deadline_us);
    if (e == ERR_TIMED_OUT) {
        return client_fail(env, e, "%s did not answer in time", conn->name);
    }
    return e == ERR_OK ? ERR_OK : client_fail(env, e, "cannot wait for %s", conn->name);
}

static enum err say_broken(struct client_conn *conn, int number)
{
    char memory[64];
    return client_fail(conn->env,
                       ERR_CLOSED,
                       "the connection to %s broke (%s)",
                       conn->name,
                       strerror_r(number, memory, sizeof(memory)));
}

static enum err send_all(struct client_conn *conn, uint64_t deadline_us)
{
    const uint8_t *data = conn->out.data;
    size_t left = conn->out.size;
    while (left > 0) {
        const ssize_t sent = send(conn->fd, data, left, MSG_NOSIGNAL);
        if (sent >= 0) {
            data += sent;
            left -= (size_t)sent;
            continue;
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            return say_broken(conn, errno);
        }
        enum err e = wait_for(conn, POLLOUT, deadline_us);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static enum err
receive_all(struct client_conn *conn, uint8_t *data, size_t size, uint64_t deadline_us)
{
    while (size > 0) {
        const ssize_t got = recv(conn->fd, data, size, 0);
        if (got > 0) {
            data += got;
            size -= (size_t)got;
            continue;
        }
        if (got == 0) {
            return client_fail(conn->env, ERR_CLOSED, "%s closed the connection", conn->name);
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            return say_broken(conn, errno);
        }
        enum err e = wait_for(conn, POLLIN, deadline_us);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* The frame's size is the first thing a stranger says: say who it might be. */
static enum err check_frame_size(struct client_conn *conn, uint32_t size)
{
    if (size == PREFIX_HTTP) {
        return client_fail(conn->env,
                           ERR_CORRUPT,
                           "%s is an HTTP server, not a Kafka listener: check the port",
                           conn->name);
    }
    if (size >> 24 == PREFIX_TLS) {
        return client_fail(conn->env,
                           ERR_CORRUPT,
                           "%s speaks TLS, this client does not: use a plaintext listener",
                           conn->name);
    }
    if (size < PREFIX_SIZE || size > CLIENT_FRAME_SIZE_MAX) {
        return client_fail(conn->env,
                           ERR_CORRUPT,
                           "%s sent a frame of %u bytes: is it a Kafka listener?",
                           conn->name,
                           size);
    }
    return ERR_OK;
}

static enum err grow_frame(struct client_conn *conn, size_t size)
{
    if (size <= conn->frame_capacity) {
        return ERR_OK;
    }
    free(conn->frame);
    conn->frame_capacity = 0;
    conn->frame = malloc(size);
    if (conn->frame == NULL) {
        return client_fail(conn->env, ERR_BUSY, "no memory for an answer of %zu bytes", size);
    }
    conn->frame_capacity = size;
    return ERR_OK;
}

static enum err
receive_frame(struct client_conn *conn, uint64_t deadline_us, struct rbuf *ret_frame)
{
    uint8_t prefix[PREFIX_SIZE];
    enum err e = receive_all(conn, prefix, sizeof(prefix), deadline_us);
    if (e != ERR_OK) {
        return e;
    }
    struct rbuf r = rbuf_over(prefix, sizeof(prefix));
    const uint32_t size = rbuf_u32(&r);
    e = check_frame_size(conn, size);
    if (e == ERR_OK) {
        e = grow_frame(conn, size);
    }
    if (e == ERR_OK) {
        e = receive_all(conn, conn->frame, size, deadline_us);
    }
    if (e == ERR_OK) {
        *ret_frame = rbuf_over(conn->frame, size);
    }
    return e;
}

static enum err send_request(struct client_conn *conn,
                             const struct client_call *call,
                             int16_t version,
                             uint64_t deadline_us)
{
    assert_cmp(conn->in_flight_count, <, CLIENT_IN_FLIGHT_MAX);
    const struct schema_api *api = schema_api_find(call->api_key);
    struct wbuf *w = &conn->out;
    w->size = 0;
    wbuf_i32(w, 0);
    const struct request_header header = {
        .api_key = call->api_key,
        .api_version = version,
        .correlation_id = conn->correlation_next,
        .client_id = slice_of_string(conn->client_id),
    };
    if (call->fit != NULL) {
        call->fit(call->request, version);
    }
    enum err e = request_header_encode(w, &header);
    if (e == ERR_OK) {
        e = api->request.encode(w, version, call->request);
    }
    if (e != ERR_OK) {
        wbuf_done(w);
        wbuf_init(w, OUT_SIZE_MAX);
        return client_fail(conn->env,
                           e,
                           "%s knows no version of %s that can say this request (version %d: %s)",
                           conn->name,
                           api->name,
                           version,
                           err_name(e));
    }
    wbuf_patch_i32(w, 0, (int32_t)(w->size - PREFIX_SIZE));
    conn->correlation_next++;
    e = send_all(conn, deadline_us);
    if (e != ERR_OK) {
        return give_up(conn, e);
    }
    if (!call->has_no_answer) {
        conn->in_flight[conn->in_flight_count++] = (struct client_in_flight){
            .api_key = call->api_key,
            .version = version,
            .correlation_id = header.correlation_id,
        };
    }
    return ERR_OK;
}

static enum err say_damaged(struct client_conn *conn, const struct client_in_flight *f, enum err e)
{
    return client_fail(conn->env,
                       ERR_CORRUPT,
                       "%s sent an answer to %s (version %d) that cannot be read (%s)",
                       conn->name,
                       schema_api_find(f->api_key)->name,
                       f->version,
                       err_name(e));
}

/* The next frame, which must answer the oldest request in flight. */
static enum err receive_answer(struct client_conn *conn,
                               uint64_t deadline_us,
                               struct client_in_flight *ret_request,
                               struct rbuf *ret_body)
{
    assert_cmp(conn->in_flight_count, >, 0);
    const struct client_in_flight f = conn->in_flight[0];
    struct rbuf body;
    enum err e = receive_frame(conn, deadline_us, &body);
    if (e != ERR_OK) {
        return give_up(conn, e);
    }
    int32_t correlation_id = -1;
    e = response_header_decode(&body, f.api_key, f.version, &correlation_id);
    if (e == ERR_OK && correlation_id != f.correlation_id) {
        e = ERR_CORRUPT;
    }
    if (e != ERR_OK) {
        return give_up(conn, say_damaged(conn, &f, e));
    }
    conn->in_flight_count--;
    memmove(&conn->in_flight[0],
            &conn->in_flight[1],
            conn->in_flight_count * sizeof(conn->in_flight[0]));
    *ret_request = f;
    *ret_body = body;
    return ERR_OK;
}

enum err
client_conn_receive(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us)
{
    struct client_in_flight f;
    struct rbuf body;
    enum err e = receive_answer(conn, deadline_us, &f, &body);
    if (e != ERR_OK) {
        return e;
    }
    assert_cmp(f.api_key, ==, call->api_key);
    e = schema_api_find(f.api_key)->response.decode(&body, f.version, call->arena, call->response);
    return e == ERR_OK ? ERR_OK : give_up(conn, say_damaged(conn, &f, e));
}

enum err client_conn_version(struct client_conn *conn,
                             int16_t api_key,
                             int16_t version_max,
                             int16_t *ret_version)
{
    const struct schema_api *api = schema_api_find(api_key);
    assert(api != NULL);
    assert_cmp(api_key, <, CLIENT_APIS_MAX);
    const struct client_versions theirs = conn->versions[api_key];
    if (theirs.max < theirs.min) {
        return client_fail(
            conn->env, ERR_UNSUPPORTED, "%s does not serve %s", conn->name, api->name);
    }
    int16_t version = api->version_stable_max;
    version = version > theirs.max ? theirs.max : version;
    version = version_max != 0 && version > version_max ? version_max : version;
    if (version < theirs.min || version < api->version_min) {
        return client_fail(conn->env,
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

enum err
client_conn_send(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us)
{
    assert(client_conn_is_open(conn));
    int16_t version = 0;
    enum err e = client_conn_version(conn, call->api_key, call->version_max, &version);
    return e == ERR_OK ? send_request(conn, call, version, deadline_us) : e;
}

enum err
client_conn_call(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us)
{
    assert_cmp(conn->in_flight_count, ==, 0);
    enum err e = client_conn_send(conn, call, deadline_us);
    if (e == ERR_OK && !call->has_no_answer) {
        e = client_conn_receive(conn, call, deadline_us);
    }
    return e;
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

/* One round. A broker that does not know our version answers in version 0 with error 35 and, if it
 * is not ancient, with the versions it does know: then *ret_version is what to try next. */
static enum err ask_versions(struct client_conn *conn,
                             struct arena *arena,
                             uint64_t deadline_us,
                             int16_t *version,
                             bool *ret_is_done)
{
    struct api_versions_request request;
    api_versions_request_init(&request);
    request.client_software_name = slice_of_string("coreflume");
    request.client_software_version = slice_of_string(COREFLUME_VERSION);
    const struct client_call call = {.api_key = API_API_VERSIONS, .request = &request};
    enum err e = send_request(conn, &call, *version, deadline_us);
    struct client_in_flight f;
    struct rbuf body;
    if (e == ERR_OK) {
        e = receive_answer(conn, deadline_us, &f, &body);
    }
    if (e != ERR_OK) {
        return e;
    }
    struct rbuf peek = body;
    const bool is_refused = rbuf_i16(&peek) == KAFKA_UNSUPPORTED_VERSION;
    struct api_versions_response response;
    e = api_versions_response_decode(&body, is_refused ? 0 : *version, arena, &response);
    if (e != ERR_OK) {
        return say_damaged(conn, &f, e);
    }
    if (!is_refused && response.error_code != KAFKA_NONE) {
        return client_fail(conn->env,
                           ERR_FAILED,
                           "%s refuses to tell its versions: %s",
                           conn->name,
                           kafka_error_name(response.error_code));
    }
    take_versions(conn, &response);
    const struct client_versions own = conn->versions[API_API_VERSIONS];
    *ret_is_done = !is_refused || *version == 0;
    *version = is_refused && own.max > 0 && own.max < *version ? own.max : 0;
    return ERR_OK;
}

/* Versions fall from round to round, so this ends: at most ours, theirs, 0. */
static enum err negotiate(struct client_conn *conn, uint64_t deadline_us)
{
    struct arena arena;
    arena_init(&arena, CLIENT_FRAME_SIZE_MAX);
    int16_t version = API_VERSIONS_VERSION_MAX;
    bool is_done = false;
    enum err e = ERR_OK;
    while (e == ERR_OK && !is_done) {
        arena_reset(&arena);
        e = ask_versions(conn, &arena, deadline_us, &version, &is_done);
    }
    arena_done(&arena);
    if (e == ERR_CLOSED) {
        return client_fail(conn->env,
                           e,
                           "%s closed the connection at the first request: is it a Kafka listener "
                           "without TLS?",
                           conn->name);
    }
    return e;
}

enum err client_conn_open(struct client_conn *conn,
                          const struct client_address *address,
                          uint64_t deadline_us)
{
    assert(!client_conn_is_open(conn));
    (void)snprintf(conn->name, sizeof(conn->name), "%s:%u", address->host, address->port);
    int fd = -1;
    enum err e = conn->env->dial(conn->env, address, deadline_us, &fd);
    if (e != ERR_OK) {
        return e;
    }
    conn->fd = fd;
    conn->correlation_next = 0;
    e = negotiate(conn, deadline_us);
    return e == ERR_OK ? ERR_OK : give_up(conn, e);
}
