/* DescribeConfigs: every configuration of a resource with the value in effect, where it comes from,
 * and what else would have given one (CONFIGS.md, section 2; config_chain.h).
 *
 * The source is what clients go by: whatever is not DEFAULT counts as set, and MirrorMaker,
 * Terraform and kafka-topics copy, compare and print it.
 */
#include "kafka/proto/describe_configs.h"

#include <stdio.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/config_resources.h"
#include "cluster/config_specs.h"
#include "cluster/topic_configs.h"
#include "cluster/topic_name.h"
#include "core/logger.h"
#include "core/shard.h"
#include "kafka/broker_config.h"
#include "kafka/config_chain.h"
#include "kafka/config_log_level.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"

enum {
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
    config->config_source = TOPIC_CONFIG_SOURCE_DEFAULT;
    config->documentation = (struct slice){0};
    return config;
}

/* The synonyms, if they are asked for. False at the request's memory limit. */
static bool
fill_synonyms(struct request *r, const struct config_chain *chain, bool is_hidden, config_out *out)
{
    const struct describe_configs_request *request = r->in;
    if (!request->include_synonyms) {
        return true;
    }
    out->synonyms = request_alloc(r, chain->count, sizeof(*out->synonyms));
    if (out->synonyms == NULL) {
        return false;
    }
    out->synonyms_count = chain->count;
    for (uint32_t i = 0; i < chain->count; i++) {
        const struct config_link *link = &chain->links[i];
        describe_configs_response_synonym_init(&out->synonyms[i]);
        out->synonyms[i].name = slice_of_string(link->name);
        out->synonyms[i].value = slice_of_string(is_hidden ? NULL : link->value);
        out->synonyms[i].source = (int8_t)link->source;
    }
    return true;
}

/* A chain of one link. */
static bool fill_own(struct request *r, const struct config_link *own, config_out *out)
{
    const struct config_chain chain = {.links = {*own}, .count = 1};
    out->config_source = (int8_t)own->source;
    return fill_synonyms(r, &chain, out->is_sensitive, out);
}

/* ---- topics ---- */

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
        const char *value = config_chain_topic_value(r->d, &set, c, &source);
        config_out *config = next_config(out, c->name, value);
        config->config_source = (int8_t)source;
        config->config_type = (int8_t)c->type;
        if (request->include_synonyms) {
            struct config_chain chain;
            config_chain_of_topic(r->d, &set, c, &chain);
            if (!fill_synonyms(r, &chain, false, config)) {
                return false;
            }
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
    set_error(
        out,
        KAFKA_INVALID_REQUEST,
        request_text(r,
                     "Unexpected broker id, expected %d or empty string, but received %.*s",
                     node_id,
                     slice_shown(in->resource_name, SLICE_SHOWN_MAX),
                     in->resource_name.size == 0 ? "" : (const char *)in->resource_name.data));
    return KAFKA_INVALID_REQUEST;
}

static bool fill_row(struct request *r, const struct broker_config *c, result_out *out)
{
    const struct describe_configs_request *request = r->in;
    struct config_chain chain;
    config_chain_of_broker(r->d, c->name, &chain);
    /* The chain begins with this name if it has any value; else it is empty. */
    config_out *config = next_config(out, c->name, chain.count == 0 ? NULL : chain.links[0].value);
    config->read_only = !c->is_dynamic;
    config->config_type = (int8_t)c->type;
    config->config_source = (int8_t)config_chain_source(&chain);
    if (request->include_documentation) {
        config->documentation = slice_of_string(c->doc);
    }
    return fill_synonyms(r, &chain, false, config);
}

/* What was altered and is no option of this program: what Kafka calls so is shown, the value of a
 * name that nobody knows could be a secret. */
static bool fill_foreign(struct request *r, const struct config_link *link, result_out *out)
{
    struct topic_config spec;
    const bool is_known =
        config_spec_find(CONFIG_RESOURCE_BROKER, slice_of_string(link->name), &spec);
    config_out *config = next_config(out, link->name, is_known ? link->value : NULL);
    config->is_sensitive = !is_known;
    config->read_only = !is_known;
    config->config_type = is_known ? (int8_t)spec.type : 0;
    if (link->source == TOPIC_CONFIG_SOURCE_BROKERS) {
        return fill_own(r, link, config);
    }
    struct config_chain chain;
    config_chain_of_broker(r->d, link->name, &chain);
    config->config_source = (int8_t)config_chain_source(&chain);
    return fill_synonyms(r, &chain, config->is_sensitive, config);
}

