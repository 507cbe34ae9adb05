/* The driver of coordinators on whole nodes: calls from any shard reach the one that has the group,
 * what was answered is there after a restart or a crash, and everybody is answered at a stop. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "groups/groups.h"
#include "groups/lag.h"
#include "groups/offsets_table.h"
#include "groups/settings.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/support/cluster_rig.h"

/* Crashed shards leak what they had, as a process that dies does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum {
    GROUPS_COUNT = 30,
    FIRST_OFFSET = 1000,
    GROUP_ID_SIZE = 16,
    CROWD = 500,
    WAITING_MAX = 1000, /* As groups.c has it. */
};

/* Memory of that size (0 = of any) is refused, so many times: the linker hands every calloc over.
 */
static size_t refused_size;
static size_t refusals_left;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (refusals_left > 0 && count == 1 && (refused_size == 0 || size == refused_size)) {
        refusals_left--;
        return NULL;
    }
    return __real_calloc(count, size);
}

/* Its first committed offset takes memory of a size that nothing else takes. */
static const char RARE_TOPIC[] = "a-topic-with-a-name-that-is-as-long-as-no-other-names-are";

struct node {
    struct sim_node sim;
    struct groups_settings settings;
    struct groups_set *groups;
};

/* A call and all it points to. */
struct ask {
    struct group_call call;
    char group[GROUP_ID_SIZE];
    bool is_done;
    union {
        struct offset_commit_request commit;
        struct offset_fetch_request_group fetch;
        struct join_group_request join;
        struct heartbeat_request heartbeat;
        struct consumer_group_heartbeat_request beat;
        struct list_groups_request list;
    } in;
    struct offset_commit_request_topic commit_topic;
    struct offset_commit_request_partition commit_partition;
    struct join_group_request_protocol protocol;
    struct slice beat_topic;
    struct consumer_group_heartbeat_request_topic_partition beat_partitions; /* None of them. */
};

static void on_metadata(void *context, struct shard *s)
{
    struct node *n = context;
    groups_on_metadata(groups_set_get(n->groups, s->id));
}

/* Without groups yet. */
static struct node *begin(struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    struct node *n = calloc(1, sizeof(*n));
    sim_node_init(&n->sim, disk, shards_count, seed);
    groups_settings_init(&n->settings);
    n->settings.topic_partitions_count = 7;
    groups_settings_bind(&n->settings, &n->sim.settings);
    n->sim.settings.on_metadata = on_metadata;
    n->sim.settings.broker_context = n;
    cr_assert(eq(int, groups_set_new(&n->settings, shards_count, &n->groups), ERR_OK));
    cr_assert(eq(int, sim_node_start(&n->sim), ERR_OK), "%s", n->sim.why);
    return n;
}

static struct node *start(struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    struct node *n = begin(disk, shards_count, seed);
    for (uint16_t i = 0; i < shards_count; i++) {
        groups_start(
            groups_set_get(n->groups, i), n->sim.shards[i].s, sim_node_cluster(&n->sim, i));
    }
    return n;
}

static void quiesce(struct node *n)
{
    for (uint16_t i = 0; i < n->sim.shards_count; i++) {
        groups_quiesce(groups_set_get(n->groups, i));
    }
}

static void on_quiet(void *context)
{
    struct node *n = context;
    for (uint16_t i = 0; i < n->sim.shards_count; i++) {
        groups_stop(groups_set_get(n->groups, i));
    }
}

static void stop(struct node *n)
{
    quiesce(n);
    n->sim.on_quiet = on_quiet;
    n->sim.quiet_context = n;
    sim_node_stop(&n->sim);
    groups_set_free(n->groups);
    free(n);
}

static void on_done(struct group_call *call)
{
    struct ask *a = call->context;
    cr_assert(not(a->is_done));
    a->is_done = true;
}

static struct ask *new_ask(enum group_call_kind kind, int number)
{
    struct ask *a = calloc(1, sizeof(*a));
    group_call_init(&a->call, kind);
    (void)snprintf(a->group, sizeof(a->group), "group-%d", number);
    a->call.group_id = slice_of_string(a->group);
    a->call.client_id = slice_of_string("client");
    a->call.client_host = slice_of_string("/host");
    a->call.in = &a->in;
    a->call.on_done = on_done;
    a->call.context = a;
    return a;
}

