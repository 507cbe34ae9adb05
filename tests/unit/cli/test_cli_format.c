/* Format strings of consume. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_format.h"

static const struct client_header headers[] = {
    {{(const uint8_t *)"a", 1}, {(const uint8_t *)"1", 1}},
    {{(const uint8_t *)"b", 1}, {NULL, 0}},
};

static struct client_record record_of(const char *key, const char *value)
{
    return (struct client_record){
        .partition = 3,
        .offset = 42,
        .timestamp = 1700000000123,
        .key = slice_of_string(key),
        .value = slice_of_string(value),
        .headers = headers,
        .headers_count = 2,
    };
}

struct row {
    const char *format;
    const char *key;
    const char *value;
    const char *wanted;
};

static const struct row rows[] = {
    {"%v\\n", "k", "v", "v\n"},
    {"%s", "k", "v", "v"},
    {"%k=%v", "k", "v", "k=v"},
    {"%k=%v", NULL, NULL, "="},
    {"%K %S", NULL, "abc", "-1 3"},
    {"%K %S", "", NULL, "0 -1"},
    {"%t[%p]@%o", "k", "v", "orders[3]@42"},
    {"%T %d", "k", "v", "1700000000123 2023-11-14T22:13:20.123Z"},
    {"%h", "k", "v", "a=1,b="},
    {"%%v", "k", "v", "%v"},
    {"100%%", "k", "v", "100%"},
    {"\\t\\r\\\\\\x41", "k", "v", "\t\r\\A"},
    {"", "k", "v", ""},
    {"plain", "k", "v", "plain"},
    {"%v%v", "k", "v", "vv"},
};

Test(cli_format, rows)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cli_format f;
        char why[CLI_FORMAT_WHY_SIZE];
        cr_assert(cli_format_init(&f, rows[i].format, "orders", why) == ERR_OK, "%s", why);
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        const struct client_record record = record_of(rows[i].key, rows[i].value);
        cli_format_print(&f, &record, out);
        (void)fclose(out);
        cr_assert(eq(str, text, (char *)rows[i].wanted), "%s", rows[i].format);
        free(text);
        cli_format_done(&f);
    }
}

/* It stands on the command line. */
Test(cli_format, a_topic_is_only_text)
{
    struct cli_format f;
    char why[CLI_FORMAT_WHY_SIZE];
    cr_assert(cli_format_init(&f, "%t", "t\x1b[2J\n\xc2\x9b", why) == ERR_OK);
    char text[32] = {0};
    FILE *out = fmemopen(text, sizeof(text), "w");
    const struct client_record record = record_of("k", "v");
    cli_format_print(&f, &record, out);
    (void)fclose(out);
    cr_assert(eq(str, text, "t?[2J??"));
    cli_format_done(&f);
}

Test(cli_format, text_for_null)
{
    struct cli_format f;
    char why[CLI_FORMAT_WHY_SIZE];
    cr_assert(cli_format_init(&f, "%k %K %v %S %h", "t", why) == ERR_OK);
    f.null_text = slice_of_string("NULL");
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    const struct client_record record = record_of(NULL, "");
    cli_format_print(&f, &record, out);
    (void)fclose(out);
    cr_assert(eq(str, text, (char *)"NULL -1  0 a=1,b=NULL"));
    free(text);
    cli_format_done(&f);
}

Test(cli_format, sizes_in_four_bytes)
{
    struct cli_format f;
    char why[CLI_FORMAT_WHY_SIZE];
    cr_assert(cli_format_init(&f, "%R%s", "t", why) == ERR_OK);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct client_record record = record_of("k", "ab");
    cli_format_print(&f, &record, out);
    record.value = (struct slice){0};
    cli_format_print(&f, &record, out);
    (void)fclose(out);
    cr_assert(eq(sz, size, 10));
    cr_assert(memcmp(text, "\0\0\0\2ab\xFF\xFF\xFF\xFF", 10) == 0);
    free(text);
    cli_format_done(&f);
}

/* Bytes of a record are printed as they are, zeros included. */
Test(cli_format, bytes_are_not_text)
{
    struct cli_format f;
    char why[CLI_FORMAT_WHY_SIZE];
    cr_assert(cli_format_init(&f, "%v\\0", "t", why) == ERR_OK);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct client_record record = record_of(NULL, NULL);
    record.value = slice_of("a\0b", 3);
    cli_format_print(&f, &record, out);
    (void)fclose(out);
    cr_assert(eq(sz, size, 4));
    cr_assert(memcmp(text, "a\0b\0", 4) == 0);
    free(text);
    cli_format_done(&f);
}

Test(cli_format, what_means_nothing_is_refused)
{
    static const char *const bad[] = {"%", "%q", "\\", "\\q", "\\x", "\\x4", "\\xg1", "%v\\"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cli_format f;
        char why[CLI_FORMAT_WHY_SIZE] = "";
        cr_assert(cli_format_init(&f, bad[i], "t", why) == ERR_INVALID, "%s", bad[i]);
        cr_assert(strstr(why, "means nothing") != NULL);
    }
}
