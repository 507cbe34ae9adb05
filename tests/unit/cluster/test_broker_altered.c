/* Altered brokers on whole nodes: every shard, topic and partition has what follows, and keeps it
 * over restarts with another number of shards, whatever else goes on at the same time. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/cluster_priv.h"
#include "cluster/config_resources.h"
#include "core/shard.h"
#include "storage/log_priv.h"

#include "tests/support/cluster_rig.h"

enum {
    TOPICS = 40,
    PARTITIONS = 3,
};

struct asked {
    struct controller_request request;
    struct config_change change;
    bool is_done;
};

static void on_done(struct controller_request *r)
{
    ((struct asked *)r->context)->is_done = true;
}

/* "" = all brokers, "many" = the topic of that name. value NULL: deleted. */
static void ask(struct sim_node *n,
                uint16_t shard,
                struct asked *a,
                const char *broker,
                const char *name,
                const char *value)
{
    a->change = (struct config_change){
        .operation = value == NULL ? CONFIG_DELETE : CONFIG_SET,
        .name = slice_of_string(name),
        .value = slice_of_string(value),
    };
    a->is_done = false;
    a->request = (struct controller_request){
        .kind = CONTROLLER_ALTER_CONFIGS,
        .on_done = on_done,
        .context = a,
        .in.alter_configs =
            {
                .name = slice_of_string(broker),
                .changes =
                    {
                        .kind = strcmp(broker, "many") == 0 ? CONFIG_RESOURCE_TOPIC
                                                            : CONFIG_RESOURCE_BROKER,
                        .changes = &a->change,
                        .count = 1,
                    },
            },
    };
    controller_submit(sim_node_cluster(n, shard), &a->request);
}

/* Of all topics but "own", on every shard. */
static void expect_sizes(struct sim_node *n, uint32_t size_max, uint32_t topics_count)
{
    for (uint16_t s = 0; s < n->shards_count; s++) {
        const struct metadata *m = cluster_metadata(sim_node_cluster(n, s));
        cr_assert(eq(u32, metadata_topics_count(m), topics_count));
        for (uint32_t i = 0; i < topics_count; i++) {
            const struct topic *t = metadata_topic_at(m, i);
            const uint32_t wanted = strcmp(t->name, "own") == 0 ? 900 : size_max;
            cr_assert(eq(u32, t->settings.message_size_max, wanted), "%s on %u", t->name, s);
        }
    }
}

static void create_topics(struct sim_node *n)
{
    struct uuid id;
    const struct config_pair own = {slice_of_string("max.message.bytes"), slice_of_string("900")};
    cr_assert(eq(int, sim_node_create_topic_with(n, "own", PARTITIONS, &own, 1, &id), ERR_OK));
    for (int i = 1; i < TOPICS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%d", i);
        cr_assert(eq(int, sim_node_create_topic(n, 0, name, PARTITIONS, &id), ERR_OK));
    }
}

static uint32_t told_count[SIM_NODE_SHARDS_MAX];
static int64_t told_value[SIM_NODE_SHARDS_MAX];

static void on_broker_altered(void *context, struct shard *s, struct cluster *c)
{
    (void)context;
    told_count[s->id]++;
    told_value[s->id] = cluster_broker_number(c, "max.connections", 7);
}

static struct sim_node *start(struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, shards_count, seed);
    n->settings.on_broker_altered = on_broker_altered;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s\n%s", n->why, n->log_text);
    return n;
}

static void stop(struct sim_node *n)
{
    for (uint16_t s = 0; s < n->shards_count; s++) {
        cluster_check(sim_node_cluster(n, s));
    }
    sim_node_stop(n);
    free(n);
}

Test(broker_altered, topics_follow_on_every_shard_and_after_every_restart)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start(disk, 3, 1);
    create_topics(n);
    expect_sizes(n, 1048588, TOPICS);
    cr_assert(eq(int, sim_node_alter_broker(n, 2, "", "message.max.bytes", "500"), ERR_OK));
    expect_sizes(n, 500, TOPICS);
    cr_assert(eq(int, sim_node_alter_broker(n, 1, "1", "message.max.bytes", "600"), ERR_OK));
    expect_sizes(n, 600, TOPICS);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(n, 1, "later", 1, &id), ERR_OK));
    expect_sizes(n, 600, TOPICS + 1);
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", "message.max.bytes", "x"), ERR_INVALID));
    const uint16_t shards[] = {1, 4};
    for (int i = 0; i < 2; i++) {
        stop(n);
        n = start(disk, shards[i], 2 + (uint64_t)i);
        expect_sizes(n, 600, TOPICS + 1);
    }
    cr_assert(eq(int, sim_node_alter_broker(n, 3, "1", "message.max.bytes", NULL), ERR_OK));
    expect_sizes(n, 500, TOPICS + 1);
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", "message.max.bytes", NULL), ERR_OK));
    expect_sizes(n, 1048588, TOPICS + 1);
    cr_assert(
        eq(u32, metadata_config_resources(cluster_metadata(sim_node_cluster(n, 2)))->count, 0));
    stop(n);
    disk_sim_free(disk);
}

