/* What clients know of one partition: every batch that was sent, what was acknowledged, what was
 * read. The checks of the broker mode are here, one function per promise:
 *
 *   an acknowledged batch stands at its offset, with the bytes that were sent
 *   offsets are contiguous: no hole, no overlap
 *   a batch of an idempotent producer stands there once, others at most as often as they were sent
 *   what was read once is read again the same
 *   the high watermark never falls, and neither does the log start
 *   the log start moves only as far as somebody asked for, or retention may
 *   nothing is read that nobody sent
 *   it stands there in the codec of the topic
 *
 * In a compacted topic records may be gone that a later one supersedes (history_keys.h): each that
 * is there is what is known of its offset, and the last one of each key is there.
 *
 * With coreflume.ack=memory the first holds until a crash only, the others do not change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ids.h"
#include "core/slice.h"

#include "tests/sim/sim.h"

/* Of a compacted topic. */
struct known_record {
    uint64_t hash; /* 0 = nothing is known of this offset. */
    uint32_t key;
    bool is_tombstone;
    bool is_read; /* In the last life. */
};

struct sent_batch {
    uint64_t hash; /* Of the bytes that the broker must not touch. */
    int32_t records_count;
    bool is_idempotent;
    int64_t max_timestamp;
    uint32_t sent_count;
    uint32_t seen_count;          /* At different offsets. */
    int64_t acked_offset;         /* The last one acknowledged; -1 = none. */
    int64_t seen_offset;          /* The last one; -1 = not seen. */
    struct known_record *records; /* Of a compacted topic. */
};

struct acked_batch {
    int64_t base_offset;
    uint32_t batch;
};

/* A batch in the log, as read. */
struct seen_batch {
    int64_t base_offset;
    uint32_t batch;
};

/* What the topic's configuration makes of the promises. */
struct history_rules {
    int8_t codec;       /* compression.type: enum batch_codec, -1 = as sent. */
    bool is_ack_memory; /* coreflume.ack=memory */
    bool is_compacted;
    bool are_tombstones_dropped; /* delete.retention.ms is short. */
    bool is_trimmed;             /* Records are deleted: by a client, and as the next two say. */
    int64_t retention_ms;        /* retention.ms; -1 = not set */
    int64_t retention_size_max;  /* retention.bytes, likewise. */
    int64_t topic_size_max;      /* coreflume.retention.topic.bytes, likewise. */
};

struct history {
    struct sim *sim;
    struct history_rules rules;
    char name[64];
    struct sent_batch *batches;
    uint32_t batches_count;
    uint32_t batches_capacity;
    uint32_t *table; /* Hash table of batch number + 1 by hash. */
    uint32_t table_size;
    struct acked_batch *acked;
    size_t acked_count;
    size_t acked_capacity;
    int64_t acked_end;       /* Behind the last record of all of them. */
    struct seen_batch *seen; /* Contiguous, but for what nobody read before it was deleted. */
    size_t seen_count;
    size_t seen_capacity;
    int64_t seen_end;
    struct known_record *known; /* By offset, of a compacted topic; instead of the above. */
    size_t known_capacity;
    int64_t high_watermark; /* Highest ever told. */
    int64_t start;          /* Of the log: highest ever told. */
    int64_t start_asked;    /* Somebody wants, or wanted, it to be here at least. */
};

void history_init(struct history *h,
                  struct sim *sim,
                  const char *name,
                  const struct history_rules *rules);
void history_done(struct history *h);

/* A batch is about to be sent for the first time; its number. */
uint32_t
history_add(struct history *h, struct slice bytes, int32_t records_count, bool is_idempotent);
/* It is sent, for the first or another time. */
void history_sent(struct history *h, uint32_t batch);
void history_acked(struct history *h, uint32_t batch, int64_t base_offset);

/* The broker is gone without a word. What ack=memory acknowledged may be gone too, but for what was
 * read. */
void history_crashed(struct history *h);

/* A fetch at offset gave these bytes (whole batches, or a cut one at the end). Returns the offset
 * behind the last whole batch. */
int64_t history_read(struct history *h, int64_t offset, struct slice bytes);

/* An answer said so; known is what h->high_watermark was when the request left. */
void history_high_watermark(struct history *h, int64_t known, int64_t told);

/* The log start, likewise. */
void history_start(struct history *h, int64_t known, int64_t told);
/* A client asks for it: -1 = the high watermark. */
void history_ask_start(struct history *h, int64_t offset);
/* What stands at offset may have been deleted. */
bool history_may_be_deleted(const struct history *h, int64_t offset);

/* From here on everything is read once more. */
void history_begin_final(struct history *h);
/* All was read up to the high watermark: every acknowledged batch must have been seen. */
void history_finish(struct history *h);
