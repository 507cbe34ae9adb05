/* What topic configurations do to produce: answers before the flush and their bounds, and batches
 * that are stored in the topic's codec, in turns. One node on simulated shards and disk.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"

#include "tests/support/sim_node.h"

enum {
    BATCH_MAX = 1 << 20,
    CONFIGS_MAX = 4,
};

struct rig {
    struct disk_sim *disk;
    struct sim_node *n;
    struct uuid topic;
};

/* configs: name, value, name, value, NULL. */
static void start(struct rig *rig, const char *const *configs)
{
    rig->disk = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
    rig->n = calloc(1, sizeof(*rig->n));
    sim_node_init(rig->n, rig->disk, 1, 7);
    cr_assert(eq(int, sim_node_start(rig->n), ERR_OK), "%s", rig->n->why);
    struct config_pair pairs[CONFIGS_MAX];
    uint32_t count = 0;
    for (; configs[2 * count] != NULL; count++) {
        pairs[count].name = slice_of_string(configs[2 * count]);
        pairs[count].value = slice_of_string(configs[2 * count + 1]);
    }
    cr_assert(
        eq(int, sim_node_create_topic_with(rig->n, "t", 1, pairs, count, &rig->topic), ERR_OK));
}

static void end(struct rig *rig)
{
    sim_node_stop(rig->n);
    free(rig->n);
    disk_sim_free(rig->disk);
}

/* A produce and its bytes. */
struct sent {
    struct partition_op op;
    struct wbuf batch;
    bool is_done;
};

static void on_done(struct partition_op *op)
{
    *(bool *)op->context = true;
}

static void
make(struct rig *rig, struct sent *sent, enum batch_codec codec, int count, size_t value_size)
{
    struct rand r;
    rand_init_seed(&r, (uint64_t)count);
    uint8_t *value = malloc(value_size + 1);
    struct batch_builder b;
    batch_builder_init(&b, BATCH_MAX);
    for (int i = 0; i < count; i++) {
        for (size_t j = 0; j < value_size; j++) {
            value[j] = (uint8_t)('a' + rand_below(&r, 16));
        }
        const struct batch_record record = {.timestamp = 1700000000000,
                                            .key = slice_of_string("k"),
                                            .value = slice_of(value, value_size)};
        cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    }
    wbuf_init(&sent->batch, BATCH_MAX);
    cr_assert(eq(int, batch_builder_finish(&b, codec, NULL, &sent->batch), ERR_OK));
    batch_builder_done(&b);
    free(value);
    sent->is_done = false;
    sent->op = (struct partition_op){
        .kind = PARTITION_PRODUCE,
        .id = {rig->topic, 0},
        .current_leader_epoch = -1,
        .in.produce = {.batch = wbuf_slice(&sent->batch), .acks = -1, .produce_version = 9},
        .on_done = on_done,
        .context = &sent->is_done,
    };
}

static void submit(struct rig *rig, struct sent *sent)
{
    cluster_partition_submit(sim_node_cluster(rig->n, 0), &sent->op);
}

static void wait_for(struct rig *rig, struct sent *sent, enum err expected)
{
    cr_assert(sim_node_run_until(rig->n, &sent->is_done));
    cr_assert(eq(int, sent->op.result, expected), "%s", err_name(sent->op.result));
    wbuf_done(&sent->batch);
}

static void produce(struct rig *rig, int count)
{
    struct sent sent;
    make(rig, &sent, CODEC_NONE, count, 10);
    submit(rig, &sent);
    wait_for(rig, &sent, ERR_OK);
}

static struct partition_offsets offsets(struct rig *rig)
{
    struct partition_op op = {
        .kind = PARTITION_OFFSETS, .id = {rig->topic, 0}, .current_leader_epoch = -1};
    cr_assert(eq(int, sim_node_partition_op(rig->n, 0, &op), ERR_OK));
    return op.offsets;
}

/* Flushes begin and do not end. */
static void hang_flushes(struct rig *rig)
{
    io_fault_add(&rig->n->shards[0].io_fault,
                 &(struct io_fault_rule){.kind = IO_FDATASYNC,
                                         .fd = IO_FAULT_ANY,
                                         .at = 1,
                                         .count = UINT32_MAX,
                                         .action = IO_FAULT_HANG});
}

