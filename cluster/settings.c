#include "cluster/settings.h"

void cluster_settings_init(struct cluster_settings *settings)
{
    *settings = (struct cluster_settings){
        .partitions_count_default = 1,
        .replication_factor_default = 1,
        .topics_max = 100000,
        .partitions_per_topic_max = 10000,
        .partitions_max = 100000,
        .producers_max = 10000,
        .producer_expiration_ms = 86400000,
        .log = LOG_OPTIONS_DEFAULT,
        .controller_log = LOG_OPTIONS_DEFAULT,
        .log_shared = LOG_SHARED_OPTIONS_DEFAULT,
        .retention_check_us = 300ull * 1000 * 1000,
        .partition_stats_max = 256,
    };
    /* The topics' word counts. */
    settings->log.segment_size_max = UINT64_MAX;
    settings->log.index_size_max = UINT64_MAX;
    settings->controller_log.checkpoint_size = 1 << 20; /* Its commands are slow to replay. */
}
