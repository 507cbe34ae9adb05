/* What the client learns of the cluster: brokers, topics, leaders. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_error.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"

enum {
    LEADERS_POLL_MS = 20,
};

/* False for an address that makes no sense. */
static bool set_node(struct client_node *node, int32_t id, struct slice host, int32_t port)
{
    if (host.size == 0 || host.size >= CLIENT_HOST_SIZE || port <= 0 || port > UINT16_MAX ||
        id < 0) {
        return false;
    }
    *node = (struct client_node){.id = id, .address.port = (uint16_t)port};
    memcpy(node->address.host, host.data, host.size);
    return true;
}

enum err client_learn_node(
    struct client *c, int32_t node_id, struct slice host, int32_t port, char why[CLIENT_WHY_SIZE])
{
    struct client_node node;
    if (!set_node(&node, node_id, host, port)) {
        return client_say(why, ERR_CORRUPT, "node %d has an address that is none", node_id);
    }
    for (size_t i = 0; i < c->nodes_count; i++) {
        if (c->nodes[i].id == node_id) {
            c->nodes[i] = node;
            return ERR_OK;
        }
    }
    struct client_node *grown = realloc(c->nodes, (c->nodes_count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return client_say(why, ERR_BUSY, "no memory for the list of brokers");
    }
    c->nodes = grown;
    c->nodes[c->nodes_count++] = node;
    return ERR_OK;
}

/* Brokers whose address makes no sense are left out: their partitions then have no reachable
 * leader, which is said when one is needed. */
enum err
client_learn_nodes(struct client *c, const struct metadata_response *m, char why[CLIENT_WHY_SIZE])
{
    struct client_node *nodes = calloc(m->brokers_count + 1, sizeof(*nodes));
    if (nodes == NULL) {
        return client_say(why, ERR_BUSY, "no memory for the list of brokers");
    }
    size_t count = 0;
    for (size_t i = 0; i < m->brokers_count; i++) {
        const struct metadata_response_broker *b = &m->brokers[i];
        count += set_node(&nodes[count], b->node_id, b->host, b->port);
    }
    free(c->nodes);
    c->nodes = nodes;
    c->nodes_count = count;
    return ERR_OK;
}

/* Older versions cannot say that nothing is to be created: those brokers do as their
 * auto.create.topics.enable says. */
void client_metadata_fit(void *message, int16_t version)
{
    const int16_t choice_version_min = 4;
    struct metadata_request *request = message;
    request->allow_auto_topic_creation = version < choice_version_min;
}

bool client_metadata_fill(struct arena *arena,
                          const char *const *names,
                          size_t names_count,
                          struct metadata_request *ret_request)
{
    metadata_request_init(ret_request);
    ret_request->topics = NULL; /* All. */
    if (names == NULL) {
        return true;
    }
    ret_request->topics = arena_alloc_array(arena, names_count, sizeof(*ret_request->topics));
    if (ret_request->topics == NULL) {
        return false;
    }
    ret_request->topics_count = names_count;
    for (size_t i = 0; i < names_count; i++) {
        metadata_request_topic_init(&ret_request->topics[i]);
        const size_t size = strlen(names[i]);
        const char *name = arena_strndup(arena, names[i], size);
        if (name == NULL) {
            return false;
        }
        ret_request->topics[i].name = slice_of(name, size);
    }
    return true;
}

enum err client_metadata_ask(struct client *c,
                             const char *const *names,
                             size_t names_count,
                             struct client_call *call,
                             struct metadata_response *ret_response)
{
    struct metadata_request request;
    metadata_response_init(ret_response);
    if (!client_metadata_fill(call->arena, names, names_count, &request)) {
        return client_fail(c, ERR_BUSY, "no memory to ask for %zu topics", names_count);
    }
    call->api_key = API_METADATA;
    call->node_id = CLIENT_NODE_ANY;
    call->is_repeatable = true;
    call->request = &request;
    call->fit = client_metadata_fit;
    call->response = ret_response;
    enum err e = client_ask(c, call);
    if (e == ERR_OK && ret_response->error_code != KAFKA_NONE) {
        e = client_fail(c,
                        client_err_of(ret_response->error_code),
                        "the broker does not describe the cluster: %s",
                        client_error_text(ret_response->error_code));
    }
    if (e == ERR_OK) {
        char why[CLIENT_WHY_SIZE];
        client_lock(c);
        e = client_learn_nodes(c, ret_response, why);
        client_unlock(c);
        if (e != ERR_OK) {
            e = client_fail(c, e, "%s", why);
        }
    }
    return e;
}

/* ---- for callers: the cluster as a whole ---- */

/* Everything that hangs on it lives in its arena. */
struct description {
    struct client_cluster cluster;
    struct arena arena;
};

static struct slice copy_slice(struct arena *a, struct slice s, bool *is_full)
{
    if (slice_is_null(s)) {
        return s;
    }
    char *copy = arena_strndup(a, (const char *)s.data, s.size);
    *is_full |= copy == NULL;
    return slice_of(copy, copy == NULL ? 0 : s.size);
}

static void *copy_array(struct arena *a, size_t count, size_t size, bool *is_full)
{
    void *memory = *is_full ? NULL : arena_alloc_array(a, count, size);
    *is_full |= memory == NULL;
    return memory;
}

static const int32_t *copy_ids(struct arena *a, const int32_t *ids, size_t count, bool *is_full)
{
    int32_t *copy = copy_array(a, count, sizeof(*ids), is_full);
    if (copy != NULL && count > 0) {
        memcpy(copy, ids, count * sizeof(*ids));
    }
    return copy;
}

static int by_partition(const void *a, const void *b)
{
    const struct client_partition *left = a;
    const struct client_partition *right = b;
    return (left->partition > right->partition) - (left->partition < right->partition);
}

static int by_name(const void *a, const void *b)
{
    const struct client_topic_info *left = a;
    const struct client_topic_info *right = b;
    const size_t size = left->name.size < right->name.size ? left->name.size : right->name.size;
    const int order = size == 0 ? 0 : memcmp(left->name.data, right->name.data, size);
    return order != 0 ? order
                      : (left->name.size > right->name.size) - (left->name.size < right->name.size);
}

static void copy_topic(struct arena *a,
                       const struct metadata_response_topic *from,
                       struct client_topic_info *to,
                       bool *is_full)
{
    *to = (struct client_topic_info){
        .name = copy_slice(a, from->name, is_full),
        .id = from->topic_id,
        .is_internal = from->is_internal,
        .err = client_err_of(from->error_code),
        .partitions =
            copy_array(a, from->partitions_count, sizeof(struct client_partition), is_full),
    };
    for (size_t i = 0; !*is_full && i < from->partitions_count; i++) {
        const struct metadata_response_partition *p = &from->partitions[i];
        to->partitions[i] = (struct client_partition){
            .partition = p->partition_index,
            .leader_id = p->leader_id,
            .leader_epoch = p->leader_epoch,
            .replicas = copy_ids(a, p->replica_nodes, p->replica_nodes_count, is_full),
            .replicas_count = p->replica_nodes_count,
            .isr = copy_ids(a, p->isr_nodes, p->isr_nodes_count, is_full),
            .isr_count = p->isr_nodes_count,
        };
        to->partitions_count++;
    }
    if (!*is_full && to->partitions_count > 0) {
        qsort(to->partitions, to->partitions_count, sizeof(*to->partitions), by_partition);
    }
}

static bool copy_cluster(struct description *d, const struct metadata_response *m)
{
    struct client_cluster *cluster = &d->cluster;
    bool is_full = false;
    cluster->id = copy_slice(&d->arena, m->cluster_id, &is_full);
    cluster->controller_id = m->controller_id;
    cluster->brokers = copy_array(&d->arena, m->brokers_count, sizeof(*cluster->brokers), &is_full);
    cluster->topics = copy_array(&d->arena, m->topics_count, sizeof(*cluster->topics), &is_full);
    for (size_t i = 0; !is_full && i < m->brokers_count; i++) {
        cluster->brokers[i] = (struct client_broker){
            .id = m->brokers[i].node_id,
            .host = copy_slice(&d->arena, m->brokers[i].host, &is_full),
            .port = m->brokers[i].port,
            .rack = copy_slice(&d->arena, m->brokers[i].rack, &is_full),
        };
        cluster->brokers_count++;
    }
    for (size_t i = 0; !is_full && i < m->topics_count; i++) {
        copy_topic(&d->arena, &m->topics[i], &cluster->topics[i], &is_full);
        cluster->topics_count++;
    }
    return !is_full;
}

enum err client_describe(struct client *c,
                         const char *const *names,
                         size_t names_count,
                         struct client_cluster **ret_cluster)
{
    struct description *d = calloc(1, sizeof(*d));
    if (d == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for a description of the cluster");
    }
    arena_init(&d->arena, CLIENT_ARENA_SIZE_MAX);
    struct arena scratch;
    arena_init(&scratch, CLIENT_ARENA_SIZE_MAX);
    struct metadata_response m;
    struct client_call call = {.arena = &scratch};
    enum err e = client_metadata_ask(c, names, names_count, &call, &m);
    if (e == ERR_OK && !copy_cluster(d, &m)) {
        e = client_fail(c, ERR_BUSY, "no memory for a description of the cluster");
    }
    client_call_done(&call);
    arena_done(&scratch);
    if (e != ERR_OK) {
        client_cluster_free(&d->cluster);
        return e;
    }
    if (names == NULL && d->cluster.topics_count > 0) {
        qsort(d->cluster.topics, d->cluster.topics_count, sizeof(*d->cluster.topics), by_name);
    }
    *ret_cluster = &d->cluster;
    return ERR_OK;
}

enum err client_topic_why(struct client *c, const struct client_topic_info *topic)
{
    const int size = (int)topic->name.size;
    const char *name = (const char *)topic->name.data;
    if (topic->err == ERR_OK) {
        return ERR_OK;
    }
    if (topic->err == ERR_TOPIC_UNKNOWN) {
        return client_fail(c, topic->err, "topic '%.*s' does not exist", size, name);
    }
    return client_fail(
        c, topic->err, "topic '%.*s' cannot be used (%s)", size, name, err_name(topic->err));
}

void client_cluster_free(struct client_cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    /* The cluster is the description's first member. */
    struct description *d = (struct description *)cluster;
    arena_done(&d->arena);
    free(d);
}

/* ---- one topic ---- */

static enum err say_topic(const char *name, int16_t code, char why[CLIENT_WHY_SIZE])
{
    if (code == KAFKA_UNKNOWN_TOPIC_OR_PARTITION) {
        return client_say(why, ERR_TOPIC_UNKNOWN, "topic '%s' does not exist", name);
    }
    return client_say(
        why, client_err_of(code), "topic '%s' cannot be used: %s", name, client_error_text(code));
}

/* Leaders by partition, from an answer whose order and numbers nobody guarantees. */
static int32_t *leaders_of(const struct metadata_response_topic *t)
{
    int32_t *leaders = malloc((t->partitions_count + 1) * sizeof(*leaders));
    for (size_t i = 0; leaders != NULL && i < t->partitions_count; i++) {
        leaders[i] = -1;
    }
    for (size_t i = 0; leaders != NULL && i < t->partitions_count; i++) {
        const struct metadata_response_partition *p = &t->partitions[i];
        if (p->partition_index >= 0 && (size_t)p->partition_index < t->partitions_count) {
            leaders[p->partition_index] = p->leader_id;
        }
    }
    return leaders;
}

enum err client_topic_take(struct client_topic *t,
                           const struct metadata_response *m,
                           char why[CLIENT_WHY_SIZE])
{
    if (m->topics_count != 1) {
        return client_say(
            why, ERR_CORRUPT, "asked for topic '%s', told of %zu", t->name, m->topics_count);
    }
    const struct metadata_response_topic *found = &m->topics[0];
    const bool is_usable =
        found->error_code == KAFKA_NONE ||
        (found->error_code == KAFKA_LEADER_NOT_AVAILABLE && found->partitions_count > 0);
    if (!is_usable) {
        return say_topic(t->name, found->error_code, why);
    }
    if (found->partitions_count == 0 || found->partitions_count > INT32_MAX) {
        return client_say(why, ERR_CORRUPT, "topic '%s' has no partitions", t->name);
    }
    if (t->partitions_count > 0 && !uuid_equal(&t->id, &found->topic_id)) {
        return client_say(
            why, ERR_TOPIC_UNKNOWN, "topic '%s' was deleted and created again meanwhile", t->name);
    }
    if (found->partitions_count < (size_t)t->partitions_count) {
        return client_say(why, ERR_CORRUPT, "topic '%s' lost partitions", t->name);
    }
    int32_t *leaders = leaders_of(found);
    if (leaders == NULL) {
        return client_say(why, ERR_BUSY, "no memory for the leaders of '%s'", t->name);
    }
    free(t->leaders);
    t->leaders = leaders;
    t->id = found->topic_id;
    t->partitions_count = (int32_t)found->partitions_count;
    return ERR_OK;
}

static bool has_all_leaders(const struct client_topic *t)
{
    for (int32_t i = 0; i < t->partitions_count; i++) {
        if (t->leaders[i] < 0) {
            return false;
        }
    }
    return t->partitions_count > 0;
}

enum err client_wait_for_leaders(struct client *c, const char *topic, uint32_t timeout_ms)
{
    const uint64_t deadline_us = client_after_us(c, timeout_ms);
    for (;;) {
        struct client_topic t;
        enum err e = client_topic_init(c, topic, &t);
        const bool is_ready = e == ERR_OK && has_all_leaders(&t);
        if (e == ERR_OK) {
            client_topic_done(&t);
        }
        if (is_ready) {
            return ERR_OK;
        }
        /* A broker that has not yet heard of the topic says that there is none. */
        if (e != ERR_OK && e != ERR_TOPIC_UNKNOWN && e != ERR_NOT_LEADER) {
            return e;
        }
        const uint64_t now_us = client_now_us(c);
        if (now_us >= deadline_us) {
            return client_fail(c,
                               ERR_TIMED_OUT,
                               "not every partition of '%s' has a leader after %u ms",
                               topic,
                               timeout_ms);
        }
        client_sleep(c, now_us + LEADERS_POLL_MS * 1000);
    }
}
