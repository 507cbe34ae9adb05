#include "tests/sim/broker_mode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/damage.h"

enum {
    DRAIN_US_MAX = 300 * 1000 * 1000, /* Without faults everything has to come to an end by then. */
    CONNECT_RETRY_US = 2000,
    SERVED_CHECK_STEPS = 16, /* It looks at the disk. */
    DRAIN_PAUSE_US = 500, /* More would happen while somebody waits than there is to be drained. */
    CONTROLLER_SEGMENT_SIZE_MAX = 8 << 10, /* A crowd fills several. */
};

/* ---- actors ---- */

void actor_rest(struct actor *a)
{
    struct sim *sim = a->run->sim;
    uint64_t pause_us = sim_log_between(sim, 1, sim->swarm.pause_us_max);
    if (a->run->is_draining) {
        pause_us += DRAIN_PAUSE_US;
    }
    a->next_us = sim->clock.now_us + pause_us;
}

bool actor_connect(struct actor *a, struct kafka_client *c)
{
    if (!kafka_client_connect(c, &a->run->net)) {
        a->next_us += CONNECT_RETRY_US;
        return false;
    }
    return kafka_client_is_ready(c);
}

static struct actor *actor_at(struct broker_run *run, uint32_t number)
{
    if (number == 0) {
        return &run->admin.actor;
    }
    if (number == 1) {
        return &run->crowd.actor;
    }
    number -= 2;
    if (number < run->producers_count) {
        return &run->producers[number].actor;
    }
    number -= run->producers_count;
    return number < run->consumers_count ? &run->consumers[number].actor : NULL;
}

static struct actor *next_actor(struct broker_run *run)
{
    struct actor *next = &run->admin.actor;
    struct actor *a;
    for (uint32_t i = 1; (a = actor_at(run, i)) != NULL; i++) {
        next = a->next_us < next->next_us ? a : next;
    }
    return next;
}

static uint64_t actors_next_us(struct machine_source *source)
{
    return next_actor(container_of(source, struct broker_run, actors_source))->next_us;
}

static void actors_run(struct machine_source *source)
{
    struct broker_run *run = container_of(source, struct broker_run, actors_source);
    struct actor *a = next_actor(run);
    if (run->is_started && !run->is_draining) {
        life_play_with_capacity(&run->life);
        dirs_play(run);
    }
    a->act(a);
}

/* ---- the broker ---- */

bool run_explains(const struct broker_run *run, const struct sim_topic *t, int32_t partition)
{
    return life_has_faults(&run->life) || dirs_explain(run, t, partition);
}

static void on_fatal(void *context, enum err e, const char *what)
{
    struct broker_run *run = context;
    sim_say(run->sim, "fatal: %s: %s", what, err_name(e));
    sim_check(run->sim,
              life_has_faults(&run->life) || dirs_lost_group_0(run),
              "the broker gave up: %s: %s",
              what,
              err_name(e));
    run->life.is_dead = true;
}

static enum err transport_new(void *context, struct shard *s, struct transport **ret_transport)
{
    struct broker_run *run = context;
    *ret_transport = net_sim_transport(&run->net, s->id);
    return ERR_OK;
}

static void fill_settings(struct broker_run *run)
{
    const struct sim_swarm *w = &run->sim->swarm;
    struct broker_settings *settings = &run->settings;
    settings_init(settings);
    settings->has_admin = false;
    settings->is_auto_create = false;
    settings->is_delete_enabled = true;
    settings->listeners_count = 1;
    (void)snprintf(settings->listeners[0].name, sizeof(settings->listeners[0].name), "SIM");
    (void)snprintf(settings->listeners[0].bind.host, NET_HOST_SIZE, "sim");
    settings->listeners[0].bind.port = 9092;
    settings->listeners[0].advertised = settings->listeners[0].bind;
    settings->cluster.node_id = 1;
    settings->cluster.log.segment_size_max = w->segment_size_max;
    settings->cluster.log.fill_step_min = w->fill_step_min;
    settings->cluster.log.fill_step_max = w->fill_step_max;
    settings->cluster.log.index_interval = w->index_interval;
    settings->cluster.log.checkpoint_size = w->checkpoint_size;
    settings->cluster.log.index_size_max = w->points_size_max;
    settings->cluster.log.segment_age_ms_max = w->segment_age_ms;
    settings->cluster.controller_log = settings->cluster.log;
    settings->cluster.controller_log.checkpoint_size = w->checkpoint_size / 4;
    /* At times more than play_with_capacity leaves, at times less: records end in tiers, or all. */
    settings->space_reserve_size = sim_log_between(run->sim, 1, 512 << 10);
    if (w->crowd_size > 0) {
        settings->cluster.controller_log.segment_size_max = CONTROLLER_SEGMENT_SIZE_MAX;
    }
    settings->cluster.log_shared.cache_size_max = w->cache_size_max;
    settings->cluster.log_shared.index_size_max = w->index_size_max;
    settings->cluster.log_shared.ahead_size_max = w->ahead_size_max;
    settings->cluster.log_shared.ahead_chunk_size_max = w->ahead_chunk_size_max;
    settings->cluster.log_shared.pinned_size_max = w->pinned_size_max;
    settings->cluster.log_shared.piece_size_min = w->piece_size_min;
    settings->cluster.log_shared.files_max = 8;
    settings->recycle_size_max = w->recycle_size_max;
    settings->cluster.log_shared.recycle_file_size_min = 16 << 10;
    settings->cluster.log_shared.compact_keys_size_max = w->keys_size_max;
    settings->cluster.retention_check_us = sim_log_between(run->sim, 50 * 1000, 3 * 1000 * 1000);
    settings->cluster.log_shared.compact_interval_us =
        sim_log_between(run->sim, 100 * 1000, 5 * 1000 * 1000);
    settings->fetch_sessions_max = w->sessions_max;
    if (w->sessions_max != SESSIONS_MANY) {
        settings->fetch_session_eviction_us = sim_log_between(run->sim, 1, 2 * 1000 * 1000);
    }
    settings->cluster.on_fatal = on_fatal;
    settings->cluster.fatal_context = run;
}

