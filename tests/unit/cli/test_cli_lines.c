/* Lines from a pipe. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_lines.h"

static int pipe_fds[2];
static struct cli_lines lines;

static void setup(void)
{
    cr_assert(pipe(pipe_fds) == 0);
    cli_lines_init(&lines, pipe_fds[0]);
}

static void teardown(void)
{
    cli_lines_done(&lines);
    (void)close(pipe_fds[0]);
}

TestSuite(cli_lines, .init = setup, .fini = teardown);

static void put(const char *text)
{
    cr_assert(write(pipe_fds[1], text, strlen(text)) == (ssize_t)strlen(text));
}

static void end(void)
{
    (void)close(pipe_fds[1]);
}

static void expect_line(const char *wanted)
{
    struct slice line = {0};
    enum err e = cli_lines_next(&lines, 0, &line);
    cr_assert(eq(int, e, ERR_OK), "%s", wanted);
    cr_assert(slice_equal_string(line, wanted), "%.*s", (int)line.size, (const char *)line.data);
}

static void expect(enum err wanted)
{
    struct slice line;
    enum err e = cli_lines_next(&lines, 0, &line);
    cr_assert(eq(int, e, wanted));
}

Test(cli_lines, lines_with_and_without_a_last_newline)
{
    put("one\n\nthree");
    end();
    expect_line("one");
    expect_line("");
    expect_line("three");
    expect(ERR_EOF);
    expect(ERR_EOF);
}

Test(cli_lines, nothing_is_no_line)
{
    end();
    expect(ERR_EOF);
}

Test(cli_lines, pause_in_the_middle_of_a_line)
{
    put("he");
    expect(ERR_TIMED_OUT);
    put("llo\nwor");
    expect_line("hello");
    expect(ERR_TIMED_OUT);
    put("ld\n");
    expect_line("world");
    end();
    expect(ERR_EOF);
}

Test(cli_lines, many_lines_of_all_lengths)
{
    char text[4096];
    for (int round = 0; round < 200; round++) {
        size_t size = 0;
        for (size_t length = 0; length < 60; length++) {
            memset(text + size, 'a' + (int)(length % 26), length);
            size += length;
            text[size++] = '\n';
        }
        cr_assert(write(pipe_fds[1], text, size) == (ssize_t)size);
        for (size_t length = 0; length < 60; length++) {
            struct slice line;
            cr_assert(cli_lines_next(&lines, 0, &line) == ERR_OK);
            cr_assert(eq(sz, line.size, length));
        }
    }
    end();
    expect(ERR_EOF);
}
