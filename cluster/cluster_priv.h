/* The inside of one shard's cluster, for the files it is split into:
 *   cluster.c            the door: operations to their shard and home
 *   cluster_start.c      start and stop, a task on shard 0
 *   cluster_dirs.c       the data directories: which is whose, which failed or is missing
 *   shard_state.c        what each shard does for it: stores, applying commands, removing logs
 *   broadcast.c          from shard 0 to all shards and home
 *   controller_driver.c  group 0's log and the requests, on shard 0
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/metadata_edit.h"
#include "cluster/partition.h"
#include "cluster/partition_table.h"
#include "cluster/recoder.h"
#include "cluster/retention.h"
#include "cluster/settings.h"
#include "cluster/shard_dir.h"
#include "cluster/troubles.h"
#include "core/list.h"
#include "core/shard.h"
#include "core/stats.h"

enum {
    CLUSTER_STATS_COUNT = 15,
    CLUSTER_WHY_SIZE = 512,
};

struct broadcast_leg;
struct cluster_life;
struct controller_driver;

struct cluster {
    struct cluster_set *set;
    const struct cluster_settings *settings;
    struct shard *s;  /* NULL until the start reached this shard. */
    bool is_stopping; /* Nothing new is begun. */
    bool is_quiescing;
    struct timer drain_timer; /* From cluster_quiesce on. */

    struct shard_dir *dirs; /* As settings->data_dirs; from the start until all are closed. */
    uint32_t dirs_count;
    struct shard_dir_owner dir_owner;
    uint64_t dirs_announced;  /* Shard 0: bit per directory that failed, and all were told. */
    struct troubles troubles; /* Shard 0: partitions that failed or are damaged. */

    struct metadata *metadata;
    struct partition_env partition_env;
    struct partition_table partitions;
    struct partition_counters counters;
    struct recoder recoder;
    uint32_t partition_stats_count; /* Partitions with a size metric of their own. */

    struct list applying; /* struct broadcast_leg: command streams, one after the other. */
    struct broadcast_leg
        *opener;                 /* The stream whose partitions are being opened now, or altered. */
    struct task derive_task;     /* Goes on with that, a part per turn. */
    struct broadcast_leg *leg;   /* Opening the stores, or closing everything. */
    uint32_t dirs_pending_count; /* Being opened or closed. */
    uint32_t closing_count;
    struct timer close_timer;

    struct retention *retention; /* While the stores are open. */

    uint64_t partitions_count; /* For the metric, as the next. */
    uint64_t partitions_max;   /* Of the whole node. */
    struct stat stats[CLUSTER_STATS_COUNT];

    struct controller_driver *controller; /* Shard 0. */
    struct cluster_life *life;            /* Shard 0: the start or stop that runs. */
};

struct cluster_set {
    const struct cluster_settings *settings;
    uint16_t shards_count;
    struct cluster *clusters[SHARDS_MAX]; /* Constant; each is touched by its own shard. */
};

/* ---- cluster_dirs.c ---- */

struct controller;

/* NULL if the directory is not here, or has failed. */
struct shard_dir *cluster_dirs_find(const struct cluster *c, const struct uuid *id);
/* False too if it is not here. */
bool cluster_dirs_has_failed(const struct cluster *c, const struct uuid *id);
/* Whether a log of that topic and partition belongs to dir. */
bool cluster_dirs_is_home(const struct shard_dir *dir, const struct topic *t, int32_t partition);
/* True if a directory that has partitions is neither there nor said to be lost; why then says what
 * to do. */
bool cluster_dirs_missing(const struct cluster *c,
                          const struct controller *engine,
                          char why[CLUSTER_WHY_SIZE]);
/* The flusher of dir failed, which this shard just learned from it. */
void cluster_dirs_on_failed(void *context, struct shard_dir *dir, enum err e);

/* ---- shard_state.c: run as the far hop of a broadcast ---- */

void shard_state_open(struct shard *here, struct broadcast_leg *leg);
void shard_state_apply(struct shard *here, struct broadcast_leg *leg);
void shard_state_remove(struct shard *here, struct broadcast_leg *leg);
void shard_state_quiesce(struct shard *here, struct broadcast_leg *leg);
void shard_state_close_partitions(struct shard *here, struct broadcast_leg *leg);
void shard_state_close_store(struct shard *here, struct broadcast_leg *leg);

/* The drain timer of cluster_quiesce. */
void shard_state_drained(struct timer *t);
