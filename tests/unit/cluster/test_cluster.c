/* Whole clusters of one node on simulated shards and disk: life of topics and partitions, restarts,
 * crashes, another number of shards. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/reached.h"

#include "tests/support/cluster_rig.h"

Test(cluster, an_empty_directory_starts_and_stops)
{
    struct disk_sim *disk = new_disk();
    for (uint16_t shards = 1; shards <= 3; shards++) {
        struct sim_node *n = calloc(1, sizeof(*n));
        sim_node_init(n, disk, shards, shards);
        cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
        const struct metadata *m = cluster_metadata(sim_node_cluster(n, 0));
        cr_assert(eq(i32, metadata_leader_epoch(m), shards)); /* One more at each start. */
        sim_node_stop(n);
        free(n);
    }
    disk_sim_free(disk);
}

Test(cluster, topics_and_records_survive_a_restart_with_another_number_of_shards)
{
    struct disk_sim *disk = new_disk();
    struct uuid id;
    const uint16_t shards[] = {2, 3, 1, 4};
    for (int round = 0; round < 4; round++) {
        struct sim_node *n = calloc(1, sizeof(*n));
        sim_node_init(n, disk, shards[round], 10 + (uint64_t)round);
        cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
        if (round == 0) {
            cr_assert(eq(int, sim_node_create_topic(n, 1, "orders", 5, &id), ERR_OK));
        }
        for (uint16_t s = 0; s < shards[round]; s++) {
            const struct topic *t = metadata_topic_by_name(cluster_metadata(sim_node_cluster(n, s)),
                                                           slice_of_string("orders"));
            cr_assert(t != NULL);
            cr_assert(eq(i32, t->partitions_count, 5));
        }
        for (int32_t p = 0; p < 5; p++) {
            const uint16_t from = (uint16_t)(p % shards[round]);
            cr_assert(eq(i64, produce(n, from, &id, p, 3), 3 * round));
            const struct partition_offsets o = offsets_of(n, &id, p);
            cr_assert(eq(i64, o.high_watermark, 3 * (round + 1)));
            cr_assert(eq(i64, o.log_start_offset, 0));
            cr_assert(eq(i32, o.leader_epoch, round + 1));
        }
        sim_node_stop(n);
        free(n);
    }
    disk_sim_free(disk);
}

Test(cluster, what_is_read_is_what_was_produced_with_offset_and_epoch)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 2, &id), ERR_OK));
    for (int32_t p = 0; p < 2; p++) {
        cr_assert(eq(i64, produce(n, 0, &id, p, 2), 0));
        cr_assert(eq(i64, produce(n, 1, &id, p, 1), 2));

        struct partition_op peek = {
            .kind = PARTITION_PEEK,
            .id = {id, p},
            .current_leader_epoch = 1,
            .in.fetch = {.offset = 0, .size_max = 1 << 20},
        };
        cr_assert(eq(int, sim_node_partition_op(n, 0, &peek), ERR_OK));
        static uint8_t bytes[8192];
        struct partition_op read = {
            .kind = PARTITION_READ,
            .id = {id, p},
            .current_leader_epoch = -1,
            .in.fetch = {.offset = 1, .dst = bytes, .dst_size = sizeof(bytes)},
        };
        cr_assert(eq(int, sim_node_partition_op(n, 1, &read), ERR_OK));
        cr_assert(eq(sz, read.out.fetch.size, peek.out.fetch.size));
        struct batch_header h;
        cr_assert(eq(int, batch_header_decode(slice_of(bytes, read.out.fetch.size), &h), ERR_OK));
        cr_assert(eq(i64, h.base_offset, 0)); /* The batch that holds offset 1. */
        cr_assert(eq(i32, h.leader_epoch, 1));
        const size_t first = batch_size(&h);
        cr_assert(batch_crc_matches(slice_of(bytes, first)));
        const struct slice second = slice_of(bytes + first, read.out.fetch.size - first);
        cr_assert(eq(int, batch_header_decode(second, &h), ERR_OK));
        cr_assert(eq(i64, h.base_offset, 2));

        read.in.fetch.offset = 3; /* The end: nothing yet. */
        cr_assert(eq(int, sim_node_partition_op(n, 1, &read), ERR_OK));
        cr_assert(eq(sz, read.out.fetch.size, 0));
        read.in.fetch.offset = 4;
        cr_assert(eq(int, sim_node_partition_op(n, 1, &read), ERR_OUT_OF_RANGE));
        read.in.fetch.offset = -1;
        cr_assert(eq(int, sim_node_partition_op(n, 1, &read), ERR_OUT_OF_RANGE));
        read.in.fetch.offset = 0;
        read.in.fetch.dst_size = first - 1;
        cr_assert(eq(int, sim_node_partition_op(n, 1, &read), ERR_TOO_LARGE));
        cr_assert(eq(sz, read.out.fetch.size_needed, first));
    }
    end_node(n, disk);
}

