/* What admin clients ask: one answer for each thing named, however it is named, and whatever
 * becomes of it while others are asked.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "kafka/proto/create_partitions.h"
#include "kafka/proto/describe_log_dirs.h"
#include "kafka/proto/describe_topic_partitions.h"
#include "kafka/proto/elect_leaders.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/offset_for_leader_epoch.h"

#include "tests/support/kafka_rig.h"

/* ---- CreatePartitions ---- */

enum { NAMES_MAX = 4 };

static void grow(struct kafka_rig *g, const char *const *names, size_t count, int32_t partitions)
{
    struct create_partitions_request_topic topics[NAMES_MAX];
    for (size_t i = 0; i < count; i++) {
        create_partitions_request_topic_init(&topics[i]);
        topics[i].name = slice_of_string(names[i]);
        topics[i].count = partitions;
        topics[i].assignments = NULL;
        topics[i].assignments_count = 0;
    }
    struct create_partitions_request in;
    create_partitions_request_init(&in);
    in.topics = topics;
    in.topics_count = count;
    in.validate_only = partitions == 99;
    kafka_rig_send(g, &CREATE_PARTITIONS_API, 3, &in);
}

Test(create_partitions, each_topic_is_told_what_became_of_it)
{
    static const struct {
        enum err result;
        enum kafka_error code;
    } rows[] = {
        {ERR_OK, KAFKA_NONE},
        {ERR_TOPIC_UNKNOWN, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {ERR_PARTITIONS_INVALID, KAFKA_INVALID_PARTITIONS},
        {ERR_ASSIGNMENT_INVALID, KAFKA_INVALID_REPLICA_ASSIGNMENT},
        {ERR_NO_SPACE, KAFKA_KAFKA_STORAGE_ERROR},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        grow(&g, (const char *const[]){"one", "two"}, 2, 5);
        cr_assert(eq(u32, g.cluster.requests_count, 2));
        const struct controller_request *c = g.cluster.requests[0];
        cr_assert(eq(i32, c->in.create_partitions.partitions_count, 5));
        cr_assert(eq(i32, c->in.create_partitions.assignments_count, -1));
        cr_assert(not(c->in.create_partitions.is_validate_only));
        fake_cluster_end_request(&g.cluster, rows[i].result);
        cr_assert(eq(ptr, (void *)kafka_rig_answer(&g, &CREATE_PARTITIONS_API, 3), NULL));
        strcpy(g.cluster.requests[0]->message, "Say why.");
        fake_cluster_end_request(&g.cluster, ERR_PARTITIONS_INVALID);
        const struct create_partitions_response *out =
            kafka_rig_answer(&g, &CREATE_PARTITIONS_API, 3);
        cr_assert(eq(sz, out->results_count, 2));
        cr_assert(slice_equal_string(out->results[0].name, "one"));
        cr_assert(eq(int, out->results[0].error_code, rows[i].code), "row %zu", i);
        cr_assert(eq(int, out->results[0].error_message.size == 0, rows[i].result == ERR_OK));
        cr_assert(slice_equal_string(out->results[1].error_message, "Say why."));
        kafka_rig_done(&g);
    }
}

Test(create_partitions, names_given_twice_are_not_asked_for)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    grow(&g, (const char *const[]){"twice", "once", "twice", ""}, 4, 99);
    cr_assert(eq(u32, g.cluster.requests_count, 2));
    cr_assert(g.cluster.requests[0]->in.create_partitions.is_validate_only);
    fake_cluster_end_request(&g.cluster, ERR_OK);
    fake_cluster_end_request(&g.cluster, ERR_TOPIC_UNKNOWN);
    const struct create_partitions_response *out = kafka_rig_answer(&g, &CREATE_PARTITIONS_API, 3);
    static const enum kafka_error codes[] = {
        KAFKA_INVALID_REQUEST, KAFKA_NONE, KAFKA_INVALID_REQUEST, KAFKA_UNKNOWN_TOPIC_OR_PARTITION};
    for (size_t i = 0; i < 4; i++) {
        cr_assert(eq(int, out->results[i].error_code, codes[i]), "%zu", i);
    }
    grow(&g, NULL, 0, 5);
    out = kafka_rig_answer(&g, &CREATE_PARTITIONS_API, 3);
    cr_assert(eq(sz, out->results_count, 0), "nobody was named");
    kafka_rig_done(&g);
}

