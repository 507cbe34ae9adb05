/* Options of topics and brokers as command lines have them, and what became of changes.
 *
 * The program's one thread.
 */
#pragma once

#include <stddef.h>

struct cli;
struct client;
struct client_config;
struct client_topic_result;

/* NAME=VALUE of each -c into configs, which has room for all values of the command line. Copies:
 * the names have to end where the '=' stands. CLI_OK, or what to return and a line on err; freed in
 * any case by cli_free_configs. */
int cli_read_configs(struct cli *cli, struct client_config *configs, size_t *ret_count);
/* The array, too. */
void cli_free_configs(struct client_config *configs, size_t count);

/* What became of one change that was asked for. A line, or an object; done says what it was:
 * "altered". Returns the exit code. */
int cli_print_result(struct cli *cli,
                     struct client *c,
                     const char *name,
                     const struct client_topic_result *r,
                     const char *done);
