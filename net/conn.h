/* A server connection that carries length-prefixed requests: framing, ordered pipelining,
 * back-pressure, limits (DESIGN 5). What a frame means is the handler's business.
 *
 * Pipelining: answers leave in the order of the requests. A request the handler classes as OVERLAP
 * may start while only OVERLAP requests are unanswered (produce); any other is a BARRIER: it starts
 * when all before it are answered, and nothing starts beside it.
 *
 * Back-pressure is not reading: at the limit of requests or bytes in flight, or when no memory can
 * be had for the next frame, the stream is paused; it goes on by itself. A peer that does not take
 * its answers gets no further request started.
 *
 * Handlers are called from the loop only, never inside a function of this header.
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
    CONN_ANSWER_IOV_MAX = NET_IOV_MAX,
    CONN_ANSWERS_SIZE_DEFAULT = 1 << 20,
    CONN_STOP_TIMEOUT_US_DEFAULT = 2 * 1000 * 1000,
    CONN_PATIENCE_US_DEFAULT = 5 * 1000 * 1000,
};

/* Somebody who is told when the memory of an answer is not needed any more: it was sent, or never
 * will be. Intrusive; must stay until run. */
struct conn_release {
    struct conn_release *next; /* Private. */
    void (*run)(struct conn_release *rel);
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
    bool is_abort;
    enum conn_class class;
    uint8_t prefix[4]; /* The answer's length. */
    uint64_t answer_size;
    struct stream_send send;
    uint32_t iov_count;
    void *answer_memory; /* malloc'ed answer bytes, freed when sent; NULL = none. */
    struct conn_release *releases;
    struct iovec iov[CONN_ANSWER_IOV_MAX];        /* From here on zeroed as it is used. */
    struct buf *answer_bufs[CONN_ANSWER_IOV_MAX]; /* One reference each, by slot; NULL = none. */
};

struct conn_limits {
    uint32_t frame_size_max; /* bytes; a larger or negative length closes the connection */
    uint32_t requests_max; /* per connection, from a frame's first byte until its answer is sent */
    uint32_t conns_max;    /* per shard; further ones are closed at accept */
    uint64_t idle_timeout_us;  /* without a request, an answer taken, or work of the handler for it;
                                  0 = never */
    uint64_t frames_size_max;  /* bytes of frame memory per connection; one frame is always let in;
                                  0 = no limit but the pool */
    uint64_t answers_size_max; /* bytes of answers the peer has not taken, per connection; above it
                                  no further request starts; 0 = CONN_ANSWERS_SIZE_DEFAULT */
    uint64_t patience_us;      /* while memory is short, a half frame or an untaken answer that does
                                  not get on for so long costs the connection;
                                  0 = CONN_PATIENCE_US_DEFAULT */
    uint64_t stop_timeout_us;  /* after it conn_server_stop waits for no peer any more;
                                  0 = CONN_STOP_TIMEOUT_US_DEFAULT */
};

struct conn_handler {
    void *context;
    /* The class of a complete frame; must not keep it. */
    enum conn_class (*classify)(void *context, struct slice frame);
    /* Starts a request. It must later be answered exactly once (conn_answer, conn_answer_nothing)
     * or the connection ended with conn_abort. May answer inside the call. */
    void (*on_request)(void *context, struct conn_request *r);
    /* A request waits behind a barrier that is not answered: told once per barrier, so that one
     * which only waits for news can be answered with what there is. May end it. May be NULL. */
    void (*on_behind)(void *context, struct conn *c);
    /* The peer sends no more, and reads or is gone: requests in flight are answered as ever, but
     * what waits for something that may never come should end its wait. May be NULL. */
    void (*on_eof)(void *context, struct conn *c);
    /* The connection is going; the requests in flight must still be answered (nothing is sent). */
    void (*on_closed)(void *context, struct conn *c);
};

struct conn_server_options {
    struct shard *shard;
    struct transport *transport;
    struct conn_limits limits;
    struct conn_handler handler;
    const char *stats_labels; /* Tells several servers of one shard apart on the metrics page:
                                 `server="rpc"`; NULL = none. Must outlive. */
};

/* A frame must fit half of the shard's memory: a larger frame_size_max is lowered, with a log line.
 * ERR_BUSY without memory. */
enum err conn_server_new(const struct conn_server_options *o, struct conn_server **ret_server);

/* One more named listener; index is its place in the broker's list (conn_listener_index). */
enum err conn_server_listen(struct conn_server *cs,
                            const struct net_address *address,
                            uint32_t index,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE]);

/* Those beyond it that are there stay. */
void conn_server_set_conns_max(struct conn_server *cs, uint32_t conns_max);

/* Stops accepting and reading, drops what was not started, lets answers leave, closes all;
 * on_stopped from the loop, once no request and no connection is left. Waits at most
 * stop_timeout_us for peers, but without limit for the handler's answers. */
void conn_server_stop(struct conn_server *cs, void *context, void (*on_stopped)(void *context));
/* After on_stopped, or when nothing ever listened. Accepts NULL. */
void conn_server_free(struct conn_server *cs);
uint32_t conn_server_count(const struct conn_server *cs);

/* The four ways to end a request. r must not be touched afterwards, and its connection only while
 * on_closed has not come or another of its requests is in flight. */

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

/* rel is run when the answer that is about to be given is not needed any more. It may lie in the
 * answer's memory. */
void conn_request_on_release(struct conn_request *r, struct conn_release *rel);

/* The request has no answer (Produce with acks=0). */
void conn_answer_nothing(struct conn_request *r);

/* Closes the connection instead of answering, after the answers of earlier requests were sent;
 * counts as the answer. Later requests are dropped, or their answers are. */
void conn_abort(struct conn_request *r);

/* The frame is no longer needed (its records were copied). */
void conn_request_drop_frame(struct conn_request *r);

uint32_t conn_listener_index(const struct conn *c);
const char *conn_peer(const struct conn *c); /* "address:port" */
/* Nothing more comes from the peer, or is read: it half-closed, broke the protocol, or the server
 * stops. An answer of it should not wait for long. */
bool conn_is_ending(const struct conn *c);
/* Of those, a peer that half-closed: it may wait for what it asked for. */
bool conn_is_half_closed(const struct conn *c);
/* on_behind came for the barrier that runs. */
bool conn_is_behind(const struct conn *c);
/* A place for the handler's state of the connection; NULL at first. */
void conn_set_state(struct conn *c, void *state);
void *conn_state(const struct conn *c);
/* What the handler learned of the client, in its own terms; 0 at first. */
void conn_set_client(struct conn *c, uint32_t client);
uint32_t conn_client(const struct conn *c);
