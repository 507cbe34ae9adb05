/* The doors of cluster/cluster.h without a cluster behind them, for unit tests of handlers: an
 * operation stays where it was submitted until the test says what came of it. Metadata are real.
 *
 * Like the real one it is strict: an operation is in one list at a time, on_done never runs inside
 * a submit, and a cancelled wait still ends.
 */
#pragma once

#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/partition_follow.h"
#include "cluster/settings.h"

enum {
    FAKE_OPS_MAX = 256,
    FAKE_FOLLOWS_MAX = 8,
};

struct cluster {
    struct cluster_settings settings;
    struct metadata *metadata;
    struct partition_op *ops[FAKE_OPS_MAX]; /* In flight, in order of submission. */
    uint32_t ops_count;
    struct partition_cancel *cancels[FAKE_OPS_MAX];
    uint32_t cancels_count;
    struct controller_request *requests[FAKE_OPS_MAX];
    uint32_t requests_count;
    struct partition_follow *follows[FAKE_FOLLOWS_MAX]; /* They read, and get nothing. */
    uint32_t follows_count;
};

void fake_cluster_init(struct cluster *c);
/* Nothing may be in flight. */
void fake_cluster_done(struct cluster *c);

/* A topic whose id is sixteen times the first letter of its name. */
void fake_cluster_add_topic(struct cluster *c, const char *name, int32_t partitions_count);

/* The operation on a partition, by its number; there must be exactly one. */
struct partition_op *fake_cluster_op(struct cluster *c, int32_t partition);

/* Takes it off the list; the caller fills the rest of the results first. */
void fake_cluster_end_op_at(struct cluster *c,
                            struct partition_op *op,
                            enum err result,
                            const struct partition_offsets *offsets);
/* The same; the partition stands at high watermark high, and its log starts at 0. */
void fake_cluster_end_op(struct cluster *c, struct partition_op *op, enum err result, int64_t high);

/* Ends the oldest cancellation, after its target if that is still in flight. */
void fake_cluster_end_cancel(struct cluster *c);

/* Ends the oldest follow; it must have been stopped. */
void fake_cluster_end_follow(struct cluster *c);

/* Ends the oldest request of the controller. */
void fake_cluster_end_request(struct cluster *c, enum err result);
