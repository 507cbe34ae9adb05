/* Log lines: form, levels, cutting, and values that try to forge lines. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/logger.h"

struct memory_log {
    struct logger logger;
    char line[4096];
    size_t size;
    int count;
};

static void keep_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct memory_log *m = l->context;
    m->count++;
    m->size = size;
    memcpy(m->line, line, size);
    m->line[size] = '\0';
}

static int64_t wall_ms(struct logger *l)
{
    (void)l;
    return 1700000000123;
}

static void memory_log_init(struct memory_log *m)
{
    *m = (struct memory_log){0};
    m->logger =
        (struct logger){.level = LOG_INFO, .sink = keep_line, .context = m, .wall_ms = wall_ms};
}

Test(logger, form)
{
    struct memory_log m;
    memory_log_init(&m);
    log_warn(&m.logger, "segment_rolled", "topic=%s partition=%d", "a", 3);
    cr_assert(eq(str, m.line, "2023-11-14T22:13:20.123Z WARN segment_rolled: topic=a partition=3"));
    cr_assert(eq(sz, m.size, strlen(m.line)));
}

Test(logger, less_important_lines_are_dropped)
{
    struct memory_log m;
    memory_log_init(&m);
    log_debug(&m.logger, "noise", "n=%d", 1);
    cr_assert(eq(int, m.count, 0));
    log_info(&m.logger, "news", "n=%d", 1);
    log_error(&m.logger, "bad_news", "n=%d", 1);
    cr_assert(eq(int, m.count, 2));
}

Test(logger, values_cannot_forge_lines)
{
    struct memory_log m;
    memory_log_init(&m);
    log_info(&m.logger,
             "hello",
             "client=%s",
             "x\n2023 ERROR forged: a=b\x1b[0m\xc2\x9b"
             "2J");
    cr_assert(eq(ptr, strchr(m.line, '\n'), NULL));
    cr_assert(eq(ptr, strchr(m.line, '\x1b'), NULL));
    cr_assert(eq(ptr, strchr(m.line, '\x9b'), NULL), "CSI in one character");
}

Test(logger, long_lines_are_cut_and_marked)
{
    struct memory_log m;
    char value[5000];
    for (size_t size = 1900; size < sizeof(value); size += 1 + size / 50) {
        memory_log_init(&m);
        memset(value, 'v', size - 1);
        value[size - 1] = '\0';
        log_info(&m.logger, "long", "value=%s", value);
        cr_assert(eq(int, m.count, 1));
        cr_assert(lt(sz, m.size, 2048));
        if (size > 2048) {
            cr_assert(eq(str, m.line + m.size - 3, "..."));
        }
    }
}

/* A reader of the log that sleeps must not put the shards to sleep: lines are dropped meanwhile,
 * and counted. Stderr itself stays as others that share it expect it. */
Test(logger, nobody_waits_for_a_reader_of_stderr, .timeout = 30)
{
    for (int is_socket = 0; is_socket <= 1; is_socket++) {
        int ends[2];
        cr_assert(
            eq(int, is_socket == 1 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0));
        cr_assert(eq(int, dup2(ends[1], STDERR_FILENO), STDERR_FILENO));
        struct logger l;
        logger_init_stderr(&l, LOG_INFO);
        for (int i = 0; i < 20000; i++) {
            log_info(&l, "line", "number=%d", i);
        }
        cr_assert(eq(int, fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0));
        static char text[1 << 21];
        size_t size = 0;
        ssize_t got;
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        while ((got = read(ends[0], text, sizeof(text))) > 0) {
        }
        log_info(&l, "last", "number=%d", 1);
        while ((got = read(ends[0], text + size, sizeof(text) - 1 - size)) > 0) {
            size += (size_t)got;
        }
        text[size] = '\0';
        cr_assert(ne(ptr, strstr(text, "WARN log_lines_dropped: count=1"), NULL), "%s", text);
        cr_assert(ne(ptr, strstr(text, "INFO last: number=1\n"), NULL), "%s", text);
        logger_done(&l);
        close(ends[0]);
        close(ends[1]);
    }
}
