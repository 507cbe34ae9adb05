/* Inside of net/conn: the state of a connection and of its server.
 *
 * A request moves through lists, always in order of arrival:
 *
 *   incoming -> waiting -> running -> sending -> freed
 *               complete   with the   answer is
 *                          handler    the transport's
 *
 * A request is in `running` from its start until it and all before it are answered.
 *
 * conn.c         starts, answers, ends
 * conn_receive.c bytes into frames, back-pressure
 * conn_server.c  accepting, stopping, statistics
 * conn_pressure.c who lets go when memory is short
 */
#pragma once

#include "core/shard.h"
#include "core/stats.h"
#include "net/conn.h"
#include "net/log_limit.h"

enum {
    CONN_PREFIX_SIZE = 4,
    /* A body whose missing part is at least this long is received in place: below, what one
     * receive call costs exceeds the copy it saves. */
    CONN_RECEIVE_INTO_SIZE_MIN = 32 << 10,
    /* Of a larger frame so much must be there before it gets all of its memory. */
    CONN_FIRST_SIZE = BUF_SIZE_MIN,
    /* What a frame of at least this size still misses counts as announced. */
    CONN_ANNOUNCED_SIZE_MIN = 64 << 10,
    /* Requests kept for reuse per server. */
    CONN_SPARE_REQUESTS_MAX = 1024,
    CONN_SERVER_STATS = 11,
};

enum conn_state {
    CONN_OPEN,     /* Reads, starts, answers. */
    CONN_ENDING,   /* Reads no more; what arrived is still answered, then the stream closes. */
    CONN_ABORTING, /* Only waits until answers given before the abort left, then closes. */
    CONN_CLOSING,  /* stream_close was called, or the server may call it no more. */
    CONN_CLOSED,   /* on_closed came; waits for the handler and for the transport's releases. */
};

struct conn {
    struct list link; /* conn_server.conns */
    struct conn_server *server;
    struct stream *stream;
    void *handler_state;
    uint32_t handler_client;
    enum conn_state state;
    uint32_t listener_index;
    char peer[NET_PEER_SIZE];

    struct list waiting; /* struct conn_request, as the two below. */
    struct list running;
    struct list sending;
    uint32_t requests_count;   /* On any list, and the incoming one. */
    uint32_t unanswered_count; /* Started and not answered. */
    bool is_barrier_running;
    bool is_behind_told;   /* on_behind came for it. */
    bool is_abort_pending; /* Earlier answers are still due; nothing more starts. */
    bool is_pumping;
    uint64_t frames_size;  /* Capacity of all frame bufs held. */
    uint64_t answers_size; /* Of answers given and not yet released. */
    uint64_t sending_us;   /* Since when the first of `sending` is the next to be taken. */

    /* conn_receive.c */
    uint8_t prefix[CONN_PREFIX_SIZE];
    uint32_t prefix_size;
    bool is_paused;  /* stream_pause is in force. */
    bool is_blocked; /* The next frame may not begin, or incoming not get all of its memory. Counted
                      * in the shard's quiet_waiters_count. */
    bool is_receiving_into; /* The rest of incoming comes by on_received. */
    bool is_eof;            /* The peer sends no more. */
    struct conn_request *incoming;
    size_t incoming_size;      /* Bytes of its frame that are there. */
    size_t announced_size;     /* Of its frame, in conn_server.announced_size. */
    struct list announce_link; /* conn_server.announce_waiters */
    uint8_t *spill;            /* Bytes that came while blocked. */
    size_t spill_pos;
    size_t spill_size;
    struct buf_waiter waiter;

    struct task task; /* Pumps. */
    struct timer idle_timer;
    uint64_t active_us; /* The last sign of life that the idle timeout counts from. */
};

struct conn_listener {
    struct list link;
    struct conn_server *server;
    uint32_t index;
};

struct conn_counters {
    uint64_t conns;
    uint64_t accepted;
    uint64_t refused;
    uint64_t frames_refused;
    uint64_t idle_closed;
    uint64_t requests;
    uint64_t receive_bytes;
    uint64_t send_bytes;
    uint64_t blocked;
    uint64_t spill_refused;
    uint64_t stale_closed;
};

struct conn_server {
    struct shard *shard;
    struct transport *transport;
    struct conn_limits limits;
    struct conn_handler handler;
    struct list listeners;
    struct list conns;
    struct list spare_requests;
    uint32_t spare_requests_count;
    size_t spill_size; /* Of all connections. */
    size_t spill_size_max;
    size_t first_size; /* Of frames that do not have all of their memory yet. */
    size_t first_size_max;
    size_t announced_size; /* Memory of large frames that their peers still have to fill. */
    size_t announced_size_max;
    struct list announce_waiters; /* struct conn: their frames would go beyond it. */

    bool is_stopping;
    void *stop_context;
    void (*on_stopped)(void *context);
    struct task stop_task;
    struct timer stop_timer;

    struct timer pressure_timer; /* conn_pressure.c; runs while there are connections. */
    uint32_t patience_lost;      /* How often it was halved since memory was last enough. */
    uint64_t refused_seen;       /* By the pool, at its last run. */

    struct log_limit log_refused;
    struct log_limit log_frame;
    struct log_limit log_spill;
    struct log_limit log_stale;
    struct conn_counters counters;
    struct stat stats[CONN_SERVER_STATS];
};

/* conn.c */
enum err
conn_new(struct conn_server *cs, struct stream *st, const char *peer, struct conn **ret_conn);
extern const struct stream_user_ops conn_stream_ops;
/* NULL without memory. */
struct conn_request *conn_request_new(struct conn *c);
/* Also its frame, its answer and its place on a list. */
void conn_request_free(struct conn_request *r);
/* Goes as far as the connection can: starts, sends, reads on, closes. From the loop only; may free
 * c. */
void conn_pump(struct conn *c);
/* Reads no more; closes once all that arrived is answered. */
void conn_end(struct conn *c);
/* Closes at once. */
void conn_close(struct conn *c);
void conn_drop_waiting(struct conn *c);

/* conn_receive.c */
void conn_receive_data(struct conn *c, const uint8_t *data, size_t size);
void conn_receive_done(struct conn *c);
/* The peer sends no more: what it sent is still looked at. */
void conn_receive_eof(struct conn *c);
/* Goes on behind a block. True if anything was read. */
bool conn_receive_retry(struct conn *c);
void conn_receive_on_memory(struct buf_waiter *w);
/* The incoming frame must not be the transport's any more. */
void conn_receive_drop(struct conn *c);
/* Lets as many wait no longer as there is room for what they announce. */
void conn_receive_wake_announcers(struct conn_server *cs);
/* Gives up what is not a frame yet and what waits, but not the incoming frame's memory. */
void conn_receive_stop(struct conn *c);

/* conn_pressure.c */
void conn_pressure_init(struct conn_server *cs);
/* A connection came. */
void conn_pressure_watch(struct conn_server *cs);
void conn_pressure_done(struct conn_server *cs);

/* conn_server.c */
void conn_server_on_gone(struct conn_server *cs);