static void release_flushes(struct rig *rig)
{
    io_fault_clear(&rig->n->shards[0].io_fault);
    io_fault_release(&rig->n->shards[0].io_fault);
}

Test(topic_settings, ack_memory_answers_before_the_flush_and_shows_nothing_earlier)
{
    static const char *const durable[] = {"coreflume.ack", "durable", NULL};
    static const char *const memory[] = {"coreflume.ack", "memory", NULL};
    for (int is_memory = 0; is_memory < 2; is_memory++) {
        struct rig rig;
        start(&rig, is_memory ? memory : durable);
        produce(&rig, 1); /* Its log has a segment now. */
        sim_node_run(rig.n, 1000);
        const int64_t end_before = offsets(&rig).high_watermark;
        cr_assert(eq(i64, end_before, 1));
        hang_flushes(&rig);
        struct sent sent;
        make(&rig, &sent, CODEC_NONE, 2, 10);
        submit(&rig, &sent);
        sim_node_run(rig.n, 500);
        cr_assert(eq(int, sent.is_done, is_memory));
        cr_assert(eq(i64, offsets(&rig).high_watermark, 1));
        cr_assert(eq(i64, offsets(&rig).log_end_offset, 3));
        release_flushes(&rig);
        wait_for(&rig, &sent, ERR_OK);
        cr_assert(eq(i64, sent.op.out.produce.base_offset, 1));
        while (offsets(&rig).high_watermark < 3) {
            cr_assert(sim_node_step(rig.n));
        }
        end(&rig);
    }
}

Test(topic_settings, flush_messages_bounds_what_is_answered_and_not_flushed)
{
    struct rig rig;
    start(&rig, (const char *[]){"coreflume.ack", "memory", "flush.messages", "4", NULL});
    produce(&rig, 1);
    sim_node_run(rig.n, 1000);
    hang_flushes(&rig);
    struct sent sent[3];
    for (int i = 0; i < 3; i++) {
        make(&rig, &sent[i], CODEC_NONE, i == 1 ? 2 : 1, 10);
        submit(&rig, &sent[i]);
    }
    sim_node_run(rig.n, 500);
    cr_assert(sent[0].is_done); /* 1 of 4. */
    cr_assert(sent[1].is_done); /* 3 of 4. */
    cr_assert(not(sent[2].is_done), "the fourth makes Kafka flush before it answers");
    release_flushes(&rig);
    for (int i = 0; i < 3; i++) {
        wait_for(&rig, &sent[i], ERR_OK);
    }
    end(&rig);

    start(&rig, (const char *[]){"coreflume.ack", "memory", "flush.messages", "1", NULL});
    produce(&rig, 1);
    cr_assert(eq(i64, offsets(&rig).high_watermark, 1), "with 1 every answer waits");
    end(&rig);
}

Test(topic_settings, flush_ms_bounds_how_long)
{
    struct rig rig;
    start(&rig, (const char *[]){"coreflume.ack", "memory", "flush.ms", "20", NULL});
    produce(&rig, 1);
    sim_node_run(rig.n, 1000);
    hang_flushes(&rig);
    struct sent sent[3];
    make(&rig, &sent[0], CODEC_NONE, 1, 10);
    submit(&rig, &sent[0]);
    sim_node_run(rig.n, 100);
    cr_assert(sent[0].is_done);
    rig.n->clock.now_us += 19 * 1000;
    make(&rig, &sent[1], CODEC_NONE, 1, 10);
    submit(&rig, &sent[1]);
    sim_node_run(rig.n, 10);
    cr_assert(sent[1].is_done);
    rig.n->clock.now_us += 2 * 1000;
    make(&rig, &sent[2], CODEC_NONE, 1, 10);
    submit(&rig, &sent[2]);
    sim_node_run(rig.n, 100);
    cr_assert(not(sent[2].is_done));
    release_flushes(&rig);
    for (int i = 0; i < 3; i++) {
        wait_for(&rig, &sent[i], ERR_OK);
    }
    produce(&rig, 1); /* And again without waiting: nothing old is unflushed. */
    end(&rig);
}