Test(cluster, leader_epochs_are_checked)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    sim_node_stop(n);
    sim_node_init(n, disk, 1, 4);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    struct partition_op op = {.kind = PARTITION_OFFSETS, .id = {id, 0}};
    op.current_leader_epoch = 1;
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_LEADER_EPOCH_FENCED));
    op.current_leader_epoch = 3;
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_LEADER_EPOCH_UNKNOWN));
    op.current_leader_epoch = 2;
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));

    produce(n, 0, &id, 0, 2);
    op = (struct partition_op){
        .kind = PARTITION_TERM_END, .id = {id, 0}, .current_leader_epoch = -1};
    const struct {
        int32_t asked, epoch;
        int64_t end;
    } rows[] = {{2, 2, 2}, {3, -1, -1}, {1, 1, 0}, {0, 0, 0}};
    for (size_t i = 0; i < 4; i++) {
        op.in.term_end.leader_epoch = rows[i].asked;
        cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
        cr_assert(eq(i32, op.out.term_end.leader_epoch, rows[i].epoch));
        cr_assert(eq(i64, op.out.term_end.end_offset, rows[i].end));
    }
    end_node(n, disk);
}

Test(cluster, unknown_partitions_are_not_found)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 2, &id), ERR_OK));
    struct partition_op op = {.kind = PARTITION_OFFSETS, .id = {id, 2}, .current_leader_epoch = -1};
    cr_assert(eq(int, sim_node_partition_op(n, 1, &op), ERR_NOT_FOUND));
    cr_assert(eq(i64, op.offsets.high_watermark, -1));
    end_node(n, disk);
}

struct counted {
    int copied;
    int done;
    int copied_when_done;
};

static void on_copied(struct partition_op *op)
{
    struct counted *c = op->context;
    c->copied++;
}

static void on_counted_done(struct partition_op *op)
{
    struct counted *c = op->context;
    c->done++;
    c->copied_when_done = c->copied;
}

static void on_flagged(struct controller_request *r)
{
    *(bool *)r->context = true;
}

struct early_watch {
    struct reached reached;
    bool has_waited;
};

static void on_reached(struct reached *r, const char *name)
{
    struct early_watch *w = container_of(r, struct early_watch, reached);
    w->has_waited |= strcmp(name, "partition_op_waits_for_open") == 0;
}

/* A shard may hear of a topic and be asked for its partitions in the same turn: the operations wait
 * until the partitions are open. */
Test(cluster, an_operation_waits_for_its_partition_to_open)
{
    enum { PARTITIONS = 16 };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    struct early_watch watch = {.reached = {.hit = on_reached}};
    n->shards[1].s->reached = &watch.reached;
    struct cluster *c = sim_node_cluster(n, 0);
    bool is_created = false;
    struct controller_request create = {
        .kind = CONTROLLER_CREATE_TOPIC,
        .on_done = on_flagged,
        .context = &is_created,
        .in.create_topic =
            {
                .name = slice_of("t", 1),
                .partitions_count = PARTITIONS,
                .replication_factor = -1,
            },
    };
    controller_submit(c, &create);
    const struct topic *t = NULL;
    while ((t = metadata_topic_by_name(cluster_metadata(c), slice_of("t", 1))) == NULL) {
        if (!shard_turn(n->shards[0].s)) { /* The other shard does not run. */
            n->clock.now_us += 100;
        }
    }
    struct counted counted[PARTITIONS] = {{0}};
    struct partition_op ops[PARTITIONS];
    for (int32_t i = 0; i < PARTITIONS; i++) {
        ops[i] = (struct partition_op){
            .kind = PARTITION_OFFSETS,
            .id = {.topic_id = t->id, .partition = i},
            .current_leader_epoch = -1,
            .on_done = on_counted_done,
            .context = &counted[i],
        };
        cluster_partition_submit(c, &ops[i]);
    }
    while (!is_created) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(watch.has_waited);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        cr_assert(eq(int, counted[i].done, 1), "at %d", i);
        cr_assert(eq(int, ops[i].result, ERR_OK), "at %d", i);
    }
    n->shards[1].s->reached = NULL;
    end_node(n, disk);
}

