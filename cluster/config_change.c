#include "cluster/config_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "core/wbuf.h"

enum {
    JOINED_SIZE_MAX = 2 * (TOPIC_CONFIG_VALUE_SIZE_MAX + 1),
};

void config_list_done(struct config_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        free(list->entries[i].name);
        free(list->entries[i].value);
    }
    free(list->entries);
    *list = (struct config_list){0};
}

void config_list_copy(struct config_list *list,
                      const struct topic_config_entry *entries,
                      uint32_t count)
{
    list->entries = memory_alloc_array(count, sizeof(*list->entries));
    list->count = count;
    for (uint32_t i = 0; i < count; i++) {
        list->entries[i].name = memory_copy_text(slice_of_string(entries[i].name));
        list->entries[i].value = memory_copy_text(slice_of_string(entries[i].value));
    }
}

static uint32_t find(const struct config_list *list, struct slice name)
{
    uint32_t i = 0;
    while (i < list->count && !slice_equal_string(name, list->entries[i].name)) {
        i++;
    }
    return i;
}

static void remove_entry(struct config_list *list, struct slice name)
{
    const uint32_t index = find(list, name);
    if (index == list->count) {
        return;
    }
    free(list->entries[index].name);
    free(list->entries[index].value);
    list->count--;
    memmove(&list->entries[index],
            &list->entries[index + 1],
            (list->count - index) * sizeof(*list->entries));
}

static enum err set_entry(struct config_list *list, const struct config_pair *pair, char *why)
{
    enum err e = topic_config_check(pair, why);
    if (e != ERR_OK) {
        return e;
    }
    const uint32_t index = find(list, pair->name);
    if (index == list->count) {
        list->entries =
            memory_realloc_array(list->entries, list->count + 1, sizeof(*list->entries));
        list->entries[index] = (struct topic_config_entry){.name = memory_copy_text(pair->name)};
        list->count++;
    }
    free(list->entries[index].value);
    list->entries[index].value = memory_copy_text(pair->value);
    return ERR_OK;
}

/* ---- lists ---- */

static void join(struct wbuf *w, struct slice member)
{
    if (w->size > 0) {
        wbuf_bytes(w, ",", 1);
    }
    wbuf_bytes(w, member.data, member.size);
}

/* Adds the members of from that are not in without, nor written yet. */
static void join_members(struct wbuf *w, struct slice from, struct slice without)
{
    struct slice member;
    while (topic_config_next_member(&from, &member)) {
        if (member.size > 0 && !topic_config_has_member(without, member) &&
            !topic_config_has_member(wbuf_slice(w), member)) {
            join(w, member);
        }
    }
}

static enum err
change_members(struct config_list *list, const struct config_change *change, char *why)
{
    const struct topic_config *config = topic_config_by_name(change->name);
    const struct config_pair given = {.name = change->name, .value = change->value};
    enum err e = topic_config_check(&given, why);
    if (e != ERR_OK) {
        return e;
    }
    if (config->type != TOPIC_CONFIG_LIST) {
        (void)snprintf(why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "Can't %s to key %s because its type is not LIST: use SET",
                       change->operation == CONFIG_APPEND ? "APPEND" : "SUBTRACT",
                       config->name);
        return ERR_CONFIG_INVALID;
    }
    const uint32_t index = find(list, change->name);
    const struct slice old =
        slice_of_string(index == list->count ? config->default_value : list->entries[index].value);
    const struct slice none = slice_of_string("");
    struct wbuf joined;
    wbuf_init(&joined, JOINED_SIZE_MAX);
    if (change->operation == CONFIG_APPEND) {
        join_members(&joined, old, none);
        join_members(&joined, change->value, none);
    } else {
        join_members(&joined, old, change->value);
    }
    e = wbuf_failure(&joined);
    if (e == ERR_OK) {
        const struct config_pair pair = {
            .name = change->name,
            .value = joined.size == 0 ? none : wbuf_slice(&joined),
        };
        e = set_entry(list, &pair, why);
    }
    wbuf_done(&joined);
    return e;
}

/* ---- changes ---- */

static enum err change_one(struct config_list *list, const struct config_change *change, char *why)
{
    switch (change->operation) {
    case CONFIG_SET:
        return set_entry(
            list, &(struct config_pair){.name = change->name, .value = change->value}, why);
    case CONFIG_DELETE:
        remove_entry(list, change->name);
        return ERR_OK;
    case CONFIG_APPEND:
    case CONFIG_SUBTRACT:
        return change_members(list, change, why);
    }
    (void)snprintf(why, TOPIC_CONFIG_WHY_SIZE, "Operations are SET, DELETE, APPEND and SUBTRACT.");
    return ERR_CONFIG_INVALID;
}

enum err config_list_change(struct config_list *list,
                            const struct config_changes *changes,
                            char why[TOPIC_CONFIG_WHY_SIZE])
{
    if (changes->is_replacing) {
        config_list_done(list);
    }
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < changes->count && e == ERR_OK; i++) {
        e = change_one(list, &changes->changes[i], why);
    }
    return e;
}
