/* The broker's logger as a resource with a configuration (BROKER_LOGGER): one logger, "root", whose
 * level is Kafka's word for ours. Changed, it counts at once for all lines, until the next start:
 * Kafka does not keep levels either.
 *
 * Shard: any; the level is atomic.
 */
#pragma once

#include "core/err.h"
#include "core/logger.h"
#include "core/slice.h"

struct config_changes;

#define CONFIG_LOGGER_ROOT "root"

enum {
    CONFIG_LOG_LEVEL_WHY_SIZE = 256,
};

const char *config_log_level_name(enum log_level level);
/* Changes the level, or only says whether it would. ERR_CONFIG_INVALID or ERR_INVALID as Kafka
 * answers: why then says what is wrong. */
enum err config_log_level_change(struct logger *log,
                                 const struct config_changes *changes,
                                 bool is_validate_only,
                                 char why[CONFIG_LOG_LEVEL_WHY_SIZE]);
