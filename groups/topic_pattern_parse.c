/* RE2's syntax, by recursive descent; as deep as parentheses nest, which is bounded. */
#include <string.h>

#include "core/assert.h"
#include "groups/topic_pattern_priv.h"

enum {
    CODE_MAX = 0x10FFFF,
    LONG_S = 0x17F, /* Of these two that are not ASCII, the other case is. */
    KELVIN = 0x212A,
    NUMBER_MAX = 100000000, /* Of a repetition, as far as digits are read. */
};

static const char INVALID_RANGE[] = "invalid character class range";
static const char INVALID_ESCAPE[] = "invalid escape sequence";
static const char INVALID_NAME[] = "invalid named capture";
static const char DUPLICATE_NAME[] = "duplicate capture group name";
static const char INVALID_PERL[] = "invalid or unsupported Perl syntax";
static const char INVALID_REPEAT_OP[] = "invalid nested repetition operator";
static const char INVALID_REPEAT_SIZE[] = "invalid repeat count";
static const char MISSING_BRACKET[] = "missing closing ]";
static const char MISSING_PAREN[] = "missing closing )";
static const char UNEXPECTED_PAREN[] = "unexpected )";
static const char MISSING_ARGUMENT[] = "missing argument to repetition operator";
static const char TRAILING_BACKSLASH[] = "trailing backslash at end of expression";
static const char TOO_LARGE[] = "expression too large";
static const char TOO_DEEP[] = "expression nests too deeply";

struct parser {
    struct pattern_tree *tree;
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    const char *why; /* The first thing that is wrong. */
    int depth;
    bool is_folding; /* (?i) */
    bool is_dot_all; /* (?s) */
};

/* The items of one branch, or the branches of one group. */
struct children {
    uint16_t first;
    uint16_t last;
    uint16_t before_last;
    uint16_t height;
};

static void fail(struct parser *p, const char *why)
{
    if (p->why == NULL) {
        p->why = why;
    }
    p->at = p->end;
}

static bool has_more(const struct parser *p)
{
    return p->at < p->end;
}

static bool is_next(const struct parser *p, const char *text)
{
    const size_t size = strlen(text);
    return (size_t)(p->end - p->at) >= size && memcmp(p->at, text, size) == 0;
}

static bool take(struct parser *p, const char *text)
{
    const bool is_there = is_next(p, text);
    p->at += is_there ? strlen(text) : 0;
    return is_there;
}

/* The next character; what is no UTF-8 counts as one byte that is not ASCII. */
static uint32_t take_code(struct parser *p)
{
    const uint8_t c = *p->at++;
    const int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    uint32_t code = more == 0 ? c : c & (0x3FU >> more);
    for (int i = 0; i < more; i++) {
        if (!has_more(p) || (*p->at & 0xC0) != 0x80) {
            return CODE_MAX;
        }
        code = code << 6 | (*p->at++ & 0x3F);
    }
    return c >= 0x80 && more == 0 ? CODE_MAX : code;
}

/* ---- the tree ---- */

static uint16_t new_node(struct parser *p, enum pattern_node_kind kind)
{
    if (p->tree->nodes_count == PATTERN_NODES_MAX) {
        fail(p, TOO_LARGE);
        return 0;
    }
    const uint16_t node = (uint16_t)p->tree->nodes_count++;
    p->tree->nodes[node] = (struct pattern_node){
        .kind = kind, .child = PATTERN_NONE, .next = PATTERN_NONE, .height = 1};
    return node;
}

static struct children no_children(void)
{
    return (struct children){PATTERN_NONE, PATTERN_NONE, PATTERN_NONE, 0};
}

static void add_child(struct parser *p, struct children *list, uint16_t node)
{
    if (list->first == PATTERN_NONE) {
        list->first = node;
    } else {
        p->tree->nodes[list->last].next = node;
    }
    list->before_last = list->last;
    list->last = node;
    const uint16_t height = p->tree->nodes[node].height;
    list->height = height > list->height ? height : list->height;
}

