#include "cluster/shard_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/shard.h"
#include "storage/flusher.h"
#include "storage/log_shared.h"
#include "storage/recycle.h"
#include "storage/store.h"

/* ---- metrics ---- */

/* shard="0",dir="/data": the value escaped as Prometheus wants it. */
static char *make_labels(const struct shard *s, const char *path)
{
    const size_t size = strlen(s->stats_label) + strlen(path) * 2 + sizeof(",dir=\"\"");
    char *labels = memory_alloc(size);
    char *at = labels + snprintf(labels, size, "%s,dir=\"", s->stats_label);
    for (; *path != '\0'; path++) {
        if (*path == '\\' || *path == '"' || *path == '\n') {
            *at++ = '\\';
        }
        *at++ = *path == '\n' ? 'n' : *path;
    }
    *at++ = '"';
    *at = '\0';
    return labels;
}

static void add_stat(struct shard_dir *dir, const struct stat *st)
{
    assert_cmp(dir->stats_count, <, SHARD_DIR_STATS_COUNT);
    struct stat *added = &dir->stats[dir->stats_count++];
    *added = *st;
    added->labels = dir->stats_labels;
    stats_add(&dir->s->stats, added);
}

static void add_space_stats(struct shard_dir *dir)
{
    const struct stat described[] = {
        {.kind = STAT_GAUGE,
         .name = "coreflume_disk_available_bytes",
         .help = "Free on the data directory's file system, when the shard last needed some.",
         .value = &dir->space.available_size},
        {.kind = STAT_GAUGE,
         .name = "coreflume_disk_full",
         .help = "1 while the reserve is all that is left on the disk, and records are refused.",
         .value = &dir->space.is_short},
        {.kind = STAT_COUNTER,
         .name = "coreflume_disk_refused_total",
         .help = "Appends, and space ahead of them, refused to keep the disk's reserve.",
         .value = &dir->space.refused},
        {.kind = STAT_GAUGE,
         .name = "coreflume_disk_failed",
         .help = "1 after a failed write or flush: the directory is not used until a restart.",
         .value = &dir->failed},
    };
    for (size_t i = 0; i < sizeof(described) / sizeof(described[0]); i++) {
        add_stat(dir, &described[i]);
    }
}

static void add_read_stats(struct shard_dir *dir)
{
    const struct log_shared_stats *n = log_shared_stats(dir->log_env.shared);
    const struct stat described[] = {
        {.kind = STAT_COUNTER,
         .name = "coreflume_cache_hits_total",
         .help = "Reads answered from the tails of logs in memory.",
         .value = &n->cache_hits},
        {.kind = STAT_COUNTER,
         .name = "coreflume_cache_misses_total",
         .help = "Reads that needed the disk, or what was read ahead from it.",
         .value = &n->cache_misses},
        {.kind = STAT_GAUGE,
         .name = "coreflume_cache_bytes",
         .help = "Memory that tails of logs take which are on disk, too.",
         .value = &n->cache_used_size},
        {.kind = STAT_GAUGE,
         .name = "coreflume_readahead_bytes",
         .help = "Memory for what is read ahead of lagging readers.",
         .value = &n->ahead_size},
        {.kind = STAT_COUNTER,
         .name = "coreflume_readahead_read_bytes_total",
         .help = "Bytes read ahead of lagging readers.",
         .value = &n->ahead_read_bytes},
        {.kind = STAT_COUNTER,
         .name = "coreflume_readahead_taken_bytes_total",
         .help = "Of those, what a reader came for.",
         .value = &n->ahead_taken_bytes},
        {.kind = STAT_COUNTER,
         .name = "coreflume_readahead_wasted_bytes_total",
         .help = "Of those, what no reader came for.",
         .value = &n->ahead_wasted_bytes},
        {.kind = STAT_GAUGE,
         .name = "coreflume_pinned_bytes",
         .help = "Memory that answers refer to which consumers have not taken yet.",
         .value = &n->pinned_size},
        {.kind = STAT_COUNTER,
         .name = "coreflume_referred_bytes_total",
         .help = "Bytes answered by reference.",
         .value = &n->pinned_bytes},
        {.kind = STAT_COUNTER,
         .name = "coreflume_pin_refused_bytes_total",
         .help = "Bytes copied because consumers held too much memory already.",
         .value = &n->unpinned_bytes},
    };
    for (size_t i = 0; i < sizeof(described) / sizeof(described[0]); i++) {
        add_stat(dir, &described[i]);
    }
}

