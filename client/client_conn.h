/* One connection to a broker: versions agreed on, requests out, answers in.
 *
 * Requests may be pipelined: answers come in the order of the requests. Any failure closes the
 * connection, since nobody knows where in the stream it stands; requests in flight are then lost.
 *
 * One thread at a time, as the client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_env.h"
#include "core/arena.h"
#include "core/wbuf.h"

enum {
    CLIENT_APIS_MAX = 128,             /* API keys from here on are not looked at. */
    CLIENT_IN_FLIGHT_MAX = 8,          /* Requests without an answer. */
    CLIENT_FRAME_SIZE_MAX = 256 << 20, /* A larger answer is refused. */
    CLIENT_NAME_SIZE = CLIENT_HOST_SIZE + 8,
};

struct client_versions {
    int16_t min;
    int16_t max; /* < min: not served. */
};

struct client_in_flight {
    int16_t api_key;
    int16_t version;
    int32_t correlation_id;
};

struct client_conn {
    struct client_env *env;
    const char *client_id;
    int fd;                      /* -1: closed. */
    char name[CLIENT_NAME_SIZE]; /* "host:port", for messages. */
    struct client_versions versions[CLIENT_APIS_MAX];
    int32_t correlation_next;
    struct client_in_flight in_flight[CLIENT_IN_FLIGHT_MAX]; /* Oldest first. */
    size_t in_flight_count;
    struct wbuf out;
    uint8_t *frame; /* The latest answer. */
    size_t frame_capacity;
};

/* A request and where its answer goes. */
struct client_call {
    int16_t api_key;
    int16_t version_max; /* 0: no limit of the caller's; else use no newer one. */
    bool has_no_answer;  /* Produce with acks 0. */
    void *request;       /* struct <api>_request */
    /* Optional: makes the request one that the version, now known, can say. */
    void (*fit)(void *request, int16_t version);
    struct arena *arena; /* Where arrays of the answer go. */
    void *response;      /* struct <api>_response; its slices point into the connection's frame:
                            valid until the next answer, or as long as the frame after
                            client_conn_take_frame. */
};

/* client_id must outlive it. */
void client_conn_init(struct client_conn *conn, struct client_env *env, const char *client_id);
/* Closes. */
void client_conn_done(struct client_conn *conn);

/* Connects and asks for the versions. */
enum err client_conn_open(struct client_conn *conn,
                          const struct client_address *address,
                          uint64_t deadline_us);
void client_conn_close(struct client_conn *conn);

static inline bool client_conn_is_open(const struct client_conn *conn)
{
    return conn->fd != -1;
}

/* The newest version of the api that both know, not above version_max unless that is 0.
 * ERR_UNSUPPORTED if there is none. */
enum err client_conn_version(struct client_conn *conn,
                             int16_t api_key,
                             int16_t version_max,
                             int16_t *ret_version);

/* ERR_INVALID if the request cannot be said in the version. ERR_INVALID and ERR_UNSUPPORTED leave
 * the connection open. */
enum err
client_conn_send(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us);
/* The answer to the oldest request in flight, which must have been call's. */
enum err
client_conn_receive(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us);
/* Send, and receive unless the call has no answer. Nothing may be in flight. */
enum err
client_conn_call(struct client_conn *conn, const struct client_call *call, uint64_t deadline_us);

/* The memory of the latest answer, which becomes the caller's (free). */
uint8_t *client_conn_take_frame(struct client_conn *conn);
