/* DescribeConfigs: every configuration of a topic or a broker with the value in effect, where it
 * comes from, and what else would have given one (CONFIGS.md, section 2).
 *
 * The source is what clients go by: whatever is not DEFAULT counts as set, and MirrorMaker,
 * Terraform and kafka-topics copy, compare and print it.
 */
#include "kafka/proto/describe_configs.h"

#include <stdio.h>

#include "cluster/cluster.h"
#include "cluster/topic_configs.h"
#include "cluster/topic_name.h"
#include "kafka/broker_config.h"
#include "kafka/config_resource.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

enum {
    SYNONYMS_MAX = 3,
    NODE_TEXT_SIZE = 16,
};

typedef struct describe_configs_request_resource resource_in;
typedef struct describe_configs_response_result result_out;
typedef struct describe_configs_response_config config_out;

static bool is_asked_for(const resource_in *in, const char *name)
{
    for (size_t i = 0; i < in->configuration_keys_count; i++) {
        if (slice_equal_string(in->configuration_keys[i], name)) {
            return true;
        }
    }
    return in->configuration_keys_count == 0;
}

static void set_error(result_out *out, enum kafka_error error, struct slice message)
{
    out->error_code = (int16_t)error;
    out->error_message = message;
}

/* Room for up to count configurations; they are counted as they are filled. */
static bool alloc_configs(struct request *r, result_out *out, uint32_t count)
{
    out->configs = request_alloc(r, count, sizeof(*out->configs));
    return out->configs != NULL;
}

static config_out *next_config(result_out *out, const char *name, const char *value)
{
    config_out *config = &out->configs[out->configs_count++];
    describe_configs_response_config_init(config);
    config->name = slice_of_string(name);
    config->value = slice_of_string(value);
    return config;
}

static void add_synonym(config_out *config,
                        const char *name,
                        const char *value,
                        enum topic_config_source source)
{
    struct describe_configs_response_synonym *s = &config->synonyms[config->synonyms_count++];
    describe_configs_response_synonym_init(s);
    s->name = slice_of_string(name);
    s->value = slice_of_string(value);
    s->source = (int8_t)source;
}

static bool alloc_synonyms(struct request *r, config_out *config)
{
    config->synonyms = request_alloc(r, SYNONYMS_MAX, sizeof(*config->synonyms));
    return config->synonyms != NULL;
}

/* ---- topics ---- */

static bool fill_topic_synonyms(struct request *r,
                                const struct topic_config_set *set,
                                const struct topic_config *c,
                                config_out *out)
{
    if (!alloc_synonyms(r, out)) {
        return false;
    }
    const char *own = topic_config_find(set->own, set->own_count, c->name);
    if (own != NULL) {
        add_synonym(out, c->name, own, TOPIC_CONFIG_SOURCE_TOPIC);
    }
    if (c->broker_name == NULL) {
        return true;
    }
    const char *file = topic_config_find(set->defaults, set->defaults_count, c->name);
    if (file != NULL) {
        add_synonym(out, c->broker_name, file, TOPIC_CONFIG_SOURCE_BROKER_FILE);
    }
    add_synonym(out, c->broker_name, c->default_value, TOPIC_CONFIG_SOURCE_DEFAULT);
    return true;
}

static bool
fill_topic(struct request *r, const resource_in *in, const struct topic *t, result_out *out)
{
    const struct describe_configs_request *request = r->in;
    const struct topic_config_set set = cluster_topic_configs(r->d->cluster, t);
    if (!alloc_configs(r, out, topic_configs_count())) {
        return false;
    }
    for (uint32_t i = 0; i < topic_configs_count(); i++) {
        const struct topic_config *c = topic_config_at(i);
        if (!is_asked_for(in, c->name)) {
            continue;
        }
        enum topic_config_source source;
        const char *value = topic_config_effective(&set, c, &source);
        config_out *config = next_config(out, c->name, value);
        config->config_source = (int8_t)source;
        config->config_type = (int8_t)c->type;
        if (request->include_synonyms && !fill_topic_synonyms(r, &set, c, config)) {
            return false;
        }
    }
    return true;
}