Test(broker_altered, other_changes_wait_for_their_turn)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start(disk, 3, 5);
    create_topics(n);
    struct asked asked[6];
    struct asked creation = {.is_done = false};
    creation.request = (struct controller_request){
        .kind = CONTROLLER_CREATE_TOPIC,
        .on_done = on_done,
        .context = &creation,
        .in.create_topic = {.name = slice_of_string("between"),
                            .partitions_count = 4,
                            .replication_factor = 1},
    };
    struct asked deletion = {.is_done = false};
    deletion.request = (struct controller_request){
        .kind = CONTROLLER_DELETE_TOPIC,
        .on_done = on_done,
        .context = &deletion,
        .in.delete_topic.name = slice_of_string("t7"),
    };
    static const char *const sizes[] = {"101", "102", "103", "104", "105", "106"};
    for (uint16_t i = 0; i < 6; i++) {
        ask(n, i % 3, &asked[i], i % 2 == 0 ? "" : "1", "message.max.bytes", sizes[i]);
        if (i == 2) {
            controller_submit(sim_node_cluster(n, 1), &creation.request);
        }
        if (i == 3) {
            controller_submit(sim_node_cluster(n, 2), &deletion.request);
        }
    }
    for (int i = 0; i < 6; i++) {
        cr_assert(sim_node_run_until(n, &asked[i].is_done));
        cr_assert(eq(int, asked[i].request.result, ERR_OK));
    }
    cr_assert(sim_node_run_until(n, &creation.is_done));
    cr_assert(sim_node_run_until(n, &deletion.is_done));
    cr_assert(eq(int, creation.request.result, ERR_OK));
    cr_assert(eq(int, deletion.request.result, ERR_OK));
    /* Shards submit beside each other: which of the broker's own was last is not said. */
    const struct metadata *m = cluster_metadata(sim_node_cluster(n, 0));
    const char *last = metadata_broker_config(m, "message.max.bytes");
    cr_assert(ne(ptr, (void *)last, NULL));
    expect_sizes(n, (uint32_t)strtoul(last, NULL, 10), TOPICS);
    stop(n);
    disk_sim_free(disk);
}

/* The rest of the topics is not told any more; the next start has it all. */
Test(broker_altered, a_stop_in_between_ends_it)
{
    for (int steps = 0; steps < 60; steps += 3) {
        struct disk_sim *disk = new_disk();
        struct sim_node *n = start(disk, 2, 50 + (uint64_t)steps);
        create_topics(n);
        struct asked a;
        ask(n, 1, &a, "", "message.max.bytes", "500");
        sim_node_run(n, steps);
        sim_node_stop(n);
        cr_assert(a.is_done);
        const bool is_kept = a.request.result == ERR_OK;
        free(n);
        n = start(disk, 3, 51 + (uint64_t)steps);
        const char *value =
            metadata_broker_config(cluster_metadata(sim_node_cluster(n, 2)), "message.max.bytes");
        cr_assert(is_kept ? value != NULL : true);
        expect_sizes(n, value == NULL ? 1048588 : 500, TOPICS);
        stop(n);
        disk_sim_free(disk);
    }
}

Test(broker_altered, the_brokers_own_are_told_on_each_shard)
{
    struct disk_sim *disk = new_disk();
    memset(told_count, 0, sizeof(told_count));
    struct sim_node *n = start(disk, 3, 9);
    cr_assert(eq(u32, told_count[0], 0));
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", "max.connections", "30"), ERR_OK));
    for (int s = 0; s < 3; s++) {
        cr_assert(eq(u32, told_count[s], 1));
        cr_assert(eq(i64, told_value[s], 30));
    }
    stop(n);
    n = start(disk, 3, 10);
    for (int s = 0; s < 3; s++) {
        cr_assert(eq(u32, told_count[s], 2));
        cr_assert(eq(i64, told_value[s], 30));
    }
    cr_assert(eq(int, sim_node_alter_broker(n, 1, "", "max.connections", NULL), ERR_OK));
    cr_assert(eq(i64, told_value[2], 7));
    stop(n);
    disk_sim_free(disk);
}

/* What is altered and what is in force, not what the metadata say of it. */
struct in_force {
    uint64_t interval_us;
    uint64_t keys_size; /* Of one log that is compacted. */
    int64_t expiration_ms;
};

