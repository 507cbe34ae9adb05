/* Lines from a pipe. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_input.h"

static int pipe_fds[2];
static struct cli_input lines;

static void setup(void)
{
    cr_assert(pipe(pipe_fds) == 0);
    cli_input_init(&lines, pipe_fds[0], -1);
}

static void teardown(void)
{
    cli_input_done(&lines);
    (void)close(pipe_fds[0]);
}

TestSuite(cli_input, .init = setup, .fini = teardown);

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
    enum err e = cli_input_line(&lines, 0, &line);
    cr_assert(eq(int, e, ERR_OK), "%s", wanted);
    cr_assert(slice_equal_string(line, wanted), "%.*s", (int)line.size, (const char *)line.data);
}

static void expect(enum err wanted)
{
    struct slice line;
    enum err e = cli_input_line(&lines, 0, &line);
    cr_assert(eq(int, e, wanted));
}

Test(cli_input, lines_with_and_without_a_last_newline)
{
    put("one\n\nthree");
    end();
    expect_line("one");
    expect_line("");
    expect_line("three");
    expect(ERR_EOF);
    expect(ERR_EOF);
}

Test(cli_input, nothing_is_no_line)
{
    end();
    expect(ERR_EOF);
}

Test(cli_input, pause_in_the_middle_of_a_line)
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

Test(cli_input, many_lines_of_all_lengths)
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
            cr_assert(cli_input_line(&lines, 0, &line) == ERR_OK);
            cr_assert(eq(sz, line.size, length));
        }
    }
    end();
    expect(ERR_EOF);
}

/* What is no line: looked at, taken in part, more of it behind what is left. */
Test(cli_input, pieces)
{
    put("one\ntwo\nth");
    cr_assert(cli_input_more(&lines, 0) == ERR_OK);
    cr_assert(slice_equal_string(cli_input_rest(&lines), "one\ntwo\nth"));
    cli_input_take(&lines, 5);
    cr_assert(eq(u64, lines.lines, 1));
    cr_assert(slice_equal_string(cli_input_rest(&lines), "wo\nth"));
    cr_assert(cli_input_more(&lines, 0) == ERR_TIMED_OUT);
    put("ree");
    end();
    cr_assert(cli_input_more(&lines, 0) == ERR_OK);
    cli_input_take(&lines, 0);
    cr_assert(slice_equal_string(cli_input_rest(&lines), "wo\nthree"));
    expect_line("wo");
    cr_assert(eq(u64, lines.lines, 2));
    cr_assert(cli_input_more(&lines, 0) == ERR_OK);
    cr_assert(lines.is_at_end);
    cli_input_take(&lines, 5);
    cr_assert(eq(sz, cli_input_rest(&lines).size, 0));
    expect(ERR_EOF);
}

Test(cli_input, somebody_wants_it_to_end)
{
    int stop_fds[2];
    cr_assert(pipe(stop_fds) == 0);
    lines.stop_fd = stop_fds[0];
    put("one\ntwo");
    expect_line("one");
    expect(ERR_TIMED_OUT);
    (void)close(stop_fds[1]);
    put("\n");
    expect(ERR_CANCELLED);
    (void)close(stop_fds[0]);
    end();
}
