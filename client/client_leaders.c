#include "client/client_leaders.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/client_error.h"
#include "core/assert.h"
#include "kafka/proto/error_codes.h"

static bool is_open(const struct client_leaders_part *part)
{
    return !part->is_answered && part->err == ERR_OK;
}

/* Takes e, which the client has just said, for a part's end. */
static void refuse(struct client_leaders *x, struct client_leaders_part *part, enum err e)
{
    part->err = e;
    if (x->refusal == ERR_OK) {
        x->refusal = e;
        (void)snprintf(x->why, sizeof(x->why), "%s", client_why(x->client));
    }
}

static bool is_final(struct client_leaders_part *part, int16_t code)
{
    const bool is_damage = code == KAFKA_KAFKA_STORAGE_ERROR || code == KAFKA_CORRUPT_MESSAGE;
    const bool is_said_again = is_damage && part->is_damaged;
    part->is_damaged = is_damage;
    return is_said_again || !kafka_error_is_retriable(code);
}

static struct client_leaders_part *find_open(struct client_leaders *x, int32_t partition)
{
    for (size_t i = 0; i < x->parts_count; i++) {
        if (x->parts[i].partition == partition && is_open(&x->parts[i])) {
            return &x->parts[i];
        }
    }
    return NULL;
}

void client_leaders_take(struct client_leaders *x, int32_t partition, int16_t code, int64_t answer)
{
    struct client_leaders_part *part = find_open(x, partition);
    if (part == NULL) {
        return; /* Nobody asked. */
    }
    if (code == KAFKA_NONE) {
        part->is_answered = true;
        part->answer = answer;
    } else if (is_final(part, code)) {
        refuse(x,
               part,
               client_fail(x->client,
                           client_err_of(code),
                           "%s %s[%d]: %s",
                           x->api->failing,
                           x->topic.name,
                           partition,
                           client_error_text(code)));
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
        if (is_open(part) && x->topic.leaders[part->partition] == node_id) {
            part->is_asked = true;
            parts[(*ret_count)++] = part;
        }
    }
    return parts;
}

/* Asks the leader of a part. */
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
    }
    client_call_done(&call);
    return e;
}

/* The leader of a part was not heard: what it leads, and was asked of it, waits for the next round,
 * or is refused. */
static void note_silence(struct client_leaders *x, size_t first, enum err e)
{
    const int32_t node_id = x->topic.leaders[x->parts[first].partition];
    const bool is_curable = e == ERR_CLOSED || e == ERR_NOT_FOUND;
    if (is_curable && x->trouble_why[0] == '\0') {
        (void)snprintf(x->trouble_why, sizeof(x->trouble_why), "%s", client_why(x->client));
    }
    for (size_t i = first; i < x->parts_count; i++) {
        struct client_leaders_part *part = &x->parts[i];
        if (!is_open(part) || x->topic.leaders[part->partition] != node_id) {
            continue;
        }
        part->is_asked = true;
        if (is_curable) {
            part->trouble = e;
        } else {
            refuse(x, part, e);
        }
    }
}

/* Every leader once: one that is not heard hides nothing of the others. */
static void ask_leaders(struct client_leaders *x)
{
    x->trouble_why[0] = '\0';
    for (size_t i = 0; i < x->parts_count; i++) {
        x->parts[i].is_asked = false;
        x->parts[i].trouble = ERR_OK;
    }
    for (size_t i = 0; i < x->parts_count; i++) {
        if (is_open(&x->parts[i]) && !x->parts[i].is_asked) {
            const enum err e = ask_leader(x, i);
            if (e != ERR_OK) {
                note_silence(x, i, e);
            }
        }
    }
}

static bool has_open(const struct client_leaders *x)
{
    for (size_t i = 0; i < x->parts_count; i++) {
        if (is_open(&x->parts[i])) {
            return true;
        }
    }
    return false;
}

/* The time is up. */
static void refuse_open(struct client_leaders *x)
{
    struct client *c = x->client;
    for (size_t i = 0; i < x->parts_count; i++) {
        struct client_leaders_part *part = &x->parts[i];
        if (!is_open(part)) {
            continue;
        }
        refuse(x,
               part,
               part->trouble != ERR_OK ? client_fail(c, part->trouble, "%s", x->trouble_why)
                                       : client_fail(c,
                                                     ERR_NOT_LEADER,
                                                     "%s[%d] has no leader that answers",
                                                     x->topic.name,
                                                     part->partition));
    }
}

/* The same error for all that are open; the client has just said it. */
static void refuse_rest(struct client_leaders *x, enum err e)
{
    for (size_t i = 0; i < x->parts_count; i++) {
        if (is_open(&x->parts[i])) {
            refuse(x, &x->parts[i], e);
        }
    }
}

static void ask_until_answered(struct client_leaders *x)
{
    struct client *c = x->client;
    const uint64_t deadline_us = client_after_us(c, c->timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        ask_leaders(x);
        if (!has_open(x)) {
            return;
        }
        if (client_now_us(c) >= deadline_us) {
            refuse_open(x);
            return;
        }
        client_back_off(c, attempt, deadline_us);
        if (client_topic_refresh(c, &x->topic) == ERR_TOPIC_UNKNOWN) {
            refuse_rest(x, ERR_TOPIC_UNKNOWN);
            return;
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
        ask_until_answered(&x);
    } else {
        refuse_rest(&x, e);
    }
    client_topic_done(&x.topic);
    arena_done(&x.arena);
    return x.refusal == ERR_OK ? e : client_fail(c, x.refusal, "%s", x.why);
}
