/* Places in the partitions of a topic: which partitions -p names, and where in each -o or --until
 * is: start, end, N, -N, @TIME.
 *
 * One thread, no shard.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cli/cli_command.h"
#include "cli/cli_time.h"
#include "client/client.h"

struct cli_place {
    int32_t partition;
    int64_t start;  /* The first record that is there. */
    int64_t end;    /* Behind the last one. */
    int64_t offset; /* The place. Not checked against start and end if it is a number. */
};

struct cli_places {
    size_t count;
    struct cli_place *places; /* Ascending. */
};

/* Reads the option, "offset" or "until" (fallback if it was not given), and checks -p. CLI_OK, or
 * CLI_USAGE and a line on err. */
int cli_places_option(struct cli *cli,
                      const char *option,
                      const char *fallback,
                      struct cli_where *ret_where);

/* The partitions of -p, or all: there are partitions_count. CLI_OK, or CLI_FAILED and a line on
 * err. Freed by cli_places_done in any case. */
int cli_places_init(struct cli_places *p,
                    struct cli *cli,
                    const char *topic,
                    int32_t partitions_count);
void cli_places_done(struct cli_places *p);

/* Asks where they are. CLI_OK, or CLI_FAILED and a line on err. */
int cli_places_find(struct cli_places *p,
                    struct cli *cli,
                    struct client *c,
                    const char *topic,
                    const struct cli_where *where);
