/* Offsets of a group read, set and forgotten by who is no member of it. */
#include <stdlib.h>
#include <string.h>

#include "client/client_coordinator.h"
#include "client/client_error.h"
#include "client/client_group.h"
#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"

enum {
    NAMES_VERSION_MAX = 9,  /* Of both: topics by name. */
    GROUPS_VERSION_MIN = 8, /* Of OffsetFetch: of several groups. */
};

/* ---- read ---- */

/* The texts stand in the answer, which is kept. */
struct listing {
    struct client_group_offsets list; /* The first member. */
    struct arena arena;
    struct client_group_question question;
};

/* One group stands in fields of its own, or in a list. */
static void fit_fetch(void *message, int16_t version)
{
    struct offset_fetch_request *request = message;
    const struct slice group = request->groups[0].group_id;
    request->groups_count = version >= GROUPS_VERSION_MIN;
    request->group_id = version >= GROUPS_VERSION_MIN ? slice_of_string("") : group;
    if (version < GROUPS_VERSION_MIN) {
        request->topics = NULL; /* All. */
    }
}

static void init_fetch(void *response)
{
    offset_fetch_response_init(response);
}

static int16_t code_of_fetch(const void *message, int16_t version)
{
    const struct offset_fetch_response *response = message;
    if (version < GROUPS_VERSION_MIN) {
        return response->error_code;
    }
    return response->groups_count == 1 ? response->groups[0].error_code
                                       : KAFKA_UNKNOWN_SERVER_ERROR;
}

/* False without memory. */
static bool make_room(struct listing *x, size_t count)
{
    struct client_committed *grown =
        realloc(x->list.offsets, (x->list.offsets_count + count + 1) * sizeof(*x->list.offsets));
    x->list.offsets = grown != NULL ? grown : x->list.offsets;
    return grown != NULL;
}

static void add(struct listing *x, const struct client_committed *o, int16_t code)
{
    if (code == KAFKA_NONE && o->offset >= 0) {
        x->list.offsets[x->list.offsets_count++] = *o;
    }
}

static bool take_group(struct listing *x, const struct offset_fetch_response_group *g)
{
    for (size_t i = 0; i < g->topics_count; i++) {
        const struct offset_fetch_response_group_topic *t = &g->topics[i];
        if (!make_room(x, t->partitions_count)) {
            return false;
        }
        for (size_t j = 0; j < t->partitions_count; j++) {
            const struct offset_fetch_response_group_topic_partition *p = &t->partitions[j];
            const struct client_committed o = {
                t->name, p->partition_index, p->committed_offset, p->metadata};
            add(x, &o, p->error_code);
        }
    }
    return true;
}

static bool take_old(struct listing *x, const struct offset_fetch_response *response)
{
    for (size_t i = 0; i < response->topics_count; i++) {
        const struct offset_fetch_response_topic *t = &response->topics[i];
        if (!make_room(x, t->partitions_count)) {
            return false;
        }
        for (size_t j = 0; j < t->partitions_count; j++) {
            const struct offset_fetch_response_partition *p = &t->partitions[j];
            const struct client_committed o = {
                t->name, p->partition_index, p->committed_offset, p->metadata};
            add(x, &o, p->error_code);
        }
    }
    return true;
}

static int by_partition(const void *a, const void *b)
{
    const struct client_committed *left = a;
    const struct client_committed *right = b;
    const int order = slice_compare(left->topic, right->topic);
    return order != 0 ? order
                      : (left->partition > right->partition) - (left->partition < right->partition);
}

static enum err fetch(struct client *c, struct listing *x)
{
    struct offset_fetch_request request;
    struct offset_fetch_request_group group;
    struct offset_fetch_response *response = arena_alloc(&x->arena, sizeof(*response));
    if (response == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for offsets");
    }
    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&group);
    group.group_id = slice_of_string(x->question.group);
    group.topics = NULL; /* All. */
    request.groups = &group;
    request.groups_count = 1;
    x->question.request = &request;
    x->question.response = response;
    int16_t code = KAFKA_NONE;
    enum err e = client_group_ask(c, &x->question, &code);
    if (e != ERR_OK) {
        return e;
    }
    if (code == KAFKA_GROUP_ID_NOT_FOUND) {
        return ERR_OK;
    }
    if (code != KAFKA_NONE) {
        return client_fail(c,
                           client_err_of(code),
                           "cannot fetch the offsets of group '%s': %s",
                           x->question.group,
                           client_error_text(code));
    }
    const bool is_whole = x->question.call.version < GROUPS_VERSION_MIN
                              ? take_old(x, response)
                              : take_group(x, &response->groups[0]);
    return is_whole ? ERR_OK : client_fail(c, ERR_BUSY, "no memory for offsets");
}

