/* What a request to alter configurations makes of those that a resource has: the rules of Kafka's
 * IncrementalAlterConfigs and AlterConfigs (CONFIGS.md, section 3), without anything around them.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/config_specs.h"
#include "cluster/metadata.h"
#include "cluster/topic_configs.h"
#include "core/err.h"
#include "core/slice.h"

/* Kafka's numbers. */
enum config_operation {
    CONFIG_SET = 0,
    CONFIG_DELETE = 1, /* Of what is not set, or of an unknown name, is no error. */
    CONFIG_APPEND = 2, /* The last two: of lists, to or from the resource's own or Kafka's value. */
    CONFIG_SUBTRACT = 3,
};

struct config_change {
    enum config_operation operation;
    struct slice name;
    struct slice value;
};

struct config_changes {
    enum config_resource kind; /* What is altered. */
    bool is_replacing;         /* What is not named goes (AlterConfigs). */
    const struct config_change *changes;
    uint32_t count;
};

/* Entries that own their texts. */
struct config_list {
    struct topic_config_entry *entries;
    uint32_t count;
};
void config_list_done(struct config_list *list);
void config_list_copy(struct config_list *list,
                      const struct topic_config_entry *entries,
                      uint32_t count);
/* The same names and values, in whatever order. */
bool config_list_equal(const struct config_list *list,
                       const struct topic_config_entry *entries,
                       uint32_t count);

/* Changes the list of a resource's own values, one change after the other. ERR_CONFIG_INVALID or
 * ERR_INVALID, why then says what to do; the list is then half changed. What holds for the whole
 * set (topic_config_check_set) is the caller's to ask. */
enum err config_list_change(struct config_list *list,
                            const struct config_changes *changes,
                            char why[TOPIC_CONFIG_WHY_SIZE]);
