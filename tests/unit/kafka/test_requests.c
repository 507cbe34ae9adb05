/* Dispatch and the handlers without a file of their own here. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "groups/groups.h"
#include "kafka/api_table.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/delete_records.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/offset_commit.h"

#include "tests/support/kafka_rig.h"

/* The table promises nothing that the codec cannot do, and nothing unstable. */
Test(dispatch, the_table_fits_the_codec)
{
    for (size_t i = 0; i < API_COUNT; i++) {
        const struct api *api = &API_TABLE[i];
        cr_assert(eq(i16, api->key, api->schema->key));
        cr_assert(ge(i16, api->served_min, api->schema->version_min));
        cr_assert(le(i16, api->max, api->schema->version_stable_max));
        cr_assert(le(i16, api->listed_min, api->served_min));
        cr_assert(eq(ptr, (void *)api_find(api->key), (void *)api));
    }
    cr_assert(eq(ptr, (void *)api_find(32000), NULL));
}

Test(dispatch, bytes_that_are_no_request_close)
{
    static const struct {
        const char *what;
        uint8_t bytes[20];
        size_t size;
    } rows[] = {
        {"shorter than a header", {0, 0, 0, 4, 0, 3, 0, 1}, 8},
        {"unknown key", {0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, 14},
        {"unknown version", {0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff}, 14},
        {"client id beyond the frame", {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0, 9}, 14},
        {"no body", {0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff}, 14},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        fake_peer_send(g.peer, rows[i].bytes, rows[i].size);
        kafka_rig_run(&g);
        cr_assert(fake_peer_is_closed(g.peer), "%s", rows[i].what);
        cr_assert(eq(sz, fake_peer_received(g.peer).size, 0));
        kafka_rig_done(&g);
    }
}

/* Every prefix of a good request, as a frame of its own length, closes the connection or, where it
 * happens to be complete, is answered; nothing is left behind either way. */
Test(dispatch, every_truncation_ends_well)
{
    static const uint8_t good[] = {0, 3, 0, 1, 0, 0, 0, 7, 0, 1, 'c', 0, 0, 0, 1, 0, 2, 't', 't'};
    for (size_t cut = 0; cut <= sizeof(good); cut++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        g.settings.is_auto_create = false;
        uint8_t frame[4 + sizeof(good)] = {0, 0, 0, (uint8_t)cut};
        memcpy(frame + 4, good, cut);
        fake_peer_send(g.peer, frame, 4 + cut);
        kafka_rig_run(&g);
        cr_assert(eq(int, fake_peer_is_closed(g.peer), cut < sizeof(good)), "cut=%zu", cut);
        kafka_rig_done(&g);
    }
}

/* KIP-511: a version from the future is answered in version 0. */
Test(dispatch, api_versions_of_the_future)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    static const uint8_t frame[] = {0, 0, 0, 11, 0, 18, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 7};
    fake_peer_send(g.peer, frame, sizeof(frame));
    const struct api_versions_response *out = kafka_rig_answer(&g, &API_VERSIONS_API, 0);
    cr_assert(eq(int, out->error_code, KAFKA_UNSUPPORTED_VERSION));
    cr_assert(eq(sz, out->api_keys_count, 1));
    cr_assert(eq(i16, out->api_keys[0].api_key, 18));
    cr_assert(eq(i16, out->api_keys[0].max_version, 4));
    kafka_rig_done(&g);
}

static void ask_metadata(struct kafka_rig *g, const char *name)
{
    struct metadata_request_topic t;
    metadata_request_topic_init(&t);
    t.name = slice_of_string(name);
    struct metadata_request in;
    metadata_request_init(&in);
    in.topics = &t;
    in.topics_count = 1;
    kafka_rig_send(g, &METADATA_API, 8, &in);
}

