#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/batch.h"

#include "tests/sim/groups_mode.h"

enum {
    FOLLOWER_US_MAX = 2000 * 1000,
    TICKS_MAX = 10000, /* Of one deadline. */
};

/* ---- the environment of a coordinator ---- */

static void intervals(void *context, struct slice id, struct groups_intervals *ret)
{
    const struct groups_node *n = context;
    const struct groups_run *run = n->run;
    for (uint32_t i = 0; i < run->swarm.groups_count; i++) {
        const struct groups_group *g = &run->groups[i];
        if (slice_equal_string(id, g->name)) {
            *ret = (struct groups_intervals){g->session_ms, g->heartbeat_ms, g->assignment_ms};
            return;
        }
    }
    *ret = (struct groups_intervals){45000, 5000, 1000};
}

static void append(void *context, struct coordinator *c, struct proposal *p)
{
    const struct groups_node *n = context;
    struct groups_run *run = n->run;
    sim_check(run->sim, n == run->leader && n->c == c, "somebody proposes who does not lead");
    assert_cmp(run->appends_count, <, GROUPS_PROPOSALS_MAX);
    const uint64_t now_us = run->sim->clock.now_us;
    uint64_t due_us =
        now_us + sim_log_between(run->sim, 0, run->is_quiet ? 1000 : run->swarm.append_us_max);
    if (run->appends_count > 0 && run->appends[run->appends_count - 1].due_us > due_us) {
        due_us = run->appends[run->appends_count - 1].due_us;
    }
    run->appends[run->appends_count++] = (struct groups_append){p, due_us};
}

static void answer(void *context, struct group_call *call)
{
    (void)context;
    groups_call_answered(call);
}

static void node_new(struct groups_node *n)
{
    struct groups_run *run = n->run;
    rand_init_seed(&n->rand, rand_u64(&run->sim->rand));
    n->env.hash_seed = rand_u64(&run->sim->rand);
    n->applied = 0;
    const enum err e = coordinator_new(&n->env, 0, &n->c);
    assert(e == ERR_OK);
}

static void node_free(struct groups_node *n)
{
    coordinator_free(n->c);
    n->c = NULL;
    sim_check(n->run->sim,
              n->memory.size == 0 && n->memory.groups_count == 0 && n->memory.members_count == 0,
              "a coordinator leaves memory charged: size=%" PRIu64,
              n->memory.size);
}

/* ---- the log ---- */

static void push_entry(struct groups_run *run, struct slice batch)
{
    if (run->entries_count == run->entries_capacity) {
        run->entries_capacity = run->entries_capacity * 2 + 64;
        run->entries = realloc(run->entries, run->entries_capacity * sizeof(*run->entries));
        assert(run->entries != NULL);
    }
    run->entries[run->entries_count++] = (struct groups_entry){.batch = groups_copy(run, batch)};
    sim_trace(run->sim, "entry", run->entries_count, batch.size);
}

static void compare(struct groups_node *n)
{
    struct groups_run *run = n->run;
    coordinator_check(n->c);
    if (n->applied == 0) {
        return;
    }
    struct groups_entry *e = &run->entries[n->applied - 1];
    const uint64_t digest = coordinator_digest(n->c);
    if (!e->is_digest_known) {
        e->digest = digest;
        e->is_digest_known = true;
        sim_trace(run->sim, "digest", n->applied, digest);
    }
    sim_check(run->sim,
              e->digest == digest,
              "broker %d has another state than others after entry %zu",
              (int)(n - run->nodes),
              n->applied);
}

static void apply_next(struct groups_node *n)
{
    struct groups_run *run = n->run;
    const enum err e = coordinator_apply(n->c, run->entries[n->applied].batch);
    sim_check(run->sim, e == ERR_OK, "entry %zu cannot be applied: %d", n->applied, (int)e);
    n->applied++;
    compare(n);
}

static void decide_first(struct groups_run *run, enum err e)
{
    struct groups_node *n = run->leader;
    struct proposal *p = run->appends[0].p;
    run->appends_count--;
    memmove(run->appends, run->appends + 1, run->appends_count * sizeof(*run->appends));
    if (e == ERR_OK) {
        push_entry(run, proposal_batch(p));
        n->applied++;
        sim_check(
            run->sim, n->applied == run->entries_count, "the leader is not the first to apply");
    }
    sim_say(run->sim, "append decided: e=%d entries=%zu", (int)e, run->entries_count);
    coordinator_on_appended(n->c, p, e, groups_now(run));
    compare(n);
}

/* ---- compaction ---- */

