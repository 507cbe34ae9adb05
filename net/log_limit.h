/* At most one log line per second and class of failure; what was held back is told by the next one.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    LOG_LIMIT_PERIOD_US = 1000 * 1000,
};

struct log_limit {
    uint64_t next_us;    /* No line before. */
    uint64_t held_count; /* Since the last line. */
};

/* True if a line may be written now; *ret_held_count is how many were held back before it. */
static inline bool log_limit_pass(struct log_limit *l, uint64_t now_us, uint64_t *ret_held_count)
{
    if (now_us < l->next_us) {
        l->held_count++;
        return false;
    }
    *ret_held_count = l->held_count;
    l->held_count = 0;
    l->next_us = now_us + LOG_LIMIT_PERIOD_US;
    return true;
}
