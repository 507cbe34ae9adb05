/* A client's connection: Kafka frames over the simulated net, answers in the order of the requests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/list.h"
#include "core/rbuf.h"
#include "core/wbuf.h"

#include "tests/sim/net_sim.h"

/* A request in flight, embedded in its owner. */
struct kafka_call {
    struct list link;
    int16_t api_key;
    int16_t version;
    int32_t correlation_id;
    uint64_t sent_us;
    /* body is NULL if the connection went away before the answer: nobody knows what happened. */
    void (*on_answer)(struct kafka_call *call, struct rbuf *body, struct arena *arena);
};

struct kafka_client {
    struct sim *sim;
    struct net_link *link; /* NULL = not connected. */
    bool is_connected;
    struct list calls; /* struct kafka_call, unanswered. */
    int32_t correlation_next;
    uint8_t *received;
    size_t received_size;
    size_t received_capacity;
    struct arena arena;
    uint64_t answers;
    uint32_t connections_count; /* So far. */
};

enum {
    /* Simulated time. Whoever waits longer has found a broker that hangs. */
    CALL_TIMEOUT_US = 120 * 1000 * 1000,
};

void kafka_client_init(struct kafka_client *c, struct sim *sim);
void kafka_client_done(struct kafka_client *c);

/* Begins to connect if it is not. False if there is nobody to connect to. */
bool kafka_client_connect(struct kafka_client *c, struct net_sim *net);
bool kafka_client_is_ready(const struct kafka_client *c);
/* Starts a frame in w: write the body behind it. */
void kafka_client_begin(struct kafka_client *c, struct kafka_call *call, struct wbuf *w);
/* Sends the frame. Without an answer (acks=0) the call is over at once and never called back. */
void kafka_client_send(struct kafka_client *c,
                       struct kafka_call *call,
                       struct wbuf *w,
                       bool is_answered);
/* Fails the run if the oldest call waits for too long. */
void kafka_client_check(const struct kafka_client *c);
/* Hangs up: calls in flight end without an answer. */
void kafka_client_close(struct kafka_client *c);

/* A client with one request under way at a time, for those who have no use for more. */
struct kafka_caller {
    struct kafka_client client;
    struct kafka_call call;
    bool is_calling;
    bool was_uncertain; /* A request was left without an answer, or with one that says nothing. */
};

/* Starts a request of a drawn version in w: write the body behind it. */
void kafka_caller_begin(struct kafka_caller *c,
                        struct wbuf *w,
                        int16_t api_key,
                        int16_t version_min,
                        int16_t version_max);
/* encoded: how writing the body went. */
void kafka_caller_send(struct kafka_caller *c,
                       struct wbuf *w,
                       enum err encoded,
                       void (*on_answer)(struct kafka_call *, struct rbuf *, struct arena *));
/* In on_answer. NULL if nobody knows what became of the request. */
struct kafka_caller *kafka_caller_end(struct kafka_call *call, const struct rbuf *body);
