#include "tests/sim/life.h"

#include "core/assert.h"

enum {
    CAPACITY_CHANGES_ONE_IN = 250,
};

bool life_has_faults(const struct life *l)
{
    return l->is_full_allowed || machine_io_stats(&l->machine).failed > 0;
}

void life_play_with_capacity(struct life *l)
{
    struct sim *sim = l->sim;
    if (sim->swarm.capacity_size == 0 || !rand_one_in(&sim->rand, CAPACITY_CHANGES_ONE_IN)) {
        return;
    }
    if (l->is_full_allowed && rand_one_in(&sim->rand, 2)) {
        disk_sim_set_capacity(sim->disk, 0);
        return;
    }
    l->is_full_allowed = true;
    disk_sim_set_capacity(sim->disk,
                          disk_sim_used_size(sim->disk) + sim_between(sim, 4096, 256 << 10));
}

bool life_step(struct life *l, const char *what)
{
    enum machine_step step = machine_step(&l->machine);
    if (l->ops->stepped != NULL) {
        l->ops->stepped(l);
    }
    if (step == MACHINE_IDLE) {
        if (l->ops->say != NULL) {
            l->ops->say(l);
        }
        sim_fail(l->sim, "nothing happens any more: %s", what);
    }
    return step != MACHINE_CRASH && !l->is_dead;
}

bool life_until(struct life *l, const bool *is_done, const char *what)
{
    while (!*is_done) {
        if (!life_step(l, what)) {
            return false;
        }
    }
    return true;
}

void life_crash_within(struct life *l, uint64_t steps)
{
    l->sim->crash_at_step = l->sim->steps + sim_log_between(l->sim, 1, steps);
}

static enum life_end draw_end(struct sim *sim)
{
    bool stops = sim_chance(sim, sim->swarm.clean_stop_percent);
    bool gets_quiet = sim_chance(sim, sim->swarm.quiet_percent);
    return stops ? LIFE_STOPS : gets_quiet ? LIFE_GETS_QUIET : LIFE_CRASHES;
}

static void begin(struct life *l, enum life_end end)
{
    struct sim *sim = l->sim;
    l->end = end;
    l->is_dead = false;
    l->is_full_allowed = false;
    l->is_quiet = false;
    disk_sim_set_capacity(sim->disk, 0);
    sim->crash_at_step = UINT64_MAX;
    machine_start(&l->machine, sim, (uint16_t)sim_between(sim, 1, sim->swarm.shards_max));
    sim_say(sim, "life: shards=%u end=%d", (unsigned)l->machine.shards_count, (int)end);
    for (uint16_t i = 0; end == LIFE_IS_LAST && i < l->machine.shards_count; i++) {
        l->machine.ios[i].options.sync_fail_one_in = 0;
        l->machine.ios[i].options.write_fail_one_in = 0;
        l->machine.ios[i].options.read_fail_one_in = 0;
    }
    l->ops->begin(l);
}

static void crash_machine(struct life *l)
{
    struct disk_sim_crash how = sim_draw_crash(l->sim);
    if (machine_has_failed_ops(&l->machine)) {
        how.is_power_loss = true; /* What a failed sync abandoned must not seem to be there. */
    }
    machine_crash(&l->machine, &how);
}

static void crash(struct life *l)
{
    crash_machine(l);
    l->ops->crashed(l);
}

static void live(struct life *l, enum life_end end)
{
    struct sim *sim = l->sim;
    begin(l, end);
    sim->is_blocking = true;
    bool is_in_order = false;
    if (sigsetjmp(sim->crash_place, 1) == 0) {
        is_in_order = l->ops->live(l);
    }
    sim->is_blocking = false;
    sim->crash_at_step = UINT64_MAX;
    l->is_quiet = is_in_order || (end == LIFE_GETS_QUIET && !l->is_dead);
    if (is_in_order) {
        machine_stop(&l->machine);
        return;
    }
    sim_check(sim, end != LIFE_IS_LAST || l->is_over, "the last life did not end in order");
    crash(l);
}

bool life_run_tool(struct life *l, uint64_t crash_steps, bool (*run)(struct life *l))
{
    struct sim *sim = l->sim;
    volatile bool is_in_order = false;
    disk_sim_set_capacity(sim->disk, 0);
    machine_start_tool(&l->machine, sim);
    if (crash_steps > 0) {
        life_crash_within(l, crash_steps);
    }
    sim->is_blocking = true;
    if (sigsetjmp(sim->crash_place, 1) == 0) {
        is_in_order = run(l);
    }
    sim->is_blocking = false;
    sim->crash_at_step = UINT64_MAX;
    if (is_in_order) {
        machine_stop(&l->machine);
    } else {
        crash_machine(l);
    }
    return is_in_order;
}

void lives_run(struct life *l, struct sim *sim, const struct life_ops *ops)
{
    *l = (struct life){.sim = sim, .ops = ops};
    for (uint32_t i = 0; i < sim->swarm.crashes_max && !l->is_over; i++) {
        live(l, draw_end(sim));
        if (ops->rest != NULL) {
            ops->rest(l);
        }
    }
    if (!l->is_over) {
        live(l, LIFE_IS_LAST);
    }
}
