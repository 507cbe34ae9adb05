/* Goal: patterns mean what RE2/J makes of them, which Kafka uses, and no pattern costs more than
 * the header says. Method: tests/golden/patterns.txt, written by RE2/J; and patterns that are known
 * for what they cost others.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "groups/topic_pattern.h"

enum {
    LINES_MIN = 800, /* Of the golden file, so that an empty one does not pass. */
    NAMES_MAX = 64,
    RESULT_SIZE = 128,
    NAME_SIZE_MAX = 249,
};

static bool matches(struct topic_pattern *p, const char *name)
{
    uint64_t steps = 0;
    return topic_pattern_matches(p, slice_of_string(name), &steps);
}

/* As the golden file has it. The copy ends where its memory does, for sanitizers. */
static void judge(const char *text, char *const *names, char ret[RESULT_SIZE])
{
    const size_t size = strlen(text);
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, text, size);
    struct topic_pattern *p = NULL;
    const char *why = NULL;
    const enum err e = topic_pattern_new(slice_of(copy, size), &p, &why);
    free(copy);
    if (e == ERR_INVALID) {
        (void)snprintf(ret, RESULT_SIZE, "bad: %s", why);
        return;
    }
    cr_assert(eq(int, e, ERR_OK));
    cr_assert(le(sz, topic_pattern_size(p), 64 << 10));
    size_t count = 0;
    for (; names[count] != NULL; count++) {
        ret[count] = matches(p, names[count]) ? '1' : '0';
    }
    ret[count] = 0;
    topic_pattern_free(p);
}

/* RE2/J does not say what a parenthesis without its other half is. */
static const char *reason(const char *result)
{
    const bool is_unsaid = strcmp(result, "bad: regexp/syntax: internal error") == 0;
    return is_unsaid ? "bad: unexpected )" : result;
}

/* "# a b c": cuts it. */
static void split_names(char *line, char *names[NAMES_MAX])
{
    size_t count = 0;
    char *rest = NULL;
    for (char *n = strtok_r(line + 2, " \n", &rest); n != NULL; n = strtok_r(NULL, " \n", &rest)) {
        cr_assert(lt(sz, count + 1, NAMES_MAX));
        names[count++] = n;
    }
    names[count] = NULL;
}

Test(topic_pattern, patterns_are_those_of_re2j)
{
    FILE *file = fopen(GOLDEN_DIR "/patterns.txt", "r");
    cr_assert(ne(ptr, file, NULL));
    char *line = NULL;
    char *names_line = NULL;
    size_t size = 0;
    size_t names_size = 0;
    char *names[NAMES_MAX];
    cr_assert(getline(&line, &size, file) > 0);
    cr_assert(getline(&names_line, &names_size, file) > 0);
    split_names(names_line, names);
    int count = 0;
    while (getline(&line, &size, file) > 0) {
        char *expected = strchr(line, '\t');
        cr_assert(ne(ptr, expected, NULL));
        *expected++ = 0;
        expected[strcspn(expected, "\n")] = 0;
        char result[RESULT_SIZE];
        judge(line, names, result);
        cr_expect(
            strcmp(result, reason(expected)) == 0, "%s: ours %s RE2/J %s", line, result, expected);
        count++;
    }
    cr_assert(le(int, LINES_MIN, count));
    free(line);
    free(names_line);
    (void)fclose(file);
}

/* What RE2/J gets wrong, or takes for an error though RE2 does not. */
Test(topic_pattern, differences_from_re2j)
{
    static const struct {
        const char *pattern;
        const char *name;
        bool is_match;
    } rows[] = {
        {"K|(?:(?i:k)|$)", "k", true}, /* Two cases of one letter become one. */
        {"a{+", "a{{", true},          /* A brace that counts nothing is a letter like others. */
        {"a{+", "a", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct topic_pattern *p = NULL;
        const char *why = NULL;
        cr_assert(eq(int, topic_pattern_new(slice_of_string(rows[i].pattern), &p, &why), ERR_OK));
        cr_assert(eq(int, matches(p, rows[i].name), rows[i].is_match), "%s", rows[i].pattern);
        topic_pattern_free(p);
    }
}

/* ---- cost ---- */

static enum err compile(const char *text, struct topic_pattern **ret_pattern)
{
    const char *why = NULL;
    return topic_pattern_new(slice_of_string(text), ret_pattern, &why);
}

/* Each of these takes a backtracking matcher longer than anybody waits. */
Test(topic_pattern, catastrophic_patterns_stay_under_the_limit)
{
    static const char *const patterns[] = {
        "(a*)*b",
        "(a|aa)+b",
        "(a|a?)+b",
        "((((a*)*)*)*)*b",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b",
        "(a?){500}a{500}",
        "(a?){1000}",
        "([a-z]*){600}b",
        "(.{0,300}.{0,300}.{0,300})b",
        "(x+x+)+y",
        "(\\b|\\B|^|$|a)*b",
    };
    char name[NAME_SIZE_MAX + 1];
    memset(name, 'a', NAME_SIZE_MAX);
    name[NAME_SIZE_MAX] = 0;
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct topic_pattern *p = NULL;
        cr_assert(eq(int, compile(patterns[i], &p), ERR_OK), "%s", patterns[i]);
        uint64_t steps = 0;
        (void)topic_pattern_matches(p, slice_of_string(name), &steps);
        const uint64_t steps_max = 3 * (uint64_t)TOPIC_PATTERN_STATES_MAX * (NAME_SIZE_MAX + 1);
        cr_assert(le(u64, steps, steps_max), "%s", patterns[i]);
        topic_pattern_free(p);
    }
}

