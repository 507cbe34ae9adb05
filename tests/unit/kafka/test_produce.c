/* Produce: answers, timeouts, memory. The test plays the partitions. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/proto/error_codes.h"
#include "kafka/proto/produce.h"
#include "kafka/request.h"
#include "storage/batch.h"

#include "tests/support/kafka_rig.h"

enum {
    VERSION = 9,
    PARTS_MAX = 4,
    TIMEOUT_MS = 5000,
};

static uint8_t batch_bytes[128];

/* A request for partitions 0 .. parts_count - 1 of topic. What is in the batches is the cluster's
 * business; here they only have to be there. */
static void send_produce(struct kafka_rig *g, const char *topic, int32_t parts_count, int16_t acks)
{
    struct produce_request_partition parts[PARTS_MAX];
    for (int32_t i = 0; i < parts_count; i++) {
        parts[i] = (struct produce_request_partition){
            .index = i,
            .records = slice_of(batch_bytes, sizeof(batch_bytes)),
        };
    }
    struct produce_request_topic t;
    produce_request_topic_init(&t);
    t.name = slice_of_string(topic);
    t.partition_data = parts;
    t.partition_data_count = (size_t)parts_count;
    struct produce_request in;
    produce_request_init(&in);
    in.acks = acks;
    in.timeout_ms = TIMEOUT_MS;
    in.topic_data = &t;
    in.topic_data_count = 1;
    kafka_rig_send(g, &PRODUCE_API, VERSION, &in);
}

static const struct produce_response_partition *part_at(const struct produce_response *out,
                                                        size_t index)
{
    cr_assert(eq(sz, out->responses_count, 1));
    return &out->responses[0].partition_responses[index];
}

static void copy(struct kafka_rig *g, int32_t partition)
{
    struct partition_op *op = fake_cluster_op(&g->cluster, partition);
    op->in.produce.on_copied(op);
}

static void end_ok(struct kafka_rig *g, int32_t partition, int64_t base_offset)
{
    struct partition_op *op = fake_cluster_op(&g->cluster, partition);
    op->out.produce.base_offset = base_offset;
    op->out.produce.append_time_ms = -1;
    fake_cluster_end_op(&g->cluster, op, ERR_OK, base_offset + 1);
}

static const struct produce_response *answer(struct kafka_rig *g)
{
    return kafka_rig_answer(g, &PRODUCE_API, VERSION);
}

Test(produce, answers_when_the_last_partition_is_done)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 2);
    send_produce(&g, "topic", 3, -1);
    cr_assert(eq(u32, g.cluster.ops_count, 2), "partition 2 does not exist");
    copy(&g, 1);
    end_ok(&g, 1, 70);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    copy(&g, 0);
    end_ok(&g, 0, 60);

    const struct produce_response *out = answer(&g);
    cr_assert(eq(i64, part_at(out, 0)->base_offset, 60));
    cr_assert(eq(i64, part_at(out, 1)->base_offset, 70));
    cr_assert(eq(int, part_at(out, 1)->error_code, KAFKA_NONE));
    cr_assert(eq(int, part_at(out, 2)->error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    cr_assert(eq(i64, part_at(out, 2)->base_offset, -1));
    kafka_rig_done(&g);
}

Test(produce, a_fault_names_record_and_rule)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    send_produce(&g, "topic", 1, -1);
    struct partition_op *op = fake_cluster_op(&g.cluster, 0);
    copy(&g, 0);
    op->out.produce.fault = (struct batch_fault){.message = "The rule.", .record_index = 3};
    fake_cluster_end_op(&g.cluster, op, ERR_RECORD_INVALID, 0);

    const struct produce_response_partition *p = part_at(answer(&g), 0);
    cr_assert(eq(int, p->error_code, KAFKA_INVALID_RECORD));
    cr_assert(slice_equal_string(p->error_message, "The rule."));
    cr_assert(eq(sz, p->record_errors_count, 1));
    cr_assert(eq(i32, p->record_errors[0].batch_index, 3));
    kafka_rig_done(&g);
}

