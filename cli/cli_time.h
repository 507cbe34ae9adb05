/* Where to read from, as people write it: offsets, dates, "90 minutes ago". And dates as printed.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLI_DATE_SIZE = 32, /* "2026-11-29T19:00:00.123Z" and NUL. */
};

enum cli_where_kind {
    CLI_WHERE_START,
    CLI_WHERE_END,
    CLI_WHERE_OFFSET, /* number */
    CLI_WHERE_LAST,   /* The last number records. */
    CLI_WHERE_TIME,   /* number: ms since 1970. */
};

struct cli_where {
    enum cli_where_kind kind;
    int64_t number;
};

/* start, end, N, -N, @TIME. now_ms: for times that are ago. False: none of these. */
bool cli_where_parse(const char *text, int64_t now_ms, struct cli_where *ret_where);

/* MILLISECONDS since 1970, -N[smhd] (ago), YYYY-MM-DD, YYYY-MM-DDTHH:MM[:SS[.mmm]][Z|+HH:MM]; UTC
 * unless it says otherwise. */
bool cli_time_parse(const char *text, int64_t now_ms, int64_t *ret_ms);

/* N[smhd], with or without a sign: how long. */
bool cli_length_parse(const char *text, int64_t *ret_ms);

/* "850ms", "12s", "2m3s", "5h10m", "3d4h": the two largest units. */
void cli_length_format(int64_t ms, char *ret_text, size_t size);

/* In UTC; negative and far-off times too. */
void cli_time_format(int64_t ms, char ret_text[CLI_DATE_SIZE]);
