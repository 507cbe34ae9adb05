/* Text for people, of which a part may come from outside: names that clients of a broker chose, its
 * messages, names of files. On a terminal it must be nothing but text.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* Prints without line ends: control characters, also those of the format, and what is not UTF-8
 * become question marks. */
[[gnu::format(printf, 2, 3)]] void cli_put(FILE *out, const char *format, ...);
/* The same, and a line end. */
[[gnu::format(printf, 2, 3)]] void cli_put_line(FILE *out, const char *format, ...);
void cli_vput(FILE *out, const char *format, va_list arguments);
