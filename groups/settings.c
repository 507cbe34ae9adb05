#include "groups/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/config_resources.h"
#include "cluster/config_specs.h"
#include "core/assert.h"

void groups_settings_init(struct groups_settings *settings)
{
    *settings = (struct groups_settings){
        .topic_partitions_count = 50,
        .topic_replication_factor_max = 3,
        /* Kafka has 100 MiB. A coordinator reads its partition from the start, and what is in the
         * last segment is not compacted yet: 50 partitions of 8 MiB are read in a second. */
        .topic_segment_size_max = 8 << 20,
        .offsets_retention_ms = INT64_C(10080) * 60 * 1000,
        .offsets_check_ms = 600000,
        .offset_metadata_size_max = 4096,
        .commit_timeout_ms = 5000,
        .is_consumer_enabled = true,
        .session_timeout_ms_min = 6000,
        .session_timeout_ms_max = 1800000,
        .initial_delay_ms = 3000,
        .members_max = INT32_MAX,
        .consumer_session_timeout_ms = {45000, 45000, 60000},
        .consumer_heartbeat_interval_ms = {5000, 5000, 15000},
        .consumer_assignment_interval_ms = {1000, 0, 15000},
        .consumer_members_max = INT32_MAX,
        .is_heartbeat_held = true,
        .consumer_assignors = {"uniform", "range"},
        .consumer_assignors_count = 2,
        .migration = GROUPS_MIGRATION_BIDIRECTIONAL,
        .groups_max = 100000,
        .all_members_max = 200000,
        .state_size_max = 256 << 20,
    };
}

static void bind_bounds(struct groups_settings *settings)
{
    const struct groups_limited *session = &settings->consumer_session_timeout_ms;
    const struct groups_limited *heartbeat = &settings->consumer_heartbeat_interval_ms;
    const struct groups_limited *interval = &settings->consumer_assignment_interval_ms;
    const struct config_bound bounds[GROUPS_BOUNDS_COUNT] = {
        {"group.consumer.session.timeout.ms", session->value},
        {"group.consumer.min.session.timeout.ms", session->min},
        {"group.consumer.max.session.timeout.ms", session->max},
        {"group.consumer.heartbeat.interval.ms", heartbeat->value},
        {"group.consumer.min.heartbeat.interval.ms", heartbeat->min},
        {"group.consumer.max.heartbeat.interval.ms", heartbeat->max},
        {"group.consumer.assignment.interval.ms", interval->value},
        {"group.consumer.min.assignment.interval.ms", interval->min},
        {"group.consumer.max.assignment.interval.ms", interval->max},
    };
    memcpy(settings->bounds, bounds, sizeof(bounds));
}

void groups_settings_bind(struct groups_settings *settings, struct cluster_settings *cluster)
{
    (void)snprintf(settings->topic_segment_size_text,
                   sizeof(settings->topic_segment_size_text),
                   "%" PRId32,
                   settings->topic_segment_size_max);
    const struct config_pair configs[GROUPS_TOPIC_CONFIGS_COUNT] = {
        {slice_of_string("cleanup.policy"), slice_of_string("compact")},
        {slice_of_string("compression.type"), slice_of_string("producer")},
        {slice_of_string("segment.bytes"), slice_of_string(settings->topic_segment_size_text)},
    };
    for (size_t i = 0; i < GROUPS_TOPIC_CONFIGS_COUNT; i++) {
        settings->topic_configs[i] = configs[i];
    }
    settings->topic = (struct internal_topic){
        .name = GROUPS_TOPIC,
        .partitions_count = settings->topic_partitions_count,
        .replication_factor_max = settings->topic_replication_factor_max,
        .configs = settings->topic_configs,
        .configs_count = GROUPS_TOPIC_CONFIGS_COUNT,
    };
    bind_bounds(settings);
    cluster->group_bounds = (struct config_bounds){settings->bounds, GROUPS_BOUNDS_COUNT};
    cluster->internal_topics = &settings->topic;
    cluster->internal_topics_count = 1;
}

static int32_t clamp(int64_t value, const struct groups_limited *limited)
{
    if (value < limited->min) {
        return limited->min;
    }
    return value > limited->max ? limited->max : (int32_t)value;
}

/* entry: of the group; NULL if nothing was set for it. */
static int32_t number_of(const struct cluster *c,
                         const struct config_resource_entry *entry,
                         const char *name,
                         const struct groups_limited *limited)
{
    const char *value =
        entry == NULL ? NULL : topic_config_find(entry->configs, entry->configs_count, name);
    struct topic_config spec;
    const bool is_known = config_spec_find(CONFIG_RESOURCE_GROUP, slice_of_string(name), &spec);
    assert(is_known);
    if (value != NULL) {
        return clamp(topic_config_number(&spec, value), limited);
    }
    return clamp(cluster_broker_number(c, spec.broker_name, limited->value), limited);
}

struct groups_intervals groups_intervals_of(const struct groups_settings *settings,
                                            const struct cluster *c,
                                            struct slice group_id)
{
    const struct config_resource_entry *entry = config_resources_find(
        metadata_config_resources(cluster_metadata(c)), CONFIG_RESOURCE_GROUP, group_id);
    return (struct groups_intervals){
        .session_timeout_ms = number_of(
            c, entry, "consumer.session.timeout.ms", &settings->consumer_session_timeout_ms),
        .heartbeat_interval_ms = number_of(
            c, entry, "consumer.heartbeat.interval.ms", &settings->consumer_heartbeat_interval_ms),
        .assignment_interval_ms = number_of(c,
                                            entry,
                                            "consumer.assignment.interval.ms",
                                            &settings->consumer_assignment_interval_ms),
    };
}
