/* Records read by a format: what is printed is read again, whatever pieces it comes in. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_format_read.h"

struct rig {
    struct cli_format format;
    struct cli_format_reader reader;
};

static void start(struct rig *g, const char *format, const char *null_text)
{
    char why[CLI_FORMAT_WHY_SIZE] = "";
    cr_assert(cli_format_init(&g->format, format, "t", why) == ERR_OK, "%s: %s", format, why);
    g->format.null_text = slice_of_string(null_text);
    enum err e = cli_format_reader_init(&g->reader, &g->format);
    cr_assert(e == ERR_OK, "%s: %s", format, g->reader.why);
}

static void stop(struct rig *g)
{
    cli_format_reader_done(&g->reader);
    cli_format_done(&g->format);
}

/* "k=KEY v=VALUE t=TIME p=PARTITION h=NAME:VALUE;", null as ~; then what is left. */
static void describe(const struct client_message *m, char *text, size_t size)
{
    const struct slice null = slice_of_string("~");
    const struct slice k = slice_is_null(m->key) ? null : m->key;
    const struct slice v = slice_is_null(m->value) ? null : m->value;
    int at = snprintf(text,
                      size,
                      "k=%.*s v=%.*s",
                      (int)k.size,
                      (const char *)k.data,
                      (int)v.size,
                      (const char *)v.data);
    if (m->has_timestamp) {
        at += snprintf(text + at, size - (size_t)at, " t=%lld", (long long)m->timestamp);
    }
    if (m->partition >= 0) {
        at += snprintf(text + at, size - (size_t)at, " p=%d", m->partition);
    }
    for (size_t i = 0; i < m->headers_count; i++) {
        const struct client_header *h = &m->headers[i];
        const struct slice hv = slice_is_null(h->value) ? null : h->value;
        at += snprintf(text + at,
                       size - (size_t)at,
                       " %.*s:%.*s",
                       (int)h->key.size,
                       (const char *)h->key.data,
                       (int)hv.size,
                       (const char *)hv.data);
    }
}

struct row {
    const char *format;
    const char *null_text;
    const char *input;
    const char *wanted; /* Records, each with a '/' behind it; or "!why" behind them. */
};

static const struct row rows[] = {
    {"%v\\n", NULL, "a\nb\n", "k=~ v=a/k=~ v=b/"},
    {"%v\\n", NULL, "a\n\nb", "k=~ v=a/k=~ v=/k=~ v=b/"},
    {"%s\\n", NULL, "a\n", "k=~ v=a/"},
    {"%k\\t%v\\n", NULL, "k\tv\n\tv\tw\nk\t\n", "k=k v=v/k= v=v\tw/k=k v=/"},
    {"%k\\t%v\\n", NULL, "k\tv", "k=k v=v/"},
    {"%k\\t%v\\n", NULL, "k v\n", "!there is no '\t' behind '%k'"},
    {"%k\\t%v\\n", NULL, "k", "!the input ends in the middle of a record"},
    {"%k: %v\\r\\n", NULL, "a: b\r\nc: d\r", "k=a v=b/k=c v=d\r/"},
    {"%k\\n--\\n%v\\n", NULL, "a\n--\nb\n", "k=a v=b/"},
    {"%k\\n--\\n%v\\n", NULL, "a\n-b\nc\n", "!there is no '\n--\n' behind '%k'"},
    {"%v\\n\\n", NULL, "a\nb\n\nc", "k=~ v=a\nb/k=~ v=c/"},
    {"%k=%v;", "NULL", "NULL=a;b=NULL;=;", "k=~ v=a/k=b v=~/k= v=/"},
    {"%k=%v;", "", "=a;b=;", "k=~ v=a/k=b v=~/"},
    {"%K %S %k%v\\n", NULL, "1 3 ka\nb\n-1 0 \n0 -1 \n", "k=k v=a\nb/k=~ v=/k= v=~/"},
    {"%K,%k,%v\\n", NULL, "3,a,b,v\n", "k=a,b v=v/"},
    {"%S:%v", NULL, "1:a2:bc", "k=~ v=a/k=~ v=bc/"},
    {"%S:%v", "N", "1:a-1:N2:bc", "k=~ v=a/k=~ v=~/k=~ v=bc/"},
    {"%S:%v", NULL, "1:a2:b", "k=~ v=a/!the input ends in the middle of a record"},
    {"%S:%v", NULL, "x:a", "!'x' is no number for '%S'"},
    {"%S:%v", NULL, "-2:a", "!'-2' is no number for '%S'"},
    {"%S:%v", NULL, "99999999999:a", "!'99999999999' is no number for '%S'"},
    {"%S:%v", NULL, ":a", "!'' is no number for '%S'"},
    {"%S:%v\\n", NULL, "1:ab\n", "!'\n' should stand where 'b' does"},
    {"%T %p %v\\n", NULL, "0 3 v\n-1 -1 v\n", "k=~ v=v t=0 p=3/k=~ v=v t=-1/"},
    {"%d %v\\n", NULL, "2023-11-14T22:13:20.123Z v\n", "k=~ v=v t=1700000000123/"},
    {"%d %v\\n", NULL, "yesterday v\n", "!'yesterday' is no date for '%d'"},
    {"%p %v\\n", NULL, "2147483648 v\n", "!'2147483648' is no number for '%p'"},
    {"%t[%p]@%o %v\\n", NULL, "orders[1]@7 v\n", "k=~ v=v p=1/"},
    {"%h|%v\\n", NULL, "a=1,b=,c|v\n|v\n", "k=~ v=v a:1 b: c:~/k=~ v=v/"},
    {"%h|%v\\n", "NULL", "a=NULL,b=x=y|v\n", "k=~ v=v a:~ b:x=y/"},
    {"<%v>\\n", NULL, "<a>\n(b)\n", "k=~ v=a/!'<' should stand where '(' does"},
    {"%%%v%%", NULL, "%a%%b%", "k=~ v=a/k=~ v=b/"},
};

