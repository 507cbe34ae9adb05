/* Life of a member of a group, and the calls that only look. */
#include "client/client_member.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    POLL_INTERVAL_MS_DEFAULT = 300000,
    CLOSE_MS_DEFAULT = 5000,
    TEXTS_SIZE_MAX = 16 << 20,
};

/* ---- requests ---- */

struct client_member_request *client_member_request_new(struct client_member *m)
{
    struct client_member_request *x = calloc(1, sizeof(*x));
    if (x != NULL) {
        list_init(&x->link);
        x->client = m->client;
        x->member = m;
        arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    }
    return x;
}

void client_member_request_free(struct client_member_request *x)
{
    client_call_done(&x->call);
    arena_done(&x->arena);
    list_remove(&x->link);
    free(x);
}

static void on_done(struct client_call *call)
{
    struct client_member_request *x = container_of(call, struct client_member_request, call);
    struct client *c = x->client;
    if (x->member != NULL) {
        x->on_answer(x->member, x);
        client_changed(c);
    }
    client_member_request_free(x);
}

void client_member_request_send(struct client_member_request *x, int32_t node_id)
{
    struct client_member *m = x->member;
    x->call.node_id = node_id;
    x->call.owner = node_id == CLIENT_NODE_ANY ? NULL : m;
    x->call.is_repeatable = node_id == CLIENT_NODE_ANY;
    /* A coordinator may keep a heartbeat for as long as it wants to hear of none. */
    x->call.timeout_ms = m->client->timeout_ms + m->interval_ms;
    x->call.arena = &x->arena;
    x->call.on_done = on_done;
    list_push_back(&m->requests, &x->link);
    client_post(m->client, &x->call);
}

static void abandon_requests(struct client_member *m)
{
    list_for_each_safe (node, &m->requests) {
        struct client_member_request *x = container_of(node, struct client_member_request, link);
        x->member = NULL;
        list_remove(&x->link);
        if (client_cancel(&x->call)) {
            client_member_request_free(x);
        }
    }
}

/* ---- life ---- */

/* NULL stays NULL. False without memory. */
static bool copy_text(struct arena *arena, const char **text)
{
    if (*text == NULL) {
        return true;
    }
    *text = arena_strndup(arena, *text, strlen(*text));
    return *text != NULL;
}

static bool copy_options(struct client_member *m, const struct client_member_options *options)
{
    struct client_member_options *o = &m->options;
    *o = *options;
    o->poll_interval_ms_max =
        o->poll_interval_ms_max == 0 ? POLL_INTERVAL_MS_DEFAULT : o->poll_interval_ms_max;
    const char **topics = arena_alloc_array(&m->arena, o->topics_count, sizeof(*topics));
    bool is_whole = topics != NULL && copy_text(&m->arena, &o->group) &&
                    copy_text(&m->arena, &o->pattern) && copy_text(&m->arena, &o->instance_id) &&
                    copy_text(&m->arena, &o->rack) && copy_text(&m->arena, &o->assignor);
    for (size_t i = 0; is_whole && i < o->topics_count; i++) {
        topics[i] = options->topics[i];
        is_whole = copy_text(&m->arena, &topics[i]);
    }
    o->topics = topics;
    return is_whole;
}

static struct client_member *create(struct client *c, const struct client_member_options *options)
{
    struct client_member *m = calloc(1, sizeof(*m));
    if (m == NULL) {
        return NULL;
    }
    m->client = c;
    m->coordinator_id = -1;
    m->leaving_us = UINT64_MAX;
    list_init(&m->link);
    list_init(&m->requests);
    list_init(&m->topics);
    list_init(&m->commits);
    list_init(&m->done_commits);
    arena_init(&m->arena, TEXTS_SIZE_MAX);
    m->reader = copy_options(m, options) ? client_consumer_create(c, &options->reading) : NULL;
    if (m->reader == NULL) {
        arena_done(&m->arena);
        free(m);
        return NULL;
    }
    m->reader->member = m;
    return m;
}

enum err client_member_new(struct client *c,
                           const struct client_member_options *options,
                           struct client_member **ret_member)
{
    if (options->group == NULL || options->group[0] == '\0') {
        return client_fail(c, ERR_INVALID, "a member of a group needs the group's name");
    }
    if (options->topics_count == 0 && options->pattern == NULL) {
        return client_fail(
            c, ERR_INVALID, "a member of group '%s' needs topics, or a pattern", options->group);
    }
    struct client_member *m = create(c, options);
    if (m == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for a member of group '%s'", options->group);
    }
    client_lock(c);
    const struct uuid id = rand_uuid(c->env->rand);
    uuid_format(&id, m->id);
    m->auto_commit_us = client_after_us(c, m->options.auto_commit_ms);
    list_push_back(&c->members, &m->link);
    client_unlock(c);
    *ret_member = m;
    return ERR_OK;
}