Test(cluster, copied_comes_once_and_before_done_also_for_refused_batches)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 4, &id), ERR_OK));
    struct batch b;
    make_batch_of(&b, 1, -1, -1, -1);
    for (int i = 0; i < 12; i++) {
        const bool is_bad = i % 3 == 2;
        struct counted counted = {0};
        b.bytes[66] ^= is_bad; /* The CRC no longer matches. */
        struct partition_op op = produce_op(&id, i % 4, &b);
        op.in.produce.acks = i % 3 == 0 ? 0 : 1;
        op.in.produce.on_copied = on_copied;
        op.on_done = on_counted_done;
        op.context = &counted;
        cluster_partition_submit(sim_node_cluster(n, 1), &op);
        while (counted.done == 0 && sim_node_step(n)) {
        }
        b.bytes[66] ^= is_bad;
        cr_assert(eq(int, op.result, is_bad ? ERR_CORRUPT : ERR_OK));
        cr_assert(eq(int, counted.copied, 1));
        cr_assert(eq(int, counted.copied_when_done, 1));
    }
    end_node(n, disk);
}

Test(cluster, a_duplicate_in_flight_is_answered_with_the_original_offset_when_durable)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    struct batch b[3];
    make_batch_of(&b[0], 2, 77, 0, 0);
    make_batch_of(&b[1], 3, 77, 0, 2);
    make_batch_of(&b[2], 1, 77, 0, 9); /* A gap. */
    struct counted counted[4] = {{0}};
    struct partition_op ops[4] = {
        produce_op(&id, 0, &b[0]),
        produce_op(&id, 0, &b[1]),
        produce_op(&id, 0, &b[0]),
        produce_op(&id, 0, &b[2]),
    };
    for (int i = 0; i < 4; i++) {
        ops[i].on_done = on_counted_done;
        ops[i].context = &counted[i];
        cluster_partition_submit(sim_node_cluster(n, 0), &ops[i]);
    }
    while ((counted[0].done & counted[1].done & counted[2].done & counted[3].done) == 0) {
        cr_assert(sim_node_step(n));
        if (counted[2].done != 0) {
            cr_assert(eq(int, counted[0].done, 1)); /* Never before the original. */
        }
    }
    cr_assert(eq(int, ops[0].result, ERR_OK));
    cr_assert(eq(int, ops[1].result, ERR_OK));
    cr_assert(eq(int, ops[2].result, ERR_OK));
    cr_assert(eq(int, ops[3].result, ERR_SEQUENCE_OUT_OF_ORDER));
    cr_assert(eq(i64, ops[0].out.produce.base_offset, 0));
    cr_assert(eq(i64, ops[1].out.produce.base_offset, 2));
    cr_assert(eq(i64, ops[2].out.produce.base_offset, 0));
    cr_assert(eq(i64, offsets_of(n, &id, 0).log_end_offset, 5));
    sim_node_stop(n);

    /* The state comes back from the log. */
    sim_node_init(n, disk, 1, 4);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    struct partition_op again = produce_op(&id, 0, &b[1]);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &again), ERR_OK));
    cr_assert(eq(i64, again.out.produce.base_offset, 2));
    struct partition_op gap = produce_op(&id, 0, &b[2]);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &gap), ERR_SEQUENCE_OUT_OF_ORDER));
    cr_assert(eq(i64, gap.out.produce.base_offset, -1));
    end_node(n, disk);
}

static void on_cancelled(struct partition_cancel *cancel)
{
    cancel->target = NULL;
}

