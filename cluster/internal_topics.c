#include "cluster/internal_topics.h"

#include <stdio.h>

const struct internal_topic *internal_topic_find(const struct cluster_settings *settings,
                                                 struct slice name)
{
    for (uint32_t i = 0; i < settings->internal_topics_count; i++) {
        if (slice_equal_string(name, settings->internal_topics[i].name)) {
            return &settings->internal_topics[i];
        }
    }
    return NULL;
}

bool internal_topic_is_kafkas(struct slice name)
{
    static const char *const names[] = {
        "__consumer_offsets",
        "__share_group_state",
        "__transaction_state",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (slice_equal_string(name, names[i])) {
            return true;
        }
    }
    return false;
}

enum err internal_topic_check_name(const struct cluster_settings *settings,
                                   struct slice name,
                                   char why[TOPIC_NAME_WHY_SIZE])
{
    const bool is_reserved = internal_topic_is_kafkas(name) ||
                             slice_equal_string(name, "__cluster_metadata"); /* Group 0. */
    if (!is_reserved || internal_topic_find(settings, name) != NULL) {
        return ERR_OK;
    }
    (void)snprintf(why,
                   TOPIC_NAME_WHY_SIZE,
                   "Creation of internal topic %.*s is prohibited.",
                   (int)name.size,
                   (const char *)name.data);
    return ERR_INVALID;
}

enum err internal_topic_check_configs(const struct cluster_settings *settings,
                                      struct slice name,
                                      const struct topic_config_set *set,
                                      char why[TOPIC_NAME_WHY_SIZE])
{
    if (internal_topic_find(settings, name) == NULL) {
        return ERR_OK;
    }
    /* Its own: what is set for brokers may change without a look at it. */
    const struct topic_config_set own = {.own = set->own, .own_count = set->own_count};
    enum topic_config_source source;
    const struct topic_config *policy = topic_config_by_name(slice_of_string("cleanup.policy"));
    const char *value = topic_config_effective(&own, policy, &source);
    if (slice_equal_string(topic_config_trim(slice_of_string(value)), "compact")) {
        return ERR_OK;
    }
    (void)snprintf(why,
                   TOPIC_NAME_WHY_SIZE,
                   "The cleanup.policy of internal topic %.*s is compact: with any other, what it "
                   "holds for the broker would be lost.",
                   slice_shown(name, TOPIC_NAME_SIZE_MAX),
                   (const char *)name.data);
    return ERR_CONFIG_INVALID;
}

enum err
internal_topic_refuse(const struct topic *t, const char *what, char why[TOPIC_NAME_WHY_SIZE])
{
    if (!t->is_internal) {
        return ERR_OK;
    }
    (void)snprintf(why,
                   TOPIC_NAME_WHY_SIZE,
                   "Internal topic %s cannot be %s: what it holds for the broker would be lost.",
                   t->name,
                   what);
    return ERR_POLICY;
}

static void on_ensured(struct controller_request *request)
{
    struct internal_topic_request *r = request->context;
    r->on_done(r, request->result == ERR_TOPIC_EXISTS ? ERR_OK : request->result);
}

void cluster_ensure_internal_topic(struct cluster *c,
                                   struct internal_topic_request *r,
                                   const char *name)
{
    r->request = (struct controller_request){
        .kind = CONTROLLER_CREATE_TOPIC,
        .on_done = on_ensured,
        .context = r,
        .in.create_topic =
            {
                .name = slice_of_string(name),
                .partitions_count = -1,
                .replication_factor = -1,
            },
    };
    controller_submit(c, &r->request);
}
