/* Looks into compressed batches and re-encodes them, one after the other, with a budget per turn of
 * the loop: partitions hand them in, in the order of their produce.
 *
 * Rules:
 *  1. One job is worked on at a time, in order of arrival: only it has memory for records in plain
 *     form (storage/recode.h).
 *  2. Jobs that are done hold what they made until they are dropped. No further one is begun while
 *     all of it together is above RECODER_HELD_SIZE_MAX; whoever holds does not wait for the
 * recoder.
 *  3. A turn spends about RECODER_TURN_NS on it. A small batch is done before submit returns.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "core/shard.h"
#include "storage/recode.h"

enum {
    RECODER_TURN_NS = 250 * 1000, /* Half of the default stall limit. */
    RECODER_HELD_SIZE_MAX = 16 << 20,
};

struct recoder {
    struct shard *s;
    struct task task;
    struct list jobs;   /* struct recode_job, not done. */
    uint64_t turn;      /* That left_ns is about. */
    uint64_t left_ns;   /* Of this turn's budget. */
    uint64_t held_size; /* By jobs that are done. */
    uint64_t recoded_batches;
};

struct recode_job {
    struct slice batch; /* As in struct recode_wish; valid until it is done or dropped. */
    struct batch_header header;
    struct batch_rules rules;
    enum batch_codec codec;
    int32_t level;
    void (*on_done)(struct recode_job *job); /* From the loop; it may drop the job. */

    enum err result; /* When it is done; header is then the one to store. */
    struct batch_fault fault;

    struct list link; /* Private, as what follows. */
    struct recode *recode;
    bool is_done;
    size_t held_size;
};

void recoder_init(struct recoder *r, struct shard *s);
/* All jobs must be dropped. */
void recoder_done(struct recoder *r);

/* True: it is done already, and on_done does not come. */
bool recoder_submit(struct recoder *r, struct recode_job *job);
static inline bool recode_job_is_done(const struct recode_job *job)
{
    return job->is_done;
}
/* The records part to store, of a job that is done well; valid until it is dropped. */
struct slice recode_job_records(const struct recode_job *job);
/* The records part is not that of the batch. */
bool recode_job_has_own_records(const struct recode_job *job);
/* In any state; ends it, if need be. Once. */
void recoder_drop(struct recoder *r, struct recode_job *job);
