/* The subcommands of `coreflume` but start.
 *
 * One thread, no shard; called by main.
 */
#pragma once

/* argv as main has it. Returns the exit code: 0 ok, 1 failed, 2 wrong usage; others where a
 * command's help says so. */
int cli_main(int argc, char **argv);
