#include "tests/support/sim_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/store_merge.h"

enum {
    MEMORY_SIZE = 32 << 20,
    MEMORY_RESERVE_SIZE = 8 << 20,
};

static void on_log_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct sim_node *n = l->context;
    size_t used = strlen(n->log_text);
    if (used + size + 2 > sizeof(n->log_text)) {
        used = 0;
    }
    if (size + 2 <= sizeof(n->log_text)) {
        memcpy(n->log_text + used, line, size);
        memcpy(n->log_text + used + size, "\n", 2);
    }
}

static int64_t wall_ms(struct logger *l)
{
    struct sim_node *n = l->context;
    return clock_wall_ms(&n->clock.clock);
}

static void on_wait(void *context, uint64_t next_us)
{
    struct sim_node *n = context;
    assert(next_us != UINT64_MAX);
    if (next_us > n->clock.now_us) {
        n->clock.now_us = next_us;
    }
}

static void shard_start(struct sim_node *n, uint16_t id)
{
    struct sim_node_shard *ns = &n->shards[id];
    io_sim_init(&ns->io_sim,
                &(struct io_sim_options){
                    .disk = n->disk,
                    .clock = &n->clock.clock,
                    .rand_seed = rand_u64(&n->rand) | 1,
                    .transfer = {.min_us = 20, .max_us = 200},
                    .sync = {.min_us = 50, .max_us = 500},
                    .other = {.min_us = 5, .max_us = 50},
                    .short_one_in = 20,
                    .on_wait = on_wait,
                    .context = n,
                });
    io_fault_init(&ns->io_fault, &ns->io_sim.backend, &n->clock.clock);
    ns->s = calloc(1, sizeof(*ns->s));
    assert(ns->s != NULL);
    enum err e = shard_init(ns->s,
                            n->group,
                            id,
                            &(struct shard_options){
                                .backend = &ns->io_fault.backend,
                                .clock = &n->clock.clock,
                                .log = &n->logger,
                                .rand_seed = rand_u64(&n->rand) | 1,
                                .memory_size = MEMORY_SIZE,
                                .memory_reserve_size = MEMORY_RESERVE_SIZE,
                            });
    assert_cmp(e, ==, ERR_OK);
}

static void make_data_dir(struct sim_node *n, const char *path)
{
    struct io_op op = {.kind = IO_MKDIR, .path = path};
    enum err e = io_call(&n->shards[0].s->io, &op);
    assert(e == ERR_OK || e == ERR_EXISTS);
    op = (struct io_op){.kind = IO_FSYNC_DIR, .path = "/"};
    e = io_call(&n->shards[0].s->io, &op);
    assert_cmp(e, ==, ERR_OK);
}

/* What data_dir_open does beside, for another number of shards. */
static void merge_stores(struct sim_node *n, const struct cluster_data_dir *dir)
{
    char *path = NULL;
    enum err e = store_merge(n->shards[0].s, dir->path, &dir->id, &path);
    if (e != ERR_OK) {
        panic("cannot merge stores: path=%s error=%s", path, err_name(e));
    }
    free(path);
}

static void make_data_dirs(struct sim_node *n)
{
    static const char *const paths[SIM_NODE_DIRS_MAX] = {"/data", "/more", "/most"};
    for (uint8_t i = 0; i < SIM_NODE_DIRS_MAX; i++) {
        make_data_dir(n, paths[i]);
        n->data_dirs[i] = (struct cluster_data_dir){
            .path = paths[i],
            .id = {.bytes = {[15] = (uint8_t)(i + 7)}},
            .device_id = i,
            .is_flush_shared = true,
        };
        merge_stores(n, &n->data_dirs[i]);
    }
}

static void on_fatal(void *context, enum err e, const char *what)
{
    (void)e;
    (void)what;
    struct sim_node *n = context;
    n->has_fatal = true;
}

