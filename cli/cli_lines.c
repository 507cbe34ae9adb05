#include "cli/cli_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_SIZE = 256 << 10,
};

void cli_lines_init(struct cli_lines *l, int fd)
{
    *l = (struct cli_lines){.fd = fd};
}

void cli_lines_done(struct cli_lines *l)
{
    free(l->data);
    l->data = NULL;
}

static bool find_line(struct cli_lines *l, struct slice *ret_line)
{
    const char *from = l->size > l->scanned ? l->data + l->scanned : NULL;
    const char *newline = from == NULL ? NULL : memchr(from, '\n', l->size - l->scanned);
    if (newline == NULL) {
        l->scanned = l->size;
        return false;
    }
    const size_t end = (size_t)(newline - l->data);
    *ret_line = slice_of(l->data + l->start, end - l->start);
    l->start = l->scanned = end + 1;
    return true;
}

/* Room for a read behind what is there, which moves to the front first. */
static enum err make_room(struct cli_lines *l)
{
    if (l->start > 0) {
        memmove(l->data, l->data + l->start, l->size - l->start);
        l->size -= l->start;
        l->scanned -= l->start;
        l->start = 0;
    }
    if (l->size > CLI_LINE_SIZE_MAX) {
        return ERR_TOO_LARGE;
    }
    if (l->capacity - l->size < READ_SIZE) {
        const size_t capacity = l->capacity * 2 + READ_SIZE;
        char *grown = realloc(l->data, capacity);
        if (grown == NULL) {
            return ERR_BUSY;
        }
        l->data = grown;
        l->capacity = capacity;
    }
    return ERR_OK;
}

static enum err read_more(struct cli_lines *l, int timeout_ms)
{
    enum err e = make_room(l);
    if (e != ERR_OK) {
        return e;
    }
    struct pollfd one = {.fd = l->fd, .events = POLLIN};
    const int ready = poll(&one, 1, timeout_ms);
    if (ready == 0 || (ready == -1 && errno == EINTR)) {
        return ERR_TIMED_OUT;
    }
    const ssize_t got = ready == -1 ? -1 : read(l->fd, l->data + l->size, READ_SIZE);
    if (got == -1) {
        return errno == EINTR || errno == EAGAIN ? ERR_TIMED_OUT : ERR_IO;
    }
    l->size += (size_t)got;
    l->is_at_end = got == 0;
    return ERR_OK;
}

enum err cli_lines_next(struct cli_lines *l, int timeout_ms, struct slice *ret_line)
{
    while (!find_line(l, ret_line)) {
        if (l->is_at_end) {
            const size_t left = l->size - l->start;
            *ret_line = left > 0 ? slice_of(l->data + l->start, left) : *ret_line;
            l->start = l->scanned = l->size;
            return left > 0 ? ERR_OK : ERR_EOF;
        }
        enum err e = read_more(l, timeout_ms);
        if (e != ERR_OK && !(e == ERR_TIMED_OUT && timeout_ms < 0)) {
            return e;
        }
    }
    return ERR_OK;
}
