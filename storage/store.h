/* Small durable values of one (data directory, shard): <data>/shard-<n>.store (DESIGN 4.7).
 *
 * A map key -> value in memory; every change is appended as a checksummed record to blocks that
 * were written before and becomes durable with the next shared flush: many values, one flush. When
 * the area is full, a snapshot of all live values opens the other area (A/B); the newest complete
 * snapshot with its valid records is what counts after a crash. What survives a crash is always the
 * state after some prefix of the changes, and never less than what was reported durable. Layout:
 * store_format.h.
 *
 * Bounded: a store that outgrows its areas gets a file twice as large, up to a limit; at the limit,
 * or when the disk has no room for that, store_put is refused with ERR_NO_SPACE and whatever does
 * not add is still taken.
 *
 * Another core count: which shard a log is on follows from the number of shards, so a store is only
 * good for one such number. data_dir_open merges what it finds for others before any store is
 * opened (store_merge.h): each log's values carry one rising version, and the highest version per
 * log wins. store_drop_stale ends that when all shards have opened their stores.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/slice.h"

struct shard;
struct flusher;
struct store;

enum {
    STORE_VALUE_SIZE_MAX = 64 << 10,
};

enum store_kind {
    STORE_VOTE = 1,    /* sub 0: term, voted for. */
    STORE_DURABLE = 2, /* sub 0: D, its generation, commit index. */
    STORE_SEGMENT = 3, /* sub = base index: the manifest record of a segment. */
    STORE_CUT = 4,     /* sub = generation after the cut: intent and, later, where readers jump. */
    STORE_REPLICA = 5, /* sub 0: replica id. */
    STORE_CHECKPOINT = 6, /* sub 0: the checkpoint, or what names its file. */
    STORE_CLEAN = 7,      /* sub 0: how far the log is compacted. */
    STORE_HOLE = 8,       /* sub = first index: damage that was accepted as lost. */
};

struct store_key {
    struct partition_id log;
    uint32_t kind; /* enum store_kind */
    uint64_t sub;
};

/* Somebody waiting for durability of what was put before. */
struct store_wait {
    struct list link;                         /* Private. */
    uint64_t sequence;                        /* Private. */
    void (*on_durable)(struct store_wait *w); /* From the loop, never inside store_wait_durable. */
};

/* Opens <dir>/shard-<id>.store of the shard or, if there is none, makes it, from what the merge
 * left in dir of the logs that this shard owns. Asynchronous: on_opened comes from the loop; st is
 * NULL on error. A torn tail is cut. ERR_CORRUPT       damage below what was durable; a log line
 * names file and position ERR_NEWER_FORMAT ERR_FOREIGN       made for another number of shards, and
 * not merged, or for another data directory ERR_NO_SPACE, ERR_IO, ERR_BUSY
 */
struct store_open {
    const char *dir; /* Copied. */
    struct uuid directory_id;
    struct flusher *flusher;
    void *context;
    /* Whether a log is this shard's; NULL = all are. */
    bool (*owns)(void *context, const struct partition_id *log);
    void (*on_opened)(void *context, enum err e, struct store *st);
    uint32_t area_blocks_min; /* Of a new file, in 4 KiB; 0 = the default. */
    const char *stats_labels; /* Must outlive the store; NULL = the shard's. */
};
enum err store_open_begin(struct shard *s, const struct store_open *how);
/* Ends st: changes made before become durable, waiters are told, the file is closed; then on_closed
 * from the loop, when st is gone and nothing of it is in flight. After a failure of the flusher it
 * waits for what is in flight only. No change may be made, nor waiting begun, afterwards. The
 * flusher must live until on_closed. */
void store_close(struct store *st, void *context, void (*on_closed)(void *context));
/* The same, without being told: turn the loop until io has nothing in flight. Accepts NULL. */
void store_free(struct store *st);

/* Shard 0, when all shards have opened their stores in dir: removes what the merge left there.
 * Nobody needs to wait for it; not calling it only makes the next start merge again. */
void store_drop_stale(struct shard *s, const char *dir);

/* Changes the map now, durability comes with the next flush round. ERR_TOO_LARGE above
 * STORE_VALUE_SIZE_MAX, ERR_NO_SPACE when the store is at its limit. */
enum err store_put(struct store *st, const struct store_key *key, struct slice value);
enum err store_delete(struct store *st, const struct store_key *key);
/* Deletes all values of one log. */
enum err store_delete_log(struct store *st, const struct partition_id *log);

/* The value as last put, valid until the next change; false if there is none. */
bool store_get(const struct store *st, const struct store_key *key, struct slice *ret_value);

/* Calls on_value for each value of log and kind in rising order of sub. on_value may not change the
 * store. */
void store_each(const struct store *st,
                const struct partition_id *log,
                enum store_kind kind,
                void *context,
                void (*on_value)(void *context, uint64_t sub, struct slice value));
/* Calls on_log once for each log that has values; on_log may delete that log. */
void store_each_log(const struct store *st,
                    void *context,
                    void (*on_log)(void *context, const struct partition_id *log));

/* w->on_durable runs when every change made before this call is durable; waiters in order. Never if
 * the flusher fails. */
void store_wait_durable(struct store *st, struct store_wait *w);
/* Takes back a wait; harmless if w is not waiting. w must have been used or set to zero. */
void store_wait_cancel(struct store *st, struct store_wait *w);

/* On the metrics page as coreflume_store_... of the shard. */
struct store_stats {
    uint64_t changes;
    uint64_t snapshots; /* Areas switched. */
    uint64_t growths;   /* Files replaced by larger ones. */
    uint64_t live_size; /* bytes of records */
    uint64_t logs_count;
    uint64_t blocks_written;
};
void store_stats(const struct store *st, struct store_stats *ret_stats);
