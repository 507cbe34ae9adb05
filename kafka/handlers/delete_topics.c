#include "kafka/proto/delete_topics.h"

#include "cluster/cluster.h"
#include "core/assert.h"
#include "core/shard.h"
#include "kafka/handlers/handlers.h"
#include "kafka/lookup.h"
#include "kafka/request.h"
#include "kafka/seen.h"

enum {
    VERSION_DELETION_DISABLED = 3, /* Knows TOPIC_DELETION_DISABLED. */
    VERSION_IDS = 6,
};

struct deletion {
    struct controller_request request;
    struct delete_topics_response_topic *out;
    struct slice
        key; /* What tells the topic from others: its id, or the name of what is not there. */
    bool is_submitted;
};

struct delete_topics_state {
    struct delete_topics_response out;
    struct deletion *deletions;
    size_t deletions_count;
    size_t pending_count;
};

static void set_error(struct deletion *d, enum kafka_error error, struct slice message)
{
    d->out->error_code = (int16_t)error;
    d->out->error_message = message;
}

static void set_result(struct deletion *d)
{
    const struct controller_request *c = &d->request;
    if (c->result == ERR_OK) {
        return;
    }
    const enum kafka_error error = kafka_error_of(c->result);
    if (error != KAFKA_UNKNOWN_TOPIC_OR_PARTITION) {
        set_error(d,
                  error,
                  c->message[0] != '\0' ? slice_of_string(c->message)
                                        : kafka_error_advice(c->result));
    } else if (uuid_is_zero(&c->in.delete_topic.id)) {
        set_error(d, error, slice_of_string("This server does not host this topic-partition."));
    } else {
        set_error(
            d, KAFKA_UNKNOWN_TOPIC_ID, slice_of_string("This server does not host this topic ID."));
    }
}

static void on_deleted(struct controller_request *c)
{
    struct request *r = c->context;
    struct delete_topics_state *state = r->state;
    set_result(container_of(c, struct deletion, request));
    assert_cmp(state->pending_count, >, 0);
    state->pending_count--;
    if (state->pending_count == 0) {
        request_answer(r, &state->out);
    }
    request_release(r);
}

/* One topic, by name or by id; is_repeated: named before in this request. */
static void prepare(struct request *r,
                    struct deletion *d,
                    const struct delete_topics_request_topic *in,
                    bool is_repeated)
{
    struct delete_topics_state *state = r->state;
    const bool is_by_id = !uuid_is_zero(&in->topic_id);
    if (!r->d->settings->is_delete_enabled) {
        set_error(d,
                  r->version >= VERSION_DELETION_DISABLED ? KAFKA_TOPIC_DELETION_DISABLED
                                                          : KAFKA_INVALID_REQUEST,
                  slice_of_string("The broker has delete.topic.enable=false."));
        return;
    }
    if (is_by_id && !slice_is_null(in->name)) {
        set_error(d,
                  KAFKA_INVALID_REQUEST,
                  slice_of_string("You may not specify both topic name and topic id."));
        return;
    }
    if (!is_by_id && slice_is_null(in->name)) {
        set_error(
            d, KAFKA_INVALID_REQUEST, slice_of_string("Neither topic name nor id were specified."));
        return;
    }
    if (is_repeated) {
        set_error(d,
                  KAFKA_INVALID_REQUEST,
                  slice_of_string(is_by_id ? "Duplicate topic id." : "Duplicate topic name."));
        return;
    }
    struct controller_request *c = &d->request;
    c->kind = CONTROLLER_DELETE_TOPIC;
    c->on_done = on_deleted;
    c->context = r;
    c->in.delete_topic.id = in->topic_id;
    c->in.delete_topic.name = in->name;
    d->is_submitted = true;
    state->pending_count++;
}

/* The topic at index, in the form of the newest version. */
static struct delete_topics_request_topic topic_at(const struct request *r, size_t index)
{
    const struct delete_topics_request *in = r->in;
    if (r->version >= VERSION_IDS) {
        return in->topics[index];
    }
    struct delete_topics_request_topic topic;
    delete_topics_request_topic_init(&topic);
    topic.name = in->topic_names[index];
    return topic;
}

/* Begins the answer of the topic at index, which has both its name and its id if there is such a
 * topic. False at the request's memory limit. */
static bool
begin(struct request *r, struct deletion *d, const struct delete_topics_request_topic *in)
{
    const struct lookup how = {
        .is_by_id = !uuid_is_zero(&in->topic_id), .name = in->name, .id = in->topic_id};
    const struct topic *t = NULL;
    delete_topics_response_topic_init(d->out);
    d->out->name = in->name;
    d->out->topic_id = in->topic_id;
    const bool is_one = how.is_by_id == slice_is_null(in->name);
    if (is_one && lookup_topic(r, &how, &t) == KAFKA_NONE) {
        d->out->name = request_text(r, "%s", t->name);
        d->out->topic_id = t->id;
    }
    d->key = uuid_is_zero(&d->out->topic_id)
                 ? in->name
                 : slice_of(d->out->topic_id.bytes, sizeof(d->out->topic_id));
    return !slice_is_null(d->out->name) || t == NULL;
}

static bool is_key_id(const struct deletion *d)
{
    return !uuid_is_zero(&d->out->topic_id);
}

static bool prepare_all(struct request *r)
{
    const struct delete_topics_request *in = r->in;
    struct delete_topics_state *state = r->state;
    state->deletions_count = r->version >= VERSION_IDS ? in->topics_count : in->topic_names_count;
    state->deletions = request_alloc(r, state->deletions_count, sizeof(*state->deletions));
    delete_topics_response_init(&state->out);
    state->out.responses_count = state->deletions_count;
    state->out.responses = request_alloc(r, state->deletions_count, sizeof(*state->out.responses));
    struct seen seen;
    if (state->deletions == NULL || state->out.responses == NULL ||
        !seen_init(&seen, r, state->deletions_count)) {
        return false;
    }
    for (size_t i = 0; i < state->deletions_count; i++) {
        struct deletion *d = &state->deletions[i];
        const struct delete_topics_request_topic topic = topic_at(r, i);
        d->out = &state->out.responses[i];
        if (!begin(r, d, &topic)) {
            return false;
        }
        (void)seen_add(&seen, d->key, is_key_id(d));
    }
    for (size_t i = 0; i < state->deletions_count; i++) {
        struct deletion *d = &state->deletions[i];
        const struct delete_topics_request_topic topic = topic_at(r, i);
        prepare(r, d, &topic, seen_times(&seen, d->key, is_key_id(d)) > 1);
    }
    return true;
}

void handle_delete_topics(struct request *r)
{
    r->state = request_alloc(r, 1, sizeof(struct delete_topics_state));
    if (r->state == NULL || !prepare_all(r)) {
        request_abort(r, "too many topics");
        return;
    }
    struct delete_topics_state *state = r->state;
    if (state->pending_count == 0) {
        request_answer(r, &state->out);
        return;
    }
    for (size_t i = 0; i < state->deletions_count; i++) {
        if (state->deletions[i].is_submitted) {
            request_hold(r);
            controller_submit(r->d->cluster, &state->deletions[i].request);
        }
    }
}
