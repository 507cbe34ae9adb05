/* The paths of data directories, before any of them is opened: the same one twice, or one inside of
 * another, is a slip of the operator that would mix what belongs to two.
 *
 * Shard: none; used at start only. Asks the file system for links and "..".
 */
#pragma once

#include <stdint.h>

#include "core/err.h"

enum {
    DATA_PATHS_WHY_SIZE = 512,
};

/* ERR_INVALID with one line in why; ERR_BUSY without memory. */
enum err data_paths_check(const char *const *paths, uint32_t count, char why[DATA_PATHS_WHY_SIZE]);

/* Relative paths become those below the current directory, as they are written: an operator who
 * reads them later stands elsewhere. The paths then point into what is returned, which the caller
 * frees. NULL without memory, or without a current directory: paths are as they were. */
char *data_paths_absolute(const char **paths, uint32_t count);