static void on_started(void *context, enum err e, const char *why)
{
    struct broker_run *run = context;
    if (e == ERR_OK) {
        run->is_started = true;
        run->dirs.is_founded = true;
        sim_trace(run->sim, "started", run->life.machine.shards_count, 0);
        sim_say(run->sim, "started");
        return;
    }
    sim_check(run->sim,
              life_has_faults(&run->life) || run->dirs.is_left_out,
              "the broker does not start: %s: %s",
              err_name(e),
              why);
    run->life.is_dead = true;
}

static void on_stopped(void *context)
{
    struct broker_run *run = context;
    run->is_stopped = true;
}

/* ---- a life ---- */

/* False: this life is over. */
static bool run_steps(struct broker_run *run, uint64_t count)
{
    for (; count > 0; count--) {
        if (!life_step(&run->life, "clients and broker wait for each other")) {
            return false;
        }
    }
    return true;
}

static bool is_drained(const struct broker_run *run)
{
    for (uint32_t i = 0; i < run->producers_count; i++) {
        if (!producer_is_drained(&run->producers[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < run->consumers_count; i++) {
        if (!consumer_is_drained(&run->consumers[i])) {
            return false;
        }
    }
    return !run->admin.caller.is_calling && !run->crowd.caller.is_calling;
}

/* Liveness, then the final comparison. */
static void drain(struct broker_run *run)
{
    struct sim *sim = run->sim;
    uint64_t end_us = sim->clock.now_us + DRAIN_US_MAX;
    run->is_draining = true;
    disk_sim_set_capacity(sim->disk, 0);
    for (uint32_t i = 0; i < run->consumers_count; i++) {
        consumer_rewind(&run->consumers[i]);
    }
    for (uint32_t i = 0; i < run->topics_count; i++) {
        struct sim_topic *t = &run->topics[i];
        for (int32_t j = 0; j < t->partitions_count; j++) {
            history_begin_final(&t->histories[j]);
        }
    }
    while (!is_drained(run)) {
        sim_check(sim, sim->clock.now_us < end_us, "the clients do not come to an end");
        bool is_alive = run_steps(run, 1);
        sim_check(sim, is_alive, "the broker gave up without a reason");
    }
    for (uint32_t i = 0; i < run->topics_count; i++) {
        struct sim_topic *t = &run->topics[i];
        for (int32_t j = 0; t->state == TOPIC_LIVE && j < t->partitions_count; j++) {
            history_finish(&t->histories[j]);
        }
    }
}

/* What was acknowledged from memory may be gone: everywhere, or where a fault explains it. */
static void forget_memory(struct broker_run *run, bool is_crash)
{
    for (uint32_t i = 0; i < run->topics_count; i++) {
        struct sim_topic *t = &run->topics[i];
        for (int32_t j = 0; j < t->partitions_count; j++) {
            if (is_crash || run_explains(run, t, j)) {
                history_crashed(&t->histories[j]);
            }
        }
    }
}

/* While a data directory is broken: everybody who writes elsewhere is served. */
static bool wait_until_served(struct broker_run *run)
{
    struct sim *sim = run->sim;
    const uint64_t end_us = sim->clock.now_us + DRAIN_US_MAX;
    run->is_draining = true; /* No new batches. */
    /* A request that names a partition of a full directory, too, is answered when its time is up:
     * on connections that break before, nobody would be served. */
    run->net.is_steady = true;
    bool is_served = false;
    while (!is_served) {
        sim_check(sim, sim->clock.now_us < end_us, "a broken disk keeps others from being served");
        if (!run_steps(run, SERVED_CHECK_STEPS)) {
            return false;
        }
        is_served = true;
        for (uint32_t i = 0; i < run->producers_count && is_served; i++) {
            is_served = producer_is_served(&run->producers[i]);
        }
    }
    sim_mark(sim, "sim_served_beside_a_broken_dir");
    run->is_draining = false;
    run->net.is_steady = false;
    return true;
}

static bool stop(struct broker_run *run)
{
    run->is_stopped = false;
    sim_say(run->sim, "stopping");
    broker_stop(run->broker, run, on_stopped);
    machine_poke(&run->life.machine);
    if (!life_until(&run->life, &run->is_stopped, "a stop")) {
        return false;
    }
    run->is_started = false;
    forget_memory(run, false); /* A stop does not wait for a full disk. */
    /* As shard_run does: what nobody waits for is let to its end. */
    while (machine_in_flight_count(&run->life.machine) > 0) {
        if (!run_steps(run, 1)) {
            return false;
        }
    }
    broker_free(run->broker);
    net_sim_stop(&run->net);
    return true;
}

static void begin(struct life *l)
{
    struct broker_run *run = container_of(l, struct broker_run, life);
    struct sim *sim = run->sim;
    run->is_started = false;
    dirs_begin(run);
    if (l->end == LIFE_CRASHES && rand_one_in(&sim->rand, 4)) {
        life_crash_within(l, sim->swarm.steps_per_life); /* While it starts, perhaps. */
    }
    admin_wake(&run->admin);
    run->net.is_steady = false;
    run->epoch_before = run->epoch > run->epoch_before ? run->epoch : run->epoch_before;
    run->epoch = -1;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        for (int32_t j = 0; j < run->topics[i].partitions_count; j++) {
            history_restarted(&run->topics[i].histories[j]);
        }
    }
    machine_add_source(&l->machine, &run->actors_source);
    net_sim_start(&run->net, &l->machine);
    for (uint32_t i = 0; i < run->consumers_count; i++) {
        if (rand_one_in(&sim->rand, 2)) {
            consumer_rewind(&run->consumers[i]);
        }
    }
}

static bool live(struct life *l)
{
    struct broker_run *run = container_of(l, struct broker_run, life);
    struct sim *sim = run->sim;
    enum err e = broker_new(&(struct broker_options){.settings = &run->settings,
                                                     .group = l->machine.group,
                                                     .context = run,
                                                     .transport_new = transport_new},
                            &run->broker);
    sim_check(sim, e == ERR_OK, "broker_new: %s", err_name(e));
    broker_start(run->broker, run, on_started);
    machine_poke(&l->machine);
    if (!life_until(l, &run->is_started, "a start")) {
        return false;
    }
    if (l->end == LIFE_CRASHES && sim->crash_at_step == UINT64_MAX) {
        life_crash_within(l, sim->swarm.steps_per_life * 8);
    }
    uint64_t steps = sim_between(sim, 1, sim->swarm.steps_per_life * 4);
    if (!run_steps(run, l->end == LIFE_CRASHES ? UINT64_MAX : steps)) {
        return false;
    }
    if (l->end == LIFE_IS_LAST) {
        drain(run);
    } else if (dirs_have_broken(run) && !dirs_lost_group_0(run) && !life_has_faults(l) &&
               !wait_until_served(run)) {
        return false;
    } else if (rand_one_in(&sim->rand, 4)) {
        life_crash_within(l, 1000);
    }
    return stop(run);
}

static void crashed(struct life *l)
{
    struct broker_run *run = container_of(l, struct broker_run, life);
    forget_memory(run, true);
    run->is_started = false;
    net_sim_crash(&run->net);
}

static void rest(struct life *l)
{
    damage_vote(l->sim);
}

static const struct life_ops life_ops = {
    .begin = begin, .live = live, .crashed = crashed, .rest = rest};

/* ---- the run ---- */

static void init_run(struct broker_run *run, struct sim *sim)
{
    *run = (struct broker_run){.sim = sim, .epoch = -1, .epoch_before = -1};
    run->actors_source = (struct machine_source){.next_us = actors_next_us, .run = actors_run};
    fill_settings(run);
    run->topics_count = (uint32_t)sim_between(sim, 1, TOPICS_MAX);
    for (uint32_t i = 0; i < run->topics_count; i++) {
        (void)snprintf(run->topics[i].name, sizeof(run->topics[i].name), "topic-%u", i);
    }
    admin_init(&run->admin, run);
    crowd_init(&run->crowd, run);
    run->producers_count = (uint32_t)sim_between(sim, 1, PRODUCERS_MAX);
    for (uint32_t i = 0; i < run->producers_count; i++) {
        producer_init(&run->producers[i], run, i);
    }
    run->consumers_count = (uint32_t)sim_between(sim, 1, CONSUMERS_MAX);
    for (uint32_t i = 0; i < run->consumers_count; i++) {
        consumer_init(&run->consumers[i], run);
    }
}

void broker_mode_run(struct sim *sim)
{
    static_assert(sizeof(struct broker_run) < 1 << 20, "fits on the stack");
    struct broker_run run;
    init_run(&run, sim);
    lives_run(&run.life, sim, &life_ops);
    for (uint32_t i = 0; i < run.producers_count; i++) {
        producer_done(&run.producers[i]);
    }
    for (uint32_t i = 0; i < run.consumers_count; i++) {
        consumer_done(&run.consumers[i]);
    }
    admin_done(&run.admin);
    crowd_done(&run.crowd);
    settings_done(&run.settings);
}
