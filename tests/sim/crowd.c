#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

/* The names of the crowd of today, kept for one request. */
struct names {
    char text[CROWD_MAX][TOPIC_NAME_SIZE_MAX + 1];
};

static struct slice name_of(const struct crowd *c, struct names *names, uint32_t i)
{
    int size = snprintf(
        names->text[i], sizeof(names->text[i]), "crowd-%u-%02u-%0200d", c->life, (unsigned)i, 0);
    return slice_of(names->text[i], (size_t)size);
}

/* ---- answers ---- */

/* True if a topic is what was asked for: now, or by an earlier request that got no certain answer,
 * of which code_if_done tells. */
static bool is_done(struct crowd *c, int16_t code, int16_t code_if_done)
{
    struct broker_run *run = c->actor.run;
    if (code == KAFKA_REQUEST_TIMED_OUT ||
        (code == KAFKA_KAFKA_STORAGE_ERROR &&
         (life_has_faults(&run->life) || dirs_have_broken(run)))) {
        return false;
    }
    sim_check(run->sim,
              code == KAFKA_NONE || (code == code_if_done && c->caller.was_uncertain),
              "crowd: state=%d error_code=%d",
              (int)c->state,
              code);
    return true;
}

static void move_on(struct crowd *c, uint32_t done_count, enum topic_state state)
{
    struct sim *sim = c->actor.run->sim;
    sim_trace(sim, "crowd", (uint64_t)c->state, done_count);
    sim_say(sim, "crowd: state=%d done=%u of %u", (int)c->state, done_count, c->size);
    if (done_count == c->size) {
        c->state = state;
        c->caller.was_uncertain = false;
    } else {
        c->caller.was_uncertain = true; /* The next request names all of them again. */
    }
}

static void on_created(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct crowd *c = container_of(caller, struct crowd, caller);
    struct create_topics_response response;
    enum err e = create_topics_response_decode(body, call->version, arena, &response);
    bool is_whole = e == ERR_OK && response.topics_count == c->size;
    sim_check(c->actor.run->sim, is_whole, "CreateTopics of a crowd: %s", err_name(e));
    uint32_t done_count = 0;
    for (uint32_t i = 0; i < c->size; i++) {
        done_count += is_done(c, response.topics[i].error_code, KAFKA_TOPIC_ALREADY_EXISTS);
    }
    move_on(c, done_count, TOPIC_LIVE);
}

static void on_deleted(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct crowd *c = container_of(caller, struct crowd, caller);
    struct delete_topics_response response;
    enum err e = delete_topics_response_decode(body, call->version, arena, &response);
    bool is_whole = e == ERR_OK && response.responses_count == c->size;
    sim_check(c->actor.run->sim, is_whole, "DeleteTopics of a crowd: %s", err_name(e));
    uint32_t done_count = 0;
    for (uint32_t i = 0; i < c->size; i++) {
        int16_t code = response.responses[i].error_code;
        done_count += is_done(c, code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    }
    move_on(c, done_count, TOPIC_ABSENT);
}

static void on_metadata(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct crowd *c = container_of(caller, struct crowd, caller);
    struct metadata_response response;
    enum err e = metadata_response_decode(body, call->version, arena, &response);
    bool is_whole = e == ERR_OK && response.topics_count == c->size;
    sim_check(c->actor.run->sim, is_whole, "Metadata of a crowd: %s", err_name(e));
    int16_t expected = c->state == TOPIC_LIVE ? KAFKA_NONE : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    for (uint32_t i = 0; i < c->size; i++) {
        sim_check(c->actor.run->sim,
                  response.topics[i].error_code == expected,
                  "crowd: state=%d, but metadata says error_code=%d",
                  (int)c->state,
                  response.topics[i].error_code);
    }
}

/* ---- requests ---- */

static void send_create(struct crowd *c)
{
    struct names names;
    struct create_topics_request_topic topics[CROWD_MAX];
    struct create_topics_request request;
    create_topics_request_init(&request);
    for (uint32_t i = 0; i < c->size; i++) {
        create_topics_request_topic_init(&topics[i]);
        topics[i].name = name_of(c, &names, i);
        topics[i].num_partitions = 1;
        topics[i].replication_factor = 1;
    }
    request.topics = topics;
    request.topics_count = c->size;
    struct wbuf w;
    kafka_caller_begin(&c->caller,
                       &w,
                       CREATE_TOPICS_API.key,
                       CREATE_TOPICS_VERSION_MAX,
                       CREATE_TOPICS_VERSION_MAX);
    kafka_caller_send(&c->caller,
                      &w,
                      create_topics_request_encode(&w, c->caller.call.version, &request),
                      on_created);
}

static void send_delete(struct crowd *c)
{
    struct names names;
    struct delete_topics_request_topic topics[CROWD_MAX];
    struct delete_topics_request request;
    delete_topics_request_init(&request);
    for (uint32_t i = 0; i < c->size; i++) {
        delete_topics_request_topic_init(&topics[i]);
        topics[i].name = name_of(c, &names, i);
    }
    request.topics = topics;
    request.topics_count = c->size;
    struct wbuf w;
    kafka_caller_begin(&c->caller,
                       &w,
                       DELETE_TOPICS_API.key,
                       DELETE_TOPICS_VERSION_MAX,
                       DELETE_TOPICS_VERSION_MAX);
    kafka_caller_send(&c->caller,
                      &w,
                      delete_topics_request_encode(&w, c->caller.call.version, &request),
                      on_deleted);
}

static void send_metadata(struct crowd *c)
{
    struct names names;
    struct metadata_request_topic topics[CROWD_MAX];
    struct metadata_request request;
    metadata_request_init(&request);
    for (uint32_t i = 0; i < c->size; i++) {
        metadata_request_topic_init(&topics[i]);
        topics[i].name = name_of(c, &names, i);
    }
    request.topics = topics;
    request.topics_count = c->size;
    request.allow_auto_topic_creation = false;
    struct wbuf w;
    kafka_caller_begin(
        &c->caller, &w, METADATA_API.key, METADATA_VERSION_MAX, METADATA_VERSION_MAX);
    kafka_caller_send(
        &c->caller, &w, metadata_request_encode(&w, c->caller.call.version, &request), on_metadata);
}

/* ---- acting ---- */

static void begin_something(struct crowd *c)
{
    if (c->actor.run->is_draining) {
        return;
    }
    if (!rand_one_in(&c->actor.run->sim->rand, 8)) {
        send_metadata(c);
        return;
    }
    c->caller.was_uncertain = false;
    if (c->state == TOPIC_ABSENT) {
        c->life++;
        c->state = TOPIC_CREATING;
        send_create(c);
    } else {
        c->state = TOPIC_DELETING;
        send_delete(c);
    }
}

static void crowd_act(struct actor *actor)
{
    struct crowd *c = container_of(actor, struct crowd, actor);
    actor_rest(actor);
    kafka_client_check(&c->caller.client);
    if (c->size == 0 || c->caller.is_calling || !actor_connect(actor, &c->caller.client)) {
        return;
    }
    if (c->state == TOPIC_CREATING) {
        send_create(c);
    } else if (c->state == TOPIC_DELETING) {
        send_delete(c);
    } else {
        begin_something(c);
    }
}

void crowd_init(struct crowd *c, struct broker_run *run)
{
    *c =
        (struct crowd){.actor = {.run = run, .act = crowd_act}, .size = run->sim->swarm.crowd_size};
    assert_cmp(c->size, <=, CROWD_MAX);
    kafka_client_init(&c->caller.client, run->sim);
}

void crowd_done(struct crowd *c)
{
    kafka_client_done(&c->caller.client);
}