Test(topic_settings, what_ack_memory_answered_may_be_gone_after_a_crash_and_the_log_goes_on)
{
    struct rig rig;
    start(&rig, (const char *[]){"coreflume.ack", "memory", NULL});
    produce(&rig, 1);
    sim_node_run(rig.n, 1000);
    hang_flushes(&rig);
    produce(&rig, 5);
    cr_assert(eq(i64, offsets(&rig).log_end_offset, 6));
    const struct disk_sim_crash power_loss = {.is_power_loss = true};
    sim_node_crash(rig.n, &power_loss);
    sim_node_init(rig.n, rig.disk, 1, 8);
    cr_assert(eq(int, sim_node_start(rig.n), ERR_OK), "%s", rig.n->why);
    cr_assert(eq(i64, offsets(&rig).log_end_offset, 1));
    produce(&rig, 1);
    cr_assert(eq(i64, offsets(&rig).log_end_offset, 2));
    end(&rig);
}

/* The stored batch at offset; its size. */
static struct slice
read_batch(struct rig *rig, int64_t offset, uint8_t *bytes, struct batch_header *ret_header)
{
    while (offsets(rig).high_watermark <= offset) {
        cr_assert(sim_node_step(rig->n));
    }
    struct partition_op read = {
        .kind = PARTITION_READ,
        .id = {rig->topic, 0},
        .current_leader_epoch = -1,
        .in.fetch = {.offset = offset, .dst = bytes, .dst_size = 2 * BATCH_MAX},
    };
    cr_assert(eq(int, sim_node_partition_op(rig->n, 0, &read), ERR_OK));
    struct slice batch = slice_of(bytes, read.out.fetch.size);
    cr_assert(eq(int, batch_header_decode(batch, ret_header), ERR_OK));
    batch.size = batch_size(ret_header);
    cr_assert(batch_crc_matches(batch));
    return batch;
}

static void expect_stored(struct rig *rig, const struct sent *sent, enum batch_codec codec)
{
    uint8_t *bytes = malloc(2 * BATCH_MAX);
    struct batch_header h;
    const struct slice stored = read_batch(rig, sent->op.out.produce.base_offset, bytes, &h);
    cr_assert(eq(int, batch_codec(&h), codec));
    cr_assert(eq(i64, h.base_offset, sent->op.out.produce.base_offset));
    struct wbuf w[2];
    struct slice records[2];
    wbuf_init(&w[0], BATCH_MAX);
    wbuf_init(&w[1], BATCH_MAX);
    const struct slice was = wbuf_slice(&sent->batch);
    cr_assert(eq(int, batch_records(was, BATCH_MAX, &w[0], &records[0]), ERR_OK));
    cr_assert(eq(int, batch_records(stored, BATCH_MAX, &w[1], &records[1]), ERR_OK));
    cr_assert(slice_equal(records[0], records[1]));
    wbuf_done(&w[0]);
    wbuf_done(&w[1]);
    free(bytes);
}

Test(topic_settings, batches_are_stored_in_the_codec_of_the_topic)
{
    static const struct {
        const char *word;
        enum batch_codec codec;
    } rows[] = {
        {"uncompressed", CODEC_NONE},
        {"gzip", CODEC_GZIP},
        {"snappy", CODEC_SNAPPY},
        {"lz4", CODEC_LZ4},
        {"zstd", CODEC_ZSTD},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig rig;
        start(&rig, (const char *[]){"compression.type", rows[i].word, NULL});
        for (int from = 0; from < CODEC_COUNT; from++) {
            struct sent sent;
            make(&rig, &sent, (enum batch_codec)from, 20, 100);
            submit(&rig, &sent);
            cr_assert(sim_node_run_until(rig.n, &sent.is_done));
            cr_assert(eq(int, sent.op.result, ERR_OK));
            cr_assert(eq(i64, sent.op.out.produce.base_offset, 20 * from));
            expect_stored(&rig, &sent, rows[i].codec);
            wbuf_done(&sent.batch);
        }
        end(&rig);
    }
}

