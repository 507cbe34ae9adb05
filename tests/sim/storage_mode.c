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
    sim_say(sim, "failure: %s: %s", where, err_name(e));
    sim_check(sim,
              machine_io_stats(&run->life.machine).failed > 0 || misdirect_explains(run, e) ||
                  (e == ERR_NO_SPACE && run->life.is_full_allowed),
              "%s failed: %s",
              where,
              err_name(e));
    run->life.is_dead = true;
    misdirect_on_failure(run);
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
static void say_unsettled(const struct life *l)
{
    const struct storage_run *run = container_of(l, struct storage_run, life);
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

static void stepped(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    for (uint32_t i = 0; i < run->parts_count; i++) {
        part_tempt_crash(&run->parts[i]);
    }
}

/* Steps until nothing is under way. False: this life is over. */
static bool settle(struct storage_run *run, const char *what)
{
    run_settle(run);
    return life_until(&run->life, &run->is_settled, what);
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
    return partition_id_hash(1, log) % env->run->life.machine.shards_count == env->shard;
}

/* A store is damaged, and says so: nothing goes on from here. */
static void refuse_to_start(struct storage_run *run)
{
    sim_mark(run->sim, "sim_store_damage_refused");
    run->life.is_dead = true;
    run->life.is_over = true;
}

static void on_store_opened(void *context, enum err e, struct store *st)
{
    struct part_env *env = context;
    struct storage_run *run = env->run;
    run->opening_count--;
    if (e == ERR_CORRUPT && misdirect_hit_store(run)) {
        refuse_to_start(run);
        return;
    }
    if (e != ERR_OK) {
        run_on_failure(run, "store_open", e);
        return;
    }
    struct log_shared_options options = LOG_SHARED_OPTIONS_DEFAULT;
    options.cache_size_max = run->sim->swarm.cache_size_max;
    options.index_size_max = run->sim->swarm.index_size_max;
    options.ahead_size_max = run->sim->swarm.ahead_size_max;
    options.ahead_chunk_size_max = run->sim->swarm.ahead_chunk_size_max;
    options.pinned_size_max = run->sim->swarm.pinned_size_max;
    options.piece_size_min = run->sim->swarm.piece_size_min;
    options.files_max = 4;
    options.recycle_size_max = run->sim->swarm.recycle_size_max;
    options.recycle_file_size_min = 16 << 10;
    options.compact_interval_us = 20 * 1000;
    options.compact_keys_size_max = run->sim->swarm.keys_size_max;
    env->store = st;
    env->is_open = true;
    e = log_shared_new(&run->life.machine.shards[env->shard], st, &options, &env->shared);
    sim_check(run->sim, e == ERR_OK, "log_shared_new: %s", err_name(e));
    env->env = (struct log_env){.s = &run->life.machine.shards[env->shard],
                                .dir = DATA_DIR,
                                .store = st,
                                .flusher = env->flusher,
                                .shared = env->shared};
    e = log_shared_recycle(&env->env);
    sim_check(run->sim, e == ERR_OK, "log_shared_recycle: %s", err_name(e));
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
    struct shard *s = &run->life.machine.shards[shard];
    *env = (struct part_env){.run = run, .shard = shard};
    enum err e = flusher_new(s,
                             &(struct flusher_options){.is_shared = run->dir.fs.is_flush_shared,
                                                       .quiet_fd = run->dir.quiet_fd,
                                                       .context = env,
                                                       .on_failed = on_flusher_failed},
                             &env->flusher);
    sim_check(run->sim, e == ERR_OK, "flusher_new: %s", err_name(e));
    run->opening_count++;
    e = store_open_begin(
        s,
        &(struct store_open){.dir = DATA_DIR,
                             .directory_id = run->dir.directory_id,
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
    enum err e = data_dir_open(&run->life.machine.shards[0], DATA_DIR, 1, why, &run->dir);
    if (e == ERR_CORRUPT && misdirect_hit_store(run)) {
        refuse_to_start(run);
        return false;
    }
    if (e != ERR_OK) {
        sim_check(run->sim,
                  machine_io_stats(&run->life.machine).failed > 0,
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

static void driver_run(struct machine_source *source)
{
    struct storage_run *run = container_of(source, struct storage_run, driver);
    struct sim *sim = run->sim;
    run->acts_left--;
    if (run->acts_left == 0) {
        disk_sim_set_capacity(run->sim->disk, 0); /* What waits for room has to come to an end. */
    } else {
        life_play_with_capacity(&run->life);
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
        if (!life_step(&run->life, "acts do not end")) {
            return false;
        }
    }
    return true;
}

/* Everything that is flushed, batch by batch, and some time about each. */
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
            part_find_time_of(p, model_log_find(&p->model, offset));
            if (!settle(run, "a read does not end")) {
                return false;
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
    while (run->life.machine.shards[shard].io.in_flight_count > 0) {
        if (!life_step(&run->life, "an op does not end")) {
            return false;
        }
    }
    return true;
}

static bool close_all(struct storage_run *run)
{
    if (!settle(run, "work does not end")) {
        return false;
    }
    for (uint32_t i = 0; i < run->parts_count; i++) {
        if (run->parts[i].state == PART_OPEN) {
            part_close(&run->parts[i]);
        }
    }
    if (!settle(run, "a log does not close")) {
        return false;
    }
    if (!held_release_all(run)) {
        return false;
    }
    /* What is flushed for nobody in particular may still be under way. */
    for (uint16_t i = 0; i < run->life.machine.shards_count; i++) {
        while (!flusher_is_idle(run->envs[i].flusher) || log_shared_is_busy(run->envs[i].shared)) {
            if (!life_step(&run->life, "a flusher does not become idle")) {
                return false;
            }
        }
    }
    missing_choose(run);
    for (uint16_t i = 0; i < run->life.machine.shards_count; i++) {
        log_shared_free(run->envs[i].shared);
        store_free(run->envs[i].store);
        if (!wait_for_io(run, i)) {
            return false;
        }
        flusher_free(run->envs[i].flusher);
    }
    data_dir_close(&run->life.machine.shards[0], &run->dir);
    return true;
}

static void begin(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    struct sim *sim = run->sim;
    const struct sim_swarm *w = &sim->swarm;
    run->lives_count++;
    run->is_settled = false;
    run->opening_count = 0;
    run->waiting_count = 0;
    run->act_us = sim->clock.now_us;
    run->acts_left = sim_log_between(sim, 1, w->steps_per_life / 3);
    if (l->end == LIFE_CRASHES) {
        run->acts_left = UINT64_MAX;
        life_crash_within(l, w->steps_per_life);
    }
    run->is_fault_allowed = l->end != LIFE_IS_LAST &&
                            (w->sync_fail_one_in | w->write_fail_one_in | w->read_fail_one_in) != 0;
    machine_add_source(&l->machine, &run->driver);
    misdirect_begin_life(run);
}

static bool live(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    struct sim *sim = run->sim;
    if (!open_data_dir(run)) {
        return false;
    }
    for (uint16_t i = 0; i < l->machine.shards_count; i++) {
        open_env(run, i);
    }
    while (run->opening_count > 0) {
        if (!life_step(l, "opening does not end")) {
            return false;
        }
    }
    if (!l->is_dead && !rand_one_in(&sim->rand, 4)) {
        store_drop_stale(&l->machine.shards[0], DATA_DIR);
        machine_poke(&l->machine);
    }
    if (l->is_dead || !drive(run)) {
        return false;
    }
    if (l->end == LIFE_GETS_QUIET) {
        (void)machine_run_for(&l->machine, QUIET_US);
        missing_choose(run);
        return false;
    }
    if (l->end == LIFE_IS_LAST && !verify_all(run)) {
        return false;
    }
    if (l->end == LIFE_STOPS && rand_one_in(&sim->rand, 4)) {
        life_crash_within(l, 200);
    }
    return close_all(run);
}

static void crashed(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    for (uint32_t i = 0; i < run->parts_count; i++) {
        part_forget(&run->parts[i]);
    }
    held_forget(run);
}

static void rest(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    const bool is_next_last = run->lives_count >= l->sim->swarm.crashes_max;
    missing_give_back(run);
    misdirect_end_life(run);
    if (l->is_quiet && sim_chance(l->sim, l->sim->swarm.rot_percent)) {
        rot_plant(run);
    }
    repair_rest(run);
    if (l->is_quiet && !is_next_last) {
        missing_take(run);
    }
}

static const struct life_ops life_ops = {.begin = begin,
                                         .live = live,
                                         .crashed = crashed,
                                         .rest = rest,
                                         .stepped = stepped,
                                         .say = say_unsettled};

void storage_mode_run(struct sim *sim)
{
    static_assert(sizeof(struct storage_run) < 1 << 20, "fits on the stack");
    struct storage_run run = {.sim = sim};
    run.driver = (struct machine_source){.next_us = driver_next_us, .run = driver_run};
    run.parts_count = sim->swarm.partitions;
    list_init(&run.held);
    for (uint32_t i = 0; i < run.parts_count; i++) {
        run.parts[i].run = &run;
        run.parts[i].number = i;
        part_renew(&run.parts[i]);
    }
    lives_run(&run.life, sim, &life_ops);
    for (uint32_t i = 0; i < run.parts_count; i++) {
        model_log_done(&run.parts[i].model);
        producer_state_free(run.parts[i].producers);
    }
}
