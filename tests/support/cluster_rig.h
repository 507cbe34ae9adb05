/* What tests of whole clusters begin and end with: a disk and a node on it, batches as a client
 * sends them, a produce and a look at the offsets that must succeed.
 */
#pragma once

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "tests/support/sim_node.h"

enum { BATCH_MAX = 4096 };

struct batch {
    uint8_t bytes[BATCH_MAX];
    size_t size;
};

static inline struct disk_sim *new_disk(void)
{
    return disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
}

static inline void end_node(struct sim_node *n, struct disk_sim *disk)
{
    sim_node_stop(n);
    free(n);
    disk_sim_free(disk);
}

/* count records "v", as a client sends them. */
static inline void
make_batch_of(struct batch *b, int count, int64_t pid, int16_t epoch, int32_t sequence)
{
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_MAX);
    for (int i = 0; i < count; i++) {
        const struct batch_record record = {
            .timestamp = 1700000000000 + i,
            .key = slice_of_string("k"),
            .value = slice_of_string("v"),
        };
        enum err e = batch_builder_add(&builder, &record);
        cr_assert(eq(int, e, ERR_OK));
    }
    struct wbuf w;
    wbuf_init_fixed(&w, b->bytes, sizeof(b->bytes));
    const struct batch_identity identity = {pid, epoch, sequence};
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, &identity, &w), ERR_OK));
    b->size = w.size;
    batch_builder_done(&builder);
}

static inline struct partition_op
produce_op(const struct uuid *topic, int32_t partition, const struct batch *b)
{
    return (struct partition_op){
        .kind = PARTITION_PRODUCE,
        .id = {*topic, partition},
        .current_leader_epoch = -1,
        .in.produce = {.batch = slice_of(b->bytes, b->size), .acks = -1, .produce_version = 9},
    };
}

static inline int64_t
produce(struct sim_node *n, uint16_t shard, const struct uuid *topic, int32_t partition, int count)
{
    struct batch b;
    make_batch_of(&b, count, -1, -1, -1);
    struct partition_op op = produce_op(topic, partition, &b);
    enum err e = sim_node_partition_op(n, shard, &op);
    cr_assert(eq(int, e, ERR_OK), "%s", err_name(e));
    return op.out.produce.base_offset;
}

static inline struct partition_offsets
offsets_of(struct sim_node *n, const struct uuid *topic, int32_t p)
{
    struct partition_op op = {
        .kind = PARTITION_OFFSETS,
        .id = {*topic, p},
        .current_leader_epoch = -1,
    };
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    return op.offsets;
}
