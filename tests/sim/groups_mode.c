#include "tests/sim/groups_mode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"

enum {
    ARENA_SIZE_MAX = 1 << 30,
    ADMIN_US_MAX = 2000 * 1000,
    IDLE_US_MAX = 1000 * 1000,
    /* After the faults: sessions run out, members come again, give up and get what is theirs. */
    REST_US = 400 * 1000 * 1000,
    KEPT_US_MIN = 100 * 1000, /* In peace none is answered so late but on purpose. */
    NEWS_US = 6000 * 1000,    /* How soon all have heard of a partition that came. */
    SETTLE_TURNS_MAX = 1000 * 1000,
};

void *groups_alloc(struct groups_run *run, size_t count, size_t size)
{
    void *memory = arena_alloc_array(&run->arena, count, size);
    assert(memory != NULL);
    return memory;
}

struct slice groups_copy(struct groups_run *run, struct slice text)
{
    uint8_t *bytes = groups_alloc(run, text.size + 1, 1);
    if (text.size > 0) {
        memcpy(bytes, text.data, text.size);
    }
    return slice_of(bytes, text.size);
}

/* ---- what this run is like ---- */

static uint32_t pick(struct sim *sim, const uint32_t *values, size_t count)
{
    return values[sim_between(sim, 0, count - 1)];
}

#define PICK(sim, ...)                    \
    pick((sim),                           \
         (const uint32_t[]){__VA_ARGS__}, \
         sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void draw_swarm(struct groups_run *run)
{
    struct sim *sim = run->sim;
    run->swarm = (struct groups_swarm){
        .actors_count = (uint32_t)sim_between(sim, 2, 10),
        .groups_count = (uint32_t)sim_between(sim, 1, 3),
        .lose_percent = PICK(sim, 0, 0, 2, 10),
        .copy_percent = PICK(sim, 0, 0, 2, 10),
        .net_us_max = PICK(sim, 1000, 100000, 3000000),
        .append_us_max = PICK(sim, 1000, 100000, 3000000),
        .fail_percent = PICK(sim, 0, 0, 0, 10),
        .handover_one_in = PICK(sim, 0, 100, 1000, 5000),
        .restart_one_in = PICK(sim, 100, 1000),
        .topic_one_in = PICK(sim, 0, 200, 2000),
        .config_one_in = PICK(sim, 0, 500),
        .jump_one_in = PICK(sim, 0, 0, 500),
        .crash_one_in = PICK(sim, 0, 20, 200),
        .leave_percent = PICK(sim, 0, 0, 1, 5),
        .cancel_percent = PICK(sim, 0, 50, 100),
        .slow_revoke_percent = PICK(sim, 0, 0, 10),
        .is_limiting = sim_chance(sim, 10),
        .turns = PICK(sim, 1500, 3000, 6000),
    };
}

static void draw_settings(struct groups_run *run)
{
    struct sim *sim = run->sim;
    struct groups_settings *s = &run->settings;
    groups_settings_init(s);
    s->initial_delay_ms = sim_chance(sim, 50) ? 0 : 3000;
    s->is_heartbeat_held = sim_chance(sim, 70);
    if (sim_chance(sim, 25)) {
        s->offsets_retention_ms = 60000;
        s->offsets_check_ms = 5000;
        run->swarm.jump_one_in = 0;
    }
    if (sim_chance(sim, 10)) {
        s->groups_max = run->swarm.groups_count;
        s->state_size_max = 200000;
    }
}

static void draw_groups(struct groups_run *run)
{
    struct sim *sim = run->sim;
    for (uint32_t i = 0; i < run->swarm.groups_count; i++) {
        struct groups_group *g = &run->groups[i];
        const enum groups_kind kinds[] = {GROUPS_OF_CONSUMERS,
                                          GROUPS_OF_CONSUMERS,
                                          GROUPS_OF_CLASSICS,
                                          GROUPS_OF_CLASSICS,
                                          GROUPS_OF_BOTH,
                                          GROUPS_OF_BOTH,
                                          GROUPS_WITHOUT_MEMBERS};
        g->kind = kinds[sim_between(sim, 0, i == 0 ? 5 : 6)];
        g->is_cooperative = sim_chance(sim, 50);
        g->classic_percent = 50 * (uint32_t)sim_between(sim, 0, 2);
        (void)snprintf(g->name, sizeof(g->name), "g%u", i);
        g->session_ms = 45000;
        g->heartbeat_ms = 5000;
        g->assignment_ms = (int32_t)sim_between(sim, 0, 1) * 1000;
        sim_say(sim, "group %s: kind=%d", g->name, (int)g->kind);
    }
}

static void draw_actors(struct groups_run *run)
{
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        uint32_t group = i % run->swarm.groups_count;
        if (run->groups[group].kind == GROUPS_WITHOUT_MEMBERS) {
            group = 0;
        }
        groups_actor_start(run, &run->actors[i], group);
    }
}

