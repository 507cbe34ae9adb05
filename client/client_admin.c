/* Topics made and deleted. */
#include <stdio.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/error_codes.h"

void client_init_results(struct client_topic_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        results[i].err = ERR_CORRUPT;
        (void)snprintf(
            results[i].why, CLIENT_WHY_SIZE, "the broker's answer does not tell what became of it");
    }
}

void client_set_result(struct client_topic_result *result, int16_t code, struct slice message)
{
    result->err = client_err_of(code);
    result->why[0] = '\0';
    if (code == KAFKA_NONE) {
        return;
    }
    const int size = message.size > INT16_MAX ? INT16_MAX : (int)message.size;
    (void)client_say(result->why, result->err, "%.*s", size, (const char *)message.data);
    if (result->why[0] == '\0') {
        (void)client_say(result->why, result->err, "%s", client_error_text(code));
    }
}

static bool fill_configs(struct arena *arena,
                         const struct client_new_topic *from,
                         struct create_topics_request_topic *to)
{
    to->configs = arena_alloc_array(arena, from->configs_count, sizeof(*to->configs));
    if (to->configs == NULL) {
        return false;
    }
    to->configs_count = from->configs_count;
    for (size_t i = 0; i < from->configs_count; i++) {
        create_topics_request_config_init(&to->configs[i]);
        to->configs[i].name = slice_of_string(from->configs[i].name);
        to->configs[i].value = slice_of_string(from->configs[i].value);
    }
    return true;
}

static bool fill_create(struct arena *arena,
                        const struct client_new_topic *topics,
                        size_t topics_count,
                        struct create_topics_request *request)
{
    request->topics = arena_alloc_array(arena, topics_count, sizeof(*request->topics));
    if (request->topics == NULL) {
        return false;
    }
    request->topics_count = topics_count;
    for (size_t i = 0; i < topics_count; i++) {
        struct create_topics_request_topic *t = &request->topics[i];
        create_topics_request_topic_init(t);
        t->name = slice_of_string(topics[i].name);
        t->num_partitions = topics[i].partitions_count;
        t->replication_factor = topics[i].replication_factor;
        if (!fill_configs(arena, &topics[i], t)) {
            return false;
        }
    }
    return true;
}

enum err client_create_topics(struct client *c,
                              const struct client_new_topic *topics,
                              size_t topics_count,
                              struct client_topic_result *ret_results)
{
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct create_topics_request request;
    create_topics_request_init(&request);
    request.timeout_ms = (int32_t)c->timeout_ms;
    struct create_topics_response response;
    create_topics_response_init(&response);
    struct client_call call = {
        .api_key = API_CREATE_TOPICS,
        .node_id = CLIENT_NODE_ANY,
        .request = &request,
        .arena = &arena,
        .response = &response,
    };
    enum err e = fill_create(&arena, topics, topics_count, &request)
                     ? client_ask(c, &call)
                     : client_fail(c, ERR_BUSY, "no memory for the request");
    if (e == ERR_OK) {
        client_init_results(ret_results, topics_count);
        for (size_t i = 0; i < topics_count * response.topics_count; i++) {
            const struct create_topics_response_topic *t =
                &response.topics[i % response.topics_count];
            const size_t at = i / response.topics_count;
            if (slice_equal_string(t->name, topics[at].name)) {
                client_set_result(&ret_results[at], t->error_code, t->error_message);
            }
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

/* Names stand in another field since version 6. */
static void fit_delete(void *message, int16_t version)
{
    const int16_t topics_version_min = 6;
    struct delete_topics_request *request = message;
    request->topics_count = version >= topics_version_min ? request->topic_names_count : 0;
}

static bool fill_delete(struct arena *arena,
                        const char *const *names,
                        size_t names_count,
                        struct delete_topics_request *request)
{
    request->topics = arena_alloc_array(arena, names_count, sizeof(*request->topics));
    request->topic_names = arena_alloc_array(arena, names_count, sizeof(*request->topic_names));
    if (request->topics == NULL || request->topic_names == NULL) {
        return false;
    }
    for (size_t i = 0; i < names_count; i++) {
        delete_topics_request_topic_init(&request->topics[i]);
        request->topics[i].name = slice_of_string(names[i]);
        request->topic_names[i] = slice_of_string(names[i]);
    }
    request->topic_names_count = names_count;
    return true;
}

enum err client_delete_topics(struct client *c,
                              const char *const *names,
                              size_t names_count,
                              struct client_topic_result *ret_results)
{
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct delete_topics_request request;
    delete_topics_request_init(&request);
    request.timeout_ms = (int32_t)c->timeout_ms;
    struct delete_topics_response response;
    delete_topics_response_init(&response);
    struct client_call call = {
        .api_key = API_DELETE_TOPICS,
        .node_id = CLIENT_NODE_ANY,
        .request = &request,
        .fit = fit_delete,
        .arena = &arena,
        .response = &response,
    };
    enum err e = fill_delete(&arena, names, names_count, &request)
                     ? client_ask(c, &call)
                     : client_fail(c, ERR_BUSY, "no memory for the request");
    if (e == ERR_OK) {
        client_init_results(ret_results, names_count);
        for (size_t i = 0; i < names_count * response.responses_count; i++) {
            const struct delete_topics_response_topic *t =
                &response.responses[i % response.responses_count];
            const size_t at = i / response.responses_count;
            if (slice_equal_string(t->name, names[at])) {
                client_set_result(&ret_results[at], t->error_code, t->error_message);
            }
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}