/* The frame goes when all batches are copied, long before the flush; what the answer needs of it
 * was copied too. */
Test(produce, the_frame_is_given_back_early)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 2);
    send_produce(&g, "topic", 2, -1);
    cr_assert(lt(sz, 0, kafka_rig_memory(&g)));
    copy(&g, 0);
    cr_assert(lt(sz, 0, kafka_rig_memory(&g)));
    copy(&g, 1);
    cr_assert(eq(sz, kafka_rig_memory(&g), 0));
    end_ok(&g, 0, 1);
    end_ok(&g, 1, 2);
    const struct produce_response *out = answer(&g);
    cr_assert(slice_equal_string(out->responses[0].name, "topic"));
    kafka_rig_done(&g);
}

/* A partition that is late is said to be so; its operation is called back, and lives on with the
 * bytes it points at until it ends: here it was appended already. */
Test(produce, a_timeout_answers_and_calls_back)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 2);
    send_produce(&g, "topic", 2, -1);
    copy(&g, 0);
    end_ok(&g, 0, 9);
    kafka_rig_advance(&g, (TIMEOUT_MS - 1) * 1000);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    kafka_rig_advance(&g, 2000);
    const struct produce_response *out = answer(&g);
    cr_assert(eq(i64, part_at(out, 0)->base_offset, 9));
    cr_assert(eq(int, part_at(out, 1)->error_code, KAFKA_REQUEST_TIMED_OUT));

    struct partition_op *op = fake_cluster_op(&g.cluster, 1);
    cr_assert(eq(int, memcmp(op->in.produce.batch.data, batch_bytes, sizeof(batch_bytes)), 0));
    cr_assert(eq(u32, g.cluster.cancels_count, 1), "partition 0 was done");
    cr_assert(eq(ptr, g.cluster.cancels[0]->target, op));
    fake_cluster_end_cancel(&g.cluster);
    copy(&g, 1);
    end_ok(&g, 1, 5);
    cr_assert(eq(ptr, (void *)answer(&g), NULL), "one request, one answer");
    kafka_rig_done(&g);
}

Test(produce, a_batch_that_is_called_back_leaves_no_memory)
{
    for (int order = 0; order < 2; order++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        fake_cluster_add_topic(&g.cluster, "topic", 1);
        send_produce(&g, "topic", 1, -1);
        cr_assert(lt(sz, 0, kafka_rig_memory(&g)));
        kafka_rig_advance(&g, (TIMEOUT_MS + 1) * 1000);
        cr_assert(eq(int, part_at(answer(&g), 0)->error_code, KAFKA_REQUEST_TIMED_OUT));
        struct partition_op *op = fake_cluster_op(&g.cluster, 0);
        if (order == 0) {
            op->in.produce.on_copied(op);
            fake_cluster_end_op(&g.cluster, op, ERR_CANCELLED, 0);
            fake_cluster_end_cancel(&g.cluster);
        } else {
            fake_cluster_end_cancel(&g.cluster);
            op->in.produce.on_copied(op);
            fake_cluster_end_op(&g.cluster, op, ERR_CANCELLED, 0);
        }
        kafka_rig_run(&g);
        cr_assert(eq(sz, kafka_rig_memory(&g), 0));
        kafka_rig_done(&g);
    }
}

Test(produce, acks_0_is_never_answered)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    send_produce(&g, "topic", 1, 0);
    copy(&g, 0);
    end_ok(&g, 0, 0);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    cr_assert(not(fake_peer_is_closed(g.peer)));

    /* The next one fails: the connection ends, so that the client looks for metadata. */
    send_produce(&g, "topic", 1, 0);
    copy(&g, 0);
    fake_cluster_end_op(&g.cluster, fake_cluster_op(&g.cluster, 0), ERR_NO_SPACE, 1);
    cr_assert(eq(ptr, (void *)answer(&g), NULL));
    cr_assert(fake_peer_is_closed(g.peer));
    kafka_rig_done(&g);
}

