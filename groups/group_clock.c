#include "groups/group_clock.h"

enum {
    STANDSTILL_US = 2 * GROUP_CLOCK_PULSE_US, /* Longer without a look. */
};

void group_clock_init(struct group_clock *c, uint64_t loop_us)
{
    *c = (struct group_clock){.time_us = loop_us, .seen_us = loop_us};
}

uint64_t group_clock_look(struct group_clock *c, uint64_t loop_us)
{
    if (loop_us - c->seen_us > STANDSTILL_US) {
        c->lost_us = loop_us + GROUP_CLOCK_GRACE_US - c->time_us;
    }
    c->seen_us = loop_us;
    if (loop_us > c->time_us + c->lost_us) {
        c->time_us = loop_us - c->lost_us;
    }
    return c->time_us;
}

uint64_t group_clock_when_us(const struct group_clock *c, uint64_t deadline_us)
{
    if (deadline_us <= c->time_us) {
        return c->seen_us + 1;
    }
    return deadline_us > UINT64_MAX - c->lost_us ? UINT64_MAX : deadline_us + c->lost_us;
}
