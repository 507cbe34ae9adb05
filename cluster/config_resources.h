/* What was configured of brokers, groups and subscriptions of client metrics: one entry for each
 * that has values of its own. Part of each shard's metadata.
 *
 * Shard: the owner's. A pointer into it is valid until the callback returns that
 * took it (metadata.h).
 */
#pragma once

#include <stdint.h>

#include "cluster/config_specs.h"
#include "cluster/metadata.h"
#include "core/slice.h"

enum {
    /* Of all names and values together, and of those of one resource; what would grow beyond is
     * refused. Each shard has them all, outside its memory limit, and so has group 0's engine: any
     * client may name any group. */
    CONFIG_RESOURCES_SIZE_MAX = 1 << 20,
    CONFIG_RESOURCE_SIZE_MAX = 256 << 10,
};

struct config_resource_entry {
    enum config_resource kind; /* Anything but a topic. */
    char *name;                /* "" = all brokers. */
    struct topic_config_entry *configs;
    uint32_t configs_count;
};

/* By kind, then by name. */
struct config_resources {
    struct config_resource_entry *entries;
    uint32_t count;
    uint64_t size; /* Of all names and values. */
};

void config_resources_done(struct config_resources *all);
/* NULL if it has no values of its own. */
const struct config_resource_entry *config_resources_find(const struct config_resources *all,
                                                          enum config_resource kind,
                                                          struct slice name);
/* Takes over configs; with none of them the resource is gone. */
void config_resources_set(struct config_resources *all,
                          enum config_resource kind,
                          struct slice name,
                          struct topic_config_entry *configs,
                          uint32_t configs_count);
/* What a resource takes of both. */
uint64_t config_resource_size(struct slice name,
                              const struct topic_config_entry *configs,
                              uint32_t configs_count);
void config_resources_check(const struct config_resources *all);
