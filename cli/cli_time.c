#include "cli/cli_time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli_parse.h"

enum {
    DAY_S = 86400,
    YEAR_MAX = 9999,
};

/* size digits; -1 if they are not. */
static int digits(const char *text, size_t size)
{
    int number = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* Days from 1970-01-01 in the Gregorian calendar; -1 if there is no such day. Dates before are not
 * for records. */
static int64_t days_of(int year, int month, int day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    if (year < 1970 || year > YEAR_MAX || month < 1 || month > 12 || day < 1) {
        return -1;
    }
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int length = before[month] - before[month - 1] + (month == 2 && is_leap);
    if (day > length) {
        return -1;
    }
    const int past = year - 1;
    const int64_t leaps = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    return (int64_t)(year - 1970) * 365 + leaps + before[month - 1] + (month > 2 && is_leap) + day -
           1;
}

/* Z, +HH:MM, -HH:MM or nothing; seconds to take off. */
static bool parse_zone(const char *text, int64_t *ret_seconds)
{
    if (text[0] == '\0' || strcmp(text, "Z") == 0) {
        *ret_seconds = 0;
        return true;
    }
    if ((text[0] != '+' && text[0] != '-') || strlen(text) != 6 || text[3] != ':') {
        return false;
    }
    const int hours = digits(text + 1, 2);
    const int minutes = digits(text + 4, 2);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) {
        return false;
    }
    const int64_t seconds = hours * 3600 + minutes * 60;
    *ret_seconds = text[0] == '+' ? seconds : -seconds;
    return true;
}

/* HH:MM[:SS[.mmm]] and a zone, as milliseconds to add to the day. */
static bool parse_clock(const char *text, int64_t *ret_ms)
{
    if (strlen(text) < 5 || text[2] != ':') {
        return false;
    }
    const int hour = digits(text, 2);
    const int minute = digits(text + 3, 2);
    int second = 0;
    int ms = 0;
    text += 5;
    if (text[0] == ':') {
        second = strlen(text) < 3 ? -1 : digits(text + 1, 2);
        if (second < 0) {
            return false;
        }
        text += 3;
        if (text[0] == '.') {
            ms = strlen(text) < 4 ? -1 : digits(text + 1, 3);
            text += ms < 0 ? 0 : 4;
        }
    }
    int64_t zone_s = 0;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second > 59 || ms < 0 ||
        !parse_zone(text, &zone_s)) {
        return false;
    }
    *ret_ms = ((int64_t)hour * 3600 + minute * 60 + second - zone_s) * 1000 + ms;
    return true;
}

static bool parse_date(const char *text, int64_t *ret_ms)
{
    if (strlen(text) < 10 || text[4] != '-' || text[7] != '-') {
        return false;
    }
    const int64_t days = days_of(digits(text, 4), digits(text + 5, 2), digits(text + 8, 2));
    int64_t clock_ms = 0;
    if (days < 0) {
        return false;
    }
    if (text[10] != '\0' &&
        ((text[10] != 'T' && text[10] != ' ') || !parse_clock(text + 11, &clock_ms))) {
        return false;
    }
    *ret_ms = days * DAY_S * 1000 + clock_ms;
    return true;
}

bool cli_length_parse(const char *text, int64_t *ret_ms)
{
    const bool is_negative = text[0] == '-';
    text += is_negative || text[0] == '+';
    const size_t size = strlen(text);
    if (size < 2 || size > 11) {
        return false;
    }
    int64_t unit_ms = 0;
    switch (text[size - 1]) {
    case 's':
        unit_ms = 1000;
        break;
    case 'm':
        unit_ms = 60 * 1000;
        break;
    case 'h':
        unit_ms = 3600 * 1000;
        break;
    case 'd':
        unit_ms = (int64_t)DAY_S * 1000;
        break;
    default:
        return false;
    }
    int64_t number = 0;
    for (size_t i = 0; i < size - 1; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        number = number * 10 + (text[i] - '0');
    }
    *ret_ms = is_negative ? -number * unit_ms : number * unit_ms;
    return true;
}

/* -90m: so long ago. */
static bool parse_ago(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    int64_t length_ms = 0;
    if (text[0] != '-' || !cli_length_parse(text, &length_ms)) {
        return false;
    }
    *ret_ms = now_ms + length_ms < 0 ? 0 : now_ms + length_ms;
    return true;
}

void cli_length_format(int64_t ms, char *ret_text, size_t size)
{
    static const struct {
        int64_t ms;
        char name;
    } units[] = {{(int64_t)DAY_S * 1000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
    if (ms < 1000) {
        (void)snprintf(ret_text, size, ms == 0 ? "0" : "%" PRId64 "ms", ms);
        return;
    }
    size_t first = 0;
    while (ms < units[first].ms) {
        first++;
    }
    const int64_t rest = first < 3 ? ms % units[first].ms / units[first + 1].ms : 0;
    (void)snprintf(ret_text, size, "%" PRId64 "%c", ms / units[first].ms, units[first].name);
    if (rest > 0) {
        const size_t used = strlen(ret_text);
        (void)snprintf(ret_text + used, size - used, "%" PRId64 "%c", rest, units[first + 1].name);
    }
}

bool cli_time_parse(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    int64_t ms = 0;
    if (cli_parse_number(text, &ms) && ms >= 0) {
        *ret_ms = ms;
        return true;
    }
    return parse_ago(text, now_ms, ret_ms) || parse_date(text, ret_ms);
}

bool cli_where_parse(const char *text, int64_t now_ms, struct cli_where *ret_where)
{
    int64_t number = 0;
    if (strcmp(text, "start") == 0 || strcmp(text, "beginning") == 0) {
        *ret_where = (struct cli_where){.kind = CLI_WHERE_START};
        return true;
    }
    if (strcmp(text, "end") == 0) {
        *ret_where = (struct cli_where){.kind = CLI_WHERE_END};
        return true;
    }
    if (text[0] == '@') {
        if (!cli_time_parse(text + 1, now_ms, &number)) {
            return false;
        }
        *ret_where = (struct cli_where){.kind = CLI_WHERE_TIME, .number = number};
        return true;
    }
    if (!cli_parse_number(text, &number) || number == INT64_MIN) {
        return false;
    }
    *ret_where = text[0] == '-' ? (struct cli_where){CLI_WHERE_LAST, -number}
                                : (struct cli_where){CLI_WHERE_OFFSET, number};
    return true;
}

void cli_time_format(int64_t ms, char ret_text[CLI_DATE_SIZE])
{
    const int64_t below = ms % 1000 < 0 ? ms % 1000 + 1000 : ms % 1000;
    const time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year + 1900 > YEAR_MAX || tm.tm_year + 1900 < 0) {
        (void)snprintf(ret_text, CLI_DATE_SIZE, "%" PRId64 "ms", ms);
        return;
    }
    const size_t size = strftime(ret_text, CLI_DATE_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(ret_text + size, CLI_DATE_SIZE - size, ".%03dZ", (int)below);
}