enum err
client_group_offsets(struct client *c, const char *group, struct client_group_offsets **ret)
{
    struct listing *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for offsets");
    }
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    x->question = (struct client_group_question){
        .group = group,
        .api_key = API_OFFSET_FETCH,
        .version_max = NAMES_VERSION_MAX,
        .fit = fit_fetch,
        .init_response = init_fetch,
        .code_of = code_of_fetch,
        .arena = &x->arena,
    };
    enum err e = fetch(c, x);
    if (e != ERR_OK) {
        client_group_offsets_free(&x->list);
        return e;
    }
    if (x->list.offsets_count > 0) {
        qsort(x->list.offsets, x->list.offsets_count, sizeof(*x->list.offsets), by_partition);
    }
    *ret = &x->list;
    return ERR_OK;
}

const struct client_committed *client_group_offsets_find(const struct client_group_offsets *offsets,
                                                         const char *topic,
                                                         int32_t partition)
{
    const struct client_committed wanted = {.topic = slice_of_string(topic),
                                            .partition = partition};
    return offsets->offsets_count == 0 ? NULL
                                       : bsearch(&wanted,
                                                 offsets->offsets,
                                                 offsets->offsets_count,
                                                 sizeof(*offsets->offsets),
                                                 by_partition);
}

void client_group_offsets_free(struct client_group_offsets *offsets)
{
    if (offsets == NULL) {
        return;
    }
    struct listing *x = (struct listing *)offsets;
    client_call_done(&x->question.call);
    arena_done(&x->arena);
    free(x->list.offsets);
    free(x);
}

/* ---- set, and forgotten ---- */

/* The offsets that one request is about: those to set, or those to forget. */
struct change {
    struct client *client;
    const char *group;
    const struct client_group_offset *offsets;
    size_t count;
    struct client_topic_result *results;
    size_t next; /* Where the next code is looked for first: answers mostly keep the order. */
    struct arena arena;
};

static bool is_forgotten(const struct client_group_offset *o)
{
    return o->offset < 0;
}

/* How many from first on are of one topic and of one kind. */
static size_t run_of(const struct change *x, size_t first)
{
    size_t end = first + 1;
    while (end < x->count && strcmp(x->offsets[end].topic, x->offsets[first].topic) == 0 &&
           is_forgotten(&x->offsets[end]) == is_forgotten(&x->offsets[first])) {
        end++;
    }
    return end - first;
}

static void take_code(struct change *x, struct slice topic, int32_t partition, int16_t code)
{
    for (size_t i = 0; i < x->count; i++) {
        const size_t at = (x->next + i) % x->count;
        if (x->offsets[at].partition == partition &&
            slice_equal_string(topic, x->offsets[at].topic)) {
            client_set_result(&x->results[at], code, (struct slice){0});
            x->next = at + 1;
            return;
        }
    }
}

static void init_commit(void *response)
{
    offset_commit_response_init(response);
}

/* Coordinators say what concerns the whole group of every partition. */
static int16_t code_of_commit(const void *message, int16_t version)
{
    const struct offset_commit_response *response = message;
    (void)version;
    const bool has_one = response->topics_count > 0 && response->topics[0].partitions_count > 0;
    return has_one ? response->topics[0].partitions[0].error_code : KAFKA_NONE;
}

/* NULL without memory. */
static struct offset_commit_request *fill_commit(struct change *x)
{
    struct offset_commit_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct offset_commit_request_topic *topics =
        arena_alloc_array(&x->arena, x->count, sizeof(*topics));
    struct offset_commit_request_partition *partitions =
        arena_alloc_array(&x->arena, x->count, sizeof(*partitions));
    if (request == NULL || topics == NULL || partitions == NULL) {
        return NULL;
    }
    offset_commit_request_init(request);
    request->group_id = slice_of_string(x->group);
    request->topics = topics;
    for (size_t i = 0; i < x->count; i += run_of(x, i)) {
        if (is_forgotten(&x->offsets[i])) {
            continue;
        }
        struct offset_commit_request_topic *t = &topics[request->topics_count++];
        offset_commit_request_topic_init(t);
        t->name = slice_of_string(x->offsets[i].topic);
        t->partitions = &partitions[i];
        t->partitions_count = run_of(x, i);
    }
    for (size_t i = 0; i < x->count; i++) {
        const struct client_group_offset *o = &x->offsets[i];
        offset_commit_request_partition_init(&partitions[i]);
        partitions[i].partition_index = o->partition;
        partitions[i].committed_offset = o->offset;
        partitions[i].committed_metadata = slice_of_string(o->metadata == NULL ? "" : o->metadata);
    }
    return request;
}

