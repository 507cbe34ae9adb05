/* Follows a partition: hands over each of its committed batches, in order, from an offset on and
 * for as long as it is wanted. A coordinator is loaded so, and a replica of it kept current.
 *
 *   READING <-> HANDING        READING -> WAITING (for data, or for memory) -> READING
 *
 * Rules:
 *  1. Batches below offset are not handed over; one that only begins below it is, whole. What
 *     compaction removed is passed over without a word.
 *  2. At most FOLLOW_TURN_SIZE, but for a single larger batch, is handed over in one turn of the
 *     loop. Memory is held only while there is something to read: FOLLOW_READ_SIZE, or one larger
 *     batch.
 *  3. on_current comes once: when all that was committed when the follow began was handed over.
 *  4. on_end comes once and last, never inside begin or stop:
 *       ERR_CANCELLED     stopped, or the broker stops
 *       ERR_NOT_FOUND     the partition is gone
 *       ERR_OUT_OF_RANGE  the log starts above the offset by now
 *       ERR_FAILED, ERR_CORRUPT, ERR_IO  its log cannot be read on, or damage hides where it ends
 *       or what on_batch said
 *
 * Shard: c's, from begin until on_end; best the one that owns the partition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/shard.h"
#include "core/timer.h"

enum {
    FOLLOW_READ_SIZE = 256 << 10,
    FOLLOW_TURN_SIZE = 64 << 10,
    FOLLOW_FROM_START = -1,
};

struct partition_follow {
    /* The caller's, before begin. */
    struct partition_id id;
    int64_t offset; /* The next one; FOLLOW_FROM_START: where the log starts. */
    void *context;
    /* The batch is valid during the call. Anything but ERR_OK ends the follow. It may call stop. */
    enum err (*on_batch)(struct partition_follow *f, struct slice batch);
    void (*on_current)(struct partition_follow *f); /* May call stop. */
    void (*on_end)(struct partition_follow *f, enum err e);
    /* Written by the follow: on_current came. */
    bool is_current;

    /* Private. */
    struct cluster *c;
    uint8_t state; /* enum follow_state */
    bool is_stopping;
    int64_t current_offset; /* Where on_current is due. */
    int64_t high_watermark; /* As of the last answer. */
    struct partition_op op;
    struct partition_cancel cancel;
    bool is_op_away;
    bool is_cancel_away;
    uint8_t *bytes;
    size_t capacity;
    size_t size;        /* Read. */
    size_t pos;         /* Handed over. */
    size_t size_needed; /* Of a batch that did not fit; 0 = none. */
    enum err end;       /* For on_end. */
    struct task task;   /* Hands over, and ends. */
    struct timer timer; /* Until there may be memory. */
};

void partition_follow_begin(struct cluster *c, struct partition_follow *f);
/* Asks for the end; more than once is harmless. Between begin and on_end. */
void partition_follow_stop(struct partition_follow *f);