/* Reads all records of input, handed out in pieces that grow by step bytes. */
static void run(const struct row *row, size_t step, char *text, size_t size)
{
    struct rig g;
    start(&g, row->format, row->null_text);
    const size_t input_size = strlen(row->input);
    size_t from = 0;
    size_t to = step < input_size ? step : input_size;
    size_t at = 0;
    text[0] = '\0';
    while (from < input_size) {
        struct client_message m;
        size_t taken = 0;
        enum err e = cli_format_read(
            &g.reader, slice_of(row->input + from, to - from), to == input_size, &m, &taken);
        if (e == ERR_EOF) {
            cr_assert(to < input_size, "%s wants more than all", row->format);
            to = to + step < input_size ? to + step : input_size;
            continue;
        }
        if (e != ERR_OK) {
            (void)snprintf(text + at, size - at, "!%s", g.reader.why);
            break;
        }
        cr_assert(taken > 0 && taken <= to - from, "%s", row->format);
        describe(&m, text + at, size - at);
        at += strlen(text + at);
        at += (size_t)snprintf(text + at, size - at, "/");
        from += taken;
        to = to < from ? from : to;
    }
    stop(&g);
}

Test(cli_format_read, rows_in_pieces_of_all_sizes)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step <= strlen(rows[i].input); step++) {
            char text[512];
            run(&rows[i], step, text, sizeof(text));
            /* What an error repeats of the input depends on how much of it is there. */
            const char *wanted = rows[i].wanted;
            const bool is_mismatch = strstr(wanted, "should stand") != NULL;
            const size_t compared =
                is_mismatch ? (size_t)(strstr(wanted, "should") - wanted) : strlen(wanted) + 1;
            cr_assert(strncmp(text, wanted, compared) == 0,
                      "%s of '%s' by %zu: '%s', wanted '%s'",
                      rows[i].format,
                      rows[i].input,
                      step,
                      text,
                      wanted);
        }
    }
}

