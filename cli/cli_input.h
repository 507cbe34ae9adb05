/* Bytes of a descriptor, a line or any other piece at a time, with a limit on how long to wait for
 * more: so that what was read so far can be sent on when the input pauses.
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
    CLI_INPUT_PIECE_MAX = 64 << 20,
};

struct cli_input {
    int fd;
    int stop_fd;    /* Readable: somebody wants the reading to end. -1: nobody can. */
    uint64_t lines; /* Newlines that were taken. */
    char *data;
    size_t start;   /* Of what was not taken. */
    size_t scanned; /* Up to here there is no newline. */
    size_t size;
    size_t capacity;
    bool is_at_end;
};

void cli_input_init(struct cli_input *in, int fd, int stop_fd);
void cli_input_done(struct cli_input *in);

/* What was read and not taken; valid until the next call for more. */
struct slice cli_input_rest(const struct cli_input *in);
/* The first size bytes of the rest are done with. */
void cli_input_take(struct cli_input *in, size_t size);

/* More behind the rest, or is_at_end. timeout_ms -1: waits as long as it takes.
 *   ERR_TIMED_OUT  none yet
 *   ERR_CANCELLED  stop_fd is readable
 *   ERR_TOO_LARGE  the rest is larger than CLI_INPUT_PIECE_MAX
 *   ERR_BUSY, ERR_IO (errno says why) */
enum err cli_input_more(struct cli_input *in, int timeout_ms);

/* Takes the next line, without its newline; valid until the next call. The last needs none.
 *   ERR_EOF  no more
 * and as above. */
enum err cli_input_line(struct cli_input *in, int timeout_ms, struct slice *ret_line);
