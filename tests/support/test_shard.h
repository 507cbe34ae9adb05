/* One shard on a simulated clock and disk, for unit tests that need a loop, timers, memory or
 * tasks. Nothing happens but what test_shard_run and test_shard_advance make happen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/disk_sim.h"
#include "core/io_sim.h"
#include "core/logger.h"
#include "core/shard.h"

enum {
    TEST_LOG_SIZE = 64 << 10,
};

struct test_shard {
    struct shard shard;
    struct shard_group *group;
    struct clock_sim clock;
    struct disk_sim *disk;
    struct io_sim io;
    struct logger logger;
    char log_text[TEST_LOG_SIZE]; /* All lines, each with a newline; later ones are dropped. */
    size_t log_size;
    uint32_t log_lines_count;
};

/* memory_size: see buf_pool_new; the reserve is a quarter. */
void test_shard_init(struct test_shard *ts, size_t memory_size);
void test_shard_done(struct test_shard *ts);

/* Turns until nothing is left to do at this moment of the clock. */
void test_shard_run(struct test_shard *ts);

/* Moves the clock to each deadline in [now, now + us] in turn and runs there. */
void test_shard_advance(struct test_shard *ts, uint64_t us);

bool test_shard_has_logged(const struct test_shard *ts, const char *text);
