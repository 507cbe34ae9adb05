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
    bool is_memory_enough; /* It may be acknowledged from memory. */
    uint32_t codecs;       /* Bits of those it may stand there in. */
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
    bool is_memory; /* Perhaps only in memory. */
};

/* A batch in the log, as read. */
struct seen_batch {
    int64_t base_offset;
    uint32_t batch;
};

enum {
    HISTORY_CODEC_AS_SENT = 1 << 30,
};

/* Offsets of one leader epoch, as far as they were read. */
struct epoch_run {
    int32_t epoch;
    int64_t first;
    int64_t end;
};

/* What the topic's configuration makes of the promises: while it is being altered, all that either
 * the old one or the new one allows. */
struct history_rules {
    bool is_keyed;      /* For good: records have keys, and may be compacted. */
    bool is_trimmed;    /* For good: records are deleted, by clients and by retention. */
    bool is_recoded;    /* For good: it may have a codec of its own. */
    uint32_t codecs;    /* compression.type: bits of enum batch_codec, or HISTORY_CODEC_AS_SENT. */
    bool is_ack_memory; /* coreflume.ack=memory */
    bool is_compacted;
    bool are_tombstones_dropped; /* delete.retention.ms is short. */
    int64_t retention_ms;        /* retention.ms; -1 = records of no age are deleted */
    bool is_retained_by_size;    /* retention.bytes, coreflume.retention.topic.bytes */
    int64_t batch_size_low;      /* max.message.bytes: up to this a batch is taken, */
    int64_t batch_size_high;     /* and beyond this it is not. */
};

struct history {
    struct sim *sim;
    struct history_rules rules;
    /* What rules.retention_ms and rules.is_retained_by_size will be once a log start was told that
     * nothing decided before can move any more: of requests sent from settles_us on. */
    int64_t settled_retention_ms;
    bool is_settled_by_size;
    uint64_t settles_us; /* UINT64_MAX = not yet. */
    uint64_t altered_us; /* When the last alteration was acknowledged. */
    bool is_altering;
    bool was_compacted;  /* At any time, perhaps. */
    bool was_ack_memory; /* Likewise. */
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
    struct epoch_run *epochs; /* Ascending. */
    size_t epochs_count;
    size_t epochs_capacity;
    int64_t high_watermark; /* Highest ever told. */
    int64_t start;          /* Of the log: highest ever told. */
    int64_t start_asked;    /* Somebody wants, or wanted, it to be here at least. */
};

void history_init(struct history *h,
                  struct sim *sim,
                  const char *name,
                  const struct history_rules *rules);
void history_done(struct history *h);

/* The topic is about to be altered: from now on what rules allow may be true, too. */
void history_alter(struct history *h, const struct history_rules *rules);
/* That was acknowledged: rules are in force. */
void history_altered(struct history *h, const struct history_rules *rules);
/* The broker starts again: nothing is on its way any more. */
void history_restarted(struct history *h);
/* What was sent then has become an entry that is committed, and so has what the log took before. */
void history_entry_committed(struct history *h, uint64_t sent_us);
/* A request that was sent then has told the log start, and nothing explains that logs are late. */
void history_settle(struct history *h, uint64_t sent_us);

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
