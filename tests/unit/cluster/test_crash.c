/* Crashes of a whole node on the simulated disk: whatever was answered is there afterwards, at its
 * offset and once; terms rise; producer ids never repeat; deleted topics leave nothing behind; a
 * broker is configured as it was last altered.
 *
 * Each seed is a life of several machines' starts: producers with sequence numbers write to a few
 * partitions, topics come and go, and at a random step (also while starting) the power fails or the
 * process dies. The next start has another number of shards.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/sim_node.h"

/* Crashed shards leak what they had, as a process that dies does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum {
    SEEDS = 25,
    LIVES = 8,
    PARTITIONS = 5,
    PARTITIONS_FIRST = 2, /* The topic grows, one partition per life. */
    BATCHES_MAX = 4000,
    BATCH_SIZE_MAX = 256,
};

/* One producer per partition, one batch at a time; retried until it is answered. */
struct producer {
    struct partition_op op;
    uint8_t bytes[BATCH_SIZE_MAX];
    size_t size;
    int64_t pid;
    bool has_pid;
    int32_t sequence; /* Of the batch in flight. */
    int32_t count;    /* Records of it. */
    int32_t number;   /* What its records say. */
    bool is_in_flight;
    int64_t acked[BATCHES_MAX]; /* acked[number] = offset. */
    int32_t acked_count;
};

struct world {
    struct disk_sim *disk;
    struct rand rand;
    struct sim_node *n;
    struct uuid topic;
    bool has_topic;
    int32_t partitions_count; /* That it was said to have. */
    struct producer producers[PARTITIONS];
    int64_t pid_last;
    int32_t epoch_last;
    int jitter_tried; /* Of all brokers; what is in effect is one of the two, or between. */
    int jitter_done;
};

static void build(struct producer *p)
{
    char value[16];
    (void)snprintf(value, sizeof(value), "%d", p->number);
    struct batch_builder builder;
    batch_builder_init(&builder, BATCH_SIZE_MAX);
    for (int32_t i = 0; i < p->count; i++) {
        const struct batch_record record = {
            .timestamp = 1700000000000,
            .value = slice_of_string(value),
        };
        cr_assert(eq(int, batch_builder_add(&builder, &record), ERR_OK));
    }
    struct wbuf w;
    wbuf_init_fixed(&w, p->bytes, sizeof(p->bytes));
    const struct batch_identity identity = {p->pid, 0, p->sequence};
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, &identity, &w), ERR_OK));
    p->size = w.size;
    batch_builder_done(&builder);
}

static void on_produced(struct partition_op *op)
{
    struct producer *p = op->context;
    p->is_in_flight = false;
    if (op->result == ERR_CANCELLED) {
        return;
    }
    cr_assert(eq(int, op->result, ERR_OK), "%s", err_name(op->result));
    p->acked[p->number] = op->out.produce.base_offset;
    p->acked_count = p->number + 1;
    p->sequence += p->count;
    p->number++;
    p->count = 0;
}

static void send(struct world *w, int32_t partition)
{
    struct producer *p = &w->producers[partition];
    if (p->is_in_flight || p->number == BATCHES_MAX) {
        return;
    }
    if (p->count == 0) {
        p->count = 1 + (int32_t)rand_below(&w->rand, 3);
    }
    build(p); /* A retry after a crash has the same bytes. */
    p->is_in_flight = true;
    p->op = (struct partition_op){
        .kind = PARTITION_PRODUCE,
        .id = {w->topic, partition},
        .current_leader_epoch = -1,
        .on_done = on_produced,
        .context = p,
        .in.produce = {.batch = slice_of(p->bytes, p->size), .acks = -1, .produce_version = 9},
    };
    const uint16_t shard = (uint16_t)rand_below(&w->rand, w->n->shards_count);
    cluster_partition_submit(sim_node_cluster(w->n, shard), &p->op);
}

/* ---- checking ---- */

static size_t read_at(struct world *w, int32_t partition, int64_t offset, uint8_t *dst, size_t size)
{
    struct partition_op op = {
        .kind = PARTITION_READ,
        .id = {w->topic, partition},
        .current_leader_epoch = -1,
        .in.fetch = {.offset = offset, .dst = dst, .dst_size = size},
    };
    enum err e = sim_node_partition_op(w->n, 0, &op);
    cr_assert(eq(int, e, ERR_OK), "%s at %lld\n%s", err_name(e), (long long)offset, w->n->log_text);
    return op.out.fetch.size;
}