Test(create_partitions, lists_name_this_broker_once_each)
{
    static const struct {
        int32_t ids[2];
        size_t count;
        bool is_good;
    } rows[] = {
        {{1}, 1, true}, {{2}, 1, false}, {{-1}, 1, false}, {{1, 1}, 2, false}, {{0}, 0, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        int32_t ids[2] = {rows[i].ids[0], rows[i].ids[1]};
        struct create_partitions_request_assignment a = {.broker_ids = ids,
                                                         .broker_ids_count = rows[i].count};
        struct create_partitions_request_topic t = {
            .name = slice_of_string("t"), .count = 2, .assignments = &a, .assignments_count = 1};
        struct create_partitions_request in;
        create_partitions_request_init(&in);
        in.topics = &t;
        in.topics_count = 1;
        kafka_rig_send(&g, &CREATE_PARTITIONS_API, 3, &in);
        cr_assert(eq(u32, g.cluster.requests_count, rows[i].is_good ? 1 : 0), "row %zu", i);
        if (rows[i].is_good) {
            cr_assert(eq(i32, g.cluster.requests[0]->in.create_partitions.assignments_count, 1));
            fake_cluster_end_request(&g.cluster, ERR_OK);
        }
        const struct create_partitions_response *out =
            kafka_rig_answer(&g, &CREATE_PARTITIONS_API, 3);
        cr_assert(eq(int,
                     out->results[0].error_code,
                     rows[i].is_good ? KAFKA_NONE : KAFKA_INVALID_REPLICA_ASSIGNMENT));
        kafka_rig_done(&g);
    }
}

/* ---- DescribeTopicPartitions ---- */

struct page_row {
    const char *names[NAMES_MAX]; /* None: all topics. */
    const char *cursor;           /* NULL: from the start. */
    int32_t cursor_partition;
    int32_t limit;
    const char *expected; /* name code:partitions ... next */
};

static void describe(struct kafka_rig *g, const struct page_row *row, char ret_text[256])
{
    struct describe_topic_partitions_request_topic topics[NAMES_MAX];
    struct describe_topic_partitions_request_cursor cursor = {
        .topic_name = slice_of_string(row->cursor == NULL ? "" : row->cursor),
        .partition_index = row->cursor_partition,
    };
    struct describe_topic_partitions_request in;
    describe_topic_partitions_request_init(&in);
    in.topics = topics;
    for (; in.topics_count < NAMES_MAX && row->names[in.topics_count] != NULL; in.topics_count++) {
        topics[in.topics_count].name = slice_of_string(row->names[in.topics_count]);
    }
    in.response_partition_limit = row->limit;
    in.cursor = row->cursor == NULL ? NULL : &cursor;
    kafka_rig_send(g, &DESCRIBE_TOPIC_PARTITIONS_API, 0, &in);
    const struct describe_topic_partitions_response *out =
        kafka_rig_answer(g, &DESCRIBE_TOPIC_PARTITIONS_API, 0);
    size_t size = 0;
    ret_text[0] = '\0';
    for (size_t i = 0; i < out->topics_count; i++) {
        const struct describe_topic_partitions_response_topic *t = &out->topics[i];
        size += (size_t)snprintf(ret_text + size,
                                 256 - size,
                                 "%.*s %d:",
                                 (int)t->name.size,
                                 (const char *)t->name.data,
                                 t->error_code);
        for (size_t p = 0; p < t->partitions_count; p++) {
            size += (size_t)snprintf(
                ret_text + size, 256 - size, "%d", t->partitions[p].partition_index);
        }
        size += (size_t)snprintf(ret_text + size, 256 - size, " ");
    }
    if (out->next_cursor != NULL) {
        (void)snprintf(ret_text + size,
                       256 - size,
                       "next %.*s %d",
                       (int)out->next_cursor->topic_name.size,
                       (const char *)out->next_cursor->topic_name.data,
                       out->next_cursor->partition_index);
    }
}

Test(describe_topic_partitions, pages)
{
    static const struct page_row rows[] = {
        {{NULL}, NULL, 0, 100, "a 0:012 b 0:0 c 0:01 "},
        {{NULL}, NULL, 0, 3, "a 0:012 next b 0"},
        {{NULL}, NULL, 0, 2, "a 0:01 next a 2"},
        {{NULL}, "a", 2, 2, "a 0:2 b 0:0 next c 0"},
        {{NULL}, "c", 0, 2, "c 0:01 "},
        {{NULL}, NULL, 0, 0, "a 0:0 next a 1"}, /* At least one, or it never ends. */
        {{NULL}, NULL, 0, INT32_MIN, "a 0:0 next a 1"},
        {{NULL}, "bb", 0, 9, "c 0:01 "}, /* Its topic is gone: the next one. */
        {{NULL}, "zz", 0, 9, ""},
        {{NULL}, "a", 3, 9, "a 0: b 0:0 c 0:01 "}, /* Beyond the end, and far beyond. */
        {{NULL}, "a", INT32_MAX, 9, "a 0: b 0:0 c 0:01 "},
        {{NULL}, "a", -1, 9, ""},
        {{"c", "a", "c", "x"}, NULL, 0, 9, "a 0:012 c 0:01 x 3: "}, /* In order, once each. */
        {{"c", "a"}, "c", 1, 9, "c 0:1 "},
        {{"c", "a"}, "b", 0, 9, "c 42: a 42: "}, /* A cursor that is none of them. */
        {{"a"}, "a", -1, 9, "a 42: "},
        {{""}, NULL, 0, 9, " 17: "}, /* No name of a topic. */
    };
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "b", 1);
    fake_cluster_add_topic(&g.cluster, "a", 3);
    fake_cluster_add_topic(&g.cluster, "c", 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        describe(&g, &rows[i], text);
        cr_assert(eq(str, text, (char *)rows[i].expected), "row %zu", i);
    }
    kafka_rig_done(&g);
}