static void free_ask(struct ask *a)
{
    group_call_done(&a->call);
    free(a);
}

static struct ask *submit(struct node *n, uint16_t shard, struct ask *a)
{
    groups_submit(groups_set_get(n->groups, shard), &a->call);
    cr_assert(not(a->is_done), "never inside submit");
    return a;
}

static const void *wait_for(struct node *n, struct ask *a)
{
    cr_assert(sim_node_run_until(&n->sim, &a->is_done));
    return a->call.out;
}

static struct ask *new_commit(int number, int64_t offset)
{
    struct ask *a = new_ask(GROUP_COMMIT, number);
    offset_commit_request_init(&a->in.commit);
    offset_commit_request_topic_init(&a->commit_topic);
    offset_commit_request_partition_init(&a->commit_partition);
    a->call.version = 9;
    a->in.commit.group_id = a->call.group_id;
    a->in.commit.topics = &a->commit_topic;
    a->in.commit.topics_count = 1;
    a->commit_topic.name = slice_of_string("t");
    a->commit_topic.partitions = &a->commit_partition;
    a->commit_topic.partitions_count = 1;
    a->commit_partition.committed_offset = offset;
    return a;
}

static enum kafka_error commit(struct node *n, uint16_t shard, int number, int64_t offset)
{
    struct ask *a = submit(n, shard, new_commit(number, offset));
    const struct offset_commit_response *out = wait_for(n, a);
    const enum kafka_error e = (enum kafka_error)out->topics[0].partitions[0].error_code;
    free_ask(a);
    return e;
}

static struct ask *new_fetch(int number)
{
    struct ask *a = new_ask(GROUP_FETCH, number);
    offset_fetch_request_group_init(&a->in.fetch);
    a->call.version = 9;
    a->in.fetch.group_id = a->call.group_id;
    a->in.fetch.topics = NULL;
    return a;
}

/* -1 if there is none. */
static int64_t fetched(struct ask *a)
{
    const struct offset_fetch_response_group *out = a->call.out;
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    const int64_t offset =
        out->topics_count == 0 ? -1 : out->topics[0].partitions[0].committed_offset;
    free_ask(a);
    return offset;
}

static int64_t fetch(struct node *n, uint16_t shard, int number)
{
    struct ask *a = submit(n, shard, new_fetch(number));
    (void)wait_for(n, a);
    return fetched(a);
}

static void make_topics(struct node *n)
{
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(&n->sim, 0, "t", 2, &id), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(&n->sim, 0, GROUPS_TOPIC, -1, &id), ERR_OK));
}

static struct ask *new_join(int number)
{
    struct ask *a = new_ask(GROUP_JOIN, number);
    join_group_request_init(&a->in.join);
    join_group_request_protocol_init(&a->protocol);
    a->call.version = 3;
    a->in.join.group_id = a->call.group_id;
    a->in.join.session_timeout_ms = a->in.join.rebalance_timeout_ms = 10000;
    a->in.join.member_id = slice_of("", 0);
    a->in.join.group_instance_id = (struct slice){0};
    a->in.join.protocol_type = slice_of_string("consumer");
    a->in.join.protocols = &a->protocol;
    a->in.join.protocols_count = 1;
    a->protocol.name = slice_of_string("range");
    a->protocol.metadata = slice_of_string("m");
    return a;
}

static enum kafka_error join_error(const struct ask *a)
{
    const struct join_group_response *out = a->call.out;
    return (enum kafka_error)out->error_code;
}

static struct ask *new_heartbeat(int number, struct slice member, int32_t generation)
{
    struct ask *a = new_ask(GROUP_HEARTBEAT, number);
    heartbeat_request_init(&a->in.heartbeat);
    a->in.heartbeat.group_id = a->call.group_id;
    a->in.heartbeat.group_instance_id = (struct slice){0};
    a->in.heartbeat.member_id = member;
    a->in.heartbeat.generation_id = generation;
    return a;
}

