/* Options and partitions of topics: what is asked, and what becomes of each answer. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/create_partitions.h"
#include "kafka/proto/describe_configs.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/incremental_alter_configs.h"
#include "kafka/proto/metadata.h"

#include "tests/unit/client/fake_broker.h"

static struct fake_broker broker;
static struct client *client;

static void setup(void)
{
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
    fake_broker_connection(&broker);
}

static void teardown(void)
{
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_configs, .init = setup, .fini = teardown);

struct answer_row {
    const char *topic; /* That the answer is about; "t" was asked. */
    const char *message;
    int16_t code;
    enum err err;
    const char *why;
};

/* The broker's words if it has some, else ours; an answer about another topic tells nothing. */
static const struct answer_row answer_rows[] = {
    {"t", NULL, KAFKA_NONE, ERR_OK, ""},
    {"t", "retention.ms: no number", KAFKA_INVALID_CONFIG, ERR_CONFIG_INVALID, "retention.ms"},
    {"t", NULL, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, ERR_TOPIC_UNKNOWN, "does not exist"},
    {"other", NULL, KAFKA_NONE, ERR_CORRUPT, "does not tell"},
};

static void check_result(const struct answer_row *row, enum err e, struct client_topic_result *r)
{
    cr_assert(eq(int, e, ERR_OK), "%s", client_why(client));
    cr_assert(eq(int, r->err, row->err), "%s", r->why);
    cr_assert(strstr(r->why, row->why) != NULL, "%s", r->why);
}

Test(client_configs, alter)
{
    static const struct client_config changes[] = {{"retention.ms", "1"}, {"segment.ms", NULL}};
    for (size_t i = 0; i < sizeof(answer_rows) / sizeof(answer_rows[0]); i++) {
        const struct answer_row *row = &answer_rows[i];
        struct incremental_alter_configs_response_resource resource;
        incremental_alter_configs_response_resource_init(&resource);
        resource.error_code = row->code;
        resource.error_message = slice_of_string(row->message);
        resource.resource_type = 2;
        resource.resource_name = slice_of_string(row->topic);
        struct incremental_alter_configs_response response;
        incremental_alter_configs_response_init(&response);
        response.responses = &resource;
        response.responses_count = 1;
        teardown();
        setup();
        fake_broker_answer(&broker, API_INCREMENTAL_ALTER_CONFIGS, &response);
        struct client_topic_result result;
        enum err e = client_alter_topic_configs(client, "t", changes, 2, &result);
        check_result(row, e, &result);
    }
    struct incremental_alter_configs_request request;
    struct api_versions_request versions; /* The connection's first. */
    cr_assert(fake_broker_request(&broker, 0, API_API_VERSIONS, &versions));
    cr_assert(fake_broker_request(&broker, 0, API_INCREMENTAL_ALTER_CONFIGS, &request));
    cr_assert(eq(sz, request.resources_count, 1));
    const struct incremental_alter_configs_request_config *asked = request.resources[0].configs;
    cr_assert(eq(sz, request.resources[0].configs_count, 2));
    cr_assert(eq(int, asked[0].config_operation, 0));
    cr_assert(slice_equal_string(asked[0].value, "1"));
    cr_assert(eq(int, asked[1].config_operation, 1));
    cr_assert(slice_is_null(asked[1].value));
}

Test(client_configs, grow)
{
    for (size_t i = 0; i < sizeof(answer_rows) / sizeof(answer_rows[0]); i++) {
        const struct answer_row *row = &answer_rows[i];
        struct create_partitions_response_result answer;
        create_partitions_response_result_init(&answer);
        answer.name = slice_of_string(row->topic);
        answer.error_code = row->code;
        answer.error_message = slice_of_string(row->message);
        struct create_partitions_response response;
        create_partitions_response_init(&response);
        response.results = &answer;
        response.results_count = 1;
        teardown();
        setup();
        fake_broker_answer(&broker, API_CREATE_PARTITIONS, &response);
        struct client_topic_result result;
        check_result(row, client_create_partitions(client, "t", 7, &result), &result);
    }
    struct create_partitions_request request;
    struct api_versions_request versions; /* The connection's first. */
    cr_assert(fake_broker_request(&broker, 0, API_API_VERSIONS, &versions));
    cr_assert(fake_broker_request(&broker, 0, API_CREATE_PARTITIONS, &request));
    cr_assert(eq(sz, request.topics_count, 1));
    cr_assert(eq(i32, request.topics[0].count, 7));
    cr_assert(request.topics[0].assignments == NULL);
}

static void answer_describe(int16_t code, const char *topic)
{
    struct describe_configs_response_config config;
    describe_configs_response_config_init(&config);
    config.name = slice_of_string("retention.ms");
    config.value = slice_of_string("1");
    config.config_source = CLIENT_CONFIG_TOPIC;
    struct describe_configs_response_result result;
    describe_configs_response_result_init(&result);
    result.error_code = code;
    result.error_message = slice_of_string(code == KAFKA_NONE ? NULL : "the words");
    result.resource_type = 2;
    result.resource_name = slice_of_string(topic);
    result.configs = &config;
    result.configs_count = code == KAFKA_NONE;
    struct describe_configs_response response;
    describe_configs_response_init(&response);
    response.results = &result;
    response.results_count = 1;
    fake_broker_answer(&broker, API_DESCRIBE_CONFIGS, &response);
}

