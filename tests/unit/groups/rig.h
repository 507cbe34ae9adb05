/* A coordinator in a test: two of them, as on a leader and on a follower, over a log in memory. The
 * test sends calls, moves the clock, and decides what becomes of each batch that is proposed.
 *
 *   struct rig *r = rig_new();
 *   struct rig_call *call = rig_send(r, GROUP_HEARTBEAT, 4, "g", &in);
 *   const struct heartbeat_response *out = rig_answer(call);
 *   rig_free(r);
 *
 * After each step everything is checked: coordinator_check of both, and that both have the same
 * digest.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/settings.h"
#include "core/arena.h"
#include "core/logger.h"
#include "core/rand.h"
#include "core/reached.h"
#include "groups/coordinator.h"
#include "groups/matching.h"
#include "groups/memory.h"
#include "groups/proposal.h"
#include "groups/settings.h"

enum {
    RIG_PROPOSALS_MAX = 256,
    RIG_MARKS_MAX = 64,
};

/* One of the two brokers. */
struct rig_node {
    struct rig *r;
    struct coordinator_env env;
    struct group_memory memory;
    struct group_counters counters;
    struct matching matching;
    struct rand rand;
    struct coordinator *c;
};

struct rig_batch {
    uint8_t *bytes;
    size_t size;
};

struct rig {
    struct cluster_settings cluster;
    struct groups_settings settings;   /* Both nodes look here: may be changed at any time. */
    struct groups_intervals intervals; /* Of every group. */
    struct metadata *metadata;
    struct logger log;
    struct reached reached;
    struct arena arena; /* What requests point to. */
    struct rig_node nodes[2];
    struct rig_node *leader;
    struct rig_node *follower;
    struct group_time now;
    uint64_t topics_count; /* Of those made: their ids. */

    /* Batches that were proposed and not decided, in order. */
    struct proposal *proposals[RIG_PROPOSALS_MAX];
    size_t proposals_count;
    bool is_holding;     /* Else they are decided right after each step, as the next says: */
    enum err append_err; /* ERR_OK = committed. */

    struct rig_batch *batches; /* The log. */
    size_t batches_count;
    struct list calls; /* struct rig_call, answered or not. */
    const char *marks[RIG_MARKS_MAX];
    size_t marks_count;
};

struct rig_call {
    struct group_call call;
    struct list link;
    struct rig *r;
    bool is_answered;
};

/* With defaults of Kafka, an active leader, no topics, no initial rebalance delay. */
struct rig *rig_new(void);
/* Cancels what still waits, decides what is proposed, resigns, frees; nothing may be left over. */
void rig_free(struct rig *r);

/* ---- calls ---- */

/* Memory for requests; as long as the rig. */
void *rig_alloc(struct rig *r, size_t count, size_t size);
struct slice rig_text(struct rig *r, const char *text); /* NULL stays null. */

/* A call that may be filled before rig_start: client_id "client", client_host "/127.0.0.1". */
struct rig_call *rig_call_new(
    struct rig *r, enum group_call_kind kind, int16_t version, const char *group, const void *in);
void rig_start(struct rig_call *call);
/* Both. `in` must stay as it is until the answer. */
struct rig_call *rig_send(
    struct rig *r, enum group_call_kind kind, int16_t version, const char *group, const void *in);
/* The connection is gone. */
void rig_cancel(struct rig_call *call);
/* Its answer; the test fails if there is none yet. */
const void *rig_answer(const struct rig_call *call);

/* ---- time and batches ---- */

/* Time passes; every deadline on the way fires when it is due. */
void rig_pass_ms(struct rig *r, uint64_t ms);
/* A record that the log has from before, or from somebody else. */
void rig_record(struct rig *r, struct slice key, struct slice value);
/* Decides the oldest n undecided batches, or all. */
void rig_commit(struct rig *r, size_t n);
void rig_commit_all(struct rig *r);
void rig_fail_all(struct rig *r, enum err e);

/* ---- brokers ---- */

/* The leader resigns. What it proposed is still undecided: rig_commit_all lets it be committed. */
void rig_resign(struct rig *r);
/* The follower takes over; resigns the leader if that was not done. Undecided batches are lost:
 * the log of the new leader does not have them. */
void rig_handover(struct rig *r);
/* The leader starts afresh from the log, without what was undecided. The state is compared: what
 * ran, what the whole log gives, what a compacted log gives, and that without tombstones. */
void rig_restart(struct rig *r);

/* ---- the rest ---- */

/* A topic of so many partitions, or more of them for one that exists. Tells the leader. */
void rig_topic(struct rig *r, const char *name, int32_t partitions_count);
/* A new one with this id. */
void rig_topic_as(struct rig *r, const char *name, int32_t partitions_count, const struct uuid *id);
void rig_topic_delete(struct rig *r, const char *name);
bool rig_has_reached(const struct rig *r, const char *mark);
/* Of everything. */
void rig_check(const struct rig *r);
