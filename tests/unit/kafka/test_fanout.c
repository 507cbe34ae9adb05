/* Requests over more partitions than are asked at a time. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "kafka/fanout.h"
#include "kafka/proto/delete_records.h"
#include "kafka/proto/describe_producers.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/list_offsets.h"

#include "tests/support/kafka_rig.h"

enum {
    PARTITIONS = 2 * FANOUT_IN_FLIGHT_MAX + 88,
    MANY = 40 * FANOUT_IN_FLIGHT_MAX,
    LIST_VERSION = 7,
    DELETE_VERSION = 2,
};

/* One topic without partitions, then the partitions, backwards and half by half. */
static void ask_offsets(struct kafka_rig *g, const char *name, int32_t count)
{
    struct list_offsets_request_partition partitions[PARTITIONS];
    for (int32_t i = 0; i < count; i++) {
        list_offsets_request_partition_init(&partitions[i]);
        partitions[i].partition_index = count - 1 - i;
        partitions[i].timestamp = -1;
    }
    const size_t half = (size_t)count / 2;
    struct list_offsets_request_topic topics[3];
    for (size_t i = 0; i < 3; i++) {
        list_offsets_request_topic_init(&topics[i]);
        topics[i].name = slice_of_string(name);
    }
    topics[1].partitions = partitions;
    topics[1].partitions_count = half;
    topics[2].partitions = partitions + half;
    topics[2].partitions_count = (size_t)count - half;
    struct list_offsets_request in;
    list_offsets_request_init(&in);
    in.replica_id = -1;
    in.topics = topics;
    in.topics_count = 3;
    kafka_rig_send(g, &LIST_OFFSETS_API, LIST_VERSION, &in);
}

static const struct list_offsets_response_partition *
offset_of(const struct list_offsets_response *out, int32_t number)
{
    const struct list_offsets_response_topic *first = &out->topics[1];
    const size_t i = (size_t)number;
    return i < first->partitions_count ? &first->partitions[i]
                                       : &out->topics[2].partitions[i - first->partitions_count];
}

/* Never more than that many under way, each asked once, and answered in the request's order. */
Test(fanout, asks_a_bounded_number_at_a_time)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "wide", PARTITIONS);
    ask_offsets(&g, "wide", PARTITIONS);
    for (int32_t ended = 0; ended < PARTITIONS; ended++) {
        const int32_t left = PARTITIONS - ended;
        const int32_t expected = left < FANOUT_IN_FLIGHT_MAX ? left : FANOUT_IN_FLIGHT_MAX;
        cr_assert(eq(u32, g.cluster.ops_count, (uint32_t)expected));
        cr_assert(eq(ptr, (void *)kafka_rig_answer(&g, &LIST_OFFSETS_API, LIST_VERSION), NULL));
        struct partition_op *op = g.cluster.ops[0];
        cr_assert(eq(i32, op->id.partition, left - 1));
        fake_cluster_end_op(&g.cluster, op, ERR_OK, 1000 + op->id.partition);
        kafka_rig_run(&g);
    }
    const struct list_offsets_response *out = kafka_rig_answer(&g, &LIST_OFFSETS_API, LIST_VERSION);
    cr_assert(eq(sz, out->topics_count, 3));
    cr_assert(eq(sz, out->topics[0].partitions_count, 0));
    for (int32_t i = 0; i < PARTITIONS; i++) {
        const struct list_offsets_response_partition *p = offset_of(out, i);
        cr_assert(eq(i16, p->error_code, KAFKA_NONE));
        cr_assert(eq(i32, p->partition_index, PARTITIONS - 1 - i));
        cr_assert(eq(i64, p->offset, 1000 + p->partition_index));
    }
    kafka_rig_done(&g);
}

/* What goes away while others are asked is unknown from then on. */
Test(fanout, looks_topics_up_again)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "wide", PARTITIONS);
    ask_offsets(&g, "wide", PARTITIONS);
    struct uuid id;
    memset(id.bytes, 'w', sizeof(id.bytes));
    cr_assert(metadata_remove_topic(g.cluster.metadata, &id));
    while (g.cluster.ops_count > 0) {
        fake_cluster_end_op(&g.cluster, g.cluster.ops[0], ERR_OK, 7);
    }
    kafka_rig_run(&g);
    const struct list_offsets_response *out = kafka_rig_answer(&g, &LIST_OFFSETS_API, LIST_VERSION);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        const int16_t code = offset_of(out, i)->error_code;
        cr_assert(eq(i16, code, i < FANOUT_IN_FLIGHT_MAX ? 0 : KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    }
    kafka_rig_done(&g);
}

/* Entries that nobody need be asked about take their turns, too. */
Test(fanout, looks_at_a_bounded_number_in_a_turn)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    const uint64_t turns = g.ts.shard.counters.turns;
    ask_offsets(&g, "none", PARTITIONS);
    cr_assert(ge(u64, g.ts.shard.counters.turns, turns + PARTITIONS / FANOUT_IN_FLIGHT_MAX));
    const struct list_offsets_response *out = kafka_rig_answer(&g, &LIST_OFFSETS_API, LIST_VERSION);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        cr_assert(eq(i16, offset_of(out, i)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    }
    kafka_rig_done(&g);
}

