#include "kafka/proto/create_topics.h"

#include "cluster/cluster.h"
#include "cluster/internal_topics.h"
#include "cluster/topic_configs.h"
#include "core/assert.h"
#include "core/shard.h"
#include "kafka/assignment.h"
#include "kafka/config_chain.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"
#include "kafka/seen.h"

struct creation {
    struct controller_request request;
    const struct create_topics_request_topic *in;
    struct create_topics_response_topic *out;
    bool is_submitted;
};

struct create_topics_state {
    struct create_topics_response out;
    struct creation *creations;
    size_t creations_count;
    size_t pending_count;
};

static void set_error(struct creation *c, enum kafka_error error, struct slice message)
{
    c->out->error_code = (int16_t)error;
    c->out->error_message = message;
}

static bool copy_config(struct request *r,
                        struct slice name,
                        struct slice value,
                        struct topic_config_entry *ret)
{
    ret->name = arena_strndup(&r->arena, (const char *)name.data, name.size);
    ret->value = arena_strndup(&r->arena, (const char *)value.data, value.size);
    return ret->name != NULL && ret->value != NULL;
}

/* The configuration in effect, all names, as DescribeConfigs would give it. The explicit values
 * come from the request, so that a validated topic, which does not exist, has them too. */
static bool fill_configs(struct request *r, struct creation *c)
{
    const struct create_topics_request_topic *in = c->in;
    const struct internal_topic *internal = cluster_internal_topic(r->d->cluster, in->name);
    const size_t given_count = in->configs_count;
    const size_t own_count = given_count + (internal == NULL ? 0 : internal->configs_count);
    struct topic_config_entry *own = request_alloc(r, own_count, sizeof(*own));
    if (own == NULL) {
        return false;
    }
    for (size_t i = 0; i < given_count; i++) {
        /* Backwards: of what is named twice the last is found first, and that is what is kept. */
        const struct create_topics_request_config *config = &in->configs[given_count - 1 - i];
        if (!copy_config(r, config->name, config->value, &own[i])) {
            return false;
        }
    }
    for (size_t i = given_count; i < own_count; i++) {
        const struct config_pair *config = &internal->configs[i - given_count];
        if (!copy_config(r, config->name, config->value, &own[i])) {
            return false;
        }
    }
    struct topic_config_set set = cluster_topic_configs(r->d->cluster, NULL);
    set.own = own;
    set.own_count = (uint32_t)own_count;
    const uint32_t count = topic_configs_count();
    c->out->configs = request_alloc(r, count, sizeof(*c->out->configs));
    if (c->out->configs == NULL) {
        return false;
    }
    c->out->configs_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct topic_config *config = topic_config_at(i);
        enum topic_config_source source = TOPIC_CONFIG_SOURCE_DEFAULT;
        create_topics_response_config_init(&c->out->configs[i]);
        c->out->configs[i].name = slice_of_string(config->name);
        c->out->configs[i].value =
            slice_of_string(config_chain_topic_value(r->d, &set, config, &source));
        c->out->configs[i].config_source = (int8_t)source;
    }
    return true;
}

/* False at the request's memory limit. */
static bool set_result(struct request *r, struct creation *c)
{
    const struct controller_request *request = &c->request;
    if (request->result != ERR_OK) {
        set_error(c,
                  kafka_error_of(request->result),
                  request->message[0] != '\0' ? slice_of_string(request->message)
                                              : kafka_error_advice(request->result));
        return true;
    }
    c->out->topic_id = request->out.create_topic.id;
    c->out->num_partitions = request->out.create_topic.partitions_count;
    c->out->replication_factor = request->out.create_topic.replication_factor;
    return fill_configs(r, c);
}

static void on_created(struct controller_request *request)
{
    struct request *r = request->context;
    struct create_topics_state *state = r->state;
    assert_cmp(state->pending_count, >, 0);
    state->pending_count--;
    const bool is_filled = set_result(r, container_of(request, struct creation, request));
    if (!is_filled && !request_is_answered(r)) {
        request_abort(r, "the answer is too large");
    }
    if (state->pending_count == 0 && !request_is_answered(r)) {
        request_answer(r, &state->out);
    }
    request_release(r);
}