static int32_t number_in(const struct batch_header *h, struct slice batch)
{
    struct record_cursor cursor;
    record_cursor_init(
        &cursor, h, slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE));
    struct record record;
    cr_assert(eq(int, record_next(&cursor, &record), ERR_OK));
    char value[16] = "";
    memcpy(value, record.value.data, record.value.size);
    return atoi(value);
}

/* Offsets without a gap, numbers rising by one: nothing lost, nothing twice. The last one may be
 * there without having been answered. */
static void check_partition(struct world *w, int32_t partition)
{
    const struct producer *p = &w->producers[partition];
    static uint8_t bytes[64 << 10];
    int64_t offset = 0;
    int32_t number = 0;
    for (;;) {
        size_t size = read_at(w, partition, offset, bytes, sizeof(bytes));
        if (size == 0) {
            break;
        }
        for (size_t pos = 0; pos < size;) {
            struct batch_header h;
            const struct slice rest = slice_of(bytes + pos, size - pos);
            cr_assert(eq(int, batch_header_decode(rest, &h), ERR_OK));
            const struct slice batch = slice_of(rest.data, batch_size(&h));
            cr_assert(batch_crc_matches(batch));
            cr_assert(eq(i64, h.base_offset, offset));
            cr_assert(eq(i32, number_in(&h, batch), number));
            if (number < p->acked_count) {
                cr_assert(eq(i64, p->acked[number], offset));
            }
            number++;
            offset += h.last_offset_delta + 1;
            pos += batch.size;
        }
    }
    cr_assert(ge(i32, number, p->acked_count), "lost: partition %d", partition);
    cr_assert(le(i32, number, p->acked_count + 1));
}

/* ---- lives ---- */

/* As many partitions as were told of are there; maybe more, if a crash took the answer. */
static void grow(struct world *w)
{
    const struct metadata *m = cluster_metadata(sim_node_cluster(w->n, 0));
    const struct topic *t = metadata_topic_by_name(m, slice_of_string("orders"));
    cr_assert(le(i32, w->partitions_count, t->partitions_count));
    w->partitions_count = t->partitions_count;
    if (w->partitions_count < PARTITIONS) {
        const int32_t count = w->partitions_count + 1;
        cr_assert(eq(int, sim_node_create_partitions(w->n, 0, "orders", count), ERR_OK));
        w->partitions_count = count;
    }
}

static void alter(struct world *w)
{
    char value[16];
    (void)snprintf(value, sizeof(value), "%d", ++w->jitter_tried);
    const uint16_t shard = (uint16_t)(w->jitter_tried % w->n->shards_count);
    cr_assert(eq(int, sim_node_alter_broker(w->n, shard, "", "log.roll.jitter.ms", value), ERR_OK));
    w->jitter_done = w->jitter_tried;
}

static void check_altered(struct world *w)
{
    for (uint16_t s = 0; s < w->n->shards_count; s++) {
        const struct metadata *m = cluster_metadata(sim_node_cluster(w->n, s));
        const char *value = metadata_broker_config(m, "log.roll.jitter.ms");
        const int64_t jitter = value == NULL ? 0 : strtol(value, NULL, 10);
        cr_assert(ge(i64, jitter, w->jitter_done));
        cr_assert(le(i64, jitter, w->jitter_tried));
        for (uint32_t i = 0; i < metadata_topics_count(m); i++) {
            const struct topic *t = metadata_topic_at(m, i);
            cr_assert(eq(i64, t->settings.segment_jitter_ms_max, jitter));
        }
    }
}

static void after_start(struct world *w)
{
    check_altered(w);
    const int32_t epoch = metadata_leader_epoch(cluster_metadata(sim_node_cluster(w->n, 0)));
    cr_assert(lt(i32, w->epoch_last, epoch));
    w->epoch_last = epoch;
    if (!w->has_topic) {
        enum err e = sim_node_create_topic(w->n, 0, "orders", PARTITIONS_FIRST, &w->topic);
        if (e == ERR_TOPIC_EXISTS) { /* Durable before the crash that took the answer. */
            const struct topic *t = metadata_topic_by_name(
                cluster_metadata(sim_node_cluster(w->n, 0)), slice_of_string("orders"));
            w->topic = t->id;
        } else {
            cr_assert(eq(int, e, ERR_OK));
        }
        w->has_topic = true;
    }
    grow(w);
    for (int32_t i = 0; i < w->partitions_count; i++) {
        struct producer *p = &w->producers[i];
        p->is_in_flight = false;
        check_partition(w, i);
        if (!p->has_pid) {
            p->has_pid = true;
            p->pid = sim_node_allocate_producer_id(w->n, 0);
            cr_assert(lt(i64, w->pid_last, p->pid));
            w->pid_last = p->pid;
        }
    }
}

