#include "cli/cli_format_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_input.h"
#include "cli/cli_parse.h"
#include "cli/cli_time.h"
#include "core/assert.h"

enum {
    NUMBER_TEXT_SIZE = 64,
    SHOWN_MAX = 20, /* Characters of the input that an error repeats. */
};

[[gnu::format(printf, 2, 3)]] static enum err
refuse(struct cli_format_reader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(r->why, sizeof(r->why), format, arguments);
    va_end(arguments);
    return ERR_INVALID;
}

/* ---- what can be read ---- */

static bool has_letter_before(const struct cli_format *f, size_t index, const char *letters)
{
    for (size_t i = 0; i < index; i++) {
        if (f->parts[i].letter != 0 && strchr(letters, f->parts[i].letter) != NULL) {
            return true;
        }
    }
    return false;
}

/* Its end is known without text behind it. */
static bool is_sized(const struct cli_format *f, size_t index)
{
    switch (f->parts[index].letter) {
    case 'R':
        return true;
    case 'k':
        return has_letter_before(f, index, "K");
    case 'v':
        return has_letter_before(f, index, "SR");
    default:
        return false;
    }
}

static enum err check_part(struct cli_format_reader *r, size_t index)
{
    /* Letters of which a record takes one. */
    static const char *const kinds[] = {"v", "k", "K", "SR", "Td", "h", "p", "o", "t"};
    const struct cli_format *f = r->format;
    const char letter = f->parts[index].letter;
    if (letter == 0) {
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strchr(kinds[i], letter) != NULL && has_letter_before(f, index, kinds[i])) {
            return refuse(r, "'%%%c' says what was said before: leave it out", letter);
        }
    }
    if ((letter == 'K' && has_letter_before(f, index, "k")) ||
        (strchr("SR", letter) != NULL && has_letter_before(f, index, "v"))) {
        return refuse(r, "'%%%c' has to stand before what it is the size of", letter);
    }
    const bool is_followed = index + 1 < f->parts_count && f->parts[index + 1].letter == 0;
    if (is_sized(f, index) || is_followed) {
        return ERR_OK;
    }
    return refuse(r,
                  "nothing tells where '%%%c' ends: put text behind it, such as \\n%s",
                  letter,
                  letter == 'k'   ? ", or %K before it"
                  : letter == 'v' ? ", or %S before it"
                                  : "");
}

enum err cli_format_reader_init(struct cli_format_reader *r, const struct cli_format *f)
{
    *r = (struct cli_format_reader){.format = f};
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < f->parts_count; i++) {
        e = check_part(r, i);
    }
    if (e == ERR_OK && !has_letter_before(f, f->parts_count, "v")) {
        e = refuse(r, "'%%v' is missing: a record needs a value");
    }
    return e;
}

void cli_format_reader_done(struct cli_format_reader *r)
{
    free(r->headers);
    r->headers = NULL;
}

/* ---- reading ---- */

enum {
    SIZE_NONE = -2, /* Not said. */
    SIZE_NULL = -1,
};

struct reading {
    struct cli_format_reader *r;
    struct slice bytes;
    size_t pos;
    bool is_all;
    int64_t key_size;
    int64_t value_size;
    struct client_message message;
};

static struct slice rest_of(const struct reading *x)
{
    return slice_rest(x->bytes, x->pos);
}

/* Not enough is there: wait, or nothing more can come. */
static enum err want_more(struct reading *x)
{
    return x->is_all ? refuse(x->r, "the input ends in the middle of a record") : ERR_EOF;
}

static enum err skip_text(struct reading *x, struct slice text, bool is_last)
{
    const struct slice rest = rest_of(x);
    const size_t size = rest.size < text.size ? rest.size : text.size;
    if (size > 0 && memcmp(rest.data, text.data, size) != 0) {
        return refuse(x->r,
                      "'%.*s' should stand where '%.*s' does",
                      (int)(text.size < SHOWN_MAX ? text.size : SHOWN_MAX),
                      (const char *)text.data,
                      (int)size,
                      (const char *)rest.data);
    }
    if (size < text.size && !(x->is_all && is_last && size == 0)) {
        return want_more(x);
    }
    x->pos += size;
    return ERR_OK;
}