/* Producers are asked for by their number, which may change before the answer. */
Test(fanout, a_part_may_be_asked_again)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 2);
    int32_t numbers[] = {0, 1};
    struct describe_producers_request_topic t = {
        .name = slice_of_string("topic"),
        .partition_indexes = numbers,
        .partition_indexes_count = 2,
    };
    struct describe_producers_request in;
    describe_producers_request_init(&in);
    in.topics = &t;
    in.topics_count = 1;
    kafka_rig_send(&g, &DESCRIBE_PRODUCERS_API, 0, &in);

    fake_cluster_end_op(&g.cluster, fake_cluster_op(&g.cluster, 0), ERR_OK, 9);
    for (uint32_t count = 30; count <= 90; count += 30) {
        struct partition_op *op = fake_cluster_op(&g.cluster, 1);
        cr_assert(lt(u32, op->in.producers.views_max, count));
        op->out.producers.count = count;
        fake_cluster_end_op(&g.cluster, op, ERR_OK, 9);
        cr_assert(eq(u32, g.cluster.ops_count, 1));
    }
    struct partition_op *op = fake_cluster_op(&g.cluster, 1);
    op->in.producers.views[0] = (struct producer_view){7, 1700, 5, 3};
    op->out.producers.count = 1;
    fake_cluster_end_op(&g.cluster, op, ERR_OK, 9);
    kafka_rig_run(&g);
    const struct describe_producers_response *out =
        kafka_rig_answer(&g, &DESCRIBE_PRODUCERS_API, 0);
    cr_assert(eq(sz, out->topics[0].partitions[0].active_producers_count, 0));
    cr_assert(eq(sz, out->topics[0].partitions[1].active_producers_count, 1));
    const struct describe_producers_response_active_producer *p =
        &out->topics[0].partitions[1].active_producers[0];
    cr_assert(eq(i64, p->producer_id, 7));
    cr_assert(eq(i64, p->last_timestamp, 1700));
    cr_assert(eq(i32, p->last_sequence, 5));
    cr_assert(eq(i32, p->producer_epoch, 3));
    cr_assert(eq(i32, p->coordinator_epoch, -1));
    kafka_rig_done(&g);
}

static void delete_records(struct kafka_rig *g, const char *name)
{
    static struct delete_records_request_partition partitions[MANY];
    for (int32_t i = 0; i < MANY; i++) {
        partitions[i] = (struct delete_records_request_partition){.partition_index = i};
    }
    struct delete_records_request_topic t = {
        .name = slice_of_string(name),
        .partitions = partitions,
        .partitions_count = MANY,
    };
    struct delete_records_request in;
    delete_records_request_init(&in);
    in.topics = &t;
    in.topics_count = 1;
    in.timeout_ms = 2000;
    kafka_rig_send(g, &DELETE_RECORDS_API, DELETE_VERSION, &in);
}

/* Done, under way, and not even asked: nobody waits longer than the request's time. */
Test(fanout, time_is_up_for_what_was_not_asked_too)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "wide", MANY);
    delete_records(&g, "wide");
    fake_cluster_end_op(&g.cluster, fake_cluster_op(&g.cluster, 3), ERR_OK, 9);
    kafka_rig_run(&g);
    const uint64_t turns = g.ts.shard.counters.turns;
    kafka_rig_advance(&g, 2000 * 1000);
    const uint64_t least = (MANY - FANOUT_IN_FLIGHT_MAX) / FANOUT_IN_FLIGHT_MAX;
    cr_assert(ge(u64, g.ts.shard.counters.turns, turns + least), "a part of them in a turn");
    const struct delete_records_response *out =
        kafka_rig_answer(&g, &DELETE_RECORDS_API, DELETE_VERSION);
    cr_assert(eq(sz, out->topics[0].partitions_count, MANY));
    for (int32_t i = 0; i < MANY; i++) {
        const struct delete_records_response_partition *p = &out->topics[0].partitions[i];
        cr_assert(eq(i32, p->partition_index, i));
        cr_assert(eq(i16, p->error_code, i == 3 ? KAFKA_NONE : KAFKA_REQUEST_TIMED_OUT));
    }
    /* Called back, and nothing is asked any more. */
    cr_assert(eq(u32, g.cluster.ops_count, FANOUT_IN_FLIGHT_MAX));
    cr_assert(eq(u32, g.cluster.cancels_count, FANOUT_IN_FLIGHT_MAX));
    while (g.cluster.ops_count > 0) {
        fake_cluster_end_cancel(&g.cluster);
        fake_cluster_end_op(&g.cluster, g.cluster.ops[0], ERR_CANCELLED, 9);
    }
    kafka_rig_run(&g);
    cr_assert(eq(u32, g.cluster.ops_count, 0));
    kafka_rig_done(&g);
}