static bool is_row(const struct request *r, const char *name)
{
    const struct dispatch_settings *settings = r->d->settings;
    for (uint32_t i = 0; i < settings->configs_count; i++) {
        if (strcmp(settings->configs[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Of one of the two lists of what was altered, what is_listed does not show already. */
static bool fill_altered(struct request *r,
                         const resource_in *in,
                         const struct topic_config_set *set,
                         bool is_of_broker,
                         result_out *out)
{
    const struct topic_config_entry *entries = is_of_broker ? set->broker : set->brokers;
    const uint32_t count = is_of_broker ? set->broker_count : set->brokers_count;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        const bool is_shown =
            is_row(r, name) ||
            (!is_of_broker && topic_config_find(set->broker, set->broker_count, name) != NULL);
        const struct config_link link = {name, entries[i].value, TOPIC_CONFIG_SOURCE_BROKER};
        if (!is_shown && is_asked_for(in, name) && !fill_foreign(r, &link, out)) {
            return false;
        }
    }
    return true;
}

static bool fill_broker(struct request *r, const resource_in *in, result_out *out)
{
    const struct dispatch_settings *settings = r->d->settings;
    const struct topic_config_set set = cluster_topic_configs(r->d->cluster, NULL);
    if (!alloc_configs(r, out, settings->configs_count + set.broker_count + set.brokers_count)) {
        return false;
    }
    for (uint32_t i = 0; i < settings->configs_count; i++) {
        const struct broker_config *c = &settings->configs[i];
        if (is_asked_for(in, c->name) && !fill_row(r, c, out)) {
            return false;
        }
    }
    return fill_altered(r, in, &set, true, out) && fill_altered(r, in, &set, false, out);
}

/* What was set for all brokers while they run, and nothing else. */
static bool fill_brokers(struct request *r, const resource_in *in, result_out *out)
{
    const struct topic_config_set set = cluster_topic_configs(r->d->cluster, NULL);
    if (!alloc_configs(r, out, set.brokers_count)) {
        return false;
    }
    for (uint32_t i = 0; i < set.brokers_count; i++) {
        const struct config_link link = {
            set.brokers[i].name, set.brokers[i].value, TOPIC_CONFIG_SOURCE_BROKERS};
        if (is_asked_for(in, link.name) && !fill_foreign(r, &link, out)) {
            return false;
        }
    }
    return true;
}

static bool describe_broker(struct request *r, const resource_in *in, result_out *out)
{
    if (in->resource_name.size == 0) {
        return fill_brokers(r, in, out);
    }
    return check_broker(r, in, out) != KAFKA_NONE || fill_broker(r, in, out);
}

/* There is one, and its level is that of all lines. */
static bool describe_logger(struct request *r, const resource_in *in, result_out *out)
{
    if (in->resource_name.size == 0) {
        set_error(out, KAFKA_INVALID_REQUEST, slice_of_string("Broker id must not be empty"));
        return true;
    }
    if (check_broker(r, in, out) != KAFKA_NONE || !is_asked_for(in, CONFIG_LOGGER_ROOT)) {
        return true;
    }
    if (!alloc_configs(r, out, 1)) {
        return false;
    }
    const char *level = config_log_level_name(logger_level(r->d->s->log));
    next_config(out, CONFIG_LOGGER_ROOT, level)->config_source = TOPIC_CONFIG_SOURCE_LOGGER;
    return true;
}

/* ---- groups, and subscriptions of client metrics ---- */

static bool fill_spec(struct request *r,
                      const struct topic_config *spec,
                      const struct config_link *own,
                      result_out *out)
{
    struct config_chain chain = {.count = 0};
    if (spec->broker_name != NULL) {
        config_chain_of_broker(r->d, spec->broker_name, &chain);
    }
    if (spec->broker_name != NULL && chain.count == 0) { /* A name that only Kafka's broker has. */
        chain.links[chain.count++] = (struct config_link){
            spec->broker_name, spec->default_value, TOPIC_CONFIG_SOURCE_DEFAULT};
    }
    if (own->value != NULL) {
        memmove(&chain.links[1], &chain.links[0], chain.count * sizeof(chain.links[0]));
        chain.links[0] = *own;
        chain.count++;
    }
    config_out *config =
        next_config(out, spec->name, chain.count == 0 ? spec->default_value : chain.links[0].value);
    config->config_type = (int8_t)spec->type;
    config->config_source = (int8_t)config_chain_source(&chain);
    return fill_synonyms(r, &chain, false, config);
}

/* Any name has an answer, also of a group that does not exist. */
static bool describe_specs(struct request *r, const resource_in *in, result_out *out)
{
    const enum config_resource kind = (enum config_resource)in->resource_type;
    const bool is_group = kind == CONFIG_RESOURCE_GROUP;
    if (in->resource_name.size == 0) {
        set_error(out,
                  KAFKA_INVALID_REQUEST,
                  slice_of_string(is_group ? "Group name must not be empty"
                                           : "Client metrics subscription name must not be empty"));
        return true;
    }
    const struct config_resource_entry *e = config_resources_find(
        metadata_config_resources(cluster_metadata(r->d->cluster)), kind, in->resource_name);
    if (!alloc_configs(r, out, config_specs_count(kind))) {
        return false;
    }
    for (uint32_t i = 0; i < config_specs_count(kind); i++) {
        const struct topic_config *spec = config_spec_at(kind, i);
        const struct config_link own = {
            .name = spec->name,
            .value = e == NULL ? NULL : topic_config_find(e->configs, e->configs_count, spec->name),
            .source = is_group ? TOPIC_CONFIG_SOURCE_GROUP : TOPIC_CONFIG_SOURCE_CLIENT_METRICS,
        };
        if (is_asked_for(in, spec->name) && !fill_spec(r, spec, &own, out)) {
            return false;
        }
    }
    return true;
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
        return describe_logger(r, in, out);
    case CONFIG_RESOURCE_GROUP:
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return describe_specs(r, in, out);
    default:
        set_error(out,
                  KAFKA_INVALID_REQUEST,
                  request_text(r, "Unknown resource type %d", in->resource_type));
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