struct kept {
    struct slice key;
    struct slice value;
    int64_t timestamp;
    bool is_latest;
};

struct kept_list {
    struct kept *at;
    size_t count;
    size_t capacity;
};

static void keep(struct kept_list *all, const struct record *r)
{
    for (size_t i = 0; i < all->count; i++) {
        if (slice_equal(all->at[i].key, r->key)) {
            all->at[i].is_latest = false;
        }
    }
    if (all->count == all->capacity) {
        all->capacity = all->capacity * 2 + 256;
        all->at = realloc(all->at, all->capacity * sizeof(*all->at));
        assert(all->at != NULL);
    }
    all->at[all->count++] = (struct kept){r->key, r->value, r->timestamp, true};
}

static void keep_batch(struct kept_list *all, struct slice batch)
{
    struct batch_header h;
    const enum err e = batch_header_decode(batch, &h);
    assert(e == ERR_OK);
    struct record_cursor records;
    record_cursor_init(&records, &h, batch_records_part(batch));
    struct record r;
    while (record_next(&records, &r) == ERR_OK) {
        keep(all, &r);
    }
}

static void apply_kept(struct groups_node *n, const struct kept *k)
{
    static const struct batch_identity NOBODY = {-1, -1, -1};
    struct batch_builder b;
    batch_builder_init(&b, PROPOSAL_SIZE_MAX);
    enum err e = batch_builder_add(
        &b, &(struct batch_record){.timestamp = k->timestamp, .key = k->key, .value = k->value});
    assert(e == ERR_OK);
    struct wbuf w;
    wbuf_init(&w, PROPOSAL_SIZE_MAX + BATCH_HEADER_SIZE);
    e = batch_builder_finish(&b, CODEC_NONE, &NOBODY, &w);
    assert(e == ERR_OK);
    e = coordinator_apply(n->c, wbuf_slice(&w));
    sim_check(
        n->run->sim, e == ERR_OK, "a record of the compacted log cannot be applied: %d", (int)e);
    wbuf_done(&w);
    batch_builder_done(&b);
}

/* The first so many entries as compaction left them. */
static void replay_compacted(struct groups_node *n, size_t count, bool has_tombstones)
{
    struct groups_run *run = n->run;
    struct kept_list all = {0};
    for (size_t i = 0; i < count; i++) {
        keep_batch(&all, run->entries[i].batch);
    }
    for (size_t i = 0; i < all.count; i++) {
        if (all.at[i].is_latest && (has_tombstones || !slice_is_null(all.at[i].value))) {
            apply_kept(n, &all.at[i]);
        }
    }
    free(all.at);
    n->applied = count;
    compare(n);
}

static void restart(struct groups_node *n)
{
    struct groups_run *run = n->run;
    const size_t known = n->applied;
    node_free(n);
    node_new(n);
    if (sim_chance(run->sim, 60) && known > 0) {
        sim_mark(run->sim, "sim_groups_compacted");
        replay_compacted(n, sim_between(run->sim, 0, known), sim_chance(run->sim, 50));
    }
    while (n->applied < known) {
        apply_next(n);
    }
}

void groups_log_restart(struct groups_run *run)
{
    struct groups_node *n = &run->nodes[sim_between(run->sim, 0, GROUPS_NODES - 1)];
    if (n != run->leader) {
        sim_say(run->sim, "broker %d starts again", (int)(n - run->nodes));
        restart(n);
    }
}

/* ---- leaders ---- */

void groups_log_depose(struct groups_run *run, bool is_crash)
{
    struct groups_node *n = run->leader;
    if (n == NULL) {
        return;
    }
    size_t survive = sim_between(run->sim, 0, run->appends_count);
    sim_say(run->sim,
            "leader %d is gone: crash=%d in_flight=%zu survive=%zu",
            (int)(n - run->nodes),
            is_crash,
            run->appends_count,
            survive);
    run->is_crashing = is_crash;
    coordinator_resign(n->c);
    run->is_crashing = false;
    run->leader = NULL;
    if (survive > 0) {
        sim_mark(run->sim, "sim_groups_append_survives");
    }
    for (size_t i = 0; i < run->appends_count; i++) {
        struct proposal *p = run->appends[i].p;
        if (i < survive) {
            push_entry(run, proposal_batch(p));
        }
        coordinator_on_appended(n->c, p, ERR_NOT_LEADER, groups_now(run));
    }
    run->appends_count = 0;
    if (n->applied > 0) {
        compare(n);
    }
    if (is_crash) {
        restart(n);
    }
    run->elect_at_us =
        run->sim->clock.now_us + sim_log_between(run->sim, 0, run->is_quiet ? 1000 : 8000000);
}

