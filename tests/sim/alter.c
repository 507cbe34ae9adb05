/* Altering configurations, and asking for them, as an admin does: an alteration that was
 * acknowledged is in force, over crashes, on every shard; one that was not may be, as a whole or
 * not at all. */
#include <inttypes.h>
#include <string.h>

#include "kafka/proto/alter_configs.h"
#include "kafka/proto/describe_configs.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/incremental_alter_configs.h"
#include "kafka/proto/schema.h"

#include "tests/sim/broker_mode.h"

enum {
    RESOURCE_TOPIC = 2,
    RESOURCE_BROKER = 4,
    SOURCE_TOPIC = 1,
    SOURCE_BROKER = 2,
    SOURCE_CLUSTER = 3,
    OPERATION_SET = 0,
    OPERATION_DELETE = 1,
    OPERATION_APPEND = 2,
    OPERATION_SUBTRACT = 3,
    CHANGES_MAX = SIM_CONFIGS_COUNT + 1,
    CRASH_STEPS_MAX = 300,
};

/* ---- who is altered ---- */

static bool is_of_topic(const struct admin *a)
{
    return a->level == SIM_LEVELS_COUNT;
}

static const struct sim_configs *old_configs(const struct admin *a)
{
    return is_of_topic(a) ? &a->topic->configs : &a->actor.run->defaults.levels[a->level];
}

static const struct sim_configs *wanted_configs(const struct admin *a)
{
    return is_of_topic(a) ? &a->topic->wanted : &a->actor.run->defaults_wanted.levels[a->level];
}

static int8_t resource_type(const struct admin *a)
{
    return is_of_topic(a) ? RESOURCE_TOPIC : RESOURCE_BROKER;
}

static struct slice resource_name(const struct admin *a)
{
    if (is_of_topic(a)) {
        return slice_of_string(a->topic->name);
    }
    return slice_of_string(a->level == LEVEL_BROKER ? "1" : "");
}

static struct slice config_name(const struct admin *a, enum sim_config config)
{
    return slice_of_string(is_of_topic(a) ? sim_config_name(config)
                                          : sim_config_broker_name(config));
}

/* ---- what that makes of the topics ---- */

static void begin_altering(struct sim_topic *t,
                           const struct sim_configs *own,
                           const struct sim_defaults *defaults)
{
    struct history_rules rules;
    const struct sim_configs effective = sim_configs_over(own, defaults);
    sim_configs_rules(&t->kind, &effective, &rules);
    history_rules_join(&t->rules, &rules);
    t->codecs_ever |= rules.codecs;
    t->rules_version++;
    for (int32_t i = 0; i < t->partitions_count; i++) {
        history_alter(&t->histories[i], &rules);
    }
}

static void end_altering(struct sim_topic *t, const struct sim_defaults *defaults)
{
    const struct sim_configs effective = sim_configs_over(&t->configs, defaults);
    sim_configs_rules(&t->kind, &effective, &t->rules);
    t->rules_version++;
    for (int32_t i = 0; i < t->partitions_count; i++) {
        history_altered(&t->histories[i], &t->rules);
    }
}

static void begin_altering_all(struct broker_run *run)
{
    run->are_defaults_altering = true;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        begin_altering(&run->topics[i], &run->topics[i].configs, &run->defaults_wanted);
    }
}

static void end_altering_all(struct broker_run *run)
{
    run->are_defaults_altering = false;
    run->defaults = run->defaults_wanted;
    for (uint32_t i = 0; i < run->topics_count; i++) {
        end_altering(&run->topics[i], &run->defaults);
    }
    sim_mark(run->sim, "sim_defaults_altered");
}

/* ---- the answer ---- */

