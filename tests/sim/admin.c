#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

enum {
    NAME_REST_US = 500 * 1000,
    CRASH_ONE_IN = 6,
    MOVE_ONE_IN = 30,
};

bool admin_is_retriable(struct admin *a, int16_t code)
{
    const struct broker_run *run = a->actor.run;
    if (code == KAFKA_REQUEST_TIMED_OUT ||
        (code == KAFKA_KAFKA_STORAGE_ERROR &&
         (life_has_faults(&run->life) || dirs_have_broken(run)))) {
        a->caller.was_uncertain = true;
        return true;
    }
    return false;
}

void admin_crash_soon(struct admin *a, uint64_t steps_max)
{
    struct broker_run *run = a->actor.run;
    if (run->life.end == LIFE_CRASHES && rand_one_in(&run->sim->rand, CRASH_ONE_IN)) {
        life_crash_within(&run->life, steps_max);
    }
}

/* A produce request that names its topic and is still on its way would get into a new topic of that
 * name, as in Kafka, and nobody could tell it from a mistake of the broker. */
static bool may_reuse_name(const struct broker_run *run)
{
    for (uint32_t i = 0; i < run->producers_count; i++) {
        if (run->producers[i].calls_count > 0) {
            return false;
        }
    }
    return run->sim->clock.now_us - run->uncertain_us > NAME_REST_US;
}

void topic_add_partition(struct sim *sim, struct sim_topic *t)
{
    char name[64];
    const int32_t partition = t->partitions_count++;
    (void)snprintf(name, sizeof(name), "%s-%d life %u", t->name, partition, t->life);
    history_init(&t->histories[partition], sim, name, &t->rules);
}

static void begin_life(struct broker_run *run, struct sim_topic *t)
{
    t->kind = topic_kind_draw(run->sim);
    sim_configs_draw(run->sim, &t->kind, &t->configs);
    const struct sim_configs effective = sim_configs_over(&t->configs, &run->defaults);
    sim_configs_rules(&t->kind, &effective, &t->rules);
    t->codecs_ever = t->rules.codecs;
    t->life++;
    if (may_reuse_name(run)) {
        sim_mark(run->sim, "sim_topic_name_reused");
    } else {
        (void)snprintf(
            t->name, sizeof(t->name), "topic-%u-%u", (unsigned)(t - run->topics), t->life);
    }
    const uint64_t count = sim_between(run->sim, 1, TOPIC_PARTITIONS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        topic_add_partition(run->sim, t);
    }
}

static void end_life(struct sim_topic *t)
{
    for (int32_t i = 0; i < t->partitions_count; i++) {
        history_done(&t->histories[i]);
    }
    t->partitions_count = 0;
    t->partitions_wanted = 0;
    t->is_altering = false;
    t->state = TOPIC_ABSENT;
}

static struct sim_topic *find_topic(struct broker_run *run, struct slice name)
{
    for (uint32_t i = 0; i < run->topics_count; i++) {
        if (slice_equal_string(name, run->topics[i].name)) {
            return &run->topics[i];
        }
    }
    return NULL;
}

/* ---- answers ---- */

/* What became of a creation or deletion. True if it is done: now, or by an earlier request that
 * got no certain answer, of which code_if_done tells. */
static bool is_done(struct admin *a, const char *what, int16_t code, int16_t code_if_done)
{
    struct broker_run *run = a->actor.run;
    sim_say(run->sim, "%s %s: error_code=%d", what, a->topic->name, code);
    if (admin_is_retriable(a, code)) {
        return false;
    }
    sim_check(run->sim,
              code == KAFKA_NONE || (code == code_if_done && a->caller.was_uncertain),
              "%s %s: error_code=%d",
              what,
              a->topic->name,
              code);
    sim_trace(run->sim, what, a->topic->life, (uint64_t)(a->topic - run->topics));
    return true;
}

