/* The log of one partition of a node that does not run, opened as a start opens it: with its store,
 * on a shard of its own, in this thread. All entries are read. Nothing else of the node is touched.
 *
 * Blocking. One thread; the shard is private.
 */
#pragma once

#include <stdint.h>

#include "core/ids.h"
#include "storage/log.h"

struct clock;
struct io_backend;
struct reached;
struct stopped_log;

enum {
    STOPPED_LOG_WHY_SIZE = 1024,
};

/* All of it outlives the stopped log. */
struct stopped_log_open {
    struct io_backend *backend;
    struct clock *clock;
    uint64_t rand_seed;      /* 0 = from the kernel. */
    struct reached *reached; /* NULL outside of the simulator. */
    const char *dir;         /* The data directory. */
    const char *name;        /* "<topic>-<partition>" */
    struct partition_id id;
};

/* On success the directory is locked until the close. On error why has what happened, and what to
 * do. */
enum err stopped_log_open(const struct stopped_log_open *how,
                          char why[STOPPED_LOG_WHY_SIZE],
                          struct stopped_log **ret_log);
struct log *stopped_log_get(struct stopped_log *sl);
/* Opens the log once more, under the same lock, and gives up what is damaged. What was got before
 * is gone. On error why says what happened, and only the close is left to call. */
enum err stopped_log_accept_loss(struct stopped_log *sl, char why[STOPPED_LOG_WHY_SIZE]);
/* All that was changed is durable, or why says why not. sl is gone; after an error what was in
 * flight may still be, and the process is to end. */
enum err stopped_log_close(struct stopped_log *sl, char why[STOPPED_LOG_WHY_SIZE]);