void client_member_free(struct client_member *m)
{
    if (m == NULL) {
        return;
    }
    struct client *c = m->client;
    if (!m->is_closed) {
        (void)client_member_close(m, CLOSE_MS_DEFAULT);
    }
    client_lock(c);
    list_remove(&m->link);
    abandon_requests(m);
    client_links_drop(c, m);
    client_wake(c, 0);
    client_unlock(c);
    client_consumer_free(m->reader);
    client_lock(c);
    while (!list_is_empty(&m->topics)) {
        client_member_topic_free(container_of(m->topics.next, struct client_member_topic, link));
    }
    client_unlock(c);
    while (!list_is_empty(&m->commits)) {
        client_commit_free(m, container_of(m->commits.next, struct client_commit, link));
    }
    while (!list_is_empty(&m->done_commits)) {
        client_commit_free(m, container_of(m->done_commits.next, struct client_commit, link));
    }
    arena_done(&m->arena);
    free(m->target);
    free(m->told);
    free(m->listed);
    free(m);
}

/* ---- partitions ---- */

struct client_position *client_member_find(struct client_member *m,
                                           const struct client_topic_partition *partition)
{
    const struct client_consumer *s = m->reader;
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->partition == partition->partition && strcmp(p->topic->name, partition->topic) == 0) {
            return p->is_revoked ? NULL : p;
        }
    }
    return NULL;
}

/* With the lock, which is left again without the position. */
static enum err lock_position(struct client_member *m,
                              const struct client_topic_partition *partition,
                              struct client_position **ret)
{
    client_lock(m->client);
    *ret = client_member_find(m, partition);
    if (*ret != NULL) {
        return ERR_OK;
    }
    client_unlock(m->client);
    return client_fail(m->client,
                       ERR_INVALID,
                       "%s[%d] is not assigned to this member of group '%s' now",
                       partition->topic,
                       partition->partition,
                       m->options.group);
}

enum err client_member_seek(struct client_member *m,
                            const struct client_topic_partition *partition,
                            int64_t offset)
{
    struct client_position *p = NULL;
    if (offset < CLIENT_OFFSET_START) {
        return client_fail(m->client, ERR_INVALID, "%lld is no offset", (long long)offset);
    }
    enum err e = lock_position(m, partition, &p);
    if (e != ERR_OK) {
        return e;
    }
    client_position_move(m->reader,
                         p,
                         offset >= 0 ? offset : CLIENT_OFFSET_UNKNOWN,
                         offset >= 0 ? CLIENT_OFFSET_UNKNOWN : offset);
    client_unlock(m->client);
    return ERR_OK;
}

static enum err
set_paused(struct client_member *m, const struct client_topic_partition *partition, bool is_paused)
{
    struct client_position *p = NULL;
    enum err e = lock_position(m, partition, &p);
    if (e == ERR_OK) {
        client_position_pause(m->reader, p, is_paused);
        client_unlock(m->client);
    }
    return e;
}

enum err client_member_pause(struct client_member *m,
                             const struct client_topic_partition *partition)
{
    return set_paused(m, partition, true);
}

enum err client_member_resume(struct client_member *m,
                              const struct client_topic_partition *partition)
{
    return set_paused(m, partition, false);
}

int64_t client_member_position(struct client_member *m,
                               const struct client_topic_partition *partition)
{
    client_lock(m->client);
    const struct client_position *p = client_member_find(m, partition);
    const int64_t offset = p != NULL && p->offset >= 0 ? client_position_offset(m->reader, p) : -1;
    client_unlock(m->client);
    return offset;
}

int64_t client_member_end(struct client_member *m, const struct client_topic_partition *partition)
{
    client_lock(m->client);
    const struct client_position *p = client_member_find(m, partition);
    const int64_t end = p != NULL && p->end >= 0 ? p->end : -1;
    client_unlock(m->client);
    return end;
}

bool client_member_has_buffered(struct client_member *m)
{
    return client_consumer_has_buffered(m->reader);
}

const struct client_topic_partition *client_member_failed(struct client_member *m)
{
    return m->failed.topic == NULL ? NULL : &m->failed;
}

const char *client_member_id(const struct client_member *m)
{
    return m->id;
}

size_t client_member_tell(const struct client_member *m,
                          bool (*is_told)(const struct client_position *p),
                          struct client_topic_partition *ret)
{
    const struct client_consumer *s = m->reader;
    size_t count = 0;
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct client_position *p = s->positions[i];
        if (is_told(p)) {
            ret[count++] = (struct client_topic_partition){p->topic->name, p->partition};
        }
    }
    return count;
}

static bool is_held(const struct client_position *p)
{
    return !p->is_revoked;
}

void client_member_assignment(struct client_member *m,
                              const struct client_topic_partition **ret_partitions,
                              size_t *ret_count)
{
    client_lock(m->client);
    *ret_count = client_member_tell(m, is_held, m->listed);
    *ret_partitions = m->listed;
    client_unlock(m->client);
}