static enum err set_offsets(struct change *x)
{
    struct offset_commit_response response;
    init_commit(&response);
    struct client_group_question q = {
        .group = x->group,
        .api_key = API_OFFSET_COMMIT,
        .version_max = NAMES_VERSION_MAX,
        .request = fill_commit(x),
        .response = &response,
        .init_response = init_commit,
        .code_of = code_of_commit,
        .arena = &x->arena,
    };
    int16_t code = KAFKA_NONE;
    enum err e = q.request == NULL ? client_fail(x->client, ERR_BUSY, "no memory for the request")
                                   : client_group_ask(x->client, &q, &code);
    for (size_t i = 0; e == ERR_OK && i < response.topics_count; i++) {
        const struct offset_commit_response_topic *t = &response.topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            take_code(x, t->name, t->partitions[j].partition_index, t->partitions[j].error_code);
        }
    }
    client_call_done(&q.call);
    return e;
}

static void init_delete(void *response)
{
    offset_delete_response_init(response);
}

static int16_t code_of_delete(const void *message, int16_t version)
{
    (void)version;
    return ((const struct offset_delete_response *)message)->error_code;
}

/* NULL without memory. */
static struct offset_delete_request *fill_delete(struct change *x)
{
    struct offset_delete_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct offset_delete_request_topic *topics =
        arena_alloc_array(&x->arena, x->count, sizeof(*topics));
    struct offset_delete_request_partition *partitions =
        arena_alloc_array(&x->arena, x->count, sizeof(*partitions));
    if (request == NULL || topics == NULL || partitions == NULL) {
        return NULL;
    }
    offset_delete_request_init(request);
    request->group_id = slice_of_string(x->group);
    request->topics = topics;
    for (size_t i = 0; i < x->count; i += run_of(x, i)) {
        if (is_forgotten(&x->offsets[i])) {
            struct offset_delete_request_topic *t = &topics[request->topics_count++];
            offset_delete_request_topic_init(t);
            t->name = slice_of_string(x->offsets[i].topic);
            t->partitions = &partitions[i];
            t->partitions_count = run_of(x, i);
        }
    }
    for (size_t i = 0; i < x->count; i++) {
        partitions[i].partition_index = x->offsets[i].partition;
    }
    return request;
}

static enum err forget_offsets(struct change *x)
{
    struct offset_delete_response response;
    init_delete(&response);
    struct client_group_question q = {
        .group = x->group,
        .api_key = API_OFFSET_DELETE,
        .request = fill_delete(x),
        .response = &response,
        .init_response = init_delete,
        .code_of = code_of_delete,
        .arena = &x->arena,
    };
    int16_t code = KAFKA_NONE;
    enum err e = q.request == NULL ? client_fail(x->client, ERR_BUSY, "no memory for the request")
                                   : client_group_ask(x->client, &q, &code);
    for (size_t i = 0; e == ERR_OK && code != KAFKA_NONE && i < x->count; i++) {
        if (is_forgotten(&x->offsets[i])) {
            client_set_result(&x->results[i], code, (struct slice){0});
        }
    }
    for (size_t i = 0; e == ERR_OK && i < response.topics_count; i++) {
        const struct offset_delete_response_topic *t = &response.topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            take_code(x, t->name, t->partitions[j].partition_index, t->partitions[j].error_code);
        }
    }
    client_call_done(&q.call);
    return e;
}

enum err client_alter_group_offsets(struct client *c,
                                    const char *group,
                                    const struct client_group_offset *offsets,
                                    size_t offsets_count,
                                    struct client_topic_result *ret_results)
{
    struct change x = {
        .client = c,
        .group = group,
        .offsets = offsets,
        .count = offsets_count,
        .results = ret_results,
    };
    arena_init(&x.arena, CLIENT_ARENA_SIZE_MAX);
    client_init_results(ret_results, offsets_count);
    size_t forgotten_count = 0;
    for (size_t i = 0; i < offsets_count; i++) {
        forgotten_count += is_forgotten(&offsets[i]);
    }
    enum err e = forgotten_count < offsets_count ? set_offsets(&x) : ERR_OK;
    if (e == ERR_OK && forgotten_count > 0) {
        e = forget_offsets(&x);
    }
    arena_done(&x.arena);
    return e;
}
