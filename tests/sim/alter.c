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
    SOURCE_TOPIC = 1,
    OPERATION_SET = 0,
    OPERATION_DELETE = 1,
    OPERATION_APPEND = 2,
    OPERATION_SUBTRACT = 3,
    CHANGES_MAX = SIM_CONFIGS_COUNT + 1,
    CRASH_STEPS_MAX = 300,
};

/* ---- the answer ---- */

static void begin_altering(struct sim_topic *t)
{
    struct history_rules rules;
    sim_configs_rules(&t->kind, &t->wanted, &rules);
    history_rules_join(&t->rules, &rules);
    t->codecs_ever |= rules.codecs;
    t->rules_version++;
    t->is_altering = true;
    for (int32_t i = 0; i < t->partitions_count; i++) {
        history_alter(&t->histories[i], &rules);
    }
}

static void end_altering(struct sim_topic *t)
{
    t->configs = t->wanted;
    sim_configs_rules(&t->kind, &t->configs, &t->rules);
    t->rules_version++;
    t->is_altering = false;
    for (int32_t i = 0; i < t->partitions_count; i++) {
        history_altered(&t->histories[i], &t->rules);
    }
}

static void take_code(struct admin *a, int16_t code)
{
    struct sim *sim = a->actor.run->sim;
    sim_say(sim, "alters %s: error_code=%d trial=%d", a->topic->name, code, (int)a->trial);
    if (admin_is_retriable(a, code)) {
        return;
    }
    const int16_t expected = a->trial == TRIAL_INVALID ? KAFKA_INVALID_CONFIG : KAFKA_NONE;
    sim_check(sim, code == expected, "altering %s: error_code=%d", a->topic->name, code);
    if (a->trial != TRIAL_NONE) {
        return; /* Nothing has changed. */
    }
    sim_trace(sim, "altered", a->topic->life, (uint64_t)(a->topic - a->actor.run->topics));
    sim_mark(sim, "sim_configs_altered");
    end_altering(a->topic);
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

/* All that shall be set; what is not named goes back to its default. */
static void send_all(struct admin *a)
{
    const struct sim_topic *t = a->topic;
    struct alter_configs_request_config configs[CHANGES_MAX];
    struct alter_configs_request_resource resource;
    struct alter_configs_request request;
    alter_configs_request_init(&request);
    alter_configs_request_resource_init(&resource);
    resource.resource_type = RESOURCE_TOPIC;
    resource.resource_name = slice_of_string(t->name);
    resource.configs = configs;
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        if (t->wanted.values[i][0] != '\0') {
            struct alter_configs_request_config *c = &configs[resource.configs_count++];
            c->name = slice_of_string(sim_config_name(i));
            c->value = slice_of_string(t->wanted.values[i]);
        }
    }
    if (a->trial == TRIAL_INVALID) {
        configs[resource.configs_count++] = (struct alter_configs_request_config){
            .name = slice_of_string("flush.ms"), .value = slice_of_string("-1")};
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
    const struct sim_topic *t = a->topic;
    const char *wanted = t->wanted.values[config];
    incremental_alter_configs_request_config_init(c);
    c->name = slice_of_string(sim_config_name(config));
    c->value = slice_of_string(wanted);
    c->config_operation = wanted[0] == '\0' ? OPERATION_DELETE : OPERATION_SET;
    if (config == CONFIG_POLICY && rand_one_in(&a->actor.run->sim->rand, 2)) {
        change_as_list(c, t->configs.values[config], wanted);
    }
}

static void send_some(struct admin *a)
{
    const struct sim_topic *t = a->topic;
    struct incremental_alter_configs_request_config configs[CHANGES_MAX];
    struct incremental_alter_configs_request_resource resource;
    struct incremental_alter_configs_request request;
    incremental_alter_configs_request_init(&request);
    incremental_alter_configs_request_resource_init(&resource);
    resource.resource_type = RESOURCE_TOPIC;
    resource.resource_name = slice_of_string(t->name);
    resource.configs = configs;
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        if (strcmp(t->wanted.values[i], t->configs.values[i]) != 0) {
            fill_change(a, i, &configs[resource.configs_count++]);
        }
    }
    if (a->trial == TRIAL_INVALID) {
        struct incremental_alter_configs_request_config *c = &configs[resource.configs_count++];
        incremental_alter_configs_request_config_init(c);
        c->name = slice_of_string("flush.ms");
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
    t->wanted = t->configs;
    sim_configs_redraw(sim, &t->kind, &t->wanted);
    a->trial = TRIAL_NONE;
    if (rand_one_in(&sim->rand, 8)) {
        a->trial = rand_one_in(&sim->rand, 2) ? TRIAL_INVALID : TRIAL_VALIDATE;
    } else {
        begin_altering(t);
    }
    admin_send_alter(a);
}

/* ---- describing ---- */

static bool is_described(const struct describe_configs_response_config *c, const char *value)
{
    const bool is_own = c->config_source == SOURCE_TOPIC;
    return value[0] == '\0' ? !is_own : is_own && slice_equal_string(c->value, value);
}

/* Whether the answer is this configuration; else the first name that is not. */
static bool are_described(const struct describe_configs_response_result *result,
                          const struct sim_configs *configs,
                          const char **ret_name)
{
    for (uint32_t i = 0; i < SIM_CONFIGS_COUNT; i++) {
        bool is_right = false;
        for (size_t k = 0; k < result->configs_count && !is_right; k++) {
            const struct describe_configs_response_config *c = &result->configs[k];
            is_right = slice_equal_string(c->name, sim_config_name(i)) &&
                       is_described(c, configs->values[i]);
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
    struct sim *sim = a->actor.run->sim;
    const struct sim_topic *t = a->topic;
    const char *name = "";
    sim_check(sim,
              result->error_code == KAFKA_NONE,
              "DescribeConfigs %s: error_code=%d",
              t->name,
              result->error_code);
    if (are_described(result, &t->configs, &name)) {
        sim_mark(sim, "sim_configs_described");
        return;
    }
    const char *name_wanted = "";
    sim_check(sim,
              t->is_altering && are_described(result, &t->wanted, &name_wanted),
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
