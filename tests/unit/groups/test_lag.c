/* What lag costs: how much it does in one turn of the loop, and how long it rests. What it says: of
 * batches of any size and kind, and that what is not known is not said. On a real node:
 * tests/interop/test_group_lag.py. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "groups/lag.h"

#include "tests/support/cluster_rig.h"
#include "tests/unit/groups/offsets_rig.h"

enum {
    TOPICS = 100,
    NAME_SIZE = 24,
    US_PER_S = 1000 * 1000,
    RECORD_SIZE_MAX = 512 << 10,
};

/* One coordinator, of a rig, and the lag of its groups on a node that knows none of their topics,
 * or those that add_topic makes. */
struct bench {
    struct rig *r;
    struct disk_sim *disk;
    struct sim_node node;
    struct lag *lag;
    char topics[TOPICS][NAME_SIZE];
    /* Turns of the loop in which groups were looked at, and when the last was. */
    uint64_t turn;
    int turns_count;
    uint64_t last_us;
};

static int32_t one(void *context)
{
    (void)context;
    return 1;
}

static const struct coordinator *coordinator_at(void *context, int32_t partition)
{
    (void)partition;
    struct bench *b = context;
    const struct shard *s = b->node.shards[0].s;
    b->turns_count += b->turns_count == 0 || s->counters.turns != b->turn;
    b->turn = s->counters.turns;
    b->last_us = s->now_us;
    return b->r->leader->c;
}

/* Each commits one offset of every topic; that is looked at when all have. */
static void add_groups(struct rig *r, char topics[TOPICS][NAME_SIZE], int count)
{
    struct offset_line lines[TOPICS];
    for (int i = 0; i < TOPICS; i++) {
        lines[i] = (struct offset_line){topics[i], 0, 7, NULL};
    }
    r->is_holding = true;
    for (int i = 0; i < count; i++) {
        char group[NAME_SIZE];
        (void)snprintf(group, sizeof(group), "group-%d", i);
        (void)rig_send(r, GROUP_COMMIT, 9, group, offsets_commit_request(r, lines, TOPICS));
    }
    r->is_holding = false;
    rig_commit_all(r);
}

static struct bench *begin_on(uint16_t shards_count)
{
    struct bench *b = calloc(1, sizeof(*b));
    b->r = rig_new();
    b->disk = new_disk();
    sim_node_init(&b->node, b->disk, shards_count, 1);
    cr_assert(eq(int, sim_node_start(&b->node), ERR_OK));
    return b;
}

static void begin_lag(struct bench *b)
{
    const struct lag_options options = {
        .s = b->node.shards[0].s,
        .cluster = sim_node_cluster(&b->node, 0),
        .memory = &b->r->leader->memory,
        .counters = &b->r->leader->counters,
        .context = b,
        .partitions_count = one,
        .coordinator_at = coordinator_at,
    };
    cr_assert(eq(int, lag_new(&options, &b->lag), ERR_OK));
}

static struct bench *begin_bare(void)
{
    return begin_on(1);
}

static struct bench *begin(int groups_count, uint16_t shards_count)
{
    struct bench *b = begin_on(shards_count);
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(b->topics[i], NAME_SIZE, "topic-%d", i);
        rig_topic(b->r, b->topics[i], 1);
    }
    add_groups(b->r, b->topics, groups_count);
    begin_lag(b);
    return b;
}

static void on_quiet(void *context)
{
    struct bench *b = context;
    lag_free(b->lag);
}

static void end(struct bench *b)
{
    lag_quiesce(b->lag);
    b->node.on_quiet = on_quiet;
    b->node.quiet_context = b;
    sim_node_stop(&b->node);
    disk_sim_free(b->disk);
    rig_free(b->r);
    free(b);
}

/* The value of a metric without labels. */
static uint64_t metric(const struct bench *b, const char *name)
{
    list_for_each (link, &b->node.shards[0].s->stats.all) {
        const struct stat *st = container_of(link, struct stat, link);
        if (strcmp(st->name, name) == 0) {
            return *(const uint64_t *)st->value;
        }
    }
    cr_fatal("no metric %s", name);
    return 0;
}

static void run_pass(struct bench *b)
{
    const uint64_t ends_us = b->node.clock.now_us + (uint64_t)3 * US_PER_S;
    while (b->node.clock.now_us < ends_us && metric(b, "coreflume_group_offsets") == 0) {
        sim_node_run(&b->node, 1);
    }
}

