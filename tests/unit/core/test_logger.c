/* Log lines: form, levels, cutting, and values that try to forge lines. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

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
    log_info(&m.logger, "hello", "client=%s", "x\n2023 ERROR forged: a=b\x1b[0m");
    cr_assert(eq(ptr, strchr(m.line, '\n'), NULL));
    cr_assert(eq(ptr, strchr(m.line, '\x1b'), NULL));
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
