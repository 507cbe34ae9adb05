/* Where the value of a configuration comes from, and what else would have given one: Kafka's chain
 * of synonyms (CONFIGS.md, section 2), from what counts most to what counts least.
 *
 *   log.retention.ms of this broker, of all brokers, then the file's log.retention.ms, .minutes and
 *   .hours, then the defaults of those
 *
 * As in Kafka a chain begins with the first link that has the very name asked for: with only
 * log.retention.hours in the file, log.retention.ms has an empty chain, and counts as a default.
 *
 * Shard: the request's. The texts are the metadata's and the settings': valid until the callback
 * returns (cluster/metadata.h).
 */
#pragma once

#include <stdint.h>

#include "cluster/topic_configs.h"

struct dispatch;

enum {
    CONFIG_CHAIN_MAX = 16,
};

struct config_link {
    const char *name;
    const char *value;
    enum topic_config_source source;
};

struct config_chain {
    struct config_link links[CONFIG_CHAIN_MAX];
    uint32_t count;
};

/* Of a broker's configuration. */
void config_chain_of_broker(const struct dispatch *d, const char *name, struct config_chain *ret);
/* Of a topic's: its own value first, if set has one. */
void config_chain_of_topic(const struct dispatch *d,
                           const struct topic_config_set *set,
                           const struct topic_config *config,
                           struct config_chain *ret);
/* DEFAULT if it is empty. */
enum topic_config_source config_chain_source(const struct config_chain *chain);
/* The value in effect for a topic, never NULL, and the source that its chain would say. */
const char *config_chain_topic_value(const struct dispatch *d,
                                     const struct topic_config_set *set,
                                     const struct topic_config *config,
                                     enum topic_config_source *ret_source);