/* Also of those that get no series, since a thousand topics of groups have some. */
Test(lag, looks_at_a_bounded_number_of_offsets_per_turn)
{
    struct bench *b = begin(80, 1);
    run_pass(b);
    cr_assert(eq(u64, metric(b, "coreflume_group_offsets"), 80 * TOPICS));
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_is_cut"), 1));
    cr_assert(lt(int, 80 * TOPICS / 1000, b->turns_count), "%d turns", b->turns_count);
    end(b);
}

/* Lines that are looked at in a turn of the loop: now, and the most so far. */
static uint64_t lines_turn;
static uint64_t lines_count;
static uint64_t lines_count_max;
static const struct shard *lines_shard;

void __real_cluster_partition_submit(struct cluster *c, struct partition_op *op);
void __wrap_cluster_partition_submit(struct cluster *c, struct partition_op *op);

void __wrap_cluster_partition_submit(struct cluster *c, struct partition_op *op)
{
    if (lines_shard != NULL && op->kind == PARTITION_OFFSETS) {
        const uint64_t turn = lines_shard->counters.turns;
        lines_count = turn == lines_turn ? lines_count + 1 : 1;
        lines_turn = turn;
        lines_count_max = lines_count > lines_count_max ? lines_count : lines_count_max;
    }
    __real_cluster_partition_submit(c, op);
}

/* What is asked of a shard by itself is answered in the same turn. */
Test(lag, looks_at_a_bounded_number_of_lines_per_turn)
{
    struct bench *b = begin(5, 1);
    lines_shard = b->node.shards[0].s;
    run_pass(b);
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_unknown"), 5 * TOPICS), "all");
    cr_assert(lt(u64, 0, lines_count_max));
    cr_assert(le(u64, lines_count_max, 64), "before and after its task");
    end(b);
}

/* Others that keep a pass waiting are no reason to look less often. */
Test(lag, rests_by_what_it_did)
{
    struct bench *b = begin(1, 2); /* Half of the partitions would lie on the other. */
    while (b->turns_count == 0) {
        sim_node_run(&b->node, 1);
    }
    cr_assert(eq(u64, metric(b, "coreflume_group_offsets"), 0), "the pass is not over");
    b->node.clock.now_us += (uint64_t)60 * US_PER_S;
    const uint64_t began_us = b->node.clock.now_us;
    while (b->last_us < began_us && b->node.clock.now_us < began_us + (uint64_t)5 * US_PER_S) {
        sim_node_run(&b->node, 1);
    }
    cr_assert(le(u64, began_us, b->last_us), "the next one has begun");
    end(b);
}

/* ---- what it says ---- */

/* Here, and for the coordinator. */
static struct uuid
add_topic(struct bench *b, const char *name, int32_t partitions, const char *type)
{
    struct uuid id;
    const struct config_pair config = {slice_of_string("message.timestamp.type"),
                                       slice_of_string(type)};
    cr_assert(
        eq(int, sim_node_create_topic_with(&b->node, name, partitions, &config, 1, &id), ERR_OK));
    rig_topic_as(b->r, name, partitions + 1, &id); /* One that the node knows nothing of. */
    return id;
}

static int64_t wall_ms(const struct bench *b)
{
    return b->node.shards[0].s->wall_ms;
}

/* One record, which is age_s old; without a time below 0. */
static void put(struct bench *b, const struct partition_id *id, size_t size, int64_t age_s)
{
    uint8_t *value = calloc(1, size);
    uint8_t *bytes = calloc(1, RECORD_SIZE_MAX);
    struct batch_builder builder;
    batch_builder_init(&builder, RECORD_SIZE_MAX);
    const struct batch_record record = {
        .timestamp = age_s < 0 ? -1 : wall_ms(b) - age_s * 1000,
        .value = slice_of(value, size),
    };
    cr_assert(eq(int, batch_builder_add(&builder, &record), ERR_OK));
    struct wbuf w;
    wbuf_init_fixed(&w, bytes, RECORD_SIZE_MAX);
    const struct batch_identity identity = {-1, -1, -1};
    cr_assert(eq(int, batch_builder_finish(&builder, CODEC_NONE, &identity, &w), ERR_OK));
    struct partition_op op = {
        .kind = PARTITION_PRODUCE,
        .id = *id,
        .current_leader_epoch = -1,
        .in.produce = {.batch = slice_of(bytes, w.size), .acks = -1, .produce_version = 9},
    };
    cr_assert(eq(int, sim_node_partition_op(&b->node, 0, &op), ERR_OK));
    batch_builder_done(&builder);
    free(bytes);
    free(value);
}

