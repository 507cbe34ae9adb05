/* Following a partition: a reader that knows only what a follow handed it knows, at any time, what
 * was committed by then, over crashes and compaction; it is told once where "current" is and once
 * that it is over, however it ends. And the batches that the broker itself writes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/partition_follow.h"

#include "tests/support/cluster_rig.h"

/* Crashed shards leak what they had, as a process that dies does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum {
    KEYS = 24,
    SEEDS = 12,
    LIVES = 6,
};

static const struct config_pair COMPACTED[] = {
    {{(const uint8_t *)"cleanup.policy", 14}, {(const uint8_t *)"compact", 7}},
    {{(const uint8_t *)"min.cleanable.dirty.ratio", 25}, {(const uint8_t *)"0.01", 4}},
};

/* What a follow told. */
struct reader {
    struct partition_follow follow;
    int64_t values[KEYS]; /* By key; 0 = never seen. */
    int64_t next_offset;  /* No batch below comes. */
    uint64_t batches;
    bool is_current;
    bool is_over;
    enum err e;
    enum err fail_with; /* At the next batch. */
    bool stops_when_current;
};

static enum err on_batch(struct partition_follow *f, struct slice bytes)
{
    struct reader *r = f->context;
    cr_assert(not(r->is_over));
    struct batch_header h;
    cr_assert(eq(int, batch_header_decode(bytes, &h), ERR_OK));
    cr_assert(eq(sz, batch_size(&h), bytes.size));
    cr_assert(batch_crc_matches(bytes));
    cr_assert(ge(i64, h.base_offset, r->next_offset));
    r->next_offset = h.base_offset + h.last_offset_delta + 1;
    r->batches++;
    struct record_cursor cursor;
    record_cursor_init(&cursor, &h, batch_records_part(bytes));
    struct record record;
    while (record_next(&cursor, &record) == ERR_OK) {
        uint32_t key;
        int64_t value;
        if (record.key.size == sizeof(key) && record.value.size >= sizeof(value)) {
            memcpy(&key, record.key.data, sizeof(key));
            memcpy(&value, record.value.data, sizeof(value));
            cr_assert(lt(i64, r->values[key], value));
            r->values[key] = value;
        }
    }
    return r->fail_with;
}

static void on_current(struct partition_follow *f)
{
    struct reader *r = f->context;
    cr_assert(not(r->is_current));
    cr_assert(not(r->is_over));
    r->is_current = true;
    if (r->stops_when_current) {
        partition_follow_stop(f);
    }
}

static void on_end(struct partition_follow *f, enum err e)
{
    struct reader *r = f->context;
    cr_assert(not(r->is_over));
    r->is_over = true;
    r->e = e;
}

static void begin(struct sim_node *n, struct reader *r, const struct uuid *topic, int64_t offset)
{
    r->follow = (struct partition_follow){
        .id = {*topic, 0},
        .offset = offset,
        .context = r,
        .on_batch = on_batch,
        .on_current = on_current,
        .on_end = on_end,
    };
    struct cluster *c = sim_node_cluster(n, 0);
    const uint16_t owner = metadata_partition_shard(cluster_metadata(c), &r->follow.id);
    partition_follow_begin(sim_node_cluster(n, owner), &r->follow);
}

/* ---- the broker as a writer ---- */

struct writer {
    struct partition_op op;
    struct wbuf bytes;
    int64_t acked[KEYS]; /* The last value that was answered. */
    int64_t sent[KEYS];
    int64_t value;
    bool is_away;
};

static void on_written(struct partition_op *op)
{
    struct writer *w = op->context;
    w->is_away = false;
    if (op->result == ERR_OK) {
        cr_assert(ge(i64, op->offsets.high_watermark, op->out.produce.base_offset + 1));
        memcpy(w->acked, w->sent, sizeof(w->acked));
    }
}

static void add(struct batch_builder *b, uint32_t key, int64_t value, size_t size)
{
    uint8_t *bytes = calloc(1, size);
    memcpy(bytes, &value, sizeof(value));
    const struct batch_record record = {
        .timestamp = 1700000000000,
        .key = slice_of(&key, sizeof(key)),
        .value = slice_of(bytes, size),
    };
    cr_assert(eq(int, batch_builder_add(b, &record), ERR_OK));
    free(bytes);
}

