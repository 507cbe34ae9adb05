/* When the offsets of a coordinator's groups are looked at: every offsets.retention.check.interval,
 * a bounded part per turn. And the wall clock as it is believed: a jump ahead must not make offsets
 * of a week expire at once, so time goes on at the pace of the coordinators' clock (group_clock.h,
 * to which a standstill is a jump, too) until the jump has lasted a day. A step back counts at
 * once.
 *
 * Volatile: only the active coordinator has it.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdint.h>

#include "core/timer.h"

struct coordinator;

struct expiry {
    struct timer timer;
    uint32_t bucket; /* Of groups, the next to be looked at. */
    /* The believed time is base_wall_ms at base_us. */
    uint64_t base_us;
    int64_t base_wall_ms;
    uint64_t ahead_since_us; /* The wall clock is ahead since; 0 = it is not. */
};

/* The first look comes after one interval. */
void expiry_start(struct coordinator *c);
void expiry_stop(struct coordinator *c);
/* The believed wall time of the event that runs. */
int64_t expiry_now_ms(struct coordinator *c);
