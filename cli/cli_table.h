/* Tables for people: aligned columns, the last one ragged.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdio.h>

enum {
    CLI_TABLE_COLUMNS_MAX = 8,
};

struct cli_table {
    int columns_count;
    char **cells; /* Row by row; the first is the heading. */
    size_t cells_count;
    size_t cells_capacity;
    int has_failed; /* No memory: what is printed says so. */
};

/* heading: one text per column. */
void cli_table_init(struct cli_table *t, int columns_count, const char *const *heading);
/* Cells go in row by row; of each, what is no printable character is shown as a question mark. */
[[gnu::format(printf, 2, 3)]] void cli_table_cell(struct cli_table *t, const char *format, ...);
void cli_table_print(const struct cli_table *t, FILE *out);
void cli_table_done(struct cli_table *t);