/* count records with values of so many bytes, each with a key of its own. */
static void
write_some(struct sim_node *n, struct writer *w, const struct uuid *topic, int count, size_t size)
{
    struct batch_builder b;
    batch_builder_init(&b, 8 << 20);
    for (int i = 0; i < count; i++) {
        const uint32_t key = (uint32_t)((w->value + 1) * 7 % KEYS);
        w->sent[key] = ++w->value;
        add(&b, key, w->value, size);
    }
    wbuf_done(&w->bytes);
    wbuf_init(&w->bytes, 9 << 20);
    const struct batch_identity none = {-1, -1, -1};
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &none, &w->bytes), ERR_OK));
    batch_builder_done(&b);
    w->is_away = true;
    w->op = (struct partition_op){
        .kind = PARTITION_PRODUCE,
        .id = {*topic, 0},
        .current_leader_epoch = -1,
        .on_done = on_written,
        .context = w,
        .in.produce = {.batch = wbuf_slice(&w->bytes), .acks = -1, .is_own = true},
    };
    cluster_partition_submit(sim_node_cluster(n, (uint16_t)(w->value % n->shards_count)), &w->op);
}

static void write_and_wait(struct sim_node *n, struct writer *w, const struct uuid *topic)
{
    write_some(n, w, topic, 1 + (int)(w->value % 3), 40);
    while (w->is_away) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(eq(int, w->op.result, ERR_OK));
}

/* Nothing that was answered is missing; what was sent and not answered may be there. */
static void expect_known(const struct writer *w, const struct reader *r)
{
    for (int k = 0; k < KEYS; k++) {
        cr_assert(ge(i64, r->values[k], w->acked[k]), "key %d", k);
        cr_assert(le(i64, r->values[k], w->sent[k]), "key %d", k);
    }
}

static struct sim_node *new_node(struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, shards_count, seed);
    n->settings.log.segment_size_max = 32 << 10;
    n->settings.log_shared.compact_interval_us = 1000;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    return n;
}

static struct uuid id_of(struct sim_node *n, const char *name)
{
    return metadata_topic_by_name(cluster_metadata(sim_node_cluster(n, 0)), slice_of_string(name))
        ->id;
}

static void make_topic(struct sim_node *n, struct uuid *ret_id)
{
    cr_assert(eq(int, sim_node_create_topic_with(n, "t", 1, COMPACTED, 2, ret_id), ERR_OK));
}

static void stop(struct sim_node *n)
{
    sim_node_stop(n);
    free(n);
}

static uint64_t compactions_of(const struct sim_node *n)
{
    uint64_t sum = 0;
    for (uint16_t i = 0; i < n->shards_count; i++) {
        list_for_each (node, &n->shards[i].s->stats.all) {
            const struct stat *st = container_of(node, struct stat, link);
            if (strcmp(st->name, "coreflume_compactions_total") == 0) {
                sum += *(const uint64_t *)st->value;
            }
        }
    }
    return sum;
}

/* ---- what is there, and what comes ---- */

/* Returns how many compactions there were. */
static uint64_t live(struct sim_node *n, struct writer *w, struct rand *rand, bool is_crash)
{
    const struct uuid id = id_of(n, "t");
    struct reader *r = calloc(1, sizeof(*r));
    begin(n, r, &id, FOLLOW_FROM_START);
    while (!r->is_current) {
        cr_assert(sim_node_step(n));
    }
    expect_known(w, r);
    for (int i = 0; i < KEYS; i++) { /* An answer of before a crash may have been lost. */
        w->sent[i] = r->values[i] > w->sent[i] ? r->values[i] : w->sent[i];
    }
    const uint64_t rounds = 20 + rand_below(rand, 100);
    for (uint64_t i = 0; i < rounds; i++) {
        write_and_wait(n, w, &id);
        if (rand_below(rand, 4) == 0) {
            sim_node_run(n, (int)rand_below(rand, 200));
        }
    }
    sim_node_run(n, 2000);
    expect_known(w, r);
    cr_assert(eq(int, memcmp(r->values, w->acked, sizeof(r->values)), 0), "nothing is held back");
    if (is_crash) {
        write_some(n, w, &id, 2, 40);
        sim_node_run(n, (int)rand_below(rand, 60));
        const uint64_t compactions = compactions_of(n);
        sim_node_crash(n, NULL);
        free(n);
        return compactions;
    }
    const uint64_t compactions = compactions_of(n);
    stop(n);
    cr_assert(r->is_over);
    cr_assert(eq(int, r->e, ERR_CANCELLED));
    free(r);
    return compactions;
}

