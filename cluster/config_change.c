#include "cluster/config_change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/memory.h"
#include "core/wbuf.h"

enum {
    JOINED_SIZE_MAX = 2 * (TOPIC_CONFIG_VALUE_SIZE_MAX + 1),
    CONFIGS_MAX = 256, /* Of one resource: brokers take names that nobody knows. */
};

struct who {
    enum config_resource kind;
    char *why;
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

bool config_list_equal(const struct config_list *list,
                       const struct topic_config_entry *entries,
                       uint32_t count)
{
    bool is_equal = list->count == count;
    for (uint32_t i = 0; i < count && is_equal; i++) {
        const uint32_t at = find(list, slice_of_string(entries[i].name));
        is_equal = at < count && strcmp(list->entries[at].value, entries[i].value) == 0;
    }
    return is_equal;
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

static enum err
set_entry(struct config_list *list, const struct config_pair *pair, const struct who *who)
{
    enum err e = config_spec_check(who->kind, pair, who->why);
    if (e != ERR_OK) {
        return e;
    }
    const uint32_t index = find(list, pair->name);
    if (index == list->count) {
        if (list->count == CONFIGS_MAX) {
            (void)snprintf(who->why,
                           TOPIC_CONFIG_WHY_SIZE,
                           "More than %d configurations for one resource.",
                           CONFIGS_MAX);
            return ERR_INVALID;
        }
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

struct member {
    struct slice text;
    uint32_t place;  /* In the list, and before that of what is appended. */
    bool is_dropped; /* It was there before, or is subtracted. */
};

/* Members by their text, the same ones by their place. */
static int compare_text(const void *a, const void *b)
{
    const struct member *left = a;
    const struct member *right = b;
    const int order = slice_compare(left->text, right->text);
    return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

static int compare_place(const void *a, const void *b)
{
    const struct member *left = a;
    const struct member *right = b;
    return (left->place > right->place) - (left->place < right->place);
}

static uint32_t count_commas(struct slice text)
{
    uint32_t count = 0;
    for (size_t i = 0; i < text.size; i++) {
        count += text.data[i] == ',';
    }
    return count;
}

static uint32_t split(struct slice list, struct member *members, uint32_t count)
{
    struct slice text;
    while (topic_config_next_member(&list, &text)) {
        if (text.size > 0) {
            members[count] = (struct member){.text = text, .place = count};
            count++;
        }
    }
    return count;
}

/* Of the members that are the same only the first stays, and with the last of them at or behind
 * dropped_from none. */
static void drop_repeated(struct member *members, uint32_t count, uint32_t dropped_from)
{
    qsort(members, count, sizeof(*members), compare_text);
    uint32_t first = 0;
    for (uint32_t i = 1; i <= count; i++) {
        if (i < count && slice_equal(members[i].text, members[first].text)) {
            members[i].is_dropped = true;
            continue;
        }
        members[first].is_dropped = members[i - 1].place >= dropped_from;
        first = i;
    }
    qsort(members, count, sizeof(*members), compare_place);
}

/* old with the members of given, or without them. In the time of sorting: both may be thousands. */
static void
join(struct wbuf *w, struct slice old, struct slice given, enum config_operation operation)
{
    struct member *members =
        memory_alloc_array(count_commas(old) + count_commas(given) + 2, sizeof(*members));
    const uint32_t old_count = split(old, members, 0);
    const uint32_t count = split(given, members, old_count);
    drop_repeated(members, count, operation == CONFIG_SUBTRACT ? old_count : count);
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].is_dropped) {
            if (w->size > 0) {
                wbuf_bytes(w, ",", 1);
            }
            wbuf_bytes(w, members[i].text.data, members[i].text.size);
        }
    }
    free(members);
}

static enum err refuse_members(const struct config_change *change, const struct who *who)
{
    const bool is_append = change->operation == CONFIG_APPEND;
    const int size = slice_shown(change->name, SLICE_SHOWN_MAX);
    const char *name = size == 0 ? "" : (const char *)change->name.data;
    if (who->kind == CONFIG_RESOURCE_BROKER) {
        (void)snprintf(who->why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "Config value %s is not allowed for config key: %.*s",
                       is_append ? "append" : "subtract",
                       size,
                       name);
    } else {
        (void)snprintf(who->why,
                       TOPIC_CONFIG_WHY_SIZE,
                       "Can't %s to key %.*s because its type is not LIST.",
                       is_append ? "APPEND" : "SUBTRACT",
                       size,
                       name);
    }
    return ERR_CONFIG_INVALID;
}

static enum err
change_members(struct config_list *list, const struct config_change *change, const struct who *who)
{
    struct topic_config spec;
    if (!config_spec_find(who->kind, change->name, &spec) || spec.type != TOPIC_CONFIG_LIST) {
        return refuse_members(change, who);
    }
    const struct config_pair given = {.name = change->name, .value = change->value};
    enum err e = config_spec_check(who->kind, &given, who->why);
    if (e != ERR_OK) {
        return e;
    }
    const uint32_t index = find(list, change->name);
    const struct slice old =
        slice_of_string(index == list->count ? spec.default_value : list->entries[index].value);
    struct wbuf joined;
    wbuf_init(&joined, JOINED_SIZE_MAX);
    join(&joined, old, change->value, change->operation);
    e = wbuf_failure(&joined);
    if (e == ERR_OK) {
        const struct config_pair pair = {
            .name = change->name,
            .value = joined.size == 0 ? slice_of_string("") : wbuf_slice(&joined),
        };
        e = set_entry(list, &pair, who);
    }
    wbuf_done(&joined);
    return e;
}

/* ---- changes ---- */

static enum err
change_one(struct config_list *list, const struct config_change *change, const struct who *who)
{
    switch (change->operation) {
    case CONFIG_SET:
        return set_entry(
            list, &(struct config_pair){.name = change->name, .value = change->value}, who);
    case CONFIG_DELETE:
        remove_entry(list, change->name);
        return ERR_OK;
    case CONFIG_APPEND:
    case CONFIG_SUBTRACT:
        return change_members(list, change, who);
    }
    (void)snprintf(
        who->why, TOPIC_CONFIG_WHY_SIZE, "Operations are SET, DELETE, APPEND and SUBTRACT.");
    return ERR_CONFIG_INVALID;
}

/* What a broker reads at its start only: all such names in one line, as Kafka has it. */
static enum err refuse_fixed(const struct config_changes *changes, char *why)
{
    static const char head[] = "Cannot update these configs dynamically: [";
    size_t size = 0;
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct config_change *change = &changes->changes[i];
        if (change->operation != CONFIG_SET || !config_is_fixed(change->name)) {
            continue;
        }
        const int shown = slice_shown(change->name, SLICE_SHOWN_MAX);
        if (size + (size_t)shown + sizeof(head) + 2 < TOPIC_CONFIG_WHY_SIZE) {
            size += (size_t)snprintf(why + size,
                                     TOPIC_CONFIG_WHY_SIZE - size,
                                     "%s%.*s",
                                     size == 0 ? head : ", ",
                                     shown,
                                     (const char *)change->name.data);
        }
    }
    if (size == 0) {
        return ERR_OK;
    }
    (void)snprintf(why + size, TOPIC_CONFIG_WHY_SIZE - size, "]");
    return ERR_INVALID;
}

enum err config_list_change(struct config_list *list,
                            const struct config_changes *changes,
                            char why[TOPIC_CONFIG_WHY_SIZE])
{
    const struct who who = {.kind = changes->kind, .why = why};
    if (changes->is_replacing) {
        config_list_done(list);
    }
    enum err e = ERR_OK;
    if (changes->kind == CONFIG_RESOURCE_BROKER) {
        e = refuse_fixed(changes, why);
    }
    for (uint32_t i = 0; i < changes->count && e == ERR_OK; i++) {
        e = change_one(list, &changes->changes[i], &who);
    }
    return e;
}