Test(cli_format_read, sizes_in_four_bytes)
{
    struct rig g;
    start(&g, "%R%s", NULL);
    struct client_message m;
    size_t size = 0;
    cr_assert(cli_format_read(&g.reader, slice_of("\0\0\0\2ab", 6), false, &m, &size) == ERR_OK);
    cr_assert(eq(sz, size, 6));
    cr_assert(slice_equal_string(m.value, "ab"));
    cr_assert(cli_format_read(&g.reader, slice_of("\xFF\xFF\xFF\xFFx", 5), false, &m, &size) ==
              ERR_OK);
    cr_assert(eq(sz, size, 4));
    cr_assert(slice_is_null(m.value));
    cr_assert(cli_format_read(&g.reader, slice_of("\0\0\0", 3), false, &m, &size) == ERR_EOF);
    cr_assert(cli_format_read(&g.reader, slice_of("\0\0\0", 3), true, &m, &size) == ERR_INVALID);
    cr_assert(cli_format_read(&g.reader, slice_of("\xFF\xFF\xFF\xFE", 4), true, &m, &size) ==
              ERR_INVALID);
    cr_assert(cli_format_read(&g.reader, slice_of("\x7F\xFF\xFF\xFF", 4), true, &m, &size) ==
              ERR_INVALID);
    stop(&g);
}

/* Keys and values of any bytes, printed and read by the same format. */
Test(cli_format_read, what_is_printed_is_read_again)
{
    static const char *const formats[] = {
        "%K %S %k%v\\n", "%S/%K/%v%k", "%K:%k%R%v", "%p %T %K,%k,%S,%v|"};
    const struct slice kinds[] = {{0},
                                  slice_of("", 0),
                                  slice_of("a\0\n|", 4),
                                  slice_of_string("-1 -1 \n"),
                                  slice_of_string("NULL")};
    for (size_t i = 0; i < 4 * 25 * 2; i++) {
        struct rig g;
        start(&g, formats[i % 4], i >= 100 ? "NULL" : NULL);
        const struct client_record r = {
            .partition = 2, .timestamp = 5, .key = kinds[i / 4 % 5], .value = kinds[i / 20 % 5]};
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        cli_format_print(&g.format, &r, out);
        (void)fclose(out);
        struct client_message m;
        size_t taken = 0;
        enum err e = cli_format_read(&g.reader, slice_of(text, size), i % 2 == 0, &m, &taken);
        cr_assert(eq(int, e, ERR_OK), "%s: %s", formats[i % 4], g.reader.why);
        cr_assert(eq(sz, taken, size));
        cr_assert(slice_equal(m.key, r.key) && slice_is_null(m.key) == slice_is_null(r.key));
        cr_assert(slice_equal(m.value, r.value) &&
                  slice_is_null(m.value) == slice_is_null(r.value));
        free(text);
        stop(&g);
    }
}

static const struct {
    const char *format;
    const char *why;
} bad[] = {
    {"", "'%v' is missing"},
    {"text", "'%v' is missing"},
    {"%k\\n", "'%v' is missing"},
    {"%v", "nothing tells where '%v' ends: put text behind it, such as \\n, or %S before it"},
    {"%k%v\\n", "nothing tells where '%k' ends: put text behind it, such as \\n, or %K before it"},
    {"%v %p", "nothing tells where '%p' ends: put text behind it, such as \\n"},
    {"%S%v", "nothing tells where '%S' ends"},
    {"%v %v\\n", "'%v' says what was said before"},
    {"%v %s\\n", "'%v' says what was said before"},
    {"%S %R%v\\n", "'%R' says what was said before"},
    {"%T %d %v\\n", "'%d' says what was said before"},
    {"%k %K %v\\n", "'%K' has to stand before what it is the size of"},
    {"%v %S\\n", "'%S' has to stand before what it is the size of"},
    {"%v %R", "'%R' has to stand before what it is the size of"},
};

Test(cli_format_read, formats_that_cannot_be_read)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rig g;
        char why[CLI_FORMAT_WHY_SIZE];
        cr_assert(cli_format_init(&g.format, bad[i].format, "t", why) == ERR_OK);
        enum err e = cli_format_reader_init(&g.reader, &g.format);
        cr_assert(eq(int, e, ERR_INVALID), "%s", bad[i].format);
        cr_assert(strstr(g.reader.why, bad[i].why) != NULL, "%s: %s", bad[i].format, g.reader.why);
        stop(&g);
    }
}
