#include "tests/support/test_shard.h"

#include <string.h>

#include "core/assert.h"

enum {
    TURNS_MAX = 100 * 1000, /* A shard that is still busy then is caught in a loop. */
};

static void log_to_memory(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct test_shard *ts = l->context;
    ts->log_lines_count++;
    if (ts->log_size + size + 2 > sizeof(ts->log_text)) {
        return;
    }
    memcpy(ts->log_text + ts->log_size, line, size);
    ts->log_size += size;
    ts->log_text[ts->log_size++] = '\n';
    ts->log_text[ts->log_size] = '\0';
}

static int64_t log_wall_ms(struct logger *l)
{
    struct test_shard *ts = l->context;
    return clock_wall_ms(&ts->clock.clock);
}

void test_shard_init(struct test_shard *ts, size_t memory_size)
{
    memset(ts, 0, sizeof(*ts));
    clock_init_sim(&ts->clock, 1000 * 1000, 1700000000000);
    ts->logger = (struct logger){
        .level = LOG_DEBUG, .sink = log_to_memory, .context = ts, .wall_ms = log_wall_ms};
    ts->disk = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
    io_sim_init(
        &ts->io,
        &(struct io_sim_options){.disk = ts->disk, .clock = &ts->clock.clock, .rand_seed = 1});
    enum err e = shard_group_new(1, &ts->group);
    assert(e == ERR_OK);
    e = shard_init(&ts->shard,
                   ts->group,
                   0,
                   &(struct shard_options){.backend = &ts->io.backend,
                                           .clock = &ts->clock.clock,
                                           .log = &ts->logger,
                                           .rand_seed = 1,
                                           .memory_size = memory_size,
                                           .memory_reserve_size = memory_size / 4});
    assert(e == ERR_OK);
}

void test_shard_done(struct test_shard *ts)
{
    shard_done(&ts->shard);
    shard_group_free(ts->group);
    io_sim_done(&ts->io);
    disk_sim_free(ts->disk);
}

void test_shard_run(struct test_shard *ts)
{
    for (int i = 0; shard_turn(&ts->shard) || shard_next_us(&ts->shard) <= ts->clock.now_us; i++) {
        assert(i < TURNS_MAX);
    }
}

void test_shard_advance(struct test_shard *ts, uint64_t us)
{
    uint64_t end_us = ts->clock.now_us + us;
    test_shard_run(ts);
    for (;;) {
        uint64_t next_us = shard_next_us(&ts->shard);
        uint64_t io_us = io_sim_next_us(&ts->io);
        next_us = io_us < next_us ? io_us : next_us;
        if (next_us > end_us) {
            break;
        }
        ts->clock.now_us = next_us > ts->clock.now_us ? next_us : ts->clock.now_us;
        test_shard_run(ts);
    }
    ts->clock.now_us = end_us;
    test_shard_run(ts);
}

bool test_shard_has_logged(const struct test_shard *ts, const char *text)
{
    return strstr(ts->log_text, text) != NULL;
}
