/* The options of groups and offsets: from a checked configuration to plain values.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include "core/err.h"
#include "groups/settings.h"

struct config;

enum {
    GROUPS_OPTIONS_WHY_SIZE = 512,
};

/* ERR_CONFIG_INVALID: why is one line that names what is wrong and where it was said. */
enum err groups_options_read(const struct config *config,
                             struct groups_settings *settings,
                             char why[GROUPS_OPTIONS_WHY_SIZE]);
