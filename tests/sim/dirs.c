#include "tests/sim/dirs.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"

#include "tests/sim/broker_mode.h"

enum {
    BREAKS_ONE_IN = 400, /* Of the acts of clients. */
    GROUP_0_ONE_IN = 8,  /* Of those that break. */
    REPAIR_ONE_IN = 100,
    LEFT_OUT_PERCENT = 10,
    CAPACITY_ONE_IN = 100,
    ROOM_SIZE_MAX = 128 << 10,
};

const char *const SIM_DIRS[SIM_DIRS_MAX] = {"/data", "/more", "/most"};

static void shuffle(struct sim *sim, const char **paths, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        const uint64_t other = rand_below(&sim->rand, i);
        const char *path = paths[other];
        paths[other] = paths[i - 1];
        paths[i - 1] = path;
    }
}

void dirs_begin(struct broker_run *run)
{
    struct sim *sim = run->sim;
    struct sim_dirs *dirs = &run->dirs;
    uint32_t count = sim->swarm.dirs_count;
    assert_cmp(count, <=, SIM_DIRS_MAX);
    dirs->is_left_out = false;
    for (uint32_t i = 0; i < count; i++) {
        disk_sim_set_broken(sim->disk, SIM_DIRS[i], false);
        dirs->is_broken[i] = false;
        dirs->is_full[i] = false;
        run->settings.data_dirs[i] = SIM_DIRS[i];
    }
    if (count > 1 && dirs->is_founded) {
        if (run->life.end != LIFE_IS_LAST && sim_chance(sim, LEFT_OUT_PERCENT)) {
            sim_mark(sim, "sim_dir_left_out");
            dirs->is_left_out = true;
            count--;
        }
        shuffle(sim, run->settings.data_dirs, count);
    }
    run->settings.data_dirs_count = count;
}

static void play_with_capacity(struct broker_run *run)
{
    struct sim *sim = run->sim;
    const uint32_t count = sim->swarm.dirs_count;
    if (!sim->swarm.are_dirs_filling || !rand_one_in(&sim->rand, CAPACITY_ONE_IN)) {
        return;
    }
    const uint32_t i = 1 + (uint32_t)rand_below(&sim->rand, count - 1);
    if (run->dirs.is_full[i] && rand_one_in(&sim->rand, 2)) {
        disk_sim_set_capacity_at(sim->disk, SIM_DIRS[i], 0);
        return;
    }
    sim_mark(sim, "sim_dir_full");
    run->dirs.is_full[i] = true;
    disk_sim_set_capacity_at(sim->disk,
                             SIM_DIRS[i],
                             disk_sim_used_size_at(sim->disk, SIM_DIRS[i]) +
                                 sim_between(sim, 4096, ROOM_SIZE_MAX));
}

void dirs_play(struct broker_run *run)
{
    struct sim *sim = run->sim;
    struct sim_dirs *dirs = &run->dirs;
    const uint32_t count = sim->swarm.dirs_count;
    if (run->life.end != LIFE_IS_LAST) {
        play_with_capacity(run);
    }
    if (!sim->swarm.are_dirs_breaking || run->life.end == LIFE_IS_LAST) {
        return;
    }
    const uint32_t i = (uint32_t)rand_below(&sim->rand, count);
    if (dirs->is_broken[i]) {
        if (rand_one_in(&sim->rand, REPAIR_ONE_IN)) {
            disk_sim_set_broken(sim->disk, SIM_DIRS[i], false);
        }
        return;
    }
    const uint64_t one_in = (uint64_t)BREAKS_ONE_IN * (i == 0 ? GROUP_0_ONE_IN : 1);
    if (rand_one_in(&sim->rand, one_in)) {
        sim_say(sim, "breaks: %s", SIM_DIRS[i]);
        sim_mark(sim, "sim_dir_broken");
        dirs->is_broken[i] = true;
        disk_sim_set_broken(sim->disk, SIM_DIRS[i], true);
    }
}

bool dirs_have_broken(const struct broker_run *run)
{
    bool has_broken = false;
    for (uint32_t i = 0; i < SIM_DIRS_MAX; i++) {
        has_broken |= run->dirs.is_broken[i];
    }
    return has_broken;
}

bool dirs_lost_group_0(const struct broker_run *run)
{
    return run->dirs.is_broken[0];
}

static void ignore_name(void *context, const char *name)
{
    (void)context;
    (void)name;
}

static bool dirs_have_trouble(const struct broker_run *run)
{
    bool has_trouble = false;
    for (uint32_t i = 0; i < SIM_DIRS_MAX; i++) {
        has_trouble |= run->dirs.is_broken[i] || run->dirs.is_full[i];
    }
    return has_trouble;
}

bool dirs_explain(const struct broker_run *run, const struct sim_topic *t, int32_t partition)
{
    if (!dirs_have_trouble(run)) {
        return false;
    }
    char id[UUID_TEXT_SIZE];
    const uint32_t count = run->sim->swarm.dirs_count;
    assert_cmp(count, <=, SIM_DIRS_MAX);
    uuid_format(&t->id, id);
    for (uint32_t i = 0; i < count; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/logs/%s-%" PRId32, SIM_DIRS[i], id, partition);
        if (disk_sim_list_dir(run->sim->disk, path, NULL, ignore_name) == ERR_OK) {
            return run->dirs.is_broken[i] || run->dirs.is_full[i];
        }
    }
    return true; /* It has no place yet, or its id is not known. */
}
