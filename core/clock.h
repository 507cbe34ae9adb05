/* Time as a shard sees it. Two implementations: the kernel's and the simulator's.
 *
 * Shard: one clock object per shard; no locking.
 */
#pragma once

#include <stdint.h>

struct clock {
    /* Microseconds that never go back and go on during suspend (CLOCK_BOOTTIME). */
    uint64_t (*now_us)(struct clock *c);
    /* Milliseconds since 1970, may jump either way. For record timestamps only. */
    int64_t (*wall_ms)(struct clock *c);
};

static inline uint64_t clock_now_us(struct clock *c)
{
    return c->now_us(c);
}

static inline int64_t clock_wall_ms(struct clock *c)
{
    return c->wall_ms(c);
}

/* The kernel's clocks. */
void clock_init_real(struct clock *c);

/* Moved by hand. */
struct clock_sim {
    struct clock clock;
    uint64_t now_us;
    int64_t wall_ms_at_zero; /* Wall time when now_us was 0. */
};

void clock_init_sim(struct clock_sim *c, uint64_t now_us, int64_t wall_ms_at_zero);