/* The answer waits for the topic it creates. */
Test(metadata_request, creates_and_waits)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    ask_metadata(&g, "fresh");
    cr_assert(eq(u32, g.cluster.requests_count, 1));
    const struct controller_request *c = g.cluster.requests[0];
    cr_assert(eq(i32, c->in.create_topic.partitions_count, -1));
    cr_assert(slice_equal_string(c->in.create_topic.name, "fresh"));
    cr_assert(eq(ptr, (void *)kafka_rig_answer(&g, &METADATA_API, 8), NULL));

    fake_cluster_add_topic(&g.cluster, "fresh", 3);
    fake_cluster_end_request(&g.cluster, ERR_OK);
    const struct metadata_response *out = kafka_rig_answer(&g, &METADATA_API, 8);
    cr_assert(eq(sz, out->topics_count, 1));
    cr_assert(eq(sz, out->topics[0].partitions_count, 3));
    cr_assert(eq(i32, out->topics[0].partitions[2].leader_epoch, 5));
    cr_assert(slice_equal_string(out->brokers[0].host, "broker.example"));
    cr_assert(eq(i32, out->brokers[0].port, 1234));
    kafka_rig_done(&g);
}

Test(metadata_request, failed_creations_are_told_apart)
{
    static const struct {
        enum err result;
        enum kafka_error code;
    } rows[] = {
        {ERR_TOPIC_NAME_INVALID, KAFKA_INVALID_TOPIC_EXCEPTION},
        {ERR_NO_SPACE, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {ERR_CANCELLED, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        ask_metadata(&g, "fresh");
        fake_cluster_end_request(&g.cluster, rows[i].result);
        const struct metadata_response *out = kafka_rig_answer(&g, &METADATA_API, 8);
        cr_assert(eq(int, out->topics[0].error_code, rows[i].code));
        kafka_rig_done(&g);
    }
}

Test(metadata_request, creates_nothing_where_it_may_not)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    g.settings.is_auto_create = false;
    ask_metadata(&g, "fresh");
    cr_assert(eq(u32, g.cluster.requests_count, 0));
    const struct metadata_response *out = kafka_rig_answer(&g, &METADATA_API, 8);
    cr_assert(eq(int, out->topics[0].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    kafka_rig_done(&g);
}

/* As Kafka, which takes a set of the names. */
Test(delete_groups, a_name_is_answered_once)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    struct slice names[] = {slice_of_string("b"),
                            slice_of_string("a"),
                            slice_of_string("b"),
                            slice_of_string(""),
                            slice_of_string("b")};
    struct delete_groups_request in;
    delete_groups_request_init(&in);
    in.groups_names = names;
    in.groups_names_count = 5;
    kafka_rig_send(&g, &DELETE_GROUPS_API, 2, &in);
    const struct delete_groups_response *out = kafka_rig_answer(&g, &DELETE_GROUPS_API, 2);
    cr_assert(eq(sz, out->results_count, 3));
    cr_assert(slice_equal_string(out->results[0].group_id, "b"));
    cr_assert(slice_equal_string(out->results[1].group_id, "a"));
    cr_assert(slice_equal_string(out->results[2].group_id, ""));
    kafka_rig_done(&g);
}

/* More groups than are asked about at a time: when the client is gone, or the broker stops, the
 * others are not looked up any more. But those that are to be deleted are deleted. */
Test(group_asks, nothing_is_begun_for_nobody)
{
    enum {
        COUNT = 500,
        BODY_SIZE = 14 + 4 * COUNT,
        HOPS = 2,
    };
    static const struct {
        uint8_t api;
        bool is_done;
    } rows[] = {{15, false}, {42, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        uint8_t frame[4 + BODY_SIZE] = {0, 0, BODY_SIZE >> 8, BODY_SIZE & 0xff};
        memcpy(frame + 4, (uint8_t[]){0, rows[i].api, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, 10);
        memcpy(frame + 14, (uint8_t[]){0, 0, COUNT >> 8, COUNT & 0xff}, 4);
        for (size_t j = 0; j < COUNT; j++) {
            const uint8_t name[] = {0, 2, (uint8_t)('a' + j / 26), (uint8_t)('a' + j % 26)};
            memcpy(frame + 18 + 4 * j, name, sizeof(name));
        }
        const uint64_t before = g.ts.shard.counters.messages;
        fake_peer_send(g.peer, frame, sizeof(frame));
        (void)fake_transport_run(g.ft);
        fake_peer_close(g.peer, ERR_CLOSED);
        (void)fake_transport_run(g.ft);
        kafka_rig_run(&g);
        const uint64_t sent = g.ts.shard.counters.messages - before;
        cr_expect(eq(int, sent >= (uint64_t)COUNT * HOPS, rows[i].is_done), "api %d", rows[i].api);
        kafka_rig_done(&g);
    }
}

/* offsets.commit.timeout.ms: what is only to be durable is not waited for any longer. */
Test(group_asks, a_commit_is_answered_in_time)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "__consumer_offsets", 1);
    groups_on_metadata(groups_set_get(g.groups, 0));
    struct offset_commit_request_partition partition = {.committed_offset = 1};
    struct offset_commit_request_topic topic = {
        .name = slice_of_string("t"), .partitions = &partition, .partitions_count = 1};
    struct offset_commit_request in;
    offset_commit_request_init(&in);
    in.group_id = slice_of_string("g");
    in.generation_id_or_member_epoch = -1;
    in.topics = &topic;
    in.topics_count = 1;
    kafka_rig_send(&g, &OFFSET_COMMIT_API, 8, &in);
    kafka_rig_advance(&g, groups_commit_timeout_us(groups_set_get(g.groups, 0)) - 1);
    cr_assert(eq(ptr, (void *)kafka_rig_answer(&g, &OFFSET_COMMIT_API, 8), NULL));
    kafka_rig_advance(&g, 1);
    const struct offset_commit_response *out = kafka_rig_answer(&g, &OFFSET_COMMIT_API, 8);
    cr_assert(ne(ptr, (void *)out, NULL));
    cr_assert(eq(int, out->topics[0].partitions[0].error_code, KAFKA_COORDINATOR_NOT_AVAILABLE));
    kafka_rig_done(&g);
}

Test(init_producer_id, passes_the_id_on)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    struct init_producer_id_request in;
    init_producer_id_request_init(&in);
    in.transactional_id = (struct slice){0};
    kafka_rig_send(&g, &INIT_PRODUCER_ID_API, 4, &in);
    g.cluster.requests[0]->out.allocate_producer_id.producer_id = 4711;
    fake_cluster_end_request(&g.cluster, ERR_OK);
    const struct init_producer_id_response *out = kafka_rig_answer(&g, &INIT_PRODUCER_ID_API, 4);
    cr_assert(eq(i64, out->producer_id, 4711));
    cr_assert(eq(i16, out->producer_epoch, 0));

    kafka_rig_send(&g, &INIT_PRODUCER_ID_API, 4, &in);
    fake_cluster_end_request(&g.cluster, ERR_BUSY);
    out = kafka_rig_answer(&g, &INIT_PRODUCER_ID_API, 4);
    cr_assert(kafka_error_is_retriable(out->error_code));
    cr_assert(eq(i64, out->producer_id, -1));
    kafka_rig_done(&g);
}

/* One answer per topic, and the message of whoever refused. */
Test(create_topics, each_topic_has_its_result)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    struct create_topics_request_topic topics[2];
    for (size_t i = 0; i < 2; i++) {
        create_topics_request_topic_init(&topics[i]);
        topics[i].name = slice_of_string(i == 0 ? "good" : "bad");
        topics[i].num_partitions = 4;
        topics[i].replication_factor = 1;
    }
    struct create_topics_request in;
    create_topics_request_init(&in);
    in.topics = topics;
    in.topics_count = 2;
    kafka_rig_send(&g, &CREATE_TOPICS_API, 7, &in);
    cr_assert(eq(u32, g.cluster.requests_count, 2));
    g.cluster.requests[0]->out.create_topic.partitions_count = 4;
    g.cluster.requests[0]->out.create_topic.replication_factor = 1;
    fake_cluster_end_request(&g.cluster, ERR_OK);
    strcpy(g.cluster.requests[0]->message, "Say why.");
    fake_cluster_end_request(&g.cluster, ERR_CONFIG_INVALID);

    const struct create_topics_response *out = kafka_rig_answer(&g, &CREATE_TOPICS_API, 7);
    cr_assert(eq(sz, out->topics_count, 2));
    cr_assert(eq(int, out->topics[0].error_code, KAFKA_NONE));
    cr_assert(eq(i32, out->topics[0].num_partitions, 4));
    cr_assert(lt(sz, 20, out->topics[0].configs_count));
    cr_assert(eq(int, out->topics[1].error_code, KAFKA_INVALID_CONFIG));
    cr_assert(slice_equal_string(out->topics[1].error_message, "Say why."));
    kafka_rig_done(&g);
}

