/* The command line of `coreflume start`.
 *
 * Options may stand anywhere, as `--name VALUE` or `--name=VALUE`; each is a short form of a
 * configuration option. The file of --config counts first, then all others in their order.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include "core/config.h"
#include "core/err.h"

enum {
    ARGUMENTS_WHY_SIZE = CONFIG_WHY_SIZE + 64,
};

enum arguments_action {
    ARGUMENTS_START,
    ARGUMENTS_HELP,    /* Print ARGUMENTS_USAGE. */
    ARGUMENTS_OPTIONS, /* Print the table of options. */
};

extern const char ARGUMENTS_USAGE[];

/* argv[0] is skipped. On error why is one line for stderr.
 *   ERR_INVALID  wrong usage: exit 2
 *   others       the configuration cannot be used: exit 1 */
enum err arguments_read(struct config *config,
                        int argc,
                        char *const *argv,
                        enum arguments_action *ret_action,
                        char why[ARGUMENTS_WHY_SIZE]);
