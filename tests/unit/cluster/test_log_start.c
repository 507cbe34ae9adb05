/* The start of a partition's log: DeleteRecords and retention, on whole clusters of one node. Goal:
 * it moves when that is committed, never back, survives what comes, and what Kafka keeps is kept.
 * Method: tiny segments, a clock that jumps, crashes at any step. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster_priv.h"

#include "tests/support/sim_node.h"

enum {
    BATCH_MAX = 8192,
    VALUE_SIZE = 3000,
};

static struct disk_sim *new_disk(void)
{
    return disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
}

static struct sim_node *
start_node_with(struct disk_sim *disk, uint16_t shards, uint64_t seed, uint64_t checkpoint_size)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, shards, seed);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.log.fill_step_min = 8 << 10;
    n->settings.log.fill_step_max = 32 << 10;
    n->settings.log.checkpoint_size = checkpoint_size;
    n->settings.retention_check_us = 1000 * 1000;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
    return n;
}

static struct sim_node *start_node(struct disk_sim *disk, uint16_t shards, uint64_t seed)
{
    return start_node_with(disk, shards, seed, 128 << 10);
}

static void end_node(struct sim_node *n, struct disk_sim *disk)
{
    sim_node_stop(n);
    free(n);
    disk_sim_free(disk);
}

static int64_t wall_ms(struct sim_node *n)
{
    return clock_wall_ms(&n->clock.clock);
}

static struct uuid
create(struct sim_node *n, const char *name, int32_t partitions, const char *key, const char *value)
{
    struct uuid id;
    const struct config_pair config = {
        .name = slice_of_string(key),
        .value = slice_of_string(value),
    };
    enum err e = sim_node_create_topic_with(n, name, partitions, &config, 1, &id);
    cr_assert(eq(int, e, ERR_OK), "%s", n->log_text);
    return id;
}

/* One record of VALUE_SIZE. */
static void produce(struct sim_node *n, const struct partition_id *id, int64_t timestamp)
{
    static const uint8_t value[VALUE_SIZE] = {1};
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_MAX);
    enum err e = batch_builder_add(&builder,
                                   &(struct batch_record){
                                       .timestamp = timestamp,
                                       .key = slice_of_string("k"),
                                       .value = slice_of(value, sizeof(value)),
                                   });
    cr_assert(eq(int, e, ERR_OK));
    uint8_t bytes[BATCH_MAX];
    struct wbuf w;
    wbuf_init_fixed(&w, bytes, sizeof(bytes));
    const struct batch_identity identity = {-1, -1, -1};
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, &identity, &w), ERR_OK));
    struct partition_op op = {
        .kind = PARTITION_PRODUCE,
        .id = *id,
        .current_leader_epoch = -1,
        .in.produce = {.batch = slice_of(bytes, w.size), .acks = -1, .produce_version = 9},
    };
    e = sim_node_partition_op(n, 0, &op);
    cr_assert(eq(int, e, ERR_OK), "%s", err_name(e));
    batch_builder_done(&builder);
}

static struct partition_offsets offsets_of(struct sim_node *n, const struct partition_id *id)
{
    struct partition_op op = {.kind = PARTITION_OFFSETS, .id = *id, .current_leader_epoch = -1};
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    return op.offsets;
}

static struct partition_op delete_op(const struct partition_id *id, int64_t offset)
{
    return (struct partition_op){
        .kind = PARTITION_DELETE_RECORDS,
        .id = *id,
        .current_leader_epoch = -1,
        .in.delete_records.offset = offset,
    };
}

static enum err
delete_records(struct sim_node *n, const struct partition_id *id, int64_t offset, int64_t *ret_low)
{
    struct partition_op op = delete_op(id, offset);
    enum err e = sim_node_partition_op(n, 0, &op);
    *ret_low = op.offsets.log_start_offset;
    return e;
}

static void set_flag(struct partition_op *op)
{
    *(bool *)op->context = true;
}

/* Reading at offset: ERR_OK with data, or ERR_OUT_OF_RANGE. */
static enum err read_at(struct sim_node *n, const struct partition_id *id, int64_t offset)
{
    uint8_t *dst = malloc(BATCH_MAX);
    struct partition_op op = {
        .kind = PARTITION_READ,
        .id = *id,
        .current_leader_epoch = -1,
        .in.fetch = {.offset = offset, .dst = dst, .dst_size = BATCH_MAX},
    };
    enum err e = sim_node_partition_op(n, 0, &op);
    if (e == ERR_OK) {
        cr_assert(lt(sz, 0, op.out.fetch.size));
    }
    free(dst);
    return e;
}

