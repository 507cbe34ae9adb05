/* Time as coordinators are told it. It goes with the loop's, but stands still while the loop does:
 * when a process was stopped, or its machine was, members had no way to be heard. And for
 * GROUP_CLOCK_GRACE_US longer: what they sent meanwhile lies in sockets, and is read first. So
 * every member has as much of its session left as it had before, and whoever is read within the
 * grace has spoken before each deadline that was not over yet.
 *
 * The owner looks at every event, and at least every GROUP_CLOCK_PULSE_US: that it did not says
 * that the loop stood still.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdint.h>

enum {
    GROUP_CLOCK_PULSE_US = 1000 * 1000,
    GROUP_CLOCK_GRACE_US = 1000 * 1000,
};

struct group_clock {
    uint64_t time_us; /* As it was told last. */
    uint64_t seen_us; /* The loop's time then. */
    uint64_t lost_us; /* How far it is behind the loop's while it goes. */
};

void group_clock_init(struct group_clock *c, uint64_t loop_us);
/* The time now. Never goes back. */
uint64_t group_clock_look(struct group_clock *c, uint64_t loop_us);
/* When the loop has to look so that deadline_us is over: in its next turn if it is over by now.
 * UINT64_MAX stays what it is: never. */
uint64_t group_clock_when_us(const struct group_clock *c, uint64_t deadline_us);
