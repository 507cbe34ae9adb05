/* Record batches with contents that say where they belong, for both modes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/batch.h"

#include "tests/sim/sim.h"

/* Of a batch with keys that come again. */
struct made_record {
    uint32_t key;
    bool is_tombstone;
};

struct made_batch {
    uint8_t *bytes; /* malloc'd. */
    size_t size;
    int32_t records_count;
    int64_t *timestamps; /* malloc'd, one per record. */
    int64_t max_timestamp;
    struct made_record *records; /* malloc'd, one per record; NULL where each key is another. */
};

struct batch_wish {
    const char *label; /* In every key that comes once; unique together with number. */
    uint64_t number;
    int32_t records_count;
    uint32_t record_size_max;
    int64_t wall_ms;
    struct batch_identity identity;
    bool is_zstd_allowed; /* Old versions of Produce and Fetch do not know it. */
    uint32_t keys_count;  /* Each key is one of so many; 0 = each is another. */
    bool is_transactional;
};

struct made_batch batch_make(struct sim *sim, const struct batch_wish *wish);
/* What ends a transaction of the identity's producer. */
struct made_batch batch_make_marker(struct sim *sim,
                                    const struct batch_identity *identity,
                                    int64_t wall_ms,
                                    bool is_commit);
void batch_unmake(struct made_batch *b);