static void run_for(struct sim_node *n, uint64_t us)
{
    const uint64_t until_us = n->clock.now_us + us;
    while (n->clock.now_us < until_us && sim_node_step(n)) {
    }
}

Test(log_start, delete_records_as_kafka_answers_it)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 2, 1);
    const struct partition_id id = {create(n, "t", 1, "retention.ms", "-1"), 0};
    for (int i = 0; i < 10; i++) {
        produce(n, &id, wall_ms(n));
    }
    static const struct {
        const char *what;
        int64_t offset;
        enum err result;
        int64_t low;
    } rows[] = {
        {"at the start there is nothing to do", 0, ERR_OK, 0},
        {"the low watermark is where the log starts now", 3, ERR_OK, 3},
        {"below the start likewise", 1, ERR_OK, 3},
        {"again", 3, ERR_OK, 3},
        {"beyond the high watermark", 11, ERR_OUT_OF_RANGE, 3},
        {"far beyond", INT64_MAX, ERR_OUT_OF_RANGE, 3},
        {"negative, and not -1", -2, ERR_OUT_OF_RANGE, 3},
        {"up to the high watermark by number", 10, ERR_OK, 10},
        {"-1 is the high watermark", -1, ERR_OK, 10},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t low;
        cr_assert(eq(int, delete_records(n, &id, rows[i].offset, &low), rows[i].result),
                  "%s",
                  rows[i].what);
        cr_assert(eq(i64, low, rows[i].low), "%s", rows[i].what);
        if (low > 0) {
            cr_assert(eq(int, read_at(n, &id, low - 1), ERR_OUT_OF_RANGE), "%s", rows[i].what);
        }
        if (low < 10) {
            cr_assert(eq(int, read_at(n, &id, low), ERR_OK), "%s", rows[i].what);
        }
    }
    produce(n, &id, wall_ms(n));
    int64_t low;
    cr_assert(eq(int, delete_records(n, &id, -1, &low), ERR_OK));
    cr_assert(eq(i64, low, 11));
    end_node(n, disk);
}

static void clear_target(struct partition_cancel *cancel)
{
    cancel->target = NULL;
}

/* The disk hangs: whoever waits for the commit of a new start may leave; the start comes all the
 * same when the disk goes on. */
Test(log_start, a_deletion_that_waits_can_be_called_back)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 1);
    const struct partition_id id = {create(n, "t", 1, "retention.ms", "-1"), 0};
    for (int i = 0; i < 10; i++) {
        produce(n, &id, wall_ms(n));
    }
    io_fault_add(&n->shards[0].io_fault,
                 &(struct io_fault_rule){
                     .kind = IO_FAULT_ANY,
                     .fd = IO_FAULT_ANY,
                     .at = 1,
                     .count = UINT32_MAX,
                     .action = IO_FAULT_HANG,
                 });
    bool is_done = false;
    struct partition_op op = delete_op(&id, 4);
    op.on_done = set_flag;
    op.context = &is_done;
    cluster_partition_submit(sim_node_cluster(n, 0), &op);
    run_for(n, 100000);
    cr_assert(not(is_done));
    struct partition_cancel cancel = {.target = &op, .on_done = clear_target};
    cluster_partition_cancel(sim_node_cluster(n, 0), &cancel);
    run_for(n, 1000);
    cr_assert(is_done);
    cr_assert(eq(int, op.result, ERR_CANCELLED));
    cr_assert(eq(ptr, cancel.target, NULL));
    io_fault_clear(&n->shards[0].io_fault);
    io_fault_release(&n->shards[0].io_fault);
    run_for(n, 100000);
    cr_assert(eq(i64, offsets_of(n, &id).log_start_offset, 4));
    end_node(n, disk);
}

