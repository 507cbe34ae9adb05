/* One connection to a broker as a state machine: it connects, agrees on versions, then carries
 * requests out and answers in, several at a time.
 *
 *   CLOSED --dial--> CONNECTING --> GREETING (ApiVersions) --> OPEN
 *      ^                  |             |                        |
 *      +------------------+-------------+---- any failure -------+
 *
 * Calls that were posted before it is open wait. A failure closes the connection, since nobody
 * knows where in the stream it stands, and finishes all its calls with that error. Finished calls
 * are put on a list of the owner's, never called back from in here: so a callback may post again.
 *
 * The client's thread, with the lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_call.h"
#include "client/client_env.h"
#include "core/list.h"
#include "core/wbuf.h"

enum {
    CLIENT_APIS_MAX = 128,             /* API keys from here on are not looked at. */
    CLIENT_FRAME_SIZE_MAX = 256 << 20, /* A larger answer is refused. */
    CLIENT_NAME_SIZE = CLIENT_HOST_SIZE + 8,
    CLIENT_PREFIX_SIZE = 4, /* A frame's own size. */
};

struct client_versions {
    int16_t min;
    int16_t max; /* < min: not served. */
};

/* What a host name stands for. */
struct client_places {
    struct client_place places[CLIENT_PLACES_MAX];
    size_t count;
    const char *failure; /* Why there is none; else NULL. */
};

enum client_conn_state {
    CLIENT_CONN_CLOSED,
    CLIENT_CONN_CONNECTING,
    CLIENT_CONN_GREETING,
    CLIENT_CONN_OPEN,
};

struct client_conn {
    struct client_env *env;
    const char *client_id;
    struct list *finished; /* Of the owner: where calls go when they are over. */
    enum client_conn_state state;
    int fd;                      /* -1: closed. */
    char name[CLIENT_NAME_SIZE]; /* "host:port", for messages. */
    int32_t advertised_id;       /* Of the broker that the cluster says is there; -1: unknown. */
    enum err failure;            /* Why it is closed; ERR_OK: it never failed. */
    char why[CLIENT_WHY_SIZE];
    uint64_t deadline_us; /* Until it must be open. */
    struct client_places places;
    size_t place_next;
    uint64_t place_deadline_us; /* Then the next one is tried. */
    int16_t greeting_version;
    struct client_versions versions[CLIENT_APIS_MAX];
    int32_t correlation_next;
    struct list waiting;   /* Calls, until it is open. */
    struct list in_flight; /* Calls that were sent, oldest first. */
    size_t in_flight_count;
    struct wbuf out; /* Requests; those before out_sent are with the kernel. */
    size_t out_sent;
    uint64_t sent_size;  /* Of all requests so far, on this connection. */
    uint64_t taken_size; /* The same, with what is still in out. */
    /* The answer that is coming in. */
    uint8_t prefix[CLIENT_PREFIX_SIZE];
    size_t prefix_size;
    uint8_t *frame; /* NULL: the prefix is not whole. */
    size_t frame_size;
    size_t frame_got;
};

/* client_id and finished must outlive it. */
void client_conn_init(struct client_conn *conn,
                      struct client_env *env,
                      const char *client_id,
                      struct list *finished);
/* Closes; there must be no calls. */
void client_conn_done(struct client_conn *conn);

/* Without the lock: it blocks as long as the C library does. */
void client_conn_resolve(struct client_env *env,
                         const struct client_address *address,
                         struct client_places *ret_places);

/* Begins to connect, to one place after the other, each with its share of the time that is left;
 * failure is a state as later failures are. */
void client_conn_dial(struct client_conn *conn,
                      const struct client_address *address,
                      const struct client_places *places,
                      int32_t advertised_id,
                      uint64_t deadline_us);

/* Closes, and finishes all calls with e; why is copied. */
void client_conn_fail(struct client_conn *conn, enum err e, const char *why);

/* Sends the call, or keeps it until the connection is open. */
void client_conn_post(struct client_conn *conn, struct client_call *call);

/* The events of poll that it waits for; 0: it is closed. */
short client_conn_events(const struct client_conn *conn);
/* What poll said. */
void client_conn_ready(struct client_conn *conn, short events);

/* When client_conn_expire has something to do; UINT64_MAX: never. */
uint64_t client_conn_deadline(const struct client_conn *conn);
/* Who did not connect or answer in time is closed. */
void client_conn_expire(struct client_conn *conn, uint64_t now_us);
