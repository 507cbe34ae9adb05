/* Several data directories in mode broker, each on a file system of its own: given in another order
 * at each start, at times one left out, and at times one whose device breaks, or that is full,
 * while the broker serves. Only the partitions that are there may then fail.
 *
 * Where a partition is, the disk says: it has a directory there as soon as it was written to.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/ids.h"

struct broker_run;
struct sim_topic;

enum {
    SIM_DIRS_MAX = 3,
};

/* The first one has group 0. */
extern const char *const SIM_DIRS[SIM_DIRS_MAX];

struct sim_dirs {
    bool is_founded;              /* A start has come to its end. */
    bool is_left_out;             /* In this life: one is not given. */
    bool is_broken[SIM_DIRS_MAX]; /* In this life, from some time on. */
    bool is_full[SIM_DIRS_MAX];   /* Likewise; it may have room again. */
};

/* A life begins: all devices work, and the settings name them in a drawn order. */
void dirs_begin(struct broker_run *run);
/* One breaks, at times; or is back, which must not change anything. One of those without group 0 is
 * full, or has room again. */
void dirs_play(struct broker_run *run);

/* One has; that may be the one with group 0. */
bool dirs_have_broken(const struct broker_run *run);
bool dirs_lost_group_0(const struct broker_run *run);
/* That a partition answers an error is explained by where it is, or may be. */
bool dirs_explain(const struct broker_run *run, const struct sim_topic *t, int32_t partition);
