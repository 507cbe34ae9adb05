/* A request on its way, and where its answer goes.
 *
 * The memory is the caller's, from the post until the call is over: then on_done is called on the
 * client's thread, with the lock held, or without an on_done is_done is set for who waits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/arena.h"
#include "core/list.h"

enum {
    CLIENT_NODE_ANY = -1, /* Whichever broker can be reached. */
};

struct client_call {
    int16_t api_key;
    int16_t version_max; /* 0: no limit of the caller's; else use no newer one. */
    bool has_no_answer;  /* Produce with acks 0: over when it is with the kernel. */
    bool is_repeatable;  /* Does no harm when carried out twice. Only for CLIENT_NODE_ANY. */
    int32_t node_id;
    const void *owner;   /* Calls of different owners never share a connection. */
    uint32_t timeout_ms; /* For the answer, from when it was sent. */
    void *request;       /* struct <api>_request */
    /* Optional: makes the request one that the version, now known, can say. */
    void (*fit)(void *request, int16_t version);
    struct arena *arena; /* Where arrays of the answer go. */
    void *response;      /* struct <api>_response; its slices point into frame. */
    void (*on_done)(struct client_call *call);

    /* When it is over. */
    enum err err;
    bool is_done;
    bool was_sent;  /* Some of it may have reached the broker. */
    uint8_t *frame; /* The answer's bytes: free() them, or client_call_done does. */
    size_t frame_size;
    char why[CLIENT_WHY_SIZE];

    /* The connection's. */
    struct list link;
    uint64_t serial; /* Of the client's connections when it was posted. */
    uint64_t deadline_us;
    uint64_t out_end; /* The connection's sent_size behind the request. */
    int32_t correlation_id;
    int16_t version;
};

/* Frees the answer's bytes. */
void client_call_done(struct client_call *call);
