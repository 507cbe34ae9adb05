/* One shard on a simulated disk, for unit tests of modules that need a shard: no threads, no real
 * time, no files. The disk outlives the shard, so that a test can crash and start again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/disk_sim.h"
#include "core/io_fault.h"
#include "core/io_sim.h"
#include "core/shard.h"

struct sim_shard {
    struct disk_sim *disk; /* The caller's. */
    struct clock_sim clock;
    struct io_sim io_sim;
    struct io_fault io_fault; /* Between the shard and io_sim; without rules at first. */
    struct shard_group *group;
    struct shard *s;
    struct logger logger;
    char log_text[8192]; /* Lines of the log, each with a newline; the oldest are dropped. */
    struct rand rand;    /* For the test and for crashes. */
};

/* A disk with direct I/O and shared flushes, without limit. */
struct disk_sim *sim_disk_new(void);

/* Starts shard 0 of 1 on disk. Same seed, same run. */
void sim_shard_init(struct sim_shard *ss, struct disk_sim *disk, uint64_t seed);
/* As shard id of count, the others of which do not run. */
void sim_shard_init_as(
    struct sim_shard *ss, struct disk_sim *disk, uint64_t seed, uint16_t id, uint16_t count);
/* Clean end: nothing may be in flight. */
void sim_shard_done(struct sim_shard *ss);

/* One turn; when nothing ran, the clock moves to what comes next. False if nothing will ever
 * happen again. */
bool sim_shard_step(struct sim_shard *ss);
/* Steps until *is_done or nothing happens any more; returns *is_done. */
bool sim_shard_run_until(struct sim_shard *ss, const bool *is_done);
/* Steps until nothing happens any more. */
void sim_shard_settle(struct sim_shard *ss);

/* The machine loses power, or the process dies, as drawn from the seed or as said. The shard is
 * gone, with all that modules allocated on it (they leak, as they do when a process dies: free what
 * the sanitizer would miss). */
void sim_shard_crash(struct sim_shard *ss, const struct disk_sim_crash *how);
