/* Zeroed heap memory for what committed commands create. The settings' limits bound how much; when
 * it is not there all the same, the process ends: an image that misses a committed change must not
 * serve, and there is nobody to answer an error to.
 *
 * Shard: any.
 */
#pragma once

#include <stddef.h>

#include "core/slice.h"

/* size 0 gives a valid pointer. */
[[nodiscard]] void *memory_alloc(size_t size);
[[nodiscard]] void *memory_alloc_array(size_t count, size_t size);
/* What is added is not zeroed. */
[[nodiscard]] void *memory_realloc_array(void *memory, size_t count, size_t size);
/* NUL-terminated. */
[[nodiscard]] char *memory_copy_text(struct slice text);
