/* Removes what is left on disk of a log that is not open: of a delete that a crash interrupted. Its
 * files, its directory and its store values; nothing left is no error. The name-link stays.
 *
 * For logs that never opened, or failed to: at a start, and when their topic is deleted while the
 * broker runs. The directory is listed in one go and each file's size is asked for in the turn that
 * discards it, and both block the loop: a look-up where there is no such directory, else less than
 * opening the log would take. The shard's pace lets some of them begin at a time, as of deletes.
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