Test(log_start, delete_records_needs_a_policy_with_delete)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 2);
    int64_t low;
    const struct partition_id compact = {create(n, "c", 1, "cleanup.policy", "compact"), 0};
    produce(n, &compact, wall_ms(n));
    cr_assert(eq(int, delete_records(n, &compact, -1, &low), ERR_POLICY));
    cr_assert(eq(i64, low, 0));
    const struct partition_id both = {create(n, "b", 1, "cleanup.policy", "compact,delete"), 0};
    produce(n, &both, wall_ms(n));
    cr_assert(eq(int, delete_records(n, &both, -1, &low), ERR_OK));
    cr_assert(eq(i64, low, 1));
    const struct partition_id unknown = {both.topic_id, 7};
    cr_assert(eq(int, delete_records(n, &unknown, -1, &low), ERR_NOT_FOUND));
    end_node(n, disk);
}

/* Also when nothing but the entry is left, and with another number of shards. */
Test(log_start, it_survives_restarts)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 3);
    const struct partition_id id = {create(n, "t", 1, "retention.ms", "-1"), 0};
    int64_t end = 0;
    for (uint16_t round = 0; round < 6; round++) {
        const int count = round % 2 == 0 ? 60 : 3;
        for (int i = 0; i < count; i++, end++) {
            produce(n, &id, wall_ms(n));
        }
        const int64_t start = round == 3 ? end - 1 : end;
        int64_t low;
        cr_assert(eq(int, delete_records(n, &id, start, &low), ERR_OK));
        cr_assert(eq(i64, low, start));
        sim_node_stop(n);
        free(n);
        n = start_node(disk, (uint16_t)(1 + round % 3), 30 + round);
        const struct partition_offsets o = offsets_of(n, &id);
        cr_assert(eq(i64, o.log_start_offset, start));
        cr_assert(eq(i64, o.high_watermark, end));
        cr_assert(eq(int, read_at(n, &id, start - 1), ERR_OUT_OF_RANGE));
    }
    end_node(n, disk);
}

/* What was answered holds after a crash at any step later; what was not may hold or not, but the
 * records from the asked start on are there either way. */
Test(log_start, a_crash_at_any_step)
{
    static const struct disk_sim_crash KINDS[] = {
        {.is_power_loss = false},
        {.is_power_loss = true},
        {.is_power_loss = true, .keep_sector = 50, .keep_extent = 50, .keep_name = 50},
    };
    for (int steps = 0; steps < 120; steps++) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = start_node(disk, 1, 100 + (uint64_t)steps);
        const struct partition_id id = {create(n, "t", 1, "retention.ms", "-1"), 0};
        for (int i = 0; i < 50; i++) {
            produce(n, &id, wall_ms(n));
        }
        int64_t low;
        cr_assert(eq(int, delete_records(n, &id, 20, &low), ERR_OK));
        struct partition_op *op = calloc(1, sizeof(*op)); /* Leaks with the crash. */
        bool is_answered = false;
        *op = delete_op(&id, 45);
        op->on_done = set_flag;
        op->context = &is_answered;
        cluster_partition_submit(sim_node_cluster(n, 0), op);
        sim_node_run(n, steps);
        sim_node_crash(n, &KINDS[steps % 3]);
        free(n);
        n = start_node(disk, 1, 200 + (uint64_t)steps);
        const struct partition_offsets o = offsets_of(n, &id);
        cr_assert(o.log_start_offset == 45 || (o.log_start_offset == 20 && !is_answered),
                  "steps=%d start=%lld",
                  steps,
                  (long long)o.log_start_offset);
        cr_assert(eq(i64, o.high_watermark, 50));
        cr_assert(eq(int, read_at(n, &id, o.log_start_offset - 1), ERR_OUT_OF_RANGE));
        for (int64_t offset = o.log_start_offset; offset < 50; offset++) {
            cr_assert(eq(int, read_at(n, &id, offset), ERR_OK));
        }
        end_node(n, disk);
    }
}

/* Checkpoints are taken while moves wait for their commit: such a move stands before the place that
 * the next recovery begins at. */