static uint16_t
new_parent(struct parser *p, enum pattern_node_kind kind, const struct children *list)
{
    const uint16_t node = new_node(p, kind);
    p->tree->nodes[node].child = list->first;
    p->tree->nodes[node].height = (uint16_t)(list->height + 1);
    if (list->height >= PATTERN_HEIGHT_MAX) {
        fail(p, TOO_DEEP);
    }
    return node;
}

static void add_set(struct parser *p, struct children *list, struct pattern_set set)
{
    const uint16_t node = new_node(p, PATTERN_SET);
    p->tree->nodes[node].set = set;
    add_child(p, list, node);
}

/* ---- sets ---- */

static void set_add(struct pattern_set *s, uint32_t first, uint32_t last)
{
    for (uint32_t c = first; c <= last && c < 128; c++) {
        s->bits[c / 64] |= (uint64_t)1 << (c % 64);
    }
}

static void set_add_text(struct pattern_set *s, const char *text)
{
    for (; *text != 0; text++) {
        set_add(s, (uint8_t)*text, (uint8_t)*text);
    }
}

static void set_add_set(struct pattern_set *s, struct pattern_set other)
{
    s->bits[0] |= other.bits[0];
    s->bits[1] |= other.bits[1];
}

static struct pattern_set set_not(struct pattern_set s)
{
    return (struct pattern_set){{~s.bits[0], ~s.bits[1]}};
}

/* Both cases of every letter. Upper and lower ones are 32 apart, in the second half of the bits. */
static struct pattern_set set_folded(struct pattern_set s)
{
    const uint64_t upper = (uint64_t)0x7FFFFFE;
    s.bits[1] |= (s.bits[1] & upper) << 32 | (s.bits[1] >> 32 & upper);
    return s;
}

static void add_range(const struct parser *p, struct pattern_set *s, uint32_t first, uint32_t last)
{
    struct pattern_set range = {0};
    set_add(&range, first, last);
    if (p->is_folding && first <= LONG_S && LONG_S <= last) {
        set_add(&range, 's', 's');
    }
    if (p->is_folding && first <= KELVIN && KELVIN <= last) {
        set_add(&range, 'k', 'k');
    }
    set_add_set(s, p->is_folding ? set_folded(range) : range);
}

struct named_set {
    const char *name;
    const char *ranges; /* Pairs of first and last. */
};

/* \p{...}: categories and some scripts, as far as they are ASCII. */
static const struct named_set UNICODE_SETS[] = {
    {"Any", "\1\177"}, /* NUL is added. */
    {"L", "AZaz"},
    {"Ll", "az"},
    {"Lm", ""},
    {"Lo", ""},
    {"Lt", ""},
    {"Lu", "AZ"},
    {"M", ""},
    {"Mc", ""},
    {"Me", ""},
    {"Mn", ""},
    {"N", "09"},
    {"Nd", "09"},
    {"Nl", ""},
    {"No", ""},
    {"P", "!#%*,/:;?@[]__{{}}"},
    {"Pc", "__"},
    {"Pd", "--"},
    {"Pe", "))]]}}"},
    {"Pf", ""},
    {"Pi", ""},
    {"Po", "!#%'**,,./:;?@\\\\"},
    {"Ps", "(([[{{"},
    {"S", "$$++<>^^``||~~"},
    {"Sc", "$$"},
    {"Sk", "^^``"},
    {"Sm", "++<>||~~"},
    {"So", ""},
    {"Z", "  "},
    {"Zl", ""},
    {"Zp", ""},
    {"Zs", "  "},
    {"C", "\1\37\177\177"},
    {"Cc", "\1\37\177\177"},
    {"Cf", ""},
    {"Co", ""},
    {"Cs", ""},
    {"Latin", "AZaz"},
    {"Common", "\1@[`{\177"},
    {"Arabic", ""},
    {"Cyrillic", ""},
    {"Devanagari", ""},
    {"Greek", ""},
    {"Han", ""},
    {"Hangul", ""},
    {"Hebrew", ""},
    {"Hiragana", ""},
    {"Katakana", ""},
    {"Thai", ""},
};

