/* Offsets and times as people write them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cli/cli_time.h"

static const int64_t NOW_MS = 1700000000000; /* 2023-11-14T22:13:20Z */

struct time_row {
    const char *text;
    int64_t ms; /* -1: not a time. */
};

static const struct time_row time_rows[] = {
    {"0", 0},
    {"1700000000123", 1700000000123},
    {"1970-01-01", 0},
    {"1970-01-02", 86400000},
    {"2000-02-29", 951782400000},
    {"2000-03-01", 951868800000},
    {"2100-03-01", 4107542400000},
    {"2023-11-14", 1699920000000},
    {"2023-11-14T22:13:20Z", NOW_MS},
    {"2023-11-14T22:13:20", NOW_MS},
    {"2023-11-14 22:13:20", NOW_MS},
    {"2023-11-14T22:13:20.123Z", NOW_MS + 123},
    {"2023-11-14T22:13Z", NOW_MS - 20000},
    {"2023-11-14T23:13:20+01:00", NOW_MS},
    {"2023-11-14T17:43:20-04:30", NOW_MS},
    {"-1s", NOW_MS - 1000},
    {"-90m", NOW_MS - 5400000},
    {"-2h", NOW_MS - 7200000},
    {"-1d", NOW_MS - 86400000},
    {"-999999999d", 0},
    {"", -1},
    {"-", -1},
    {"-1", -1},
    {"-1w", -1},
    {"-xs", -1},
    {"1h", -1},
    {"yesterday", -1},
    {"2023-02-29", -1},
    {"2100-02-29", -1},
    {"2023-13-01", -1},
    {"2023-00-01", -1},
    {"2023-01-00", -1},
    {"2023-04-31", -1},
    {"1969-12-31", -1},
    {"2023-11-14T24:00", -1},
    {"2023-11-14T22:60", -1},
    {"2023-11-14T22:13:60", -1},
    {"2023-11-14T22:13:2", -1},
    {"2023-11-14T22:13:20.", -1},
    {"2023-11-14T22:13:20.1", -1},
    {"2023-11-14T22:13:20z", -1},
    {"2023-11-14T22:13:20+1", -1},
    {"2023-11-14T22:13:20+25:00", -1},
    {"2023-11-14T", -1},
    {"2023-11-14X22:13", -1},
    {"2023/11/14", -1},
};

Test(cli_time, times)
{
    for (size_t i = 0; i < sizeof(time_rows) / sizeof(time_rows[0]); i++) {
        int64_t ms = -1;
        const bool is_ok = cli_time_parse(time_rows[i].text, NOW_MS, &ms);
        cr_assert(eq(int, is_ok, time_rows[i].ms >= 0), "%s", time_rows[i].text);
        cr_assert(eq(i64, ms, time_rows[i].ms), "%s", time_rows[i].text);
    }
}

struct where_row {
    const char *text;
    bool is_ok;
    struct cli_where where;
};

static const struct where_row where_rows[] = {
    {"start", true, {CLI_WHERE_START, 0}},
    {"beginning", true, {CLI_WHERE_START, 0}},
    {"end", true, {CLI_WHERE_END, 0}},
    {"0", true, {CLI_WHERE_OFFSET, 0}},
    {"9223372036854775807", true, {CLI_WHERE_OFFSET, INT64_MAX}},
    {"-5", true, {CLI_WHERE_LAST, 5}},
    {"@1000", true, {CLI_WHERE_TIME, 1000}},
    {"@1970-01-02", true, {CLI_WHERE_TIME, 86400000}},
    {"9223372036854775808", false, {0}},
    {"-9223372036854775808", false, {0}},
    {"", false, {0}},
    {"@", false, {0}},
    {"@-5", false, {0}},
    {"5x", false, {0}},
    {"Start", false, {0}},
    {"latest", false, {0}},
};

Test(cli_time, places)
{
    for (size_t i = 0; i < sizeof(where_rows) / sizeof(where_rows[0]); i++) {
        const struct where_row *row = &where_rows[i];
        struct cli_where where = {0};
        const bool is_ok = cli_where_parse(row->text, NOW_MS, &where);
        cr_assert(eq(int, is_ok, row->is_ok), "%s", row->text);
        cr_assert(eq(int, (int)where.kind, (int)row->where.kind), "%s", row->text);
        cr_assert(eq(i64, where.number, row->where.number), "%s", row->text);
    }
}

/* What is printed is read back as the same time. */
Test(cli_time, dates_there_and_back)
{
    static const int64_t times[] = {0, 1, 999, 951782400000, 1700000000123, 253402300799999};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        char text[CLI_DATE_SIZE];
        int64_t ms = -1;
        cli_time_format(times[i], text);
        cr_assert(cli_time_parse(text, NOW_MS, &ms), "%s", text);
        cr_assert(eq(i64, ms, times[i]), "%s", text);
    }
}

/* Timestamps come from clients: any 64 bits. */
Test(cli_time, absurd_times_are_printed_somehow)
{
    static const int64_t times[] = {INT64_MIN, -1, INT64_MAX, 253402300800000};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        char text[CLI_DATE_SIZE] = "";
        cli_time_format(times[i], text);
        cr_assert(ne(int, text[0], 0));
    }
}

Test(cli_time, lengths_are_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"0s", 0},
        {"90s", 90000},
        {"+90s", 90000},
        {"-2m", -120000},
        {"3h", 10800000},
        {"-7d", -604800000},
    };
    static const char *const bad[] = {
        "", "s", "-", "-s", "90", "1.5h", "1w", "--1s", "12345678901s"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = -1;
        cr_assert(cli_length_parse(good[i].text, &ms), "%s", good[i].text);
        cr_assert(eq(i64, ms, good[i].ms), "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t ms = 7;
        cr_assert(not(cli_length_parse(bad[i], &ms)), "%s", bad[i]);
        cr_assert(eq(i64, ms, 7));
    }
}

Test(cli_time, lengths_are_printed)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0"},
        {1, "1ms"},
        {999, "999ms"},
        {1000, "1s"},
        {59999, "59s"},
        {60000, "1m"},
        {123456, "2m3s"},
        {3600000, "1h"},
        {36000000, "10h"},
        {3661000, "1h1m"},
        {90000000, "1d1h"},
        {INT64_MAX, "106751991167d7h"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        cli_length_format(rows[i].ms, text, sizeof(text));
        cr_assert(strcmp(text, rows[i].text) == 0, "%s, not %s", text, rows[i].text);
    }
}