static void take_code(struct admin *a, int16_t code)
{
    struct sim *sim = a->actor.run->sim;
    sim_say(sim,
            "alters %.*s: error_code=%d trial=%d",
            (int)resource_name(a).size,
            (const char *)resource_name(a).data,
            code,
            (int)a->trial);
    if (admin_is_retriable(a, code)) {
        return;
    }
    const int16_t invalid = is_of_topic(a) ? KAFKA_INVALID_CONFIG : KAFKA_INVALID_REQUEST;
    const int16_t expected = a->trial == TRIAL_INVALID ? invalid : KAFKA_NONE;
    sim_check(sim, code == expected, "altering level %d: error_code=%d", (int)a->level, code);
    if (a->trial != TRIAL_NONE) {
        return; /* Nothing has changed. */
    }
    sim_trace(sim, "altered", (uint64_t)a->level, (uint64_t)(a->topic - a->actor.run->topics));
    if (is_of_topic(a)) {
        sim_mark(sim, "sim_configs_altered");
        a->topic->configs = a->topic->wanted;
        a->topic->is_altering = false;
        end_altering(a->topic, &a->actor.run->defaults);
    } else {
        end_altering_all(a->actor.run);
    }
    admin_crash_soon(a, CRASH_STEPS_MAX);
}

static void on_altered(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct alter_configs_response response;
    enum err e = alter_configs_response_decode(body, call->version, arena, &response);
    sim_check(a->actor.run->sim,
              e == ERR_OK && response.responses_count == 1,
              "AlterConfigs: %s",
              err_name(e));
    take_code(a, response.responses[0].error_code);
}

static void on_altered_some(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct incremental_alter_configs_response response;
    enum err e = incremental_alter_configs_response_decode(body, call->version, arena, &response);
    sim_check(a->actor.run->sim,
              e == ERR_OK && response.responses_count == 1,
              "IncrementalAlterConfigs: %s",
              err_name(e));
    take_code(a, response.responses[0].error_code);
}

/* ---- requests ---- */

/* Of a value that is to be refused. */
static struct slice invalid_name(const struct admin *a)
{
    return slice_of_string(is_of_topic(a) ? "flush.ms" : "log.flush.interval.ms");
}

/* All that shall be set; what is not named goes back to its default. */
static void send_all(struct admin *a)
{
    const struct sim_configs *wanted = wanted_configs(a);
    struct alter_configs_request_config configs[CHANGES_MAX];
    struct alter_configs_request_resource resource;
    struct alter_configs_request request;
    alter_configs_request_init(&request);
    alter_configs_request_resource_init(&resource);
    resource.resource_type = resource_type(a);
    resource.resource_name = resource_name(a);
    resource.configs = configs;
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        if (wanted->values[i][0] != '\0') {
            struct alter_configs_request_config *c = &configs[resource.configs_count++];
            c->name = config_name(a, i);
            c->value = slice_of_string(wanted->values[i]);
        }
    }
    if (a->trial == TRIAL_INVALID) {
        configs[resource.configs_count++] = (struct alter_configs_request_config){
            .name = invalid_name(a), .value = slice_of_string("-1")};
    }
    request.resources = &resource;
    request.resources_count = 1;
    request.validate_only = a->trial == TRIAL_VALIDATE;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       ALTER_CONFIGS_API.key,
                       ALTER_CONFIGS_VERSION_MIN,
                       ALTER_CONFIGS_VERSION_MAX);
    kafka_caller_send(&a->caller,
                      &w,
                      alter_configs_request_encode(&w, a->caller.call.version, &request),
                      on_altered);
}

/* A policy of one word that gets the other one, or loses it, may be changed as a list. */
static void change_as_list(struct incremental_alter_configs_request_config *c,
                           const char *old,
                           const char *wanted)
{
    const size_t old_size = strlen(old);
    if (old_size == 0 || wanted[0] == '\0') {
        return;
    }
    if (strncmp(wanted, old, old_size) == 0 && wanted[old_size] == ',') {
        c->config_operation = OPERATION_APPEND;
        c->value = slice_of_string(wanted + old_size + 1);
    } else if (strncmp(old, wanted, strlen(wanted)) == 0 && old[strlen(wanted)] == ',') {
        c->config_operation = OPERATION_SUBTRACT;
        c->value = slice_of_string(old + strlen(wanted) + 1);
    }
}

