#include "cli/cli_input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/assert.h"

enum {
    READ_SIZE = 256 << 10,
};

void cli_input_init(struct cli_input *in, int fd, int stop_fd)
{
    *in = (struct cli_input){.fd = fd, .stop_fd = stop_fd};
}

void cli_input_done(struct cli_input *in)
{
    free(in->data);
    in->data = NULL;
}

struct slice cli_input_rest(const struct cli_input *in)
{
    return in->size > in->start ? slice_of(in->data + in->start, in->size - in->start)
                                : slice_of("", 0);
}

void cli_input_take(struct cli_input *in, size_t size)
{
    assert_cmp(size, <=, in->size - in->start);
    const char *end = in->data + in->start + size;
    for (const char *p = in->data + in->start; p < end; p++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (p == NULL) {
            break;
        }
        in->lines++;
    }
    in->start += size;
    in->scanned = in->start > in->scanned ? in->start : in->scanned;
}

/* Room for a read behind what is there, which moves to the front first. */
static enum err make_room(struct cli_input *in)
{
    if (in->start > 0) {
        memmove(in->data, in->data + in->start, in->size - in->start);
        in->size -= in->start;
        in->scanned -= in->start;
        in->start = 0;
    }
    if (in->size > CLI_INPUT_PIECE_MAX) {
        return ERR_TOO_LARGE;
    }
    if (in->capacity - in->size < READ_SIZE) {
        const size_t capacity = in->capacity * 2 + READ_SIZE;
        char *grown = realloc(in->data, capacity);
        if (grown == NULL) {
            return ERR_BUSY;
        }
        in->data = grown;
        in->capacity = capacity;
    }
    return ERR_OK;
}

enum err cli_input_more(struct cli_input *in, int timeout_ms)
{
    enum err e = make_room(in);
    if (e != ERR_OK) {
        return e;
    }
    struct pollfd both[] = {
        {.fd = in->fd, .events = POLLIN},
        {.fd = in->stop_fd, .events = POLLIN},
    };
    const int ready = poll(both, 2, timeout_ms);
    if (ready == 0 || (ready == -1 && errno == EINTR)) {
        return ERR_TIMED_OUT;
    }
    if (ready > 0 && both[1].revents != 0) {
        return ERR_CANCELLED;
    }
    const ssize_t got = ready == -1 ? -1 : read(in->fd, in->data + in->size, READ_SIZE);
    if (got == -1) {
        return errno == EINTR || errno == EAGAIN ? ERR_TIMED_OUT : ERR_IO;
    }
    in->size += (size_t)got;
    in->is_at_end = got == 0;
    return ERR_OK;
}

static bool find_line(struct cli_input *in, struct slice *ret_line)
{
    const char *from = in->size > in->scanned ? in->data + in->scanned : NULL;
    const char *newline = from == NULL ? NULL : memchr(from, '\n', in->size - in->scanned);
    if (newline == NULL) {
        in->scanned = in->size;
        return false;
    }
    const size_t end = (size_t)(newline - in->data);
    *ret_line = slice_of(in->data + in->start, end - in->start);
    in->start = in->scanned = end + 1;
    in->lines++;
    return true;
}

enum err cli_input_line(struct cli_input *in, int timeout_ms, struct slice *ret_line)
{
    while (!find_line(in, ret_line)) {
        if (in->is_at_end) {
            const struct slice rest = cli_input_rest(in);
            if (rest.size == 0) {
                return ERR_EOF;
            }
            *ret_line = rest;
            in->start = in->scanned = in->size;
            in->lines++;
            return ERR_OK;
        }
        enum err e = cli_input_more(in, timeout_ms);
        if (e != ERR_OK && !(e == ERR_TIMED_OUT && timeout_ms < 0)) {
            return e;
        }
    }
    return ERR_OK;
}
