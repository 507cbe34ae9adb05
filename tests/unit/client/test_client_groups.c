/* What operators ask of groups: over two brokers of which one coordinates, with codes that the test
 * sets. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "client/client_group.h"
#include "core/wbuf.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/unit/client/fake_broker.h"

static struct fake_broker broker;
static struct client *client;
static int16_t failing_api;
static int16_t failing_code;
static size_t failing_count;
static bool is_classic;
static size_t counts[CLIENT_APIS_MAX]; /* Requests, by api. */

/* ---- answers ---- */

static int16_t code_for(const struct fake_request *r)
{
    if (r->api_key != failing_api || failing_count == 0) {
        return KAFKA_NONE;
    }
    failing_count--;
    return failing_code;
}

static void answer_metadata(const struct fake_request *r)
{
    struct metadata_response response;
    struct metadata_response_broker brokers[2];
    metadata_response_init(&response);
    for (int32_t i = 0; i < 2; i++) {
        metadata_response_broker_init(&brokers[i]);
        brokers[i].node_id = FAKE_NODE_ID + i;
        brokers[i].host = slice_of_string("fake");
        brokers[i].port = FAKE_PORT + i;
    }
    response.brokers = brokers;
    response.brokers_count = 2;
    fake_broker_reply(&broker, r, &response);
}

/* In both forms. */
static void answer_coordinator(const struct fake_request *r, int16_t code)
{
    struct find_coordinator_response response;
    struct find_coordinator_response_coordinator found;
    find_coordinator_response_init(&response);
    find_coordinator_response_coordinator_init(&found);
    found.node_id = FAKE_NODE_ID + 1;
    found.host = slice_of_string("fake");
    found.port = FAKE_PORT + 1;
    found.error_code = code;
    found.key = slice_of_string("g");
    if (r->version >= 4) {
        response.coordinators = &found;
        response.coordinators_count = 1;
    } else {
        const struct find_coordinator_request *request = r->message;
        cr_assert(slice_equal_string(request->key, "g"));
        response.node_id = found.node_id;
        response.host = found.host;
        response.port = found.port;
        response.error_code = code;
    }
    fake_broker_reply(&broker, r, &response);
}

/* Each broker has groups of its own. */
static void answer_list(const struct fake_request *r, int16_t code)
{
    const bool is_second = broker.connections[r->connection].port == FAKE_PORT + 1;
    struct list_groups_response response;
    struct list_groups_response_group groups[2];
    list_groups_response_init(&response);
    for (size_t i = 0; i < 2; i++) {
        list_groups_response_group_init(&groups[i]);
        groups[i].group_id = slice_of_string(is_second ? (i == 0 ? "b" : "a") : "c");
        groups[i].group_state = slice_of_string("Stable");
        groups[i].group_type = slice_of_string("consumer");
        groups[i].protocol_type = slice_of_string("consumer");
    }
    response.error_code = code;
    response.groups = groups;
    response.groups_count = code != KAFKA_NONE ? 0 : is_second ? 2 : 1;
    fake_broker_reply(&broker, r, &response);
}

static void answer_consumer(const struct fake_request *r, int16_t code)
{
    static int32_t partitions[] = {3, 1};
    struct consumer_group_describe_response response;
    struct consumer_group_describe_response_group group;
    struct consumer_group_describe_response_member member;
    struct consumer_group_describe_response_topic_partitions topic;
    consumer_group_describe_response_init(&response);
    consumer_group_describe_response_group_init(&group);
    consumer_group_describe_response_member_init(&member);
    consumer_group_describe_response_topic_partitions_init(&topic);
    topic.topic_name = slice_of_string("t");
    topic.partitions = partitions;
    topic.partitions_count = 2;
    member.member_id = slice_of_string("m");
    member.client_id = slice_of_string("c");
    member.client_host = slice_of_string("/h");
    member.member_epoch = 7;
    member.assignment.topic_partitions = &topic;
    member.assignment.topic_partitions_count = 1;
    group.error_code = code == KAFKA_NONE && is_classic ? KAFKA_GROUP_ID_NOT_FOUND : code;
    group.group_id = slice_of_string("g");
    group.group_state = slice_of_string("Stable");
    group.assignor_name = slice_of_string("uniform");
    group.group_epoch = 7;
    group.members = &member;
    group.members_count = 1;
    response.groups = &group;
    response.groups_count = 1;
    fake_broker_reply(&broker, r, &response);
}

