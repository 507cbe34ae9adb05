/* Record batches with contents that say where they belong, for both modes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/batch.h"

#include "tests/sim/sim.h"

struct made_batch {
    uint8_t *bytes; /* malloc'd. */
    size_t size;
    int32_t records_count;
    int64_t *timestamps; /* malloc'd, one per record. */
    int64_t max_timestamp;
};

struct batch_wish {
    const char *label; /* In every key; unique together with number. */
    uint64_t number;
    int32_t records_count;
    uint32_t record_size_max;
    int64_t wall_ms;
    struct batch_identity identity;
    bool is_zstd_allowed; /* Old versions of Produce and Fetch do not know it. */
};

struct made_batch batch_make(struct sim *sim, const struct batch_wish *wish);
void batch_unmake(struct made_batch *b);
