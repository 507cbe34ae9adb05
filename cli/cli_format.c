#include "cli/cli_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_text.h"
#include "cli/cli_time.h"
#include "core/assert.h"

static const char letters[] = "vsktpoTdhSKR";

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape behind its backslash. Returns how many characters it takes; 0: it is none. */
static size_t read_escape(const char *text, char *ret_character)
{
    static const char names[] = "ntr\\0";
    static const char values[] = "\n\t\r\\\0";
    const char *name = text[0] == '\0' ? NULL : strchr(names, text[0]);
    if (name != NULL) {
        *ret_character = values[name - names];
        return 1;
    }
    if (text[0] != 'x') {
        return 0;
    }
    const int high = hex_digit(text[1]);
    const int low = high < 0 ? -1 : hex_digit(text[2]);
    *ret_character = (char)(high * 16 + low);
    return low < 0 ? 0 : 3;
}

/* The escape at text, its backslash included. Returns how many characters it takes; 0 with why. */
static size_t take_escape(const char *text, char *ret_character, char why[CLI_FORMAT_WHY_SIZE])
{
    const size_t taken = read_escape(text + 1, ret_character);
    if (taken == 0) {
        (void)snprintf(why,
                       CLI_FORMAT_WHY_SIZE,
                       "'\\%.1s' means nothing: \\n \\t \\r \\0 \\\\ \\xHH do",
                       text + 1);
        return 0;
    }
    return 1 + taken;
}

enum err
cli_unescape(const char *text, char *ret_bytes, size_t *ret_size, char why[CLI_FORMAT_WHY_SIZE])
{
    size_t size = 0;
    for (const char *p = text; *p != '\0';) {
        const size_t taken = *p == '\\' ? take_escape(p, &ret_bytes[size], why) : 1;
        if (taken == 0) {
            return ERR_INVALID;
        }
        ret_bytes[size] = *p == '\\' ? ret_bytes[size] : *p;
        size++;
        p += taken;
    }
    *ret_size = size;
    return ERR_OK;
}

static void end_literal(struct cli_format *f, size_t *literal_from, size_t at)
{
    if (at > *literal_from) {
        f->parts[f->parts_count++] = (struct cli_format_part){
            .literal = slice_of(f->text + *literal_from, at - *literal_from)};
    }
    *literal_from = at;
}

static enum err take_apart(struct cli_format *f, const char *text, char why[CLI_FORMAT_WHY_SIZE])
{
    size_t size = 0; /* Of f->text so far. */
    size_t literal_from = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\') {
            const size_t taken = take_escape(p, &f->text[size], why);
            if (taken == 0) {
                return ERR_INVALID;
            }
            size++;
            p += taken - 1;
        } else if (*p != '%' || p[1] == '%') {
            f->text[size++] = *p;
            p += *p == '%';
        } else {
            p++;
            if (*p == '\0' || strchr(letters, *p) == NULL) {
                (void)snprintf(
                    why,
                    CLI_FORMAT_WHY_SIZE,
                    "'%%%.1s' means nothing: %%v %%s %%k %%t %%p %%o %%T %%d %%h %%S %%K "
                    "%%R %%%% do",
                    p);
                return ERR_INVALID;
            }
            end_literal(f, &literal_from, size);
            f->parts[f->parts_count++] = (struct cli_format_part){.letter = *p == 's' ? 'v' : *p};
        }
    }
    end_literal(f, &literal_from, size);
    return ERR_OK;
}

enum err cli_format_init(struct cli_format *f,
                         const char *text,
                         const char *topic,
                         char why[CLI_FORMAT_WHY_SIZE])
{
    /* Each part comes from a character of its own, and the text only shrinks. */
    const size_t size = strlen(text) + 1;
    *f = (struct cli_format){.topic = topic};
    f->text = malloc(size);
    f->parts = calloc(size, sizeof(*f->parts));
    enum err e = ERR_BUSY;
    if (f->text == NULL || f->parts == NULL) {
        (void)snprintf(why, CLI_FORMAT_WHY_SIZE, "no memory");
    } else {
        e = take_apart(f, text, why);
    }
    if (e != ERR_OK) {
        cli_format_done(f);
    }
    return e;
}

void cli_format_done(struct cli_format *f)
{
    free(f->text);
    free(f->parts);
    *f = (struct cli_format){0};
}

static void print_slice(struct slice s, FILE *out)
{
    if (s.size > 0) {
        (void)fwrite(s.data, 1, s.size, out);
    }
}

static void print_nullable(const struct cli_format *f, struct slice s, FILE *out)
{
    print_slice(slice_is_null(s) ? f->null_text : s, out);
}

static void print_headers(const struct cli_format *f, const struct client_record *r, FILE *out)
{
    for (size_t i = 0; i < r->headers_count; i++) {
        if (i > 0) {
            (void)fputc(',', out);
        }
        print_slice(r->headers[i].key, out);
        (void)fputc('=', out);
        print_nullable(f, r->headers[i].value, out);
    }
}

static int64_t size_of(struct slice s)
{
    return slice_is_null(s) ? -1 : (int64_t)s.size;
}

/* Big endian, four bytes. */
static void print_binary_size(struct slice s, FILE *out)
{
    const uint32_t size = (uint32_t)size_of(s);
    for (int shift = 24; shift >= 0; shift -= 8) {
        (void)fputc((int)(size >> shift & 0xFF), out);
    }
}

static void
print_part(const struct cli_format *f, char letter, const struct client_record *r, FILE *out)
{
    char date[CLI_DATE_SIZE];
    switch (letter) {
    case 'v':
        print_nullable(f, r->value, out);
        return;
    case 'k':
        print_nullable(f, r->key, out);
        return;
    case 't':
        cli_put(out, "%s", f->topic);
        return;
    case 'p':
        (void)fprintf(out, "%" PRId32, r->partition);
        return;
    case 'o':
        (void)fprintf(out, "%" PRId64, r->offset);
        return;
    case 'T':
        (void)fprintf(out, "%" PRId64, r->timestamp);
        return;
    case 'd':
        cli_time_format(r->timestamp, date);
        (void)fputs(date, out);
        return;
    case 'h':
        print_headers(f, r, out);
        return;
    case 'R':
        print_binary_size(r->value, out);
        return;
    case 'S':
        (void)fprintf(out, "%" PRId64, size_of(r->value));
        return;
    case 'K':
        (void)fprintf(out, "%" PRId64, size_of(r->key));
        return;
    default:
        assert(false && "every letter has its case");
    }
}

void cli_format_print(const struct cli_format *f, const struct client_record *record, FILE *out)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        const struct cli_format_part *part = &f->parts[i];
        if (part->letter == 0) {
            print_slice(part->literal, out);
        } else {
            print_part(f, part->letter, record, out);
        }
    }
}