static void on_created(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct create_topics_response response;
    enum err e = create_topics_response_decode(body, call->version, arena, &response);
    sim_check(a->actor.run->sim,
              e == ERR_OK && response.topics_count == 1,
              "CreateTopics: %s",
              err_name(e));
    if (is_done(a, "CreateTopics", response.topics[0].error_code, KAFKA_TOPIC_ALREADY_EXISTS)) {
        a->topic->state = TOPIC_LIVE;
        a->topic->id = (struct uuid){0}; /* Metadata will tell. */
    }
}

static void on_deleted(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct delete_topics_response response;
    enum err e = delete_topics_response_decode(body, call->version, arena, &response);
    sim_check(a->actor.run->sim,
              e == ERR_OK && response.responses_count == 1,
              "DeleteTopics: %s",
              err_name(e));
    int16_t code = response.responses[0].error_code;
    if (is_done(a, "DeleteTopics", code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION)) {
        end_life(a->topic);
    }
}

/* One for each start, and higher than those before. */
static void check_epoch(struct broker_run *run, int32_t told)
{
    sim_check(run->sim,
              run->epoch == -1 ? told > run->epoch_before : told == run->epoch,
              "leader epoch %d after %d, in a life of %d",
              told,
              run->epoch_before,
              run->epoch);
    run->epoch = told;
}

static void check_live(struct admin *a, const struct metadata_response_topic *m)
{
    struct sim *sim = a->actor.run->sim;
    struct sim_topic *t = find_topic(a->actor.run, m->name);
    sim_check(sim, t != NULL, "metadata names a topic that nobody made");
    if (t->state == TOPIC_ABSENT) {
        sim_check(sim,
                  m->error_code == KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                  "a deleted topic is there: %s error_code=%d",
                  t->name,
                  m->error_code);
    }
    if (t->state != TOPIC_LIVE) {
        return;
    }
    const int32_t extra = (int32_t)a->actor.run->sim->swarm.partitions_extra;
    const size_t wanted_count = (size_t)(t->partitions_wanted + extra);
    size_t expected_count = (size_t)(t->partitions_count + extra);
    if (t->partitions_wanted > 0 && m->partitions_count == wanted_count) {
        expected_count = wanted_count; /* Grown, and not acknowledged yet. */
    }
    sim_check(sim,
              m->error_code == KAFKA_NONE && m->partitions_count == expected_count,
              "a created topic is gone or changed: %s error_code=%d partitions=%zu expected=%zu",
              t->name,
              m->error_code,
              m->partitions_count,
              expected_count);
    if (uuid_is_zero(&t->id)) {
        t->id = m->topic_id;
    }
    sim_check(sim, uuid_equal(&t->id, &m->topic_id), "topic %s has another id", t->name);
    for (size_t i = 0; i < m->partitions_count; i++) {
        check_epoch(a->actor.run, m->partitions[i].leader_epoch);
        sim_check(sim,
                  m->partitions[i].error_code == KAFKA_NONE && m->partitions[i].leader_id == 1,
                  "topic %s: partition %d has error_code=%d leader=%d",
                  t->name,
                  m->partitions[i].partition_index,
                  m->partitions[i].error_code,
                  m->partitions[i].leader_id);
    }
}

static void on_metadata(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct sim *sim = a->actor.run->sim;
    struct metadata_response response;
    enum err e = metadata_response_decode(body, call->version, arena, &response);
    sim_check(sim, e == ERR_OK, "Metadata: %s", err_name(e));
    sim_check(sim,
              response.brokers_count == 1 && response.brokers[0].node_id == 1 &&
                  response.controller_id == 1,
              "metadata names %zu brokers",
              response.brokers_count);
    sim_check(sim,
              response.topics_count == a->actor.run->topics_count,
              "metadata answers for %zu topics",
              response.topics_count);
    for (size_t i = 0; i < response.topics_count; i++) {
        check_live(a, &response.topics[i]);
    }
}

/* ---- requests ---- */

static void add_configs(const struct sim_topic *t,
                        struct create_topics_request_topic *topic,
                        struct create_topics_request_config *configs)
{
    topic->configs = configs;
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        if (t->configs.values[i][0] != '\0') {
            struct create_topics_request_config *c = &configs[topic->configs_count++];
            create_topics_request_config_init(c);
            c->name = slice_of_string(sim_config_name(i));
            c->value = slice_of_string(t->configs.values[i]);
        }
    }
}

