/* The producers of a run: each a client of its own, with its own connections. They take turns; who
 * has no room is passed over, so that one slow broker does not hold up the others.
 *
 * The thread that runs the windows; deliveries come on the clients' threads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "core/clock.h"
#include "core/err.h"

#include "perf/bench/meter.h"
#include "perf/bench/replay.h"
#include "perf/bench/workload.h"

struct producers_options {
    const char *brokers;
    const char *topic;
    size_t count;
    struct client_producer_options producer; /* The delivery callback is filled in here. */
    uint32_t timeout_ms;                     /* Of a record, all attempts together. */
    struct workload_options workload;
    bool is_replay;
    size_t replay_batch_size;
    struct meter *published; /* From when a record was due until it was acknowledged. */
    struct clock *clock;     /* Used by several threads: the kernel's. */
};

struct producers {
    struct producers_options options;
    struct client **clients;
    struct client_producer **producers;
    struct workload workload;
    struct replay replay;
    size_t next;     /* Whose turn it is. */
    bool has_unsent; /* message, or batch, was made and found no room. */
    struct client_message message;
    struct slice batch;
    uint64_t sent_count; /* Records. */
    uint64_t sent_size;  /* Their keys and values. */
};

/* Connects nothing yet but to ask for the topic. On error ret_why has a line; p may be given to
 * producers_done too. */
enum err producers_init(struct producers *p,
                        const struct producers_options *options,
                        char ret_why[CLIENT_WHY_SIZE]);
/* What is still without an answer is given up, and counts with the time it waited. Nothing is sent
 * any more. */
void producers_drop(struct producers *p);
void producers_done(struct producers *p);

/* Records per operation: 1, or those of a batch in replay. */
uint32_t producers_step(const struct producers *p);

/* Hands the next operation to a client. ERR_BUSY: none has room; try again with the same due_us.
 * Others are final. */
enum err producers_send(struct producers *p, uint64_t due_us);

/* What found no room is not to be sent any more. */
void producers_forget(struct producers *p);

/* Why the latest send failed. */
const char *producers_why(const struct producers *p);