Test(client_configs, describe)
{
    struct client_configs *configs = NULL;
    answer_describe(KAFKA_NONE, "t");
    cr_assert(eq(int, client_describe_topic_configs(client, "t", &configs), ERR_OK));
    cr_assert(eq(sz, configs->entries_count, 1));
    cr_assert(slice_equal_string(configs->entries[0].name, "retention.ms"));
    cr_assert(slice_equal_string(configs->entries[0].value, "1"));
    cr_assert(eq(int, configs->entries[0].source, CLIENT_CONFIG_TOPIC));
    client_configs_free(configs);
}

/* The broker's own words, but for topics: those we can say better. */
Test(client_configs, describe_of_a_broker)
{
    static const struct client_resource all = {CLIENT_RESOURCE_BROKER, ""};
    static const struct client_resource other = {CLIENT_RESOURCE_BROKER, "1"};
    struct client_configs *configs = NULL;
    answer_describe(KAFKA_NONE, "");
    cr_assert(eq(int, client_describe_configs(client, &all, &configs), ERR_OK));
    cr_assert(eq(sz, configs->entries_count, 1));
    client_configs_free(configs);
    fake_broker_metadata(&broker, 1);
    answer_describe(KAFKA_INVALID_REQUEST, "1");
    cr_assert(eq(int, client_describe_configs(client, &other, &configs), ERR_INVALID));
    cr_assert(
        strstr(client_why(client), "broker '1': the words") != NULL, "%s", client_why(client));
    struct describe_configs_request request;
    struct api_versions_request versions; /* The connection's first. */
    cr_assert(fake_broker_request(&broker, 0, API_API_VERSIONS, &versions));
    cr_assert(fake_broker_request(&broker, 0, API_DESCRIBE_CONFIGS, &request));
    cr_assert(eq(int, request.resources[0].resource_type, 4));
    cr_assert(eq(sz, request.resources[0].resource_name.size, 0));
}

/* A broker answers for itself alone. */
Test(client_configs, options_of_a_broker_are_asked_of_it)
{
    static const int32_t leaders[] = {FAKE_NODE_ID};
    static const struct client_resource second = {CLIENT_RESOURCE_BROKER, "2"};
    static const struct client_resource none = {CLIENT_RESOURCE_BROKER, "7"};
    static const struct client_config change = {"retention.ms", "1"};
    struct client_configs *configs = NULL;
    struct client_topic_result result;
    for (int i = 0; i < 3; i++) {
        fake_broker_metadata_of_two(&broker, leaders, 1);
    }
    fake_broker_connection(&broker);
    answer_describe(KAFKA_NONE, "2");
    struct incremental_alter_configs_response_resource resource;
    incremental_alter_configs_response_resource_init(&resource);
    resource.resource_type = CLIENT_RESOURCE_BROKER;
    resource.resource_name = slice_of_string("2");
    struct incremental_alter_configs_response response;
    incremental_alter_configs_response_init(&response);
    response.responses = &resource;
    response.responses_count = 1;
    fake_broker_answer(&broker, API_INCREMENTAL_ALTER_CONFIGS, &response);
    enum err e = client_describe_configs(client, &second, &configs);
    cr_assert(e == ERR_OK, "%s", client_why(client));
    client_configs_free(configs);
    cr_assert(eq(int, client_alter_configs(client, &second, &change, 1, &result), ERR_OK));
    cr_assert(eq(int, result.err, ERR_OK), "%s", result.why);
    cr_assert(eq(int, client_describe_configs(client, &none, &configs), ERR_NOT_FOUND));
    cr_assert(strstr(client_why(client), "node 7") != NULL, "%s", client_why(client));
    struct metadata_request asked;
    fake_broker_skip(&broker, 0, API_API_VERSIONS);
    cr_assert(fake_broker_request(&broker, 0, API_METADATA, &asked));
    cr_assert(asked.topics != NULL); /* That is all topics. */
    cr_assert(eq(sz, asked.topics_count, 0));
}

Test(client_configs, describe_fails_with_words)
{
    struct client_configs *configs = NULL;
    answer_describe(KAFKA_UNKNOWN_TOPIC_OR_PARTITION, "t");
    answer_describe(KAFKA_NONE, "other");
    cr_assert(eq(int, client_describe_topic_configs(client, "t", &configs), ERR_TOPIC_UNKNOWN));
    cr_assert(strstr(client_why(client), "does not exist") != NULL, "%s", client_why(client));
    cr_assert(eq(int, client_describe_topic_configs(client, "t", &configs), ERR_CORRUPT));
    cr_assert(configs == NULL);
}
