#include "tests/sim/storage_mode.h"

#include <inttypes.h>
#include <string.h>

#include "core/assert.h"
#include "storage/producer_state.h"

enum {
    QUIET_US = 3 * 1000 * 1000, /* Long enough for every D to have been persisted. */
    SETTLE_US_MAX = 60 * 1000 * 1000,
};

#define DATA_DIR "/data"

void run_on_failure(struct storage_run *run, const char *where, enum err e)
{
    struct sim *sim = run->sim;
    bool is_injected = machine_io_stats(&run->machine).failed > 0;
    sim_say(sim, "failure: %s: %s", where, err_name(e));
    sim_check(sim,
              is_injected || (e == ERR_NO_SPACE && run->is_full_allowed),
              "%s failed: %s",
              where,
              err_name(e));
    run->is_dead = true;
}

void run_settle(struct storage_run *run)
{
    bool is_busy = run->waiting_count > 0 || run->opening_count > 0;
    for (uint32_t i = 0; i < run->parts_count; i++) {
        const struct part *p = &run->parts[i];
        is_busy |= p->reads_count > 0;
        is_busy |= p->state != PART_NONE && p->state != PART_OPEN;
    }
    run->is_settled = !is_busy;
}

/* What is still under way, for whoever has to find out why nothing goes on. */
static void say_unsettled(const struct storage_run *run)
{
    for (uint32_t i = 0; i < run->parts_count; i++) {
        const struct part *p = &run->parts[i];
        (void)fprintf(stderr,
                      "%s: state=%d reads=%u last=%" PRIu64 " flushed=%" PRIu64 " cut=%" PRIu64
                      "\n",
                      p->name,
                      (int)p->state,
                      p->reads_count,
                      p->model.last_index,
                      p->model.flushed_index,
                      p->model.cut_index);
    }
    (void)fprintf(stderr, "opening=%u waiting=%u\n", run->opening_count, run->waiting_count);
}

/* One step; false if the incarnation is over. Nothing to do is a failure. */
static bool step(struct storage_run *run, const char *what)
{
    enum machine_step result = machine_step(&run->machine);
    for (uint32_t i = 0; i < run->parts_count; i++) {
        part_tempt_crash(&run->parts[i]);
    }
    if (result == MACHINE_IDLE) {
        say_unsettled(run);
        sim_fail(run->sim, "nothing happens any more: %s", what);
    }
    return result != MACHINE_CRASH && !run->is_dead;
}

/* ---- start ---- */

static void on_flusher_failed(void *context, enum err e)
{
    struct part_env *env = context;
    run_on_failure(env->run, "flusher", e);
}

static bool owns(void *context, const struct partition_id *log)
{
    const struct part_env *env = context;
    return partition_id_hash(1, log) % env->run->machine.shards_count == env->shard;
}

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct part_env *env = context;
    struct storage_run *run = env->run;
    run->opening_count--;
    if (e != ERR_OK) {
        run_on_failure(run, "store_open", e);
        return;
    }
    struct log_shared_options options = LOG_SHARED_OPTIONS_DEFAULT;
    options.cache_size_max = run->sim->swarm.cache_size_max;
    options.index_size_max = run->sim->swarm.index_size_max;
    options.files_max = 4;
    env->store = st;
    env->is_open = true;
    e = log_shared_new(&run->machine.shards[env->shard], st, &options, &env->shared);
    sim_check(run->sim, e == ERR_OK, "log_shared_new: %s", err_name(e));
    env->env = (struct log_env){.s = &run->machine.shards[env->shard],
                                .dir = DATA_DIR,
                                .store = st,
                                .flusher = env->flusher,
                                .shared = env->shared};
    for (uint32_t i = 0; i < run->parts_count; i++) {
        if (owns(env, &run->parts[i].id)) {
            part_open(&run->parts[i]);
        }
    }
    run_settle(run);
}

static void open_env(struct storage_run *run, uint16_t shard)
{
    struct part_env *env = &run->envs[shard];
    struct shard *s = &run->machine.shards[shard];
    *env = (struct part_env){.run = run, .shard = shard};
    enum err e = flusher_new(s, run->dir.fs.is_flush_shared, env, on_flusher_failed, &env->flusher);
    sim_check(run->sim, e == ERR_OK, "flusher_new: %s", err_name(e));
    run->opening_count++;
    e = store_open_begin(
        s,
        &(struct store_open){.dir = DATA_DIR,
                             .flusher = env->flusher,
                             .context = env,
                             .owns = owns,
                             .on_opened = on_store_opened,
                             .area_blocks_min = run->sim->swarm.store_area_blocks});
    sim_check(run->sim, e == ERR_OK, "store_open_begin: %s", err_name(e));
}