static void answer_classic(const struct fake_request *r, int16_t code)
{
    static int32_t partitions[] = {2, 0};
    struct consumer_protocol_assignment_topic topic;
    struct consumer_protocol_assignment assignment;
    struct describe_groups_response response;
    struct describe_groups_response_group group;
    struct describe_groups_response_member member;
    struct wbuf w;
    wbuf_init(&w, 1 << 16);
    consumer_protocol_assignment_init(&assignment);
    consumer_protocol_assignment_topic_init(&topic);
    topic.topic = slice_of_string("t");
    topic.partitions = partitions;
    topic.partitions_count = 2;
    assignment.assigned_partitions = &topic;
    assignment.assigned_partitions_count = 1;
    cr_assert(consumer_protocol_assignment_encode(&w, 1, &assignment) == ERR_OK);
    describe_groups_response_init(&response);
    describe_groups_response_group_init(&group);
    describe_groups_response_member_init(&member);
    member.member_id = slice_of_string("m");
    member.member_assignment = wbuf_slice(&w);
    group.error_code = code;
    group.group_id = slice_of_string("g");
    group.group_state = slice_of_string(is_classic ? "Stable" : "Dead");
    group.protocol_type = slice_of_string("consumer");
    group.protocol_data = slice_of_string("range");
    group.members = &member;
    group.members_count = 1;
    response.groups = &group;
    response.groups_count = 1;
    fake_broker_reply(&broker, r, &response);
    wbuf_done(&w);
}

/* t[1]@5 and t[0]@4; of t[2] nothing is committed. In both forms. */
static void answer_offsets(const struct fake_request *r, int16_t code)
{
    struct offset_fetch_response response;
    struct offset_fetch_response_group group;
    struct offset_fetch_response_group_topic topic;
    struct offset_fetch_response_group_topic_partition partitions[3];
    struct offset_fetch_response_topic old_topic;
    struct offset_fetch_response_partition old_partitions[3];
    offset_fetch_response_init(&response);
    offset_fetch_response_group_init(&group);
    offset_fetch_response_group_topic_init(&topic);
    offset_fetch_response_topic_init(&old_topic);
    static const int64_t offsets[] = {5, 4, -1};
    static const int32_t numbers[] = {1, 0, 2};
    for (size_t i = 0; i < 3; i++) {
        offset_fetch_response_group_topic_partition_init(&partitions[i]);
        offset_fetch_response_partition_init(&old_partitions[i]);
        partitions[i].partition_index = old_partitions[i].partition_index = numbers[i];
        partitions[i].committed_offset = old_partitions[i].committed_offset = offsets[i];
    }
    topic.name = old_topic.name = slice_of_string("t");
    topic.partitions = partitions;
    old_topic.partitions = old_partitions;
    topic.partitions_count = old_topic.partitions_count = 3;
    group.group_id = slice_of_string("g");
    group.topics = &topic;
    group.topics_count = 1;
    if (r->version >= 8) {
        group.error_code = code;
        response.groups = &group;
        response.groups_count = 1;
    } else {
        const struct offset_fetch_request *request = r->message;
        cr_assert(slice_equal_string(request->group_id, "g"));
        cr_assert(request->topics == NULL);
        response.error_code = code;
        response.topics = &old_topic;
        response.topics_count = 1;
    }
    fake_broker_reply(&broker, r, &response);
}

static void answer_commit(const struct fake_request *r, int16_t code)
{
    const struct offset_commit_request *request = r->message;
    struct offset_commit_response response;
    struct offset_commit_response_topic topic;
    struct offset_commit_response_partition partition;
    offset_commit_response_init(&response);
    offset_commit_response_topic_init(&topic);
    offset_commit_response_partition_init(&partition);
    cr_assert(eq(i32, request->generation_id_or_member_epoch, -1));
    cr_assert(eq(sz, request->topics_count, 1));
    cr_assert(eq(sz, request->topics[0].partitions_count, 1));
    partition.partition_index = request->topics[0].partitions[0].partition_index;
    partition.error_code = code;
    topic.name = request->topics[0].name;
    topic.partitions = &partition;
    topic.partitions_count = 1;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_reply(&broker, r, &response);
}

static void answer_forget(const struct fake_request *r, int16_t code)
{
    const struct offset_delete_request *request = r->message;
    struct offset_delete_response response;
    struct offset_delete_response_topic topic;
    struct offset_delete_response_partition partition;
    offset_delete_response_init(&response);
    offset_delete_response_topic_init(&topic);
    offset_delete_response_partition_init(&partition);
    partition.partition_index = request->topics[0].partitions[0].partition_index;
    topic.name = request->topics[0].name;
    topic.partitions = &partition;
    topic.partitions_count = 1;
    response.error_code = code;
    response.topics = &topic;
    response.topics_count = code == KAFKA_NONE;
    fake_broker_reply(&broker, r, &response);
}

