/* A server connection that carries length-prefixed requests: framing, ordered pipelining,
 * back-pressure, limits (DESIGN 5). What a frame means is the handler's business.
 *
 * Pipelining: answers leave in the order of the requests. A request the handler classes as OVERLAP
 * may start while only OVERLAP requests are unanswered (produce); any other is a BARRIER: it starts
 * when all before it are answered, and nothing starts beside it.
 *
 * Back-pressure is not reading: at the limit of requests or bytes in flight, or when no memory can
 * be had for the next frame, the stream is paused; it goes on by itself.
 *
 * Shard: the connection's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/list.h"
#include "core/slice.h"
#include "net/transport.h"

struct shard;
struct conn;
struct conn_server;

enum conn_class {
    CONN_BARRIER,
    CONN_OVERLAP,
    CONN_REFUSE, /* Close the connection. */
};

enum {
    CONN_ANSWER_IOV_MAX = 32,
};

/* One request from its frame to its answer. Allocated by conn; the handler's own state hangs off
 * `handler_state`. */
struct conn_request {
    struct list link; /* Private: in order of arrival. */
    struct conn *conn;
    struct buf *frame_buf; /* Holds the frame; released by conn when the answer is sent, or earlier
                              by conn_request_drop_frame. */
    struct slice frame;    /* Without the length prefix. */
    uint64_t received_us;
    void *handler_state; /* The handler's; must be released by the time it answers. */
    bool is_started;     /* Private, as what follows. */
    bool is_answered;
    bool is_silent;
    enum conn_class class;
    struct stream_send send;
    struct iovec iov[CONN_ANSWER_IOV_MAX];
    uint32_t iov_count;
    struct buf *answer_bufs[CONN_ANSWER_IOV_MAX]; /* One reference each, by slot; NULL = none. */
    void *answer_memory; /* malloc'ed answer bytes, freed when sent; NULL = none. */
};

struct conn_limits {
    uint32_t frame_size_max;  /* bytes; a larger or negative length closes the connection */
    uint32_t requests_max;    /* unanswered per connection */
    uint32_t conns_max;       /* per shard; further ones are closed at accept */
    uint64_t idle_timeout_us; /* without a request; 0 = never */
};

struct conn_handler {
    void *context;
    /* The class of a complete frame; must not keep it. */
    enum conn_class (*classify)(void *context, struct slice frame);
    /* Starts a request. It must later be answered exactly once (conn_answer, conn_answer_nothing)
     * or the connection ended with conn_abort. May answer inside the call. */
    void (*on_request)(void *context, struct conn_request *r);
    /* The connection is going; the requests in flight must still be answered (nothing is sent). */
    void (*on_closed)(void *context, struct conn *c);
};

struct conn_server_options {
    struct shard *shard;
    struct transport *transport;
    struct conn_limits limits;
    struct conn_handler handler;
};

enum err conn_server_new(const struct conn_server_options *o, struct conn_server **ret_server);

/* One more named listener; index is its place in the broker's list (conn_listener_index). */
enum err conn_server_listen(struct conn_server *cs,
                            const struct net_address *address,
                            uint32_t index,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE]);

/* Stops accepting, lets answers leave, closes all; on_stopped from the loop. */
void conn_server_stop(struct conn_server *cs, void *context, void (*on_stopped)(void *context));
void conn_server_free(struct conn_server *cs);
uint32_t conn_server_count(const struct conn_server *cs);

/* Answers with data (malloc'ed, ownership passes) as the whole answer without the length prefix. */
void conn_answer(struct conn_request *r, uint8_t *data, size_t size);

/* Answers with pieces: bytes from memory (malloc'ed, ownership passes; pieces may point into it)
 * and from bufs whose reference passes (bufs[i] belongs to pieces[i], NULL = points into memory).
 * At most CONN_ANSWER_IOV_MAX - 1 pieces. */
struct conn_piece {
    struct slice bytes;
    struct buf *buf;
};
void conn_answer_pieces(struct conn_request *r,
                        void *memory,
                        const struct conn_piece *pieces,
                        uint32_t pieces_count);

/* The request has no answer (Produce with acks=0). */
void conn_answer_nothing(struct conn_request *r);

/* Closes the connection instead of answering; counts as the answer. */
void conn_abort(struct conn_request *r);

/* The frame is no longer needed (its records were copied). */
void conn_request_drop_frame(struct conn_request *r);

uint32_t conn_listener_index(const struct conn *c);
const char *conn_peer(const struct conn *c); /* "address:port" */
/* A place for the handler's state of the connection; NULL at first. */
void conn_set_state(struct conn *c, void *state);
void *conn_state(const struct conn *c);