Test(log_start, a_checkpoint_remembers_moves_that_were_not_committed_yet)
{
    enum { MOVES = 30 };
    for (int seed = 0; seed < 40; seed++) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = start_node_with(disk, 1, 500 + (uint64_t)seed, 256);
        const struct partition_id id = {create(n, "t", 1, "retention.ms", "-1"), 0};
        for (int i = 0; i < 50; i++) {
            produce(n, &id, wall_ms(n));
        }
        struct partition_op *ops = calloc(MOVES, sizeof(*ops)); /* Leaks with the crash. */
        bool are_answered[MOVES] = {false};
        for (int i = 0; i < MOVES; i++) {
            ops[i] = delete_op(&id, 10 + i);
            ops[i].on_done = set_flag;
            ops[i].context = &are_answered[i];
            cluster_partition_submit(sim_node_cluster(n, 0), &ops[i]);
            sim_node_run(n, 1 + seed % 7);
        }
        cr_assert(sim_node_run_until(n, &are_answered[MOVES - 1]));
        sim_node_run(n, seed * 10);
        sim_node_crash(n, &(struct disk_sim_crash){.is_power_loss = true});
        free(n);
        n = start_node(disk, 1, 600 + (uint64_t)seed);
        cr_assert(eq(i64, offsets_of(n, &id).log_start_offset, 10 + MOVES - 1), "seed=%d", seed);
        end_node(n, disk);
    }
}

Test(log_start, retention_by_size)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 2, 5);
    const struct partition_id id = {create(n, "t", 1, "retention.bytes", "200000"), 0};
    for (int i = 0; i < 200; i++) {
        produce(n, &id, wall_ms(n));
    }
    run_for(n, 5ull * 1000 * 1000);
    const struct partition_offsets o = offsets_of(n, &id);
    /* Between the limit and a segment more; 15 records are in a segment of 64 KiB. */
    cr_assert(ge(i64, (200 - o.log_start_offset) * VALUE_SIZE, 150000));
    cr_assert(le(i64, (200 - o.log_start_offset) * VALUE_SIZE, 270000));
    cr_assert(eq(int, read_at(n, &id, o.log_start_offset), ERR_OK));
    cr_assert(eq(int, read_at(n, &id, o.log_start_offset - 1), ERR_OUT_OF_RANGE));
    end_node(n, disk);
}

/* No check comes: the segment that is closed is looked at then. */
Test(log_start, a_roll_lets_retention_look)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, 1, 7);
    n->settings.log.segment_size_max = 64 << 10;
    n->settings.retention_check_us = UINT64_MAX / 4;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
    const struct partition_id id = {create(n, "t", 1, "retention.bytes", "100000"), 0};
    for (int i = 0; i < 200; i++) {
        produce(n, &id, wall_ms(n));
    }
    const struct partition_offsets o = offsets_of(n, &id);
    cr_assert(lt(i64, 100, o.log_start_offset));
    cr_assert(le(i64, 100000, (o.high_watermark - o.log_start_offset) * (VALUE_SIZE + 4096)));
    end_node(n, disk);
}

Test(log_start, retention_by_time)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 6);
    const struct uuid topic = create(n, "t", 4, "retention.ms", "60000");
    const int64_t now_ms = wall_ms(n);
    const struct partition_id old = {topic, 0};
    const struct partition_id future = {topic, 1};
    const struct partition_id timeless = {topic, 2};
    const struct partition_id ahead = {topic, 3};
    for (int i = 0; i < 40; i++) {
        produce(n, &old, now_ms);
        produce(n, &future, now_ms + 3000 * 1000);
        produce(n, &timeless, -1);
        produce(n, &ahead, i == 0 ? now_ms + 3000 * 1000 : now_ms); /* C-clock: one bad record. */
    }
    run_for(n, 50ull * 1000 * 1000);
    cr_assert(eq(i64, offsets_of(n, &old).log_start_offset, 0), "not yet");
    run_for(n, 20ull * 1000 * 1000);
    cr_assert(eq(i64, offsets_of(n, &old).log_start_offset, 40), "the last segment, too");
    cr_assert(eq(i64, offsets_of(n, &future).log_start_offset, 0));
    cr_assert(eq(i64, offsets_of(n, &timeless).log_start_offset, 40), "by when it was written");
    cr_assert(eq(i64, offsets_of(n, &ahead).log_start_offset, 0), "as Kafka does");
    produce(n, &old, wall_ms(n));
    run_for(n, 10ull * 1000 * 1000);
    cr_assert(eq(i64, offsets_of(n, &old).log_start_offset, 40));
    cr_assert(eq(int, read_at(n, &old, 40), ERR_OK));
    end_node(n, disk);
}

