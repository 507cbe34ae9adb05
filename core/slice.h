/* A view of bytes somebody else owns. NULL data with size 0 is the null value of the wire.
 *
 * Shard: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
    const uint8_t *data;
    size_t size;
};

static inline struct slice slice_of(const void *data, size_t size)
{
    return (struct slice){.data = data, .size = size};
}

static inline struct slice slice_of_string(const char *text)
{
    return text == NULL ? (struct slice){0} : slice_of(text, strlen(text));
}

/* Behind its first pos bytes. */
static inline struct slice slice_rest(struct slice s, size_t pos)
{
    return pos == 0 ? s : slice_of(s.data + pos, s.size - pos);
}

static inline bool slice_is_null(struct slice s)
{
    return s.data == NULL;
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_equal_string(struct slice a, const char *text)
{
    return slice_equal(a, slice_of_string(text));
}

/* As memcmp on the common part, then the shorter first. */
static inline int slice_compare(struct slice a, struct slice b)
{
    const size_t common = a.size < b.size ? a.size : b.size;
    const int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

enum {
    SLICE_SHOWN_MAX = 64, /* What messages show of text that clients send. */
};

/* For "%.*s": so much of text as is shown at most. */
static inline int slice_shown(struct slice text, int size_max)
{
    return text.size > (size_t)size_max ? size_max : (int)text.size;
}
