#include "kafka/config_chain.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/config_specs.h"
#include "core/assert.h"
#include "kafka/broker_config.h"
#include "kafka/dispatch.h"
#include "kafka/request.h"

enum {
    NAMES_MAX = 1 + TOPIC_CONFIG_SECONDARIES_MAX,
};

struct names {
    const char *names[NAMES_MAX];
    uint32_t count;
};

/* A name alone, or all those that stand for one thing. */
static void find_names(const char *name, struct names *ret)
{
    const char *primary = topic_config_primary(name);
    *ret = (struct names){.names = {primary == NULL ? name : primary}, .count = 1};
    const struct topic_config_secondary *s;
    while ((s = topic_config_secondary(ret->names[0], ret->count - 1)) != NULL) {
        ret->names[ret->count++] = s->name;
    }
}

static void add(struct config_chain *chain,
                const char *name,
                const char *value,
                enum topic_config_source source)
{
    if (value != NULL) {
        assert_cmp(chain->count, <, CONFIG_CHAIN_MAX);
        chain->links[chain->count++] = (struct config_link){name, value, source};
    }
}

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct broker_config *)row)->name);
}

static const struct broker_config *find_row(const struct dispatch *d, const char *name)
{
    const struct dispatch_settings *settings = d->settings;
    if (settings->configs_count == 0) {
        return NULL;
    }
    return bsearch(
        name, settings->configs, settings->configs_count, sizeof(*settings->configs), compare_name);
}

/* Kafka's, where the broker has no such option of its own. */
static const char *default_of(const struct dispatch *d, const char *name)
{
    const struct broker_config *row = find_row(d, name);
    struct topic_config spec;
    if (row != NULL) {
        return row->default_value;
    }
    return config_spec_find(CONFIG_RESOURCE_BROKER, slice_of_string(name), &spec)
               ? spec.default_value
               : NULL;
}

static void drop_until(struct config_chain *chain, const char *name, uint32_t from)
{
    uint32_t first = from;
    while (first < chain->count && strcmp(chain->links[first].name, name) != 0) {
        first++;
    }
    memmove(&chain->links[from],
            &chain->links[first],
            (chain->count - first) * sizeof(chain->links[0]));
    chain->count -= first - from;
}

static void add_broker(const struct dispatch *d, const char *name, struct config_chain *chain)
{
    const struct topic_config_set set = cluster_topic_configs(d->cluster, NULL);
    const uint32_t from = chain->count;
    struct names all;
    find_names(name, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const char *value = topic_config_find(set.broker, set.broker_count, all.names[i]);
        add(chain, all.names[i], value, TOPIC_CONFIG_SOURCE_BROKER);
    }
    for (uint32_t i = 0; i < all.count; i++) {
        const char *value = topic_config_find(set.brokers, set.brokers_count, all.names[i]);
        add(chain, all.names[i], value, TOPIC_CONFIG_SOURCE_BROKERS);
    }
    for (uint32_t i = 0; i < all.count; i++) {
        const struct broker_config *row = find_row(d, all.names[i]);
        add(chain, all.names[i], row == NULL ? NULL : row->value, TOPIC_CONFIG_SOURCE_BROKER_FILE);
    }
    for (uint32_t i = 0; i < all.count; i++) {
        add(chain, all.names[i], default_of(d, all.names[i]), TOPIC_CONFIG_SOURCE_DEFAULT);
    }
    drop_until(chain, name, from);
}

void config_chain_of_broker(const struct dispatch *d, const char *name, struct config_chain *ret)
{
    ret->count = 0;
    add_broker(d, name, ret);
}

void config_chain_of_topic(const struct dispatch *d,
                           const struct topic_config_set *set,
                           const struct topic_config *config,
                           struct config_chain *ret)
{
    ret->count = 0;
    add(ret,
        config->name,
        topic_config_find(set->own, set->own_count, config->name),
        TOPIC_CONFIG_SOURCE_TOPIC);
    if (config->broker_name != NULL) {
        add_broker(d, config->broker_name, ret);
    }
}

enum topic_config_source config_chain_source(const struct config_chain *chain)
{
    return chain->count == 0 ? TOPIC_CONFIG_SOURCE_DEFAULT : chain->links[0].source;
}

const char *config_chain_topic_value(const struct dispatch *d,
                                     const struct topic_config_set *set,
                                     const struct topic_config *config,
                                     enum topic_config_source *ret_source)
{
    const char *value = topic_config_effective(set, config, ret_source);
    /* Only secondary names make a difference to what the chain would say. */
    if (*ret_source == TOPIC_CONFIG_SOURCE_BROKER_FILE && config->broker_name != NULL &&
        topic_config_secondary(config->broker_name, 0) != NULL) {
        struct config_chain chain;
        config_chain_of_topic(d, set, config, &chain);
        *ret_source = config_chain_source(&chain);
    }
    return value;
}