static void add_log_stats(struct shard_dir *dir)
{
    const struct log_shared_stats *n = log_shared_stats(dir->log_env.shared);
    const struct stat described[] = {
        {.kind = STAT_GAUGE,
         .name = "coreflume_log_losses_accepted",
         .help = "Damaged ranges that were given up with 'coreflume log repair', while their files "
                 "are there.",
         .value = &n->losses},
        {.kind = STAT_COUNTER,
         .name = "coreflume_compactions_total",
         .help = "Runs of compaction that went through.",
         .value = &n->compactions},
        {.kind = STAT_COUNTER,
         .name = "coreflume_repacks_total",
         .help = "Segments rewritten without the padding of tiny batches.",
         .value = &n->repacks},
        {.kind = STAT_COUNTER,
         .name = "coreflume_compactions_failed_total",
         .help = "Compactions and repackings that ended with an error.",
         .value = &n->compactions_failed},
        {.kind = STAT_COUNTER,
         .name = "coreflume_compact_read_bytes_total",
         .help = "Bytes read by compaction and repacking.",
         .value = &n->compact_read_bytes},
        {.kind = STAT_COUNTER,
         .name = "coreflume_compact_written_bytes_total",
         .help = "Bytes written by compaction and repacking.",
         .value = &n->compact_written_bytes},
        {.kind = STAT_COUNTER,
         .name = "coreflume_compact_removed_records_total",
         .help = "Records removed by compaction.",
         .value = &n->compact_removed_records},
    };
    for (size_t i = 0; i < sizeof(described) / sizeof(described[0]); i++) {
        add_stat(dir, &described[i]);
    }
}

static void add_recycle_stats(struct shard_dir *dir)
{
    const struct recycle_stats *n = log_shared_recycle_stats(dir->log_env.shared);
    const struct stat described[] = {
        {.kind = STAT_GAUGE,
         .name = "coreflume_recycle_bytes",
         .help = "Files of deleted segments kept to be used again.",
         .value = &n->kept_size},
        {.kind = STAT_COUNTER,
         .name = "coreflume_recycle_hits_total",
         .help = "Segments that began with a kept file.",
         .value = &n->hits},
        {.kind = STAT_COUNTER,
         .name = "coreflume_recycle_misses_total",
         .help = "Segments that would have begun with a kept file, had there been one.",
         .value = &n->misses},
        {.kind = STAT_GAUGE,
         .name = "coreflume_deleted_files_waiting",
         .help = "Files of deleted segments and topics that are still to be freed.",
         .value = &n->waiting},
    };
    for (size_t i = 0; i < sizeof(described) / sizeof(described[0]); i++) {
        add_stat(dir, &described[i]);
    }
}

static void remove_stats(struct shard_dir *dir)
{
    for (uint32_t i = 0; i < dir->stats_count; i++) {
        stats_remove(&dir->stats[i]);
    }
    dir->stats_count = 0;
}

/* ---- life ---- */

void shard_dir_init(struct shard_dir *dir,
                    struct shard *s,
                    const struct cluster_settings *settings,
                    uint32_t index,
                    const struct shard_dir_owner *owner)
{
    assert_cmp(index, <, settings->data_dirs_count);
    *dir = (struct shard_dir){
        .s = s,
        .settings = &settings->data_dirs[index],
        .cluster_settings = settings,
        .owner = owner,
        .index = index,
    };
    dir->stats_labels = make_labels(s, dir->settings->path);
    space_init(&dir->space, s, dir->settings->path, dir->settings->space_reserve_size);
    space_sample(&dir->space);
    add_space_stats(dir);
}

void shard_dir_done(struct shard_dir *dir)
{
    assert(dir->store == NULL);
    assert(dir->log_env.shared == NULL);
    flusher_free(dir->flusher); /* Accepts NULL. */
    dir->flusher = NULL;
    dir_hints_done(&dir->hints);
    remove_stats(dir);
    free(dir->stats_labels);
    dir->stats_labels = NULL;
}

/* ---- failure ---- */

static void fail(struct shard_dir *dir, enum err e)
{
    dir->is_failed = true;
    dir->failed = 1;
    if (dir->log_env.shared != NULL) {
        log_shared_fail(dir->log_env.shared, e);
    }
}

static void on_flush_failed(void *context, enum err e)
{
    struct shard_dir *dir = context;
    const bool is_news = !dir->is_failed;
    fail(dir, e);
    if (is_news) {
        dir->owner->on_failed(dir->owner->context, dir, e);
    }
}

