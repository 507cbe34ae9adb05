/* `coreflume start`: threads, signals, the ready line.
 *
 * Shard: none; called by main.
 */
#pragma once

/* Returns the exit code: 0 stopped cleanly, 1 could not start, 2 wrong usage. argv[0] is the
 * subcommand. */
int start_main(int argc, char *const *argv);