Test(topic_settings, large_batches_take_turns_and_keep_their_order)
{
    struct rig rig;
    start(&rig, (const char *[]){"compression.type", "gzip", NULL});
    struct sent sent[4];
    for (int i = 0; i < 4; i++) {
        make(&rig, &sent[i], i == 2 ? CODEC_LZ4 : CODEC_NONE, i == 1 ? 1 : 150, 5000);
        submit(&rig, &sent[i]);
    }
    uint64_t turns = rig.n->shards[0].s->counters.turns;
    cr_assert(sim_node_run_until(rig.n, &sent[0].is_done));
    turns = rig.n->shards[0].s->counters.turns - turns;
    cr_assert(lt(u64, 50, turns), "%llu turns", (unsigned long long)turns); /* 750 KiB at 35 us. */
    int64_t offset = 0;
    for (int i = 0; i < 4; i++) {
        cr_assert(sim_node_run_until(rig.n, &sent[i].is_done));
        cr_assert(eq(int, sent[i].op.result, ERR_OK));
        cr_assert(eq(i64, sent[i].op.out.produce.base_offset, offset));
        expect_stored(&rig, &sent[i], CODEC_GZIP);
        wbuf_done(&sent[i].batch);
        offset += i == 1 ? 1 : 150;
    }
    end(&rig);
}

static void on_called_back(struct partition_cancel *cancel)
{
    cancel->target = NULL;
}

Test(topic_settings, a_batch_can_be_called_back_while_it_is_recoded)
{
    struct rig rig;
    start(&rig, (const char *[]){"compression.type", "gzip", NULL});
    struct sent sent[2];
    make(&rig, &sent[0], CODEC_NONE, 150, 5000);
    make(&rig, &sent[1], CODEC_NONE, 1, 10);
    submit(&rig, &sent[0]);
    submit(&rig, &sent[1]);
    sim_node_run(rig.n, 5);
    cr_assert(not(sent[0].is_done));
    struct partition_cancel cancel = {.target = &sent[0].op, .on_done = on_called_back};
    cluster_partition_cancel(sim_node_cluster(rig.n, 0), &cancel);
    wait_for(&rig, &sent[0], ERR_CANCELLED);
    wait_for(&rig, &sent[1], ERR_OK);
    cr_assert(eq(i64, sent[1].op.out.produce.base_offset, 0));
    end(&rig);
}

Test(topic_settings, a_delete_and_a_stop_end_what_is_recoded)
{
    for (int is_delete = 0; is_delete < 2; is_delete++) {
        struct rig rig;
        start(&rig, (const char *[]){"compression.type", "zstd", NULL});
        struct sent sent[2];
        for (int i = 0; i < 2; i++) {
            make(&rig, &sent[i], CODEC_GZIP, 150, 5000);
            submit(&rig, &sent[i]);
        }
        sim_node_run(rig.n, 5);
        cr_assert(not(sent[0].is_done));
        if (is_delete) {
            cr_assert(eq(int, sim_node_delete_topic(rig.n, 0, "t"), ERR_OK));
        } else {
            cluster_quiesce(sim_node_cluster(rig.n, 0));
        }
        wait_for(&rig, &sent[0], is_delete ? ERR_NOT_FOUND : ERR_CANCELLED);
        wait_for(&rig, &sent[1], is_delete ? ERR_NOT_FOUND : ERR_CANCELLED);
        end(&rig);
    }
}

Test(topic_settings, sizes_are_judged_as_they_came_and_as_they_are_stored)
{
    struct rig rig;
    start(
        &rig,
        (const char *[]){"compression.type", "uncompressed", "max.message.bytes", "100000", NULL});
    struct sent sent;
    make(&rig, &sent, CODEC_ZSTD, 150, 1000); /* 75 KB, 150 KB plain. */
    cr_assert(lt(sz, sent.batch.size, 100000));
    submit(&rig, &sent);
    wait_for(&rig, &sent, ERR_TOO_LARGE);
    cr_assert(sent.op.out.produce.fault.message != NULL);
    end(&rig);

    start(&rig, (const char *[]){"compression.type", "zstd", "max.message.bytes", "100000", NULL});
    make(&rig, &sent, CODEC_NONE, 150, 1000);
    submit(&rig, &sent);
    wait_for(&rig, &sent, ERR_TOO_LARGE);
    end(&rig);
}
