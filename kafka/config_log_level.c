#include "kafka/config_log_level.h"

#include <stdio.h>

#include "cluster/config_change.h"

/* Kafka's words; ours are fewer. */
static const struct {
    const char *name;
    enum log_level level;
} levels[] = {
    {"DEBUG", LOG_DEBUG},
    {"INFO", LOG_INFO},
    {"WARN", LOG_WARN},
    {"ERROR", LOG_ERROR},
    {"FATAL", LOG_ERROR},
    {"TRACE", LOG_DEBUG},
};

enum {
    LEVELS_COUNT = sizeof(levels) / sizeof(levels[0]),
};

const char *config_log_level_name(enum log_level level)
{
    return levels[level].name;
}

static enum err check(const struct config_change *change, enum log_level *ret_level, char *why)
{
    const char *value = change->value.size == 0 ? "" : (const char *)change->value.data;
    if (change->operation == CONFIG_APPEND || change->operation == CONFIG_SUBTRACT) {
        (void)snprintf(why,
                       CONFIG_LOG_LEVEL_WHY_SIZE,
                       "%s operation is not allowed for the BROKER_LOGGER resource",
                       change->operation == CONFIG_APPEND ? "APPEND" : "SUBTRACT");
        return ERR_INVALID;
    }
    if (!slice_equal_string(change->name, CONFIG_LOGGER_ROOT)) {
        (void)snprintf(why,
                       CONFIG_LOG_LEVEL_WHY_SIZE,
                       "Logger %.*s does not exist!",
                       slice_shown(change->name, SLICE_SHOWN_MAX),
                       (const char *)change->name.data);
        return ERR_CONFIG_INVALID;
    }
    if (change->operation == CONFIG_DELETE) {
        (void)snprintf(why,
                       CONFIG_LOG_LEVEL_WHY_SIZE,
                       "Removing the log level of the root logger is not allowed");
        return ERR_INVALID;
    }
    for (size_t i = 0; i < LEVELS_COUNT; i++) {
        if (slice_equal_string(change->value, levels[i].name)) {
            *ret_level = levels[i].level;
            return ERR_OK;
        }
    }
    (void)snprintf(why,
                   CONFIG_LOG_LEVEL_WHY_SIZE,
                   "Cannot set the log level of root to %.*s as it is not a supported log level. "
                   "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
                   slice_shown(change->value, SLICE_SHOWN_MAX),
                   value);
    return ERR_CONFIG_INVALID;
}

enum err config_log_level_change(struct logger *log,
                                 const struct config_changes *changes,
                                 bool is_validate_only,
                                 char why[CONFIG_LOG_LEVEL_WHY_SIZE])
{
    enum log_level level = logger_level(log);
    for (uint32_t i = 0; i < changes->count; i++) {
        enum err e = check(&changes->changes[i], &level, why);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (!is_validate_only) {
        logger_set_level(log, level);
    }
    return ERR_OK;
}
