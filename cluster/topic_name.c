#include "cluster/topic_name.h"

#include <stdio.h>

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

enum err topic_name_check(struct slice name, char why[TOPIC_NAME_WHY_SIZE])
{
    if (name.size == 0) {
        (void)snprintf(
            why, TOPIC_NAME_WHY_SIZE, "Topic name is invalid: the empty string is not allowed");
        return ERR_TOPIC_NAME_INVALID;
    }
    if (slice_equal_string(name, ".") || slice_equal_string(name, "..")) {
        (void)snprintf(
            why, TOPIC_NAME_WHY_SIZE, "Topic name is invalid: '.' or '..' is not allowed");
        return ERR_TOPIC_NAME_INVALID;
    }
    if (name.size > TOPIC_NAME_SIZE_MAX) {
        (void)snprintf(why,
                       TOPIC_NAME_WHY_SIZE,
                       "Topic name is invalid: the length is %zu, the max allowed length is %d",
                       name.size,
                       TOPIC_NAME_SIZE_MAX);
        return ERR_TOPIC_NAME_INVALID;
    }
    if (!has_name_characters_only(name)) {
        (void)snprintf(why,
                       TOPIC_NAME_WHY_SIZE,
                       "Topic name is invalid: it contains one or more characters other than "
                       "ASCII alphanumerics, '.', '_' and '-'");
        return ERR_TOPIC_NAME_INVALID;
    }
    return ERR_OK;
}
