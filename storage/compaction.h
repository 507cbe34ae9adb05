/* What compaction keeps (DESIGN 4.10; Kafka's rules: KIP-98, KIP-534, KIP-354). An engine: entries
 * in order in, verdicts out. log_compact.c reads and writes for it.
 *
 * One run looks at a log like this, all offsets:
 *
 *     log start     clean_offset      keys_end            bound
 *     | clean: keys | dirty, looked   | dirty, for the    | last stable, not in
 *     | are unique  | at by this run  | next run          | the last segment
 *
 *  1. Keys of [clean_offset, keys_end) are learnt, with their latest offset; keys_end is where the
 *     key map is full. Below keys_end a record stays if no later one of its key was learnt.
 *  2. A record without value (tombstone) stays like any other until it has been seen for
 *     delete.retention.ms: the run that makes it the latest of its key writes the delete horizon
 *     into its batch, a later run drops it behind that, and only if its index is below clean_index:
 *     below that nothing superseded remains on any replica that could still serve it.
 *  3. Records of aborted transactions go. The marker of a transaction stays as long as the run met
 *     data of it, and then as a tombstone does: horizon, clean_index.
 *  4. The last batch of a producer stays, if need be without records: the next sequence is known by
 *     it after a restart.
 *  5. Records without key go; entries that are no data stay, but for no-ops and gaps.
 *  6. What a batch keeps keeps its offsets, timestamps and producer fields; codec and base offset
 *     stay, the last offset delta too. A batch that cannot be read stays as it is.
 *  7. From keys_end on nothing changes.
 *
 * Bounded: key map by size, transactions by number, memory for records by
 * COMPACTION_RECORDS_SIZE_MAX.
 *
 * Shard: pure; the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/batch.h"
#include "storage/compaction_txn.h"
#include "storage/entry.h"
#include "storage/key_map.h"

enum {
    COMPACTION_RECORDS_SIZE_MAX = 64 << 20, /* Of one batch, decompressed. */
};

/* A topic's settings. */
struct compaction_config {
    bool is_compacted;      /* cleanup.policy has "compact". */
    double dirty_ratio_min; /* min.cleanable.dirty.ratio */
    int64_t lag_ms_min;     /* min.compaction.lag.ms */
    int64_t lag_ms_max;     /* max.compaction.lag.ms */
    int64_t delete_retention_ms;
};

/* ---- is a run due? ---- */

/* Fed with the sealed segments of a log in order. */
struct compaction_tally {
    const struct compaction_config *config;
    int64_t clean_offset;
    int64_t bound_offset; /* Nothing from here on may be touched. */
    int64_t now_ms;

    uint64_t clean_size;
    uint64_t dirty_size;
    int64_t dirty_since_ms; /* When the first dirty segment was written; -1 = not known. */
    int64_t end_offset;     /* What a run may look at ends here. */
    bool is_ended;          /* At a segment that may not be touched yet. */
};

struct compaction_segment {
    int64_t base_offset;
    int64_t next_offset; /* Base of the segment behind it. */
    uint64_t size;
    int64_t first_timestamp; /* -1 = not known. */
    int64_t max_timestamp;   /* -1 = none. */
};
void compaction_tally_add(struct compaction_tally *t, const struct compaction_segment *seg);
/* Enough is dirty, or dirty for long enough. */
bool compaction_is_due(const struct compaction_tally *t);

/* ---- a run ---- */

struct compaction_options {
    int64_t clean_offset;
    int64_t end_offset;   /* keys_end is not above this. */
    uint64_t clean_index; /* Rule 2; the minimum over all replicas. */
    int64_t now_ms;
    int64_t delete_retention_ms;
    uint64_t keys_size_max;
    uint64_t secret[2];
    /* Rule 4. Of a data or control batch that would lose all records. */
    bool (*is_last_of_producer)(void *context, const struct batch_header *h);
    void *context;
};

enum compaction_verdict {
    COMPACTION_KEEP,
    COMPACTION_REWRITE, /* payload and max_timestamp are the new ones. */
    COMPACTION_REMOVE,
};

struct compaction_result {
    enum compaction_verdict verdict;
    struct slice payload; /* Valid until the next call. */
    int64_t max_timestamp;
};

struct compaction_counters {
    uint64_t records_read;
    uint64_t records_removed;
    uint64_t tombstones_removed;
    uint64_t markers_removed;
    uint64_t batches_unreadable;
};

struct compaction {
    struct compaction_options options;
    struct key_map keys;
    int64_t keys_end;
    struct compaction_txns txns;
    bool has_txns; /* There are transactional batches: outcomes are needed before the keys. */
    int64_t *open; /* Producers whose data was judged since their last marker. */
    uint32_t open_count;
    bool is_open_full; /* Then all markers stay. */
    struct wbuf plain; /* Records, decompressed; what becomes of them; the new batch. */
    struct wbuf marks;
    struct wbuf kept;
    struct wbuf batch;
    uint64_t cost_ns; /* Of what was done, by a table; the caller sets it back. */
    struct compaction_counters counters;
};

/* ERR_BUSY without memory. */
enum err compaction_init(struct compaction *c, const struct compaction_options *o);
void compaction_done(struct compaction *c);

/* First, of data in [clean_offset, end_offset): false where the range of this run ends, because the
 * map is full, at end_offset, or at a transaction whose outcome is not known. If has_txns became
 * true meanwhile (then it is false, too): compaction_learn_outcome for all data from clean_offset
 * to the bound, until that is false; then this once more, from the start. */
bool compaction_learn_keys(struct compaction *c, const struct entry_header *h, struct slice batch);
bool compaction_learn_outcome(struct compaction *c,
                              const struct entry_header *h,
                              struct slice batch);
/* True if the two have to be called as described. */
enum err compaction_begin_outcomes(struct compaction *c);
void compaction_end_outcomes(struct compaction *c);

/* Then, of all entries from the log start, in order. */
void compaction_judge(struct compaction *c,
                      const struct entry_header *h,
                      struct slice payload,
                      struct compaction_result *ret);
