#include "cli/cli_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/utf8.h"

enum {
    COLUMN_GAP = 2,
};

/* Takes the text over. */
static void add_cell(struct cli_table *t, char *text)
{
    if (t->cells_count == t->cells_capacity) {
        const size_t capacity = t->cells_capacity * 2 + 64;
        char **grown = realloc(t->cells, capacity * sizeof(*grown));
        if (grown == NULL) {
            free(text);
            t->has_failed = 1;
            return;
        }
        t->cells = grown;
        t->cells_capacity = capacity;
    }
    t->has_failed |= text == NULL;
    t->cells[t->cells_count++] = text;
}

void cli_table_init(struct cli_table *t, int columns_count, const char *const *heading)
{
    assert_cmp(columns_count, <=, CLI_TABLE_COLUMNS_MAX);
    *t = (struct cli_table){.columns_count = columns_count};
    for (int i = 0; i < columns_count; i++) {
        add_cell(t, strdup(heading[i]));
    }
}

void cli_table_cell(struct cli_table *t, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    va_end(arguments);
    if (text != NULL) {
        utf8_make_printable(text);
    }
    add_cell(t, text);
}

/* Characters, not bytes. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (const char *p = text; *p != '\0'; p++) {
        width += ((unsigned char)*p & 0xC0) != 0x80;
    }
    return width;
}

void cli_table_print(const struct cli_table *t, FILE *out)
{
    if (t->has_failed) {
        (void)fputs("(no memory for the table)\n", out);
        return;
    }
    size_t widths[CLI_TABLE_COLUMNS_MAX] = {0};
    const size_t columns = (size_t)t->columns_count;
    for (size_t i = 0; i < t->cells_count; i++) {
        const size_t width = text_width(t->cells[i]);
        widths[i % columns] = width > widths[i % columns] ? width : widths[i % columns];
    }
    size_t gap = 0; /* Before the next cell that is not empty: lines end with their last. */
    for (size_t i = 0; i < t->cells_count; i++) {
        const size_t width = text_width(t->cells[i]);
        if (width > 0) {
            (void)fprintf(out, "%*s%s", (int)gap, "", t->cells[i]);
            gap = 0;
        }
        gap += widths[i % columns] - width + COLUMN_GAP;
        if (i % columns == columns - 1) {
            (void)fputc('\n', out);
            gap = 0;
        }
    }
}

void cli_table_done(struct cli_table *t)
{
    for (size_t i = 0; i < t->cells_count; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
}