Test(delete_topics, may_be_switched_off)
{
    for (int16_t version = 1; version <= 6; version++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        g.settings.is_delete_enabled = false;
        struct slice name = slice_of_string("topic");
        struct delete_topics_request_topic topic;
        delete_topics_request_topic_init(&topic);
        topic.name = name;
        struct delete_topics_request in;
        delete_topics_request_init(&in);
        if (version >= 6) {
            in.topics = &topic;
            in.topics_count = 1;
        } else {
            in.topic_names = &name;
            in.topic_names_count = 1;
        }
        kafka_rig_send(&g, &DELETE_TOPICS_API, version, &in);
        cr_assert(eq(u32, g.cluster.requests_count, 0));
        const struct delete_topics_response *out =
            kafka_rig_answer(&g, &DELETE_TOPICS_API, version);
        cr_assert(eq(int,
                     out->responses[0].error_code,
                     version >= 3 ? KAFKA_TOPIC_DELETION_DISABLED : KAFKA_INVALID_REQUEST));
        kafka_rig_done(&g);
    }
}

/* ---- DeleteRecords ---- */

/* One partition is late: it is said to be so, and called back. */
Test(delete_records, a_timeout_answers_and_calls_back)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 2);
    struct delete_records_request_partition partitions[] = {
        {.partition_index = 0, .offset = 5},
        {.partition_index = 1, .offset = -1},
    };
    struct delete_records_request_topic topic = {
        .name = slice_of_string("topic"), .partitions = partitions, .partitions_count = 2};
    struct delete_records_request in;
    delete_records_request_init(&in);
    in.topics = &topic;
    in.topics_count = 1;
    in.timeout_ms = 5000;
    kafka_rig_send(&g, &DELETE_RECORDS_API, 2, &in);
    struct partition_op *op = fake_cluster_op(&g.cluster, 0);
    cr_assert(eq(i64, op->in.delete_records.offset, 5));
    fake_cluster_end_op_at(
        &g.cluster, op, ERR_OK, &(struct partition_offsets){.log_start_offset = 5});
    kafka_rig_advance(&g, 4999 * 1000);
    cr_assert(eq(ptr, (void *)kafka_rig_answer(&g, &DELETE_RECORDS_API, 2), NULL));
    kafka_rig_advance(&g, 2000);
    const struct delete_records_response *out = kafka_rig_answer(&g, &DELETE_RECORDS_API, 2);
    const struct delete_records_response_partition *p = out->topics[0].partitions;
    cr_assert(eq(i64, p[0].low_watermark, 5));
    cr_assert(eq(int, p[1].error_code, KAFKA_REQUEST_TIMED_OUT));
    cr_assert(eq(i64, p[1].low_watermark, -1));

    cr_assert(eq(u32, g.cluster.cancels_count, 1));
    cr_assert(eq(ptr, g.cluster.cancels[0]->target, fake_cluster_op(&g.cluster, 1)));
    fake_cluster_end_op(&g.cluster, fake_cluster_op(&g.cluster, 1), ERR_CANCELLED, 0);
    fake_cluster_end_cancel(&g.cluster);
    kafka_rig_run(&g);
    cr_assert(eq(sz, kafka_rig_memory(&g), 0));
    kafka_rig_done(&g);
}