static void delete_before(struct bench *b, const struct partition_id *id, int64_t offset)
{
    struct partition_op op = {
        .kind = PARTITION_DELETE_RECORDS,
        .id = *id,
        .current_leader_epoch = -1,
        .in.delete_records.offset = offset,
    };
    cr_assert(eq(int, sim_node_partition_op(&b->node, 0, &op), ERR_OK));
}

static void run_for(struct bench *b, uint64_t us)
{
    const uint64_t ends_us = b->node.clock.now_us + us;
    while (b->node.clock.now_us < ends_us) {
        sim_node_run(&b->node, 1);
    }
}

/* The next pass that begins from now on. */
static void run_one_pass(struct bench *b)
{
    const uint64_t began_us = b->node.clock.now_us;
    while (b->last_us <= began_us) {
        cr_assert(lt(u64, b->node.clock.now_us, began_us + (uint64_t)60 * US_PER_S));
        sim_node_run(&b->node, 1);
    }
    run_for(b, US_PER_S);
}

/* Of the group g in topic t, and there a partition unless that is negative; -1: it is absent. */
static int64_t said(const struct bench *b, const char *what, int32_t partition)
{
    char name[64];
    char labels[64];
    (void)snprintf(
        name, sizeof(name), "coreflume_group%s_lag_%s", partition < 0 ? "" : "_partition", what);
    int size = snprintf(labels, sizeof(labels), "group=\"g\",topic=\"t\"");
    if (partition >= 0) {
        (void)snprintf(
            labels + size, sizeof(labels) - (size_t)size, ",partition=\"%d\"", (int)partition);
    }
    list_for_each (link, &b->node.shards[0].s->stats.all) {
        const struct stat *st = container_of(link, struct stat, link);
        if (strcmp(st->name, name) == 0 && strcmp(st->labels, labels) == 0) {
            return (int64_t) * (const uint64_t *)st->value;
        }
    }
    return -1;
}

/* Seconds pass while a test runs: up to twenty of them. */
static void expect_said(const struct bench *b, int32_t partition, int64_t records, int64_t seconds)
{
    cr_assert(eq(i64, said(b, "records", partition), records), "partition %d", (int)partition);
    const int64_t found = said(b, "seconds", partition);
    cr_assert(le(i64, seconds, found), "partition %d: %d", (int)partition, (int)found);
    cr_assert(
        le(i64, found, seconds <= 0 ? seconds : seconds + 20), "partition %d", (int)partition);
}

/* Larger than any buffer for looking at it, in memory and from disk: read again and again, and
 * never said, if only the whole batch will do. */
Test(lag, is_told_of_batches_of_any_size)
{
    struct bench *b = begin_bare();
    const struct uuid t = add_topic(b, "t", 1, "CreateTime");
    const struct partition_id id = {t, 0};
    put(b, &id, 300 << 10, 3000);
    put(b, &id, 1, 2000);
    offsets_commit_one(b->r, "g", "t", 0, 0);
    begin_lag(b);
    run_one_pass(b);
    expect_said(b, 0, 2, 3000);
    expect_said(b, -1, 2, 3000);
    offsets_commit_one(b->r, "g", "t", 0, 1);
    run_one_pass(b);
    expect_said(b, 0, 1, 2000);
    offsets_commit_one(b->r, "g", "t", 0, 2);
    run_one_pass(b);
    expect_said(b, -1, 0, 0);
    end(b);
}

/* Zero is a claim: that nothing is left to read. */
Test(lag, what_is_not_known_is_absent)
{
    struct bench *b = begin_bare();
    const struct uuid t = add_topic(b, "t", 2, "CreateTime");
    put(b, &(struct partition_id){t, 0}, 1, -1); /* Without a time. */
    put(b, &(struct partition_id){t, 1}, 1, 1000);
    offsets_commit_one(b->r, "g", "t", 0, 0);
    offsets_commit_one(b->r, "g", "t", 1, 0);
    begin_lag(b);
    run_one_pass(b);
    expect_said(b, 0, 1, -1);
    expect_said(b, 1, 1, 1000);
    expect_said(b, -1, 2, -1); /* Of the furthest behind: which may be the other. */
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_unknown"), 1));
    offsets_commit_one(b->r, "g", "t", 2, 0); /* No partition of the node. */
    run_one_pass(b);
    expect_said(b, 2, -1, -1);
    expect_said(b, 1, 1, 1000);
    expect_said(b, -1, -1, -1);
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_unknown"), 2));
    end(b);
}