Test(cluster, a_wait_ends_when_the_high_watermark_moves_or_when_cancelled)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 2, &id), ERR_OK));
    for (int32_t p = 0; p < 2; p++) {
        struct counted counted = {0};
        struct partition_op wait = {
            .kind = PARTITION_WAIT,
            .id = {id, p},
            .current_leader_epoch = -1,
            .on_done = on_counted_done,
            .context = &counted,
        };
        cluster_partition_submit(sim_node_cluster(n, 0), &wait);
        sim_node_run(n, 50);
        cr_assert(eq(int, counted.done, 0));
        produce(n, 1, &id, p, 1);
        sim_node_run(n, 50);
        cr_assert(eq(int, counted.done, 1));
        cr_assert(eq(int, wait.result, ERR_OK));
        cr_assert(eq(i64, wait.offsets.high_watermark, 1));

        counted = (struct counted){0};
        wait.in.wait.high_watermark = 1;
        cluster_partition_submit(sim_node_cluster(n, 0), &wait);
        sim_node_run(n, 50);
        cr_assert(eq(int, counted.done, 0));
        struct partition_cancel cancels[2];
        for (int i = 0; i < 2; i++) {
            cancels[i] = (struct partition_cancel){.target = &wait, .on_done = on_cancelled};
        }
        cluster_partition_cancel(sim_node_cluster(n, 0), &cancels[0]);
        cluster_partition_cancel(sim_node_cluster(n, 0), &cancels[1]);
        sim_node_run(n, 50);
        cr_assert(eq(int, counted.done, 1));
        cr_assert(eq(int, wait.result, ERR_CANCELLED));
        cr_assert(cancels[0].target == NULL);
        cr_assert(cancels[1].target == NULL);
    }
    end_node(n, disk);
}

Test(cluster, stop_ends_waits_and_answers_what_was_appended)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 2, &id), ERR_OK));
    produce(n, 0, &id, 0, 1);
    struct counted counted[2] = {{0}};
    struct partition_op wait = {
        .kind = PARTITION_WAIT,
        .id = {id, 0},
        .current_leader_epoch = -1,
        .in.wait.high_watermark = 100,
        .on_done = on_counted_done,
        .context = &counted[0],
    };
    struct batch b;
    make_batch_of(&b, 1, -1, -1, -1);
    struct partition_op op = produce_op(&id, 0, &b);
    op.on_done = on_counted_done;
    op.context = &counted[1];
    cluster_partition_submit(sim_node_cluster(n, 0), &wait);
    cluster_partition_submit(sim_node_cluster(n, 0), &op);
    sim_node_run(n, 3);
    sim_node_stop(n);
    cr_assert(eq(int, counted[0].done, 1));
    cr_assert(eq(int, wait.result, ERR_CANCELLED));
    cr_assert(eq(int, counted[1].done, 1));
    cr_assert(eq(int, op.result, ERR_OK));
    free(n);
    disk_sim_free(disk);
}

Test(cluster, a_deleted_topic_is_gone_at_once_and_its_files_later)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 3, &id), ERR_OK));
    for (int32_t p = 0; p < 3; p++) {
        produce(n, 0, &id, p, 2);
    }
    cr_assert(eq(int, sim_node_delete_topic(n, 1, "t"), ERR_OK));
    cr_assert(eq(int, sim_node_delete_topic(n, 1, "t"), ERR_TOPIC_UNKNOWN));
    for (uint16_t s = 0; s < 2; s++) {
        const struct metadata *m = cluster_metadata(sim_node_cluster(n, s));
        cr_assert(metadata_topic_by_name(m, slice_of_string("t")) == NULL);
    }
    sim_node_run(n, 20000);
    struct partition_op op = {.kind = PARTITION_OFFSETS, .id = {id, 0}, .current_leader_epoch = -1};
    cr_assert(eq(int, sim_node_partition_op(n, 1, &op), ERR_NOT_FOUND));
    struct uuid again;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 3, &again), ERR_OK));
    cr_assert(not(uuid_equal(&id, &again)));
    cr_assert(eq(i64, produce(n, 0, &again, 0, 1), 0)); /* From the start. */
    sim_node_stop(n);
    sim_node_init(n, disk, 2, 4);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(not(sim_node_has_logged(n, "orphan")), "%s", n->log_text);
    cr_assert(eq(i64, offsets_of(n, &again, 0).high_watermark, 1));
    end_node(n, disk);
}

