/* What the broker's configuration tells the coordinators of groups: filled by broker/ before the
 * cluster starts, constant afterwards. Names and defaults are Kafka's, but where it is said.
 *
 * Shard: any; read-only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/settings.h"
#include "core/slice.h"

struct cluster;

/* The topic that groups and their offsets are kept in. */
#define GROUPS_TOPIC "__consumer_offsets"

/* group.consumer.migration.policy: which way a group may change its protocol while it has members.
 */
enum groups_migration {
    GROUPS_MIGRATION_BIDIRECTIONAL,
    GROUPS_MIGRATION_UPGRADE,   /* Classic to consumer. */
    GROUPS_MIGRATION_DOWNGRADE, /* Consumer to classic. */
    GROUPS_MIGRATION_DISABLED,
};

/* What a group may set for itself, within the broker's bounds. */
struct groups_limited {
    int32_t value; /* Of groups that say nothing. */
    int32_t min;
    int32_t max;
};

enum {
    GROUPS_TOPIC_CONFIGS_COUNT = 3,
    GROUPS_BOUNDS_COUNT = 9,
    /* Server-side assignors there are: uniform and range. */
    GROUPS_ASSIGNORS_MAX = 2,
};

struct groups_settings {
    /* The topic, as it is created; afterwards what it has counts. */
    int32_t topic_partitions_count;       /* offsets.topic.num.partitions */
    int16_t topic_replication_factor_max; /* offsets.topic.replication.factor */
    int32_t topic_segment_size_max;       /* offsets.topic.segment.bytes */

    int64_t offsets_retention_ms;     /* offsets.retention.minutes */
    int64_t offsets_check_ms;         /* offsets.retention.check.interval.ms */
    int32_t offset_metadata_size_max; /* offset.metadata.max.bytes */
    int64_t commit_timeout_ms;        /* offsets.commit.timeout.ms */

    bool is_consumer_enabled; /* group.coordinator.rebalance.protocols has "consumer". */

    /* Classic groups. */
    int32_t session_timeout_ms_min; /* group.min.session.timeout.ms */
    int32_t session_timeout_ms_max; /* group.max.session.timeout.ms */
    int32_t initial_delay_ms;       /* group.initial.rebalance.delay.ms */
    int32_t members_max;            /* group.max.size */

    /* KIP-848. */
    struct groups_limited consumer_session_timeout_ms;
    struct groups_limited consumer_heartbeat_interval_ms;
    struct groups_limited consumer_assignment_interval_ms;
    int32_t consumer_members_max; /* group.consumer.max.size */
    bool is_heartbeat_held;       /* coreflume.group.heartbeat.hold */
    /* group.consumer.assignors, in order of preference; the first is what members get that ask for
     * none. */
    const char *consumer_assignors[GROUPS_ASSIGNORS_MAX];
    uint32_t consumer_assignors_count;
    enum groups_migration migration;

    /* Bounds of all coordinators of a node together. Each shard keeps to its share. */
    uint32_t groups_max;      /* coreflume.groups.max */
    uint32_t all_members_max; /* coreflume.groups.members.max */
    uint64_t state_size_max;  /* coreflume.groups.state.bytes */

    /* Private: what the cluster's settings point at. */
    struct internal_topic topic;
    struct config_pair topic_configs[GROUPS_TOPIC_CONFIGS_COUNT];
    char topic_segment_size_text[16];
    struct config_bound bounds[GROUPS_BOUNDS_COUNT];
};

/* Defaults. */
void groups_settings_init(struct groups_settings *settings);

/* Tells the cluster layer of the topic, and of what groups may set. Both must stay where they are
 * from now on. */
void groups_settings_bind(struct groups_settings *settings, struct cluster_settings *cluster);

/* What is in effect for a group: what was set for it, or else for the broker (also while it runs),
 * within the broker's bounds of today. */
struct groups_intervals {
    int32_t session_timeout_ms;
    int32_t heartbeat_interval_ms;
    int32_t assignment_interval_ms;
};
struct groups_intervals groups_intervals_of(const struct groups_settings *settings,
                                            const struct cluster *c,
                                            struct slice group_id);