/* SIZE_MAX: not there. */
static size_t find(struct slice in, struct slice text)
{
    const uint8_t *found = memmem(in.data, in.size, text.data, text.size);
    return found == NULL ? SIZE_MAX : (size_t)(found - in.data);
}

/* Up to the text behind the part. */
static enum err read_text(struct reading *x, size_t index, struct slice *ret_text)
{
    const struct cli_format *f = x->r->format;
    const struct cli_format_part *last = &f->parts[f->parts_count - 1];
    const struct slice behind = f->parts[index + 1].literal;
    struct slice rest = rest_of(x);
    const size_t end = last->letter == 0 ? find(rest, last->literal) : SIZE_MAX;
    size_t size = end;
    if (index + 2 < f->parts_count) {
        /* Behind the start of the end text it cannot begin. */
        const size_t left = end == SIZE_MAX ? 0 : rest.size - end;
        const bool is_past = end != SIZE_MAX && (x->is_all || left >= behind.size);
        size = find(is_past && left > behind.size ? slice_of(rest.data, end + behind.size) : rest,
                    behind);
        if (size == SIZE_MAX && is_past) {
            return refuse(x->r,
                          "there is no '%.*s' behind '%%%c'",
                          (int)(behind.size < SHOWN_MAX ? behind.size : SHOWN_MAX),
                          (const char *)behind.data,
                          f->parts[index].letter);
        }
    } else if (size == SIZE_MAX && x->is_all) {
        size = rest.size;
    }
    if (size == SIZE_MAX) {
        return want_more(x);
    }
    *ret_text = slice_of(rest.data, size);
    x->pos += size;
    return ERR_OK;
}

static enum err read_sized(struct reading *x, int64_t size, struct slice *ret_bytes)
{
    if (size == SIZE_NULL) {
        *ret_bytes = (struct slice){0};
        return skip_text(x, x->r->format->null_text, false);
    }
    if (rest_of(x).size < (size_t)size) {
        return want_more(x);
    }
    *ret_bytes = slice_of(rest_of(x).data, (size_t)size);
    x->pos += (size_t)size;
    return ERR_OK;
}

/* A key or a value. */
static enum err read_bytes(struct reading *x, size_t index, int64_t size, struct slice *ret_bytes)
{
    if (size != SIZE_NONE) {
        return read_sized(x, size, ret_bytes);
    }
    const struct slice null_text = x->r->format->null_text;
    enum err e = read_text(x, index, ret_bytes);
    if (e == ERR_OK && !slice_is_null(null_text) && slice_equal(*ret_bytes, null_text)) {
        *ret_bytes = (struct slice){0};
    }
    return e;
}

/* A number, or with %d a date. */
static enum err read_number(struct reading *x, size_t index, int64_t max, int64_t *ret_number)
{
    const char letter = x->r->format->parts[index].letter;
    struct slice text = {0};
    enum err e = read_text(x, index, &text);
    if (e != ERR_OK) {
        return e;
    }
    char copy[NUMBER_TEXT_SIZE];
    int64_t number = 0;
    (void)snprintf(copy,
                   sizeof(copy),
                   "%.*s",
                   (int)(text.size < sizeof(copy) ? text.size : sizeof(copy)),
                   (const char *)text.data);
    const bool is_whole = strlen(copy) == text.size;
    const bool is_number =
        letter == 'd' ? cli_time_parse(copy, 0, &number) : cli_parse_number(copy, &number);
    if (!is_whole || !is_number || number < -1 || number > max) {
        return refuse(
            x->r, "'%.20s' is no %s for '%%%c'", copy, letter == 'd' ? "date" : "number", letter);
    }
    *ret_number = number;
    return ERR_OK;
}

