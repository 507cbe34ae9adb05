/* What compaction may have taken from a log, and what it must have left: the same model of entries,
 * with what their keys and transactions say. It knows nothing of segments and runs.
 *
 *  1. Only what is settled may go: committed, and of no transaction that is open or before one.
 *  2. A record may go when a later settled one has its key, or its transaction was aborted.
 *  3. A tombstone may go that is the latest of its key, and so may a marker of which no data is
 *     left: delete_retention_ms after it was committed, and below what all replicas have cleaned.
 *  4. A batch may go with its records, unless it is the last one of its producer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/model_log.h"

/* The commit index rose to index. */
void model_keys_commit(struct model_log *m, uint64_t index, int64_t wall_ms);
/* No transaction below is undecided. */
int64_t model_keys_stable_offset(const struct model_log *m);
/* Its transaction was, or will be when what ended it is committed. */
bool model_keys_is_aborted(const struct model_log *m, const struct model_entry *e);

/* Of record number of the entry. */
bool model_keys_may_lack(const struct model_log *m,
                         uint64_t index,
                         int32_t number,
                         int64_t wall_ms);
/* The whole entry: also if it is below the log start. */
bool model_keys_may_be_gone(const struct model_log *m, uint64_t index, int64_t wall_ms);
