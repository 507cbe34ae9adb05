/* How far two words are apart, for "did you mean".
 *
 * Shard: any; pure.
 */
#pragma once

#include <stddef.h>

/* Levenshtein's distance; of words longer than 127 characters, that of their heads. */
size_t edit_distance(const char *a, const char *b);
