#include "client/client_leaders.h"

#include <stdlib.h>

#include "client/client_error.h"
#include "core/assert.h"
#include "kafka/proto/error_codes.h"

void client_leaders_take(struct client_leaders *x, int32_t partition, int16_t code, int64_t answer)
{
    if (code != KAFKA_NONE && kafka_error_is_retriable(code)) {
        return;
    }
    if (code != KAFKA_NONE) {
        if (x->refusal == ERR_OK) {
            x->refusal = client_fail(x->client->env,
                                     client_err_of(code),
                                     "%s %s[%d]: %s",
                                     x->api->failing,
                                     x->topic.name,
                                     partition,
                                     client_error_text(code));
        }
        return;
    }
    for (size_t i = 0; i < x->parts_count; i++) {
        struct client_leaders_part *part = &x->parts[i];
        if (part->partition == partition && !part->is_answered) {
            part->is_answered = true;
            part->answer = answer;
            break;
        }
    }
}

/* ERR_CLOSED and ERR_NOT_FOUND are worth another try, unless a broker said so. */
static enum err ask_node(struct client_leaders *x, int32_t node_id)
{
    struct client *c = x->client;
    arena_reset(&x->arena);
    const struct client_leaders_part **parts =
        arena_alloc(&x->arena, x->parts_count * sizeof(*parts));
    size_t count = 0;
    for (size_t i = 0; parts != NULL && i < x->parts_count; i++) {
        const struct client_leaders_part *part = &x->parts[i];
        if (!part->is_answered && x->topic.leaders[part->partition] == node_id) {
            parts[count++] = part;
        }
    }
    if (parts != NULL && count == 0) {
        return ERR_OK;
    }
    const struct client_call call = {
        .api_key = x->api->api_key,
        .request = parts == NULL ? NULL : x->api->new_request(x, parts, count),
        .arena = &x->arena,
        .response = x->api->new_response(x),
    };
    if (call.request == NULL || call.response == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory for the request");
    }
    struct client_conn *conn = NULL;
    enum err e = client_link_to(c, node_id, &conn);
    if (e == ERR_OK) {
        e = client_conn_call(conn, &call, client_deadline_us(c->env, c->timeout_ms));
    }
    if (e == ERR_OK) {
        x->api->read_response(x, call.response);
        e = x->refusal;
    }
    return e;
}

static const struct client_leaders_part *first_unanswered(const struct client_leaders *x)
{
    for (size_t i = 0; i < x->parts_count; i++) {
        if (!x->parts[i].is_answered) {
            return &x->parts[i];
        }
    }
    return NULL;
}

static enum err ask_until_answered(struct client_leaders *x)
{
    struct client *c = x->client;
    const uint64_t deadline_us = client_deadline_us(c->env, c->timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        enum err e = ERR_OK;
        for (size_t n = 0; e == ERR_OK && n < c->nodes_count; n++) {
            e = ask_node(x, c->nodes[n].id);
        }
        const struct client_leaders_part *missing = first_unanswered(x);
        const bool is_curable =
            x->refusal == ERR_OK && (e == ERR_OK || e == ERR_CLOSED || e == ERR_NOT_FOUND);
        if (!is_curable || (e == ERR_OK && missing == NULL)) {
            return e;
        }
        if (clock_now_us(c->env->clock) >= deadline_us) {
            return e != ERR_OK ? e
                               : client_fail(c->env,
                                             ERR_NOT_LEADER,
                                             "%s[%d] has no leader that answers",
                                             x->topic.name,
                                             missing->partition);
        }
        client_back_off(c, attempt, deadline_us);
        e = client_topic_refresh(c, &x->topic);
        if (e == ERR_TOPIC_UNKNOWN) {
            return e;
        }
    }
}

enum err client_leaders_ask(struct client *c,
                            const struct client_leaders_api *api,
                            const char *topic,
                            struct client_leaders_part *parts,
                            size_t parts_count)
{
    struct client_leaders x = {.api = api, .parts = parts, .parts_count = parts_count, .client = c};
    arena_init(&x.arena, CLIENT_ARENA_SIZE_MAX);
    enum err e = client_topic_init(c, topic, &x.topic);
    for (size_t i = 0; e == ERR_OK && i < parts_count; i++) {
        if (parts[i].partition < 0 || parts[i].partition >= x.topic.partitions_count) {
            e = client_fail(c->env,
                            ERR_INVALID,
                            "topic '%s' has no partition %d, only 0 to %d",
                            topic,
                            parts[i].partition,
                            x.topic.partitions_count - 1);
        }
    }
    if (e == ERR_OK) {
        e = ask_until_answered(&x);
    }
    client_topic_done(&x.topic);
    arena_done(&x.arena);
    return e;
}
