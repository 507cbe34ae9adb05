/* One group described: with the request of the consumer protocol, and if it is of another with that
 * of the classic one. */
#include <stdlib.h>
#include <string.h>

#include "client/client_coordinator.h"
#include "client/client_error.h"
#include "client/client_group.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/error_codes.h"

/* The texts stand in the answer, which is kept. */
struct description {
    struct client_group group; /* The first member. */
    struct arena arena;
    struct client_group_question question;
};

static int by_partition(const void *a, const void *b)
{
    const struct client_group_partition *left = a;
    const struct client_group_partition *right = b;
    const int order = slice_compare(left->topic, right->topic);
    return order != 0 ? order
                      : (left->partition > right->partition) - (left->partition < right->partition);
}

static void sort(struct client_group_member *m)
{
    if (m->partitions_count > 0) {
        qsort(m->partitions, m->partitions_count, sizeof(*m->partitions), by_partition);
    }
}

/* False without memory. */
static bool make_members(struct description *x, size_t count)
{
    x->group.members = arena_alloc_array(&x->arena, count, sizeof(*x->group.members));
    return x->group.members != NULL;
}

static bool make_partitions(struct description *x, struct client_group_member *m, size_t count)
{
    m->partitions = arena_alloc_array(&x->arena, count, sizeof(*m->partitions));
    return m->partitions != NULL;
}

static void add_partitions(struct client_group_member *m,
                           struct slice topic,
                           const int32_t *partitions,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        m->partitions[m->partitions_count++] =
            (struct client_group_partition){topic, partitions[i]};
    }
}

static enum err fail_without_memory(struct client *c)
{
    return client_fail(c, ERR_BUSY, "no memory for a description");
}

/* Asks x->question. */
static enum err ask(struct client *c, struct description *x, int16_t *ret_code)
{
    return x->question.response == NULL ? fail_without_memory(c)
                                        : client_group_ask(c, &x->question, ret_code);
}

/* What came of it: take fills x->group, or is false without memory. */
static enum err check(struct client *c,
                      struct description *x,
                      enum err e,
                      int16_t code,
                      bool (*take)(struct description *x))
{
    if (e == ERR_OK && code != KAFKA_NONE) {
        return client_fail(c,
                           client_err_of(code),
                           "group '%s' is not described: %s",
                           x->question.group,
                           client_error_text(code));
    }
    return e != ERR_OK || take(x) ? e : fail_without_memory(c);
}

/* ---- the consumer protocol ---- */

static void init_consumer(void *response)
{
    consumer_group_describe_response_init(response);
}

static int16_t code_of_consumer(const void *message, int16_t version)
{
    const struct consumer_group_describe_response *response = message;
    (void)version;
    return response->groups_count == 1 ? response->groups[0].error_code
                                       : KAFKA_UNKNOWN_SERVER_ERROR;
}

static bool take_consumer_member(struct description *x,
                                 const struct consumer_group_describe_response_member *from)
{
    struct client_group_member *to = &x->group.members[x->group.members_count++];
    const struct consumer_group_describe_response_assignment *a = &from->assignment;
    *to = (struct client_group_member){
        .id = from->member_id,
        .instance_id = from->instance_id,
        .client_id = from->client_id,
        .host = from->client_host,
        .epoch = from->member_epoch,
    };
    size_t count = 0;
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        count += a->topic_partitions[i].partitions_count;
    }
    if (!make_partitions(x, to, count)) {
        return false;
    }
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        const struct consumer_group_describe_response_topic_partitions *t = &a->topic_partitions[i];
        add_partitions(to, t->topic_name, t->partitions, t->partitions_count);
    }
    sort(to);
    return true;
}

/* False without memory. */
static bool take_consumer(struct description *x)
{
    const struct consumer_group_describe_response *response = x->question.response;
    assert(response != NULL);
    const struct consumer_group_describe_response_group *g = &response->groups[0];
    x->group = (struct client_group){
        .name = g->group_id,
        .type = slice_of_string("consumer"),
        .state = g->group_state,
        .protocol_type = slice_of_string("consumer"),
        .assignor = g->assignor_name,
        .epoch = g->group_epoch,
    };
    bool is_whole = make_members(x, g->members_count);
    for (size_t i = 0; is_whole && i < g->members_count; i++) {
        is_whole = take_consumer_member(x, &g->members[i]);
    }
    return is_whole;
}

