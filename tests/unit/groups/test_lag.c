/* What lag costs: how much it does in one turn of the loop, and how long it rests. Its figures:
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
};

/* One coordinator, of a rig, and the lag of its groups on a node that knows none of their topics.
 */
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

static struct bench *begin(int groups_count)
{
    struct bench *b = calloc(1, sizeof(*b));
    b->r = rig_new();
    for (int i = 0; i < TOPICS; i++) {
        (void)snprintf(b->topics[i], NAME_SIZE, "topic-%d", i);
        rig_topic(b->r, b->topics[i], 1);
    }
    add_groups(b->r, b->topics, groups_count);
    b->disk = new_disk();
    sim_node_init(&b->node, b->disk, 1, 1);
    cr_assert(eq(int, sim_node_start(&b->node), ERR_OK));
    const struct lag_options options = {
        .s = b->node.shards[0].s,
        .cluster = sim_node_cluster(&b->node, 0),
        .memory = &b->r->leader->memory,
        .context = b,
        .partitions_count = one,
        .coordinator_at = coordinator_at,
    };
    cr_assert(eq(int, lag_new(&options, &b->lag), ERR_OK));
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
    struct bench *b = begin(80);
    run_pass(b);
    cr_assert(eq(u64, metric(b, "coreflume_group_offsets"), 80 * TOPICS));
    cr_assert(eq(u64, metric(b, "coreflume_group_lag_is_cut"), 1));
    cr_assert(lt(int, 80 * TOPICS / 1000, b->turns_count), "%d turns", b->turns_count);
    end(b);
}

/* A disk that keeps a pass waiting is no reason to look less often. */
Test(lag, rests_by_what_it_did)
{
    struct bench *b = begin(1);
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
