/* One configuration of the broker as clients are told of it (DescribeConfigs of a broker): filled
 * by the broker at its start from its table of options, constant afterwards. What is altered while
 * it runs is in the metadata.
 *
 * Shard: any; read-only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/topic_configs.h"

struct broker_config {
    const char *name;
    const char *value; /* In Kafka's form: numbers in plain decimal, lists with commas. NULL:
                          nobody set it. */
    const char *default_value; /* Likewise. NULL: there is none. */
    const char *doc;
    enum topic_config_type type;
    bool is_dynamic; /* It may be altered while the broker runs. */
};