/* Of the new protocol: a member that joins with epoch 0, or has nothing new to say. */
static struct ask *new_beat(int number, int32_t epoch)
{
    struct ask *a = new_ask(GROUP_CONSUMER_HEARTBEAT, number);
    struct consumer_group_heartbeat_request *in = &a->in.beat;
    consumer_group_heartbeat_request_init(in);
    a->call.version = 1;
    a->beat_topic = slice_of_string("t");
    in->group_id = a->call.group_id;
    in->member_id = slice_of_string("m");
    in->member_epoch = epoch;
    in->rebalance_timeout_ms = epoch == 0 ? 60000 : -1;
    in->subscribed_topic_names = epoch == 0 ? &a->beat_topic : NULL;
    in->subscribed_topic_names_count = epoch == 0 ? 1 : 0;
    in->topic_partitions = epoch == 0 ? &a->beat_partitions : NULL;
    return a;
}

Test(groups, commits_are_there_on_every_shard_and_after_restarts)
{
    struct disk_sim *disk = new_disk();
    const uint16_t shards[] = {2, 3, 1};
    for (int round = 0; round < 3; round++) {
        struct node *n = start(disk, shards[round], 5 + (uint64_t)round);
        if (round == 0) {
            make_topics(n);
        }
        for (int i = 0; i < GROUPS_COUNT; i++) {
            const uint16_t from = (uint16_t)(i % shards[round]);
            const int64_t before = round == 0 ? -1 : FIRST_OFFSET + round - 1 + i;
            cr_assert(eq(i64, fetch(n, from, i), before));
            cr_assert(eq(int, commit(n, from, i, FIRST_OFFSET + round + i), KAFKA_NONE));
            cr_assert(eq(i64, fetch(n, 0, i), FIRST_OFFSET + round + i));
        }
        stop(n);
    }
    disk_sim_free(disk);
}

Test(groups, what_was_acknowledged_survives_a_power_cut)
{
    struct disk_sim *disk = new_disk();
    int64_t acknowledged[GROUPS_COUNT] = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct node *n = start(disk, 2, seed);
        if (seed == 1) {
            make_topics(n);
        }
        struct ask *asks[GROUPS_COUNT];
        for (int i = 0; i < GROUPS_COUNT; i++) {
            const int64_t found = fetch(n, 0, i);
            cr_assert(
                le(i64, acknowledged[i], found < 0 ? 0 : found), "group %d seed %d", i, (int)seed);
            asks[i] = submit(n, (uint16_t)(i % 2), new_commit(i, (int64_t)seed * 10));
        }
        sim_node_run(&n->sim, (int)seed * 40);
        for (int i = 0; i < GROUPS_COUNT; i++) {
            acknowledged[i] = asks[i]->is_done ? (int64_t)seed * 10 : acknowledged[i];
        }
        sim_node_crash(&n->sim, NULL); /* What was allocated leaks. */
    }
    disk_sim_free(disk);
}

Test(groups, before_there_is_a_topic_nobody_coordinates)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    cr_assert(eq(int, commit(n, 1, 1, 1), KAFKA_NOT_COORDINATOR));
    make_topics(n);
    cr_assert(eq(int, commit(n, 1, 1, 1), KAFKA_NONE));
    stop(n);
    disk_sim_free(disk);
}

/* Clients that are back before the state is: they wait, but a Heartbeat says at once that all is
 * well, as in Kafka. */
Test(groups, calls_wait_while_their_coordinator_loads)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_topics(n);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(int, commit(n, 0, i, FIRST_OFFSET + i), KAFKA_NONE));
    }
    stop(n);
    n = start(disk, 2, 2);
    struct ask *fetches[GROUPS_COUNT];
    for (int i = 0; i < GROUPS_COUNT; i++) {
        fetches[i] = submit(n, 1, new_fetch(i));
    }
    struct ask *beat = new_heartbeat(3, slice_of("", 0), 1);
    const struct heartbeat_response *out = wait_for(n, submit(n, 0, beat));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(not(fetches[3]->is_done), "nothing was loaded yet");
    free_ask(beat);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        (void)wait_for(n, fetches[i]);
        cr_assert(eq(i64, fetched(fetches[i]), FIRST_OFFSET + i));
    }
    stop(n);
    disk_sim_free(disk);
}

