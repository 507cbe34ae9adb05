/* Members of the new consumer protocol (KIP-848) in one group: ConsumerGroupHeartbeat, the
 * reconciliation of members with a target assignment that the coordinator computes, and the way of
 * a group from the classic protocol to the new one and back (PROTOCOL facts 18).
 *
 * Three epochs: the group's (rises when members, subscriptions or topics change), the target's (of
 * the group epoch that it was computed for), a member's (what it has reached). All are durable
 * (record types 3 to 8 and 16); sessions and revocation deadlines are not.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"
#include "groups/call.h"

struct coordinator;
struct group;
struct proposal;

/* Exclusive, behind the gate. g may be new, of the classic protocol, or of this one. */
void consumer_heartbeat(struct group *g, struct group_call *call);
/* Fills the answer of a CONSUMER_DESCRIBE, also for groups that are none of this kind. */
void consumer_describe(struct group *g, struct group_call *call);

/* Classic calls to a group of this kind (members that speak the old protocol while the group is
 * migrated): JOIN, SYNC, HEARTBEAT, LEAVE. */
void consumer_classic_join(struct group *g, struct group_call *call);
void consumer_classic_sync(struct group *g, struct group_call *call);
void consumer_classic_heartbeat(struct group *g, struct group_call *call);
void consumer_classic_leave(struct group *g, struct group_call *call);

/* Records of types 3 to 8 and 16. */
enum err consumer_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value);

void consumer_activate(struct group *g);
void consumer_resign(struct group *g);
/* Heartbeats that wait for news are answered if there is any. After every batch of the group. */
void consumer_wake(struct group *g);
/* Topics, partitions or configurations changed. */
void consumer_on_metadata(struct group *g);
void consumer_free(struct group *g);
uint64_t consumer_digest(const struct group *g);
void consumer_check(const struct group *g);

/* ---- for the other modules ---- */

/* "Empty", "Assigning", "Reconciling", "Stable". */
const char *consumer_state_name(const struct group *g);
bool consumer_has_members(const struct group *g);
/* Whether a member may commit an offset of this topic's partition. */
enum kafka_error consumer_check_commit(struct group *g,
                                       struct slice member_id,
                                       int32_t member_epoch,
                                       int16_t version);
/* The same for one partition of a commit in an older epoch than the member's, which
 * consumer_check_commit let pass. */
enum kafka_error consumer_check_commit_partition(const struct group *g,
                                                 struct slice member_id,
                                                 int32_t member_epoch,
                                                 const struct partition_id *id);
/* OffsetFetch v9+. */
enum kafka_error
consumer_check_fetch(const struct group *g, struct slice member_id, int32_t member_epoch);
bool consumer_is_subscribed(const struct group *g, struct slice topic);
/* When it became empty, wall time; -1 = it is not, or nobody knows. The group's epoch rises when
 * its last member goes, and not again before one comes. */
int64_t consumer_empty_since_ms(const struct group *g);
/* Puts tombstones of all records of an empty group into p. */
void consumer_put_tombstones(const struct group *g, struct proposal *p);
