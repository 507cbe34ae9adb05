/* One partition on the shard that owns it: what a Raft group will be, with one voter today.
 *
 *   produce -> checked -> appended -> flushed -> committed -> answered
 *
 * Rules:
 *  1. High watermark = commit. What is committed is decided in one place, commit_rule_index; today
 *     a sole voter commits what it has flushed, of any term. Raft's rule goes there.
 *  2. acks=all and acks=1 are answered when the batch is committed, acks=0 when it is appended. On
 *     topics with coreflume.ack=memory the former too are answered when appended, unless more or
 *     older records than flush.messages and flush.ms allow would then be answered and not flushed:
 *     what is committed, and read, is not changed by that.
 *  3. Producer state includes batches that are appended and not yet committed: a duplicate of one
 *     is answered when the original is committed, with its offset.
 *  4. Produce is FIFO per partition, also through the backlog that waits for room in the log. The
 *     backlog is bounded by what the handlers admit.
 *  5. Reads see [log start, high watermark) only.
 *  6. Operations on a partition that still opens wait, in order. An operation is always answered,
 *     exactly once.
 *
 *   OPENING -> SERVING -> CLOSING (or DELETING) -> gone
 *      |          |            ^
 *      +----------+--> FAILED -+
 *
 * Memory: an idle partition is this struct and an idle log; producer state exists from the first
 * idempotent batch on.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/metadata.h"
#include "cluster/settings.h"
#include "cluster/troubles.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/stats.h"
#include "storage/log.h"

struct shard;
struct partition;
struct producer_state;
struct recoder;

struct partition_counters {
    uint64_t produced_batches;
    uint64_t produced_records;
    uint64_t produced_bytes;
    uint64_t duplicate_batches;
    uint64_t refused_batches;
    uint64_t fetched_bytes;
    uint64_t waits;          /* PARTITION_WAIT in flight. */
    uint64_t backlog;        /* Operations that wait for room in their log. */
    uint64_t failed;         /* Fail-stopped partitions. */
    uint64_t early_answers;  /* Produce answered before its flush, by coreflume.ack=memory. */
    uint64_t retained_moves; /* Log starts proposed by retention. */
    struct histogram produce_us;
};

/* What the partitions of one shard share. Must outlive them. */
struct partition_env {
    struct shard *s;
    const struct cluster_settings *settings;
    struct partition_counters *counters;
    struct recoder *recoder; /* For batches that are looked into, or stored in another codec. */
    uint64_t term;           /* Group 0's term of this start. */
    int64_t producer_expiration_ms; /* producer.id.expiration.ms */
    /* A stop has begun: nothing waits for room (partition_refuse_backlog), later for nothing at all
     * (partition_give_up_flushes). */
    bool is_quiescing;
    bool is_drained;
    /* p failed, or was found damaged: an operator has to be told. */
    void (*on_trouble)(void *context, const struct partition *p, enum trouble_kind kind);
    void *trouble_context;
};

/* What of a log is committed. The seam where Raft sits: its commit index comes from match indexes
 * and terms of several voters instead. */
struct commit_rule {
    uint16_t voters_count;
};
uint64_t commit_rule_index(const struct commit_rule *rule, uint64_t flushed_index);
/* Tells the log how far it is committed by the rule, and returns that: partitions and group 0
 * commit here and nowhere else. */
uint64_t commit_take(const struct commit_rule *rule, struct log *log);

struct partition_open {
    const struct partition_env *env;
    const struct log_env *log_env; /* Of its data directory; NULL = that has failed, or is lost. */
    const struct topic *topic;     /* Used during the call only. */
    int32_t partition;
    void *context;
    /* ERR_OK, or the reason why the partition is FAILED; it exists and answers either way. From the
     * loop. */
    void (*on_opened)(void *context, struct partition *p, enum err e);
};
struct partition *partition_open(const struct partition_open *how);

/* Takes the operation over; answers by sending op->msg on. */
void partition_serve(struct partition *p, struct partition_op *op);
/* Ends a wait, or a produce that is not appended yet, if op is (still) one; op is compared, never
 * looked into. */
void partition_cancel_op(struct partition *p, const struct partition_op *op);

/* The two steps of cluster_quiesce, after the flag of the environment is set: the backlog, then
 * whatever waits for a flush, gets ERR_CANCELLED. p may be gone after the second. */
void partition_refuse_backlog(struct partition *p);
void partition_give_up_flushes(struct partition *p);

/* Ends waits and the backlog with ERR_CANCELLED, lets what is appended commit (until is_drained),
 * closes the log; then on_closed from the loop, after which p is gone. Once. */
void partition_close(struct partition *p,
                     void *context,
                     void (*on_closed)(void *context, struct partition *p));
/* Ends everything with ERR_NOT_FOUND and removes the log. Once, and not with partition_close. p is
 * gone after on_deleted. */
void partition_delete(struct partition *p,
                      void *context,
                      void (*on_deleted)(void *context, struct partition *p, enum err e));

const struct partition_id *partition_id(const struct partition *p);
const char *partition_name(const struct partition *p); /* "<topic>-<partition>" */
void partition_offsets(const struct partition *p, struct partition_offsets *ret_offsets);
uint64_t partition_log_size(const struct partition *p);
int64_t partition_topic_size_max(const struct partition *p); /* Of its topic; -1 = no cap. */

/* The topic's configurations have changed: they are in effect from the next operation on. */
void partition_alter(struct partition *p, const struct topic *t);

/* Proposes to move the log start, if the topic's retention wants it now. */
void partition_retain(struct partition *p);

/* The partitions of a topic added up, and the oldest segment that could go. */
struct partition_tally {
    uint64_t size;
    bool has_oldest;
    bool is_oldest_last; /* It is the last of its log. */
    int64_t oldest_ms;
    uint64_t oldest_size;
    struct partition_id oldest;
    int64_t oldest_end; /* The log starts there when it is gone. */
};
void partition_add_to_tally(const struct partition *p, struct partition_tally *tally);
/* Proposes that tally->oldest, which is p, loses that segment, if it still has it. False: there is
 * no room for the entry now. */
bool partition_drop_oldest(struct partition *p, const struct partition_tally *tally);

/* For the table that holds it. */
struct list *partition_link(struct partition *p);
struct partition *partition_of_link(struct list *link);

/* A size metric of its own, kept current; until the partition goes. */
void partition_publish_size(struct partition *p);
bool partition_has_size_metric(const struct partition *p);

/* All invariants. */
void partition_check(const struct partition *p);

/* Answers an operation that no partition serves. */
void partition_op_finish(struct shard *s, struct partition_op *op, enum err e);