static const struct named_set POSIX_SETS[] = {
    {"alnum", "09AZaz"},
    {"alpha", "AZaz"},
    {"ascii", "\1\177"},
    {"blank", "\t\t  "},
    {"cntrl", "\1\37\177\177"},
    {"digit", "09"},
    {"graph", "!~"},
    {"lower", "az"},
    {"print", " ~"},
    {"punct", "!/:@[`{~"},
    {"space", "\t\r  "},
    {"upper", "AZ"},
    {"word", "09AZaz__"},
    {"xdigit", "09AFaf"},
};

static bool
find_set(const struct named_set *sets, size_t count, struct slice name, struct pattern_set *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (!slice_equal_string(name, sets[i].name)) {
            continue;
        }
        *ret = (struct pattern_set){0};
        for (const char *r = sets[i].ranges; *r != 0; r += 2) {
            set_add(ret, (uint8_t)r[0], (uint8_t)r[1]);
        }
        if (sets[i].ranges[0] == 1) {
            set_add(ret, 0, 0);
        }
        return true;
    }
    return false;
}

/* \d \D \s \S \w \W, at the backslash. */
static bool take_perl_set(struct parser *p, struct pattern_set *ret)
{
    static const char letters[] = "dDsSwW";
    if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] == 0) {
        return false;
    }
    const char *letter = strchr(letters, p->at[1]);
    if (letter == NULL) {
        return false;
    }
    p->at += 2;
    struct pattern_set s = {0};
    if (*letter == 'd' || *letter == 'D') {
        set_add(&s, '0', '9');
    } else if (*letter == 's' || *letter == 'S') {
        set_add_text(&s, "\t\n\f\r ");
    } else {
        set_add(&s, '0', '9');
        set_add(&s, 'A', 'Z');
        set_add(&s, 'a', 'z');
        set_add(&s, '_', '_');
    }
    const bool is_negated = (letter - letters) % 2 == 1;
    *ret = is_negated ? set_not(s) : s;
    return true;
}

/* \pN \p{Name} \P{^Name}, at the backslash. */
static bool take_unicode_set(struct parser *p, struct pattern_set *ret)
{
    if (!is_next(p, "\\p") && !is_next(p, "\\P")) {
        return false;
    }
    bool is_negated = p->at[1] == 'P';
    p->at += 2;
    if (!has_more(p)) {
        fail(p, INVALID_RANGE);
        return true;
    }
    struct slice name = slice_of(p->at, 1);
    if (*p->at == '{') {
        const uint8_t *close = memchr(p->at, '}', (size_t)(p->end - p->at));
        if (close == NULL) {
            fail(p, INVALID_RANGE);
            return true;
        }
        name = slice_of(p->at + 1, (size_t)(close - p->at - 1));
        p->at = close;
        if (name.size > 0 && name.data[0] == '^') {
            is_negated = !is_negated;
            name = slice_rest(name, 1);
        }
    }
    p->at++;
    struct pattern_set s;
    if (!find_set(UNICODE_SETS, sizeof(UNICODE_SETS) / sizeof(UNICODE_SETS[0]), name, &s)) {
        fail(p, INVALID_RANGE);
        return true;
    }
    s = p->is_folding ? set_folded(s) : s;
    *ret = is_negated ? set_not(s) : s;
    return true;
}

/* ---- escapes ---- */

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const uint8_t lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

/* Behind "\x". */
static uint32_t take_hex(struct parser *p)
{
    uint32_t code = 0;
    if (take(p, "{")) {
        int digits = 0;
        while (has_more(p) && digit_of(*p->at) < 16 && code <= CODE_MAX) {
            code = code * 16 + (uint32_t)digit_of(*p->at++);
            digits++;
        }
        if (digits == 0 || code > CODE_MAX || !take(p, "}")) {
            fail(p, INVALID_ESCAPE);
        }
        return code;
    }
    if (p->end - p->at < 2 || digit_of(p->at[0]) == 16 || digit_of(p->at[1]) == 16) {
        fail(p, INVALID_ESCAPE);
        return 0;
    }
    code = (uint32_t)(digit_of(p->at[0]) * 16 + digit_of(p->at[1]));
    p->at += 2;
    return code;
}

static bool is_octal(const struct parser *p)
{
    return has_more(p) && *p->at >= '0' && *p->at <= '7';
}

