/* How many shards, on which CPUs, with how much memory each.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"

enum {
    CORES_WHY_SIZE = 512,
    MEMORY_PER_SHARD_MIN = 16 << 20,
    MEMORY_PER_SHARD_DEFAULT = 256 << 20,
};

struct cores {
    int cpus[SHARDS_MAX];
    uint16_t count;
};

/* text: "all", or numbers and ranges ("0-3,6"). ERR_CONFIG_INVALID with one line in why. */
enum err cores_choose(struct cores *cores, const char *text, char why[CORES_WHY_SIZE]);

/* Bytes of buffers for each shard, a power of two. asked_size: over all shards; 0 = by the machine.
 * ERR_CONFIG_INVALID with one line in why: too little, or more than the machine has. */
enum err memory_per_shard(uint64_t asked_size,
                          uint16_t shards_count,
                          size_t *ret_size,
                          char why[CORES_WHY_SIZE]);
