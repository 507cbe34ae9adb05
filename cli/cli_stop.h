/* The signals that end a program, heard between two steps of its work instead: what was begun is
 * brought to an end.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>

/* From now on. Those that the caller ignores, as nohup does, stay ignored. A descriptor that is
 * readable when one came; -1: they end the program as ever. */
int cli_stop_hear(void);
/* True once for each signal. Takes -1. */
bool cli_stop_take(int stop_fd);
