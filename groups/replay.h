/* Reads a partition from an offset to its high watermark, batch by batch: how a coordinator gets
 * its state at start. One read at a time, with one buffer, whose size is that of the largest batch
 * or REPLAY_BUFFER_SIZE.
 *
 * Shard: the one that owns the partition.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

enum {
    REPLAY_BUFFER_SIZE = 256 << 10,
};

struct replay {
    struct cluster *cluster;
    struct partition_id id;
    int64_t next_offset; /* Of the next batch. */
    void *context;
    /* The next batch; an error ends the replay. */
    enum err (*on_batch)(void *context, struct slice batch);
    /* Once: ERR_OK at the high watermark; what the partition or on_batch said; ERR_CANCELLED after
     * replay_cancel. From the loop. */
    void (*on_done)(void *context, enum err e);

    /* Private. */
    struct partition_op op;
    uint8_t *buffer;
    size_t buffer_size;
    bool is_cancelled;
};

/* The fields above `Private` are the caller's. From the log start where next_offset lies below it.
 */
void replay_begin(struct replay *r);
/* on_done comes when the read in flight is home. */
void replay_cancel(struct replay *r);