/* ---- DescribeLogDirs ---- */

Test(describe_log_dirs, what_cannot_be_read_is_left_out)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "a", 3);
    fake_cluster_add_topic(&g.cluster, "b", 1);
    struct describe_log_dirs_request in;
    describe_log_dirs_request_init(&in);
    in.topics = NULL;
    in.topics_count = 0;
    kafka_rig_send(&g, &DESCRIBE_LOG_DIRS_API, 4, &in);
    cr_assert(eq(u32, g.cluster.ops_count, 4));
    static const enum err results[] = {ERR_OK, ERR_FAILED, ERR_OK, ERR_NOT_FOUND};
    for (size_t i = 0; i < 4; i++) {
        struct partition_op *op = g.cluster.ops[0];
        cr_assert(eq(int, op->kind, PARTITION_SIZE));
        op->out.size.log_size = 100 + i;
        fake_cluster_end_op(&g.cluster, op, results[i], 0);
    }
    const struct describe_log_dirs_response *out = kafka_rig_answer(&g, &DESCRIBE_LOG_DIRS_API, 4);
    cr_assert(eq(sz, out->results_count, 1));
    cr_assert(slice_equal_string(out->results[0].log_dir, "/data"));
    cr_assert(eq(sz, out->results[0].topics_count, 1), "nothing of b is known");
    const struct describe_log_dirs_response_topic *t = &out->results[0].topics[0];
    cr_assert(eq(sz, t->partitions_count, 2));
    cr_assert(eq(i32, t->partitions[1].partition_index, 2));
    cr_assert(eq(i64, t->partitions[1].partition_size, 102));
    kafka_rig_done(&g);
}

/* The client leaves, and the topic is deleted, while its partitions are asked. */
Test(describe_log_dirs, may_lose_both_ends)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "a", 2);
    struct describe_log_dirs_request in;
    describe_log_dirs_request_init(&in);
    in.topics = NULL;
    in.topics_count = 0;
    kafka_rig_send(&g, &DESCRIBE_LOG_DIRS_API, 4, &in);
    struct uuid id;
    memset(id.bytes, 'a', sizeof(id.bytes));
    cr_assert(metadata_remove_topic(g.cluster.metadata, &id));
    fake_cluster_end_op(&g.cluster, g.cluster.ops[0], ERR_NOT_FOUND, 0);
    fake_peer_close(g.peer, ERR_CLOSED);
    kafka_rig_run(&g);
    fake_cluster_end_op(&g.cluster, g.cluster.ops[0], ERR_OK, 0);
    kafka_rig_run(&g);
    kafka_rig_redial(&g);
    kafka_rig_done(&g);
}