void shard_dir_fail(struct shard_dir *dir, enum err e)
{
    if (!dir->is_failed && dir->flusher != NULL) {
        dir->is_failed = true; /* So that on_flush_failed has no news. */
        flusher_fail(dir->flusher, e);
    }
}

/* ---- open ---- */

static bool owns(void *context, const struct partition_id *log)
{
    const struct shard_dir *dir = context;
    return dir->owner->owns(dir->owner->context, log);
}

/* What a shard may have of memory and descriptors is shared by its directories. */
static struct log_shared_options options_of(const struct shard_dir *dir)
{
    struct log_shared_options o = dir->cluster_settings->log_shared;
    const uint32_t count = dir->cluster_settings->data_dirs_count;
    o.cache_size_max /= count;
    o.index_size_max /= count;
    o.ahead_size_max /= count;
    o.pinned_size_max /= count;
    o.compact_keys_size_max /= count;
    o.files_max = (o.files_max + count - 1) / count;
    o.recycle_size_max = dir->settings->recycle_size_max;
    return o;
}

void shard_dir_set_compaction(struct shard_dir *dir, uint64_t interval_us, size_t keys_size_max)
{
    if (dir->log_env.shared != NULL) {
        log_shared_set_compaction(dir->log_env.shared,
                                  interval_us,
                                  keys_size_max / dir->cluster_settings->data_dirs_count);
    }
}

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct shard_dir *dir = context;
    if (e == ERR_OK) {
        dir->store = st;
        dir->log_env.store = st;
        const struct log_shared_options options = options_of(dir);
        e = log_shared_new(dir->s, st, &options, &dir->log_env.shared);
    }
    if (e == ERR_OK) {
        add_log_stats(dir);
        add_read_stats(dir);
        dir_hints_start(&dir->hints, dir);
        add_recycle_stats(dir);
        e = log_shared_recycle(&dir->log_env);
    }
    dir->owner->on_opened(dir->owner->context, dir, e);
}

enum err shard_dir_open(struct shard_dir *dir)
{
    enum err e = flusher_new(dir->s,
                             &(struct flusher_options){
                                 .is_shared = dir->settings->is_flush_shared,
                                 .quiet_fd = dir->settings->quiet_fd,
                                 .stats_labels = dir->stats_labels,
                                 .context = dir,
                                 .on_failed = on_flush_failed,
                             },
                             &dir->flusher);
    if (e != ERR_OK) {
        return e;
    }
    dir->log_env = (struct log_env){
        .s = dir->s,
        .dir = dir->settings->path,
        .flusher = dir->flusher,
        .space = &dir->space,
    };
    return store_open_begin(dir->s,
                            &(struct store_open){
                                .dir = dir->settings->path,
                                .directory_id = dir->settings->id,
                                .flusher = dir->flusher,
                                .context = dir,
                                .owns = owns,
                                .on_opened = on_store_opened,
                                .stats_labels = dir->stats_labels,
                            });
}

/* ---- close ---- */

void shard_dir_stop_background(struct shard_dir *dir)
{
    if (dir->log_env.shared != NULL) {
        log_shared_stop_background(dir->log_env.shared);
    }
}

bool shard_dir_is_idle(const struct shard_dir *dir)
{
    return (dir->flusher == NULL || flusher_is_idle(dir->flusher)) &&
           !log_shared_is_busy(dir->log_env.shared) && !log_shared_is_pinned(dir->log_env.shared) &&
           dir->hints.away_count == 0;
}

static void on_store_closed(void *context)
{
    struct shard_dir *dir = context;
    dir->store = NULL;
    dir->owner->on_closed(dir->owner->context, dir);
}

void shard_dir_close(struct shard_dir *dir)
{
    assert(shard_dir_is_idle(dir));
    remove_stats(dir); /* Some are in there. */
    log_shared_free(dir->log_env.shared);
    dir->log_env.shared = NULL;
    if (dir->store == NULL) {
        on_store_closed(dir);
    } else {
        store_close(dir->store, dir, on_store_closed);
    }
}

/* ---- questions ---- */

bool shard_dir_takes_new(struct shard_dir *dir, enum space_tier tier)
{
    return !dir->is_failed && space_has_spare(&dir->space, tier, 1) &&
           (tier != SPACE_DATA || !space_is_short(&dir->space));
}
