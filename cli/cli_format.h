/* How consume prints a record, and how produce reads one: a format string, taken apart once, run
 * for each record. The letters are kcat's, and some of our own.
 *
 * One thread, no shard.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/client.h"
#include "core/slice.h"

enum {
    CLI_FORMAT_WHY_SIZE = 128,
};

struct cli_format_part {
    char letter;          /* Of %letter; 0: literal. %s is kept as %v. */
    struct slice literal; /* In text. */
};

struct cli_format {
    char *text; /* With its escapes carried out. */
    struct cli_format_part *parts;
    size_t parts_count;
    const char *topic;
    struct slice null_text; /* What stands for a null key or value. Null: nothing does. */
};

/* Carries out the escapes of formats in text that has no letters: -K '\t'. *ret_size bytes, at most
 * as many as text has. ERR_INVALID with why. */
enum err
cli_unescape(const char *text, char *ret_bytes, size_t *ret_size, char why[CLI_FORMAT_WHY_SIZE]);

/* topic, and null_text, which the caller may set behind this, must outlive it. ERR_INVALID with why
 * for what is not a format; ERR_BUSY. */
enum err cli_format_init(struct cli_format *f,
                         const char *text,
                         const char *topic,
                         char why[CLI_FORMAT_WHY_SIZE]);
void cli_format_done(struct cli_format *f);

void cli_format_print(const struct cli_format *f, const struct client_record *record, FILE *out);
