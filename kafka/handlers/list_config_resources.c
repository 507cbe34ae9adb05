/* ListConfigResources: the names of what has configurations: topics, brokers and their loggers, and
 * the groups and subscriptions of client metrics that were given some. Version 0 asked only for the
 * last.
 */
#include "kafka/proto/list_config_resources.h"

#include "cluster/cluster.h"
#include "cluster/config_resources.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

typedef struct list_config_resources_response_config_resource resource_out;

static bool is_asked_for(const struct request *r, int8_t type)
{
    const struct list_config_resources_request *in = r->in;
    if (r->version == 0) {
        return type == CONFIG_RESOURCE_CLIENT_METRICS;
    }
    for (size_t i = 0; i < in->resource_types_count; i++) {
        if (in->resource_types[i] == type) {
            return true;
        }
    }
    return in->resource_types_count == 0;
}

static bool are_known(const struct list_config_resources_request *in)
{
    for (size_t i = 0; i < in->resource_types_count; i++) {
        switch (in->resource_types[i]) {
        case CONFIG_RESOURCE_TOPIC:
        case CONFIG_RESOURCE_BROKER:
        case CONFIG_RESOURCE_BROKER_LOGGER:
        case CONFIG_RESOURCE_CLIENT_METRICS:
        case CONFIG_RESOURCE_GROUP:
            break;
        default:
            return false;
        }
    }
    return true;
}

static void add(struct list_config_resources_response *out, int8_t type, struct slice name)
{
    resource_out *resource = &out->config_resources[out->config_resources_count++];
    list_config_resources_response_config_resource_init(resource);
    resource->resource_type = type;
    resource->resource_name = name;
}

void handle_list_config_resources(struct request *r)
{
    const struct list_config_resources_request *in = r->in;
    const struct metadata *m = cluster_metadata(r->d->cluster);
    struct list_config_resources_response out;
    list_config_resources_response_init(&out);
    if (!are_known(in)) {
        out.error_code = KAFKA_UNSUPPORTED_VERSION;
        request_answer(r, &out);
        return;
    }
    const struct config_resources *resources = metadata_config_resources(m);
    const uint32_t topics_count =
        is_asked_for(r, CONFIG_RESOURCE_TOPIC) ? metadata_topics_count(m) : 0;
    out.config_resources =
        request_alloc(r, topics_count + resources->count + 2, sizeof(*out.config_resources));
    if (out.config_resources == NULL) {
        request_abort(r, "too many topics");
        return;
    }
    const struct slice node = request_text(r, "%d", metadata_node_id(m));
    if (is_asked_for(r, CONFIG_RESOURCE_BROKER)) {
        add(&out, CONFIG_RESOURCE_BROKER, node);
    }
    if (is_asked_for(r, CONFIG_RESOURCE_BROKER_LOGGER)) {
        add(&out, CONFIG_RESOURCE_BROKER_LOGGER, node);
    }
    for (uint32_t i = 0; i < topics_count; i++) {
        add(&out, CONFIG_RESOURCE_TOPIC, slice_of_string(metadata_topic_at(m, i)->name));
    }
    for (uint32_t i = 0; i < resources->count; i++) {
        const struct config_resource_entry *e = &resources->entries[i];
        if (e->kind != CONFIG_RESOURCE_BROKER && is_asked_for(r, (int8_t)e->kind)) {
            add(&out, (int8_t)e->kind, slice_of_string(e->name));
        }
    }
    request_answer(r, &out);
}
