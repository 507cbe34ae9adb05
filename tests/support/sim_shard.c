#include "tests/support/sim_shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    MEMORY_SIZE = 64 << 20,
    MEMORY_RESERVE_SIZE = 16 << 20,
};

struct disk_sim *sim_disk_new(void)
{
    struct disk_sim *d = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
    assert(d != NULL);
    return d;
}

static void on_log_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct sim_shard *ss = l->context;
    size_t used = strlen(ss->log_text);
    if (used + size + 2 > sizeof(ss->log_text)) {
        used = 0;
    }
    if (size + 2 <= sizeof(ss->log_text)) {
        memcpy(ss->log_text + used, line, size);
        memcpy(ss->log_text + used + size, "\n", 2);
    }
}

static int64_t wall_ms(struct logger *l)
{
    struct sim_shard *ss = l->context;
    return clock_wall_ms(&ss->clock.clock);
}

/* Start-up code that blocks: the clock goes to what it waits for. */
static void on_wait(void *context, uint64_t next_us)
{
    struct sim_shard *ss = context;
    assert(next_us != UINT64_MAX);
    if (next_us > ss->clock.now_us) {
        ss->clock.now_us = next_us;
    }
}

void sim_shard_init(struct sim_shard *ss, struct disk_sim *disk, uint64_t seed)
{
    sim_shard_init_as(ss, disk, seed, 0, 1);
}

void sim_shard_init_as(
    struct sim_shard *ss, struct disk_sim *disk, uint64_t seed, uint16_t id, uint16_t count)
{
    memset(ss, 0, sizeof(*ss));
    ss->disk = disk;
    rand_init_seed(&ss->rand, seed);
    clock_init_sim(&ss->clock, 1000, 1700000000000);
    io_sim_init(&ss->io_sim,
                &(struct io_sim_options){
                    .disk = disk,
                    .clock = &ss->clock.clock,
                    .rand_seed = rand_u64(&ss->rand) | 1,
                    .transfer = {.min_us = 20, .max_us = 200},
                    .sync = {.min_us = 50, .max_us = 500},
                    .other = {.min_us = 5, .max_us = 50},
                    .slow_one_in = 50,
                    .slow_us = 2000,
                    .short_one_in = 20,
                    .on_wait = on_wait,
                    .context = ss,
                });
    io_fault_init(&ss->io_fault, &ss->io_sim.backend, &ss->clock.clock);
    ss->logger =
        (struct logger){.level = LOG_INFO, .sink = on_log_line, .context = ss, .wall_ms = wall_ms};
    enum err e = shard_group_new(count, &ss->group);
    assert(e == ERR_OK);
    ss->s = calloc(1, sizeof(*ss->s));
    assert(ss->s != NULL);
    e = shard_init(ss->s,
                   ss->group,
                   id,
                   &(struct shard_options){
                       .backend = &ss->io_fault.backend,
                       .clock = &ss->clock.clock,
                       .log = &ss->logger,
                       .rand_seed = rand_u64(&ss->rand) | 1,
                       .memory_size = MEMORY_SIZE,
                       .memory_reserve_size = MEMORY_RESERVE_SIZE,
                   });
    assert(e == ERR_OK);
}

void sim_shard_done(struct sim_shard *ss)
{
    shard_done(ss->s);
    io_fault_done(&ss->io_fault);
    io_sim_done(&ss->io_sim);
    shard_group_free(ss->group);
    free(ss->s);
}

static uint64_t next_us(struct sim_shard *ss)
{
    uint64_t next = shard_next_us(ss->s);
    uint64_t others[] = {io_sim_next_us(&ss->io_sim), io_fault_next_us(&ss->io_fault)};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        next = others[i] < next ? others[i] : next;
    }
    return next;
}

bool sim_shard_step(struct sim_shard *ss)
{
    if (shard_turn(ss->s)) {
        return true;
    }
    uint64_t next = next_us(ss);
    if (next == UINT64_MAX) {
        return false;
    }
    if (next > ss->clock.now_us) {
        ss->clock.now_us = next;
    }
    return true;
}

bool sim_shard_run_until(struct sim_shard *ss, const bool *is_done)
{
    while (!*is_done && sim_shard_step(ss)) {
    }
    return *is_done;
}

void sim_shard_settle(struct sim_shard *ss)
{
    while (sim_shard_step(ss)) {
    }
}

void sim_shard_crash(struct sim_shard *ss, const struct disk_sim_crash *how)
{
    io_sim_abandon(&ss->io_sim);
    struct disk_sim_crash drawn = disk_sim_crash_draw(&ss->rand);
    disk_sim_crash(ss->disk, &ss->rand, how == NULL ? &drawn : how);
}
