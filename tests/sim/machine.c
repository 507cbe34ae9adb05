#include "tests/sim/machine.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "core/ids.h"

#include "tests/sim/damage.h"

enum {
    OVERTAKE_US_MAX = 5000,
};

static void log_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct machine *m = l->context;
    if (m->sim->is_verbose) {
        (void)fprintf(stderr,
                      "[%" PRIu64 " %" PRIu64 "] %.*s\n",
                      m->sim->clock.now_us,
                      m->sim->steps,
                      (int)size,
                      line);
    }
}

static int64_t log_wall_ms(struct logger *l)
{
    struct machine *m = l->context;
    return clock_wall_ms(&m->sim->clock.clock);
}

/* Blocking code at the start and at the end: nothing else runs meanwhile, but the crash may come.
 */
static void on_wait(void *context, uint64_t next_us)
{
    struct machine *m = context;
    struct sim *sim = m->sim;
    sim_check(sim, next_us != UINT64_MAX, "start-up waits for nothing");
    if (sim_step(sim)) {
        assert(sim->is_blocking);
        siglongjmp(sim->crash_place, 1);
    }
    if (next_us > sim->clock.now_us) {
        sim->clock.now_us = next_us;
    }
}

static void on_transfer(void *context, const struct io_op *op, struct disk_sim_op *disk_op)
{
    struct machine *m = context;
    if (m->on_transfer != NULL) {
        m->on_transfer(m, op, disk_op);
    }
}

static void start_io(struct machine *m, uint16_t id)
{
    struct sim *sim = m->sim;
    const struct sim_swarm *w = &sim->swarm;
    io_sim_init(&m->ios[id],
                &(struct io_sim_options){
                    .disk = sim->disk,
                    .clock = &sim->clock.clock,
                    .rand_seed = rand_u64(&sim->rand),
                    .transfer = {5, w->transfer_us_max},
                    .sync = {20, w->sync_us_max},
                    .other = {5, 50},
                    .slow_one_in = w->slow_one_in,
                    .slow_read_one_in = w->slow_read_one_in,
                    .slow_us = 200 * 1000,
                    .short_one_in = w->short_one_in,
                    .read_fail_one_in = w->read_fail_one_in,
                    .write_fail_one_in = w->write_fail_one_in,
                    .sync_fail_one_in = w->sync_fail_one_in,
                    .on_wait = on_wait,
                    .on_transfer = on_transfer,
                    .context = m,
                });
}

static void start_shard(struct machine *m, uint16_t id)
{
    struct sim *sim = m->sim;
    const struct sim_swarm *w = &sim->swarm;
    start_io(m, id);
    enum err e = shard_init(&m->shards[id],
                            m->group,
                            id,
                            &(struct shard_options){
                                .backend = &m->ios[id].backend,
                                .clock = &sim->clock.clock,
                                .log = &m->logger,
                                .rand_seed = rand_u64(&sim->rand) | 1,
                                .memory_size = w->memory_size,
                                .memory_reserve_size = w->memory_size / 4,
                            });
    sim_check(sim, e == ERR_OK, "shard_init: %s", err_name(e));
    m->shards[id].reached = &sim->reached;
}

void machine_start(struct machine *m, struct sim *sim, uint16_t shards_count)
{
    *m = (struct machine){.sim = sim, .shards_count = shards_count, .ios_count = shards_count};
    m->logger = (struct logger){.level = sim->is_verbose ? LOG_DEBUG : LOG_ERROR,
                                .sink = log_line,
                                .context = m,
                                .wall_ms = log_wall_ms};
    enum err e = shard_group_new(shards_count, &m->group);
    sim_check(sim, e == ERR_OK, "shard_group_new: %s", err_name(e));
    for (uint16_t i = 0; i < shards_count; i++) {
        start_shard(m, i);
    }
    machine_poke(m);
}

void machine_start_tool(struct machine *m, struct sim *sim)
{
    *m = (struct machine){.sim = sim, .ios_count = 1};
    start_io(m, 0);
}

void machine_add_source(struct machine *m, struct machine_source *source)
{
    source->next = m->sources;
    m->sources = source;
}

void machine_poke(struct machine *m)
{
    m->busy = (1u << m->shards_count) - 1;
}

/* A drawn one of the bits. */
static uint16_t draw_busy(struct machine *m)
{
    uint32_t bits = m->busy;
    uint64_t skip = rand_below(&m->sim->rand, (uint64_t)__builtin_popcount(bits));
    while (skip-- > 0) {
        bits &= bits - 1;
    }
    return (uint16_t)__builtin_ctz(bits);
}

static uint64_t next_deadline_us(const struct machine *m)
{
    uint64_t next_us = UINT64_MAX;
    for (uint16_t i = 0; i < m->shards_count; i++) {
        uint64_t shard_us = shard_next_us(&m->shards[i]);
        uint64_t io_us = io_sim_next_us(&m->ios[i]);
        next_us = shard_us < next_us ? shard_us : next_us;
        next_us = io_us < next_us ? io_us : next_us;
    }
    for (struct machine_source *s = m->sources; s != NULL; s = s->next) {
        uint64_t source_us = s->next_us(s);
        next_us = source_us < next_us ? source_us : next_us;
    }
    return next_us;
}

static bool run_source(struct machine *m)
{
    for (struct machine_source *s = m->sources; s != NULL; s = s->next) {
        if (s->next_us(s) <= m->sim->clock.now_us) {
            s->run(s);
            machine_poke(m);
            return true;
        }
    }
    return false;
}

