/* Removes what is left on disk of a log that is not open: of a delete that a crash interrupted. Its
 * files, its directory and its store values; nothing left is no error. The name-link stays.
 *
 * Lists a directory and asks for sizes, which blocks: for start-up.
 *
 * Shard: the owner's of the partition.
 */
#pragma once

#include "core/err.h"
#include "core/ids.h"

struct log_env;

/* on_purged comes from the loop. Calling it again after a crash goes on where that one stopped. */
void log_purge_begin(const struct log_env *env,
                     const struct partition_id *id,
                     void *context,
                     void (*on_purged)(void *context, enum err e));