Test(produce, acks_0_to_nowhere_closes_at_once)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    send_produce(&g, "nosuch", 1, 0);
    cr_assert(fake_peer_is_closed(g.peer));
    kafka_rig_done(&g);
}

/* Without memory for it the next one waits for those that have it; a third one does not pass it. */
Test(produce, requests_share_a_budget)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    send_produce(&g, "topic", 1, -1);
    g.dispatch->arenas.size_max = g.dispatch->arenas.size;
    send_produce(&g, "topic", 1, -1);
    send_produce(&g, "nosuch", 1, -1);
    kafka_rig_advance(&g, 100 * 1000);
    cr_assert(eq(u32, g.cluster.ops_count, 1), "the second one found no memory");
    cr_assert(eq(u32, g.dispatch->deferred_count, 2));
    copy(&g, 0);
    end_ok(&g, 0, 7);
    kafka_rig_advance(&g, 10 * 1000);
    cr_assert(eq(i64, part_at(answer(&g), 0)->base_offset, 7));
    copy(&g, 0);
    end_ok(&g, 0, 8);
    kafka_rig_advance(&g, 10 * 1000);
    cr_assert(eq(i64, part_at(answer(&g), 0)->base_offset, 8));
    const struct produce_response *third = answer(&g);
    cr_assert(eq(int,
                 third->responses[0].partition_responses[0].error_code,
                 KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    cr_assert(not(fake_peer_is_closed(g.peer)));
    kafka_rig_done(&g);
}

Test(produce, other_acks_are_refused)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    send_produce(&g, "topic", 1, 2);
    cr_assert(eq(u32, g.cluster.ops_count, 0));
    cr_assert(eq(int, part_at(answer(&g), 0)->error_code, KAFKA_INVALID_REQUIRED_ACKS));
    kafka_rig_done(&g);
}

/* Whatever is under way when the client goes, nothing is lost or freed early. */
Test(produce, the_client_may_go_at_any_point)
{
    for (int steps = 0; steps <= 2; steps++) {
        struct kafka_rig g;
        kafka_rig_init(&g);
        fake_cluster_add_topic(&g.cluster, "topic", 1);
        send_produce(&g, "topic", 1, -1);
        if (steps > 0) {
            copy(&g, 0);
        }
        if (steps > 1) {
            kafka_rig_advance(&g, (TIMEOUT_MS + 1) * 1000);
        }
        fake_peer_close(g.peer, ERR_CLOSED);
        kafka_rig_run(&g);
        if (steps == 0) {
            copy(&g, 0);
        }
        end_ok(&g, 0, 3);
        kafka_rig_done(&g);
    }
}

/* Operations of one request are submitted in its order, requests in theirs: that is the order in
 * which one partition appends. */
Test(produce, requests_overlap_in_order)
{
    struct kafka_rig g;
    kafka_rig_init(&g);
    fake_cluster_add_topic(&g.cluster, "topic", 1);
    for (int i = 0; i < 3; i++) {
        send_produce(&g, "topic", 1, -1);
    }
    cr_assert(eq(u32, g.cluster.ops_count, 3));
    for (int64_t i = 2; i >= 0; i--) { /* The last is done first ... */
        struct partition_op *op = g.cluster.ops[i];
        op->in.produce.on_copied(op);
        op->out.produce.base_offset = i;
        fake_cluster_end_op(&g.cluster, op, ERR_OK, i + 1);
    }
    for (int64_t i = 0; i < 3; i++) { /* ... and answered last. */
        cr_assert(eq(i64, part_at(answer(&g), 0)->base_offset, i));
    }
    kafka_rig_done(&g);
}
