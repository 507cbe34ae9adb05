/* The broker's options as Kafka's clients see them: struct broker_config for each row of the table.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include <stdint.h>

#include "core/config.h"
#include "core/err.h"
#include "kafka/broker_config.h"

/* In order of config's table, which must outlive them. ERR_BUSY without memory. */
enum err broker_configs_new(const struct config *config,
                            struct broker_config **ret_configs,
                            uint32_t *ret_count);
/* Accepts NULL. */
void broker_configs_free(struct broker_config *configs, uint32_t count);
