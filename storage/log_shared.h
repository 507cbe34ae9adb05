/* What all logs of one (data directory, shard) share: the tail cache, the list of quiet logs whose
 * D waits to be persisted, the open segment files, a block of zeros.
 *
 * Bounded: cached pages and loaded indexes by bytes, open files by count; at the limit the oldest
 * unused one goes.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "storage/pace.h"

struct shard;
struct store;
struct log_env;
struct log_shared;
struct recycle_stats;

struct log_shared_options {
    size_t cache_size_max;         /* Bytes of flushed tail pages kept for readers; 0 = none. */
    size_t ahead_size_max;         /* Bytes read ahead of readers that lag; 0 = none. */
    uint32_t ahead_chunk_size_max; /* A power of two: of one read ahead. */
    size_t pinned_size_max;        /* Bytes of buffers that answers may refer to; 0 = none. */
    uint32_t piece_size_min;       /* A smaller batch is copied. */
    size_t index_size_max;         /* Bytes of sparse indexes of sealed segments kept in memory. */
    uint32_t files_max;            /* Open segment files that nobody uses. */
    uint64_t files_idle_us;        /* One that nobody used for so long is closed; 0 = never. */
    uint64_t quiet_us;             /* How long a log is quiet before its D is persisted. */
    struct pace_limits background; /* Deletes, compaction, repacking. */
    bool is_compaction_off;        /* Logs are repacked, but not compacted. */
    uint64_t compact_interval_us;  /* Between two looks at what could be compacted. */
    size_t compact_keys_size_max;  /* Memory for keys of the one compaction that runs. */
    uint64_t recycle_size_max;     /* Bytes of files kept to become segments again; 0 = none. */
    uint64_t recycle_file_size_min;
};
extern const struct log_shared_options LOG_SHARED_OPTIONS_DEFAULT;

/* ERR_BUSY without memory. */
enum err log_shared_new(struct shard *s,
                        struct store *store,
                        const struct log_shared_options *options,
                        struct log_shared **ret_shared);
/* Files that leave the logs of env, whose shared this is, go to <dir>/recycle from now on
 * (recycle.h); without this they are removed where they are. Lists a directory, which blocks:
 * before any log is opened. ERR_BUSY without memory. */
enum err log_shared_recycle(const struct log_env *env);
/* How long compaction rests, and what memory it takes for keys: from its next rest and run on. */
void log_shared_set_compaction(struct log_shared *ls, uint64_t interval_us, size_t keys_size_max);
/* A stop begins: nothing waits for its turn in the background any more (pace_stop). */
void log_shared_stop_background(struct log_shared *ls);
/* An operation of the background is still under way. NULL: no. */
bool log_shared_is_busy(const struct log_shared *ls);
/* All logs must be closed, it is not busy, and nothing is pinned. Accepts NULL. */
void log_shared_free(struct log_shared *ls);
/* Answers still refer to its memory: it may not be freed. NULL: no. */
bool log_shared_is_pinned(const struct log_shared *ls);

/* on_writing is called when logs of ls begin to write after a rest, and again while they do. NULL =
 * nobody wants to know. */
void log_shared_on_writing(struct log_shared *ls, void *context, void (*on_writing)(void *context));
/* Somebody else writes to the same disk. */
void log_shared_others_write(struct log_shared *ls);

/* The flusher failed: every log is fail-stopped and tells its owner. To be called from the
 * flusher's on_failed. */
void log_shared_fail(struct log_shared *ls, enum err e);

struct log_shared_stats {
    uint64_t cache_used_size;
    uint64_t cache_evicted_pages;
    uint64_t cache_hits;         /* Reads answered from tail pages alone. */
    uint64_t cache_misses;       /* Reads that needed the disk. */
    uint64_t ahead_size;         /* Of buffers with what was read ahead, or is being read. */
    uint64_t ahead_read_bytes;   /* Read ahead. */
    uint64_t ahead_taken_bytes;  /* Of chunks that a reader came for, counted when they go. */
    uint64_t ahead_wasted_bytes; /* Of those nobody came for. */
    uint64_t pinned_size;        /* Of buffers that answers refer to. */
    uint64_t pinned_bytes;       /* Answered by reference. */
    uint64_t unpinned_bytes;     /* Copied instead because of the limit. */
    uint64_t pins;               /* Reads whose answers are not released. */
    uint64_t index_used_size;    /* Points of sealed segments in memory. */
    uint64_t files_open;
    uint64_t quiet_persisted; /* {D, commit} values put for quiet logs. */
    uint64_t compactions;     /* Whole runs. */
    uint64_t repacks;
    uint64_t compactions_failed;
    uint64_t compact_read_bytes;
    uint64_t compact_written_bytes;
    uint64_t compact_removed_records;
    uint64_t losses; /* Accepted ones, in the logs that are open. */
};
const struct log_shared_stats *log_shared_stats(const struct log_shared *ls);
const struct recycle_stats *log_shared_recycle_stats(const struct log_shared *ls);
