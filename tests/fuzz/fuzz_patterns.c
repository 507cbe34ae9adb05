/* Regular expressions of subscriptions: a pattern, a NUL, a name. Whatever they are, memory and
 * steps stay within what topic_pattern.h says, and parentheses around a pattern change nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/ids.h"
#include "groups/topic_pattern.h"

#include "tests/fuzz/fuzz.h"

enum {
    SIZE_MAX_OF_PATTERN = 64 << 10,
};

static bool matches(struct topic_pattern *p, struct slice name)
{
    uint64_t steps = 0;
    const bool is_match = topic_pattern_matches(p, name, &steps);
    assert_cmp(steps, <=, 3 * (uint64_t)TOPIC_PATTERN_STATES_MAX * (name.size + 1));
    return is_match;
}

/* Limits may be passed by the parentheses; and \Q takes them in. */
static void check_wrapped(struct slice text, struct slice name, bool is_match)
{
    if (memmem(text.data, text.size, "\\Q", 2) != NULL || text.size + 4 > TOPIC_PATTERN_SIZE_MAX) {
        return;
    }
    uint8_t *wrapped = malloc(text.size + 4);
    assert(wrapped != NULL);
    memcpy(wrapped, "(?:", 3);
    memcpy(wrapped + 3, text.data, text.size);
    wrapped[text.size + 3] = ')';
    struct topic_pattern *p = NULL;
    const char *why = NULL;
    const enum err e = topic_pattern_new(slice_of(wrapped, text.size + 4), &p, &why);
    assert(e == ERR_OK || strcmp(why, "expression nests too deeply") == 0);
    if (e == ERR_OK) {
        assert_cmp(matches(p, name), ==, is_match);
    }
    topic_pattern_free(p);
    free(wrapped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t text_size = end == NULL ? size : (size_t)(end - data);
    const size_t name_pos = end == NULL ? size : text_size + 1;
    const size_t name_size =
        size - name_pos < TOPIC_NAME_SIZE_MAX ? size - name_pos : TOPIC_NAME_SIZE_MAX;
    const struct slice text = slice_of(text_size > 0 ? (const void *)data : "", text_size);
    const struct slice name =
        slice_of(name_size > 0 ? (const void *)(data + name_pos) : "", name_size);
    struct topic_pattern *p = NULL;
    const char *why = NULL;
    if (topic_pattern_new(text, &p, &why) != ERR_OK) {
        assert(why != NULL);
        return 0;
    }
    assert_cmp(topic_pattern_size(p), <=, SIZE_MAX_OF_PATTERN);
    const bool is_match = matches(p, name);
    assert_cmp(matches(p, name), ==, is_match);
    check_wrapped(text, name, is_match);
    topic_pattern_free(p);
    return 0;
}