struct file_count {
    char id[UUID_TEXT_SIZE];
    int count;
};

static void count_file(void *context, const char *path, uint64_t size)
{
    (void)size;
    struct file_count *files = context;
    files->count += strstr(path, files->id) != NULL;
}

Test(cluster, a_stop_cuts_a_long_removal_short_and_the_next_start_goes_on)
{
    enum { PARTITIONS = 60 };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", PARTITIONS, &id), ERR_OK));
    for (int32_t p = 0; p < PARTITIONS; p++) {
        produce(n, 0, &id, p, 1);
    }
    cr_assert(eq(int, sim_node_delete_topic(n, 0, "t"), ERR_OK));
    sim_node_stop(n);
    struct file_count files = {.count = 0};
    uuid_format(&id, files.id);
    disk_sim_each_file(disk, &files, count_file);
    cr_assert(lt(int, 0, files.count));

    sim_node_init(n, disk, 1, 4);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    sim_node_run(n, 30000);
    files.count = 0;
    disk_sim_each_file(disk, &files, count_file);
    cr_assert(eq(int, files.count, 0));
    sim_node_stop(n);
    sim_node_init(n, disk, 2, 5);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(not(sim_node_has_logged(n, "orphan")), "%s", n->log_text);
    end_node(n, disk);
}

Test(cluster, producer_ids_never_repeat)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    int64_t last = -1;
    for (uint64_t round = 0; round < 3; round++) {
        sim_node_init(n, disk, 2, round);
        cr_assert(eq(int, sim_node_start(n), ERR_OK));
        for (int i = 0; i < 1100; i++) {
            int64_t id = sim_node_allocate_producer_id(n, (uint16_t)(i % 2));
            cr_assert(lt(i64, last, id));
            last = id;
        }
        sim_node_stop(n);
    }
    free(n);
    disk_sim_free(disk);
}

Test(cluster, start_is_refused_with_one_line_that_names_the_fix)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, 2, 1);
    n->settings.data_dirs_count = CLUSTER_DATA_DIRS_MAX + 1;
    cr_assert(eq(int, sim_node_start(n), ERR_UNSUPPORTED));
    cr_assert(strstr(n->why, "name 1 to 64 with --data-dir") != NULL, "%s", n->why);
    sim_node_stop(n);

    struct topic_config_entry bad = {"retention.sm", "1"};
    sim_node_init(n, disk, 2, 1);
    n->settings.topic_defaults = &bad;
    n->settings.topic_defaults_count = 1;
    cr_assert(eq(int, sim_node_start(n), ERR_CONFIG_INVALID));
    cr_assert(strstr(n->why, "retention.ms") != NULL, "%s", n->why);
    end_node(n, disk);
}

/* ---- time ---- */

/* ---- pressure, limits, trouble ---- */

enum { BURST = 300 };

struct stuck {
    struct batch batches[BURST];
    struct partition_op ops[BURST];
    struct counted counted[BURST];
};

Test(cluster, a_burst_beyond_the_room_of_the_log_is_answered_in_order)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 2, 3);
    n->settings.log.segment_size_max = 128 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 64 << 10;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    static struct batch batches[BURST];
    static struct partition_op ops[BURST];
    static struct counted counted[BURST];
    for (int i = 0; i < BURST; i++) {
        make_batch_of(&batches[i], 200, 9, 0, 200 * i);
        ops[i] = produce_op(&id, 0, &batches[i]);
        ops[i].in.produce.acks = 1;
        ops[i].in.produce.on_copied = on_copied;
        ops[i].on_done = on_counted_done;
        ops[i].context = &counted[i];
        cluster_partition_submit(sim_node_cluster(n, 1), &ops[i]);
    }
    int done = 0;
    while (done < BURST) {
        cr_assert(sim_node_step(n));
        while (done < BURST && counted[done].done != 0) {
            cr_assert(eq(int, ops[done].result, ERR_OK));
            cr_assert(eq(i64, ops[done].out.produce.base_offset, 200 * done));
            cr_assert(eq(int, counted[done].copied_when_done, 1));
            done++;
        }
    }
    end_node(n, disk);
}

