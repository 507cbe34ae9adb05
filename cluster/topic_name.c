#include "cluster/topic_name.h"

#include <stdio.h>

#include "core/assert.h"

enum {
    SHOWN_MAX = 256, /* Of a name that is too long. */
};

static bool is_name_character(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool has_name_characters_only(struct slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (!is_name_character(name.data[i])) {
            return false;
        }
    }
    return true;
}

/* Why not, without the words in front. NULL: it may be. */
static const char *fault_of(struct slice name, const char **ret_before)
{
    *ret_before = "";
    if (slice_equal_string(name, ".") || slice_equal_string(name, "..")) {
        return "is not allowed";
    }
    if (name.size > TOPIC_NAME_SIZE_MAX) {
        *ret_before = "the length of ";
        return "is longer than the max allowed length 249";
    }
    if (!has_name_characters_only(name)) {
        return "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'";
    }
    return NULL;
}

static_assert(TOPIC_NAME_SIZE_MAX == 249, "as the text says");

enum err topic_name_check(struct slice name, char why[TOPIC_NAME_WHY_SIZE])
{
    if (name.size == 0) {
        (void)snprintf(
            why, TOPIC_NAME_WHY_SIZE, "Topic name is invalid: the empty string is not allowed");
        return ERR_TOPIC_NAME_INVALID;
    }
    const char *before;
    const char *fault = fault_of(name, &before);
    if (fault == NULL) {
        return ERR_OK;
    }
    const int shown = slice_shown(name, SHOWN_MAX);
    (void)snprintf(why,
                   TOPIC_NAME_WHY_SIZE,
                   "Topic name is invalid: %s'%.*s%s' %s",
                   before,
                   shown,
                   (const char *)name.data,
                   shown < (int)name.size ? "..." : "",
                   fault);
    return ERR_TOPIC_NAME_INVALID;
}
