/* Inside of a store: what opening it and running it share.
 *
 * A change goes to the map at once, and as a record to pending. A round of the flusher takes all of
 * pending:
 *
 *   it fits behind the tail         -> append blocks to the area
 *   it does not                     -> snapshot of the map to the other area, new epoch
 *   the snapshot would be too large -> a larger file is made (MAKING), the snapshot is written to
 *                                      it (WRITTEN), then it replaces the old one (INSTALLING)
 *
 * Invariants:
 *  1. op and image serve one write at a time.
 *  2. The other area is overwritten only if durable_blocks >= snapshot_blocks: else it may be what
 *     counts after a crash.
 *  3. From the snapshot in a larger file until that has its name, nothing else is written: it would
 *     be in one of the two files only.
 */
#pragma once

#include "core/shard.h"
#include "storage/flusher.h"
#include "storage/store.h"
#include "storage/store_file.h"
#include "storage/store_map.h"

enum store_growth {
    STORE_GROWTH_NONE,
    STORE_GROWTH_MAKING,
    STORE_GROWTH_READY,      /* The new file waits for a round. */
    STORE_GROWTH_CLOSING,    /* It is in force; the old one is being closed. */
    STORE_GROWTH_WRITTEN,    /* The snapshot is in a round. Held from here on, invariant 3. */
    STORE_GROWTH_INSTALLING, /* It is durable; the file gets its name. */
    STORE_GROWTH_ABANDONING, /* The store is being freed. */
};

enum {
    STORE_STATS_COUNT = 4,
};

/* How far a round of the flusher takes us. */
struct store_mark {
    uint64_t epoch;
    uint64_t sequence;
    uint32_t tail_blocks;
    bool is_held; /* Nothing is durable by this round before the new file is installed. */
};

struct store {
    struct shard *s;
    struct flusher *flusher;
    struct store_owner owner;
    char *dir;
    char *path;
    char *path_new;

    struct store_map map;
    struct wbuf pending;     /* Records of changes that no round has taken yet. */
    bool needs_snapshot;     /* pending is not complete: it had become larger than a snapshot. */
    uint64_t sequence;       /* Changes made, */
    uint64_t taken_sequence; /* in a round, */
    uint64_t durable_sequence;
    struct list waiting; /* struct store_wait, by sequence. */
    struct task wake_task;

    int fd;
    uint64_t salt;
    uint32_t area_blocks;
    uint32_t area;
    uint64_t epoch;
    uint32_t snapshot_blocks;
    uint32_t tail_blocks;      /* Where the next block goes. */
    uint32_t durable_blocks;   /* Known durable, of this epoch, */
    uint32_t confirmed_blocks; /* and said so in a later block. */

    struct flush_client client;
    struct store_mark marks[2]; /* Rounds that write or flush, oldest first. */
    uint32_t marks_count;

    struct io_op op;
    bool is_op_busy;
    bool is_round_held; /* A round waits for op. */
    uint8_t *image;     /* Blocks to write. */
    size_t image_blocks;

    struct timer confirm_timer;
    enum err failure; /* Of a write outside of rounds: the next round reports it. */

    enum store_growth growth;
    struct store_birth birth;
    uint64_t growth_sequence; /* Changes that the new file holds. */
    struct timer grow_timer;  /* The next attempt, when the disk had no room. */
    bool has_growth_failed;

    bool is_closing; /* Ends when all changes are durable. */
    bool is_freed;   /* Ends when nothing is in flight. */
    void *closed_context;
    void (*on_closed)(void *context); /* May be NULL. */
    uint64_t snapshots;
    uint64_t growths;
    uint64_t blocks_written;
    const char *stats_labels;
    struct stat exported[STORE_STATS_COUNT]; /* Registered from store_start on. */
};

/* store.c, for store_open.c. */

/* Memory for st but the file. NULL without memory. */
struct store *store_new(struct shard *s, const struct store_open *how);
/* The reverse; fd must be closed. */
void store_delete_memory(struct store *st);
/* Makes image hold the map as a snapshot of st->epoch and sets the counts of blocks; durable_blocks
 * as it is. ERR_TOO_LARGE if it has more blocks than an area, ERR_BUSY. */
enum err store_encode_snapshot(struct store *st);
/* The snapshot of the open is durable: changes may come. */
void store_start(struct store *st);
/* Areas for a new file that live values fit into with room to spare. */
uint32_t store_area_blocks_for(const struct store *st, uint32_t area_blocks_min);
