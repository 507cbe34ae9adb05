/* What reading alone and reading as a member of a group share: how a record is printed.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>

#include "cli/cli_command.h"
#include "cli/cli_format.h"
#include "client/client.h"

struct cli_output {
    bool is_json;
    struct cli_format format; /* Unless is_json. */
};

/* From --format, --null and --json. CLI_OK, or what to return. Freed by cli_output_done in any
 * case. */
int cli_output_init(struct cli_output *o, struct cli *cli);
void cli_output_done(struct cli_output *o);
/* CLI_OK, or CLI_FAILED and a line on err. */
int cli_output_print(struct cli_output *o, struct cli *cli, const struct client_record *r);

/* coreflume consume -g: the records that the group gives this member, until it is told to stop. */
int cli_consume_group(struct cli *cli);
