/* Offsets by time: ListOffsets, one request per leader. */
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/list_offsets.h"

enum {
    FOUND_PENDING = -3, /* No offset that an answer can hold. */
};

struct search {
    struct client *client;
    struct client_topic topic;
    struct client_offset *offsets; /* A copy: the caller's is written when all are known. */
    size_t count;
    struct arena arena;
};

static bool fill_request(struct search *s, int32_t node_id, struct list_offsets_request *request)
{
    list_offsets_request_init(request);
    request->replica_id = -1;
    request->timeout_ms = (int32_t)s->client->timeout_ms;
    struct list_offsets_request_topic *t = arena_alloc(&s->arena, sizeof(*t));
    struct list_offsets_request_partition *partitions =
        arena_alloc_array(&s->arena, s->count, sizeof(*partitions));
    if (t == NULL || partitions == NULL) {
        return false;
    }
    list_offsets_request_topic_init(t);
    t->name = slice_of_string(s->topic.name);
    t->partitions = partitions;
    for (size_t i = 0; i < s->count; i++) {
        const struct client_offset *o = &s->offsets[i];
        if (o->offset != FOUND_PENDING || s->topic.leaders[o->partition] != node_id) {
            continue;
        }
        struct list_offsets_request_partition *one = &partitions[t->partitions_count++];
        list_offsets_request_partition_init(one);
        one->partition_index = o->partition;
        one->timestamp = o->timestamp;
    }
    request->topics = t;
    request->topics_count = 1;
    return true;
}

static enum err take_partition(struct search *s,
                               const struct list_offsets_response_partition *answer)
{
    const int16_t code = answer->error_code;
    if (code != KAFKA_NONE && kafka_error_is_retriable(code)) {
        return ERR_OK; /* Stays pending. */
    }
    if (code != KAFKA_NONE) {
        return client_fail(s->client->env,
                           client_err_of(code),
                           "cannot find an offset in %s[%d]: %s",
                           s->topic.name,
                           answer->partition_index,
                           client_error_text(code));
    }
    for (size_t i = 0; i < s->count; i++) {
        if (s->offsets[i].partition == answer->partition_index &&
            s->offsets[i].offset == FOUND_PENDING) {
            s->offsets[i].offset = answer->offset;
            break;
        }
    }
    return ERR_OK;
}

/* ERR_CLOSED, ERR_TIMED_OUT and ERR_NOT_FOUND: worth another try. */
static enum err ask_node(struct search *s, int32_t node_id)
{
    struct client *c = s->client;
    struct list_offsets_request request;
    if (!fill_request(s, node_id, &request)) {
        return client_fail(c->env, ERR_BUSY, "no memory for the request");
    }
    if (request.topics[0].partitions_count == 0) {
        return ERR_OK;
    }
    struct list_offsets_response response;
    list_offsets_response_init(&response);
    const struct client_call call = {
        .api_key = API_LIST_OFFSETS,
        .request = &request,
        .arena = &s->arena,
        .response = &response,
    };
    struct client_conn *conn = NULL;
    enum err e = client_link_to(c, node_id, &conn);
    if (e == ERR_OK) {
        e = client_conn_call(conn, &call, client_deadline_us(c->env, c->timeout_ms));
    }
    for (size_t i = 0; e == ERR_OK && i < response.topics_count; i++) {
        const struct list_offsets_response_topic *t = &response.topics[i];
        for (size_t j = 0; e == ERR_OK && j < t->partitions_count; j++) {
            e = take_partition(s, &t->partitions[j]);
        }
    }
    return e;
}

static size_t count_pending(const struct search *s, int32_t *ret_partition)
{
    size_t pending = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->offsets[i].offset == FOUND_PENDING) {
            *ret_partition = s->offsets[i].partition;
            pending++;
        }
    }
    return pending;
}

static enum err run_search(struct search *s)
{
    struct client *c = s->client;
    const uint64_t deadline_us = client_deadline_us(c->env, c->timeout_ms);
    for (uint32_t attempt = 1;; attempt++) {
        enum err e = ERR_OK;
        for (size_t n = 0; e == ERR_OK && n < c->nodes_count; n++) {
            arena_reset(&s->arena);
            e = ask_node(s, c->nodes[n].id);
        }
        int32_t partition = -1;
        const size_t pending = count_pending(s, &partition);
        const bool is_curable = e == ERR_OK || e == ERR_CLOSED || e == ERR_NOT_FOUND;
        if (!is_curable || (e == ERR_OK && pending == 0)) {
            return e;
        }
        if (clock_now_us(c->env->clock) >= deadline_us) {
            return e != ERR_OK ? e
                               : client_fail(c->env,
                                             ERR_NOT_LEADER,
                                             "%s[%d] has no leader that answers",
                                             s->topic.name,
                                             partition);
        }
        client_back_off(c, attempt, deadline_us);
        e = client_topic_refresh(c, &s->topic);
        if (e == ERR_TOPIC_UNKNOWN) {
            return e;
        }
    }
}

enum err client_find_offsets(struct client *c,
                             const char *topic,
                             struct client_offset *offsets,
                             size_t offsets_count)
{
    struct search s = {.client = c, .count = offsets_count};
    s.offsets = calloc(offsets_count + 1, sizeof(*s.offsets));
    if (s.offsets == NULL) {
        return client_fail(c->env, ERR_BUSY, "no memory to look for offsets");
    }
    arena_init(&s.arena, CLIENT_ARENA_SIZE_MAX);
    enum err e = client_topic_init(c, topic, &s.topic);
    for (size_t i = 0; e == ERR_OK && i < offsets_count; i++) {
        s.offsets[i] = offsets[i];
        s.offsets[i].offset = FOUND_PENDING;
        if (offsets[i].partition < 0 || offsets[i].partition >= s.topic.partitions_count) {
            e = client_fail(c->env,
                            ERR_INVALID,
                            "topic '%s' has no partition %d, only 0 to %d",
                            topic,
                            offsets[i].partition,
                            s.topic.partitions_count - 1);
        }
    }
    if (e == ERR_OK) {
        e = run_search(&s);
    }
    for (size_t i = 0; e == ERR_OK && i < offsets_count; i++) {
        offsets[i].offset = s.offsets[i].offset;
    }
    client_topic_done(&s.topic);
    arena_done(&s.arena);
    free(s.offsets);
    return e;
}