void sim_node_init(struct sim_node *n, struct disk_sim *disk, uint16_t shards_count, uint64_t seed)
{
    assert_cmp(shards_count, <=, SIM_NODE_SHARDS_MAX);
    memset(n, 0, sizeof(*n));
    n->disk = disk;
    n->shards_count = shards_count;
    rand_init_seed(&n->rand, seed);
    clock_init_sim(&n->clock, 1000, 1700000000000);
    n->logger =
        (struct logger){.level = LOG_INFO, .sink = on_log_line, .context = n, .wall_ms = wall_ms};
    enum err e = shard_group_new(shards_count, &n->group);
    assert_cmp(e, ==, ERR_OK);
    for (uint16_t i = 0; i < shards_count; i++) {
        shard_start(n, i);
    }
    cluster_settings_init(&n->settings);
    make_data_dirs(n);
    n->settings.node_id = 1;
    n->settings.data_dirs = n->data_dirs;
    n->settings.data_dirs_count = 1;
    n->settings.retention_check_us = 0; /* So that the clock does not run away. */
    n->settings.on_fatal = on_fatal;
    n->settings.fatal_context = n;
}

/* ---- running ---- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool sim_node_step(struct sim_node *n)
{
    bool has_run = false;
    for (uint16_t i = 0; i < n->shards_count; i++) {
        has_run |= shard_turn(n->shards[i].s);
    }
    if (has_run) {
        return true;
    }
    uint64_t next = UINT64_MAX;
    for (uint16_t i = 0; i < n->shards_count; i++) {
        next = min_u64(next, shard_next_us(n->shards[i].s));
        next = min_u64(next, io_sim_next_us(&n->shards[i].io_sim));
        next = min_u64(next, io_fault_next_us(&n->shards[i].io_fault));
    }
    if (next == UINT64_MAX) {
        return false;
    }
    if (next > n->clock.now_us) {
        n->clock.now_us = next;
    }
    return true;
}

bool sim_node_run_until(struct sim_node *n, const bool *is_done)
{
    while (!*is_done && sim_node_step(n)) {
    }
    return *is_done;
}

void sim_node_run(struct sim_node *n, int steps)
{
    while (steps-- > 0 && sim_node_step(n)) {
    }
}

bool sim_node_has_logged(const struct sim_node *n, const char *text)
{
    return strstr(n->log_text, text) != NULL;
}

/* ---- life ---- */

static void on_started(void *context, enum err e, const char *why)
{
    struct sim_node *n = context;
    assert(!n->is_started);
    n->is_started = true;
    n->error = e;
    (void)snprintf(n->why, sizeof(n->why), "%s", why);
}

enum err sim_node_start(struct sim_node *n)
{
    enum err e = cluster_set_new(&n->settings, n->shards_count, &n->set);
    assert_cmp(e, ==, ERR_OK);
    cluster_start(n->set, n->shards[0].s, n, on_started);
    bool is_done = sim_node_run_until(n, &n->is_started);
    assert(is_done);
    return n->error;
}

static void on_stopped(void *context)
{
    struct sim_node *n = context;
    n->is_stopped = true;
}

static void end_shards(struct sim_node *n)
{
    for (uint16_t i = 0; i < n->shards_count; i++) {
        shard_done(n->shards[i].s);
        io_fault_done(&n->shards[i].io_fault);
        io_sim_done(&n->shards[i].io_sim);
    }
    shard_group_free(n->group);
    for (uint16_t i = 0; i < n->shards_count; i++) {
        free(n->shards[i].s);
    }
}

void sim_node_stop(struct sim_node *n)
{
    cluster_stop(n->set, n->shards[0].s, n, on_stopped);
    bool is_done = sim_node_run_until(n, &n->is_stopped);
    assert(is_done);
    while (sim_node_step(n)) {
    }
    if (n->on_quiet != NULL) {
        n->on_quiet(n->quiet_context);
    }
    cluster_set_free(n->set);
    end_shards(n);
}

void sim_node_crash(struct sim_node *n, const struct disk_sim_crash *how)
{
    for (uint16_t i = 0; i < n->shards_count; i++) {
        io_sim_abandon(&n->shards[i].io_sim);
    }
    struct disk_sim_crash drawn = disk_sim_crash_draw(&n->rand);
    disk_sim_crash(n->disk, &n->rand, how == NULL ? &drawn : how);
}