static void answer_delete(const struct fake_request *r, int16_t code)
{
    const struct delete_groups_request *request = r->message;
    struct delete_groups_response response;
    struct delete_groups_response_result result;
    delete_groups_response_init(&response);
    delete_groups_response_result_init(&result);
    result.group_id = request->groups_names[0];
    result.error_code = code;
    response.results = &result;
    response.results_count = 1;
    fake_broker_reply(&broker, r, &response);
}

static void serve(struct fake_broker *b, const struct fake_request *r)
{
    (void)b;
    const int16_t code = code_for(r);
    counts[r->api_key]++;
    switch (r->api_key) {
    case API_METADATA:
        answer_metadata(r);
        return;
    case API_FIND_COORDINATOR:
        answer_coordinator(r, code);
        return;
    case API_LIST_GROUPS:
        answer_list(r, code);
        return;
    default:
        break;
    }
    cr_assert(eq(int, broker.connections[r->connection].port, FAKE_PORT + 1), "the coordinator");
    switch (r->api_key) {
    case API_CONSUMER_GROUP_DESCRIBE:
        answer_consumer(r, code);
        break;
    case API_DESCRIBE_GROUPS:
        answer_classic(r, code);
        break;
    case API_OFFSET_FETCH:
        answer_offsets(r, code);
        break;
    case API_OFFSET_COMMIT:
        answer_commit(r, code);
        break;
    case API_OFFSET_DELETE:
        answer_forget(r, code);
        break;
    case API_DELETE_GROUPS:
        answer_delete(r, code);
        break;
    default:
        cr_fatal("a request of api %d", r->api_key);
    }
}

static void setup(void)
{
    fake_broker_init(&broker);
    broker.serve = serve;
    client = fake_broker_client(&broker);
    failing_count = 0;
    is_classic = false;
    memset(counts, 0, sizeof(counts));
}

static void teardown(void)
{
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_groups, .init = setup, .fini = teardown);

static void fail_next(int16_t api_key, int16_t code, size_t count)
{
    failing_api = api_key;
    failing_code = code;
    failing_count = count;
}

/* ---- tests ---- */

Test(client_groups, groups_of_all_brokers_by_name)
{
    static const char *const names[] = {"a", "b", "c"};
    struct client_group_list *list = NULL;
    fail_next(API_LIST_GROUPS, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, 2);
    cr_assert(client_list_groups(client, &list) == ERR_OK, "%s", client_why(client));
    cr_assert(eq(sz, list->groups_count, 3));
    for (size_t i = 0; i < 3; i++) {
        cr_assert(slice_equal_string(list->groups[i].name, names[i]));
        cr_assert(slice_equal_string(list->groups[i].state, "Stable"));
    }
    client_group_list_free(list);
    fail_next(API_LIST_GROUPS, KAFKA_GROUP_AUTHORIZATION_FAILED, 1);
    cr_assert(eq(int, client_list_groups(client, &list), ERR_FAILED));
}

Test(client_groups, described_by_either_protocol)
{
    for (int i = 0; i < 2; i++) {
        struct client_group *g = NULL;
        is_classic = i == 1;
        cr_assert(client_describe_group(client, "g", &g) == ERR_OK, "%s", client_why(client));
        cr_assert(slice_equal_string(g->type, is_classic ? "classic" : "consumer"));
        cr_assert(slice_equal_string(g->assignor, is_classic ? "range" : "uniform"));
        cr_assert(eq(sz, g->members_count, 1));
        cr_assert(eq(i32, g->members[0].epoch, is_classic ? -1 : 7));
        cr_assert(eq(sz, g->members[0].partitions_count, 2));
        cr_assert(eq(i32, g->members[0].partitions[0].partition, is_classic ? 0 : 1));
        cr_assert(eq(i32, g->members[0].partitions[1].partition, is_classic ? 2 : 3));
        client_group_free(g);
    }
}

