/* One broker's clusters on simulated shards and one simulated disk, for unit tests of cluster/: no
 * threads, no real time, no files. The disk outlives the node, so that a test can crash it and
 * start again, with another number of shards.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/settings.h"
#include "core/disk_sim.h"
#include "core/io_fault.h"
#include "core/io_sim.h"
#include "core/shard.h"

enum {
    SIM_NODE_SHARDS_MAX = 4,
    SIM_NODE_DIRS_MAX = 3, /* /data, /more, /most; one of them unless settings say otherwise. */
    SIM_NODE_LOG_SIZE = 64 << 10,
};

struct sim_node_shard {
    struct shard *s;
    struct io_sim io_sim;
    struct io_fault io_fault;
};

struct sim_node {
    struct disk_sim *disk; /* The caller's. */
    struct clock_sim clock;
    struct rand rand;
    struct shard_group *group;
    uint16_t shards_count;
    struct sim_node_shard shards[SIM_NODE_SHARDS_MAX];
    struct logger logger;
    char log_text[SIM_NODE_LOG_SIZE];

    struct cluster_data_dir data_dirs[SIM_NODE_DIRS_MAX]; /* Likewise. */
    struct cluster_settings settings; /* May be changed before sim_node_start. */
    struct cluster_set *set;
    bool is_started; /* on_started came. */
    bool is_stopped;
    bool has_fatal;
    /* In sim_node_stop, when the clusters have stopped and the shards are still there; or NULL. */
    void (*on_quiet)(void *context);
    void *quiet_context;
    enum err error;
    char why[512];
};

/* Shards without clusters yet. */
void sim_node_init(struct sim_node *n, struct disk_sim *disk, uint16_t shards_count, uint64_t seed);
/* Starts and waits for on_started; returns its error. */
enum err sim_node_start(struct sim_node *n);
/* Stops the clusters and ends the shards. After sim_node_start, whatever it said. */
void sim_node_stop(struct sim_node *n);
/* The machine loses power, or the process dies, as drawn from the seed or as said. What modules had
 * allocated leaks, as it does when a process dies. */
void sim_node_crash(struct sim_node *n, const struct disk_sim_crash *how);

/* One turn of every shard; when nothing ran, the clock moves on. False if nothing will ever happen
 * again. */
bool sim_node_step(struct sim_node *n);
bool sim_node_run_until(struct sim_node *n, const bool *is_done);
/* At most steps steps. */
void sim_node_run(struct sim_node *n, int steps);
bool sim_node_has_logged(const struct sim_node *n, const char *text);

struct cluster *sim_node_cluster(struct sim_node *n, uint16_t shard_id);

/* Creates a topic from the given shard and waits; request errors come back. */
enum err sim_node_create_topic(struct sim_node *n,
                               uint16_t shard_id,
                               const char *name,
                               int32_t partitions_count,
                               struct uuid *ret_id);
enum err sim_node_create_topic_with(struct sim_node *n,
                                    const char *name,
                                    int32_t partitions_count,
                                    const struct config_pair *configs,
                                    uint32_t configs_count,
                                    struct uuid *ret_id);
/* Gives a topic more partitions, likewise. */
enum err sim_node_create_partitions(struct sim_node *n,
                                    uint16_t shard_id,
                                    const char *name,
                                    int32_t partitions_count);
/* Sets, or with NULL deletes, a configuration of a broker ("" = of all), likewise. */
enum err sim_node_alter_broker(
    struct sim_node *n, uint16_t shard_id, const char *broker, const char *name, const char *value);
enum err sim_node_delete_topic(struct sim_node *n, uint16_t shard_id, const char *name);
int64_t sim_node_allocate_producer_id(struct sim_node *n, uint16_t shard_id);
/* Submits op from the given shard and waits; returns its result. */
enum err sim_node_partition_op(struct sim_node *n, uint16_t shard_id, struct partition_op *op);
