/* Which partition of a data directory is meant. */
#pragma once

#include "core/ids.h"

struct cli;
struct io;

/* The id of the partition that dir has under name, "<topic>-<partition>". CLI_OK; else a line says
 * what to do. The controller's is refused: its log cannot do without an entry. */
int cli_find_partition(
    struct cli *cli, struct io *io, const char *dir, const char *name, struct partition_id *ret_id);
