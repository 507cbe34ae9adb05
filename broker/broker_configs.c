#include "broker/broker_configs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/config_specs.h"

/* What can be altered has the type that Kafka gives it; the others say by their range what they
 * need. */
static enum topic_config_type type_of(const struct config_option *o)
{
    struct topic_config spec;
    if (config_spec_find(CONFIG_RESOURCE_BROKER, slice_of_string(o->name), &spec)) {
        return spec.type;
    }
    switch (o->type) {
    case CONFIG_BOOL:
        return TOPIC_CONFIG_BOOLEAN;
    case CONFIG_INT:
    case CONFIG_SIZE:
    case CONFIG_DURATION_MS:
        return o->max > 0 && o->max <= INT32_MAX ? TOPIC_CONFIG_INT : TOPIC_CONFIG_LONG;
    case CONFIG_LIST:
        return TOPIC_CONFIG_LIST;
    case CONFIG_STRING:
    case CONFIG_ENUM:
        break;
    }
    return TOPIC_CONFIG_STRING;
}

static char *plain_number(const struct config_option *o, const char *text)
{
    int64_t number;
    char *plain;
    if (config_parse(o, text, &number) != ERR_OK || asprintf(&plain, "%" PRId64, number) < 0) {
        return NULL;
    }
    return plain;
}

/* "a, b" -> "a,b", as Kafka joins lists. */
static char *plain_list(const char *text)
{
    char *plain = strdup(text);
    char *to = plain;
    for (const char *from = plain; from != NULL && *from != '\0'; from++) {
        if (*from != ' ') {
            *to++ = *from;
        }
    }
    if (to != NULL) {
        *to = '\0';
    }
    return plain;
}

static char *plain_text(const struct config_option *o, const char *text)
{
    switch (o->type) {
    case CONFIG_INT:
    case CONFIG_SIZE:
    case CONFIG_DURATION_MS:
        return plain_number(o, text);
    case CONFIG_LIST:
        return plain_list(text);
    case CONFIG_BOOL:
    case CONFIG_STRING:
    case CONFIG_ENUM:
        break;
    }
    return strdup(text);
}

enum err broker_configs_new(const struct config *config,
                            struct broker_config **ret_configs,
                            uint32_t *ret_count)
{
    const struct config_table *t = config_table_of(config);
    struct broker_config *configs = calloc(t->count, sizeof(*configs));
    bool is_good = configs != NULL;
    for (size_t i = 0; i < t->count && is_good; i++) {
        const struct config_option *o = &t->options[i];
        const bool is_set = strcmp(config_origin(config, o->name), "default") != 0;
        configs[i] = (struct broker_config){
            .name = o->name,
            .value = is_set ? plain_text(o, config_text(config, o->name)) : NULL,
            .default_value = o->fallback == NULL ? NULL : plain_text(o, o->fallback),
            .doc = o->doc,
            .type = type_of(o),
            .is_dynamic = o->is_dynamic,
        };
        is_good = (configs[i].value != NULL || !is_set) &&
                  (configs[i].default_value != NULL || o->fallback == NULL);
    }
    if (!is_good) {
        broker_configs_free(configs, configs == NULL ? 0 : (uint32_t)t->count);
        return ERR_BUSY;
    }
    *ret_configs = configs;
    *ret_count = (uint32_t)t->count;
    return ERR_OK;
}

void broker_configs_free(struct broker_config *configs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free((char *)configs[i].value);
        free((char *)configs[i].default_value);
    }
    free(configs);
}
