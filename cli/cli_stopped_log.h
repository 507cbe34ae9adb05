/* The log of one partition of a node that does not run, opened as a start opens it: with its store,
 * on a shard of its own, in this thread. Nothing else of the node is touched.
 *
 * One thread; the shard is private.
 */
#pragma once

#include <stdbool.h>

#include "core/ids.h"
#include "storage/log.h"

enum {
    CLI_STOPPED_WHY_SIZE = 1024,
    CLI_STOPPED_PATH_SIZE = 4096,
};

struct cli_stopped_log_open {
    const char *dir;  /* The data directory. */
    const char *name; /* "<topic>-<partition>" */
};

struct cli_stopped_log;

/* All entries are read. On success the directory is locked until the close. On error why has what
 * happened, and what to do. */
enum err cli_stopped_log_open(const struct cli_stopped_log_open *how,
                              char why[CLI_STOPPED_WHY_SIZE],
                              struct cli_stopped_log **ret_log);
struct log *cli_stopped_log_get(struct cli_stopped_log *sl);
/* Opens the log once more, under the same lock, and gives up what is damaged. What was got before
 * is gone. On error why says what happened, and only the close is left to call. */
enum err cli_stopped_log_accept_loss(struct cli_stopped_log *sl, char why[CLI_STOPPED_WHY_SIZE]);
/* All that was changed is durable, or why says why not; sl is gone. */
enum err cli_stopped_log_close(struct cli_stopped_log *sl, char why[CLI_STOPPED_WHY_SIZE]);