/* False if opening failed because of an injected fault. */
static bool open_data_dir(struct storage_run *run)
{
    char why[DATA_WHY_SIZE] = "";
    enum err e = data_dir_open(&run->machine.shards[0], DATA_DIR, 1, why, &run->dir);
    if (e != ERR_OK) {
        sim_check(run->sim,
                  machine_io_stats(&run->machine).failed > 0,
                  "data_dir_open: %s: %s",
                  err_name(e),
                  why);
        return false;
    }
    return true;
}

/* ---- driving ---- */

static uint64_t driver_next_us(struct machine_source *source)
{
    const struct storage_run *run = container_of(source, struct storage_run, driver);
    return run->acts_left > 0 && run->opening_count == 0 ? run->act_us : UINT64_MAX;
}

static void play_with_capacity(struct storage_run *run)
{
    struct sim *sim = run->sim;
    if (sim->swarm.capacity_size == 0 || !rand_one_in(&sim->rand, 200)) {
        return;
    }
    if (run->is_full_allowed && rand_one_in(&sim->rand, 2)) {
        disk_sim_set_capacity(sim->disk, 0);
        return;
    }
    run->is_full_allowed = true;
    disk_sim_set_capacity(sim->disk,
                          disk_sim_used_size(sim->disk) + sim_between(sim, 4096, 256 << 10));
}

static void driver_run(struct machine_source *source)
{
    struct storage_run *run = container_of(source, struct storage_run, driver);
    struct sim *sim = run->sim;
    run->acts_left--;
    if (run->acts_left == 0) {
        disk_sim_set_capacity(run->sim->disk, 0); /* What waits for room has to come to an end. */
    } else {
        play_with_capacity(run);
    }
    part_act(&run->parts[rand_below(&sim->rand, run->parts_count)]);
    uint64_t pause_us = sim_log_between(sim, 0, sim->swarm.pause_us_max);
    run->act_us = sim->clock.now_us + pause_us;
    run_settle(run);
}

/* Steps until the acts are used up. False: the incarnation is over. */
static bool drive(struct storage_run *run)
{
    while (run->acts_left > 0 || !run->is_settled) {
        if (!step(run, "acts do not end")) {
            return false;
        }
    }
    return true;
}

/* Everything that is flushed, batch by batch. */
static bool verify_all(struct storage_run *run)
{
    for (uint32_t i = 0; i < run->parts_count; i++) {
        struct part *p = &run->parts[i];
        if (p->state != PART_OPEN) {
            continue;
        }
        int64_t end = model_log_next_offset(&p->model, p->model.flushed_index);
        for (int64_t offset = 0; offset < end;) {
            part_read(p, offset);
            run_settle(run);
            while (!run->is_settled) {
                if (!step(run, "a read does not end")) {
                    return false;
                }
            }
            offset = model_log_find(&p->model, offset)->next_offset;
        }
    }
    return true;
}

/* ---- the end of a life ---- */

/* A store closes its file from the loop. */
static bool wait_for_io(struct storage_run *run, uint16_t shard)
{
    while (run->machine.shards[shard].io.in_flight_count > 0) {
        if (!step(run, "an op does not end")) {
            return false;
        }
    }
    return true;
}

static bool close_all(struct storage_run *run)
{
    run_settle(run);
    while (!run->is_settled) {
        if (!step(run, "work does not end")) {
            return false;
        }
    }
    for (uint32_t i = 0; i < run->parts_count; i++) {
        if (run->parts[i].state == PART_OPEN) {
            part_close(&run->parts[i]);
        }
    }
    run_settle(run);
    while (!run->is_settled) {
        if (!step(run, "a log does not close")) {
            return false;
        }
    }
    /* What is flushed for nobody in particular may still be under way. */
    for (uint16_t i = 0; i < run->machine.shards_count; i++) {
        while (!flusher_is_idle(run->envs[i].flusher)) {
            if (!step(run, "a flusher does not become idle")) {
                return false;
            }
        }
    }
    for (uint16_t i = 0; i < run->machine.shards_count; i++) {
        log_shared_free(run->envs[i].shared);
        store_free(run->envs[i].store);
        if (!wait_for_io(run, i)) {
            return false;
        }
        flusher_free(run->envs[i].flusher);
    }
    data_dir_close(&run->machine.shards[0], &run->dir);
    machine_stop(&run->machine);
    return true;
}

static void crash(struct storage_run *run)
{
    struct sim *sim = run->sim;
    struct disk_sim_crash how = sim_draw_crash(sim);
    if (machine_io_stats(&run->machine).failed > 0) {
        how.is_power_loss = true; /* What a failed sync abandoned must not seem to be there. */
    }
    machine_crash(&run->machine, &how);
    for (uint32_t i = 0; i < run->parts_count; i++) {
        part_forget(&run->parts[i]);
    }
}

