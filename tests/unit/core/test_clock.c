/* Clocks: the simulated one does as told, the real one does not go back. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/clock.h"

Test(clock, simulated)
{
    struct clock_sim sim;
    clock_init_sim(&sim, 5000, 1700000000000);
    cr_assert(eq(u64, clock_now_us(&sim.clock), 5000));
    cr_assert(eq(i64, clock_wall_ms(&sim.clock), 1700000000005));
    sim.now_us += 1500;
    cr_assert(eq(u64, clock_now_us(&sim.clock), 6500));
    cr_assert(eq(i64, clock_wall_ms(&sim.clock), 1700000000006));
    sim.wall_ms_at_zero -= 1000000; /* Somebody set the machine's clock. */
    cr_assert(eq(i64, clock_wall_ms(&sim.clock), 1699999000006));
}

Test(clock, real)
{
    struct clock c;
    clock_init_real(&c);
    uint64_t previous_us = clock_now_us(&c);
    for (int i = 0; i < 1000; i++) {
        uint64_t now_us = clock_now_us(&c);
        cr_assert(ge(u64, now_us, previous_us));
        previous_us = now_us;
    }
    cr_assert(lt(i64, 1700000000000, clock_wall_ms(&c)));
}
