/* The coordinator of the groups of one partition of __consumer_offsets: an engine. Calls, committed
 * records and time go in; answers and batches to append come out, through the functions of its
 * environment. No I/O; the driver (groups.h) appends, replays and wakes it.
 *
 * Rules:
 *  1. What must outlive this process is a function of the partition's committed records, through
 *     coordinator_apply alone: at a restart, on a follower, and for the coordinator's own batches
 *     once they are committed. coordinator_digest is equal on all who applied the same records.
 *  2. Nothing is judged against what is not committed. A call is judged against the applied state
 *     and, where that must change, proposes a batch; it is answered when the batch is applied. So a
 *     batch that fails needs no undoing.
 *  3. One thing at a time per group: while a batch that changes a group's members is under way,
 *     further calls of that group wait in order (group.h, the gate). Offset commits do not wait for
 *     each other.
 *  4. A coordinator applies always, and answers only while it is active (the leader of its
 *     partition). What only the active one knows (who waits for a rebalance, sessions, deadlines)
 *     starts afresh when it becomes active: every member gets its whole session.
 *  5. Every call is answered exactly once: by what it asked, or with NOT_COORDINATOR when the
 *     coordinator resigns.
 *
 *   APPLYING <-> ACTIVE
 *
 * Shard: the one that owns the partition.
 */
#pragma once

#include <stdint.h>

#include "cluster/metadata.h"
#include "core/err.h"
#include "core/slice.h"
#include "groups/call.h"

struct coordinator;
struct group_memory;
struct groups_intervals; /* groups/settings.h, as the next. */
struct groups_settings;
struct logger;
struct matching;
struct proposal;
struct rand;
struct reached;

/* The time of an event. */
struct group_time {
    uint64_t now_us; /* Never goes back; deadlines (group_clock.h). */
    int64_t wall_ms; /* May jump; timestamps in records. */
};

/* Of all coordinators of a shard there were: none falls when one goes. */
struct group_counters {
    uint64_t records_unknown; /* Of types that this version does not know. */
    uint64_t commits;         /* OffsetCommit requests that stored something. */
    uint64_t rebalances;      /* Generations, or group epochs, begun. */
    uint64_t offsets_expired;
    uint64_t groups_expired; /* Without members, and their last offsets were. */
    uint64_t groups_deleted; /* By DeleteGroups. */
};

/* What coordinators of one shard share. Must outlive them. */
struct coordinator_env {
    const struct groups_settings *settings;
    const struct metadata *metadata; /* This shard's; read at every event. */
    struct group_memory *memory;     /* What all groups of this shard may take. */
    struct group_counters *counters;
    struct matching *matching; /* Whose turn it is to match patterns. */
    uint64_t hash_seed;
    struct rand *rand; /* For the member ids that the coordinator makes. */
    struct logger *log;
    struct reached *reached; /* May be NULL; reached(env, "...") */
    void *context;
    /* What is in effect for a group of the new protocol now. */
    void (*intervals)(void *context, struct slice group_id, struct groups_intervals *ret);
    /* To be appended after all that was proposed before; coordinator_on_appended ends it, never
     * inside this call. p's bytes are proposal_batch's. */
    void (*append)(void *context, struct coordinator *c, struct proposal *p);
    /* The call is over; the engine forgets it. */
    void (*answer)(void *context, struct group_call *call);
};

/* ERR_BUSY without memory. */
enum err coordinator_new(const struct coordinator_env *env,
                         int32_t partition,
                         struct coordinator **ret_coordinator);
/* Resigned, and no proposal in flight. Accepts NULL. */
void coordinator_free(struct coordinator *c);

/* The next committed batch of the partition. Records of types that this version does not know are
 * passed over, and counted. ERR_BUSY without memory (the coordinator is then of no use any more);
 * ERR_CORRUPT for records that are not what their type says, all others were applied. */
enum err coordinator_apply(struct coordinator *c, struct slice batch);

/* It leads the partition, and has applied all that was committed before. */
void coordinator_activate(struct coordinator *c, struct group_time now);
/* It does not lead any more: all calls get NOT_COORDINATOR, proposals in flight count for nothing
 * until coordinator_apply sees them. */
void coordinator_resign(struct coordinator *c);
bool coordinator_is_active(const struct coordinator *c);
/* A committed batch of its own could not be applied for want of memory: its state is not that of
 * the log any more. It has to resign, and another one to be loaded. */
bool coordinator_is_broken(const struct coordinator *c);
int32_t coordinator_partition(const struct coordinator *c);

/* Active only. Answers at once, or later. */
void coordinator_call(struct coordinator *c, struct group_call *call, struct group_time now);
/* Nobody waits for the answer any more: it comes at once if it waited for others or for news, else
 * when the call was carried out. */
void coordinator_cancel(struct coordinator *c, struct group_call *call, struct group_time now);

/* Adds the groups that match to call->out, the answer of a LIST, which has room for
 * coordinator_groups_count more, and does not end the call. False
 * if the answer got too large: call->is_out_of_memory. */
bool coordinator_list(struct coordinator *c, struct group_call *call);

/* p was committed (then it is applied, its records are not handed to coordinator_apply again), or
 * e says why it never will be. In the order of the proposals. Frees p. Of one that was proposed
 * before a resign nothing is applied: who goes on with this coordinator hands its records to
 * coordinator_apply, where the log has them. */
void coordinator_on_appended(struct coordinator *c,
                             struct proposal *p,
                             enum err e,
                             struct group_time now);

/* Something in the metadata changed: topics, their partitions, configurations of groups. Groups are
 * told in the ticks that follow, some in each. */
void coordinator_on_metadata(struct coordinator *c, struct group_time now);

/* Deadlines. UINT64_MAX = none. Does a bounded part per call: ask again for the deadline. */
uint64_t coordinator_deadline_us(const struct coordinator *c);
void coordinator_tick(struct coordinator *c, struct group_time now);

/* The turn of a group to match its pattern, when matching_deadline_us says so. Returns the
 * coordinator whose group it was: its deadline may be another. */
struct coordinator *coordinator_match(struct matching *m, struct group_time now);

struct slice proposal_batch(const struct proposal *p);

/* A digest of the durable state, for tests and the simulator: see rule 1. */
uint64_t coordinator_digest(const struct coordinator *c);
/* All invariants; for tests and the simulator. */
void coordinator_check(const struct coordinator *c);
uint32_t coordinator_groups_count(const struct coordinator *c);