Test(log_start, without_delete_in_the_policy_nothing_goes)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 7);
    const struct config_pair configs[] = {
        {slice_of_string("cleanup.policy"), slice_of_string("compact")},
        {slice_of_string("retention.ms"), slice_of_string("1000")},
        {slice_of_string("retention.bytes"), slice_of_string("1000")},
        {slice_of_string("coreflume.retention.topic.bytes"), slice_of_string("1000")},
    };
    struct partition_id id = {.partition = 0};
    cr_assert(eq(int, sim_node_create_topic_with(n, "t", 1, configs, 4, &id.topic_id), ERR_OK));
    for (int i = 0; i < 60; i++) {
        produce(n, &id, 1);
    }
    run_for(n, 20ull * 1000 * 1000);
    cr_assert(eq(i64, offsets_of(n, &id).log_start_offset, 0));
    end_node(n, disk);
}

/* The cap counts all partitions on all shards, and takes the oldest segments first. */
Test(log_start, the_cap_of_a_topic)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 3, 8);
    const struct uuid topic = create(n, "t", 6, "coreflume.retention.topic.bytes", "500000");
    const struct uuid other = create(n, "other", 2, "coreflume.retention.topic.bytes", "5000000");
    const int64_t from_ms = wall_ms(n);
    /* Partition 0 has the oldest records, partition 5 the newest. */
    for (int32_t p = 0; p < 6; p++) {
        const struct partition_id id = {topic, p};
        for (int i = 0; i < 50; i++) {
            produce(n, &id, from_ms + p * 1000 + i);
        }
    }
    const struct partition_id kept = {other, 0};
    for (int i = 0; i < 50; i++) {
        produce(n, &kept, from_ms - 1000);
    }
    run_for(n, 10ull * 1000 * 1000);
    int64_t left = 0;
    for (int32_t p = 0; p < 6; p++) {
        const struct partition_offsets o = offsets_of(n, &(struct partition_id){topic, p});
        left += o.high_watermark - o.log_start_offset;
        if (p < 2) {
            cr_assert(eq(i64, o.log_start_offset, 50), "p=%d", p);
        }
        if (p >= 4) {
            cr_assert(eq(i64, o.log_start_offset, 0), "p=%d", p);
        }
    }
    cr_assert(ge(i64, left * VALUE_SIZE, 330000));
    cr_assert(le(i64, left * VALUE_SIZE, 570000));
    cr_assert(eq(i64, offsets_of(n, &kept).log_start_offset, 0));
    end_node(n, disk);
}

static uint64_t moves_count(struct sim_node *n)
{
    uint64_t count = 0;
    for (uint16_t s = 0; s < n->shards_count; s++) {
        count += sim_node_cluster(n, s)->counters.retained_moves;
    }
    return count;
}

/* A segment a turn, though all shards that are asked are this one: others want to run, too. */
Test(log_start, a_cap_takes_one_segment_in_a_turn)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 1, 12);
    const struct uuid topic = create(n, "t", 4, "coreflume.retention.topic.bytes", "100000");
    for (int32_t p = 0; p < 4; p++) {
        for (int i = 0; i < 60; i++) {
            produce(n, &(struct partition_id){topic, p}, wall_ms(n));
        }
    }
    uint64_t moves = moves_count(n);
    const uint64_t moves_before = moves;
    const uint64_t until_us = n->clock.now_us + 3ull * 1000 * 1000;
    while (n->clock.now_us < until_us && sim_node_step(n)) {
        const uint64_t moves_now = moves_count(n);
        cr_assert(le(u64, moves_now - moves, 1));
        moves = moves_now;
    }
    cr_assert(lt(u64, moves_before + 4, moves), "%s", n->log_text);
    end_node(n, disk);
}

struct lift {
    struct config_change change;
    struct controller_request request;
    bool is_done;
};

static void on_lifted(struct controller_request *r)
{
    ((struct lift *)r->context)->is_done = true;
}

static void set_cap(struct sim_node *n, struct lift *lift, const char *value)
{
    *lift = (struct lift){
        .change =
            {
                .operation = CONFIG_SET,
                .name = slice_of_string("coreflume.retention.topic.bytes"),
                .value = slice_of_string(value),
            },
    };
    lift->request = (struct controller_request){
        .kind = CONTROLLER_ALTER_CONFIGS,
        .on_done = on_lifted,
        .context = lift,
        .in.alter_configs =
            {
                .name = slice_of_string("t"),
                .changes = {.kind = CONFIG_RESOURCE_TOPIC, .changes = &lift->change, .count = 1},
            },
    };
    controller_submit(sim_node_cluster(n, 0), &lift->request);
}