/* Whether there is a metric of the group that stands so in its labels. */
static bool has_labels(const struct bench *b, const char *group)
{
    char labels[64];
    (void)snprintf(labels, sizeof(labels), "group=\"%s\",topic=\"t\"", group);
    list_for_each (link, &b->node.shards[0].s->stats.all) {
        const struct stat *st = container_of(link, struct stat, link);
        if (strcmp(st->labels, labels) == 0) {
            return true;
        }
    }
    return false;
}

/* Prometheus refuses all metrics of a node for one label that is not UTF-8, or that is there twice;
 * and the names are any client's choice. */
Test(lag, names_are_shown_as_they_are_or_not_at_all)
{
    struct bench *b = begin_bare();
    (void)add_topic(b, "t", 1, "CreateTime");
    offsets_commit_one(b->r, "\xff", "t", 0, 0);
    offsets_commit_one(b->r, "\xc3\xa9\xed\xa0\x80", "t", 0, 0);
    begin_lag(b);
    run_one_pass(b);
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_is_cut"), 1));
    offsets_commit_one(b->r, "a\x01", "t", 0, 0);
    offsets_commit_one(b->r, "a\x02", "t", 0, 0);
    offsets_commit_one(b->r, "\"\\\n", "t", 0, 0);
    offsets_commit_one(b->r, "\xc3\xa9", "t", 0, 0);
    run_one_pass(b);
    static const char *const shown[] = {"a\x01", "a\x02", "\\\"\\\\\\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        cr_assert(has_labels(b, shown[i]), "%s", shown[i]);
    }
    static const char *const hidden[] = {"\xff", "a?", "\xc3\xa9\xed\xa0\x80", "?"};
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        cr_assert(eq(int, has_labels(b, hidden[i]), false), "%zu", i);
    }
    end(b);
}

/* What was not known is told again, as soon as it is. */
Test(lag, comes_back)
{
    struct bench *b = begin_bare();
    const struct uuid t = add_topic(b, "t", 1, "CreateTime");
    put(b, &(struct partition_id){t, 0}, 1, -1);
    put(b, &(struct partition_id){t, 0}, 1, 500);
    offsets_commit_one(b->r, "g", "t", 0, 0);
    begin_lag(b);
    run_one_pass(b);
    expect_said(b, -1, 2, -1);
    offsets_commit_one(b->r, "g", "t", 0, 1);
    run_one_pass(b);
    expect_said(b, -1, 1, 500);
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_unknown"), 0));
    end(b);
}

/* The leader's time is in force, not what the producer wrote into the batch. */
Test(lag, is_by_the_leader_s_time_with_log_append_time)
{
    struct bench *b = begin_bare();
    const struct uuid t = add_topic(b, "t", 2, "LogAppendTime");
    put(b, &(struct partition_id){t, 0}, 1, 90000);
    put(b, &(struct partition_id){t, 1}, 1, -1);
    offsets_commit_one(b->r, "g", "t", 0, 0);
    offsets_commit_one(b->r, "g", "t", 1, 0);
    run_for(b, (uint64_t)20 * US_PER_S);
    begin_lag(b);
    run_one_pass(b);
    expect_said(b, 0, 1, 20);
    expect_said(b, 1, 1, 20);
    expect_said(b, -1, 2, 20);
    end(b);
}

/* As Kafka's tools count: the end minus the committed offset. The time is that of the first record
 * which is left, also where that of another one was remembered. */
Test(lag, counts_records_that_are_gone)
{
    struct bench *b = begin_bare();
    const struct uuid t = add_topic(b, "t", 1, "CreateTime");
    const struct partition_id id = {t, 0};
    put(b, &id, 1, 3000);
    put(b, &id, 1, 2000);
    put(b, &id, 1, 1000);
    offsets_commit_one(b->r, "g", "t", 0, 0);
    begin_lag(b);
    run_one_pass(b);
    expect_said(b, 0, 3, 3000);
    delete_before(b, &id, 2);
    run_one_pass(b);
    expect_said(b, 0, 3, 1000);
    delete_before(b, &id, 3);
    run_one_pass(b);
    expect_said(b, 0, 3, 0);
    end(b);
}
