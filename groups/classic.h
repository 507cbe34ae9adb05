/* Members of the classic protocol in one group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (Kafka
 * protocol facts: shared PROTOCOL 17; KIP-62, KIP-134, KIP-345, KIP-394, KIP-559, KIP-800,
 * KIP-814).
 *
 *   EMPTY -> PREPARING -> COMPLETING -> STABLE     any -> DEAD (gone)
 *     ^        |  ^          |   ^        |
 *     +--------+  +----------+---+--------+
 *
 * Durable is what GroupMetadataValue holds: written when a generation becomes stable, when the
 * group becomes empty, and when a static member takes the place of its former self. A rebalance
 * under way is not: it is gone with its coordinator, and members come again.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/slice.h"
#include "groups/call.h"
#include "groups/name_table.h"

struct coordinator;
struct group;

/* Exclusive calls, behind the gate. */
void classic_join(struct group *g, struct group_call *call);
void classic_sync(struct group *g, struct group_call *call);
void classic_heartbeat(struct group *g, struct group_call *call);
void classic_leave(struct group *g, struct group_call *call);
/* Refuses a JOIN, and tells another member id than the client's. */
void classic_refuse_join(struct group *g,
                         struct group_call *call,
                         enum kafka_error e,
                         struct slice member_id);
/* Fills the answer of a DESCRIBE: of any group, also one that does not exist, or has only offsets
 * or members of the new protocol. */
void classic_describe(struct group *g, struct group_call *call);

/* Records of type 2. */
enum err classic_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value);

void classic_activate(struct group *g);
/* Answers what is kept with NOT_COORDINATOR, forgets what is not durable. */
void classic_resign(struct group *g);
void classic_free(struct group *g);
uint64_t classic_digest(const struct group *g);
void classic_check(const struct group *g);

/* ---- for the other modules ---- */

/* "Empty", "PreparingRebalance", "CompletingRebalance", "Stable". */
const char *classic_state_name(const struct group *g);
bool classic_has_members(const struct group *g);
/* "" if there is none. */
struct slice classic_protocol_type(const struct group *g);
/* Whether a member may commit: the errors of OffsetCommit in each state. Counts as a heartbeat. */
struct offset_commit_request;
enum kafka_error
classic_check_commit(struct group *g, const struct offset_commit_request *in, int16_t version);
/* The topics that members subscribe to, of all of them read at once. Good until one changes. */
struct classic_topics {
    bool is_all; /* It cannot be known: protocol types but "consumer", members that cannot be read.
                  */
    struct name_table names;
    struct arena arena;
    uint64_t hash_seed;
    uint32_t read_count; /* Names, with repetitions: what it took. */
};
void classic_topics_read(struct classic_topics *t, const struct group *g);
bool classic_topics_has(const struct classic_topics *t, struct slice topic);
void classic_topics_done(struct classic_topics *t);
/* When it became empty, wall time; -1 = it is not empty, or nobody knows. */
int64_t classic_empty_since_ms(const struct group *g);
/* Puts the tombstone of the group's metadata into p. */
struct proposal;
void classic_put_tombstones(const struct group *g, struct proposal *p);
