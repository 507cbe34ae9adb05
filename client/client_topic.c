#include "client/client_topic.h"

#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"

enum {
    EXPIRES_MS = 5 * 60 * 1000,
};

/* ---- asked by who waits ---- */

enum err client_topic_refresh(struct client *c, struct client_topic *t)
{
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct metadata_response m;
    struct client_call call = {.arena = &arena};
    const char *const name = t->name;
    enum err e = client_metadata_ask(c, &name, 1, &call, &m);
    if (e == ERR_OK) {
        char why[CLIENT_WHY_SIZE];
        e = client_topic_take(t, &m, why);
        if (e != ERR_OK) {
            e = client_fail(c, e, "%s", why);
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}

enum err client_topic_init(struct client *c, const char *name, struct client_topic *ret_topic)
{
    *ret_topic = (struct client_topic){.name = strdup(name)};
    list_init(&ret_topic->link);
    enum err e = ret_topic->name == NULL ? client_fail(c, ERR_BUSY, "no memory for a topic")
                                         : client_topic_refresh(c, ret_topic);
    if (e != ERR_OK) {
        client_topic_done(ret_topic);
    }
    return e;
}

void client_topic_done(struct client_topic *t)
{
    free(t->name);
    free(t->leaders);
    *t = (struct client_topic){0};
}

/* ---- followed ---- */

/* One Metadata request about all topics that are wanted. */
struct client_refresh {
    struct client *client;
    struct client_call call;
    struct arena arena;
    struct metadata_request request;
    struct metadata_response response;
};

void client_topic_follow(struct client *c, struct client_topic *t)
{
    t->expires_us = client_after_us(c, EXPIRES_MS);
    list_init(&t->link);
    list_push_back(&c->topics, &t->link);
}

void client_topic_unfollow(struct client_topic *t)
{
    list_remove(&t->link);
}

void client_topic_want(struct client *c, struct client_topic *t)
{
    if (!t->is_wanted) {
        t->is_wanted = true;
        t->retry_us = t->failures == 0 ? 0 : client_now_us(c) + client_back_off_us(c, t->failures);
    }
}

static struct client_topic *topic_at(struct list *node)
{
    return container_of(node, struct client_topic, link);
}

static void note_failure(struct client *c, struct client_topic *t, enum err e)
{
    t->failures++;
    t->unknown_count = e == ERR_TOPIC_UNKNOWN ? t->unknown_count + 1 : 0;
    t->is_wanted = false;
    client_topic_want(c, t);
}

/* The answer about one topic, as if only that had been asked for. */
static struct metadata_response answer_about(const struct client_topic *t,
                                             const struct metadata_response *m)
{
    struct metadata_response one = *m;
    one.topics_count = 0;
    for (size_t i = 0; i < m->topics_count && one.topics_count == 0; i++) {
        if (slice_equal_string(m->topics[i].name, t->name)) {
            one.topics = &m->topics[i];
            one.topics_count = 1;
        }
    }
    return one;
}

static void take_answer(struct client *c, struct client_topic *t, const struct metadata_response *m)
{
    const struct metadata_response one = answer_about(t, m);
    enum err e = client_topic_take(t, &one, t->why);
    if (e != ERR_OK) {
        note_failure(c, t, e);
        return;
    }
    t->is_wanted = false;
    t->failures = 0;
    t->unknown_count = 0;
    t->expires_us = client_after_us(c, EXPIRES_MS);
}

static void on_answer(struct client_call *call)
{
    struct client_refresh *x = container_of(call, struct client_refresh, call);
    struct client *c = x->client;
    enum err e = call->err;
    if (e == ERR_OK && x->response.error_code != KAFKA_NONE) {
        e = client_say(call->why,
                       client_err_of(x->response.error_code),
                       "the broker does not describe the cluster: %s",
                       client_error_text(x->response.error_code));
    }
    if (e == ERR_OK) {
        e = client_learn_nodes(c, &x->response, call->why);
    }
    list_for_each (node, &c->topics) {
        struct client_topic *t = topic_at(node);
        if (!t->is_asked) {
            continue;
        }
        t->is_asked = false;
        if (e == ERR_OK) {
            take_answer(c, t, &x->response);
        } else {
            memcpy(t->why, call->why, sizeof(t->why));
            note_failure(c, t, e);
        }
    }
    client_call_done(call);
    arena_done(&x->arena);
    free(x);
    c->refresh = NULL;
    client_changed(c);
}

/* About all topics that are due. False without memory. */
static bool ask(struct client *c, uint64_t now_us, size_t count)
{
    struct client_refresh *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return false;
    }
    x->client = c;
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    const char **names = arena_alloc_array(&x->arena, count, sizeof(*names));
    size_t i = 0;
    list_for_each (node, &c->topics) {
        struct client_topic *t = topic_at(node);
        t->is_asked = names != NULL && t->is_wanted && t->retry_us <= now_us;
        if (t->is_asked) {
            names[i++] = t->name;
        }
    }
    if (names == NULL || !client_metadata_fill(&x->arena, names, count, &x->request)) {
        arena_done(&x->arena);
        free(x);
        return false;
    }
    metadata_response_init(&x->response);
    x->call = (struct client_call){
        .api_key = API_METADATA,
        .node_id = CLIENT_NODE_ANY,
        .is_repeatable = true,
        .timeout_ms = c->timeout_ms,
        .request = &x->request,
        .fit = client_metadata_fit,
        .arena = &x->arena,
        .response = &x->response,
        .on_done = on_answer,
    };
    c->refresh = x;
    client_post(c, &x->call);
    return true;
}

void client_topics_turn(struct client *c, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(c);
    size_t due_count = 0;
    uint64_t first_us = UINT64_MAX;
    list_for_each (node, &c->topics) {
        struct client_topic *t = topic_at(node);
        if (!t->is_wanted && t->expires_us <= now_us) {
            client_topic_want(c, t);
        }
        const uint64_t when_us = t->is_wanted ? t->retry_us : t->expires_us;
        due_count += t->is_wanted && when_us <= now_us;
        first_us = when_us < first_us ? when_us : first_us;
    }
    if (c->refresh != NULL || c->is_stopping) {
        return;
    }
    if (due_count > 0 && !ask(c, now_us, due_count)) {
        first_us = now_us + CLIENT_BACKOFF_MS_MAX * 1000;
    }
    if (c->refresh == NULL && first_us < *next_us) {
        *next_us = first_us;
    }
}

void client_topics_stop(struct client *c)
{
    assert(list_is_empty(&c->topics));
    assert(c->refresh == NULL);
    (void)c;
}