Test(partition_follow, what_was_answered_is_known_after_a_crash_and_as_it_comes, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct disk_sim *disk = new_disk();
        struct writer w = {0};
        uint64_t compactions = 0;
        struct rand rand;
        rand_init_seed(&rand, seed);
        struct sim_node *n = new_node(disk, 2, seed);
        struct uuid id;
        make_topic(n, &id);
        for (int i = 0; i < LIVES; i++) {
            compactions += live(n, &w, &rand, rand_below(&rand, 3) > 0);
            n = new_node(disk,
                         (uint16_t)(1 + rand_below(&rand, SIM_NODE_SHARDS_MAX)),
                         seed * 100 + (uint64_t)i);
        }
        cr_assert(lt(u64, 0, compactions), "seed %llu", (unsigned long long)seed);
        stop(n);
        wbuf_done(&w.bytes);
        disk_sim_free(disk);
    }
}

/* Rule 2: a batch larger than the buffer, and no turn that hands over everything. */
Test(partition_follow, large_batches_pass_and_turns_are_short)
{
    struct disk_sim *disk = new_disk();
    struct writer w = {0};
    struct sim_node *n = new_node(disk, 1, 5);
    struct uuid id;
    struct reader r = {0};
    make_topic(n, &id);
    static const size_t sizes[] = {40, FOLLOW_READ_SIZE * 3, 40, FOLLOW_TURN_SIZE / 2, 1000};
    for (size_t i = 0; i < 60; i++) {
        write_some(n, &w, &id, 1, sizes[i % 5]);
        while (w.is_away) {
            cr_assert(sim_node_step(n));
        }
        cr_assert(eq(int, w.op.result, ERR_OK));
    }
    begin(n, &r, &id, FOLLOW_FROM_START);
    while (!r.is_current) {
        const uint64_t before = r.batches;
        cr_assert(sim_node_step(n));
        cr_assert(le(u64, r.batches - before, 60));
        cr_assert(le(sz, r.follow.capacity, (size_t)FOLLOW_READ_SIZE * 3 + 200));
    }
    expect_known(&w, &r);
    cr_assert(eq(ptr, r.follow.bytes, NULL), "it holds nothing while it waits");
    stop(n);
    wbuf_done(&w.bytes);
    disk_sim_free(disk);
}

Test(partition_follow, an_offset_in_the_middle)
{
    struct disk_sim *disk = new_disk();
    struct writer w = {0};
    struct sim_node *n = new_node(disk, 1, 5);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "t", 1, &id), ERR_OK));
    for (int i = 0; i < 10; i++) {
        write_some(n, &w, &id, 2, 40);
        while (w.is_away) {
            cr_assert(sim_node_step(n));
        }
    }
    static const struct {
        int64_t offset;
        uint64_t batches;
    } rows[] = {{0, 10}, {2, 9}, {3, 9}, {18, 1}, {20, 0}, {FOLLOW_FROM_START, 10}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reader r = {.stops_when_current = true};
        begin(n, &r, &id, rows[i].offset);
        cr_assert(sim_node_run_until(n, &r.is_over));
        cr_assert(r.is_current);
        cr_assert(eq(u64, r.batches, rows[i].batches), "from %lld", (long long)rows[i].offset);
        cr_assert(eq(int, r.e, ERR_CANCELLED));
    }
    stop(n);
    wbuf_done(&w.bytes);
    disk_sim_free(disk);
}

/* ---- the end ---- */

Test(partition_follow, a_stop_at_any_time_ends_it_once)
{
    struct disk_sim *disk = new_disk();
    struct writer w = {0};
    struct sim_node *n = new_node(disk, 2, 9);
    struct uuid id;
    make_topic(n, &id);
    for (int i = 0; i < 40; i++) {
        write_some(n, &w, &id, 3, 10000);
        while (w.is_away) {
            cr_assert(sim_node_step(n));
        }
    }
    for (int steps = 0; steps < 120; steps++) {
        struct reader r = {0};
        begin(n, &r, &id, FOLLOW_FROM_START);
        for (int i = 0; i < steps; i++) {
            (void)sim_node_step(n);
        }
        partition_follow_stop(&r.follow);
        partition_follow_stop(&r.follow);
        cr_assert(not(r.is_over), "never inside of stop");
        cr_assert(sim_node_run_until(n, &r.is_over));
        cr_assert(eq(int, r.e, ERR_CANCELLED));
        const uint64_t batches = r.batches;
        sim_node_run(n, 50);
        cr_assert(eq(u64, r.batches, batches));
    }
    stop(n);
    wbuf_done(&w.bytes);
    disk_sim_free(disk);
}