static void elect(struct groups_run *run)
{
    struct groups_node *n = &run->nodes[sim_between(run->sim, 0, GROUPS_NODES - 1)];
    while (n->applied < run->entries_count) {
        apply_next(n);
    }
    run->leader = n;
    run->term++;
    run->sim->elections++;
    groups_owners_activate(run);
    run->activated_us = run->sim->clock.now_us;
    sim_say(run->sim, "leader %d of term %u", (int)(n - run->nodes), run->term);
    coordinator_activate(n->c, groups_now(run));
    coordinator_check(n->c);
}

void groups_log_metadata(struct groups_run *run)
{
    if (run->leader != NULL) {
        coordinator_on_metadata(run->leader->c, groups_now(run));
    }
}

/* ---- turns ---- */

/* Of the one coordinator and of the queue that it has for itself. */
static uint64_t deadline_us(const struct groups_node *n)
{
    const uint64_t of_matching_us = matching_deadline_us(&n->matching);
    const uint64_t of_coordinator_us = coordinator_deadline_us(n->c);
    return of_matching_us < of_coordinator_us ? of_matching_us : of_coordinator_us;
}

static void tick_node(struct groups_node *n, struct group_time now)
{
    coordinator_tick(n->c, now);
    if (matching_deadline_us(&n->matching) <= now.now_us) {
        (void)coordinator_match(&n->matching, now);
    }
}

uint64_t groups_log_deadline_us(const struct groups_run *run)
{
    uint64_t at_us = run->leader == NULL ? run->elect_at_us : deadline_us(run->leader);
    if (run->appends_count > 0 && run->appends[0].due_us < at_us) {
        at_us = run->appends[0].due_us;
    }
    return at_us;
}

static void follow(struct groups_node *n)
{
    struct groups_run *run = n->run;
    if (n == run->leader || n->applied == run->entries_count ||
        n->apply_at_us > run->sim->clock.now_us) {
        return;
    }
    apply_next(n);
    n->apply_at_us = run->sim->clock.now_us + sim_log_between(run->sim, 0, FOLLOWER_US_MAX);
}

static void tick(struct groups_run *run)
{
    struct groups_node *n = run->leader;
    const uint64_t now_us = run->sim->clock.now_us;
    for (int i = 0; deadline_us(n) <= now_us; i++) {
        sim_check(run->sim, i < TICKS_MAX, "a deadline that fires again and again");
        tick_node(n, groups_now(run));
    }
    coordinator_check(n->c);
}

void groups_log_turn(struct groups_run *run)
{
    const uint64_t now_us = run->sim->clock.now_us;
    for (size_t i = 0; i < GROUPS_NODES; i++) {
        follow(&run->nodes[i]);
    }
    if (run->leader == NULL) {
        if (run->elect_at_us <= now_us) {
            elect(run);
        }
        return;
    }
    while (run->appends_count > 0 && run->appends[0].due_us <= now_us) {
        const bool fails = !run->is_quiet && sim_chance(run->sim, run->swarm.fail_percent);
        if (fails) {
            sim_mark(run->sim, "sim_groups_append_fails");
        }
        decide_first(run, fails ? ERR_NO_SPACE : ERR_OK);
    }
    tick(run);
}

/* ---- begin and end ---- */

void groups_log_start(struct groups_run *run)
{
    for (size_t i = 0; i < GROUPS_NODES; i++) {
        struct groups_node *n = &run->nodes[i];
        n->run = run;
        n->memory = (struct group_memory){.size_max = run->settings.state_size_max,
                                          .groups_max = run->settings.groups_max,
                                          .members_max = run->settings.all_members_max};
        matching_init(&n->matching);
        n->env = (struct coordinator_env){
            .settings = &run->settings,
            .metadata = run->metadata,
            .memory = &n->memory,
            .counters = &n->counters,
            .matching = &n->matching,
            .rand = &n->rand,
            .log = &run->log,
            .reached = &run->sim->reached,
            .context = n,
            .intervals = intervals,
            .append = append,
            .answer = answer,
        };
        node_new(n);
    }
    elect(run);
}

void groups_log_finish(struct groups_run *run)
{
    groups_log_depose(run, false);
    for (size_t i = 0; i < GROUPS_NODES; i++) {
        struct groups_node *n = &run->nodes[i];
        while (n->applied < run->entries_count) {
            apply_next(n);
        }
        restart(n);
        node_free(n);
    }
}
