/* Whatever disk operation of a start, of a little work or of the stop fails: nothing hangs,
 * everything is answered, and the next start without faults has what was answered before. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

#include "tests/support/sim_node.h"

/* A failed start ends its shard like a process that exits: what was in flight is not waited for. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum { PARTITIONS = 3 };

static size_t make_batch(uint8_t *bytes, size_t size)
{
    struct batch_builder builder;
    batch_builder_init(&builder, size);
    const struct batch_record record = {.timestamp = 1700000000000, .value = slice_of_string("v")};
    cr_assert(eq(int, batch_builder_add(&builder, &record), ERR_OK));
    struct wbuf w;
    wbuf_init_fixed(&w, bytes, size);
    const struct batch_identity none = {-1, -1, -1};
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, &none, &w), ERR_OK));
    batch_builder_done(&builder);
    return w.size;
}

static enum err
produce(struct sim_node *n, const struct uuid *topic, int32_t partition, int64_t *ret_offset)
{
    uint8_t bytes[256];
    struct partition_op op = {
        .kind = PARTITION_PRODUCE,
        .id = {*topic, partition},
        .current_leader_epoch = -1,
        .in.produce = {.acks = -1, .produce_version = 9},
    };
    op.in.produce.batch = slice_of(bytes, make_batch(bytes, sizeof(bytes)));
    enum err e = sim_node_partition_op(n, 0, &op);
    *ret_offset = op.out.produce.base_offset;
    return e;
}

/* A disk with a topic that has one record in each partition. */
static struct disk_sim *prepared_disk(struct sim_node *n, struct uuid *ret_topic)
{
    struct disk_sim *disk = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
    sim_node_init(n, disk, 1, 1);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", PARTITIONS, ret_topic), ERR_OK));
    for (int32_t i = 0; i < PARTITIONS; i++) {
        int64_t offset;
        cr_assert(eq(int, produce(n, ret_topic, i, &offset), ERR_OK));
    }
    sim_node_stop(n);
    return disk;
}

struct plan {
    uint16_t shards_count;
    uint16_t faulty_shard;
    uint32_t at; /* The operation of that shard that fails. */
};

static void fail_at(struct sim_node *n, const struct plan *plan)
{
    io_fault_add(&n->shards[plan->faulty_shard].io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FAULT_ANY,
                     .fd = IO_FAULT_ANY,
                     .at = plan->at,
                     .action = IO_FAULT_FAIL,
                     .code = EIO,
                 });
}

/* True if the fault was met. */
static bool live_with_fault(struct disk_sim *disk,
                            const struct uuid *topic,
                            const struct plan *plan,
                            int64_t *ends)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, plan->shards_count, plan->at);
    fail_at(n, plan);
    if (sim_node_start(n) == ERR_OK) {
        for (int32_t i = 0; i < PARTITIONS; i++) {
            int64_t offset;
            if (produce(n, topic, i, &offset) == ERR_OK) {
                cr_assert(ge(i64, offset, ends[i]));
                ends[i] = offset + 1;
            }
        }
        struct uuid other;
        if (sim_node_create_topic(n, 0, "other", 1, &other) == ERR_TOPIC_EXISTS) {
            (void)sim_node_delete_topic(n, 0, "other");
        }
        sim_node_run(n, 200);
    } else {
        cr_assert(ne(sz, strlen(n->why), 0));
    }
    sim_node_stop(n);
    const bool is_met = n->shards[plan->faulty_shard].io_fault.injected > 0;
    free(n);
    return is_met;
}

/* How many operations failed, one at a time. */
static uint32_t fail_each(uint16_t shards_count, uint16_t faulty_shard)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid topic;
    struct disk_sim *disk = prepared_disk(n, &topic);
    int64_t ends[PARTITIONS] = {1, 1, 1};
    struct plan plan = {shards_count, faulty_shard, 1};
    while (live_with_fault(disk, &topic, &plan, ends)) {
        sim_node_init(n, disk, shards_count, 1000 + plan.at);
        cr_assert(eq(int, sim_node_start(n), ERR_OK), "at=%u: %s", plan.at, n->log_text);
        for (int32_t i = 0; i < PARTITIONS; i++) {
            int64_t offset;
            cr_assert(eq(int, produce(n, &topic, i, &offset), ERR_OK), "at=%u", plan.at);
            cr_assert(ge(i64, offset, ends[i]), "at=%u", plan.at);
            ends[i] = offset + 1;
        }
        sim_node_stop(n);
        plan.at++;
    }
    disk_sim_free(disk);
    free(n);
    return plan.at - 1;
}

Test(faults, whatever_operation_fails_nothing_hangs_and_nothing_is_lost)
{
    const uint16_t rows[][2] = {{1, 0}, {2, 0}, {2, 1}}; /* Shards, the faulty one. */
    for (size_t i = 0; i < 3; i++) {
        const uint32_t count = fail_each(rows[i][0], rows[i][1]);
        cr_log_info("shards=%u faulty=%u operations=%u", rows[i][0], rows[i][1], count);
        cr_assert(lt(u32, 15, count)); /* There was something to fail. */
    }
}
