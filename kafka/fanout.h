/* One request over many partitions: each is asked on its shard, and the answer leaves when all are
 * done or the request's time is up.
 *
 * What was not done in time is called back if it still waits for something, so that neither it nor
 * what it points at stays; what is under way goes on and may still happen. The client is told that
 * it cannot know (ERR_TIMED_OUT). The request lives until the last operation has come home.
 *
 * Shard: the connection's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/err.h"
#include "core/list.h"
#include "core/timer.h"

struct request;

enum {
    FANOUT_NO_TIMEOUT = INT32_MIN,
    /* Clients that send 0 expect what Kafka does for one replica: success. Nothing is durable in
     * no time, so that the least wait is long enough for any healthy disk. */
    FANOUT_TIMEOUT_MS_MIN = 1000,
};

struct fanout_part {
    struct partition_op op; /* id, kind, epoch and in are the handler's; the rest is ours. */
    struct partition_cancel cancel;
    struct list link; /* In fanout.parts. */
    bool is_done;     /* on_part was called. */
};

/* Part of a handler's state, in the request's memory. */
struct fanout {
    struct request *request;
    struct list parts; /* In the order in which they were added, and are asked. */
    size_t pending_count;
    struct timer timer;
    /* Once for each part. e is its op's result, or ERR_TIMED_OUT: then op is still under way, and
     * nothing of it may be looked at. */
    void (*on_part)(struct fanout *f, struct fanout_part *part, enum err e);
    /* Then once: answers the request. */
    void (*on_all)(struct fanout *f);
};

/* on_part and on_all are set by the caller. */
void fanout_init(struct fanout *f, struct request *r);
void fanout_add(struct fanout *f, struct fanout_part *part);
/* Asks all; calls on_all at once if there are none. timeout_ms as the client sent it, or
 * FANOUT_NO_TIMEOUT. */
void fanout_run(struct fanout *f, int32_t timeout_ms);
