/* Options of topics, brokers and groups: DescribeConfigs and IncrementalAlterConfigs. */
#include <stdlib.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/describe_configs.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/incremental_alter_configs.h"

enum {
    OPERATION_SET = 0,
    OPERATION_DELETE = 1,
};

/* ---- whom to ask ---- */

/* The broker that a resource stands for by its number; false if it is none. */
static bool parse_broker(const struct client_resource *resource, int32_t *ret_id)
{
    int64_t id = 0;
    const char *text = resource->name;
    if (resource->kind != CLIENT_RESOURCE_BROKER || *text == '\0') {
        return false;
    }
    for (; *text >= '0' && *text <= '9' && id <= INT32_MAX; text++) {
        id = id * 10 + (*text - '0');
    }
    if (*text != '\0' || id > INT32_MAX) {
        return false;
    }
    *ret_id = (int32_t)id;
    return true;
}

/* Only the broker itself answers for its own options, others refuse: so it is found first. */
static enum err
node_of(struct client *c, const struct client_resource *resource, int32_t *ret_node_id)
{
    *ret_node_id = CLIENT_NODE_ANY;
    if (!parse_broker(resource, ret_node_id)) {
        return ERR_OK;
    }
    static const char *const no_topics[] = {NULL};
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct metadata_response m;
    struct client_call call = {.arena = &arena};
    enum err e = client_metadata_ask(c, no_topics, 0, &call, &m);
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

/* ---- alter ---- */

static bool fill_changes(struct arena *arena,
                         const struct client_config *changes,
                         size_t changes_count,
                         struct incremental_alter_configs_request_resource *resource)
{
    resource->configs = arena_alloc_array(arena, changes_count, sizeof(*resource->configs));
    if (resource->configs == NULL) {
        return false;
    }
    resource->configs_count = changes_count;
    for (size_t i = 0; i < changes_count; i++) {
        struct incremental_alter_configs_request_config *to = &resource->configs[i];
        incremental_alter_configs_request_config_init(to);
        to->name = slice_of_string(changes[i].name);
        to->value = slice_of_string(changes[i].value);
        to->config_operation = changes[i].value != NULL ? OPERATION_SET : OPERATION_DELETE;
    }
    return true;
}

enum err client_alter_configs(struct client *c,
                              const struct client_resource *resource,
                              const struct client_config *changes,
                              size_t changes_count,
                              struct client_topic_result *ret_result)
{
    int32_t node_id = CLIENT_NODE_ANY;
    enum err e = node_of(c, resource, &node_id);
    if (e != ERR_OK) {
        return e;
    }
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct incremental_alter_configs_request_resource asked;
    incremental_alter_configs_request_resource_init(&asked);
    asked.resource_type = (int8_t)resource->kind;
    asked.resource_name = slice_of_string(resource->name);
    struct incremental_alter_configs_request request;
    incremental_alter_configs_request_init(&request);
    request.resources = &asked;
    request.resources_count = 1;
    struct incremental_alter_configs_response response;
    incremental_alter_configs_response_init(&response);
    struct client_call call = {
        .api_key = API_INCREMENTAL_ALTER_CONFIGS,
        .node_id = node_id,
        .request = &request,
        .arena = &arena,
        .response = &response,
    };
    e = fill_changes(&arena, changes, changes_count, &asked)
            ? client_ask(c, &call)
            : client_fail(c, ERR_BUSY, "no memory for the request");
    if (e == ERR_OK) {
        client_init_results(ret_result, 1);
        for (size_t i = 0; i < response.responses_count; i++) {
            const struct incremental_alter_configs_response_resource *r = &response.responses[i];
            if (r->resource_type == (int8_t)resource->kind &&
                slice_equal_string(r->resource_name, resource->name)) {
                client_set_result(ret_result, r->error_code, r->error_message);
            }
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

enum err client_alter_topic_configs(struct client *c,
                                    const char *topic,
                                    const struct client_config *changes,
                                    size_t changes_count,
                                    struct client_topic_result *ret_result)
{
    const struct client_resource resource = {CLIENT_RESOURCE_TOPIC, topic};
    return client_alter_configs(c, &resource, changes, changes_count, ret_result);
}

/* ---- describe ---- */

/* The answer lives in the arena, its texts in the call's frame. */
struct description {
    struct client_configs configs;
    struct arena arena;
    struct client_call call;
};

static enum err ask(struct client *c,
                    const struct client_resource *resource,
                    struct description *d,
                    struct describe_configs_response *response)
{
    int32_t node_id = CLIENT_NODE_ANY;
    enum err e = node_of(c, resource, &node_id);
    if (e != ERR_OK) {
        return e;
    }
    struct describe_configs_request_resource asked;
    describe_configs_request_resource_init(&asked);
    asked.resource_type = (int8_t)resource->kind;
    asked.resource_name = slice_of_string(resource->name);
    asked.configuration_keys = NULL; /* All. */
    struct describe_configs_request request;
    describe_configs_request_init(&request);
    request.resources = &asked;
    request.resources_count = 1;
    describe_configs_response_init(response);
    d->call = (struct client_call){
        .api_key = API_DESCRIBE_CONFIGS,
        .node_id = node_id,
        .is_repeatable = node_id == CLIENT_NODE_ANY,
        .request = &request,
        .arena = &d->arena,
        .response = response,
    };
    return client_ask(c, &d->call);
}

static const char *kind_text(enum client_resource_kind kind)
{
    switch (kind) {
    case CLIENT_RESOURCE_TOPIC:
        return "topic";
    case CLIENT_RESOURCE_BROKER:
        return "broker";
    case CLIENT_RESOURCE_GROUP:
        return "group";
    }
    return "resource";
}

/* The broker's words, but for what we know how to help with. */
static enum err refuse(struct client *c,
                       const struct client_resource *resource,
                       const struct describe_configs_response_result *r)
{
    const enum err e = client_err_of(r->error_code);
    if (e == ERR_TOPIC_UNKNOWN) {
        return client_fail(c, e, "topic '%s' does not exist", resource->name);
    }
    const struct slice words = r->error_message.size > 0
                                   ? r->error_message
                                   : slice_of_string(client_error_text(r->error_code));
    return client_fail(c,
                       e,
                       "cannot describe %s '%s': %.*s",
                       kind_text(resource->kind),
                       resource->name,
                       (int)words.size,
                       (const char *)words.data);
}

static enum err
take(struct client *c, const struct describe_configs_response_result *r, struct description *d)
{
    d->configs.entries =
        arena_alloc_array(&d->arena, r->configs_count, sizeof(*d->configs.entries));
    if (d->configs.entries == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for the options");
    }
    d->configs.entries_count = r->configs_count;
    for (size_t i = 0; i < r->configs_count; i++) {
        const struct describe_configs_response_config *from = &r->configs[i];
        d->configs.entries[i] = (struct client_config_entry){
            .name = from->name,
            .value = from->value,
            .source = from->config_source,
        };
    }
    return ERR_OK;
}

enum err
client_describe_topic_configs(struct client *c, const char *topic, struct client_configs **ret)
{
    const struct client_resource resource = {CLIENT_RESOURCE_TOPIC, topic};
    return client_describe_configs(c, &resource, ret);
}

enum err client_describe_configs(struct client *c,
                                 const struct client_resource *resource,
                                 struct client_configs **ret)
{
    struct description *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for the options");
    }
    arena_init(&d->arena, CLIENT_ARENA_SIZE_MAX);
    struct describe_configs_response response;
    enum err e = ask(c, resource, d, &response);
    if (e == ERR_OK && (response.results_count != 1 ||
                        !slice_equal_string(response.results[0].resource_name, resource->name))) {
        e = client_fail(c, ERR_CORRUPT, "the broker's answer is not about '%s'", resource->name);
    }
    if (e == ERR_OK && response.results[0].error_code != KAFKA_NONE) {
        e = refuse(c, resource, &response.results[0]);
    }
    if (e == ERR_OK) {
        e = take(c, &response.results[0], d);
    }
    if (e != ERR_OK) {
        client_configs_free(&d->configs);
        return e;
    }
    *ret = &d->configs;
    return ERR_OK;
}

void client_configs_free(struct client_configs *configs)
{
    struct description *d = (struct description *)configs; /* Its first member. */
    if (d != NULL) {
        client_call_done(&d->call);
        arena_done(&d->arena);
        free(d);
    }
}
