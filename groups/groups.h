/* One shard's door to all groups: calls, by message to the shard that has the group's coordinator
 * and home again; and the driver of the coordinators on this shard: they get their partitions'
 * records, their appends, and their time here.
 *
 *   a partition of __consumer_offsets on this shard:
 *   none -> LOADING (its records are replayed) -> ACTIVE -> resigned at the stop
 *               | \-> FAILED (it cannot be read: COORDINATOR_NOT_AVAILABLE, one log line)
 *               \-> RESTING (no memory for it) -> LOADING, after some seconds
 *
 * For want of memory to apply what is committed, an ACTIVE one resigns and is LOADING again.
 *
 * A call for a coordinator that loads waits for it, and gets COORDINATOR_LOAD_IN_PROGRESS if many
 * wait already (a Heartbeat no error at once, as in Kafka). One for a coordinator that is not here
 * gets NOT_COORDINATOR.
 *
 * While this process stands still, so does the time of the coordinators (group_clock.h).
 *
 * Shard: every shard of a broker has one struct groups; all calls on the shard that owns it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/xmsg.h"
#include "groups/call.h"
#include "groups/limits.h"

struct cluster;
struct cluster_set;
struct groups;
struct groups_set; /* The groups of all shards of one broker. */
struct groups_settings;
struct shard;

/* Before any shard runs, or on any thread while no other uses the result; settings must outlive
 * them. ERR_BUSY without memory. */
enum err groups_set_new(const struct groups_settings *settings,
                        uint16_t shards_count,
                        struct groups_set **ret_set);
/* All stopped, or never started. Accepts NULL. */
void groups_set_free(struct groups_set *set);
struct groups *groups_set_get(struct groups_set *set, uint16_t shard_id);

/* On each shard, once the cluster is started: loads the coordinators that are at home here. */
void groups_start(struct groups *g, struct shard *s, struct cluster *c);
/* Topics or configurations changed; cheap, looked at a little later. */
void groups_on_metadata(struct groups *g);
/* What an operator has to know of the groups of all shards: of shard 0. Returns how many there are.
 */
uint32_t groups_problems(const struct groups *g, struct group_problem ret[GROUP_LIMIT_COUNT]);
/* The first step of a stop: all calls are answered, further ones get NOT_COORDINATOR. Harmless if
 * never started. */
void groups_quiesce(struct groups *g);
/* The last: the cluster has stopped, nothing is in flight. */
void groups_stop(struct groups *g);

/* The partition of __consumer_offsets that has a group, of count: as Kafka's, so that tools which
 * read the topic find what they expect. */
int32_t groups_partition_of(struct slice group_id, int32_t count);

/* Its fields up to `out` are filled in. */
void groups_submit(struct groups *g, struct group_call *call);
/* GROUP_LIST of the groups of one shard. */
void groups_submit_list(struct groups *g, uint16_t shard_id, struct group_call *call);

/* How long a change may take to become durable before its client is told to ask again. */
uint64_t groups_commit_timeout_us(const struct groups *g);

/* Nobody waits for the answer any more: it comes soon. Asking twice is harmless. The call must stay
 * until its own on_done and the cancel's. */
struct group_cancel {
    struct group_call *call;
    bool is_client_gone; /* It gave up; else it has sent more. */
    void (*on_done)(struct group_cancel *cancel);
    struct xmsg msg; /* Private, as what follows. */
    struct xmsg_hop route[2];
    struct groups *server;
};
void groups_cancel(struct groups *g, struct group_cancel *cancel);
