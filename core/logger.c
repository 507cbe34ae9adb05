#include "core/logger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/clock.h"
#include "core/utf8.h"

enum {
    LOG_LINE_SIZE_MAX = 2048,
};

static int64_t now_wall_ms(struct logger *l)
{
    if (l->wall_ms != NULL) {
        return l->wall_ms(l);
    }
    struct clock c;
    clock_init_real(&c);
    return clock_wall_ms(&c);
}

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_DEBUG:
        return "DEBUG";
    case LOG_INFO:
        return "INFO";
    case LOG_WARN:
        return "WARN";
    case LOG_ERROR:
        return "ERROR";
    }
    assert(false && "a level of the enum");
    return "";
}

static size_t put_head(char *line, size_t size, int64_t wall_ms, enum log_level level)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    int millis = (int)(wall_ms % 1000);
    if (millis < 0) {
        millis += 1000;
        seconds--;
    }
    struct tm tm;
    char date[32] = "?";
    if (gmtime_r(&seconds, &tm) != NULL) {
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    }
    int n = snprintf(line, size, "%s.%03dZ %s ", date, millis, level_name(level));
    return n < 0 ? 0 : (size_t)n;
}

static bool is_ready(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) != 0; /* An error shows at the write. */
}

/* One write per line: pipes take up to 4 KiB in one piece, so lines of several shards never mix.
 * False: it would have had to wait. Any other trouble there is nobody left to tell about. */
static bool write_now(const struct logger *l, const char *line, size_t size)
{
    char out[LOG_LINE_SIZE_MAX + 1];
    assert(size < sizeof(out));
    memcpy(out, line, size);
    out[size] = '\n';
    if (l->may_block && !is_ready(l->fd)) {
        return false;
    }
    const ssize_t written = l->is_socket ? send(l->fd, out, size + 1, MSG_DONTWAIT | MSG_NOSIGNAL)
                                         : write(l->fd, out, size + 1);
    return written >= 0 || errno != EAGAIN;
}

static void tell_dropped(struct logger *l)
{
    const uint64_t count = atomic_exchange_explicit(&l->dropped_count, 0, memory_order_relaxed);
    if (count == 0) {
        return;
    }
    char line[LOG_LINE_SIZE_MAX];
    size_t size = put_head(line, sizeof(line), now_wall_ms(l), LOG_WARN);
    size += (size_t)snprintf(line + size,
                             sizeof(line) - size,
                             "log_lines_dropped: count=%llu hint=\"nobody read stderr\"",
                             (unsigned long long)count);
    if (!write_now(l, line, size)) {
        atomic_fetch_add_explicit(&l->dropped_count, count, memory_order_relaxed);
    }
}

static void write_stderr(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    tell_dropped(l);
    if (!write_now(l, line, size)) {
        atomic_fetch_add_explicit(&l->dropped_count, 1, memory_order_relaxed);
    }
}

void logger_init_stderr(struct logger *l, enum log_level level)
{
    *l = (struct logger){.level = level, .sink = write_stderr, .fd = STDERR_FILENO};
    struct stat st;
    const bool is_known = fstat(STDERR_FILENO, &st) == 0;
    l->is_socket = is_known && S_ISSOCK(st.st_mode);
    l->may_block = !l->is_socket;
    if (is_known && S_ISFIFO(st.st_mode)) {
        /* O_NONBLOCK on stderr itself would be there for all that share it, also behind our back.
         * Where the pipe is not ours to open, asking it first has to do. */
        int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd != -1) {
            l->fd = fd;
            l->may_block = false;
        }
    }
}

void logger_done(struct logger *l)
{
    if (l->fd > STDERR_FILENO) {
        (void)close(l->fd);
    }
}

enum log_level logger_level(const struct logger *l)
{
    return (enum log_level)atomic_load_explicit(&l->level, memory_order_relaxed);
}

void logger_set_level(struct logger *l, enum log_level level)
{
    atomic_store_explicit(&l->level, (int)level, memory_order_relaxed);
}

void log_event(struct logger *l, enum log_level level, const char *event, const char *format, ...)
{
    if (level < logger_level(l)) {
        return;
    }
    char line[LOG_LINE_SIZE_MAX];
    size_t size = put_head(line, sizeof(line), now_wall_ms(l), level);

    /* snprintf says how much it wanted; what did not fit is cut and marked. */
    int n = snprintf(line + size, sizeof(line) - size, "%s: ", event);
    size += n < 0 ? 0 : (size_t)n;
    if (size < sizeof(line)) {
        va_list args;
        va_start(args, format);
        n = vsnprintf(line + size, sizeof(line) - size, format, args);
        va_end(args);
        size += n < 0 ? 0 : (size_t)n;
    }
    if (size >= sizeof(line)) {
        size = sizeof(line) - 1;
        memcpy(line + size - 3, "...", 3);
    }
    /* Values may come from clients: a line break in one must not forge a second line. */
    utf8_make_printable(line);
    l->sink(l, level, line, strlen(line));
}