Test(groups, lists_are_of_one_shard_each)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 3, 1);
    make_topics(n);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(int, commit(n, 0, i, 1), KAFKA_NONE));
    }
    size_t count = 0;
    for (uint16_t shard = 0; shard < 3; shard++) {
        struct ask *a = new_ask(GROUP_LIST, 0);
        list_groups_request_init(&a->in.list);
        groups_submit_list(groups_set_get(n->groups, 0), shard, &a->call);
        const struct list_groups_response *out = wait_for(n, a);
        cr_assert(lt(sz, 0, out->groups_count));
        count += out->groups_count;
        free_ask(a);
    }
    cr_assert(eq(sz, count, GROUPS_COUNT));
    stop(n);
    disk_sim_free(disk);
}

struct cancelling {
    struct group_cancel cancel;
    bool is_done;
};

static void on_cancelled(struct group_cancel *cancel)
{
    container_of(cancel, struct cancelling, cancel)->is_done = true;
}

/* What was cancelled while its coordinator was loaded is not kept afterwards. */
Test(groups, who_hurries_during_the_load_does_not_wait_after_it)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 1, 1);
    make_topics(n);
    struct ask *first = submit(n, 0, new_beat(1, 0));
    const struct consumer_group_heartbeat_response *joined = wait_for(n, first);
    cr_assert(eq(i16, joined->error_code, KAFKA_NONE));
    const int32_t epoch = joined->member_epoch;
    free_ask(first);
    stop(n);
    n = start(disk, 1, 2);
    const uint64_t began_us = n->sim.clock.now_us;
    struct ask *beat = submit(n, 0, new_beat(1, epoch));
    struct ask *join = submit(n, 0, new_join(2));
    struct cancelling c[] = {{.cancel = {.call = &beat->call, .on_done = on_cancelled}},
                             {.cancel = {.call = &join->call, .on_done = on_cancelled}}};
    groups_cancel(groups_set_get(n->groups, 0), &c[0].cancel);
    groups_cancel(groups_set_get(n->groups, 0), &c[1].cancel);
    const struct consumer_group_heartbeat_response *out = wait_for(n, beat);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(i32, out->member_epoch, epoch));
    (void)wait_for(n, join);
    cr_assert(eq(int, join_error(join), KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(lt(u64, n->sim.clock.now_us, began_us + 1000 * 1000));
    cr_assert(c[0].is_done);
    cr_assert(c[1].is_done);
    free_ask(beat);
    free_ask(join);
    stop(n);
    disk_sim_free(disk);
}

/* A join that waits for others ends when its client is gone, and when the broker stops. */
Test(groups, waiting_calls_end)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_topics(n);
    struct ask *joins[2];
    for (int i = 0; i < 2; i++) {
        joins[i] = submit(n, (uint16_t)i, new_join(i));
    }
    sim_node_run(&n->sim, 20);
    cr_assert(not(joins[0]->is_done), "of the rebalance delay");
    cr_assert(not(joins[1]->is_done));
    struct cancelling c = {.cancel = {.call = &joins[0]->call, .on_done = on_cancelled}};
    groups_cancel(groups_set_get(n->groups, 0), &c.cancel);
    cr_assert(sim_node_run_until(&n->sim, &joins[0]->is_done));
    cr_assert(ne(int, join_error(joins[0]), KAFKA_NONE));
    cr_assert(sim_node_run_until(&n->sim, &c.is_done));
    quiesce(n);
    cr_assert(sim_node_run_until(&n->sim, &joins[1]->is_done));
    cr_assert(eq(int, join_error(joins[1]), KAFKA_NOT_COORDINATOR));
    cr_assert(eq(int, commit(n, 0, 5, 1), KAFKA_NOT_COORDINATOR));
    free_ask(joins[0]);
    free_ask(joins[1]);
    stop(n);
    disk_sim_free(disk);
}

/* Java: "abc".hashCode() and so on. */
Test(groups, partition_is_that_of_kafka)
{
    static const struct {
        const char *group;
        int32_t partition;
    } rows[] = {
        {"", 0},
        {"abc", 96354 % 50},
        {"polygenelubricants", 0}, /* -2^31 */
        {"\xc3\xa4", 228 % 50},
        {"\xf0\x9f\x98\x80", (0xd83d * 31 + 0xde00) % 50},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int32_t got = groups_partition_of(slice_of_string(rows[i].group), 50);
        cr_assert(eq(i32, got, rows[i].partition), "%s", rows[i].group);
    }
}