/* True if the disk or a client is next, though shards have something to do. */
static bool draw_overtaking(struct machine *m)
{
    struct sim *sim = m->sim;
    if (sim->swarm.overtake_one_in == 0 || !rand_one_in(&sim->rand, sim->swarm.overtake_one_in)) {
        return false;
    }
    uint64_t next_us = next_deadline_us(m);
    return next_us <= sim->clock.now_us + OVERTAKE_US_MAX;
}

enum machine_step machine_step(struct machine *m)
{
    struct sim *sim = m->sim;
    if (sim_step(sim)) {
        return MACHINE_CRASH;
    }
    if (m->busy != 0 && !draw_overtaking(m)) {
        uint16_t id = draw_busy(m);
        if (shard_turn(&m->shards[id])) {
            machine_poke(m);
        } else {
            m->busy &= ~(1u << id);
        }
        return MACHINE_RAN;
    }
    if (run_source(m)) {
        return MACHINE_RAN;
    }
    uint64_t next_us = next_deadline_us(m);
    if (next_us == UINT64_MAX) {
        return MACHINE_IDLE;
    }
    if (next_us > sim->clock.now_us) {
        sim->clock.now_us = next_us;
    }
    machine_poke(m);
    return MACHINE_RAN;
}

bool machine_run_for(struct machine *m, uint64_t us)
{
    uint64_t end_us = m->sim->clock.now_us + us;
    for (;;) {
        uint64_t next_us = next_deadline_us(m);
        if (m->busy == 0 && next_us > end_us) {
            m->sim->clock.now_us = end_us;
            return true;
        }
        if (machine_step(m) == MACHINE_CRASH) {
            return false;
        }
    }
}

/* The incarnation is over, one way or the other. */
static void fold_traces(struct machine *m)
{
    for (uint16_t i = 0; i < m->ios_count; i++) {
        sim_trace(m->sim, "io", i, m->ios[i].trace);
    }
}

static void mark_faults(struct machine *m)
{
    struct io_sim_stats stats = machine_io_stats(m);
    if (stats.slow > 0) {
        sim_mark(m->sim, "sim_slow_op");
    }
    if (stats.shortened > 0) {
        sim_mark(m->sim, "sim_short_transfer");
    }
    if (stats.failed > 0) {
        sim_mark(m->sim, "sim_failed_op");
    }
    if (!m->sim->swarm.is_flush_shared) {
        sim_mark(m->sim, "sim_no_shared_flush");
    }
}

static void say_file(void *context, const char *path, uint64_t size)
{
    struct sim *sim = context;
    sim_say(sim, "  %s size=%" PRIu64, path, size);
}

static void say_files(struct sim *sim)
{
    if (sim->is_verbose) {
        disk_sim_each_file(sim->disk, sim, say_file);
    }
}

void machine_crash(struct machine *m, const struct disk_sim_crash *how)
{
    struct sim *sim = m->sim;
    fold_traces(m);
    mark_faults(m);
    sim_mark(sim, how->is_power_loss ? "sim_power_loss" : "sim_process_death");
    for (uint16_t i = 0; i < m->ios_count; i++) {
        io_sim_abandon(&m->ios[i]);
    }
    disk_sim_crash(sim->disk, &sim->rand, how);
    damage_derived_file(sim);
    sim->crashes++;
    sim->crash_at_step = UINT64_MAX;
    sim_trace(sim, "crash", how->is_power_loss, 0);
    sim_say(sim,
            "crash: is_power_loss=%d keep_sector=%u mangle_sector=%u keep_extent=%u keep_name=%u"
            " are_names_ordered=%d",
            how->is_power_loss,
            how->keep_sector,
            how->mangle_sector,
            how->keep_extent,
            how->keep_name,
            how->are_names_ordered);
    say_files(sim);
}

void machine_stop(struct machine *m)
{
    struct sim *sim = m->sim;
    fold_traces(m);
    mark_faults(m);
    for (uint16_t i = 0; i < m->shards_count; i++) {
        shard_done(&m->shards[i]);
    }
    for (uint16_t i = 0; i < m->ios_count; i++) {
        io_sim_done(&m->ios[i]);
    }
    shard_group_free(m->group);
    sim_trace(sim, "stop", 0, 0);
    sim_say(sim, "stopped");
    say_files(sim);
    if (machine_has_failed_ops(m)) {
        /* What a failed sync abandoned must not seem to be there: no later sync would cover it. */
        struct disk_sim_crash how = sim_draw_crash(sim);
        how.is_power_loss = true;
        disk_sim_crash(sim->disk, &sim->rand, &how);
    }
    damage_derived_file(sim);
}

struct io_sim_stats machine_io_stats(const struct machine *m)
{
    struct io_sim_stats sum = {0};
    for (uint16_t i = 0; i < m->ios_count; i++) {
        sum.slow += m->ios[i].stats.slow;
        sum.shortened += m->ios[i].stats.shortened;
        sum.failed += m->ios[i].stats.failed;
        sum.broken += m->ios[i].stats.broken;
    }
    return sum;
}

bool machine_has_failed_ops(const struct machine *m)
{
    const struct io_sim_stats stats = machine_io_stats(m);
    return stats.failed > 0 || stats.broken > 0;
}

uint32_t machine_in_flight_count(const struct machine *m)
{
    uint32_t count = 0;
    for (uint16_t i = 0; i < m->shards_count; i++) {
        count += m->shards[i].io.in_flight_count;
    }
    return count;
}
