#include "core/logger.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/clock.h"

enum {
    LOG_LINE_SIZE_MAX = 2048,
};

/* One write per line: pipes take up to 4 KiB in one piece, so lines of several shards never mix. */
static void write_stderr(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)l;
    (void)level;
    char out[LOG_LINE_SIZE_MAX + 1];
    assert(size < sizeof(out));
    memcpy(out, line, size);
    out[size] = '\n';
    /* Nobody is left to be told that the log is broken. */
    ssize_t written = write(STDERR_FILENO, out, size + 1);
    (void)written;
}

void logger_init_stderr(struct logger *l, enum log_level level)
{
    *l = (struct logger){.level = level, .sink = write_stderr};
}

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

/* Values may come from clients: a line break in one must not forge a second line. */
static void replace_control_characters(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
            text[i] = '?';
        }
    }
}

void log_event(struct logger *l, enum log_level level, const char *event, const char *format, ...)
{
    if (level < l->level) {
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
    replace_control_characters(line, size);
    l->sink(l, level, line, size);
}
