/* What this shard knows of the cluster: topics, their partitions and configurations, brokers. Every
 * shard has its own copy, changed only by applying the controller's (group 0's) committed entries
 * in order; shard 0 broadcasts them. Reading is local and never waits.
 *
 * Shard: the owner's. A pointer into it is valid until the callback returns that
 * took it: entries are applied in messages, which may run next.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/ids.h"
#include "core/slice.h"
#include "storage/compaction.h"

struct config_resources;
struct metadata;

struct topic_config_entry {
    char *name;
    char *value; /* Text as the client gave it. */
};

/* Effective values the hot path needs, derived from config entries and broker defaults. */
struct topic_settings {
    uint32_t message_size_max;       /* max.message.bytes */
    bool is_compacted;               /* cleanup.policy contains compact */
    bool is_log_append_time;         /* message.timestamp.type */
    int64_t timestamp_before_ms_max; /* INT64_MAX = no limit */
    int64_t timestamp_after_ms_max;
    uint32_t replicas_min;         /* min.insync.replicas */
    bool is_deleted;               /* cleanup.policy contains delete */
    int64_t retention_ms;          /* retention.ms; negative = no limit, as of the next two */
    int64_t retention_size_max;    /* retention.bytes */
    int64_t topic_size_max;        /* coreflume.retention.topic.bytes */
    uint64_t segment_size_max;     /* segment.bytes */
    int64_t segment_age_ms_max;    /* segment.ms, or less for max.compaction.lag.ms */
    int64_t segment_jitter_ms_max; /* segment.jitter.ms */
    uint64_t index_size_max;       /* segment.index.bytes */
    uint32_t index_interval;       /* index.interval.bytes */
    int8_t codec;                  /* compression.type: enum batch_codec or TOPIC_CODEC_PRODUCER */
    int32_t codec_level;           /* compression.<codec>.level */
    bool is_ack_memory;            /* coreflume.ack */
    /* With is_ack_memory, how much may be answered and not yet flushed: flush.messages, flush.ms */
    int64_t unflushed_records_max;
    int64_t unflushed_ms_max;
    struct compaction_config compaction; /* cleanup.policy and what belongs to it. */
};

enum {
    TOPIC_CODEC_PRODUCER = -1, /* Batches are stored as they came. */
};

struct topic {
    struct uuid id;
    char name[TOPIC_NAME_SIZE_MAX + 1];
    bool is_internal;
    int32_t partitions_count;
    int16_t replication_factor;
    struct topic_config_entry *configs; /* Only those set explicitly. */
    uint32_t configs_count;
    struct topic_settings settings;
    struct uuid *directories; /* Data directories that its partitions are in. */
    uint32_t directories_count;
    uint8_t *directory_of; /* By partition: index in directories; NULL = all are in the first. */
};

/* The data directory of a partition of t. */
const struct uuid *topic_directory(const struct topic *t, int32_t partition);

/* NULL if unknown. */
const struct topic *metadata_topic_by_name(const struct metadata *m, struct slice name);
const struct topic *metadata_topic_by_id(const struct metadata *m, const struct uuid *id);
uint32_t metadata_topics_count(const struct metadata *m);
/* In order of name; index < count. */
const struct topic *metadata_topic_at(const struct metadata *m, uint32_t index);

/* The shard that serves a partition on this node. */
uint16_t metadata_partition_shard(const struct metadata *m, const struct partition_id *id);

/* What was configured of anything but topics. */
const struct config_resources *metadata_config_resources(const struct metadata *m);
/* What was altered of this broker, for itself or for all; NULL if nothing was. */
const char *metadata_broker_config(const struct metadata *m, const char *name);

int32_t metadata_node_id(const struct metadata *m);
const struct uuid *metadata_cluster_id(const struct metadata *m);
/* The leader epoch of every partition led by this node: group 0's term of this start. */
int32_t metadata_leader_epoch(const struct metadata *m);