/* ---- ListOffsets ---- */

struct list_offsets_wish {
    int16_t version;
    int8_t isolation_level;
    int32_t replica_id;
    int64_t timestamp;
};

/* Of one partition; the answer is the next one. */
static void send_list_offsets(struct kafka_rig *g, const struct list_offsets_wish *w)
{
    struct list_offsets_request_partition p = {.current_leader_epoch = -1,
                                               .timestamp = w->timestamp};
    struct list_offsets_request_topic t = {
        .name = slice_of_string("topic"), .partitions = &p, .partitions_count = 1};
    struct list_offsets_request in;
    list_offsets_request_init(&in);
    in.replica_id = w->replica_id;
    in.isolation_level = w->isolation_level;
    in.topics = &t;
    in.topics_count = 1;
    kafka_rig_send(g, &LIST_OFFSETS_API, w->version, &in);
}

static const struct list_offsets_response_partition *listed(struct kafka_rig *g, int16_t version)
{
    const struct list_offsets_response *out = kafka_rig_answer(g, &LIST_OFFSETS_API, version);
    return &out->topics[0].partitions[0];
}

/* KIP-79: a record at or beyond what the reader may see is not there. */
Test(list_offsets, hides_what_is_not_committed)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    for (int64_t offset = 9; offset <= 11; offset++) {
        send_list_offsets(&g, &(struct list_offsets_wish){5, 0, -1, 1000});
        struct partition_op *op = fake_cluster_op(&g.cluster, 0);
        cr_assert(eq(int, op->kind, PARTITION_FIND_TIME));
        op->out.find_time.offset = offset;
        op->out.find_time.timestamp = 1001;
        op->out.find_time.leader_epoch = 2;
        fake_cluster_end_op(&g.cluster, op, ERR_OK, 10);
        const struct list_offsets_response_partition *found = listed(&g, 5);
        cr_assert(eq(int, found->error_code, KAFKA_NONE));
        cr_assert(eq(i64, found->offset, offset < 10 ? offset : -1));
        cr_assert(eq(i64, found->timestamp, offset < 10 ? 1001 : -1));
        cr_assert(eq(i32, found->leader_epoch, offset < 10 ? 2 : -1));
    }
    kafka_rig_done(&g);
}