static void send_create(struct admin *a)
{
    struct create_topics_request_config configs[SIM_CONFIGS_COUNT];
    struct create_topics_request_topic topic;
    struct create_topics_request request;
    create_topics_request_init(&request);
    create_topics_request_topic_init(&topic);
    topic.name = slice_of_string(a->topic->name);
    topic.num_partitions =
        a->topic->partitions_count + (int32_t)a->actor.run->sim->swarm.partitions_extra;
    topic.replication_factor = 1;
    add_configs(a->topic, &topic, configs);
    request.topics = &topic;
    request.topics_count = 1;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       CREATE_TOPICS_API.key,
                       CREATE_TOPICS_VERSION_MIN,
                       CREATE_TOPICS_VERSION_MAX);
    kafka_caller_send(&a->caller,
                      &w,
                      create_topics_request_encode(&w, a->caller.call.version, &request),
                      on_created);
}

static void send_delete(struct admin *a)
{
    struct slice name = slice_of_string(a->topic->name);
    struct delete_topics_request_topic topic;
    struct delete_topics_request request;
    delete_topics_request_init(&request);
    delete_topics_request_topic_init(&topic);
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       DELETE_TOPICS_API.key,
                       DELETE_TOPICS_VERSION_MIN,
                       DELETE_TOPICS_VERSION_MAX);
    if (a->caller.call.version >= 6) {
        topic.name = name;
        request.topics = &topic;
        request.topics_count = 1;
    } else {
        request.topic_names = &name;
        request.topic_names_count = 1;
    }
    kafka_caller_send(&a->caller,
                      &w,
                      delete_topics_request_encode(&w, a->caller.call.version, &request),
                      on_deleted);
}

static void send_metadata(struct admin *a)
{
    struct broker_run *run = a->actor.run;
    struct metadata_request_topic topics[TOPICS_MAX];
    struct metadata_request request;
    metadata_request_init(&request);
    for (uint32_t i = 0; i < run->topics_count; i++) {
        metadata_request_topic_init(&topics[i]);
        topics[i].name = slice_of_string(run->topics[i].name);
    }
    request.topics = topics;
    request.topics_count = run->topics_count;
    request.allow_auto_topic_creation = false;
    struct wbuf w;
    kafka_caller_begin(&a->caller, &w, METADATA_API.key, 10, METADATA_VERSION_MAX);
    kafka_caller_send(
        &a->caller, &w, metadata_request_encode(&w, a->caller.call.version, &request), on_metadata);
}

/* A topic in the middle of something goes first. */
static struct sim_topic *find_unfinished(struct broker_run *run)
{
    for (uint32_t i = 0; i < run->topics_count; i++) {
        struct sim_topic *t = &run->topics[i];
        bool is_nameless = t->state == TOPIC_LIVE && uuid_is_zero(&t->id);
        bool is_changing = t->is_altering || t->partitions_wanted > 0;
        if (t->state == TOPIC_CREATING || t->state == TOPIC_DELETING || is_nameless ||
            is_changing) {
            return t;
        }
    }
    return NULL;
}

static void go_on(struct admin *a, struct sim_topic *t)
{
    a->topic = t;
    if (t->state == TOPIC_CREATING) {
        send_create(a);
    } else if (t->state == TOPIC_DELETING) {
        send_delete(a);
    } else if (uuid_is_zero(&t->id) || rand_one_in(&a->actor.run->sim->rand, 4)) {
        send_metadata(a);
    } else if (rand_one_in(&a->actor.run->sim->rand, 4)) {
        admin_send_describe(a);
    } else if (t->is_altering) {
        a->trial = TRIAL_NONE;
        a->level = SIM_LEVELS_COUNT;
        admin_send_alter(a);
    } else {
        admin_send_grow(a);
    }
}

static void go_on_with_defaults(struct admin *a)
{
    struct broker_run *run = a->actor.run;
    struct sim_topic *t = &run->topics[rand_below(&run->sim->rand, run->topics_count)];
    if (t->state == TOPIC_LIVE && rand_one_in(&run->sim->rand, 4)) {
        a->topic = t;
        admin_send_describe(a);
    } else {
        a->trial = TRIAL_NONE;
        admin_send_alter(a); /* The level is still the one that was drawn. */
    }
}

