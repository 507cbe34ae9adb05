/* The broker's own topics on a whole node: made once however many ask, kept over restarts. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cluster/internal_topics.h"

#include "tests/support/cluster_rig.h"

enum {
    ASKERS_MAX = 12,
};

static const struct config_pair CONFIGS[] = {
    {{(const uint8_t *)"cleanup.policy", 14}, {(const uint8_t *)"compact", 7}},
};
static const struct internal_topic INTERNAL = {
    .name = "__consumer_offsets",
    .partitions_count = 5,
    .replication_factor_max = 3,
    .configs = CONFIGS,
    .configs_count = 1,
};

struct asker {
    struct internal_topic_request request;
    struct sim_node *n;
    uint16_t shard;
    bool is_done;
    enum err e;
};

static struct sim_node *new_node(struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    struct sim_node *n = calloc(1, sizeof(*n));
    sim_node_init(n, disk, shards_count, seed);
    n->settings.internal_topics = &INTERNAL;
    n->settings.internal_topics_count = 1;
    cr_assert(eq(int, sim_node_start(n), ERR_OK), "%s", n->why);
    return n;
}

/* It is known, and can be used, where it was asked for. */
static void on_done(struct internal_topic_request *r, enum err e)
{
    struct asker *a = r->context;
    cr_assert(not(a->is_done));
    a->is_done = true;
    a->e = e;
    if (e == ERR_OK) {
        const struct metadata *m = cluster_metadata(sim_node_cluster(a->n, a->shard));
        const struct topic *t = metadata_topic_by_name(m, slice_of_string(INTERNAL.name));
        cr_assert(t != NULL);
        cr_assert(t->is_internal);
        cr_assert(eq(i32, t->partitions_count, 5));
    }
}

static void ask(struct sim_node *n, struct asker *askers, int count)
{
    for (int i = 0; i < count; i++) {
        struct asker *a = &askers[i];
        *a = (struct asker){.n = n, .shard = (uint16_t)(i % n->shards_count)};
        a->request.context = a;
        a->request.on_done = on_done;
        cluster_ensure_internal_topic(sim_node_cluster(n, a->shard), &a->request, INTERNAL.name);
    }
    for (int i = 0; i < count; i++) {
        cr_assert(sim_node_run_until(n, &askers[i].is_done));
        cr_assert(eq(int, askers[i].e, ERR_OK));
    }
}

Test(internal_topics, many_shards_ask_at_once_and_it_is_made_once)
{
    struct disk_sim *disk = new_disk();
    struct asker askers[ASKERS_MAX];
    struct uuid id = {{0}};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct sim_node *n = new_node(disk, (uint16_t)seed, seed);
        ask(n, askers, ASKERS_MAX);
        const struct metadata *m = cluster_metadata(sim_node_cluster(n, 0));
        const struct topic *t = metadata_topic_by_name(m, slice_of_string(INTERNAL.name));
        cr_assert(seed == 1 || uuid_equal(&t->id, &id), "it is the one of the first start");
        id = t->id;
        cr_assert(eq(i64, produce(n, 0, &id, 4, 1), (int64_t)seed - 1));
        sim_node_stop(n);
        free(n);
    }
    disk_sim_free(disk);
}
