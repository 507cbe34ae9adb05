/* Groups listed, and deleted. */
#include <stdlib.h>
#include <string.h>

#include "client/client_coordinator.h"
#include "client/client_error.h"
#include "client/client_group.h"
#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/list_groups.h"

/* ---- list ---- */

/* Everything that hangs on it lives in its arena. */
struct listing {
    struct client_group_list list; /* The first member. */
    size_t capacity;
    struct arena arena;
};

static struct slice copy(struct arena *a, struct slice s)
{
    const char *text = arena_strndup(a, s.data == NULL ? "" : (const char *)s.data, s.size);
    return slice_of(text, text == NULL ? 0 : s.size);
}

/* False without memory. */
static bool add_groups(struct listing *x, const struct list_groups_response *response)
{
    const size_t count = x->list.groups_count + response->groups_count;
    struct client_listed_group *grown =
        realloc(x->list.groups, (count + 1) * sizeof(*x->list.groups));
    if (grown == NULL) {
        return false;
    }
    x->list.groups = grown;
    for (size_t i = 0; i < response->groups_count; i++) {
        const struct list_groups_response_group *from = &response->groups[i];
        struct client_listed_group *to = &grown[x->list.groups_count];
        to->name = copy(&x->arena, from->group_id);
        to->type = copy(&x->arena, from->group_type);
        to->state = copy(&x->arena, from->group_state);
        to->protocol_type = copy(&x->arena, from->protocol_type);
        if (to->name.data == NULL || to->type.data == NULL || to->state.data == NULL ||
            to->protocol_type.data == NULL) {
            return false;
        }
        x->list.groups_count++;
    }
    return true;
}

/* *ret_code: the broker's answer, if it is one that may pass. */
static enum err
list_of(struct client *c, const struct client_broker *broker, struct listing *x, int16_t *ret_code)
{
    struct arena arena;
    struct list_groups_request request;
    struct list_groups_response response;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    list_groups_request_init(&request);
    list_groups_response_init(&response);
    struct client_call call = {
        .api_key = API_LIST_GROUPS,
        .node_id = broker->id,
        .request = &request,
        .arena = &arena,
        .response = &response,
    };
    enum err e = client_ask(c, &call);
    *ret_code = e == ERR_OK ? response.error_code : KAFKA_NONE;
    if (e == ERR_OK && *ret_code != KAFKA_NONE && !kafka_error_is_retriable(*ret_code)) {
        e = client_fail(c,
                        client_err_of(*ret_code),
                        "broker %d does not list its groups: %s",
                        broker->id,
                        client_error_text(*ret_code));
    }
    if (e == ERR_OK && *ret_code == KAFKA_NONE && !add_groups(x, &response)) {
        e = client_fail(c, ERR_BUSY, "no memory for a list of groups");
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

/* A broker that is still loading is waited for: half a list helps nobody. */
static enum err
list_patiently(struct client *c, const struct client_broker *broker, struct listing *x)
{
    const uint64_t deadline_us = client_after_us(c, c->timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        int16_t code = KAFKA_NONE;
        enum err e = list_of(c, broker, x, &code);
        if (e != ERR_OK || code == KAFKA_NONE) {
            return e;
        }
        if (client_now_us(c) >= deadline_us) {
            return client_fail(c,
                               client_err_of(code),
                               "broker %d does not list its groups: %s",
                               broker->id,
                               client_error_text(code));
        }
        client_back_off(c, attempt, deadline_us);
    }
}

static int by_name(const void *a, const void *b)
{
    const struct client_listed_group *left = a;
    const struct client_listed_group *right = b;
    return slice_compare(left->name, right->name);
}

enum err client_list_groups(struct client *c, struct client_group_list **ret_list)
{
    const char *const none[] = {NULL};
    struct client_cluster *cluster = NULL;
    struct listing *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for a list of groups");
    }
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    enum err e = client_describe(c, none, 0, &cluster);
    for (size_t i = 0; e == ERR_OK && i < cluster->brokers_count; i++) {
        e = list_patiently(c, &cluster->brokers[i], x);
    }
    client_cluster_free(cluster);
    if (e != ERR_OK) {
        client_group_list_free(&x->list);
        return e;
    }
    if (x->list.groups_count > 0) {
        qsort(x->list.groups, x->list.groups_count, sizeof(*x->list.groups), by_name);
    }
    *ret_list = &x->list;
    return ERR_OK;
}

void client_group_list_free(struct client_group_list *list)
{
    if (list == NULL) {
        return;
    }
    struct listing *x = (struct listing *)list;
    arena_done(&x->arena);
    free(x->list.groups);
    free(x);
}

/* ---- delete ---- */

static void init_delete(void *response)
{
    delete_groups_response_init(response);
}

static int16_t code_of_delete(const void *message, int16_t version)
{
    const struct delete_groups_response *response = message;
    (void)version;
    return response->results_count == 1 ? response->results[0].error_code
                                        : KAFKA_UNKNOWN_SERVER_ERROR;
}

/* Groups have coordinators of their own, so each is asked about by itself. */
static enum err delete_one(struct client *c, const char *name, struct client_topic_result *result)
{
    struct arena arena;
    struct slice group = slice_of_string(name);
    struct delete_groups_request request;
    struct delete_groups_response response;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    delete_groups_request_init(&request);
    request.groups_names = &group;
    request.groups_names_count = 1;
    struct client_group_question q = {
        .group = name,
        .api_key = API_DELETE_GROUPS,
        .request = &request,
        .response = &response,
        .init_response = init_delete,
        .code_of = code_of_delete,
        .arena = &arena,
    };
    int16_t code = KAFKA_NONE;
    enum err e = client_group_ask(c, &q, &code);
    if (e == ERR_OK) {
        client_set_result(result, code, (struct slice){0});
    }
    client_call_done(&q.call);
    arena_done(&arena);
    return e;
}

enum err client_delete_groups(struct client *c,
                              const char *const *names,
                              size_t names_count,
                              struct client_topic_result *ret_results)
{
    client_init_results(ret_results, names_count);
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < names_count; i++) {
        e = delete_one(c, names[i], &ret_results[i]);
    }
    return e;
}