/* Shard 0 listens before shard 1 has begun: its clients are told to come again. */
Test(groups, a_shard_that_has_not_begun_answers)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_topics(n);
    stop(n);
    n = begin(disk, 2, 3);
    groups_start(groups_set_get(n->groups, 0), n->sim.shards[0].s, sim_node_cluster(&n->sim, 0));
    struct ask *asks[GROUPS_COUNT];
    int refused = 0;
    for (int i = 0; i < GROUPS_COUNT; i++) {
        asks[i] = submit(n, 0, new_fetch(i));
        const struct offset_fetch_response_group *out = wait_for(n, asks[i]);
        refused += out->error_code == KAFKA_COORDINATOR_LOAD_IN_PROGRESS;
        free_ask(asks[i]);
    }
    cr_assert(lt(int, 0, refused));
    for (int i = 0; i < GROUPS_COUNT; i++) {
        struct ask *beat = submit(n, 0, new_heartbeat(i, slice_of_string("m"), 1));
        const int16_t e = ((const struct heartbeat_response *)wait_for(n, beat))->error_code;
        cr_assert(e == KAFKA_NONE || e == KAFKA_UNKNOWN_MEMBER_ID, "as while it loads: %d", e);
        free_ask(beat);
    }
    struct ask *list = new_ask(GROUP_LIST, 0);
    list_groups_request_init(&list->in.list);
    groups_submit_list(groups_set_get(n->groups, 0), 1, &list->call);
    const struct list_groups_response *out = wait_for(n, list);
    cr_assert(eq(i16, out->error_code, KAFKA_COORDINATOR_LOAD_IN_PROGRESS));
    free_ask(list);
    groups_start(groups_set_get(n->groups, 1), n->sim.shards[1].s, sim_node_cluster(&n->sim, 1));
    stop(n);
    disk_sim_free(disk);
}

static enum kafka_error heartbeat(struct node *n, const struct join_group_response *joined)
{
    struct ask *a = new_heartbeat(1, joined->member_id, joined->generation_id);
    const struct heartbeat_response *out = wait_for(n, submit(n, 0, a));
    const enum kafka_error e = (enum kafka_error)out->error_code;
    free_ask(a);
    return e;
}

/* The loop runs all the while. */
static void pass_ms(struct node *n, uint64_t ms)
{
    const uint64_t ends_us = n->sim.clock.now_us + ms * 1000;
    while (n->sim.clock.now_us < ends_us) {
        sim_node_run(&n->sim, 1);
    }
}

/* A machine that stood still: what members sent meanwhile is read before they are given up. */
Test(groups, sessions_do_not_end_while_the_process_stands_still)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 1, 1);
    make_topics(n);
    struct ask *join = submit(n, 0, new_join(1));
    const struct join_group_response *joined = wait_for(n, join);
    cr_assert(eq(i16, joined->error_code, KAFKA_NONE));
    n->sim.clock.now_us += UINT64_C(15) * 1000 * 1000; /* Its session is of 10 s. */
    sim_node_run(&n->sim, 2);
    cr_assert(eq(int, heartbeat(n, joined), KAFKA_NONE));
    n->sim.clock.now_us += UINT64_C(15) * 1000 * 1000;
    pass_ms(n, 12000);
    cr_assert(eq(int, heartbeat(n, joined), KAFKA_UNKNOWN_MEMBER_ID), "it said nothing");
    free_ask(join);
    stop(n);
    disk_sim_free(disk);
}

/* All groups of one coordinator, which has more to do than fits one turn of the loop. */
static struct node *start_crowded(struct disk_sim *disk)
{
    struct node *n = start(disk, 1, 1);
    struct uuid id;
    cr_assert(eq(int, sim_node_create_topic(&n->sim, 0, "t", 2, &id), ERR_OK));
    cr_assert(eq(int, sim_node_create_topic(&n->sim, 0, GROUPS_TOPIC, 1, &id), ERR_OK));
    return n;
}

