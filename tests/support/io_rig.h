/* A simulated machine in a unit test: disk, clock, backend and io, and calls that move the clock
 * until their op is done. Plain functions that return what the op came to.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/clock.h"
#include "core/disk_sim.h"
#include "core/io.h"
#include "core/io_sim.h"

struct io_rig {
    struct disk_sim *disk;
    struct clock_sim clock;
    struct io_sim sim;
    struct io io;
    struct rand rand;
};

static const struct disk_sim_options RIG_DISK = {.is_direct_capable = true,
                                                 .is_flush_shared = true};

static inline void rig_start(struct io_rig *r)
{
    io_sim_init(&r->sim,
                &(struct io_sim_options){
                    .disk = r->disk,
                    .clock = &r->clock.clock,
                    .rand_seed = rand_u64(&r->rand),
                    .transfer = {10, 100},
                    .sync = {100, 1000},
                    .other = {10, 50},
                });
    io_init(&r->io, &r->sim.backend);
}

static inline void rig_init(struct io_rig *r, const struct disk_sim_options *o, uint64_t seed)
{
    rand_init_seed(&r->rand, seed);
    r->disk = disk_sim_new(o);
    clock_init_sim(&r->clock, 1000, 0);
    rig_start(r);
}

static inline void rig_done(struct io_rig *r)
{
    io_done(&r->io);
    io_sim_done(&r->sim);
    disk_sim_free(r->disk);
}

/* The process dies, with or without the power, and starts again. */
static inline void rig_crash(struct io_rig *r, const struct disk_sim_crash *how)
{
    io_sim_abandon(&r->sim);
    disk_sim_crash(r->disk, &r->rand, how);
    rig_start(r);
}

struct rig_op {
    struct io_op op;
    bool is_done;
};

static inline void rig_on_done(struct io_op *op)
{
    container_of(op, struct rig_op, op)->is_done = true;
}

static inline void rig_submit(struct io_rig *r, struct rig_op *o)
{
    o->is_done = false;
    o->op.on_done = rig_on_done;
    io_submit(&r->io, &o->op);
}

/* Moves time until nothing is in flight. */
static inline void rig_run(struct io_rig *r)
{
    while (r->io.in_flight_count > 0) {
        uint64_t next_us = io_sim_next_us(&r->sim);
        assert(next_us != UINT64_MAX);
        if (next_us > r->clock.now_us) {
            r->clock.now_us = next_us;
        }
        (void)io_run_completions(&r->io, 1000);
    }
}

static inline struct io_op rig_call(struct io_rig *r, struct io_op op)
{
    struct rig_op o = {.op = op};
    rig_submit(r, &o);
    rig_run(r);
    assert(o.is_done);
    return o.op;
}

static inline int rig_open(struct io_rig *r, const char *path, uint32_t flags)
{
    struct io_op op =
        rig_call(r, (struct io_op){.kind = IO_OPEN, .path = path, .open_flags = flags});
    return op.result == ERR_OK ? op.result_fd : -(int)op.result;
}

enum {
    RIG_CREATE = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE,
    RIG_CREATE_DIRECT = RIG_CREATE | IO_OPEN_DIRECT,
};

static inline enum err rig_fd_call(struct io_rig *r, enum io_kind kind, int fd)
{
    return rig_call(r, (struct io_op){.kind = kind, .fd = fd}).result;
}

static inline enum err
rig_path_call(struct io_rig *r, enum io_kind kind, const char *path, const char *new_path)
{
    return rig_call(r, (struct io_op){.kind = kind, .path = path, .new_path = new_path}).result;
}

/* One block full of byte. */
static inline enum err rig_write_block(struct io_rig *r, int fd, uint64_t block, uint8_t byte)
{
    void *buf = aligned_alloc(IO_ALIGN, IO_ALIGN);
    memset(buf, byte, IO_ALIGN);
    struct io_op op = {
        .kind = IO_WRITE, .fd = fd, .buf = buf, .size = IO_ALIGN, .pos = block * IO_ALIGN};
    enum err e = rig_call(r, op).result;
    free(buf);
    return e;
}

/* The byte that fills the block: -1 if mixed, -2 if the file or the block is not there. */
static inline int rig_block(struct io_rig *r, const char *path, uint64_t block)
{
    uint8_t data[IO_ALIGN];
    if (disk_sim_peek(r->disk, path, block * IO_ALIGN, data, IO_ALIGN) != ERR_OK) {
        return -2;
    }
    for (size_t i = 1; i < IO_ALIGN; i++) {
        if (data[i] != data[0]) {
            return -1;
        }
    }
    return data[0];
}

/* Everything that was not asked for is gone. */
static const struct disk_sim_crash RIG_LOSE_ALL = {.is_power_loss = true};
static const struct disk_sim_crash RIG_KEEP_ALL = {
    .is_power_loss = true, .keep_sector = 100, .keep_extent = 100, .keep_name = 100};