static bool is_alphanumeric(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* An escaped character, at the backslash. */
static uint32_t take_escape(struct parser *p)
{
    static const char names[] = "aftnrv";
    static const char codes[] = "\a\f\t\n\r\v";
    p->at++;
    if (!has_more(p)) {
        fail(p, TRAILING_BACKSLASH);
        return 0;
    }
    const uint32_t c = take_code(p);
    if (c == 'x') {
        return take_hex(p);
    }
    if (c == '0' ||
        (c >= '1' && c <= '7' && is_octal(p))) { /* \1 alone would be a back reference. */
        uint32_t code = c - '0';
        for (int i = 0; i < 2 && is_octal(p); i++) {
            code = code * 8 + (uint32_t)(*p->at++ - '0');
        }
        return code;
    }
    const char *name = c < 128 && c != 0 ? strchr(names, (int)c) : NULL;
    if (name != NULL) {
        return (uint8_t)codes[name - names];
    }
    if (is_alphanumeric(c)) {
        fail(p, INVALID_ESCAPE);
    }
    return c;
}

/* ---- classes ---- */

/* [:name:] or [:^name:]. */
static bool take_posix_set(struct parser *p, struct pattern_set *ret)
{
    if (!is_next(p, "[:")) {
        return false;
    }
    const uint8_t *close = p->at + 2;
    while (close + 1 < p->end && (close[0] != ':' || close[1] != ']')) {
        close++;
    }
    if (close + 1 >= p->end) {
        return false;
    }
    struct slice name = slice_of(p->at + 2, (size_t)(close - p->at - 2));
    const bool is_negated = name.size > 0 && name.data[0] == '^';
    if (is_negated) {
        name = slice_rest(name, 1);
    }
    struct pattern_set s;
    if (!find_set(POSIX_SETS, sizeof(POSIX_SETS) / sizeof(POSIX_SETS[0]), name, &s)) {
        fail(p, INVALID_RANGE);
        return true;
    }
    p->at = close + 2;
    s = p->is_folding ? set_folded(s) : s;
    *ret = is_negated ? set_not(s) : s;
    return true;
}

static uint32_t take_class_char(struct parser *p)
{
    if (!has_more(p)) {
        fail(p, MISSING_BRACKET);
        return 0;
    }
    return *p->at == '\\' ? take_escape(p) : take_code(p);
}

static void take_class_range(struct parser *p, struct pattern_set *s)
{
    const uint32_t first = take_class_char(p);
    uint32_t last = first;
    if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
        p->at++;
        last = take_class_char(p);
    }
    if (last < first) {
        fail(p, INVALID_RANGE);
    }
    add_range(p, s, first, last);
}

/* Behind the bracket. */
static struct pattern_set take_class(struct parser *p)
{
    struct pattern_set s = {0};
    const bool is_negated = take(p, "^");
    for (bool is_first = true; is_first || !take(p, "]"); is_first = false) {
        struct pattern_set part = {0};
        if (!has_more(p)) {
            fail(p, MISSING_BRACKET);
            return s;
        }
        if (take_posix_set(p, &part) || take_unicode_set(p, &part) || take_perl_set(p, &part)) {
            set_add_set(&s, part);
        } else {
            take_class_range(p, &s);
        }
    }
    return is_negated ? set_not(s) : s;
}

/* ---- repetitions ---- */

/* False if there is no number. What is too large is NUMBER_MAX. */
static bool take_number(struct parser *p, int *ret)
{
    const uint8_t *from = p->at;
    int number = 0;
    while (has_more(p) && *p->at >= '0' && *p->at <= '9') {
        number = number < NUMBER_MAX / 10 ? number * 10 + (*p->at - '0') : NUMBER_MAX;
        p->at++;
    }
    if (p->at == from || (p->at - from > 1 && *from == '0')) {
        return false;
    }
    *ret = number;
    return true;
}