static void fill_change(struct admin *a,
                        enum sim_config config,
                        struct incremental_alter_configs_request_config *c)
{
    const char *wanted = wanted_configs(a)->values[config];
    incremental_alter_configs_request_config_init(c);
    c->name = config_name(a, config);
    c->value = slice_of_string(wanted);
    c->config_operation = wanted[0] == '\0' ? OPERATION_DELETE : OPERATION_SET;
    if (config == CONFIG_POLICY && rand_one_in(&a->actor.run->sim->rand, 2)) {
        change_as_list(c, old_configs(a)->values[config], wanted);
    }
}

static void send_some(struct admin *a)
{
    const struct sim_configs *wanted = wanted_configs(a);
    struct incremental_alter_configs_request_config configs[CHANGES_MAX];
    struct incremental_alter_configs_request_resource resource;
    struct incremental_alter_configs_request request;
    incremental_alter_configs_request_init(&request);
    incremental_alter_configs_request_resource_init(&resource);
    resource.resource_type = resource_type(a);
    resource.resource_name = resource_name(a);
    resource.configs = configs;
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        if (strcmp(wanted->values[i], old_configs(a)->values[i]) != 0) {
            fill_change(a, i, &configs[resource.configs_count++]);
        }
    }
    if (a->trial == TRIAL_INVALID) {
        struct incremental_alter_configs_request_config *c = &configs[resource.configs_count++];
        incremental_alter_configs_request_config_init(c);
        c->name = invalid_name(a);
        c->value = slice_of_string("never");
    }
    request.resources = &resource;
    request.resources_count = 1;
    request.validate_only = a->trial == TRIAL_VALIDATE;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       INCREMENTAL_ALTER_CONFIGS_API.key,
                       INCREMENTAL_ALTER_CONFIGS_VERSION_MIN,
                       INCREMENTAL_ALTER_CONFIGS_VERSION_MAX);
    kafka_caller_send(
        &a->caller,
        &w,
        incremental_alter_configs_request_encode(&w, a->caller.call.version, &request),
        on_altered_some);
}

void admin_send_alter(struct admin *a)
{
    struct sim *sim = a->actor.run->sim;
    if (rand_one_in(&sim->rand, 4)) {
        send_all(a);
    } else {
        send_some(a);
    }
    admin_crash_soon(a, CRASH_STEPS_MAX);
}

void admin_begin_alter(struct admin *a)
{
    struct sim *sim = a->actor.run->sim;
    struct sim_topic *t = a->topic;
    a->level = SIM_LEVELS_COUNT;
    t->wanted = t->configs;
    sim_configs_redraw(sim, &t->kind, &t->wanted);
    a->trial = TRIAL_NONE;
    if (rand_one_in(&sim->rand, 8)) {
        a->trial = rand_one_in(&sim->rand, 2) ? TRIAL_INVALID : TRIAL_VALIDATE;
    } else {
        t->is_altering = true;
        begin_altering(t, &t->wanted, &a->actor.run->defaults);
    }
    admin_send_alter(a);
}

void admin_begin_alter_defaults(struct admin *a)
{
    struct broker_run *run = a->actor.run;
    a->level = (enum sim_level)rand_below(&run->sim->rand, SIM_LEVELS_COUNT);
    a->trial = TRIAL_NONE;
    run->defaults_wanted = run->defaults;
    sim_configs_redraw_defaults(run->sim, &run->defaults_wanted.levels[a->level]);
    if (rand_one_in(&run->sim->rand, 8)) {
        a->trial = rand_one_in(&run->sim->rand, 2) ? TRIAL_INVALID : TRIAL_VALIDATE;
    } else {
        begin_altering_all(run);
    }
    admin_send_alter(a);
}

