/* The controller, an engine: requests are judged against its state and become commands; commands
 * that are in group 0's log change the state. No I/O: the driver (controller_driver.h) appends,
 * waits and broadcasts.
 *
 * Rules:
 *  1. Propose changes nothing. The driver appends the command to the log and, only if the log took
 *     it, applies it here in the same turn. So the next request is judged with it in place (as
 *     Kafka's KRaft controller does), although nobody is told before it is committed.
 *  2. The state is a function of the log's commands alone: no clock, no randomness; ids come in.
 *  3. A deleted topic is remembered until its owners have removed its logs (TOPIC_PURGED): a crash
 *     in between must not leave them on disk for ever.
 *  4. The data directory of each partition is picked here, once, and stands in the command
 *     (topic_places.h).
 *  5. A producer id is handed out once: blocks are taken by a command before their first use, and
 *     what a stop leaves of a block is never used.
 *
 * Shard: shard 0.
 */
#pragma once

#include <stdint.h>

#include "cluster/commands.h"
#include "cluster/config_change.h"
#include "cluster/metadata.h"
#include "cluster/placement.h"
#include "cluster/settings.h"
#include "cluster/topic_name.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"
#include "core/wbuf.h"

enum {
    CONTROLLER_WHY_SIZE = TOPIC_NAME_WHY_SIZE,
    PRODUCER_IDS_PER_BLOCK = 1000,
    CONTROLLER_NODES_MAX = 1024,
};

struct controller;

struct controller *controller_new(const struct cluster_settings *settings, uint64_t hash_seed);
/* Accepts NULL. */
void controller_free(struct controller *ct);

/* One command of the log, in order.
 *   ERR_NEWER_FORMAT  written by a newer version of the program
 *   ERR_FOREIGN       the log of another cluster
 *   ERR_CORRUPT       not a command, or one that contradicts those before it
 */
enum err controller_apply(struct controller *ct, struct slice command);

/* ---- proposals: on success a command in w, else why says what to do ---- */

struct controller_topic {
    struct uuid id; /* Fresh. */
    struct slice name;
    int32_t partitions_count;   /* -1 = default; resolved on success. */
    int16_t replication_factor; /* Likewise. */
    const struct config_pair *configs;
    uint32_t configs_count;
    /* Where its partitions may go, with what is free there; at least one, at most
     * COMMAND_DIRECTORIES_MAX. The counts are the engine's business. */
    const struct placement_directory *directories;
    uint32_t directories_count;
};

/* ERR_TOPIC_NAME_INVALID, ERR_INVALID (a reserved name), ERR_TOPIC_EXISTS, ERR_PARTITIONS_INVALID,
 * ERR_REPLICATION_INVALID, ERR_CONFIG_INVALID, ERR_TOO_LARGE */
enum err controller_propose_topic(const struct controller *ct,
                                  struct controller_topic *topic,
                                  struct wbuf *w,
                                  char why[CONTROLLER_WHY_SIZE]);
enum {
    CONTROLLER_NO_ASSIGNMENTS = -1,
};

struct controller_growth {
    struct slice name;
    int32_t partitions_count;  /* All that it shall have. */
    int32_t assignments_count; /* How many replica lists came with it, or NO_ASSIGNMENTS. */
    const struct placement_directory *directories; /* As of struct controller_topic. */
    uint32_t directories_count;
};

/* ERR_TOPIC_UNKNOWN, ERR_POLICY (an internal topic), ERR_PARTITIONS_INVALID, ERR_ASSIGNMENT_INVALID
 */
enum err controller_propose_partitions(const struct controller *ct,
                                       const struct controller_growth *growth,
                                       struct wbuf *w,
                                       char why[CONTROLLER_WHY_SIZE]);
/* By id, or by name if id is zero. ERR_TOPIC_UNKNOWN, ERR_POLICY (an internal topic) */
enum err controller_propose_delete(const struct controller *ct,
                                   const struct uuid *id,
                                   struct slice name,
                                   struct wbuf *w,
                                   char why[CONTROLLER_WHY_SIZE]);
/* name: of the topic, broker, group or subscription. ERR_TOPIC_UNKNOWN, ERR_CONFIG_INVALID,
 * ERR_INVALID, ERR_TOO_LARGE */
enum err controller_propose_configs(const struct controller *ct,
                                    struct slice name,
                                    const struct config_changes *changes,
                                    struct wbuf *w,
                                    char why[CONTROLLER_WHY_SIZE]);
/* These cannot be refused. */
void controller_propose_purged(const struct uuid *id, struct wbuf *w);
void controller_propose_producer_ids(const struct controller *ct, int32_t node_id, struct wbuf *w);
void controller_propose_node(int32_t node_id,
                             const struct uuid *incarnation,
                             const char *rack,
                             struct slice directories,
                             struct wbuf *w);
/* False if the level is set already: nothing to do. */
bool controller_propose_feature_level(const struct controller *ct, struct wbuf *w);

/* ---- questions ---- */

const struct cluster_settings *controller_settings(const struct controller *ct);
/* Includes what is appended but not committed yet. */
const struct metadata *controller_metadata(const struct controller *ct);
uint32_t controller_nodes_count(const struct controller *ct);
uint64_t controller_partitions_count(const struct controller *ct);
/* The first id that no block has. */
int64_t controller_producer_id_next(const struct controller *ct);

/* A data directory that the node has registered, or that has partitions. */
struct controller_directory {
    struct uuid id;
    bool is_registered;
    uint64_t partitions_count;
};
uint32_t controller_directories_count(const struct controller *ct);
const struct controller_directory *controller_directory_at(const struct controller *ct,
                                                           uint32_t index);
/* 0 if it is unknown. */
uint64_t controller_directory_partitions(const struct controller *ct, const struct uuid *id);

struct controller_deleted {
    struct uuid id;
    int32_t partitions_count;
};
uint32_t controller_deleted_count(const struct controller *ct);
const struct controller_deleted *controller_deleted_at(const struct controller *ct, uint32_t index);

/* Appends a stream of commands that gives an empty controller, or image, this state. */
void controller_snapshot(const struct controller *ct, struct wbuf *stream);

/* All invariants. */
void controller_check(const struct controller *ct);