Test(topic_pattern, what_would_be_too_large_is_refused)
{
    static char longest[TOPIC_PATTERN_SIZE_MAX + 2];
    memset(longest, '|', TOPIC_PATTERN_SIZE_MAX + 1);
    static char deepest[2 * TOPIC_PATTERN_NESTING_MAX + 3];
    memset(deepest, '(', TOPIC_PATTERN_NESTING_MAX + 1);
    memset(deepest + TOPIC_PATTERN_NESTING_MAX + 1, ')', TOPIC_PATTERN_NESTING_MAX + 1);
    static char stacked[TOPIC_PATTERN_SIZE_MAX + 1];
    stacked[0] = 'a';
    for (size_t i = 1; i + 5 < sizeof(stacked); i += 5) {
        memcpy(stacked + i, "*(?i)", 5);
    }
    static const struct {
        const char *pattern;
        const char *why;
    } rows[] = {
        {longest, "expression too large"},
        {deepest, "expression nests too deeply"},
        {stacked, "expression nests too deeply"},
        {"(a{100}){100}", "expression too large"},
        {"((((((){1000}){1000}){1000}){1000}){1000}){1000}", "expression too large"},
        {"((a{1000}){1000}|b){1000}", "expression too large"},
        {"(a*){1000}{1000}", "invalid nested repetition operator"},
        {"a{1001}", "invalid repeat count"},
        {"a{99999999999999999999}", "invalid repeat count"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct topic_pattern *p = NULL;
        const char *why = "";
        const enum err e = topic_pattern_new(slice_of_string(rows[i].pattern), &p, &why);
        cr_assert(eq(int, e, ERR_INVALID), "%.40s", rows[i].pattern);
        cr_assert(strcmp(why, rows[i].why) == 0, "%.40s: %s", rows[i].pattern, why);
        cr_assert(zero(ptr, p));
    }
}

Test(topic_pattern, the_largest_that_are_not_too_large)
{
    static char letters[2000];
    memset(letters, 'a', sizeof(letters) - 1);
    static char deep[2 * TOPIC_PATTERN_NESTING_MAX + 1];
    memset(deep, '(', TOPIC_PATTERN_NESTING_MAX);
    memset(deep + TOPIC_PATTERN_NESTING_MAX, ')', TOPIC_PATTERN_NESTING_MAX);
    const char *const patterns[] = {letters, deep, "a{1000}"};
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct topic_pattern *p = NULL;
        cr_assert(eq(int, compile(patterns[i], &p), ERR_OK));
        cr_assert(eq(int, matches(p, "a"), 0));
        topic_pattern_free(p);
    }
}

Test(topic_pattern, names_with_bytes_that_no_topic_has)
{
    struct topic_pattern *p = NULL;
    cr_assert(eq(int, compile("[^a]*", &p), ERR_OK));
    uint64_t steps = 0;
    cr_assert(topic_pattern_matches(p, slice_of("\0b", 2), &steps));
    cr_assert(not(topic_pattern_matches(p, slice_of_string("\xc3\xbc"), &steps)));
    cr_assert(topic_pattern_matches(p, slice_of("", 0), &steps));
    topic_pattern_free(p);
    topic_pattern_free(NULL);
}

/* Bytes of chance from what patterns are made of: nothing but an answer. */
Test(topic_pattern, patterns_of_chance)
{
    static const char letters[] = "ab(|)*+?{}1,2[]^-\\pPdDbBQExz:alpha.$iPs<>\xc3\xbc_=!";
    struct rand random;
    rand_init_seed(&random, 1);
    for (int i = 0; i < 20000; i++) {
        char text[40];
        const size_t size = rand_below(&random, sizeof(text));
        for (size_t k = 0; k < size; k++) {
            text[k] = letters[rand_below(&random, sizeof(letters))];
        }
        uint8_t *copy = malloc(size > 0 ? size : 1);
        memcpy(copy, text, size);
        struct topic_pattern *p = NULL;
        const char *why = NULL;
        const enum err e = topic_pattern_new(slice_of(copy, size), &p, &why);
        cr_assert(eq(int, e == ERR_INVALID, why != NULL));
        if (e == ERR_OK) {
            (void)matches(p, "ab-1");
        }
        topic_pattern_free(p);
        free(copy);
    }
}