static enum err read_binary_size(struct reading *x)
{
    const struct slice rest = rest_of(x);
    if (rest.size < 4) {
        return want_more(x);
    }
    const int32_t size = (int32_t)((uint32_t)rest.data[0] << 24 | (uint32_t)rest.data[1] << 16 |
                                   (uint32_t)rest.data[2] << 8 | (uint32_t)rest.data[3]);
    if (size < SIZE_NULL || size > CLI_INPUT_PIECE_MAX) {
        return refuse(x->r, "%" PRId32 " is no size for '%%R'", size);
    }
    x->value_size = size;
    x->pos += 4;
    return ERR_OK;
}

static enum err add_header(struct reading *x, struct slice text)
{
    struct cli_format_reader *r = x->r;
    struct client_message *m = &x->message;
    if (m->headers_count == r->headers_capacity) {
        const size_t capacity = r->headers_capacity * 2 + 8;
        struct client_header *grown = realloc(r->headers, capacity * sizeof(*grown));
        if (grown == NULL) {
            return ERR_BUSY;
        }
        r->headers = grown;
        r->headers_capacity = capacity;
    }
    const size_t equals = find(text, slice_of_string("="));
    const size_t name_size = equals == SIZE_MAX ? text.size : equals;
    struct slice value = {0};
    if (equals != SIZE_MAX) {
        value = slice_rest(text, equals + 1);
    }
    const struct slice null_text = r->format->null_text;
    if (!slice_is_null(null_text) && slice_equal(value, null_text)) {
        value = (struct slice){0};
    }
    r->headers[m->headers_count++] =
        (struct client_header){.key = slice_of(text.data, name_size), .value = value};
    return ERR_OK;
}

/* NAME=VALUE,...; NAME alone has no value. */
static enum err read_headers(struct reading *x, size_t index)
{
    struct slice text = {0};
    enum err e = read_text(x, index, &text);
    while (e == ERR_OK && text.size > 0) {
        const size_t comma = find(text, slice_of_string(","));
        const size_t size = comma == SIZE_MAX ? text.size : comma;
        const size_t taken = comma == SIZE_MAX ? size : size + 1;
        e = add_header(x, slice_of(text.data, size));
        text = slice_rest(text, taken);
    }
    x->message.headers = x->r->headers;
    return e;
}

static enum err read_letter(struct reading *x, size_t index)
{
    struct client_message *m = &x->message;
    int64_t number = -1;
    struct slice skipped;
    enum err e = ERR_OK;
    switch (x->r->format->parts[index].letter) {
    case 'v':
        return read_bytes(x, index, x->value_size, &m->value);
    case 'k':
        return read_bytes(x, index, x->key_size, &m->key);
    case 'K':
        return read_number(x, index, CLI_INPUT_PIECE_MAX, &x->key_size);
    case 'S':
        return read_number(x, index, CLI_INPUT_PIECE_MAX, &x->value_size);
    case 'R':
        return read_binary_size(x);
    case 'T':
    case 'd':
        m->has_timestamp = true;
        return read_number(x, index, INT64_MAX, &m->timestamp);
    case 'h':
        return read_headers(x, index);
    case 'p':
        e = read_number(x, index, INT32_MAX, &number);
        m->partition = (int32_t)number;
        return e;
    case 't':
    case 'o':
        return read_text(x, index, &skipped);
    default:
        assert(false && "every letter has its case");
        return ERR_INVALID;
    }
}

enum err cli_format_read(struct cli_format_reader *r,
                         struct slice bytes,
                         bool is_all,
                         struct client_message *ret_message,
                         size_t *ret_size)
{
    const struct cli_format *f = r->format;
    struct reading x = {
        .r = r,
        .bytes = bytes,
        .is_all = is_all,
        .key_size = SIZE_NONE,
        .value_size = SIZE_NONE,
        .message = {.partition = -1},
    };
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < f->parts_count; i++) {
        const struct cli_format_part *part = &f->parts[i];
        e = part->letter == 0 ? skip_text(&x, part->literal, i + 1 == f->parts_count)
                              : read_letter(&x, i);
    }
    if (e == ERR_OK) {
        *ret_message = x.message;
        *ret_size = x.pos;
    }
    return e;
}
