/* Which shard of this node serves a partition: a function of the id and the number of shards, the
 * same for ever. Nothing about it is stored, so the data directory is the same whatever --cores
 * says, and a restart with another count needs no move but the store's merge (DESIGN 4.7).
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdint.h>

#include "core/ids.h"

/* Partitions of one topic go round the shards from a start that the topic id picks. Group 0 is on
 * shard 0. */
uint16_t placement_shard(const struct partition_id *id, uint16_t shards_count);
