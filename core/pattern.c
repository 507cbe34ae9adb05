#include "core/pattern.h"

bool pattern_is_balanced(struct slice pattern)
{
    int depth = 0; /* Of parentheses. */
    bool is_class = false;
    bool is_escaped = false;
    for (size_t i = 0; i < pattern.size && depth >= 0; i++) {
        const char c = (char)pattern.data[i];
        if (is_escaped) {
            is_escaped = false;
            continue;
        }
        is_escaped = c == '\\';
        is_class = is_class ? c != ']' : c == '[';
        depth += is_class ? 0 : (c == '(') - (c == ')');
    }
    return depth == 0 && !is_class && !is_escaped;
}