/* ---- turns ---- */

static bool comes(struct groups_run *run, uint32_t one_in)
{
    return one_in > 0 && rand_one_in(&run->sim->rand, one_in);
}

static void disturb(struct groups_run *run)
{
    const struct groups_swarm *w = &run->swarm;
    if (comes(run, w->handover_one_in)) {
        groups_log_depose(run, sim_chance(run->sim, 50));
    }
    if (comes(run, w->restart_one_in)) {
        groups_log_restart(run);
    }
    if (comes(run, w->topic_one_in)) {
        groups_topics_act(run);
    }
    if (comes(run, w->config_one_in)) {
        groups_config_act(run);
    }
    if (comes(run, w->jump_one_in)) {
        /* Never so far that what is a week old by one clock is older than that by another. */
        run->wall_jump_ms = (int64_t)sim_between(run->sim, 0, 5 * 86400000) - 86400000;
        sim_mark(run->sim, "sim_groups_clock_jumps");
    }
}

static uint64_t next_deadline_us(const struct groups_run *run)
{
    uint64_t at_us = groups_log_deadline_us(run);
    const uint64_t call_us = groups_calls_deadline_us(run);
    at_us = call_us < at_us ? call_us : at_us;
    at_us = run->admin_at_us < at_us ? run->admin_at_us : at_us;
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        const uint64_t actor_us = groups_actor_deadline_us(&run->actors[i]);
        at_us = actor_us < at_us ? actor_us : at_us;
    }
    return at_us;
}

static void turn(struct groups_run *run)
{
    struct sim *sim = run->sim;
    (void)sim_step(sim);
    const uint64_t at_us = next_deadline_us(run);
    if (at_us > sim->clock.now_us) {
        const uint64_t most_us = sim->clock.now_us + IDLE_US_MAX;
        sim->clock.now_us = at_us < most_us ? at_us : most_us;
    }
    groups_log_turn(run);
    groups_calls_turn(run);
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        groups_actor_turn(&run->actors[i]);
    }
    if (run->admin_at_us <= sim->clock.now_us) {
        if (run->is_quiet) {
            if (run->leader != NULL) {
                groups_fetch_all(run);
            }
        } else {
            groups_admin_act(run);
        }
        run->admin_at_us = sim->clock.now_us + sim_log_between(sim, 1000, ADMIN_US_MAX);
    }
    groups_offsets_stepped(run);
    if (!run->is_quiet) {
        disturb(run);
    }
}

/* ---- the end ---- */

static const struct groups_actor *odd_actor(const struct groups_run *run, uint32_t group)
{
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        const struct groups_actor *a = &run->actors[i];
        const bool is_there = a->owner != NULL && a->epoch > 0 &&
                              (a->is_classic ? a->step == GROUPS_BEATS : a->revoked_us == 0);
        if (a->group == group && !is_there) {
            return a;
        }
    }
    return NULL;
}

const char *groups_unrest(const struct groups_run *run, uint32_t group)
{
    struct groups_parts all = {0};
    struct groups_parts owned = {0};
    if (odd_actor(run, group) != NULL) {
        return "a member is not settled";
    }
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        const struct groups_actor *a = &run->actors[i];
        if (a->group != group) {
            continue;
        }
        const struct groups_parts wanted = groups_parts_of_topics(run, a->topics);
        const struct groups_parts twice = groups_parts_both(&owned, &a->owned);
        if (!groups_parts_is_empty(&twice)) {
            return "two members use a partition";
        }
        all = groups_parts_or(&all, &wanted);
        owned = groups_parts_or(&owned, &a->owned);
    }
    const struct groups_parts left = groups_parts_minus(&all, &owned);
    const struct groups_parts odd = groups_parts_minus(&owned, &all);
    if (!groups_parts_is_empty(&left)) {
        return "a partition has no owner";
    }
    return groups_parts_is_empty(&odd) ? NULL : "a partition is used that nobody subscribed";
}

