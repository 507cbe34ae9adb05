/* Regular expressions of clients, which nothing is matched by yet: only what none can be is told.
 *
 * Shard: any; pure.
 */
#pragma once

#include <stdbool.h>

#include "core/slice.h"

/* Every bracket and parenthesis has its other half, and no backslash stands at the end. */
bool pattern_is_balanced(struct slice pattern);
