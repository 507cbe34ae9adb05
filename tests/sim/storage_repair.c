/* The operator: between two lives, damage is given up with the code of `coreflume log repair`,
 * which may die in the middle of it. From then on nothing but what was rotten may be missing: what
 * went is passed by readers, or, where it was the end, the log ends in front of it. As long as no
 * repair came to its end, either is right.
 *
 * Only what was planted is repaired: of a wounded log nobody knows yet what is lost. And only where
 * there are no transactions: data whose marker is given up is as good as undecided.
 */
#include <inttypes.h>

#include "core/assert.h"
#include "storage/stopped_log.h"

#include "tests/sim/storage_mode.h"

enum {
    CRASH_STEPS_MAX = 200, /* Waits for the disk; a repair takes some fifty. */
};

static bool is_accepted(const struct model_log *m, uint64_t first_index, uint64_t last_index)
{
    for (uint64_t i = first_index; i <= last_index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        if (!e->is_given_up && !e->is_gone) {
            return false;
        }
    }
    return true;
}

static void lose_end(struct part *p, uint64_t last_index)
{
    struct model_log *m = &p->model;
    sim_say(part_sim(p), "%s: its end is given up: last=%" PRIu64, p->name, last_index);
    sim_mark(part_sim(p), "sim_end_given_up");
    model_log_truncate(m, last_index);
    m->commit_index = m->commit_index < last_index ? m->commit_index : last_index;
    m->settled_index = m->settled_index < last_index ? m->settled_index : last_index;
    m->clean_index_max = m->clean_index_max <= last_index ? m->clean_index_max : last_index + 1;
    m->cut_index = 0;
    p->has_leftovers = true;
    p->writes_count = 0;
}

void part_repair_learn_end(struct part *p)
{
    const struct model_log *m = &p->model;
    const uint64_t last_index = log_last_index(p->log);
    if (m->given_up_count > 0 && !log_is_end_unknown(p->log) && last_index < m->flushed_index &&
        is_accepted(m, last_index + 1, m->flushed_index)) {
        lose_end(p, last_index);
    }
}

/* ---- the tool ---- */

static void judge_loss(void *context, const struct log_damage *lost)
{
    struct part *p = context;
    sim_check(part_sim(p),
              lost->last_index <= p->model.last_index &&
                  is_accepted(&p->model, lost->first_index, lost->last_index),
              "%s: the repair gives up what is good: index=%" PRIu64 "..%" PRIu64,
              p->name,
              lost->first_index,
              lost->last_index);
}

/* Returns what the log ends with if its end went; else UINT64_MAX. */
static uint64_t judge(struct part *p, const struct log *l)
{
    struct log_damage end;
    sim_check(part_sim(p), log_damage(l, NULL, 0) == 0, "%s: damage after a repair", p->name);
    log_each_loss(l, p, judge_loss);
    if (!log_lost_end(l, &end)) {
        return UINT64_MAX;
    }
    sim_check(part_sim(p),
              is_accepted(&p->model, end.first_index, p->model.flushed_index),
              "%s: the repair gives up a good end: index=%" PRIu64 " flushed=%" PRIu64,
              p->name,
              end.first_index,
              p->model.flushed_index);
    return end.first_index - 1;
}

static void settle(struct part *p, uint64_t last_index)
{
    struct model_log *m = &p->model;
    if (last_index < m->flushed_index) {
        lose_end(p, last_index);
    }
    for (uint64_t i = 1; i <= m->last_index; i++) {
        if (model_log_at(m, i)->is_given_up) {
            model_log_give_up(m, i);
        }
    }
    sim_mark(part_sim(p), "sim_loss_given_up");
}

/* NOT_FOUND: a change of the number of cores is not through, and only a start ends that. */
static bool refused(struct storage_run *run, enum err e, const char *why)
{
    sim_say(run->sim, "%s: repair refused: %s", run->repaired->name, why);
    sim_check(run->sim,
              e == ERR_NOT_FOUND || machine_io_stats(&run->life.machine).failed > 0,
              "%s: repair: %s: %s",
              run->repaired->name,
              err_name(e),
              why);
    return false;
}

static bool run_tool(struct life *l)
{
    struct storage_run *run = container_of(l, struct storage_run, life);
    struct sim *sim = run->sim;
    struct part *p = run->repaired;
    char why[STOPPED_LOG_WHY_SIZE];
    struct stopped_log *sl = NULL;
    enum err e = stopped_log_open(&(struct stopped_log_open){.backend = &l->machine.ios[0].backend,
                                                             .clock = &sim->clock.clock,
                                                             .rand_seed = rand_u64(&sim->rand) | 1,
                                                             .reached = &sim->reached,
                                                             .dir = "/data",
                                                             .name = p->name,
                                                             .id = p->id},
                                  why,
                                  &sl);
    if (e != ERR_OK) {
        return refused(run, e, why);
    }
    e = stopped_log_accept_loss(sl, why);
    if (e != ERR_OK) {
        return refused(run, e, why);
    }
    const uint64_t last_index = judge(p, stopped_log_get(sl));
    e = stopped_log_close(sl, why);
    if (e != ERR_OK) {
        return refused(run, e, why);
    }
    settle(p, last_index);
    return true;
}

/* ---- the operator ---- */

static bool is_repairable(const struct part *p)
{
    const struct model_log *m = &p->model;
    return m->rotten_count > 0 && !m->is_wounded && m->doubt_index == 0 && !p->has_transactions &&
           p != p->run->missing.part;
}

static void repair(struct part *p)
{
    struct storage_run *run = p->run;
    struct sim *sim = run->sim;
    run->repaired = p;
    model_log_offer(&p->model);
    do {
        const uint64_t crash_steps = rand_one_in(&sim->rand, 3) ? 0 : CRASH_STEPS_MAX;
        sim_say(sim, "%s: repaired, rotten=%" PRIu64, p->name, p->model.rotten_count);
        if (life_run_tool(&run->life, crash_steps, run_tool)) {
            return;
        }
        sim_mark(sim, "sim_repair_interrupted");
    } while (!rand_one_in(&sim->rand, 3)); /* Else the node starts in between. */
}

void repair_rest(struct storage_run *run)
{
    struct sim *sim = run->sim;
    for (uint32_t i = 0; i < run->parts_count && sim->swarm.misdirect_percent == 0; i++) {
        if (is_repairable(&run->parts[i]) && sim_chance(sim, sim->swarm.repair_percent)) {
            repair(&run->parts[i]);
        }
    }
}