/* Public case C032: 5 records and 3 of an open transaction. No transaction can be open here yet;
 * the handler knows what a reader of committed records may see all the same. */
Test(list_offsets, c032_read_committed_ends_at_the_last_stable_offset)
{
    static const struct {
        struct list_offsets_wish wish;
        int64_t found; /* By time. */
        int64_t offset;
    } rows[] = {
        {{2, 0, -1, -1}, -1, 8},
        {{2, 1, -1, -1}, -1, 5},
        {{2, 0, -2, -1}, -1, 9}, /* A debugging consumer sees all there is. */
        {{2, 0, -1, 1000}, 6, 6},
        {{2, 1, -1, 1000}, 6, -1},
        {{2, 1, -1, 1000}, 5, -1},
        {{2, 1, -1, 1000}, 4, 4},
        {{7, 1, -1, -3}, 7, -1},
    };
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        send_list_offsets(&g, &rows[i].wish);
        struct partition_op *op = fake_cluster_op(&g.cluster, 0);
        op->out.find_time.offset = rows[i].found;
        op->out.find_time.timestamp = 1001;
        const struct partition_offsets offsets = {
            .high_watermark = 8, .last_stable_offset = 5, .log_end_offset = 9, .leader_epoch = 1};
        fake_cluster_end_op_at(&g.cluster, op, ERR_OK, &offsets);
        const struct list_offsets_response_partition *found = listed(&g, rows[i].wish.version);
        cr_assert(eq(int, found->error_code, KAFKA_NONE), "row=%zu", i);
        cr_assert(eq(i64, found->offset, rows[i].offset), "row=%zu", i);
    }
    kafka_rig_done(&g);
}

/* Public case C034: v0 meant something else, and is not listed. */
Test(list_offsets, c034_v0_is_not_listed)
{
    const struct api *api = api_find(LIST_OFFSETS_API.key);
    cr_assert(eq(int, api->listed_min, 1));
    cr_assert(eq(int, api->served_min, 1));
    cr_assert(eq(int, api->max, 11));
}
