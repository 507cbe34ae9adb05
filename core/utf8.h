/* Characters of UTF-8 text from outside. Bytes that are not UTF-8 count as U+FFFD, one each.
 *
 * Shard: any; pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"

enum {
    UTF8_REPLACEMENT = 0xfffd,
};

/* The character at *at, which moves behind it; false at the end. */
bool utf8_next(struct slice text, size_t *at, uint32_t *ret_code);

bool utf8_is_valid(struct slice text);

/* C0, DEL, C1, what ends a line or turns its direction round: it moves a terminal's cursor, or
 * more. */
bool utf8_is_control(uint32_t code);

/* Nothing that utf8_make_printable would replace. */
bool utf8_is_printable(struct slice text);

/* For a terminal, in place: each control character, and each byte that is not UTF-8, becomes a
 * question mark. */
void utf8_make_printable(char *text);

/* How many 16-bit units the text takes in UTF-16, as Java counts. */
size_t utf8_units16(struct slice text);