static bool describe_topic(struct request *r, const resource_in *in, result_out *out)
{
    char why[TOPIC_NAME_WHY_SIZE];
    if (topic_name_check(in->resource_name, why) != ERR_OK) {
        set_error(out, KAFKA_INVALID_TOPIC_EXCEPTION, request_text(r, "%s", why));
        return true;
    }
    const struct topic *t = NULL;
    const struct lookup how = {.name = in->resource_name};
    const enum kafka_error error = lookup_topic(r, &how, &t);
    if (error != KAFKA_NONE) {
        set_error(out, error, slice_of_string("There is no topic of that name."));
        return true;
    }
    return fill_topic(r, in, t, out);
}

/* ---- this broker ---- */

/* KAFKA_NONE if the resource is this broker. */
static enum kafka_error check_broker(struct request *r, const resource_in *in, result_out *out)
{
    char id[NODE_TEXT_SIZE];
    const int32_t node_id = metadata_node_id(cluster_metadata(r->d->cluster));
    (void)snprintf(id, sizeof(id), "%d", node_id);
    if (slice_equal_string(in->resource_name, id)) {
        return KAFKA_NONE;
    }
    set_error(out,
              KAFKA_INVALID_REQUEST,
              request_text(r,
                           "Unexpected broker id, expected %d or empty string, but received %.*s",
                           node_id,
                           in->resource_name.size > 64 ? 64 : (int)in->resource_name.size,
                           (const char *)in->resource_name.data));
    return KAFKA_INVALID_REQUEST;
}

static bool fill_broker_synonyms(struct request *r, const struct broker_config *c, config_out *out)
{
    if (!alloc_synonyms(r, out)) {
        return false;
    }
    if (!c->is_default) {
        add_synonym(out, c->name, c->value, TOPIC_CONFIG_SOURCE_BROKER_FILE);
    }
    add_synonym(out, c->name, c->default_value, TOPIC_CONFIG_SOURCE_DEFAULT);
    return true;
}

static bool fill_broker(struct request *r, const resource_in *in, result_out *out)
{
    const struct describe_configs_request *request = r->in;
    const struct dispatch_settings *settings = r->d->settings;
    if (!alloc_configs(r, out, settings->configs_count)) {
        return false;
    }
    for (uint32_t i = 0; i < settings->configs_count; i++) {
        const struct broker_config *c = &settings->configs[i];
        if (!is_asked_for(in, c->name)) {
            continue;
        }
        config_out *config = next_config(out, c->name, c->value);
        config->read_only = true;
        config->config_type = (int8_t)c->type;
        config->config_source =
            (int8_t)(c->is_default ? TOPIC_CONFIG_SOURCE_DEFAULT : TOPIC_CONFIG_SOURCE_BROKER_FILE);
        if (request->include_documentation) {
            config->documentation = slice_of_string(c->doc);
        }
        if (request->include_synonyms && !fill_broker_synonyms(r, c, config)) {
            return false;
        }
    }
    return true;
}

static bool describe_broker(struct request *r, const resource_in *in, result_out *out)
{
    if (in->resource_name.size == 0) {
        return true; /* What is set for all brokers while they run: nothing. */
    }
    return check_broker(r, in, out) != KAFKA_NONE || fill_broker(r, in, out);
}

/* ---- all ---- */

static bool describe(struct request *r, const resource_in *in, result_out *out)
{
    describe_configs_response_result_init(out);
    out->resource_type = in->resource_type;
    out->resource_name = in->resource_name;
    switch (in->resource_type) {
    case CONFIG_RESOURCE_TOPIC:
        return describe_topic(r, in, out);
    case CONFIG_RESOURCE_BROKER:
        return describe_broker(r, in, out);
    case CONFIG_RESOURCE_BROKER_LOGGER:
        (void)check_broker(r, in, out); /* Whose level is coreflume.log.level, and nothing else. */
        return true;
    default:
        set_error(out,
                  KAFKA_INVALID_REQUEST,
                  request_text(r,
                               "Resource type %d has no configurations here: only topics (2), "
                               "brokers (4) and broker loggers (8) have.",
                               in->resource_type));
        return true;
    }
}

void handle_describe_configs(struct request *r)
{
    const struct describe_configs_request *in = r->in;
    struct describe_configs_response out;
    describe_configs_response_init(&out);
    out.results_count = in->resources_count;
    out.results = request_alloc(r, in->resources_count, sizeof(*out.results));
    bool is_good = out.results != NULL;
    for (size_t i = 0; i < in->resources_count && is_good; i++) {
        is_good = describe(r, &in->resources[i], &out.results[i]);
    }
    if (!is_good) {
        request_abort(r, "too many resources");
        return;
    }
    request_answer(r, &out);
}
