#include "core/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_cmp_failed(const char *file, int line, const char *text, int64_t a, int64_t b)
{
    (void)fprintf(stderr,
                  "%s:%d: assertion failed: %s (%" PRId64 " against %" PRId64 ")\n",
                  file,
                  line,
                  text,
                  a,
                  b);
    abort();
}

_Noreturn void panic(const char *format, ...)
{
    /* Formatted first, so that the line reaches stderr in one piece even when other threads log. */
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    (void)fprintf(stderr, "panic: %s\n", line);
    abort();
}
