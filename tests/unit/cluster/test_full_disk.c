/* One node whose disk fills up, on simulated shards and disk. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/cluster_rig.h"

Test(full_disk, a_full_disk_refuses_batches_and_takes_them_again_later)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 16 << 10;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    cr_assert(eq(i64, produce(n, 0, &id, 0, 1), 0));
    disk_sim_set_capacity(disk, disk_sim_used_size(disk));
    struct batch b;
    make_batch_of(&b, 100, -1, -1, -1);
    enum err e = ERR_OK;
    int64_t end = 1;
    for (int i = 0; i < 200 && e == ERR_OK; i++) {
        struct partition_op op = produce_op(&id, 0, &b);
        e = sim_node_partition_op(n, 0, &op);
        end += e == ERR_OK ? 100 : 0;
    }
    cr_assert(eq(int, e, ERR_NO_SPACE));
    cr_assert(eq(i64, offsets_of(n, &id, 0).high_watermark, end));
    disk_sim_set_capacity(disk, 0);
    for (int i = 0; i < 200 && e != ERR_OK; i++) {
        struct partition_op op = produce_op(&id, 0, &b);
        e = sim_node_partition_op(n, 0, &op);
        sim_node_run(n, 100);
    }
    cr_assert(eq(int, e, ERR_OK)); /* By itself. */
    end_node(n, disk);
}

/* Public case C052 on one node: what was refused has used up no sequence, and what was taken has.
 */
Test(full_disk, c052_a_refused_batch_takes_no_sequence)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 16 << 10;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    const int64_t pid = sim_node_allocate_producer_id(n, 0);
    cr_assert(eq(i64, produce(n, 0, &id, 0, 10), 0)); /* So that there is a segment. */
    disk_sim_set_capacity(disk, disk_sim_used_size(disk));
    struct batch b;
    int32_t taken = 0; /* Batches of ten. */
    enum err e = ERR_OK;
    while (e == ERR_OK && taken < 2000) {
        make_batch_of(&b, 10, pid, 0, taken * 10);
        struct partition_op op = produce_op(&id, 0, &b);
        e = sim_node_partition_op(n, 0, &op);
        taken += e == ERR_OK ? 1 : 0;
    }
    cr_assert(eq(int, e, ERR_NO_SPACE));
    struct partition_op again = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &again), ERR_NO_SPACE));
    disk_sim_set_capacity(disk, 0);
    for (int i = 0; i < 200 && e != ERR_OK; i++) {
        again = produce_op(&id, 0, &b);
        e = sim_node_partition_op(n, 0, &again);
        sim_node_run(n, 100);
    }
    cr_assert(eq(int, e, ERR_OK), "the same batch, later");
    cr_assert(eq(i64, again.out.produce.base_offset, taken * 10 + 10));
    struct partition_op repeated = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &repeated), ERR_OK), "and once more");
    cr_assert(eq(i64, repeated.out.produce.base_offset, taken * 10 + 10), "where it is");
    make_batch_of(&b, 10, pid, 0, taken * 10 + 10);
    struct partition_op next = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &next), ERR_OK));
    cr_assert(eq(i64, next.out.produce.base_offset, taken * 10 + 20));
    end_node(n, disk);
}

/* Until records are refused. */
static enum err fill_up(struct sim_node *n, const struct uuid *topic, const struct batch *b)
{
    enum err e = ERR_OK;
    for (int i = 0; i < 2000 && e == ERR_OK; i++) {
        struct partition_op op = produce_op(topic, 0, b);
        e = sim_node_partition_op(n, 0, &op);
        n->clock.now_us += SPACE_SAMPLE_US / 10;
    }
    cr_assert(eq(int, e, ERR_NO_SPACE));
    return e;
}

/* DESIGN 4.12: records and new topics are refused while there is a reserve left; reads and deletes
 * go on, and what they free brings it back. */
Test(full_disk, a_disk_at_its_reserve_refuses_records_first_and_a_delete_brings_it_back)
{
    enum { RESERVE = 256 << 10 };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    struct uuid large;
    sim_node_init(n, disk, 1, 3);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 16 << 10;
    n->settings.controller_log.fill_step_min = 16 << 10;
    n->data_dirs[0].space_reserve_size = RESERVE;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "large", 1, &large), ERR_OK));
    cr_assert(eq(i64, produce(n, 0, &id, 0, 1), 0));
    disk_sim_set_capacity(disk, disk_sim_used_size(disk) + RESERVE + (200 << 10));
    struct cluster_problem problems[CLUSTER_PROBLEMS_MAX];
    cr_assert(eq(u32, cluster_problems(sim_node_cluster(n, 0), problems), 0));

    struct batch b;
    make_batch_of(&b, 100, -1, -1, -1);
    enum err e = fill_up(n, &large, &b);
    cr_assert(eq(u32, cluster_problems(sim_node_cluster(n, 0), problems), 1));
    cr_assert(eq(str, (char *)problems[0].code, "disk_full"));
    cr_assert(eq(str, (char *)problems[0].subject, "/data"));
    struct uuid other;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "other", 1, &other), ERR_NO_SPACE));
    cr_assert(eq(i64, offsets_of(n, &id, 0).high_watermark, 1));
    cr_assert(ge(i64, sim_node_allocate_producer_id(n, 0), 0), "group 0 goes on");
    sim_node_stop(n);

    sim_node_init(n, disk, 1, 4); /* A restart needs no space of the data's. */
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.controller_log.fill_step_min = 16 << 10;
    n->data_dirs[0].space_reserve_size = RESERVE;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    cr_assert(eq(int, sim_node_delete_topic(n, 0, "large"), ERR_OK));
    /* The blocks come back when the journal has the names' end: the simulated disk has none. */
    disk_sim_set_capacity(disk, disk_sim_used_size(disk) + 2 * RESERVE);
    for (int i = 0; i < 200 && e != ERR_OK; i++) {
        sim_node_run(n, 100);
        n->clock.now_us += SPACE_SAMPLE_US;
        e = sim_node_create_topic(n, 0, "other", 1, &other);
    }
    cr_assert(eq(int, e, ERR_OK), "by itself %s", n->log_text);
    cr_assert(eq(i64, produce(n, 0, &id, 0, 1), 1));
    cr_assert(eq(u32, cluster_problems(sim_node_cluster(n, 0), problems), 0));
    end_node(n, disk);
}

