/* The broker assigns partitions of topics by their ids; requests and programs want names. */
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_member.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/metadata.h"

static struct client_member_topic *topic_at(struct list *node)
{
    return container_of(node, struct client_member_topic, link);
}

struct client_member_topic *client_member_topic_of(const struct client_member *m,
                                                   const struct uuid *id)
{
    list_for_each (node, &m->topics) {
        if (uuid_equal(&topic_at(node)->id, id)) {
            return topic_at(node);
        }
    }
    return NULL;
}

const struct client_member_topic *client_member_topic_at(const struct client_position *p)
{
    return container_of(p->topic, struct client_member_topic, topic);
}

int client_share_compare(const void *a, const void *b)
{
    const struct client_share *left = a;
    const struct client_share *right = b;
    const int order = memcmp(&left->topic_id, &right->topic_id, sizeof(left->topic_id));
    return order != 0 ? order
                      : (left->partition > right->partition) - (left->partition < right->partition);
}

bool client_member_target_has(const struct client_member *m, const struct client_position *p)
{
    const struct client_share key = {client_member_topic_at(p)->id, p->partition};
    return m->target_count > 0 &&
           bsearch(&key, m->target, m->target_count, sizeof(key), client_share_compare) != NULL;
}

void client_member_topic_free(struct client_member_topic *t)
{
    list_remove(&t->link);
    if (t->is_known) {
        client_topic_unfollow(&t->topic);
        client_topic_done(&t->topic);
    }
    free(t);
}

static bool is_used(const struct client_member *m, const struct client_member_topic *t)
{
    for (size_t i = 0; i < m->target_count; i++) {
        if (uuid_equal(&m->target[i].topic_id, &t->id)) {
            return true;
        }
    }
    for (size_t i = 0; i < m->reader->positions_count; i++) {
        if (m->reader->positions[i]->topic == &t->topic) {
            return true;
        }
    }
    return false;
}

bool client_member_topics_add(struct client_member *m,
                              const struct client_share *shares,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (client_member_topic_of(m, &shares[i].topic_id) != NULL) {
            continue;
        }
        struct client_member_topic *t = calloc(1, sizeof(*t));
        if (t == NULL) {
            return false;
        }
        t->id = shares[i].topic_id;
        list_init(&t->link);
        list_push_back(&m->topics, &t->link);
    }
    return true;
}

void client_member_topics_forget(struct client_member *m)
{
    list_for_each_safe (node, &m->topics) {
        if (!is_used(m, topic_at(node))) {
            client_member_topic_free(topic_at(node));
        }
    }
}

/* ---- asked by id ---- */

static const struct metadata_response_topic *find_answer(const struct metadata_response *m,
                                                         const struct uuid *id)
{
    for (size_t i = 0; i < m->topics_count; i++) {
        if (uuid_equal(&m->topics[i].topic_id, id)) {
            return &m->topics[i];
        }
    }
    return NULL;
}

/* A topic of the answer, by the name that it turns out to have. False: ask again. */
static bool
learn(struct client *c, struct client_member_topic *t, const struct metadata_response *response)
{
    const struct metadata_response_topic *found = find_answer(response, &t->id);
    char why[CLIENT_WHY_SIZE];
    if (found == NULL || slice_is_null(found->name) || found->name.size == 0) {
        return false;
    }
    t->topic =
        (struct client_topic){.name = strndup((const char *)found->name.data, found->name.size)};
    struct metadata_response one = *response;
    one.topics = (struct metadata_response_topic *)found;
    one.topics_count = 1;
    if (t->topic.name == NULL || client_topic_take(&t->topic, &one, why) != ERR_OK) {
        client_topic_done(&t->topic);
        return false;
    }
    t->is_known = true;
    client_topic_follow(c, &t->topic);
    return true;
}

static void on_topics(struct client_member *m, struct client_member_request *x)
{
    struct client *c = m->client;
    const struct metadata_response *response = x->call.response;
    char why[CLIENT_WHY_SIZE];
    const bool is_answer = x->call.err == ERR_OK && response->error_code == KAFKA_NONE &&
                           client_learn_nodes(c, response, why) == ERR_OK;
    list_for_each (node, &m->topics) {
        struct client_member_topic *t = topic_at(node);
        if (!t->is_asked) {
            continue;
        }
        t->is_asked = false;
        if (is_answer && learn(c, t, response)) {
            m->is_unsettled = true;
        } else {
            t->failures++;
            t->retry_us = client_now_us(c) + client_back_off_us(c, t->failures);
        }
    }
}

static bool is_due(const struct client_member_topic *t, uint64_t now_us)
{
    return !t->is_known && !t->is_asked && t->retry_us <= now_us;
}

/* False without memory. */
static bool
fill(struct client_member *m, struct client_member_request *x, uint64_t now_us, size_t count)
{
    struct metadata_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct metadata_response *response = arena_alloc(&x->arena, sizeof(*response));
    struct metadata_request_topic *topics = arena_alloc_array(&x->arena, count, sizeof(*topics));
    if (request == NULL || response == NULL || topics == NULL) {
        return false;
    }
    metadata_request_init(request);
    metadata_response_init(response);
    request->allow_auto_topic_creation = false;
    request->topics = topics;
    list_for_each (node, &m->topics) {
        struct client_member_topic *t = topic_at(node);
        if (is_due(t, now_us)) {
            t->is_asked = true;
            metadata_request_topic_init(&topics[request->topics_count]);
            topics[request->topics_count].name = (struct slice){0};
            topics[request->topics_count++].topic_id = t->id;
        }
    }
    x->call.api_key = API_METADATA;
    x->call.request = request;
    x->call.response = response;
    x->on_answer = on_topics;
    return true;
}

void client_member_topics_turn(struct client_member *m, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(m->client);
    size_t count = 0;
    list_for_each (node, &m->topics) {
        const struct client_member_topic *t = topic_at(node);
        count += is_due(t, now_us);
        if (!t->is_known && !t->is_asked && t->retry_us > now_us && t->retry_us < *next_us) {
            *next_us = t->retry_us;
        }
    }
    if (count == 0) {
        return;
    }
    struct client_member_request *x = client_member_request_new(m);
    if (x != NULL && fill(m, x, now_us, count)) {
        client_member_request_send(x, CLIENT_NODE_ANY);
        return;
    }
    if (x != NULL) {
        client_member_request_free(x);
    }
    const uint64_t retry_us = now_us + CLIENT_BACKOFF_MS_MAX * (uint64_t)1000;
    *next_us = retry_us < *next_us ? retry_us : *next_us;
}