/* Brokers without the new protocol, and with the oldest ways of the others. */
Test(client_groups, old_brokers)
{
    struct client_group *g = NULL;
    struct client_group_offsets *offsets = NULL;
    is_classic = true;
    broker.version_max[API_CONSUMER_GROUP_DESCRIBE] = -1;
    broker.version_max[API_FIND_COORDINATOR] = 3;
    broker.version_max[API_DESCRIBE_GROUPS] = 4;
    broker.version_max[API_OFFSET_FETCH] = 7;
    cr_assert(client_describe_group(client, "g", &g) == ERR_OK, "%s", client_why(client));
    client_group_free(g);
    cr_assert(client_group_offsets(client, "g", &offsets) == ERR_OK, "%s", client_why(client));
    cr_assert(eq(sz, offsets->offsets_count, 2));
    client_group_offsets_free(offsets);
    is_classic = false; /* Then it says that the group is dead. */
    cr_assert(eq(int, client_describe_group(client, "g", &g), ERR_NOT_FOUND));
}

Test(client_groups, offsets_by_topic_and_partition)
{
    struct client_group_offsets *offsets = NULL;
    cr_assert(client_group_offsets(client, "g", &offsets) == ERR_OK, "%s", client_why(client));
    cr_assert(eq(sz, offsets->offsets_count, 2));
    cr_assert(eq(i32, offsets->offsets[0].partition, 0));
    cr_assert(eq(i64, offsets->offsets[0].offset, 4));
    cr_assert(eq(i32, offsets->offsets[1].partition, 1));
    client_group_offsets_free(offsets);
}

/* A coordinator that moves or loads is looked for again; one that never helps is not for ever. */
Test(client_groups, a_coordinator_that_moves)
{
    static const int16_t codes[] = {KAFKA_NOT_COORDINATOR, KAFKA_COORDINATOR_LOAD_IN_PROGRESS};
    struct client_group_offsets *offsets = NULL;
    for (size_t i = 0; i < 2; i++) {
        memset(counts, 0, sizeof(counts));
        fail_next(API_OFFSET_FETCH, codes[i], 2);
        cr_assert(client_group_offsets(client, "g", &offsets) == ERR_OK, "%s", client_why(client));
        client_group_offsets_free(offsets);
        cr_assert(eq(sz, counts[API_FIND_COORDINATOR], 3));
        cr_assert(eq(sz, counts[API_OFFSET_FETCH], 3));
    }
    fail_next(API_FIND_COORDINATOR, KAFKA_COORDINATOR_NOT_AVAILABLE, SIZE_MAX);
    cr_assert(eq(int, client_group_offsets(client, "g", &offsets), ERR_NOT_LEADER));
    cr_assert(strstr(client_why(client), "'g'") != NULL, "%s", client_why(client));
}

/* What is to be set and what is to be forgotten are two requests. */
Test(client_groups, offsets_set_and_forgotten)
{
    const struct client_group_offset offsets[] = {{"t", 0, 4, NULL}, {"t", 1, -1, NULL}};
    struct client_topic_result results[2];
    cr_assert(client_alter_group_offsets(client, "g", offsets, 2, results) == ERR_OK);
    cr_assert(eq(int, results[0].err, ERR_OK));
    cr_assert(eq(int, results[1].err, ERR_OK));
    fail_next(API_OFFSET_COMMIT, KAFKA_UNKNOWN_MEMBER_ID, 1);
    cr_assert(client_alter_group_offsets(client, "g", offsets, 2, results) == ERR_OK);
    cr_assert(eq(int, results[0].err, ERR_FAILED));
    cr_assert(eq(int, results[1].err, ERR_OK));
    fail_next(API_OFFSET_DELETE, KAFKA_GROUP_ID_NOT_FOUND, 1);
    cr_assert(client_alter_group_offsets(client, "g", offsets, 2, results) == ERR_OK);
    cr_assert(eq(int, results[0].err, ERR_OK));
    cr_assert(eq(int, results[1].err, ERR_NOT_FOUND));
}

Test(client_groups, groups_deleted)
{
    static const struct row {
        int16_t code;
        enum err err;
    } rows[] = {
        {KAFKA_NONE, ERR_OK},
        {KAFKA_NON_EMPTY_GROUP, ERR_POLICY},
        {KAFKA_GROUP_ID_NOT_FOUND, ERR_NOT_FOUND},
    };
    const char *const names[] = {"g", "h"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_topic_result results[2];
        fail_next(API_DELETE_GROUPS, rows[i].code, 1);
        cr_assert(client_delete_groups(client, names, 2, results) == ERR_OK);
        cr_assert(eq(int, results[0].err, rows[i].err));
        cr_assert(eq(int, results[1].err, ERR_OK));
    }
}
