/* How the transactions of a range of a log ended, for compaction: records of aborted ones go, and
 * nothing may be decided about one that is still open. An engine; batches come in order.
 *
 * Bounded: with more transactions open or aborted than fit, what is known ends there
 * (compaction_txns_known_end), and compaction with it; the next run goes on behind.
 *
 * Shard: pure; the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "storage/batch.h"

enum {
    COMPACTION_TXNS_OPEN_MAX = 1024,
    COMPACTION_TXNS_ABORTED_MAX = 4096,
};

struct compaction_txn {
    int64_t producer_id;
    int64_t first_offset;
    int64_t marker_offset; /* Of aborted ones. */
};

struct compaction_txns {
    struct compaction_txn *open;
    uint32_t open_count;
    struct compaction_txn *aborted;
    uint32_t aborted_count;
    bool is_full;
    int64_t full_offset; /* Batches from here on were not taken. */
};

/* ERR_BUSY without memory. */
enum err compaction_txns_init(struct compaction_txns *t);
/* Harmless on a zeroed one. */
void compaction_txns_done(struct compaction_txns *t);

/* A batch, data or control. False: full, and so are all that follow. */
bool compaction_txns_note(struct compaction_txns *t,
                          const struct batch_header *h,
                          struct slice batch);
/* No more batches come: what happens to records below this offset is known. INT64_MAX: all of it.
 */
int64_t compaction_txns_known_end(const struct compaction_txns *t);
/* Of a transactional batch below that. */
bool compaction_txns_is_aborted(const struct compaction_txns *t, const struct batch_header *h);
