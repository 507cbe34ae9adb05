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
            x->refusal = client_fail(x->client,
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

/* All parts that the leader of this one leads; parts[0] is it. NULL without memory. */
static const struct client_leaders_part **
parts_with(struct client_leaders *x, size_t first, size_t *ret_count)
{
    const int32_t node_id = x->topic.leaders[x->parts[first].partition];
    const struct client_leaders_part **parts =
        arena_alloc_array(&x->arena, x->parts_count, sizeof(*parts));
    *ret_count = 0;
    for (size_t i = first; parts != NULL && i < x->parts_count; i++) {
        struct client_leaders_part *part = &x->parts[i];
        if (!part->is_answered && x->topic.leaders[part->partition] == node_id) {
            part->is_asked = true;
            parts[(*ret_count)++] = part;
        }
    }
    return parts;
}

/* Asks the leader of a part. ERR_CLOSED and ERR_NOT_FOUND are worth another try, unless a broker
 * said so. */
static enum err ask_leader(struct client_leaders *x, size_t first)
{
    struct client *c = x->client;
    arena_reset(&x->arena);
    size_t count = 0;
    const struct client_leaders_part **parts = parts_with(x, first, &count);
    struct client_call call = {
        .api_key = x->api->api_key,
        .node_id = x->topic.leaders[x->parts[first].partition],
        .request = parts == NULL ? NULL : x->api->new_request(x, parts, count),
        .arena = &x->arena,
        .response = x->api->new_response(x),
    };
    if (call.request == NULL || call.response == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for the request");
    }
    if (call.node_id < 0) {
        return ERR_OK; /* It has none: still unanswered. */
    }
    enum err e = client_ask(c, &call);
    if (e == ERR_OK) {
        x->api->read_response(x, call.response);
        e = x->refusal;
    }
    client_call_done(&call);
    return e;
}

/* Every leader once. */
static enum err ask_leaders(struct client_leaders *x)
{
    for (size_t i = 0; i < x->parts_count; i++) {
        x->parts[i].is_asked = false;
    }
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < x->parts_count; i++) {
        if (!x->parts[i].is_answered && !x->parts[i].is_asked) {
            e = ask_leader(x, i);
        }
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
    const uint64_t deadline_us = client_after_us(c, c->timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        enum err e = ask_leaders(x);
        const struct client_leaders_part *missing = first_unanswered(x);
        const bool is_curable =
            x->refusal == ERR_OK && (e == ERR_OK || e == ERR_CLOSED || e == ERR_NOT_FOUND);
        if (!is_curable || (e == ERR_OK && missing == NULL)) {
            return e;
        }
        if (client_now_us(c) >= deadline_us) {
            return e != ERR_OK ? e
                               : client_fail(c,
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
            e = client_fail(c,
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