/* All groups, or only those that are told at once. */
static const char *unrest(const struct groups_run *run, bool is_of_consumers)
{
    for (uint32_t i = 0; i < run->swarm.groups_count; i++) {
        const char *why = NULL;
        if (!is_of_consumers || run->groups[i].kind == GROUPS_OF_CONSUMERS) {
            why = groups_unrest(run, i);
        }
        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}

static void wait_for_rest(struct groups_run *run, uint64_t within_us, bool is_of_consumers)
{
    const uint64_t ends_us = run->sim->clock.now_us + within_us;
    while (unrest(run, is_of_consumers) != NULL) {
        sim_check(run->sim,
                  run->sim->clock.now_us < ends_us,
                  "no peace %" PRIu64 " s after the last fault: %s",
                  within_us / 1000000,
                  unrest(run, is_of_consumers));
        turn(run);
    }
}

static bool are_all_held(const struct groups_run *run)
{
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        const struct groups_actor *a = &run->actors[i];
        const bool is_held = (a->call != NULL && a->call->state == GROUPS_CALL_IS_THERE) ||
                             a->kept_us >= KEPT_US_MIN;
        if (run->groups[a->group].kind == GROUPS_OF_CONSUMERS && !is_held) {
            return false;
        }
    }
    return true;
}

/* Nothing but members at work; then a partition more, which all have to hear of soon. */
static void come_to_rest(struct groups_run *run)
{
    run->is_quiet = true;
    run->quiet_us = run->sim->clock.now_us;
    run->settings.state_size_max = 1 << 30;
    run->settings.members_max = INT32_MAX;
    run->settings.migration = GROUPS_MIGRATION_BIDIRECTIONAL;
    for (size_t i = 0; i < GROUPS_NODES; i++) {
        run->nodes[i].memory.size_max = 1 << 30;
    }
    for (uint32_t i = 0; i < run->swarm.groups_count; i++) {
        run->groups[i].heartbeat_ms = 15000;
        run->groups[i].assignment_ms = 0;
    }
    groups_calls_drop_copies(run);
    /* Nobody says more than he has to; but what came late may have changed what one said last. */
    for (uint32_t i = 0; i < run->swarm.actors_count; i++) {
        struct groups_actor *a = &run->actors[i];
        a->must_say_all |=
            run->swarm.copy_percent > 0 || (a->owner != NULL && a->owner->is_tainted);
    }
    groups_classics_leave_old_versions(run);
    groups_log_metadata(run);
    wait_for_rest(run, REST_US, false);
    const uint64_t heard_us = run->sim->clock.now_us + 40 * UINT64_C(1000000);
    while (run->sim->clock.now_us < heard_us ||
           (run->settings.is_heartbeat_held && !are_all_held(run))) {
        sim_check(run->sim, run->sim->clock.now_us < heard_us + REST_US, "heartbeats are not held");
        turn(run); /* All have heard of the long interval. */
    }
    wait_for_rest(run, REST_US, false);
    /* Who took the last place of KIP-848 was not told that it leads now. */
    groups_classics_leave_old_versions(run);
    wait_for_rest(run, REST_US, false);
    if (run->settings.is_heartbeat_held) {
        groups_topics_grow(run);
        wait_for_rest(run, NEWS_US, true);
    }
    wait_for_rest(run, REST_US, false);
}

static void settle_calls(struct groups_run *run)
{
    for (uint32_t i = 0; i < SETTLE_TURNS_MAX && !list_is_empty(&run->calls); i++) {
        struct groups_call *call = container_of(run->calls.next, struct groups_call, link);
        sim_check(run->sim, call->state != GROUPS_CALL_IS_THERE, "a call was never answered");
        list_remove(&call->link);
    }
}

/* ---- begin ---- */

static void on_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    struct groups_run *run = l->context;
    (void)level;
    sim_say(run->sim, "log: %.*s", (int)size, line);
}

static int64_t wall_ms(struct logger *l)
{
    return groups_now(l->context).wall_ms;
}

void groups_mode_run(struct sim *sim)
{
    static struct groups_run all;
    struct groups_run *run = &all;
    run->sim = sim;
    arena_init(&run->arena, ARENA_SIZE_MAX);
    list_init(&run->calls);
    run->log =
        (struct logger){.level = LOG_DEBUG, .sink = on_line, .context = run, .wall_ms = wall_ms};
    draw_swarm(run);
    draw_settings(run);
    draw_groups(run);
    cluster_settings_init(&run->cluster);
    run->metadata = metadata_new(&run->cluster, rand_u64(&sim->rand), 1);
    groups_topics_start(run);
    draw_actors(run);
    groups_log_start(run);
    for (uint64_t i = 0; i < run->swarm.turns; i++) {
        turn(run);
    }
    come_to_rest(run);
    sim->crashes = run->term;
    groups_log_depose(run, false);
    settle_calls(run);
    groups_log_finish(run);
}
