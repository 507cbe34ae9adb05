#include "core/utf8.h"

#include <string.h>

/* The character of size bytes that starts with lead bits and may not be below min. */
static bool decode(struct slice text, size_t at, size_t size, uint32_t min, uint32_t *ret_code)
{
    if (text.size - at < size) {
        return false;
    }
    uint32_t code = text.data[at] & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        const uint8_t byte = text.data[at + i];
        if ((byte & 0xc0) != 0x80) {
            return false;
        }
        code = code << 6 | (byte & 0x3fU);
    }
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    *ret_code = code;
    return code >= min && code <= 0x10ffff && !is_surrogate;
}

bool utf8_next(struct slice text, size_t *at, uint32_t *ret_code)
{
    if (*at >= text.size) {
        return false;
    }
    static const uint32_t mins[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t lead = text.data[*at];
    size_t size = 0;
    if (lead < 0x80) {
        *ret_code = lead;
        (*at)++;
        return true;
    }
    if (lead >= 0xc0 && lead < 0xf8) {
        size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    }
    if (size > 0 && decode(text, *at, size, mins[size], ret_code)) {
        *at += size;
    } else {
        *ret_code = UTF8_REPLACEMENT;
        (*at)++;
    }
    return true;
}

bool utf8_is_valid(struct slice text)
{
    size_t at = 0;
    size_t before = 0;
    uint32_t code = 0;
    while (utf8_next(text, &at, &code)) {
        if (code == UTF8_REPLACEMENT && at - before == 1) {
            return false; /* The character itself takes three. */
        }
        before = at;
    }
    return true;
}

bool utf8_is_control(uint32_t code)
{
    const bool is_c0_or_c1 = code < ' ' || (code >= 0x7f && code < 0xa0);
    const bool ends_line = code == 0x2028 || code == 0x2029;
    const bool turns_round = code == 0x200e || code == 0x200f ||
                             (code >= 0x202a && code <= 0x202e) ||
                             (code >= 0x2066 && code <= 0x2069);
    return is_c0_or_c1 || ends_line || turns_round;
}

static bool is_printable(uint32_t code, size_t size)
{
    return !utf8_is_control(code) && (code != UTF8_REPLACEMENT || size > 1);
}

bool utf8_is_printable(struct slice text)
{
    size_t at = 0;
    size_t before = 0;
    uint32_t code = 0;
    while (utf8_next(text, &at, &code)) {
        if (!is_printable(code, at - before)) {
            return false;
        }
        before = at;
    }
    return true;
}

void utf8_make_printable(char *text)
{
    const struct slice all = slice_of_string(text);
    size_t at = 0;
    size_t before = 0;
    size_t to = 0;
    uint32_t code = 0;
    while (utf8_next(all, &at, &code)) {
        if (is_printable(code, at - before)) {
            memmove(text + to, text + before, at - before);
            to += at - before;
        } else {
            text[to++] = '?';
        }
        before = at;
    }
    text[to] = '\0';
}

size_t utf8_units16(struct slice text)
{
    size_t units = 0;
    size_t at = 0;
    uint32_t code = 0;
    while (utf8_next(text, &at, &code)) {
        units += code > 0xffff ? 2 : 1;
    }
    return units;
}