/* The rebalance delay of 3 s, and the grace after a standstill, but for all of them at once. */
Test(groups, deadlines_of_a_crowd_do_not_queue_up_after_a_standstill)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start_crowded(disk);
    struct ask *joins[CROWD];
    for (int i = 0; i < CROWD; i++) {
        joins[i] = submit(n, 0, new_join(i));
    }
    pass_ms(n, 2000);
    n->sim.clock.now_us += UINT64_C(15) * 1000 * 1000;
    pass_ms(n, 3500);
    for (int i = 0; i < CROWD; i++) {
        cr_assert(joins[i]->is_done, "%d", i);
        cr_assert(eq(int, join_error(joins[i]), KAFKA_NONE));
        free_ask(joins[i]);
    }
    stop(n);
    disk_sim_free(disk);
}

static struct ask *list(struct node *n, uint16_t shard)
{
    struct ask *a = new_ask(GROUP_LIST, 0);
    list_groups_request_init(&a->in.list);
    groups_submit_list(groups_set_get(n->groups, 0), shard, &a->call);
    (void)wait_for(n, a);
    return a;
}

static size_t count_groups(struct node *n)
{
    struct ask *a = list(n, 0);
    const size_t count = ((const struct list_groups_response *)a->call.out)->groups_count;
    free_ask(a);
    return count;
}

Test(groups, a_crowd_hears_of_metadata_at_once)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start_crowded(disk);
    struct ask *commits[CROWD];
    for (int i = 0; i < CROWD; i++) {
        commits[i] = submit(n, 0, new_commit(i, 1));
    }
    for (int i = 0; i < CROWD; i++) {
        (void)wait_for(n, commits[i]);
        free_ask(commits[i]);
    }
    cr_assert(eq(sz, count_groups(n), CROWD));
    pass_ms(n, 2000);
    cr_assert(eq(int, sim_node_delete_topic(&n->sim, 0, "t"), ERR_OK));
    pass_ms(n, 500);
    cr_assert(eq(sz, count_groups(n), 0), "they have nothing else");
    stop(n);
    disk_sim_free(disk);
}

/* Full is what nothing more fits into, also if that is little. */
Test(groups, a_limit_of_one_is_reached_by_one)
{
    struct disk_sim *disk = new_disk();
    struct node *n = begin(disk, 1, 1);
    n->settings.groups_max = 1;
    groups_start(groups_set_get(n->groups, 0), n->sim.shards[0].s, sim_node_cluster(&n->sim, 0));
    make_topics(n);
    struct group_problem found[GROUP_LIMIT_COUNT];
    pass_ms(n, 3000);
    cr_assert(
        eq(u32, groups_problems(groups_set_get(n->groups, 0), found), 0), "%s", found[0].code);
    cr_assert(eq(int, commit(n, 0, 1, 1), KAFKA_NONE));
    pass_ms(n, 3000);
    cr_assert(eq(u32, groups_problems(groups_set_get(n->groups, 0), found), 1));
    cr_assert(eq(str, (char *)found[0].code, (char *)"groups_full"));
    stop(n);
    disk_sim_free(disk);
}

/* ---- memory that there is not ---- */

static void make_rare_topic(struct node *n)
{
    struct uuid id;
    make_topics(n);
    cr_assert(eq(int, sim_node_create_topic(&n->sim, 0, RARE_TOPIC, 1, &id), ERR_OK));
    refused_size = sizeof(struct offset_topic) + strlen(RARE_TOPIC);
}

static struct ask *new_rare_commit(int64_t offset)
{
    struct ask *a = new_commit(GROUPS_COUNT, offset);
    a->commit_topic.name = slice_of_string(RARE_TOPIC);
    return a;
}

static enum kafka_error commit_error(const struct ask *a)
{
    const struct offset_commit_response *out = a->call.out;
    return (enum kafka_error)out->topics[0].partitions[0].error_code;
}

static enum kafka_error fetch_error(const struct ask *a)
{
    return (enum kafka_error)((const struct offset_fetch_response_group *)a->call.out)->error_code;
}

/* As a client, which tries again. */
static int64_t fetch_patiently(struct node *n, int number)
{
    for (int i = 0; i < 1000; i++) {
        struct ask *a = submit(n, 0, new_fetch(number));
        (void)wait_for(n, a);
        if (fetch_error(a) != KAFKA_NOT_COORDINATOR) {
            return fetched(a);
        }
        free_ask(a);
        sim_node_run(&n->sim, 10);
    }
    cr_fatal("nobody coordinates the group any more");
    return -1;
}

