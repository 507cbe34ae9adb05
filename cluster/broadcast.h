/* One thing that every shard has to do, told by shard 0: a message to each and home again.
 * Broadcasts reach a shard in the order in which they were begun; they end in any order.
 *
 * Shard: begun and ended on shard 0; each leg is its shard's while it is there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/rbuf.h"
#include "core/slice.h"
#include "core/xmsg.h"

struct broadcast;
struct broadcast_leg;
struct cluster;
struct cluster_set;
struct shard;

/* Runs on each shard; ends with broadcast_leg_done, at once or later. */
typedef void broadcast_run_fn(struct shard *here, struct broadcast_leg *leg);
/* On shard 0 when all are home. failed_count: what the legs reported; error: one of their errors.
 */
typedef void broadcast_done_fn(void *context, enum err error, uint32_t failed_count);

/* What a broadcast carries. Read by all shards while it is under way. */
struct broadcast_order {
    broadcast_run_fn *run;
    struct wbuf *bytes; /* Its memory is taken over; NULL = none. */
    uint64_t term;
    struct uuid topic_id;
    int32_t partitions_count;
    uint32_t dir_index;
    enum err error; /* Why the directory failed. */
    void *context;
    broadcast_done_fn *on_done;
};

struct broadcast_leg {
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct broadcast *broadcast;
    const struct broadcast_order *order;
    struct slice bytes;
    struct cluster *cluster; /* The one of the shard it goes to. */
    enum err error;          /* Reported. */
    uint32_t failed_count;   /* Reported. */

    /* The shard's own notes while it works on it. */
    struct list link;
    struct rbuf stream;
    struct uuid topic_id;
    int32_t next_partition;
    int32_t partitions_count;
    uint32_t in_flight_count;
    bool is_deriving;    /* What follows from an alteration is told to partitions: */
    bool is_of_topic;    /* of topic_id's, or of a broker's, for all topics; */
    uint32_t next_topic; /* here, by index, and at next_partition of it. */
};

void broadcast_begin(struct cluster_set *set, struct shard *s, const struct broadcast_order *order);
/* Sends the leg home. */
void broadcast_leg_done(struct shard *here, struct broadcast_leg *leg);
