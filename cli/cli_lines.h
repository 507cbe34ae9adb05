/* Lines of a descriptor, with a limit on how long to wait for the next: so that what was read so
 * far can be sent on when the input pauses.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"

enum {
    CLI_LINE_SIZE_MAX = 64 << 20,
};

struct cli_lines {
    int fd;
    char *data;
    size_t start;   /* Of what was not handed out. */
    size_t scanned; /* Up to here there is no newline. */
    size_t size;
    size_t capacity;
    bool is_at_end;
};

void cli_lines_init(struct cli_lines *l, int fd);
void cli_lines_done(struct cli_lines *l);

/* The next line without its newline, valid until the next call; the last needs none. timeout_ms -1:
 * waits as long as it takes.
 *   ERR_EOF        no more
 *   ERR_TIMED_OUT  none yet
 *   ERR_TOO_LARGE  longer than CLI_LINE_SIZE_MAX
 *   ERR_BUSY, ERR_IO (errno says why) */
enum err cli_lines_next(struct cli_lines *l, int timeout_ms, struct slice *ret_line);
