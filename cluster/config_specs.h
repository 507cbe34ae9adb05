/* What configurations each kind of resource has, beside topics (topic_configs.h): type, range and
 * default of each name, as Kafka 4.3 has them (CONFIGS.md, sections 6 and 7), and its rules for
 * values.
 *
 * Of a broker only those can be altered while it runs that Kafka alters so; the others are known by
 * name (config_is_fixed). Names that nobody knows are kept for a broker, as in Kafka, and refused
 * for groups and subscriptions.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/topic_configs.h"
#include "core/err.h"
#include "core/slice.h"

/* Kafka's numbers of what has configurations. */
enum config_resource {
    CONFIG_RESOURCE_TOPIC = 2,
    CONFIG_RESOURCE_BROKER = 4, /* By its id; "" = all of them. */
    CONFIG_RESOURCE_BROKER_LOGGER = 8,
    CONFIG_RESOURCE_CLIENT_METRICS = 16,
    CONFIG_RESOURCE_GROUP = 32,
};

/* False if there is no such name. broker_name: for a group, its broker synonym; for a broker, NULL.
 * default_value may be NULL for a broker's: it has none. */
bool config_spec_find(enum config_resource kind, struct slice name, struct topic_config *ret_spec);

/* Those of groups, or of client metrics, in order of name; index < count. */
uint32_t config_specs_count(enum config_resource kind);
const struct topic_config *config_spec_at(enum config_resource kind, uint32_t index);

/* A broker's that Kafka knows, and that cannot be altered while it runs. */
bool config_is_fixed(struct slice name);

/* Numbers of the broker's that bound what groups may set, or stand in where they set nothing
 * (group.consumer.max.session.timeout.ms ...), where they are not Kafka's defaults. */
struct config_bound {
    const char *name;
    int64_t value;
};
struct config_bounds {
    const struct config_bound *bounds;
    uint32_t count;
};
/* What all values of a group must obey once each is legal. ERR_CONFIG_INVALID, in Kafka's words. */
enum err config_check_group(const struct topic_config_entry *entries,
                            uint32_t count,
                            const struct config_bounds *bounds,
                            char why[TOPIC_CONFIG_WHY_SIZE]);

/* One name and value. ERR_CONFIG_INVALID or ERR_INVALID, whichever Kafka has: why then says what is
 * wrong, in its words where it has them. */
enum err config_spec_check(enum config_resource kind,
                           const struct config_pair *pair,
                           char why[TOPIC_CONFIG_WHY_SIZE]);