static void churn(struct world *w, int round)
{
    char name[16];
    struct uuid id;
    (void)snprintf(name, sizeof(name), "temp%d", round % 2);
    enum err e = sim_node_create_topic(w->n, 0, name, 3, &id);
    cr_assert(e == ERR_OK || e == ERR_TOPIC_EXISTS, "%s", err_name(e));
    if (e == ERR_OK) {
        cr_assert(eq(int, sim_node_create_partitions(w->n, 0, name, 4), ERR_OK));
    } else {
        cr_assert(eq(int, sim_node_delete_topic(w->n, 0, name), ERR_OK));
    }
    alter(w);
}

static void live(struct world *w, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++) {
        for (int32_t p = 0; p < w->partitions_count; p++) {
            if (rand_one_in(&w->rand, 4)) {
                send(w, p);
            }
        }
        if (i % 256 == 255) {
            churn(w, (int)i);
        }
        (void)sim_node_step(w->n);
        if (i % 32 == 0) {
            cluster_check(sim_node_cluster(w->n, (uint16_t)(i / 32 % w->n->shards_count)));
        }
    }
}

static void on_started_ignored(void *context, enum err e, const char *why)
{
    (void)why;
    cr_assert(eq(int, e, ERR_OK));
    *(bool *)context = true;
}

/* A start that is cut short; true if it came to its end. */
static bool start_for(struct sim_node *n, uint64_t steps)
{
    bool is_started = false;
    enum err e = cluster_set_new(&n->settings, n->shards_count, &n->set);
    cr_assert(eq(int, e, ERR_OK));
    cluster_start(n->set, n->shards[0].s, &is_started, on_started_ignored);
    while (steps-- > 0 && !is_started) {
        (void)sim_node_step(n);
    }
    return is_started;
}

static void run_seed(uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    uint64_t acked_count = 0;
    w->disk = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = seed % 3 != 0});
    w->n = calloc(1, sizeof(*w->n));
    w->pid_last = -1;
    rand_init_seed(&w->rand, seed);
    for (int life = 0; life < LIVES; life++) {
        const uint16_t shards = (uint16_t)(1 + rand_below(&w->rand, 4));
        sim_node_init(w->n, w->disk, shards, rand_u64(&w->rand) | 1);
        w->n->data_dirs[0].is_flush_shared = seed % 3 != 0;
        w->n->settings.log.segment_size_max = 64 << 10;
        w->n->settings.log.fill_step_min = 16 << 10;
        w->n->settings.log.fill_step_max = 64 << 10;
        w->n->settings.log.checkpoint_size = rand_one_in(&w->rand, 3) ? 0 : 4 << 10;
        w->n->settings.controller_log.checkpoint_size = w->n->settings.log.checkpoint_size / 8;
        if (rand_one_in(&w->rand, 4)) {
            (void)start_for(w->n, rand_below(&w->rand, 400));
        } else {
            enum err e = sim_node_start(w->n);
            cr_assert(eq(int, e, ERR_OK), "%s\n%s", w->n->why, w->n->log_text);
            after_start(w);
            live(w, 200 + rand_below(&w->rand, 2000));
        }
        if (life == LIVES - 1 && w->n->is_started) {
            sim_node_stop(w->n);
        } else {
            sim_node_crash(w->n, NULL);
        }
    }
    sim_node_init(w->n, w->disk, 2, 99);
    w->n->data_dirs[0].is_flush_shared = seed % 3 != 0;
    cr_assert(eq(int, sim_node_start(w->n), ERR_OK), "%s\n%s", w->n->why, w->n->log_text);
    after_start(w);
    cr_assert(not(sim_node_has_logged(w->n, "orphan")), "%s", w->n->log_text);
    sim_node_run(w->n, 3000);
    cr_assert(not(sim_node_has_logged(w->n, "failed")), "%s", w->n->log_text);
    sim_node_stop(w->n);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        acked_count += (uint64_t)w->producers[i].acked_count;
    }
    cr_assert(lt(u64, 0, acked_count));
    cr_log_info("seed=%llu acked=%llu", (unsigned long long)seed, (unsigned long long)acked_count);
    disk_sim_free(w->disk);
    free(w->n);
    free(w);
}

Test(crash, nothing_answered_is_lost_or_twice)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}