enum life_end {
    LIFE_CRASHES,
    LIFE_GETS_QUIET, /* And crashes then. */
    LIFE_STOPS,
    LIFE_IS_LAST, /* Verifies all, and stops. */
};

static void begin_life(struct storage_run *run, enum life_end end)
{
    struct sim *sim = run->sim;
    disk_sim_set_capacity(sim->disk, 0);
    run->is_full_allowed = false;
    run->is_dead = false;
    run->is_settled = false;
    run->opening_count = 0;
    run->waiting_count = 0;
    run->acts_left = sim_log_between(sim, 1, sim->swarm.steps_per_life / 3);
    run->act_us = sim->clock.now_us;
    sim->crash_at_step = UINT64_MAX;
    if (end == LIFE_CRASHES) {
        run->acts_left = UINT64_MAX;
        sim->crash_at_step = sim->steps + sim_log_between(sim, 1, sim->swarm.steps_per_life);
    }
    machine_start(&run->machine,
                  sim,
                  end == LIFE_IS_LAST ? 1 : (uint16_t)sim_between(sim, 1, sim->swarm.shards_max));
    sim_say(sim, "life: shards=%u end=%d", (unsigned)run->machine.shards_count, (int)end);
    machine_add_source(&run->machine, &run->driver);
    if (end == LIFE_IS_LAST) {
        for (uint16_t i = 0; i < run->machine.shards_count; i++) {
            run->machine.ios[i].options.sync_fail_one_in = 0;
            run->machine.ios[i].options.write_fail_one_in = 0;
        }
    }
    run->is_fault_allowed =
        end != LIFE_IS_LAST && (sim->swarm.sync_fail_one_in | sim->swarm.write_fail_one_in) != 0;
}

/* True if it ended in order. */
static bool live_inner(struct storage_run *run, enum life_end end)
{
    struct sim *sim = run->sim;
    if (!open_data_dir(run)) {
        return false;
    }
    sim->is_blocking = false;
    for (uint16_t i = 0; i < run->machine.shards_count; i++) {
        open_env(run, i);
    }
    while (run->opening_count > 0) {
        if (!step(run, "opening does not end")) {
            return false;
        }
    }
    if (!run->is_dead && !rand_one_in(&sim->rand, 4)) {
        store_drop_stale(&run->machine.shards[0], DATA_DIR);
        machine_poke(&run->machine);
    }
    if (run->is_dead || !drive(run)) {
        return false;
    }
    if (end == LIFE_GETS_QUIET) {
        (void)machine_run_for(&run->machine, QUIET_US);
        return false;
    }
    if (end == LIFE_IS_LAST && !verify_all(run)) {
        return false;
    }
    if (end == LIFE_STOPS && rand_one_in(&sim->rand, 4)) {
        sim->crash_at_step = sim->steps + sim_log_between(sim, 1, 200);
    }
    return close_all(run);
}

static bool live(struct storage_run *run, enum life_end end)
{
    struct sim *sim = run->sim;
    begin_life(run, end);
    sim->is_blocking = true;
    bool is_in_order = false;
    if (sigsetjmp(sim->crash_place, 1) == 0) {
        is_in_order = live_inner(run, end);
    }
    sim->is_blocking = false;
    sim->crash_at_step = UINT64_MAX;
    if (!is_in_order) {
        sim_check(sim, end != LIFE_IS_LAST, "the last life did not end in order");
        bool is_quiet = end == LIFE_GETS_QUIET && !run->is_dead;
        crash(run);
        return is_quiet;
    }
    return true;
}

void storage_mode_run(struct sim *sim)
{
    static_assert(sizeof(struct storage_run) < 1 << 20, "fits on the stack");
    struct storage_run run = {.sim = sim};
    run.driver = (struct machine_source){.next_us = driver_next_us, .run = driver_run};
    run.parts_count = sim->swarm.partitions;
    for (uint32_t i = 0; i < run.parts_count; i++) {
        run.parts[i].run = &run;
        run.parts[i].number = i;
        part_renew(&run.parts[i]);
    }
    for (uint32_t i = 0; i < sim->swarm.crashes_max; i++) {
        bool stops = sim_chance(sim, sim->swarm.clean_stop_percent);
        bool gets_quiet = sim_chance(sim, sim->swarm.rot_percent / 2);
        enum life_end end = stops ? LIFE_STOPS : gets_quiet ? LIFE_GETS_QUIET : LIFE_CRASHES;
        bool is_quiet = live(&run, end);
        if (is_quiet && sim_chance(sim, sim->swarm.rot_percent)) {
            rot_plant(&run);
        }
    }
    (void)live(&run, LIFE_IS_LAST);
    for (uint32_t i = 0; i < run.parts_count; i++) {
        model_log_done(&run.parts[i].model);
        producer_state_free(run.parts[i].producers);
    }
}
