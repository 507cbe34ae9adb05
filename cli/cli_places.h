/* A place in each partition of a topic, as -o names it: start, end, N, -N, @TIME.
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
    int64_t offset; /* The place. Not checked against start and end if -o is a number. */
};

struct cli_places {
    size_t count;
    struct cli_place *places;
};

/* Reads -o (fallback if it was not given). CLI_OK, or CLI_USAGE and a line on err. */
int cli_places_option(struct cli *cli, const char *fallback, struct cli_where *ret_where);

/* Asks for the places of all partitions, p->count of them, or of the one of -p. CLI_OK, or
 * CLI_FAILED and a line on err. Freed by cli_places_done. */
int cli_places_find(struct cli *cli,
                    struct client *c,
                    const char *topic,
                    const struct cli_where *where,
                    struct cli_places *p);
void cli_places_done(struct cli_places *p);
