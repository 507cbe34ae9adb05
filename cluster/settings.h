/* What the broker's configuration tells the cluster layer: filled by broker/ before cluster_start,
 * constant afterwards. All shards read the same struct, none writes it.
 *
 * Shard: any; read-only. Everything it points at must outlive the clusters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/config_specs.h"
#include "cluster/metadata.h"
#include "cluster/topic_configs.h"
#include "core/err.h"
#include "core/ids.h"
#include "storage/log.h"
#include "storage/log_shared.h"

struct cluster;
struct shard;

enum {
    CLUSTER_DATA_DIRS_MAX = 64,
};

/* A data directory, as storage/data_dir.h found it. */
struct cluster_data_dir {
    const char *path;
    struct uuid id;     /* Its directory_id. */
    uint64_t device_id; /* Of its file system: what fails for one directory fails for all on it. */
    bool is_flush_shared;
    int quiet_fd;        /* See storage/flusher.h; 0 = none. */
    uint64_t total_size; /* Of its file system. */
    /* What is kept free on its file system for deletes and the broker's own needs
     * (storage/space.h); 0 = nothing. */
    uint64_t space_reserve_size;
    /* Files that left their logs and are kept there to be used again (storage/recycle.h), per
     * shard; 0 = none. */
    uint64_t recycle_size_max;
};

/* One that is gone. */
struct cluster_lost_dir {
    struct uuid id;
    char text[UUID_TEXT_SIZE];
};

/* A topic that the broker makes for itself (cluster/internal_topics.h). */
struct internal_topic {
    const char *name;
    int32_t partitions_count;
    int16_t replication_factor_max;    /* As many, or as there are brokers. */
    const struct config_pair *configs; /* Where a request says nothing else. */
    uint32_t configs_count;
};

struct cluster_settings {
    int32_t node_id;
    struct uuid cluster_id; /* As in format.json (storage/data_dir.h). */
    const char *rack;       /* NULL = none. */

    /* Opened and locked by the broker, the first of them with group 0. */
    const struct cluster_data_dir *data_dirs;
    uint32_t data_dirs_count;
    /* Directories that are gone for good: their partitions answer ERR_FAILED until their topics are
     * deleted. Any other that has partitions must be there, or the start is refused. */
    const struct cluster_lost_dir *lost_dirs;
    uint32_t lost_dirs_count;

    int32_t partitions_count_default;   /* num.partitions */
    int16_t replication_factor_default; /* default.replication.factor */

    uint32_t topics_max;               /* Creating more is refused; bounds memory. */
    uint32_t partitions_per_topic_max; /* Likewise. */
    uint32_t partitions_max;           /* On this node, over all shards. */

    const struct internal_topic *internal_topics;
    uint32_t internal_topics_count;
    struct config_bounds group_bounds;

    uint32_t producers_max;         /* Producer ids remembered per partition. */
    int64_t producer_expiration_ms; /* producer.id.expiration.ms */

    /* Topic configuration names (not the broker's synonyms) with the values that the broker's file
     * gives them; what is not here has Kafka's default. Checked at cluster_start. */
    const struct topic_config_entry *topic_defaults;
    uint32_t topic_defaults_count;

    /* Bounds of what topics ask for (log_options_of in partition.c). */
    struct log_options log;
    struct log_options controller_log;
    struct log_shared_options log_shared;

    uint64_t retention_check_us; /* log.retention.check.interval.ms; 0 = never */

    /* Partitions per shard that get a size metric of their own; the rest only count in the sums. */
    uint32_t partition_stats_max;

    /* The broker's own configurations were altered (cluster_broker_number): called on each shard
     * when they are in its metadata. May be NULL. */
    void (*on_broker_altered)(void *context, struct shard *s, struct cluster *c);
    /* Commands were applied on that shard: topics, partitions (which are open) or configurations
     * may have changed; may be NULL. */
    void (*on_metadata)(void *context, struct shard *s);
    void *broker_context;

    /* A flush failed: nothing that is acknowledged from now on could be trusted. NULL = panic.
     * Called on the shard that owns the flusher. */
    void (*on_fatal)(void *context, enum err e, const char *what);
    void *fatal_context;
};

/* Kafka's defaults and our limits; the caller fills ids and data_dirs. */
void cluster_settings_init(struct cluster_settings *settings);
