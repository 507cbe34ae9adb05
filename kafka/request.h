/* One request on its way through a handler: context, memory, and the ways to end it.
 *
 * Rules for handlers:
 *  1. Exactly one of the request_answer... functions is called, at any time.
 *  2. The request and its arena live until it was answered and every hold is released. Each
 *     operation in flight has a hold, so a request may be answered (timed out) before its
 * operations end.
 *  3. The frame, and what `in` points into it, lives as long, unless request_drop_frame is called.
 *
 * Shard: the connection's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/stats.h"
#include "core/timer.h"
#include "kafka/api_table.h"
#include "kafka/dispatch.h"
#include "kafka/errors.h"

enum {
    REQUEST_ARENA_SIZE_MAX = 64 << 20,
};

struct fetch_sessions;
struct groups;

struct dispatch {
    struct shard *s;
    struct cluster *cluster;
    struct groups *groups;
    const struct dispatch_settings *settings;
    size_t fetch_size_max; /* fetch.max.bytes, or what one answer may take of the memory. */
    /* Of all requests' arenas together: they are no part of the shard's pool, and pipelining
     * multiplies what one request may take. */
    struct arena_budget arenas;
    bool is_stopping;
    struct fetch_sessions *fetch_sessions;
    struct list parked;   /* struct request, by parked_link: waiting for data. */
    struct list deferred; /* struct request, by link: not decoded yet for want of memory. */
    uint32_t deferred_count;
    struct timer defer_timer;
    /* Private to dispatch.c, as what follows. */
    struct list idle; /* struct request, by link: kept with their arena's first block. */
    uint32_t idle_count;
    uint32_t busy_count;
    uint64_t complaint_after_us; /* No line about a refused request before then. */
    struct api_stats *stats;     /* One per row of the table. */
};

/* Of a connection's client (conn_client), by what it calls itself in ApiVersions. */
enum {
    CLIENT_IS_PATIENT = 1, /* Waits for a heartbeat's answer for as long as for any other. */
};

struct request {
    struct dispatch *d;
    const struct api *api;
    int16_t version;
    struct slice client_id; /* Null if the client sent none. */
    struct arena arena;
    void *in;                /* struct <api>_request, in the arena. */
    void *state;             /* The handler's. */
    struct list parked_link; /* On d->parked while a handler waits for data, else empty. */
    void (*unpark)(struct request *r); /* Ends that wait now: connection gone, or stopping. */
    /* While parked: the client sent another request, which waits for this one; NULL = let it. */
    void (*on_behind)(struct request *r);

    /* Private to dispatch.c. */
    struct list link;
    struct conn_request *conn_request; /* NULL once answered. */
    struct conn *conn;
    struct buf *frame_buf; /* A reference of our own; NULL once dropped. */
    int32_t correlation_id;
    uint32_t holds_count;
    uint64_t received_us;
};

void request_hold(struct request *r);
/* May free r. */
void request_release(struct request *r);

bool request_is_answered(const struct request *r);

/* The advertised endpoint of the listener the request came in on. */
const struct net_address *request_endpoint(const struct request *r);

/* Zeroed memory of the request. NULL at a limit, its own or all requests': the handler then calls
 * request_abort. */
[[nodiscard]] void *request_alloc(struct request *r, size_t count, size_t size);

/* Words for an error_message, in the request's memory and cut at a few hundred bytes. Null, which
 * is no message, at a limit. */
[[gnu::format(printf, 2, 3)]] struct slice request_text(struct request *r, const char *format, ...);

/* Answers with a struct <api>_response of the request's API; nothing of it is needed afterwards. */
void request_answer(struct request *r, const void *response);

/* Encodes the answer's header, for handlers that encode the rest themselves and then use
 * request_answer_pieces. */
enum err request_encode_header(struct request *r, struct wbuf *w);
/* As conn_answer_pieces. */
void request_answer_pieces(struct request *r,
                           void *memory,
                           const struct conn_piece *pieces,
                           uint32_t pieces_count);

/* As conn_request_on_release, before the answer. */
void request_on_release(struct request *r, struct conn_release *rel);

/* No answer: Produce with acks=0. */
void request_answer_nothing(struct request *r);

/* Closes the connection instead, with a line in the log that says why. */
void request_abort(struct request *r, const char *why);

/* The frame is no longer needed: `in` must not be followed to slices any more. */
void request_drop_frame(struct request *r);

/* While a request waits for data: it can be ended early by its connection's end or a stop.
 * request_unpark is harmless if it is not parked. */
void request_park(struct request *r, void (*unpark)(struct request *r));
void request_unpark(struct request *r);

/* True if now is a time to log a complaint about what a client sent: at most one line in a while,
 * however many bad requests come. */
bool request_may_complain(struct request *r);
