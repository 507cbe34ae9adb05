/* Characters of text from outside, and what is not text. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "core/utf8.h"

static const struct {
    const char *bytes;
    uint32_t codes[4];
    size_t count;
    size_t units16;
    bool is_bad;
} CASES[] = {
    {"", {0}, 0, 0},
    {"a\x7f", {'a', 0x7f}, 2, 2},
    {"\xc3\xa9", {0xe9}, 1, 1},
    {"\xe2\x82\xac", {0x20ac}, 1, 1},
    {"\xf0\x9f\x98\x80", {0x1f600}, 1, 2},
    {"\xf4\x8f\xbf\xbf", {0x10ffff}, 1, 2},
    {"\xef\xbf\xbd", {0xfffd}, 1, 1}, /* The character itself. */
    /* Cut, too long, surrogates, above the last character, stray bytes: U+FFFD for each byte. */
    {"\xe2\x82", {0xfffd, 0xfffd}, 2, 2, true},
    {"\xc0\x80", {0xfffd, 0xfffd}, 2, 2, true},
    {"\xed\xa0\x80", {0xfffd, 0xfffd, 0xfffd}, 3, 3, true},
    {"\xf4\x90\x80\x80", {0xfffd, 0xfffd, 0xfffd, 0xfffd}, 4, 4, true},
    {"\x80z", {0xfffd, 'z'}, 2, 2, true},
    {"\xff", {0xfffd}, 1, 1, true},
};

Test(utf8, characters_and_units)
{
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const struct slice text = slice_of_string(CASES[i].bytes);
        size_t at = 0;
        uint32_t code = 0;
        size_t count = 0;
        while (utf8_next(text, &at, &code)) {
            cr_assert(lt(sz, count, CASES[i].count), "case %zu", i);
            cr_assert(eq(u32, code, CASES[i].codes[count]), "case %zu", i);
            count++;
        }
        cr_assert(eq(sz, count, CASES[i].count), "case %zu", i);
        cr_assert(eq(sz, utf8_units16(text), CASES[i].units16), "case %zu", i);
        cr_assert(eq(int, utf8_is_valid(text), !CASES[i].is_bad), "case %zu", i);
    }
}

/* Whatever comes from outside, a terminal gets one line of text. */
Test(utf8, what_no_terminal_should_get_is_a_question_mark)
{
    static const char *const all[][2] = {
        {"", ""},
        {"a b~\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "a b~\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"a\x1b[2J\n\r\t\x7f", "a?[2J????"},
        {"\xc2\x9b"
         "2J\xc2\x80\xc2\xa0",
         "?2J?\xc2\xa0"}, /* CSI in one character. */
        {"\x9b"
         "2J\xff\xe2\x82",
         "?2J???"},
        {"\xef\xbf\xbd", "\xef\xbf\xbd"},
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa6\xe2\x80\xa8\xe2\x80\x8f.",
         "a?b???."}, /* They turn the line round, or end it. */
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s", all[i][0]);
        utf8_make_printable(text);
        cr_assert(eq(str, text, (char *)all[i][1]), "case %zu", i);
        const bool is_printable = strcmp(all[i][0], all[i][1]) == 0;
        cr_assert(eq(int, utf8_is_printable(slice_of_string(all[i][0])), is_printable), "%zu", i);
    }
}