/* {n} {n,} {n,m}; anything else is no repetition, and nothing is taken. */
static bool take_count(struct parser *p, int *ret_least, int *ret_most)
{
    const uint8_t *from = p->at;
    int least = 0;
    int most = 0;
    bool is_count = take(p, "{") && take_number(p, &least);
    most = least;
    if (is_count && take(p, ",")) {
        most = PATTERN_ENDLESS;
        is_count = is_next(p, "}") || take_number(p, &most);
    }
    if (!is_count || !take(p, "}")) {
        p->at = from;
        return false;
    }
    *ret_least = least;
    *ret_most = most;
    return true;
}

static bool take_repetition(struct parser *p, int *ret_least, int *ret_most)
{
    if (is_next(p, "{")) {
        return take_count(p, ret_least, ret_most);
    }
    static const char ops[] = "*+?";
    const char *op = *p->at != 0 ? strchr(ops, *p->at) : NULL;
    if (op == NULL) {
        return false;
    }
    p->at++;
    *ret_least = *op == '+' ? 1 : 0;
    *ret_most = *op == '?' ? 1 : PATTERN_ENDLESS;
    return true;
}

/* Puts the last of list into a repetition. */
static void repeat_last(struct parser *p, struct children *list, int least, int most)
{
    if (least > TOPIC_PATTERN_REPEAT_MAX || most > TOPIC_PATTERN_REPEAT_MAX ||
        (most != PATTERN_ENDLESS && most < least)) {
        fail(p, INVALID_REPEAT_SIZE);
        return;
    }
    if (list->last == PATTERN_NONE) {
        fail(p, MISSING_ARGUMENT);
        return;
    }
    const uint16_t child = list->last;
    const struct children only = {child, child, PATTERN_NONE, p->tree->nodes[child].height};
    const uint16_t node = new_parent(p, PATTERN_REPEAT, &only);
    p->tree->nodes[node].least = (int16_t)least;
    p->tree->nodes[node].most = (int16_t)most;
    if (list->first == child) {
        list->first = node;
    } else {
        p->tree->nodes[list->before_last].next = node;
    }
    list->last = node;
    const uint16_t height = p->tree->nodes[node].height;
    list->height = height > list->height ? height : list->height;
}

/* ---- groups ---- */

/* Whether a name stands before this one in the pattern. Only reached by names that are right, so
 * "(?P<" or
 * "(?<" before it are the start of one, or literal, which is refused too: nobody writes that. */
static bool is_name_used(const struct parser *p, struct slice name)
{
    for (const uint8_t *c = p->begin; c + name.size + 1 < name.data; c++) {
        if (c[0] == '<' && c > p->begin && (c[-1] == '?' || c[-1] == 'P') &&
            memcmp(c + 1, name.data, name.size) == 0 && c[1 + name.size] == '>') {
            return true;
        }
    }
    return false;
}

/* Behind "(?P<" or "(?<". */
static void take_name(struct parser *p)
{
    const uint8_t *from = p->at;
    while (has_more(p) && (is_alphanumeric(*p->at) || *p->at == '_')) {
        p->at++;
    }
    const struct slice name = slice_of(from, (size_t)(p->at - from));
    if (name.size == 0 || !take(p, ">")) {
        fail(p, INVALID_NAME);
    } else if (is_name_used(p, name)) {
        fail(p, DUPLICATE_NAME);
    }
}

/* Behind "(?": flags up to ":" (true: a group begins) or ")". */
static bool take_flags(struct parser *p)
{
    bool is_negated = false;
    bool has_flag = false;
    while (has_more(p)) {
        const uint8_t c = *p->at++;
        if (c == '-' && !is_negated) {
            is_negated = true;
            has_flag = false;
        } else if ((c == ':' || c == ')') && (!is_negated || has_flag)) {
            return c == ':';
        } else if (c == 'i') {
            p->is_folding = !is_negated;
            has_flag = true;
        } else if (c == 's') {
            p->is_dot_all = !is_negated;
            has_flag = true;
        } else if (c == 'm' || c == 'U') { /* Lines, and what is tried first: no matter here. */
            has_flag = true;
        } else {
            break;
        }
    }
    fail(p, INVALID_PERL);
    return false;
}

static uint16_t take_branches(struct parser *p);

