#include "cli/cli_text.h"

#include <stdlib.h>

#include "core/utf8.h"

void cli_vput(FILE *out, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        (void)fputs("(no memory for the text)", out);
        return;
    }
    utf8_make_printable(text);
    (void)fputs(text, out);
    free(text);
}

void cli_put(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_vput(out, format, arguments);
    va_end(arguments);
}

void cli_put_line(FILE *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    cli_vput(out, format, arguments);
    va_end(arguments);
    (void)fputc('\n', out);
}