/* What was acknowledged in an earlier life is looked at first. */
static bool look_around(struct admin *a)
{
    while (a->looks_count > 0) {
        struct sim_topic *t = &a->actor.run->topics[--a->looks_count];
        if (t->state == TOPIC_LIVE) {
            a->topic = t;
            admin_send_describe(a);
            return true;
        }
    }
    return false;
}

void admin_wake(struct admin *a)
{
    a->looks_count = rand_one_in(&a->actor.run->sim->rand, 2) ? a->actor.run->topics_count : 0;
}

/* False: nothing was sent. */
static bool change_something(struct admin *a, struct sim_topic *t)
{
    struct sim *sim = a->actor.run->sim;
    a->topic = t;
    const bool is_trimmable = t->kind.is_trimmed && sim_configs_delete(&t->configs);
    if (is_trimmable && sim_chance(sim, sim->swarm.start_weight * 2)) {
        admin_send_trim(a);
        return true;
    }
    if (sim_chance(sim, sim->swarm.alter_percent)) {
        a->caller.was_uncertain = false;
        admin_begin_alter(a);
        return true;
    }
    if (sim_chance(sim, sim->swarm.defaults_percent)) {
        a->caller.was_uncertain = false;
        admin_begin_alter_defaults(a);
        return true;
    }
    if (t->partitions_count < TOPIC_PARTITIONS_MAX && sim_chance(sim, sim->swarm.grow_percent)) {
        admin_begin_grow(a);
        return true;
    }
    return false;
}

static void begin_something(struct admin *a)
{
    struct broker_run *run = a->actor.run;
    struct sim *sim = run->sim;
    struct sim_topic *t = &run->topics[rand_below(&sim->rand, run->topics_count)];
    if (t->state == TOPIC_ABSENT && !run->is_draining) {
        begin_life(run, t);
        t->state = TOPIC_CREATING;
        a->caller.was_uncertain = false;
        go_on(a, t);
        return;
    }
    bool wants_delete = !run->is_draining && sim->swarm.delete_weight > 0 &&
                        t->state == TOPIC_LIVE && rand_one_in(&sim->rand, 30);
    if (wants_delete) {
        t->state = TOPIC_DELETING;
        a->caller.was_uncertain = false;
        go_on(a, t);
        return;
    }
    if (t->state == TOPIC_LIVE && !run->is_draining && change_something(a, t)) {
        return;
    }
    if (rand_one_in(&sim->rand, 4)) {
        send_metadata(a);
    } else if (t->state == TOPIC_LIVE && rand_one_in(&sim->rand, 4)) {
        a->topic = t;
        admin_send_describe(a);
    }
}

static void admin_act(struct actor *actor)
{
    struct admin *a = container_of(actor, struct admin, actor);
    struct broker_run *run = actor->run;
    actor_rest(actor);
    kafka_client_check(&a->caller.client);
    if (a->caller.is_calling || !actor_connect(actor, &a->caller.client)) {
        return;
    }
    if (rand_one_in(&run->sim->rand, MOVE_ONE_IN)) {
        kafka_client_close(&a->caller.client); /* The next connection may be another shard's. */
        return;
    }
    struct sim_topic *t = find_unfinished(run);
    if (look_around(a)) {
        return;
    }
    if (t != NULL) {
        go_on(a, t);
    } else if (run->are_defaults_altering) {
        go_on_with_defaults(a);
    } else {
        begin_something(a);
    }
}

void admin_init(struct admin *a, struct broker_run *run)
{
    *a = (struct admin){.actor = {.run = run, .act = admin_act}};
    kafka_client_init(&a->caller.client, run->sim);
}

void admin_done(struct admin *a)
{
    kafka_client_done(&a->caller.client);
    for (uint32_t i = 0; i < a->actor.run->topics_count; i++) {
        end_life(&a->actor.run->topics[i]);
    }
}