Test(partition_follow, it_ends_with_its_partition_and_with_the_callers_error)
{
    struct disk_sim *disk = new_disk();
    struct writer w = {0};
    struct sim_node *n = new_node(disk, 2, 9);
    struct uuid id;
    make_topic(n, &id);
    write_and_wait(n, &w, &id);

    struct reader failing = {.fail_with = ERR_BUSY};
    begin(n, &failing, &id, FOLLOW_FROM_START);
    cr_assert(sim_node_run_until(n, &failing.is_over));
    cr_assert(eq(int, failing.e, ERR_BUSY));
    cr_assert(eq(u64, failing.batches, 1));

    struct reader beyond = {0};
    begin(n, &beyond, &id, 1000);
    sim_node_run(n, 500);
    cr_assert(beyond.is_current, "nothing was committed there");
    partition_follow_stop(&beyond.follow);
    cr_assert(sim_node_run_until(n, &beyond.is_over));

    struct reader r = {0};
    begin(n, &r, &id, FOLLOW_FROM_START);
    while (!r.is_current) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(eq(int, sim_node_delete_topic(n, 0, "t"), ERR_OK));
    cr_assert(sim_node_run_until(n, &r.is_over));
    cr_assert(eq(int, r.e, ERR_NOT_FOUND));

    struct reader late = {0};
    begin(n, &late, &id, FOLLOW_FROM_START);
    cr_assert(sim_node_run_until(n, &late.is_over));
    cr_assert(eq(int, late.e, ERR_NOT_FOUND));
    cr_assert(not(late.is_current));
    stop(n);
    wbuf_done(&w.bytes);
    disk_sim_free(disk);
}

/* ---- the broker's own batches ---- */

/* Whatever somebody made of the topic's configurations: it is stored as it was built, and answered
 * when it is committed. */
Test(partition_follow, an_own_batch_is_stored_as_it_is)
{
    static const struct config_pair configs[] = {
        {{(const uint8_t *)"max.message.bytes", 17}, {(const uint8_t *)"100", 3}},
        {{(const uint8_t *)"message.timestamp.type", 22}, {(const uint8_t *)"LogAppendTime", 13}},
        {{(const uint8_t *)"compression.type", 16}, {(const uint8_t *)"zstd", 4}},
        {{(const uint8_t *)"coreflume.ack", 13}, {(const uint8_t *)"memory", 6}},
    };
    struct disk_sim *disk = new_disk();
    struct writer w = {0};
    struct sim_node *n = new_node(disk, 1, 9);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic_with(n, "t", 1, configs, 4, &id), ERR_OK));
    write_some(n, &w, &id, 5, 400);
    while (w.is_away) {
        cr_assert(sim_node_step(n));
    }
    cr_assert(eq(int, w.op.result, ERR_OK));
    cr_assert(eq(i64, w.op.offsets.high_watermark, 5), "committed");
    uint8_t bytes[8192];
    struct partition_op op = {
        .kind = PARTITION_READ,
        .id = {id, 0},
        .current_leader_epoch = -1,
        .in.fetch = {.dst = bytes, .dst_size = sizeof(bytes)},
    };
    cr_assert(eq(int, sim_node_partition_op(n, 0, &op), ERR_OK));
    cr_assert(eq(sz, op.out.fetch.size, w.bytes.size));
    const size_t head = BATCH_HEAD_SIZE - 4; /* Offset and epoch are the log's; the CRC stays. */
    cr_assert(eq(int, memcmp(bytes + head, w.bytes.data + head, w.bytes.size - head), 0));

    struct partition_op torn = w.op;
    torn.in.produce.batch.size--;
    cr_assert(eq(int, sim_node_partition_op(n, 0, &torn), ERR_EOF));
    stop(n);
    wbuf_done(&w.bytes);
    disk_sim_free(disk);
}
