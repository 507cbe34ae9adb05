/* Proposals of altered configurations (controller.h). */
#include <stdio.h>

#include "cluster/config_resources.h"
#include "cluster/controller.h"
#include "cluster/internal_topics.h"
#include "cluster/metadata_edit.h"
#include "cluster/topic_name.h"

/* The whole set as it will be must obey the rules, not what changes alone. */
static enum err check_topic(const struct controller *ct,
                            struct slice name,
                            const struct config_list *list,
                            char *why)
{
    struct topic_config_set set = metadata_topic_configs(controller_metadata(ct), NULL);
    set.own = list->entries;
    set.own_count = list->count;
    enum err e = topic_config_check_set(&set, why);
    return e == ERR_OK ? internal_topic_check_configs(controller_settings(ct), name, &set, why) : e;
}

/* All that is kept for brokers, groups and subscriptions is bounded: any client may name any group.
 */
static enum err check_resource(const struct controller *ct,
                               enum config_resource kind,
                               struct slice name,
                               const struct config_list *list,
                               char *why)
{
    if (kind == CONFIG_RESOURCE_GROUP) {
        const struct config_bounds *bounds = &controller_settings(ct)->group_bounds;
        enum err e = config_check_group(list->entries, list->count, bounds, why);
        if (e != ERR_OK) {
            return e;
        }
    }
    const struct config_resources *all = metadata_config_resources(controller_metadata(ct));
    const struct config_resource_entry *old = config_resources_find(all, kind, name);
    const uint64_t size_old =
        old == NULL ? 0 : config_resource_size(name, old->configs, old->configs_count);
    const uint64_t size =
        list->count == 0 ? 0 : config_resource_size(name, list->entries, list->count);
    if (size <= size_old) {
        return ERR_OK;
    }
    if (size > CONFIG_RESOURCE_SIZE_MAX) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The configurations of one broker, group or subscription would take more "
                       "than %d bytes.",
                       CONFIG_RESOURCE_SIZE_MAX);
        return ERR_CONFIG_INVALID;
    }
    if (all->size - size_old + size > CONFIG_RESOURCES_SIZE_MAX) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The configurations of brokers, groups and subscriptions would take more "
                       "than %d bytes: delete some first.",
                       CONFIG_RESOURCES_SIZE_MAX);
        return ERR_CONFIG_INVALID;
    }
    return ERR_OK;
}

static enum err encode(struct command_configs_altered *altered,
                       const struct config_list *list,
                       struct wbuf *w,
                       char *why)
{
    struct wbuf configs;
    wbuf_init(&configs, COMMAND_SIZE_MAX);
    command_encode_entries(list->entries, list->count, &configs);
    enum err e = wbuf_failure(&configs);
    if (e == ERR_OK) {
        altered->configs_count = list->count;
        altered->configs = wbuf_slice(&configs);
        const struct command command = {
            .kind = COMMAND_CONFIGS_ALTERED,
            .configs_altered = *altered,
        };
        command_encode(&command, w);
        e = wbuf_failure(w);
    }
    wbuf_done(&configs);
    if (e == ERR_TOO_LARGE) {
        (void)snprintf(why,
                       CONTROLLER_WHY_SIZE,
                       "The configurations of one resource would take more than %d bytes.",
                       COMMAND_SIZE_MAX);
        return ERR_CONFIG_INVALID;
    }
    return e;
}

/* The metadata's own, not to be changed. */
struct present {
    const struct topic_config_entry *configs;
    uint32_t count;
};

/* What the resource has now, and what it is in a command. */
static enum err find(const struct controller *ct,
                     struct command_configs_altered *altered,
                     struct present *ret_present,
                     char *why)
{
    const struct metadata *m = controller_metadata(ct);
    if (altered->resource != CONFIG_RESOURCE_TOPIC) {
        const struct config_resource_entry *e =
            config_resources_find(metadata_config_resources(m), altered->resource, altered->name);
        if (e != NULL) {
            *ret_present = (struct present){e->configs, e->configs_count};
        }
        return ERR_OK;
    }
    const struct topic *t = metadata_topic_by_name(m, altered->name);
    if (t == NULL) {
        enum err e = topic_name_check(altered->name, why);
        if (e == ERR_OK) {
            (void)snprintf(why,
                           CONTROLLER_WHY_SIZE,
                           "The topic '%.*s' does not exist.",
                           (int)altered->name.size,
                           (const char *)altered->name.data);
            e = ERR_TOPIC_UNKNOWN;
        }
        return e;
    }
    altered->topic_id = t->id;
    *ret_present = (struct present){t->configs, t->configs_count};
    return ERR_OK;
}

enum err controller_propose_configs(const struct controller *ct,
                                    struct slice name,
                                    const struct config_changes *changes,
                                    struct wbuf *w,
                                    char why[CONTROLLER_WHY_SIZE])
{
    struct command_configs_altered altered = {.resource = changes->kind, .name = name};
    struct present present = {0};
    enum err e = find(ct, &altered, &present, why);
    if (e != ERR_OK) {
        return e;
    }
    struct config_list list = {0};
    config_list_copy(&list, present.configs, present.count);
    e = config_list_change(&list, changes, why);
    if (e == ERR_OK) {
        e = changes->kind == CONFIG_RESOURCE_TOPIC
                ? check_topic(ct, name, &list, why)
                : check_resource(ct, changes->kind, name, &list, why);
    }
    /* What changes nothing is no entry: clients may set the same values in a loop. */
    if (e == ERR_OK && !config_list_equal(&list, present.configs, present.count)) {
        e = encode(&altered, &list, w, why);
    }
    config_list_done(&list);
    return e;
}