/* ERR_NOT_FOUND: it is none of this protocol. */
static enum err ask_consumer(struct client *c, struct description *x, struct slice *name)
{
    struct consumer_group_describe_request request;
    consumer_group_describe_request_init(&request);
    request.group_ids = name;
    request.group_ids_count = 1;
    x->question.api_key = API_CONSUMER_GROUP_DESCRIBE;
    x->question.request = &request;
    x->question.response = arena_alloc(&x->arena, sizeof(struct consumer_group_describe_response));
    x->question.init_response = init_consumer;
    x->question.code_of = code_of_consumer;
    int16_t code = KAFKA_NONE;
    const enum err e = ask(c, x, &code);
    if (e == ERR_UNSUPPORTED || code == KAFKA_GROUP_ID_NOT_FOUND ||
        code == KAFKA_UNSUPPORTED_VERSION) {
        return ERR_NOT_FOUND;
    }
    return check(c, x, e, code, take_consumer);
}

/* ---- the classic protocol ---- */

static void init_classic(void *response)
{
    describe_groups_response_init(response);
}

static int16_t code_of_classic(const void *message, int16_t version)
{
    const struct describe_groups_response *response = message;
    (void)version;
    if (response->groups_count != 1) {
        return KAFKA_UNKNOWN_SERVER_ERROR;
    }
    /* Before version 6 a group that is not there is said to be dead. */
    const struct describe_groups_response_group *g = &response->groups[0];
    return g->error_code == KAFKA_NONE && slice_equal_string(g->group_state, "Dead")
               ? KAFKA_GROUP_ID_NOT_FOUND
               : g->error_code;
}

/* What the leader of a consumers' group gave the member; of other groups nobody else can read it.
 */
static bool
take_assignment(struct description *x, struct client_group_member *to, struct slice from)
{
    struct consumer_protocol_assignment a;
    struct rbuf bytes = rbuf_over(from.data, from.size);
    const bool is_consumer = slice_equal_string(x->group.protocol_type, "consumer");
    if (from.size == 0 || !is_consumer ||
        consumer_protocol_assignment_decode(&bytes, &x->arena, &a) != ERR_OK) {
        return true;
    }
    size_t count = 0;
    for (size_t i = 0; i < a.assigned_partitions_count; i++) {
        count += a.assigned_partitions[i].partitions_count;
    }
    if (!make_partitions(x, to, count)) {
        return false;
    }
    for (size_t i = 0; i < a.assigned_partitions_count; i++) {
        add_partitions(to,
                       a.assigned_partitions[i].topic,
                       a.assigned_partitions[i].partitions,
                       a.assigned_partitions[i].partitions_count);
    }
    sort(to);
    return true;
}

/* False without memory. */
static bool take_classic(struct description *x)
{
    const struct describe_groups_response *response = x->question.response;
    assert(response != NULL);
    const struct describe_groups_response_group *g = &response->groups[0];
    x->group = (struct client_group){
        .name = g->group_id,
        .type = slice_of_string("classic"),
        .state = g->group_state,
        .protocol_type = g->protocol_type,
        .assignor = g->protocol_data,
        .epoch = -1,
    };
    bool is_whole = make_members(x, g->members_count);
    for (size_t i = 0; is_whole && i < g->members_count; i++) {
        struct client_group_member *to = &x->group.members[x->group.members_count++];
        *to = (struct client_group_member){
            .id = g->members[i].member_id,
            .instance_id = g->members[i].group_instance_id,
            .client_id = g->members[i].client_id,
            .host = g->members[i].client_host,
            .epoch = -1,
        };
        is_whole = take_assignment(x, to, g->members[i].member_assignment);
    }
    return is_whole;
}

static enum err ask_classic(struct client *c, struct description *x, struct slice *name)
{
    struct describe_groups_request request;
    describe_groups_request_init(&request);
    request.groups = name;
    request.groups_count = 1;
    x->question.api_key = API_DESCRIBE_GROUPS;
    x->question.request = &request;
    x->question.response = arena_alloc(&x->arena, sizeof(struct describe_groups_response));
    x->question.init_response = init_classic;
    x->question.code_of = code_of_classic;
    int16_t code = KAFKA_NONE;
    const enum err e = ask(c, x, &code);
    if (code == KAFKA_GROUP_ID_NOT_FOUND) {
        return client_fail(c, ERR_NOT_FOUND, "group '%s' does not exist", x->question.group);
    }
    return check(c, x, e, code, take_classic);
}

enum err client_describe_group(struct client *c, const char *group, struct client_group **ret_group)
{
    struct description *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return fail_without_memory(c);
    }
    struct slice name = slice_of_string(group);
    arena_init(&x->arena, CLIENT_ARENA_SIZE_MAX);
    x->question.group = group;
    x->question.arena = &x->arena;
    enum err e = ask_consumer(c, x, &name);
    if (e == ERR_NOT_FOUND) {
        e = ask_classic(c, x, &name);
    }
    if (e != ERR_OK) {
        client_group_free(&x->group);
        return e;
    }
    *ret_group = &x->group;
    return ERR_OK;
}

void client_group_free(struct client_group *group)
{
    if (group == NULL) {
        return;
    }
    struct description *x = (struct description *)group;
    client_call_done(&x->question.call);
    arena_done(&x->arena);
    free(x);
}
