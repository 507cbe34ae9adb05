/* Small durable values of one (data directory, shard): <data>/shard-<n>.store (DESIGN 4.7).
 *
 * A map key -> value in memory; every change is appended as a checksummed record to blocks that
 * were written before and becomes durable with the next shared flush: many values, one flush. When
 * the area is full, a snapshot of all live values opens the other area (A/B); the newest complete
 * snapshot with its valid records is what counts after a crash.
 *
 * Versions: each log's values carry one rising version; where several stores hold the same log (the
 * core count changed), the highest version per log wins.
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
    STORE_CHECKPOINT = 6, /* sub = part number. */
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

/* Opens <dir>/shard-<id>.store of the shard, creating it if there is none, and merges what other
 * store files in dir hold for logs this shard owns now. owns says whether a log is this shard's.
 * Asynchronous: on_opened comes from the loop. A file that is damaged below its last complete
 * snapshot fails with ERR_CORRUPT, a torn tail is cut. */
struct store_open {
    const char *dir;
    struct flusher *flusher;
    void *context;
    bool (*owns)(void *context, const struct partition_id *log);
    void (*on_opened)(void *context, enum err e, struct store *st);
};
enum err store_open_begin(struct shard *s, const struct store_open *how);
/* Nothing may be waiting. */
void store_free(struct store *st);

/* Changes the map now, durability comes with the next flush round. ERR_TOO_LARGE above
 * STORE_VALUE_SIZE_MAX, ERR_NO_SPACE when the store is at its limit. */
enum err store_put(struct store *st, const struct store_key *key, struct slice value);
enum err store_delete(struct store *st, const struct store_key *key);
/* Deletes all values of one log. */
enum err store_delete_log(struct store *st, const struct partition_id *log);

/* The value as last put, valid until the next change; false if there is none. */
bool store_get(const struct store *st, const struct store_key *key, struct slice *ret_value);

/* Calls on_value for each value of log and kind in rising order of sub. */
void store_each(const struct store *st,
                const struct partition_id *log,
                enum store_kind kind,
                void *context,
                void (*on_value)(void *context, uint64_t sub, struct slice value));
/* Calls on_log once for each log that has values. */
void store_each_log(const struct store *st,
                    void *context,
                    void (*on_log)(void *context, const struct partition_id *log));

/* w->on_durable runs when every change made before this call is durable. */
void store_wait_durable(struct store *st, struct store_wait *w);