/* ---- describing ---- */

/* A value of ours comes from where it was set; any other is not ours. */
static bool is_described(const struct describe_configs_response_config *c,
                         enum sim_config config,
                         const struct sim_configs *own,
                         const struct sim_defaults *defaults)
{
    const struct sim_configs all = sim_configs_over(own, defaults);
    int8_t source = 0;
    if (own->values[config][0] != '\0') {
        source = SOURCE_TOPIC;
    } else if (defaults->levels[LEVEL_BROKER].values[config][0] != '\0') {
        source = SOURCE_BROKER;
    } else if (defaults->levels[LEVEL_CLUSTER].values[config][0] != '\0') {
        source = SOURCE_CLUSTER;
    }
    return source == 0
               ? c->config_source > SOURCE_CLUSTER
               : c->config_source == source && slice_equal_string(c->value, all.values[config]);
}

/* Whether the answer is this configuration; else the first name that is not. */
static bool are_described(const struct describe_configs_response_result *result,
                          const struct sim_configs *own,
                          const struct sim_defaults *defaults,
                          const char **ret_name)
{
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        bool is_right = false;
        for (size_t k = 0; k < result->configs_count && !is_right; k++) {
            const struct describe_configs_response_config *c = &result->configs[k];
            is_right = slice_equal_string(c->name, sim_config_name(i)) &&
                       is_described(c, i, own, defaults);
        }
        if (!is_right) {
            *ret_name = sim_config_name(i);
            return false;
        }
    }
    return true;
}

static void check_described(struct admin *a, const struct describe_configs_response_result *result)
{
    const struct broker_run *run = a->actor.run;
    const struct sim_topic *t = a->topic;
    const char *name = "";
    const char *other_name = "";
    sim_check(run->sim,
              result->error_code == KAFKA_NONE,
              "DescribeConfigs %s: error_code=%d",
              t->name,
              result->error_code);
    if (are_described(result, &t->configs, &run->defaults, &name)) {
        sim_mark(run->sim, "sim_configs_described");
        return;
    }
    const bool is_wanted =
        t->is_altering && are_described(result, &t->wanted, &run->defaults, &other_name);
    const bool are_defaults_wanted =
        run->are_defaults_altering &&
        are_described(result, &t->configs, &run->defaults_wanted, &other_name);
    sim_check(run->sim,
              is_wanted || are_defaults_wanted,
              "topic %s does not have the configuration it should have: %s",
              t->name,
              name);
}

static void on_described(struct kafka_call *call, struct rbuf *body, struct arena *arena)
{
    struct kafka_caller *caller = kafka_caller_end(call, body);
    if (caller == NULL) {
        return;
    }
    struct admin *a = container_of(caller, struct admin, caller);
    struct describe_configs_response response;
    enum err e = describe_configs_response_decode(body, call->version, arena, &response);
    sim_check(a->actor.run->sim,
              e == ERR_OK && response.results_count == 1,
              "DescribeConfigs: %s",
              err_name(e));
    check_described(a, &response.results[0]);
}

void admin_send_describe(struct admin *a)
{
    struct describe_configs_request_resource resource;
    struct describe_configs_request request;
    describe_configs_request_init(&request);
    describe_configs_request_resource_init(&resource);
    resource.resource_type = RESOURCE_TOPIC;
    resource.resource_name = slice_of_string(a->topic->name);
    resource.configuration_keys = NULL;
    request.resources = &resource;
    request.resources_count = 1;
    struct wbuf w;
    kafka_caller_begin(&a->caller,
                       &w,
                       DESCRIBE_CONFIGS_API.key,
                       DESCRIBE_CONFIGS_VERSION_MIN,
                       DESCRIBE_CONFIGS_VERSION_MAX);
    kafka_caller_send(&a->caller,
                      &w,
                      describe_configs_request_encode(&w, a->caller.call.version, &request),
                      on_described);
}
