/* What one shard has on one data directory: a flusher, a store, what its logs share, a look at the
 * free space. Everything that is per (data directory, shard) is here, and lives as long as the
 * shard's cluster serves:
 *
 *   shard_dir_init -> open -> serving -> (failed) -> stop_background -> close -> done
 *
 * A failed write or sync ends a directory on its shard for good: all its logs are fail-stopped, and
 * their owners answer ERR_FAILED. on_failed says so, once; telling the other shards, or ending the
 * process, is the owner's business.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/dir_hints.h"
#include "cluster/settings.h"
#include "core/err.h"
#include "core/stats.h"
#include "core/xmsg.h"
#include "storage/log.h"
#include "storage/space.h"

struct shard;
struct shard_dir;
struct flusher;
struct store;

enum {
    SHARD_DIR_STATS_COUNT = 28,
};

struct shard_dir_owner {
    void *context;
    /* Whether a log is on this shard. */
    bool (*owns)(void *context, const struct partition_id *log);
    /* Never inside shard_dir_open. On error the directory is not to be used; close it. */
    void (*on_opened)(void *context, struct shard_dir *dir, enum err e);
    /* Its logs have been told already. May come at any time from shard_dir_open on. */
    void (*on_failed)(void *context, struct shard_dir *dir, enum err e);
    void (*on_closed)(void *context, struct shard_dir *dir);
};

/* Read by others, written by shard_dir.c. */
struct shard_dir {
    struct shard *s;
    const struct cluster_data_dir *settings;
    const struct cluster_settings *cluster_settings;
    const struct shard_dir_owner *owner;
    uint32_t index; /* In cluster_settings.data_dirs; 0 has group 0. */
    bool is_failed;

    struct flusher *flusher;
    struct store *store; /* NULL until it is open, as log_env.shared. */
    struct log_env log_env;
    struct space space;

    uint64_t failed; /* is_failed, for the metric. */
    char *stats_labels;
    struct stat stats[SHARD_DIR_STATS_COUNT];
    uint32_t stats_count;

    struct dir_hints hints;

    /* The owner's, to tell others of a failure. */
    struct xmsg failed_msg;
    struct xmsg_hop failed_route[2];
    enum err failure;
};

/* owner must outlive it. */
void shard_dir_init(struct shard_dir *dir,
                    struct shard *s,
                    const struct cluster_settings *settings,
                    uint32_t index,
                    const struct shard_dir_owner *owner);
/* After on_closed, or when it was never opened. */
void shard_dir_done(struct shard_dir *dir);

/* On error on_opened does not come. */
enum err shard_dir_open(struct shard_dir *dir);

/* Another shard found out that the directory failed. Nothing if this one knows; on_failed does not
 * come. */
void shard_dir_fail(struct shard_dir *dir, enum err e);

/* As of log_shared_set_compaction; keys_size_max is that of all directories of the shard. */
void shard_dir_set_compaction(struct shard_dir *dir, uint64_t interval_us, size_t keys_size_max);

/* No compaction or delete waits for its turn any more. */
void shard_dir_stop_background(struct shard_dir *dir);

/* The store may have put values that nobody waits for: the round that takes them still runs. After
 * a failed flush, operations that the flusher gave up on still have to come home. */
bool shard_dir_is_idle(const struct shard_dir *dir);
/* When it is idle and its logs are closed. on_closed may come inside. */
void shard_dir_close(struct shard_dir *dir);

/* Whether new logs may be put here: it works, and there is space for data. */
bool shard_dir_takes_new(struct shard_dir *dir, enum space_tier tier);