/* A disk that takes nothing any more, and clients that wait: for a flush, then for room. */
static void submit_to_stuck_disk(struct sim_node *n, const struct uuid *id, struct stuck *stuck)
{
    io_fault_add(&n->shards[0].io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FAULT_ANY,
                     .fd = IO_FAULT_ANY,
                     .at = 1,
                     .count = UINT32_MAX,
                     .action = IO_FAULT_HANG,
                 });
    for (int i = 0; i < BURST; i++) {
        make_batch_of(&stuck->batches[i], 200, -1, -1, -1);
        stuck->ops[i] = produce_op(id, 0, &stuck->batches[i]);
        stuck->ops[i].in.produce.acks = i == BURST - 1 ? 0 : -1;
        stuck->ops[i].in.produce.on_copied = on_copied;
        stuck->ops[i].on_done = on_counted_done;
        stuck->ops[i].context = &stuck->counted[i];
        cluster_partition_submit(sim_node_cluster(n, 0), &stuck->ops[i]);
    }
    sim_node_run(n, 2000);
    cr_assert(eq(int, stuck->counted[0].copied, 1));
    cr_assert(eq(int, stuck->counted[0].done, 0), "it waits for a flush");
    cr_assert(eq(int, stuck->counted[BURST - 1].copied, 0), "it waits for room");
    cr_assert(eq(int, stuck->counted[BURST - 1].done, 0));
}

static void start_small(struct sim_node *n, struct disk_sim *disk, struct uuid *ret_id)
{
    sim_node_init(n, disk, 1, 3);
    n->settings.log.segment_size_max = 128 << 10;
    n->settings.log.fill_step_min = 16 << 10;
    n->settings.log.fill_step_max = 64 << 10;
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, ret_id), ERR_OK));
    cr_assert(eq(i64, produce(n, 0, ret_id, 0, 1), 0)); /* Its log has a segment now. */
}

Test(cluster, a_stop_waits_for_no_disk)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct stuck *stuck = calloc(1, sizeof(*stuck));
    struct uuid id;
    start_small(n, disk, &id);
    submit_to_stuck_disk(n, &id, stuck);
    bool is_answered = false;
    struct controller_request create = {
        .kind = CONTROLLER_CREATE_TOPIC,
        .on_done = on_flagged,
        .context = &is_answered,
        .in.create_topic = {.name = slice_of_string("u"),
                            .partitions_count = 1,
                            .replication_factor = 1},
    };
    controller_submit(sim_node_cluster(n, 0), &create);
    sim_node_run(n, 100);
    cr_assert(not(is_answered));

    const uint64_t begun_us = n->clock.now_us; /* The shard's own may be a timer behind. */
    cluster_quiesce(sim_node_cluster(n, 0));
    sim_node_run(n, 100);
    cr_assert(eq(int, stuck->counted[BURST - 1].done, 1));
    cr_assert(eq(int, stuck->ops[BURST - 1].result, ERR_CANCELLED));
    while (stuck->counted[0].done == 0 || !is_answered) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(le(u64, n->shards[0].s->now_us - begun_us, 2 * CLUSTER_DRAIN_US));
    cr_assert(eq(int, stuck->ops[0].result, ERR_CANCELLED));
    cr_assert(eq(int, create.result, ERR_CANCELLED));
    io_fault_clear(&n->shards[0].io_fault);
    io_fault_release(&n->shards[0].io_fault);
    sim_node_stop(n);
    for (int i = 0; i < BURST; i++) {
        cr_assert(eq(int, stuck->counted[i].done, 1));
        cr_assert(eq(int, stuck->counted[i].copied, 1));
    }
    free(stuck);
    free(n);
    disk_sim_free(disk);
}

static void on_called_back(struct partition_cancel *cancel)
{
    cancel->target = NULL;
}

