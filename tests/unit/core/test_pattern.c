#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/pattern.h"

Test(pattern, halves_need_each_other)
{
    static const struct {
        const char *text;
        bool is_balanced;
    } rows[] = {
        {"", true},
        {".*", true},
        {"a(b|c)*[x-z]", true},
        {"\\(", true},
        {"[(]", true},
        {"[\\]]", true},
        {"(", false},
        {")", false},
        {")(", false},
        {"[a", false},
        {"a\\", false},
        {"(()", false},
        {"[(", false},
        {"a]", true},
        {"((a)[)])", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool is_balanced = pattern_is_balanced(slice_of_string(rows[i].text));
        cr_assert(eq(int, is_balanced, rows[i].is_balanced), "%s", rows[i].text);
    }
}