/* Partitions 0, 1, 2 ... in any order, each once. */
static enum kafka_error check_numbers(struct request *r,
                                      const struct create_topics_request_topic *in,
                                      const struct seen *seen,
                                      struct slice *ret_why)
{
    const int32_t count = (int32_t)in->assignments_count;
    for (size_t i = 0; i < in->assignments_count; i++) {
        const int32_t number = in->assignments[i].partition_index;
        if (seen_times(seen, (struct slice){0}, number) > 1) {
            *ret_why = request_text(
                r, "Found multiple manual partition assignments for partition %d", number);
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    for (int32_t number = 0; number < count; number++) {
        if (seen_times(seen, (struct slice){0}, number) == 0) {
            *ret_why =
                slice_of_string("partitions should be a consecutive 0-based integer sequence");
            return KAFKA_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    return KAFKA_NONE;
}

/* The replicas a client chose by hand: all on the one broker there is. KAFKA_NONE, or the error and
 * why. */
static enum kafka_error check_assignments(struct request *r,
                                          const struct create_topics_request_topic *in,
                                          struct seen *seen,
                                          struct slice *ret_why)
{
    if (in->replication_factor != -1) {
        *ret_why = slice_of_string("A manual partition assignment was specified, but replication "
                                   "factor was not set to -1.");
        return KAFKA_INVALID_REQUEST;
    }
    if (in->num_partitions != -1) {
        *ret_why = slice_of_string("A manual partition assignment was specified, but "
                                   "numPartitions was not set to -1.");
        return KAFKA_INVALID_REQUEST;
    }
    for (size_t i = 0; i < in->assignments_count; i++) {
        const struct create_topics_request_assignment *a = &in->assignments[i];
        (void)seen_add(seen, (struct slice){0}, a->partition_index);
        const enum kafka_error error =
            assignment_check(r, a->broker_ids, a->broker_ids_count, ret_why);
        if (error != KAFKA_NONE) {
            return error;
        }
    }
    return check_numbers(r, in, seen, ret_why);
}

/* False at the request's memory limit. Else *ret_error says whether they are good. */
static bool prepare_assignments(struct request *r, struct creation *c, enum kafka_error *ret_error)
{
    const struct create_topics_request_topic *in = c->in;
    struct seen seen;
    struct slice why = {0};
    if (!seen_init(&seen, r, in->assignments_count)) {
        return false;
    }
    *ret_error = check_assignments(r, in, &seen, &why);
    if (*ret_error != KAFKA_NONE) {
        set_error(c, *ret_error, why);
    }
    c->request.in.create_topic.partitions_count = (int32_t)in->assignments_count;
    c->request.in.create_topic.replication_factor = 1;
    return true;
}

static bool prepare_configs(struct request *r, struct creation *c)
{
    const struct create_topics_request_topic *in = c->in;
    struct config_pair *pairs = request_alloc(r, in->configs_count, sizeof(*pairs));
    if (pairs == NULL) {
        return false;
    }
    for (size_t i = 0; i < in->configs_count; i++) {
        pairs[i].name = in->configs[i].name;
        pairs[i].value = in->configs[i].value;
    }
    c->request.in.create_topic.configs = pairs;
    c->request.in.create_topic.configs_count = (uint32_t)in->configs_count;
    return true;
}

static bool prepare(struct request *r, struct creation *c, bool is_repeated)
{
    const struct create_topics_request *request = r->in;
    struct create_topics_state *state = r->state;
    const struct create_topics_request_topic *in = c->in;
    create_topics_response_topic_init(c->out);
    c->out->name = in->name;
    c->out->error_message = (struct slice){0};
    if (is_repeated) {
        set_error(c, KAFKA_INVALID_REQUEST, slice_of_string("Duplicate topic name."));
        return true;
    }
    c->request.in.create_topic.partitions_count = in->num_partitions;
    c->request.in.create_topic.replication_factor = in->replication_factor;
    if (in->assignments_count > 0) {
        enum kafka_error error;
        if (!prepare_assignments(r, c, &error)) {
            return false;
        }
        if (error != KAFKA_NONE) {
            return true;
        }
    }
    c->request.kind = CONTROLLER_CREATE_TOPIC;
    c->request.on_done = on_created;
    c->request.context = r;
    c->request.in.create_topic.name = in->name;
    c->request.in.create_topic.is_validate_only = request->validate_only;
    c->is_submitted = true;
    state->pending_count++;
    return prepare_configs(r, c);
}

static bool prepare_all(struct request *r)
{
    const struct create_topics_request *in = r->in;
    struct create_topics_state *state = r->state;
    state->creations_count = in->topics_count;
    state->creations = request_alloc(r, in->topics_count, sizeof(*state->creations));
    create_topics_response_init(&state->out);
    state->out.topics_count = in->topics_count;
    state->out.topics = request_alloc(r, in->topics_count, sizeof(*state->out.topics));
    struct seen seen;
    if (state->creations == NULL || state->out.topics == NULL ||
        !seen_init(&seen, r, in->topics_count)) {
        return false;
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        (void)seen_add(&seen, in->topics[i].name, 0);
    }
    for (size_t i = 0; i < in->topics_count; i++) {
        struct creation *c = &state->creations[i];
        c->in = &in->topics[i];
        c->out = &state->out.topics[i];
        if (!prepare(r, c, seen_times(&seen, c->in->name, 0) > 1)) {
            return false;
        }
    }
    return true;
}

void handle_create_topics(struct request *r)
{
    r->state = request_alloc(r, 1, sizeof(struct create_topics_state));
    if (r->state == NULL || !prepare_all(r)) {
        request_abort(r, "too many topics");
        return;
    }
    struct create_topics_state *state = r->state;
    if (state->pending_count == 0) {
        request_answer(r, &state->out);
        return;
    }
    for (size_t i = 0; i < state->creations_count; i++) {
        if (state->creations[i].is_submitted) {
            request_hold(r);
            controller_submit(r->d->cluster, &state->creations[i].request);
        }
    }
}
