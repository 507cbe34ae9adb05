/* HTTP/1.1 for people and tools: one small connection machine on net/transport.h.
 *
 * One request of a connection is worked on at a time; a pipelining client waits in the socket.
 * Everything is bounded: request line, headers, body, bodies of all connections together, time to
 * send a request, time to take an answer, connections.
 *
 * What is wrong with a request is answered here, as problem+json (RFC 9457): 400, 408, 413, 414,
 * 431, 503, 505. What a path means is the handler's business.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"
#include "net/transport.h"

struct shard;
struct http_server;
struct http_conn;

enum http_verb {
    HTTP_VERB_GET,
    HTTP_VERB_HEAD,
    HTTP_VERB_POST,
    HTTP_VERB_PUT,
    HTTP_VERB_DELETE,
    HTTP_VERB_PATCH,
    HTTP_VERB_OPTIONS,
    HTTP_VERB_OTHER,
};

enum {
    HTTP_URL_SIZE_MAX = 4096,
    HTTP_HEADERS_SIZE_MAX = 16 << 10, /* Names and values. */
    HTTP_HEADERS_MAX = 64,
};

/* Valid until it is answered. */
struct http_request {
    struct http_conn *conn; /* Private. */
    enum http_verb verb;
    struct slice path;  /* As sent, not decoded; begins with '/'. */
    struct slice query; /* Behind the '?', not decoded. */
    struct slice body;
};

struct http_limits {
    uint32_t conns_max;
    size_t body_size_max;
    size_t bodies_size_max;         /* Of all connections. */
    uint64_t request_timeout_us;    /* From the first byte of a request to its last. */
    uint64_t keep_alive_timeout_us; /* Between requests. */
    uint64_t answer_timeout_us;     /* For the peer to take an answer. */
};

extern const struct http_limits http_limits_default;

struct http_server_options {
    struct shard *shard;
    struct transport *transport;
    struct http_limits limits;
    void *context;
    /* Must be answered exactly once, now or later, also when the peer is gone meanwhile. */
    void (*on_request)(void *context, struct http_request *r);
};

/* ERR_BUSY without memory. */
enum err http_server_new(const struct http_server_options *o, struct http_server **ret_server);
enum err http_server_listen(struct http_server *hs,
                            const struct net_address *address,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE]);
/* Closes idle connections at once and busy ones after their answer; on_stopped from the loop. */
void http_server_stop(struct http_server *hs, void *context, void (*on_stopped)(void *context));
/* After on_stopped, or when nothing ever listened. Accepts NULL. */
void http_server_free(struct http_server *hs);

/* The value of the header of that name, in any case; the null slice if there is none. */
struct slice http_request_header(const struct http_request *r, const char *name);

struct http_answer {
    uint32_t status;
    const char *content_type;
    const char *header; /* One more, "Name: value"; NULL = none. */
    uint8_t *data;      /* malloc'ed, ownership passes; not sent to HEAD. */
    size_t size;
};
void http_answer(struct http_request *r, const struct http_answer *a);

/* {"type":"about:blank","title":...,"status":...,"detail":...}. detail says what to do. header as
 * above. */
void http_answer_problem(struct http_request *r,
                         uint32_t status,
                         const char *detail,
                         const char *header);
