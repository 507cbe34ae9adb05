/* Committed offsets of a group: what OffsetCommit, OffsetFetch, OffsetDelete and DeleteGroups do,
 * and when offsets expire (PROTOCOL facts 16; KIP-211).
 *
 * Offsets are kept by topic name, as in the records; those that were committed for another topic of
 * that name (its id is in the record) count for nothing and go.
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/uuid.h"
#include "groups/call.h"

struct coordinator;
struct group;

void offsets_commit(struct group *g, struct group_call *call); /* Shared, behind the gate. */
void offsets_fetch(struct group *g, struct group_call *call);  /* No gate. */
void offsets_delete(struct group *g, struct group_call *call); /* Exclusive. */
/* DeleteGroups: the group as a whole, members' records included. Exclusive. */
void offsets_delete_group(struct group *g, struct group_call *call);

/* Records of types 0 and 1. */
enum err offsets_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value);

void offsets_init(struct group *g);
/* Finds offsets of topics that went while nobody led the partition. The metadata must not be older
 * than what was judged by when they were committed. */
void offsets_activate(struct group *g);
void offsets_resign(struct group *g);
/* Has something expired? Then it goes soon. Looks at every offset of g, and returns at
 * how many things it looked. */
uint32_t offsets_look(struct group *g);
/* A topic went, or came again under another id. */
void offsets_on_metadata(struct group *g);
void offsets_free(struct group *g);
uint64_t offsets_digest(const struct group *g);
void offsets_check(const struct group *g);

/* For lag: every committed offset of g that counts, topic by topic in no order, partitions of one
 * ascending, until visit says false. */
struct committed_offset {
    struct slice topic; /* Valid during the call. */
    struct uuid topic_id;
    int32_t partition;
    int64_t offset;
    int32_t leader_epoch; /* -1 = unknown */
    int64_t commit_ms;
};
void offsets_for_each(const struct group *g,
                      bool (*visit)(void *context, const struct committed_offset *o),
                      void *context);
uint64_t offsets_count(const struct group *g);