static void expect_in_force(struct sim_node *n, const struct in_force *wanted)
{
    for (uint16_t s = 0; s < n->shards_count; s++) {
        const struct cluster *c = sim_node_cluster(n, s);
        cr_assert(eq(i64, c->partition_env.producer_expiration_ms, wanted->expiration_ms));
        for (uint32_t i = 0; i < c->dirs_count; i++) {
            const struct log_shared_options *o = &c->dirs[i].log_env.shared->options;
            cr_assert(eq(u64, o->compact_interval_us, wanted->interval_us));
            cr_assert(eq(u64, o->compact_keys_size_max, wanted->keys_size));
        }
    }
}

Test(broker_altered, the_brokers_own_are_in_force_on_each_shard)
{
    static const struct {
        const char *name;
        const char *value; /* NULL: deleted. */
        struct in_force wanted;
    } rows[] = {
        {"log.cleaner.backoff.ms", "20", {20000, 4 << 20, 900}},
        {"log.cleaner.backoff.ms", "0", {1000, 4 << 20, 900}},
        {"log.cleaner.dedupe.buffer.size", "1200000", {1000, 200000, 900}},
        {"producer.id.expiration.ms", "5", {1000, 200000, 5}},
        {"log.cleaner.backoff.ms", NULL, {7000, 200000, 5}},
        {"log.cleaner.dedupe.buffer.size", NULL, {7000, 4 << 20, 5}},
        {"producer.id.expiration.ms", NULL, {7000, 4 << 20, 900}},
        {"producer.id.expiration.ms", "6", {7000, 4 << 20, 6}},
    };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = NULL;
    for (uint64_t life = 0; life < 2; life++) {
        n = calloc(1, sizeof(*n));
        sim_node_init(n, disk, 3, 20 + life);
        n->settings.data_dirs_count = 2;
        n->settings.log_shared.compact_interval_us = 7000;
        n->settings.log_shared.compact_keys_size_max = 8 << 20;
        n->settings.producer_expiration_ms = 900;
        cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
        if (life > 0) {
            break;
        }
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            enum err e = sim_node_alter_broker(n, 1, "1", rows[i].name, rows[i].value);
            cr_assert(eq(int, e, ERR_OK));
            expect_in_force(n, &rows[i].wanted);
        }
        stop(n);
    }
    expect_in_force(n, &rows[sizeof(rows) / sizeof(rows[0]) - 1].wanted);
    stop(n);
    disk_sim_free(disk);
}

/* A topic of many partitions stalls no shard, and each has it when the answer comes. */
Test(broker_altered, a_topics_partitions_are_told_a_part_per_turn)
{
    enum { MANY = 900, PER_TURN = 16 };
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start(disk, 2, 30);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(n, 0, "many", MANY, &id), ERR_OK));
    const uint64_t turns = n->shards[1].s->counters.turns;
    struct asked a;
    ask(n, 1, &a, "many", "coreflume.retention.topic.bytes", "777");
    cr_assert(not(a.is_done));
    cr_assert(sim_node_run_until(n, &a.is_done));
    cr_assert(eq(int, a.request.result, ERR_OK));
    cr_assert(ge(u64, n->shards[1].s->counters.turns, turns + MANY / PER_TURN));
    for (int32_t i = 0; i < MANY; i++) {
        const struct partition_id of = {.topic_id = id, .partition = i};
        const struct partition *found = NULL;
        for (uint16_t s = 0; s < 2 && found == NULL; s++) {
            found = partition_table_find(&sim_node_cluster(n, s)->partitions, &of);
        }
        cr_assert(eq(i64, partition_topic_size_max(found), 777));
    }
    stop(n);
    disk_sim_free(disk);
}

static uint64_t log_end(struct sim_node *n)
{
    struct asked a = {.is_done = false};
    a.request = (struct controller_request){
        .kind = CONTROLLER_DESCRIBE,
        .on_done = on_done,
        .context = &a,
    };
    controller_submit(sim_node_cluster(n, 1), &a.request);
    cr_assert(sim_node_run_until(n, &a.is_done));
    return a.request.out.describe.last_index;
}

/* Else a client that sets the same values in a loop would fill the disk. */
Test(broker_altered, what_changes_nothing_is_not_in_the_log)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = start(disk, 2, 31);
    cr_assert(eq(int, sim_node_alter_broker(n, 0, "", "message.max.bytes", "500"), ERR_OK));
    const uint64_t end = log_end(n);
    for (int i = 0; i < 5; i++) {
        cr_assert(eq(int, sim_node_alter_broker(n, 1, "", "message.max.bytes", "500"), ERR_OK));
    }
    cr_assert(eq(u64, log_end(n), end));
    cr_assert(eq(int, sim_node_alter_broker(n, 1, "", "message.max.bytes", "501"), ERR_OK));
    cr_assert(eq(u64, log_end(n), end + 1));
    stop(n);
    disk_sim_free(disk);
}
