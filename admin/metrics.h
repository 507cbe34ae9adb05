/* The metrics page: what all shards count, in Prometheus' text format 0.0.4.
 *
 * Each shard copies its registry in a turn of its own, when the page's message comes by; nobody
 * reads another shard's memory. The page is written in slices, so that a large registry does not
 * hold up the partitions of the asking shard.
 *
 * Every line carries the label shard. HELP and TYPE stand once per name, in front of the lines of
 * all shards. Histograms are in seconds.
 *
 * Shard: the one that asks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct shard;

struct metrics_info {
    const char *version;
    int64_t start_wall_ms;
};

/* page is malloc'ed, ownership passes; NULL without memory. */
typedef void metrics_done_fn(void *context, uint8_t *page, size_t size);

/* on_done comes exactly once, from the loop; inside the call only without memory to begin. */
void metrics_begin(struct shard *home,
                   const struct metrics_info *info,
                   void *context,
                   metrics_done_fn *on_done);