/* Behind "(". Flags alone are no item. */
static void take_group(struct parser *p, struct children *list)
{
    const bool was_folding = p->is_folding;
    const bool was_dot_all = p->is_dot_all;
    if (take(p, "?P<") || take(p, "?<")) {
        take_name(p);
    } else if (take(p, "?") && !take_flags(p)) {
        return;
    }
    if (p->depth == TOPIC_PATTERN_NESTING_MAX) {
        fail(p, TOO_DEEP);
    }
    p->depth++;
    const uint16_t node = take_branches(p);
    p->depth--;
    p->is_folding = was_folding;
    p->is_dot_all = was_dot_all;
    if (!take(p, ")")) {
        fail(p, MISSING_PAREN);
    }
    add_child(p, list, node);
}

/* ---- items ---- */

static void add_code(struct parser *p, struct children *list, uint32_t code)
{
    struct pattern_set s = {0};
    add_range(p, &s, code, code);
    add_set(p, list, s);
}

static void take_quoted(struct parser *p, struct children *list)
{
    while (has_more(p) && !take(p, "\\E")) {
        add_code(p, list, take_code(p));
    }
}

/* At a backslash. */
static void take_backslash(struct parser *p, struct children *list)
{
    static const struct {
        const char *text;
        enum pattern_node_kind kind;
    } places[] = {
        {"\\A", PATTERN_BEGIN},
        {"\\z", PATTERN_END},
        {"\\b", PATTERN_BOUNDARY},
        {"\\B", PATTERN_NOT_BOUNDARY},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (take(p, places[i].text)) {
            add_child(p, list, new_node(p, places[i].kind));
            return;
        }
    }
    struct pattern_set s = {0};
    if (take(p, "\\Q")) {
        take_quoted(p, list);
    } else if (take_unicode_set(p, &s) || take_perl_set(p, &s)) {
        add_set(p, list, s);
    } else {
        add_code(p, list, take_escape(p));
    }
}

static void take_item(struct parser *p, struct children *list)
{
    const uint8_t c = *p->at;
    if (c == '\\') {
        take_backslash(p, list);
        return;
    }
    if (take(p, "(")) {
        take_group(p, list);
    } else if (take(p, "[")) {
        add_set(p, list, take_class(p));
    } else if (take(p, "^")) {
        add_child(p, list, new_node(p, PATTERN_BEGIN));
    } else if (take(p, "$")) {
        add_child(p, list, new_node(p, PATTERN_END));
    } else if (take(p, ".")) {
        struct pattern_set s = {0};
        set_add_text(&s, p->is_dot_all ? "" : "\n");
        add_set(p, list, set_not(s));
    } else {
        add_code(p, list, take_code(p));
    }
}

/* Items one after the other, up to "|", ")" or the end. */
static uint16_t take_branch(struct parser *p)
{
    struct children list = no_children();
    bool was_repetition = false;
    while (has_more(p) && *p->at != '|' && *p->at != ')') {
        int least = 0;
        int most = 0;
        const bool is_repetition = take_repetition(p, &least, &most);
        if (!is_repetition) {
            take_item(p, &list);
        } else if (was_repetition) {
            fail(p, INVALID_REPEAT_OP);
        } else {
            (void)take(p, "?"); /* As few as can be: no matter here. */
            repeat_last(p, &list, least, most);
        }
        was_repetition = is_repetition;
    }
    return new_parent(p, PATTERN_ALL_OF, &list);
}

static uint16_t take_branches(struct parser *p)
{
    struct children list = no_children();
    do {
        add_child(p, &list, take_branch(p));
    } while (take(p, "|"));
    return list.first == list.last ? list.first : new_parent(p, PATTERN_ONE_OF, &list);
}

const char *pattern_parse(struct pattern_tree *tree, struct slice text)
{
    struct parser p = {
        .tree = tree,
        .begin = text.data,
        .at = text.data,
        .end = text.data + text.size,
    };
    if (text.size > TOPIC_PATTERN_SIZE_MAX) {
        return TOO_LARGE;
    }
    tree->nodes_count = 0;
    tree->root = take_branches(&p);
    if (has_more(&p)) {
        fail(&p, UNEXPECTED_PAREN);
    }
    return p.why;
}
