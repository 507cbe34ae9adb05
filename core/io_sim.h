/* A backend of core/io.h on the simulated disk. Ops complete after a drawn latency of the simulated
 * clock, so they finish in any order, as on a device; nothing completes before the clock was moved.
 *
 * One per shard, on the disk of the shard's machine. The simulator asks io_sim_next_us, moves the
 * clock there and turns the shard. Sockets are not here: ops on them fail with ENOSYS.
 *
 * A crash is: io_sim_abandon on every shard of the machine, then disk_sim_crash. The shard and all
 * its memory are then never used again.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdint.h>

#include "core/clock.h"
#include "core/disk_sim.h"
#include "core/io.h"
#include "core/list.h"
#include "core/rand.h"
#include "core/timer.h"

struct io_sim_latency {
    uint32_t min_us;
    uint32_t max_us;
};

struct io_sim_options {
    struct disk_sim *disk;
    struct clock *clock;
    uint64_t rand_seed;

    struct io_sim_latency transfer; /* Reads and writes. */
    struct io_sim_latency sync;
    struct io_sim_latency other;
    uint32_t slow_one_in;      /* 0 = never; so are those below. */
    uint32_t slow_read_one_in; /* Only reads. */
    uint32_t slow_us;          /* On top. */
    uint32_t short_one_in;     /* A transfer moves only a part. */
    uint32_t read_fail_one_in;
    uint32_t write_fail_one_in;
    uint32_t sync_fail_one_in;

    /* Called instead of sleeping, by code that blocks at start-up: has to move the clock to
     * next_us, or not to return at all. NULL = blocking is a bug. */
    void (*on_wait)(void *context, uint64_t next_us);
    /* A read or write is about to happen: the place for disk_sim_misdirect. NULL = none. */
    void (*on_transfer)(void *context, const struct io_op *op, struct disk_sim_op *disk_op);
    void *context;
};

struct io_sim_stats {
    uint64_t slow;
    uint64_t shortened;
    uint64_t failed; /* By chance. */
    uint64_t broken; /* Because the device was. */
};

struct io_sim {
    struct io_backend backend;
    struct io_sim_options options;
    struct rand rand;
    struct timers due; /* One per op in flight. */
    struct list ready; /* struct sim_op: due, not reaped. */
    struct list spare; /* struct sim_op */
    struct io_sim_stats stats;
    uint64_t trace; /* Hash over all completions, their times and results. */
};

void io_sim_init(struct io_sim *b, const struct io_sim_options *o);
/* Nothing may be in flight. */
void io_sim_done(struct io_sim *b);

/* Forgets what is in flight, without a word to the owners; the disk still holds it for
 * disk_sim_crash. Frees everything else. */
void io_sim_abandon(struct io_sim *b);

/* When the next op completes: UINT64_MAX if none is in flight, the past if one waits to be reaped.
 */
uint64_t io_sim_next_us(const struct io_sim *b);
