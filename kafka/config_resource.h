/* Kafka's numbers of what has configurations (ACLs use others), and of where a value comes from
 * (CONFIGS.md, section 1).
 *
 * Shard: pure; any.
 */
#pragma once

enum config_resource {
    CONFIG_RESOURCE_TOPIC = 2,
    CONFIG_RESOURCE_BROKER = 4,
    CONFIG_RESOURCE_BROKER_LOGGER = 8,
    CONFIG_RESOURCE_CLIENT_METRICS = 16,
    CONFIG_RESOURCE_GROUP = 32,
};
