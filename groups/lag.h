/* How far groups are behind, and how many there are, as metrics of this shard: for the groups whose
 * coordinators are here, wherever the partitions lie that they consume.
 *
 *   coreflume_group_lag_records{group,topic}    all partitions together
 *   coreflume_group_lag_seconds{group,topic}    the partition that is furthest behind
 *   coreflume_group_partition_lag_records{group,topic,partition}, ..._seconds
 *   coreflume_groups{state}, coreflume_group_members, coreflume_group_offsets, ...
 *
 * Records: the end minus the committed offset, as Kafka's tools count them, also those that are
 * gone meanwhile. Seconds: now minus the time of the batch with the first of them that is there; 0
 * when nothing is left to read. Times are remembered by offset, so a group that stands still costs
 * no reading.
 *
 * What is not known is not told: of a partition that cannot be read, or whose record has no time,
 * and of its topic. coreflume_group_lag_unknown counts those offsets.
 *
 * Nothing is done per commit: a pass looks at all groups, some per turn of the loop, keeps a few
 * operations in flight, and rests, by how much it had to look at: LAG_PERIOD_MS, a minute at most.
 * Series are bounded: the first LAG_SERIES_MAX topics of groups and as many partitions have some,
 * of the first offsets; coreflume_group_lag_is_cut says that there are more.
 *
 * Shard: every shard has one; the owner's.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"

struct cluster;
struct coordinator;
struct group_counters;
struct group_memory;
struct lag;
struct shard;

enum {
    LAG_SERIES_MAX = 1000,
    LAG_OFFSETS_MAX = 100000, /* Committed offsets that one pass looks at, */
    LAG_LINES_MAX = 10000,    /* and those of them whose lag it finds out. */
    LAG_PERIOD_MS = 2000,
};

struct lag_options {
    struct shard *s;
    struct cluster *cluster;
    const struct group_memory *memory;
    const struct group_counters *counters;
    void *context;
    /* The shard's coordinators are those of partitions below partitions_count; NULL = there is no
     * active one. */
    int32_t (*partitions_count)(void *context);
    const struct coordinator *(*coordinator_at)(void *context, int32_t partition);
};

/* The first pass comes soon. ERR_BUSY without memory. */
enum err lag_new(const struct lag_options *o, struct lag **ret_lag);
/* No further pass; what is in flight is answered while the cluster stops. Harmless twice. */
void lag_quiesce(struct lag *l);
/* Nothing is in flight any more. Accepts NULL. */
void lag_free(struct lag *l);