/* DESIGN 4.12, the tiers: with the disk full for records, the broker's own topics are made and
 * written in half of the reserve, deletes go on in the other half, and space that comes back brings
 * all back. */
Test(full_disk, the_brokers_own_topics_go_on_in_a_part_of_the_reserve)
{
    enum { RESERVE = 512 << 10 };
    static const struct config_pair configs[] = {
        {{(const uint8_t *)"cleanup.policy", 14}, {(const uint8_t *)"compact", 7}},
    };
    static const struct internal_topic internal = {
        .name = "__consumer_offsets",
        .partitions_count = 4,
        .replication_factor_max = 1,
        .configs = configs,
        .configs_count = 1,
    };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid large;
    struct uuid own;
    sim_node_init(n, disk, 1, 3);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 16 << 10;
    n->settings.controller_log.fill_step_min = 16 << 10;
    n->settings.internal_topics = &internal;
    n->settings.internal_topics_count = 1;
    n->data_dirs[0].space_reserve_size = RESERVE;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "large", 1, &large), ERR_OK));
    cr_assert(eq(i64, produce(n, 0, &large, 0, 1), 0));
    const uint64_t capacity = disk_sim_used_size(disk) + RESERVE + (200 << 10);
    disk_sim_set_capacity(disk, capacity);
    struct batch b;
    make_batch_of(&b, 100, -1, -1, -1);
    enum err e = fill_up(n, &large, &b);

    cr_assert(eq(int, sim_node_create_topic(n, 0, "__consumer_offsets", -1, &own), ERR_OK));
    int64_t taken = 0;
    while (e == ERR_NO_SPACE && taken < 2000) {
        struct partition_op op = produce_op(&own, (int32_t)(taken % 4), &b);
        op.in.produce.is_own = true;
        const enum err written = sim_node_partition_op(n, 0, &op);
        n->clock.now_us += SPACE_SAMPLE_US / 10;
        if (written != ERR_OK) {
            cr_assert(eq(int, written, ERR_NO_SPACE), "refused, not left to wait");
            break;
        }
        taken++;
        struct partition_op refused = produce_op(&large, 0, &b);
        e = sim_node_partition_op(n, 0, &refused);
    }
    cr_assert(eq(int, e, ERR_NO_SPACE), "records are refused all the time");
    cr_assert(lt(i64, 40, taken), "%lld", (long long)taken);
    cr_assert(lt(i64, taken, 2000), "and it has an end");
    cr_assert(lt(u64, RESERVE / 4, capacity - disk_sim_used_size(disk)), "for what frees some");

    cr_assert(eq(int, sim_node_delete_topic(n, 0, "large"), ERR_OK));
    disk_sim_set_capacity(disk, disk_sim_used_size(disk) + 3 * RESERVE);
    e = ERR_NO_SPACE;
    for (int i = 0; i < 200 && e != ERR_OK; i++) {
        sim_node_run(n, 100);
        n->clock.now_us += SPACE_SAMPLE_US;
        e = sim_node_create_topic(n, 0, "other", 1, &large);
    }
    cr_assert(eq(int, e, ERR_OK), "%s", n->log_text);
    cr_assert(eq(i64, produce(n, 0, &large, 0, 1), 0));
    for (int32_t p = 0; p < 4; p++) {
        struct partition_op op = produce_op(&own, p, &b);
        op.in.produce.is_own = true;
        cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    }
    end_node(n, disk);
}

static void note_done(struct partition_op *op)
{
    *(bool *)op->context = true;
}

/* What is left is more than the batch takes and less than the zeros that go ahead of it: it is
 * refused at once, not taken and left to wait for space until the client gives up. */
Test(full_disk, the_first_write_on_a_full_disk_is_refused_at_once)
{
    for (uint64_t left = 0; left < 40 << 10; left += 4 << 10) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = calloc(1, sizeof(*n));
        struct uuid id;
        sim_node_init(n, disk, 1, 3);
        cr_assert(eq(int, sim_node_start(n), ERR_OK));
        cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
        disk_sim_set_capacity(disk, disk_sim_used_size(disk) + left);
        sim_node_stop(n);
        sim_node_init(n, disk, 1, 4);
        n->data_dirs[0].space_reserve_size = 1;
        cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
        struct batch b;
        make_batch_of(&b, 1, -1, -1, -1);
        struct partition_op op = produce_op(&id, 0, &b);
        bool is_done = false;
        op.on_done = note_done;
        op.context = &is_done;
        n->clock.now_us += 2 * SPACE_SAMPLE_US;
        cluster_partition_submit(sim_node_cluster(n, 0), &op);
        const uint64_t began_us = n->clock.now_us;
        while (!is_done && n->clock.now_us - began_us < 500 * 1000) {
            cr_assert(sim_node_step(n));
        }
        cr_assert(is_done, "it waits: %llu bytes are left", (unsigned long long)left);
        cr_assert(op.result == ERR_OK || op.result == ERR_NO_SPACE, "%s", err_name(op.result));
        disk_sim_set_capacity(disk, 0);
        end_node(n, disk);
    }
}
