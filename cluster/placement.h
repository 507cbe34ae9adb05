/* Where partitions are.
 *
 * Which shard of this node serves a partition: a function of the id and the number of shards, the
 * same for ever. Nothing about it is stored, so the data directory is the same whatever --cores
 * says, and a restart with another count needs no move but the store's merge (DESIGN 4.7).
 *
 * Which data directory it is in: picked by the controller when the topic is created, and kept in
 * the command.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdint.h>

#include "core/ids.h"

/* A data directory as a home for new partitions. */
struct placement_directory {
    struct uuid id;
    uint64_t free_size;        /* Bytes that records may still take. */
    uint64_t partitions_count; /* That it has, or was given since free_size was measured. */
};

/* The one of count where a new partition goes: where it would have the largest share of what is
 * free, if all that are there took equally. So a larger disk gets more, a fuller one less, and
 * thousands created before any of them is written to spread like records that are. */
uint32_t placement_pick_directory(const struct placement_directory *directories, uint32_t count);

/* Partitions of one topic go round the shards from a start that the topic id picks. Group 0 is on
 * shard 0. */
uint16_t placement_shard(const struct partition_id *id, uint16_t shards_count);