/* Of all shards. */
static uint64_t commits_counted(struct node *n)
{
    uint64_t count = 0;
    for (uint16_t i = 0; i < n->sim.shards_count; i++) {
        list_for_each (link, &n->sim.shards[i].s->stats.all) {
            const struct stat *st = container_of(link, struct stat, link);
            if (strcmp(st->name, "coreflume_group_commits_total") == 0) {
                count += *(const uint64_t *)st->value;
            }
        }
    }
    return count;
}

/* Of the metrics, some. */
static void run_passes(struct node *n)
{
    const uint64_t ends_us = n->sim.clock.now_us + (uint64_t)LAG_PERIOD_MS * 1000 * 5;
    while (n->sim.clock.now_us < ends_us) {
        sim_node_run(&n->sim, 1);
    }
}

/* A counter that falls is taken for a restart, and all that is left of it for an increase. */
Test(groups, counters_stay_when_a_coordinator_starts_over)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_rare_topic(n);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(int, commit(n, 0, i, FIRST_OFFSET), KAFKA_NONE));
    }
    run_passes(n);
    cr_assert(eq(u64, commits_counted(n), GROUPS_COUNT));
    refusals_left = 1;
    struct ask *rare = submit(n, 0, new_rare_commit(FIRST_OFFSET));
    (void)wait_for(n, rare);
    cr_assert(sim_node_has_logged(&n->sim, "groups_start_over"));
    cr_assert(eq(i64, fetch_patiently(n, GROUPS_COUNT), FIRST_OFFSET));
    run_passes(n);
    cr_assert(le(u64, GROUPS_COUNT, commits_counted(n)));
    free_ask(rare);
    stop(n);
    disk_sim_free(disk);
}

/* A coordinator that cannot apply what is committed is not what the log says: another one loads the
 * log. What was on its way meanwhile is in both or in neither. */
Test(groups, without_memory_to_apply_it_starts_over)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_rare_topic(n);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(int, commit(n, 0, i, FIRST_OFFSET), KAFKA_NONE));
    }
    refusals_left = 1;
    struct ask *rare = submit(n, 0, new_rare_commit(FIRST_OFFSET));
    sim_node_run(&n->sim, 2); /* Its flush has begun: what follows needs another one. */
    struct ask *asks[GROUPS_COUNT];
    for (int i = 0; i < GROUPS_COUNT; i++) {
        asks[i] = submit(n, 1, new_commit(i, FIRST_OFFSET + 1));
    }
    (void)wait_for(n, rare);
    cr_assert(eq(int, commit_error(rare), KAFKA_COORDINATOR_NOT_AVAILABLE));
    cr_assert(sim_node_has_logged(&n->sim, "groups_start_over"));
    int refused = 0;
    int64_t live[GROUPS_COUNT];
    for (int i = 0; i < GROUPS_COUNT; i++) {
        (void)wait_for(n, asks[i]);
        live[i] = fetch_patiently(n, i);
        const bool is_acknowledged = commit_error(asks[i]) == KAFKA_NONE;
        const bool is_there = live[i] == FIRST_OFFSET + 1;
        cr_assert(is_there || !is_acknowledged, "group %d", i);
        refused += !is_acknowledged;
    }
    cr_assert(lt(int, 0, refused), "some were on their way");
    cr_assert(lt(int, refused, GROUPS_COUNT), "other coordinators go on");
    cr_assert(eq(i64, fetch_patiently(n, GROUPS_COUNT), FIRST_OFFSET), "it is in the log");
    stop(n);
    n = start(disk, 2, 2);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(i64, fetch(n, 0, i), live[i]));
        free_ask(asks[i]);
    }
    free_ask(rare);
    stop(n);
    disk_sim_free(disk);
}

static enum kafka_error list_error(struct node *n, uint16_t shard)
{
    struct ask *a = list(n, shard);
    const enum kafka_error e =
        (enum kafka_error)((const struct list_groups_response *)a->call.out)->error_code;
    free_ask(a);
    return e;
}

