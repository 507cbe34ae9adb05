/* How the descriptors that the process may have are divided: a partition whose file cannot be
 * opened must never be the price of one more connection.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

enum {
    DESCRIPTORS_WHY_SIZE = 256,
};

struct descriptors_asked {
    uint64_t limit; /* RLIMIT_NOFILE, raised as far as it goes. */
    uint16_t shards_count;
    uint32_t listeners_count;
    uint32_t dirs_count; /* Data directories; files_max is for all of them together. */
    uint32_t conns_max;  /* Per shard, as configured. */
    uint32_t files_max;  /* Per shard: open segment files that nobody uses. */
};

struct descriptors {
    uint32_t conns_max; /* Per shard; at most what was asked for. */
    uint32_t files_max;
};

/* ERR_BUSY with one line in why: the limit is too low for a node. */
enum err descriptors_divide(const struct descriptors_asked *asked,
                            struct descriptors *ret_descriptors,
                            char why[DESCRIPTORS_WHY_SIZE]);
