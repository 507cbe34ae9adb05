/* What bench is to do, from its command line.
 *
 * One thread, no shard.
 */
#pragma once

#include "cli/cli_command.h"

#include "perf/bench/bench.h"

/* The topic, its partitions and stop_fd are not set here. o->groups points into the command line;
 * the array is freed by the caller. CLI_OK, or CLI_USAGE and a line on err. */
int cli_bench_options(struct cli *cli, struct bench_options *o);
