/* Files of segments that left their log: kept to become segments again, so that those need no zeros
 * (DESIGN 4.2), or waiting to be removed at the shard's pace.
 *
 *   <data>/recycle/<shard>-<start, 16 hex digits>-<number>
 *
 * Rules:
 *  1. No name in that directory is ever live, and nobody reads one: a log gives a file away when
 *     the store, durably, no longer names it and nobody uses it, and takes one by renaming it to a
 *     name that its own recovery removes. A start takes nothing from what an earlier one left, it
 *     removes it. So it does not matter which names of a file a crash leaves, even two of them.
 *  2. A file is kept if all of its blocks below written_size were written and are durable with
 *     their extents. What they hold counts for nothing in its next life: salts differ (entry.h, 2).
 *  3. Kept files are bounded by size and count: the oldest goes for a new one. They are given back
 *     when the disk comes near its reserve (space.h), before anybody is refused.
 *  4. Files are removed one at a time, at the shard's pace: freeing the extents of a large file
 *     keeps the file system's journal busy, and others wait for that. While space is tight they go
 *     one after the other without waiting for turns: a refusal is worse than a slow journal.
 *  5. The directory may be removed while the shard runs, with all that is in it: what leaves a log
 *     then is unlinked, and the directory made again.
 *
 *   the worker:  IDLE -> [WAIT_PACE ->] WAIT_UNLINK -> [WAIT_SYNC ->] IDLE
 *
 * The sync comes when space is tight and nothing more is to be removed: what a file system frees
 * can be used when its journal says so, which may be seconds later.
 *
 * Shard: the owner's. One per (data directory, shard).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"
#include "core/list.h"
#include "core/timer.h"
#include "storage/pace.h"

struct shard;
struct space;
struct flusher;

enum {
    RECYCLE_COUNT_MAX = 256, /* Files kept. */
    /* Of a file that is not to be kept, in place of its size. */
    RECYCLE_SIZE_UNKNOWN = 0,
    RECYCLE_SIZE_SMALL = 1,
    /* Of a segment where nobody said otherwise (segment.bytes): with less nothing is kept then. */
    RECYCLE_SEGMENT_SIZE = 1 << 30,
};

struct recycle_options {
    const char *dir;         /* The data directory. */
    uint64_t size_max;       /* Bytes kept; 0 = none. */
    uint64_t file_size_min;  /* Smaller ones are not worth it, nor worth a turn of their own. */
    struct pace *pace;       /* Must outlive it, as what follows. */
    struct space *space;     /* NULL: as much as the disk has. */
    struct flusher *flusher; /* Hears of failed syncs. */
};

enum recycle_state {
    RECYCLE_IDLE,
    RECYCLE_WAIT_PACE,
    RECYCLE_WAIT_UNLINK,
    RECYCLE_WAIT_SYNC,
};

struct recycle_stats {
    uint64_t kept_size; /* bytes */
    uint64_t kept_count;
    uint64_t hits;    /* Segments that began with a kept file. */
    uint64_t misses;  /* Those that would have, had there been one. */
    uint64_t removed; /* Files. */
    uint64_t waiting; /* Files to be removed. */
};

struct recycle {
    struct shard *s;
    struct recycle_options options;
    char *path; /* Of the directory; NULL: nothing is kept, files are removed where they are. */
    uint64_t start;
    uint64_t number_next;
    bool is_ready; /* The directory is there. */
    bool is_stopped;
    struct list kept;   /* struct recycled, oldest first. */
    struct list doomed; /* Likewise. */
    enum recycle_state state;
    char *unlink_path;
    struct io_op op; /* The worker's. */
    struct io_op mkdir_op;
    bool is_making_dir;
    struct pace_wait pace_wait;
    struct timer look_timer; /* Armed while files are there: is the disk filling up? */
    struct recycle_stats stats;
};

/* A file of the directory, by number. */
struct recycle_file {
    uint64_t number;
    uint64_t written_size;
};

/* size_max of one of shards_count shards on a file system of that size: what was asked for, and
 * together no more than a tenth of it. */
uint64_t recycle_size_max(uint64_t asked_size, uint64_t fs_size, uint32_t shards_count);

/* Nothing is kept, and no directory is touched, until recycle_start. */
void recycle_init(struct recycle *rc, struct shard *s);
/* Lists the directory, which blocks: for start-up. ERR_BUSY without memory. */
enum err recycle_start(struct recycle *rc, const struct recycle_options *options);
/* Nothing is begun any more; what waits stays for the next start. */
void recycle_stop(struct recycle *rc);
/* An operation is under way: not to be freed yet. */
bool recycle_is_busy(const struct recycle *rc);
void recycle_done(struct recycle *rc);

/* Whether a discard of a file of that size is a rename. */
bool recycle_takes(const struct recycle *rc, uint64_t written_size);

/* What to give for a file of which only the path is known. Blocks: for start-up. */
uint64_t recycle_size_of(const struct recycle *rc, const char *path);

/* Takes away the file at path: by a rename to here, where it is kept or waits to be removed; or by
 * an unlink, where there is no directory, the file is small, or the rename failed.
 *
 *   [WAIT_RENAME ->] [WAIT_UNLINK ->] on_done
 *
 * Embedded in its owner, who must stay until on_done. */
struct recycle_discard {
    const char *path;      /* Set by the owner, as what follows; must outlive it. */
    uint64_t written_size; /* As in rule 2, or one of those above. */
    /* Of the loop, never inside of recycle_discard. ERR_NOT_FOUND if there was no such file. */
    void (*on_done)(struct recycle_discard *d, enum err e);

    struct recycle *rc; /* Private, as what follows. */
    uint64_t number;
    char *new_path;      /* While it is renamed. */
    bool is_rename_lost; /* The rename found no such file, or no directory. */
    struct io_op op;
};
void recycle_discard(struct recycle *rc, struct recycle_discard *d);

/* Taking the largest kept file of at most size_max and at least half of it. False: there is none.
 * The caller renames it to a name of its own; if that fails, the file is the next start's. */
bool recycle_take(struct recycle *rc, uint64_t size_max, struct recycle_file *ret_file);

/* malloc'd; panics without memory. */
char *recycle_path(const struct recycle *rc, uint64_t number);