/* ---- ElectLeaders ---- */

Test(elect_leaders, every_partition_named_has_an_answer)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "a", 2);
    int32_t numbers[] = {1, 1, 2, -1, INT32_MAX};
    struct elect_leaders_request_topic_partition topics[] = {
        {.topic = slice_of_string("a"), .partitions = numbers, .partitions_count = 5},
        {.topic = slice_of_string("none"), .partitions = numbers, .partitions_count = 1},
        {.topic = slice_of_string("a")},
    };
    struct elect_leaders_request in;
    elect_leaders_request_init(&in);
    in.topic_partitions = topics;
    in.topic_partitions_count = 3;
    kafka_rig_send(&g, &ELECT_LEADERS_API, 2, &in);
    const struct elect_leaders_response *out = kafka_rig_answer(&g, &ELECT_LEADERS_API, 2);
    cr_assert(eq(int, out->error_code, KAFKA_NONE));
    cr_assert(eq(sz, out->replica_election_results_count, 3));
    const struct elect_leaders_response_replica_election_result *a =
        &out->replica_election_results[0];
    static const enum kafka_error codes[] = {KAFKA_ELECTION_NOT_NEEDED,
                                             KAFKA_ELECTION_NOT_NEEDED,
                                             KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                                             KAFKA_UNKNOWN_TOPIC_OR_PARTITION,
                                             KAFKA_UNKNOWN_TOPIC_OR_PARTITION};
    cr_assert(eq(sz, a->partition_result_count, 5));
    for (size_t i = 0; i < 5; i++) {
        cr_assert(eq(i32, a->partition_result[i].partition_id, numbers[i]));
        cr_assert(eq(int, a->partition_result[i].error_code, codes[i]));
    }
    cr_assert(eq(sz, out->replica_election_results[2].partition_result_count, 0));
    kafka_rig_done(&g);
}

/* ---- OffsetForLeaderEpoch ---- */

Test(offset_for_leader_epoch, errors_are_those_that_consumers_know)
{
    static const struct {
        enum err result;
        enum kafka_error code;
    } rows[] = {
        {ERR_OK, KAFKA_NONE},
        {ERR_NOT_FOUND, KAFKA_UNKNOWN_TOPIC_OR_PARTITION},
        {ERR_LEADER_EPOCH_FENCED, KAFKA_FENCED_LEADER_EPOCH},
        {ERR_LEADER_EPOCH_UNKNOWN, KAFKA_UNKNOWN_LEADER_EPOCH},
        {ERR_FAILED, KAFKA_KAFKA_STORAGE_ERROR},
    };
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "a", 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct offset_for_leader_epoch_request_partition p[] = {
            {.partition = 0, .current_leader_epoch = 5, .leader_epoch = 4},
            {.partition = 1, .current_leader_epoch = -1, .leader_epoch = 4},
        };
        struct offset_for_leader_epoch_request_topic t = {
            .topic = slice_of_string("a"), .partitions = p, .partitions_count = 2};
        struct offset_for_leader_epoch_request in;
        offset_for_leader_epoch_request_init(&in);
        in.topics = &t;
        in.topics_count = 1;
        kafka_rig_send(&g, &OFFSET_FOR_LEADER_EPOCH_API, 4, &in);
        struct partition_op *op = fake_cluster_op(&g.cluster, 0);
        cr_assert(eq(i32, op->current_leader_epoch, 5));
        cr_assert(eq(i32, op->in.term_end.leader_epoch, 4));
        op->out.term_end.leader_epoch = 3;
        op->out.term_end.end_offset = 77;
        fake_cluster_end_op(&g.cluster, op, rows[i].result, 100);
        const struct offset_for_leader_epoch_response *out =
            kafka_rig_answer(&g, &OFFSET_FOR_LEADER_EPOCH_API, 4);
        const struct offset_for_leader_epoch_response_partition *found = out->topics[0].partitions;
        cr_assert(eq(int, found[0].error_code, rows[i].code), "row %zu", i);
        cr_assert(eq(i64, found[0].end_offset, rows[i].result == ERR_OK ? 77 : -1));
        cr_assert(eq(i32, found[0].leader_epoch, rows[i].result == ERR_OK ? 3 : -1));
        cr_assert(eq(int, found[1].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    }
    kafka_rig_done(&g);
}
