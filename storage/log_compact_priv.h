/* The inside of compaction and repacking, for the files it is split into:
 *
 *   log_paced.c     a walk in the background: so much per turn of the loop, at the shard's pace
 *   log_rewrite.c   neighbouring sealed segments become one new file, which takes their place
 *   log_compact.c   which log is next, and what is done with it; the rules are in compaction.h
 *
 * How the new file takes the place of the old ones (DESIGN 4.3, 4.10):
 *
 *   rewrite.tmp written, fsync, rename to <base>-<version>.log, fsync of the directory
 *   -> one manifest record {.., end_index, file_version}: from the flush that makes it durable on,
 *      it alone says what [base, end_index) is; records of the others are deleted behind it
 *   -> in memory at once: new walks see the new segment, those under way keep the old ones
 *      (log_retire); their files go when the record is durable and nobody holds them
 *
 * A crash before the record is durable leaves the old set and a file that no record names; one
 * after it leaves the new set and files that no record names. Either way the next start removes
 * what is not named. Nothing here waits for the store, so nothing has to be undone there.
 *
 * Rules:
 *  1. Only sealed segments without cuts or damage in what is kept, below the commit index and the
 *     flushed index: no cut and no recovery ever comes back to them.
 *  2. One run per shard, one log at a time; a run gives way to a cut, a close and the log start.
 *  3. Index, term, offsets, entry id and predecessor of an entry are copied. The rest of a header
 *     is of the new file: its salt, the log's generation, D = the index before (all of it is
 *     durable).
 *
 * Shard: the owner's.
 */
#pragma once

#include "storage/compaction.h"
#include "storage/log_priv.h"

enum {
    COMPACT_TURN_NS = 150 * 1000,   /* Work in one turn of the loop, by the engine's table. */
    COMPACT_CHUNK_SIZE = 256 << 10, /* Bytes between two turns of the shard's pace. */
    COMPACT_BUF_SIZE = 512 << 10,   /* Of what is written; grows for a larger entry. */
    COMPACT_COPY_BYTES_PER_NS = 4,  /* As in compaction.c. */
    COMPACT_ENTRY_NS = 50,
};

/* ---- log_paced.c ---- */

enum paced_verdict {
    PACED_ON,
    PACED_PAUSE, /* on_paused; log_paced_go goes on behind this entry. */
    PACED_END,   /* on_end(ERR_OK) */
};

enum paced_state {
    PACED_IDLE, /* Before the start, paused, ended. */
    PACED_WAIT_WALK,
    PACED_WAIT_TURN, /* Of the loop. */
    PACED_WAIT_PACE,
};

struct log_paced {
    /* Set by the owner before log_paced_start. */
    struct log *log;
    enum paced_verdict (*on_entry)(struct log_paced *p, const struct scan_result *entry);
    void (*on_paused)(struct log_paced *p);
    /* ERR_OK by the verdict or at the end of the log, ERR_CORRUPT, ERR_CANCELLED after
     * log_paced_stop or when the background stops, or what the disk said. Idle then. */
    void (*on_end)(struct log_paced *p, enum err e);

    uint64_t cost_ns; /* Of this turn; the owner adds to it. */
    uint64_t bytes;   /* Since the last turn of the pace; the owner adds what it writes. */

    enum paced_state state; /* Private, as what follows. */
    bool is_stopping;
    bool is_paused; /* Else ended, by the last verdict. */
    struct log_walk walk;
    struct task task;
    struct pace_wait pace;
};

void log_paced_init(struct log_paced *p, struct log *l);
/* Entries of seg, and those behind it; payloads of entries that end at or below skip_offset are
 * null. on_end may not come before this returns. */
void log_paced_start(struct log_paced *p, struct log_segment *seg, int64_t skip_offset);
void log_paced_go(struct log_paced *p);
/* Ends soon, with ERR_CANCELLED; at once, without on_end, if it is idle: true. */
bool log_paced_stop(struct log_paced *p);
/* Idle. Gives memory and segments back. */
void log_paced_done(struct log_paced *p);

/* ---- log_rewrite.c ---- */

struct log_rewrite_stats {
    uint64_t read_size;    /* Of the old files. */
    uint64_t written_size; /* Of the new one; 0 = there is none, nothing changed. */
    uint64_t entries_removed;
    uint64_t old_size; /* On disk, of the files it takes the place of. */
    uint32_t segments_count;
    uint64_t next_index; /* Behind what was read. */
};

struct log_rewrite;

/* Rewrites first and those behind it that takes_more says. judge says what becomes of each entry,
 * and what that cost; NULL = all stay. Nothing is swapped if nothing changes. on_done from the
 * loop. ERR_BUSY without memory. */
struct log_rewrite_begin {
    struct log_segment *first;
    /* The file has size bytes so far: whether next goes into it, too. NULL = never. */
    bool (*takes_more)(void *context, const struct log_segment *next, uint64_t size);
    uint64_t (*judge)(void *context,
                      const struct scan_result *entry,
                      struct compaction_result *ret);
    void (*on_done)(void *context, enum err e, const struct log_rewrite_stats *stats);
    void *context;
};
enum err log_rewrite_start(const struct log_rewrite_begin *how, struct log_rewrite **ret_rewrite);
/* on_done comes soon. */
void log_rewrite_stop(struct log_rewrite *rw);
bool log_rewrite_has(const struct log_rewrite *rw, const struct log_segment *seg);