struct cluster *sim_node_cluster(struct sim_node *n, uint16_t shard_id)
{
    return cluster_set_get(n->set, shard_id);
}

/* ---- operations ---- */

static void on_request_done(struct controller_request *r)
{
    *(bool *)r->context = true;
}

static enum err run_request(struct sim_node *n, uint16_t shard_id, struct controller_request *r)
{
    bool is_done = false;
    r->on_done = on_request_done;
    r->context = &is_done;
    controller_submit(sim_node_cluster(n, shard_id), r);
    bool has_ended = sim_node_run_until(n, &is_done);
    assert(has_ended);
    return r->result;
}

enum err sim_node_create_topic(struct sim_node *n,
                               uint16_t shard_id,
                               const char *name,
                               int32_t partitions_count,
                               struct uuid *ret_id)
{
    struct controller_request r = {
        .kind = CONTROLLER_CREATE_TOPIC,
        .in.create_topic =
            {
                .name = slice_of_string(name),
                .partitions_count = partitions_count,
                .replication_factor = 1,
            },
    };
    enum err e = run_request(n, shard_id, &r);
    if (e == ERR_OK) {
        *ret_id = r.out.create_topic.id;
    }
    return e;
}

enum err sim_node_create_topic_with(struct sim_node *n,
                                    const char *name,
                                    int32_t partitions_count,
                                    const struct config_pair *configs,
                                    uint32_t configs_count,
                                    struct uuid *ret_id)
{
    struct controller_request r = {
        .kind = CONTROLLER_CREATE_TOPIC,
        .in.create_topic =
            {
                .name = slice_of_string(name),
                .partitions_count = partitions_count,
                .replication_factor = 1,
                .configs = configs,
                .configs_count = configs_count,
            },
    };
    enum err e = run_request(n, 0, &r);
    if (e == ERR_OK) {
        *ret_id = r.out.create_topic.id;
    }
    return e;
}

enum err sim_node_create_partitions(struct sim_node *n,
                                    uint16_t shard_id,
                                    const char *name,
                                    int32_t partitions_count)
{
    struct controller_request r = {
        .kind = CONTROLLER_CREATE_PARTITIONS,
        .in.create_partitions =
            {
                .name = slice_of_string(name),
                .partitions_count = partitions_count,
                .assignments_count = -1,
            },
    };
    return run_request(n, shard_id, &r);
}

enum err sim_node_alter_broker(
    struct sim_node *n, uint16_t shard_id, const char *broker, const char *name, const char *value)
{
    const struct config_change change = {
        .operation = value == NULL ? CONFIG_DELETE : CONFIG_SET,
        .name = slice_of_string(name),
        .value = slice_of_string(value),
    };
    struct controller_request r = {
        .kind = CONTROLLER_ALTER_CONFIGS,
        .in.alter_configs =
            {
                .name = slice_of_string(broker),
                .changes = {.kind = CONFIG_RESOURCE_BROKER, .changes = &change, .count = 1},
            },
    };
    return run_request(n, shard_id, &r);
}

enum err sim_node_delete_topic(struct sim_node *n, uint16_t shard_id, const char *name)
{
    struct controller_request r = {
        .kind = CONTROLLER_DELETE_TOPIC,
        .in.delete_topic.name = slice_of_string(name),
    };
    return run_request(n, shard_id, &r);
}

int64_t sim_node_allocate_producer_id(struct sim_node *n, uint16_t shard_id)
{
    struct controller_request r = {.kind = CONTROLLER_ALLOCATE_PRODUCER_ID};
    enum err e = run_request(n, shard_id, &r);
    return e == ERR_OK ? r.out.allocate_producer_id.producer_id : -1;
}

static void on_op_done(struct partition_op *op)
{
    *(bool *)op->context = true;
}

enum err sim_node_partition_op(struct sim_node *n, uint16_t shard_id, struct partition_op *op)
{
    bool is_done = false;
    op->on_done = on_op_done;
    op->context = &is_done;
    cluster_partition_submit(sim_node_cluster(n, shard_id), op);
    bool has_ended = sim_node_run_until(n, &is_done);
    assert(has_ended);
    return op->result;
}