/* How many groups' coordinators are not loaded yet. */
static int count_loading(struct node *n)
{
    int count = 0;
    for (int i = 0; i < GROUPS_COUNT; i++) {
        struct ask *a = submit(n, 0, new_fetch(i));
        (void)wait_for(n, a);
        const enum kafka_error e = fetch_error(a);
        cr_assert(e == KAFKA_NONE || e == KAFKA_COORDINATOR_LOAD_IN_PROGRESS, "%d", e);
        count += e != KAFKA_NONE;
        free_ask(a);
    }
    return count;
}

/* Half a state would be old offsets served as new ones. When there is memory it goes on by itself.
 */
Test(groups, a_load_without_memory_is_tried_again)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 2, 1);
    make_rare_topic(n);
    for (int i = 0; i < GROUPS_COUNT; i++) {
        cr_assert(eq(int, commit(n, 0, i, FIRST_OFFSET), KAFKA_NONE));
    }
    struct ask *rare = submit(n, 0, new_rare_commit(FIRST_OFFSET));
    (void)wait_for(n, rare);
    cr_assert(eq(int, commit_error(rare), KAFKA_NONE));
    free_ask(rare);
    stop(n);
    n = start(disk, 2, 2);
    refusals_left = SIZE_MAX;
    for (int round = 0; round < 3; round++) {
        const int loading = count_loading(n);
        cr_assert(lt(int, 0, loading));
        cr_assert(lt(int, loading, GROUPS_COUNT), "those of other partitions are served");
        const bool is_told = list_error(n, 0) == KAFKA_COORDINATOR_LOAD_IN_PROGRESS ||
                             list_error(n, 1) == KAFKA_COORDINATOR_LOAD_IN_PROGRESS;
        cr_assert(is_told, "a list without them would be wrong");
        pass_ms(n, 10000);
    }
    cr_assert(sim_node_has_logged(&n->sim, "groups_not_loaded"));
    refusals_left = 0;
    pass_ms(n, 10000);
    cr_assert(eq(int, count_loading(n), 0));
    cr_assert(eq(i64, fetch(n, 0, GROUPS_COUNT), FIRST_OFFSET));
    stop(n);
    disk_sim_free(disk);
}

/* Not even for what the coordinator would be held by. */
Test(groups, partitions_without_memory_are_taken_later)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 1, 1);
    make_topics(n);
    cr_assert(eq(int, commit(n, 0, 1, FIRST_OFFSET), KAFKA_NONE));
    stop(n);
    n = begin(disk, 1, 2);
    refused_size = 0;
    refusals_left = SIZE_MAX;
    groups_start(groups_set_get(n->groups, 0), n->sim.shards[0].s, sim_node_cluster(&n->sim, 0));
    refusals_left = 0;
    cr_assert(eq(int, commit(n, 0, 1, FIRST_OFFSET + 1), KAFKA_NOT_COORDINATOR));
    cr_assert(sim_node_has_logged(&n->sim, "groups_not_loaded"));
    pass_ms(n, 3000);
    cr_assert(eq(i64, fetch(n, 0, 1), FIRST_OFFSET));
    stop(n);
    disk_sim_free(disk);
}

/* More calls than may wait for a load: the others are told to come again. */
Test(groups, waiting_for_a_load_is_bounded)
{
    struct disk_sim *disk = new_disk();
    struct node *n = start(disk, 1, 1);
    make_topics(n);
    cr_assert(eq(int, commit(n, 0, 1, FIRST_OFFSET), KAFKA_NONE));
    stop(n);
    n = start(disk, 1, 2);
    static struct ask *asks[WAITING_MAX + 2];
    for (int i = 0; i < WAITING_MAX + 2; i++) {
        asks[i] = submit(n, 0, new_fetch(1));
    }
    for (int i = 0; i < WAITING_MAX; i++) {
        (void)wait_for(n, asks[i]);
        cr_assert(eq(i64, fetched(asks[i]), FIRST_OFFSET), "call %d", i);
    }
    for (int i = WAITING_MAX; i < WAITING_MAX + 2; i++) {
        cr_assert(asks[i]->is_done);
        cr_assert(eq(int, fetch_error(asks[i]), KAFKA_COORDINATOR_LOAD_IN_PROGRESS));
        free_ask(asks[i]);
    }
    stop(n);
    disk_sim_free(disk);
}
