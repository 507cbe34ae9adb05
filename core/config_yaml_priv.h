/* Reads the flat YAML of config.h and hands out its pairs.
 *
 * Shard: any; start-up only.
 */
#pragma once

#include <stddef.h>

#include "core/config.h"
#include "core/err.h"

/* Called for each pair with "path:line" of the key; items of a list are joined with commas. An
 * error ends the reading; *ret_why is the callee's. */
typedef enum err config_pair_fn(void *context,
                                const char *where,
                                const char *name,
                                const char *value,
                                char ret_why[CONFIG_WHY_SIZE]);

struct config_yaml {
    const char *path;
    const char *text;
    size_t size;
    config_pair_fn *on_pair;
    void *context;
};

enum err config_yaml_read(const struct config_yaml *y, char ret_why[CONFIG_WHY_SIZE]);
