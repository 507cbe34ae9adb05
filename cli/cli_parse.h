/* A command line against the table, and the values that stood on it.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli_command.h"

/* Fills cli from argv (argv[0] is skipped); out, err and in_fd are the caller's. Returns CLI_OK
 * with command set; or CLI_USAGE, and err has a line. --help anywhere makes `help` of what was
 * there. Values point into argv. Freed by cli_parse_done, also after CLI_USAGE. */
int cli_parse(struct cli *cli, int argc, char **argv);
void cli_parse_done(struct cli *cli);

/* The value of the option, the last if it stood there more often; fallback if it did not. */
const char *cli_text(const struct cli *cli, const char *name, const char *fallback);
/* Of a CLI_NUMBER: the parser checked it. */
int64_t cli_number(const struct cli *cli, const char *name, int64_t fallback);
bool cli_has(const struct cli *cli, const char *name);

/* Decimal, whole text; false if it is not, or does not fit. */
bool cli_parse_number(const char *text, int64_t *ret_number);