Test(cluster, a_produce_can_be_called_back_until_it_is_appended)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct stuck *stuck = calloc(1, sizeof(*stuck));
    struct uuid id;
    start_small(n, disk, &id);
    submit_to_stuck_disk(n, &id, stuck);
    struct partition_cancel cancels[2] = {
        {.target = &stuck->ops[0], .on_done = on_called_back},
        {.target = &stuck->ops[BURST - 2], .on_done = on_called_back},
    };
    cluster_partition_cancel(sim_node_cluster(n, 0), &cancels[0]);
    cluster_partition_cancel(sim_node_cluster(n, 0), &cancels[1]);
    sim_node_run(n, 100);
    cr_assert(eq(ptr, cancels[0].target, NULL));
    cr_assert(eq(ptr, cancels[1].target, NULL));
    cr_assert(eq(int, stuck->counted[0].done, 0));
    cr_assert(eq(int, stuck->counted[BURST - 2].done, 1));
    cr_assert(eq(int, stuck->counted[BURST - 2].copied, 1));
    cr_assert(eq(int, stuck->ops[BURST - 2].result, ERR_CANCELLED));
    io_fault_clear(&n->shards[0].io_fault);
    io_fault_release(&n->shards[0].io_fault);
    while (stuck->counted[BURST - 1].done == 0) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(eq(int, stuck->ops[BURST - 1].result, ERR_OK));
    cr_assert(eq(int, stuck->ops[0].result, ERR_OK));
    sim_node_stop(n);
    free(stuck);
    free(n);
    disk_sim_free(disk);
}

Test(cluster, a_failed_flush_is_fatal_and_everything_is_answered)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 2, &id), ERR_OK));
    produce(n, 0, &id, 0, 1);
    io_fault_add(&n->shards[0].io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FDATASYNC,
                     .fd = IO_FAULT_ANY,
                     .at = 1,
                     .count = UINT32_MAX,
                     .action = IO_FAULT_FAIL,
                     .code = 5,
                 });
    struct batch b;
    make_batch_of(&b, 1, -1, -1, -1);
    struct partition_op op = produce_op(&id, 0, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_FAILED));
    cr_assert(n->has_fatal);
    op = produce_op(&id, 1, &b);
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_FAILED));
    struct uuid other;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "other", 1, &other), ERR_FAILED));
    end_node(n, disk);
}

Test(cluster, an_unknown_log_directory_is_left_alone_and_told)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    struct uuid id;
    sim_node_init(n, disk, 1, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    produce(n, 0, &id, 0, 1);
    sim_node_stop(n);

    sim_node_init(n, disk, 1, 4);
    char path[64] = "/data/logs/";
    const struct uuid stranger = {{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}};
    uuid_format(&stranger, path + strlen(path));
    strcat(path, "-7");
    struct io_op op = {.kind = IO_MKDIR, .path = path};
    cr_assert(eq(int, io_call(&n->shards[0].s->io, &op), ERR_OK));
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    cr_assert(sim_node_has_logged(n, "orphan_logs: dir=/data/logs count=1"), "%s", n->log_text);
    sim_node_stop(n);
    sim_node_init(n, disk, 1, 5);
    op = (struct io_op){.kind = IO_MKDIR, .path = path};
    cr_assert(eq(int, io_call(&n->shards[0].s->io, &op), ERR_EXISTS)); /* Still there. */
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    end_node(n, disk);
}

Test(cluster, many_topics_are_created_at_once_and_all_answered)
{
    enum { TOPICS = 200 };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, 3, 3);
    cr_assert(eq(int, sim_node_start(n), ERR_OK));
    static struct controller_request requests[TOPICS];
    static char names[TOPICS][16];
    static bool is_done[TOPICS];
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", i / 2); /* Each name twice. */
        requests[i] = (struct controller_request){
            .kind = CONTROLLER_CREATE_TOPIC,
            .on_done = on_flagged,
            .context = &is_done[i],
            .in.create_topic = {slice_of_string(names[i]), 10, 1},
        };
        controller_submit(sim_node_cluster(n, (uint16_t)(i % 3)), &requests[i]);
    }
    int created = 0;
    for (int i = 0; i < TOPICS; i++) {
        cr_assert(sim_node_run_until(n, &is_done[i]));
        cr_assert(requests[i].result == ERR_OK || requests[i].result == ERR_TOPIC_EXISTS);
        created += requests[i].result == ERR_OK;
    }
    cr_assert(eq(int, created, TOPICS / 2));
    for (uint16_t s = 0; s < 3; s++) {
        cr_assert(eq(u32, metadata_topics_count(cluster_metadata(sim_node_cluster(n, s))), 100));
    }
    end_node(n, disk);
}
