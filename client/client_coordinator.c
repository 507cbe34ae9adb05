#include "client/client_coordinator.h"

#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/find_coordinator.h"

enum {
    KEYS_VERSION_MIN = 4, /* With a list of keys. */
};

/* One key stands in a field of its own, or in a list. */
static void fit(void *message, int16_t version)
{
    struct find_coordinator_request *request = message;
    const struct slice group = request->coordinator_keys[0];
    request->coordinator_keys_count = version >= KEYS_VERSION_MIN;
    request->key = version >= KEYS_VERSION_MIN ? slice_of_string("") : group;
}

bool client_coordinator_fill(struct client_call *call, struct arena *arena, const char *group)
{
    struct find_coordinator_request *request = arena_alloc(arena, sizeof(*request));
    struct find_coordinator_response *response = arena_alloc(arena, sizeof(*response));
    struct slice *key = arena_alloc(arena, sizeof(*key));
    if (request == NULL || response == NULL || key == NULL) {
        return false;
    }
    find_coordinator_request_init(request);
    find_coordinator_response_init(response);
    *key = slice_of(arena_strndup(arena, group, strlen(group)), strlen(group));
    if (key->data == NULL) {
        return false;
    }
    request->coordinator_keys = key;
    request->coordinator_keys_count = 1;
    call->api_key = API_FIND_COORDINATOR;
    call->request = request;
    call->fit = fit;
    call->response = response;
    return true;
}

/* ---- for who waits ---- */

/* What an answer says, in either form. */
static struct find_coordinator_response_coordinator found_by(const struct client_call *call)
{
    const struct find_coordinator_response *response = call->response;
    assert(response != NULL);
    if (call->version >= KEYS_VERSION_MIN) {
        return response->coordinators_count == 1
                   ? response->coordinators[0]
                   : (struct find_coordinator_response_coordinator){
                         .error_code = KAFKA_COORDINATOR_NOT_AVAILABLE};
    }
    return (struct find_coordinator_response_coordinator){
        .node_id = response->node_id,
        .host = response->host,
        .port = response->port,
        .error_code = response->error_code,
    };
}

static enum err find(struct client *c, const char *group, int32_t *ret_node_id, int16_t *ret_code)
{
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct client_call call = {.node_id = CLIENT_NODE_ANY, .is_repeatable = true, .arena = &arena};
    enum err e = client_coordinator_fill(&call, &arena, group)
                     ? client_ask(c, &call)
                     : client_fail(c, ERR_BUSY, "no memory for the request");
    if (e == ERR_OK) {
        const struct find_coordinator_response_coordinator found = found_by(&call);
        *ret_code = found.error_code;
        *ret_node_id = found.node_id;
        if (found.error_code == KAFKA_NONE) {
            char why[CLIENT_WHY_SIZE];
            client_lock(c);
            e = client_learn_node(c, found.node_id, found.host, found.port, why);
            client_unlock(c);
            e = e == ERR_OK ? e : client_fail(c, e, "%s", why);
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

static enum err attempt(struct client *c, struct client_group_question *q, int16_t *ret_code)
{
    int32_t node_id = -1;
    enum err e = find(c, q->group, &node_id, ret_code);
    if (e != ERR_OK || *ret_code != KAFKA_NONE) {
        return e;
    }
    client_call_done(&q->call);
    q->init_response(q->response);
    q->call = (struct client_call){
        .api_key = q->api_key,
        .version_max = q->version_max,
        .node_id = node_id,
        .request = q->request,
        .fit = q->fit,
        .arena = q->arena,
        .response = q->response,
    };
    e = client_ask(c, &q->call);
    *ret_code = e == ERR_OK ? q->code_of(q->response, q->call.version) : KAFKA_NONE;
    return e;
}

enum err client_group_ask(struct client *c, struct client_group_question *q, int16_t *ret_code)
{
    const uint64_t deadline_us = client_after_us(c, c->timeout_ms);
    for (uint32_t i = 1;; i++) {
        int16_t code = KAFKA_NONE;
        enum err e = attempt(c, q, &code);
        const bool is_curable =
            e == ERR_OK ? code != KAFKA_NONE && kafka_error_is_retriable(code)
                        : (e == ERR_CLOSED && client_was_connected(c)) || e == ERR_NOT_FOUND;
        if (!is_curable || client_now_us(c) >= deadline_us) {
            *ret_code = code;
            return e;
        }
        client_back_off(c, i, deadline_us);
    }
}
