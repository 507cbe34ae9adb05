#include "core/clock.h"

#include <time.h>

#include "core/assert.h"
#include "core/list.h"

static uint64_t real_now_us(struct clock *c)
{
    (void)c;
    struct timespec ts;
    int r = clock_gettime(CLOCK_BOOTTIME, &ts);
    assert(r == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int64_t real_wall_ms(struct clock *c)
{
    (void)c;
    struct timespec ts;
    int r = clock_gettime(CLOCK_REALTIME, &ts);
    assert(r == 0);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void clock_init_real(struct clock *c)
{
    *c = (struct clock){.now_us = real_now_us, .wall_ms = real_wall_ms};
}

static uint64_t sim_now_us(struct clock *c)
{
    return container_of(c, struct clock_sim, clock)->now_us;
}

static int64_t sim_wall_ms(struct clock *c)
{
    const struct clock_sim *sim = container_of(c, struct clock_sim, clock);
    return sim->wall_ms_at_zero + (int64_t)(sim->now_us / 1000);
}

void clock_init_sim(struct clock_sim *c, uint64_t now_us, int64_t wall_ms_at_zero)
{
    *c = (struct clock_sim){
        .clock = {.now_us = sim_now_us, .wall_ms = sim_wall_ms},
        .now_us = now_us,
        .wall_ms_at_zero = wall_ms_at_zero,
    };
}