/* A cap that is lifted as soon as it is there; many partitions have to be told of either. */
static void lift_cap(uint64_t seed)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node(disk, 3, seed);
    n->settings.retention_check_us = 20 * 1000;
    const struct uuid topic = create(n, "t", 100, "coreflume.retention.topic.bytes", "-1");
    for (int32_t p = 0; p < 3; p++) {
        for (int i = 0; i < 60; i++) {
            produce(n, &(struct partition_id){topic, p}, wall_ms(n));
        }
    }
    run_for(n, 1100 * 1000);
    n->settings.retention_check_us = 1; /* It goes on all the time. */
    run_for(n, 21 * 1000);
    struct lift lifts[2];
    set_cap(n, &lifts[0], "10000");
    set_cap(n, &lifts[1], "-1");
    cr_assert(sim_node_run_until(n, &lifts[1].is_done));
    cr_assert(eq(int, lifts[1].request.result, ERR_OK));
    const uint64_t moves = moves_count(n);
    cr_assert(lt(u64, 0, moves), "it was met while it was there");
    run_for(n, 1000);
    cr_assert(eq(u64, moves_count(n), moves), "seed %llu", (unsigned long long)seed);
    end_node(n, disk);
}

/* When the answer comes, nothing goes any more because of the cap as it was, even if the topic is
 * just being added up. */
Test(log_start, a_cap_that_is_lifted_while_it_is_added_up_takes_nothing)
{
    for (uint64_t seed = 500; seed < 503; seed++) {
        lift_cap(seed);
    }
}

/* The partition with the oldest records has lost its end: no new start can be appended to it. The
 * cap holds all the same, at the cost of the others. */
Test(log_start, the_cap_goes_round_a_partition_that_takes_nothing)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start_node_with(disk, 1, 9, 0);
    const struct uuid topic = create(n, "t", 3, "coreflume.retention.topic.bytes", "300000");
    const struct partition_id broken = {topic, 0};
    const int64_t from_ms = wall_ms(n);
    for (int i = 0; i < 12; i++) {
        produce(n, &broken, from_ms);
    }
    sim_node_stop(n);
    free(n);
    char id[UUID_TEXT_SIZE];
    char path[256];
    uuid_format(&topic, id);
    (void)snprintf(path, sizeof(path), "/data/logs/%s-0/00000000000000000001.log", id);
    for (uint64_t block = 5; block < 40; block++) {
        (void)disk_sim_flip_bit(disk, path, block * 4096 + 40, 1);
    }
    n = start_node_with(disk, 1, 10, 0);
    cr_assert(ne(ptr, strstr(n->log_text, "log_damaged"), NULL), "%s", n->log_text);
    for (int32_t p = 1; p < 3; p++) {
        for (int i = 0; i < 120; i++) {
            produce(n, &(struct partition_id){topic, p}, from_ms + p * 1000 + i);
        }
    }
    run_for(n, 10ull * 1000 * 1000);
    cr_assert(eq(i64, offsets_of(n, &broken).log_start_offset, 0));
    cr_assert(lt(i64, 0, offsets_of(n, &(struct partition_id){topic, 1}).log_start_offset));
    end_node(n, disk);
}

/* A stop with a check, a sum and deletes under way. */
Test(log_start, a_stop_at_any_step_of_retention)
{
    for (int steps = 0; steps < 200; steps += 7) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = start_node(disk, 3, 300 + (uint64_t)steps);
        n->settings.retention_check_us = 1000;
        const struct uuid topic = create(n, "t", 3, "coreflume.retention.topic.bytes", "10000");
        for (int32_t p = 0; p < 3; p++) {
            for (int i = 0; i < 30; i++) {
                produce(n, &(struct partition_id){topic, p}, wall_ms(n));
            }
        }
        run_for(n, 999ull * 1000);
        sim_node_run(n, steps);
        sim_node_stop(n);
        free(n);
        n = start_node(disk, 2, 400 + (uint64_t)steps);
        end_node(n, disk);
    }
}
