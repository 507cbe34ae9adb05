/* One incarnation of the process: its shards on the simulated disk and clock. It is started, turned
 * step by step, and then stopped, or abandoned by a crash.
 *
 * Shards with something to do are turned in drawn order. When none has, the clock moves to the next
 * deadline of anybody, sources included. In some runs (overtake_one_in) it moves at times while
 * shards have something to do: then they are slower than the disk and the clients.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/io_sim.h"
#include "core/logger.h"
#include "core/shard.h"

#include "tests/sim/sim.h"

/* Something outside of the shards that has a time: clients, the net. */
struct machine_source {
    struct machine_source *next;
    uint64_t (*next_us)(struct machine_source *source);
    /* Called when next_us is not in the future. */
    void (*run)(struct machine_source *source);
};

struct machine {
    struct sim *sim;
    uint16_t shards_count;
    uint16_t ios_count; /* One per shard; of a tool one. */
    struct shard_group *group;
    struct shard shards[SIM_SHARDS_MAX];
    struct io_sim ios[SIM_SHARDS_MAX];
    struct logger logger;
    uint32_t busy; /* Bit per shard: may have something to do. */
    struct machine_source *sources;
    /* A read or write is about to happen on the disk. NULL = nobody wants to know. */
    void (*on_transfer)(struct machine *m, const struct io_op *op, struct disk_sim_op *disk_op);
};

void machine_start(struct machine *m, struct sim *sim, uint16_t shards_count);
/* A process that brings its own shard, and blocks: only ios[0] is there. */
void machine_start_tool(struct machine *m, struct sim *sim);
void machine_add_source(struct machine *m, struct machine_source *source);

/* The machine was poked from outside of its shards: they may have something to do. */
void machine_poke(struct machine *m);

enum machine_step {
    MACHINE_RAN,
    MACHINE_IDLE,  /* Nothing will ever happen by itself. */
    MACHINE_CRASH, /* It is time; call machine_crash. */
};

/* One turn of one shard, one source, or one move of the clock. */
enum machine_step machine_step(struct machine *m);

/* Steps until the clock has moved on by us, or the crash. True if it did not crash. */
bool machine_run_for(struct machine *m, uint64_t us);

/* The process dies: its memory is never looked at again. */
void machine_crash(struct machine *m, const struct disk_sim_crash *how);
/* The shards end in order; nothing may be in flight. */
void machine_stop(struct machine *m);

/* Disk ops of all shards. */
uint32_t machine_in_flight_count(const struct machine *m);
struct io_sim_stats machine_io_stats(const struct machine *m);
/* A sync may have failed, and abandoned what it should have covered. */
bool machine_has_failed_ops(const struct machine *m);
