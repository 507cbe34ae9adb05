/* Where produce gets its records: lines, JSON or what a format describes, of standard input or a
 * file. What a record does not say itself, the options say for all.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli_command.h"
#include "cli/cli_format.h"
#include "cli/cli_format_read.h"
#include "cli/cli_input.h"
#include "cli/cli_record_json.h"
#include "client/client.h"
#include "core/err.h"
#include "core/slice.h"

enum {
    CLI_SOURCE_WHY_SIZE = 512,
};

enum cli_source_kind {
    CLI_SOURCE_LINES,  /* Values, or keys and values with a separator between. */
    CLI_SOURCE_JSON,   /* cli_record_json.h */
    CLI_SOURCE_FORMAT, /* cli_format_read.h */
};

struct cli_source {
    enum cli_source_kind kind;
    struct cli_input input;
    const char *name; /* Of the file; NULL: standard input. */
    struct client_message pattern;
    struct slice separator; /* Null: the line is the value. */
    char *separator_memory;
    struct slice null_text; /* Null: nothing stands for null. */
    bool keeps_partitions;
    struct cli_record_json json;
    struct cli_format format;
    struct cli_format_reader reader;
    struct client_header *headers; /* The pattern's first, then the record's own. */
    size_t headers_capacity;
    char why[CLI_SOURCE_WHY_SIZE]; /* Set by what cli_source_next returns, but for its first two. */
};

/* From the options of produce. CLI_OK, or what to return and a line on err; freed in any case by
 * cli_source_done. What ends the input, input.stop_fd, the caller may set behind it. */
int cli_source_init(struct cli_source *s, struct cli *cli);
void cli_source_done(struct cli_source *s);

/* The next record, valid until the next call. timeout_ms -1: waits as long as it takes.
 *   ERR_EOF        no more
 *   ERR_TIMED_OUT  none yet
 *   ERR_CANCELLED  stop_fd is readable
 *   ERR_INVALID    what stands there is no record; why says where
 *   ERR_TOO_LARGE, ERR_BUSY, ERR_IO */
enum err cli_source_next(struct cli_source *s, int timeout_ms, struct client_message *ret_message);
