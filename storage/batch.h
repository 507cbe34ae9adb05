/* Kafka's record batch, version 2 (magic 2): reading, checking, stamping, building. The wire batch
 * is the disk batch. Layout: docs and PROTOCOL facts, 61-byte header, big-endian.
 *
 * Bytes come from outside: nothing here asserts on them.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/rbuf.h"
#include "core/slice.h"
#include "core/wbuf.h"

enum {
    BATCH_HEADER_SIZE = 61,
    BATCH_HEAD_SIZE = 21,       /* Base offset .. CRC: rewritten on append, outside the CRC. */
    BATCH_LENGTH_OVERHEAD = 12, /* Whole size = batch length field + this. */
    BATCH_MAGIC = 2,
};

enum batch_codec {
    CODEC_NONE = 0,
    CODEC_GZIP = 1,
    CODEC_SNAPPY = 2,
    CODEC_LZ4 = 3,
    CODEC_ZSTD = 4,
    CODEC_COUNT,
};

enum batch_attributes {
    BATCH_CODEC_MASK = 0x07,
    BATCH_LOG_APPEND_TIME = 0x08,
    BATCH_TRANSACTIONAL = 0x10,
    BATCH_CONTROL = 0x20,
    BATCH_DELETE_HORIZON = 0x40,
};

struct batch_header {
    int64_t base_offset;
    int32_t batch_length;
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t records_count;
};

static inline enum batch_codec batch_codec(const struct batch_header *h)
{
    return (enum batch_codec)(h->attributes & BATCH_CODEC_MASK);
}

/* Decodes the fixed part. ERR_EOF if bytes has not even that, or not the whole batch; ERR_CORRUPT
 * for an impossible length; ERR_RECORD_INVALID for another magic. Does not check the CRC. */
enum err batch_header_decode(struct slice bytes, struct batch_header *ret_header);
/* The same without asking whether the whole batch is there. */
enum err batch_header_peek(struct slice bytes, struct batch_header *ret_header);

static inline size_t batch_size(const struct batch_header *h)
{
    return (size_t)h->batch_length + BATCH_LENGTH_OVERHEAD;
}

/* Of the first record, as far as the header tells it; -1: it has none. Where something else stands
 * in its place (the producer's time with LogAppendTime, a delete horizon) the largest. */
int64_t batch_first_timestamp(const struct batch_header *h);

/* What follows the header of batch, which holds one whole batch. */
static inline struct slice batch_records_part(struct slice batch)
{
    return slice_rest(batch, BATCH_HEADER_SIZE);
}

/* True if the CRC over attributes..end matches. batch holds exactly one batch. */
bool batch_crc_matches(struct slice batch);

/* What a produced batch must obey, from the topic and the request. */
struct batch_rules {
    uint32_t size_max;       /* max.message.bytes */
    int16_t produce_version; /* zstd needs 7 */
    bool is_compacted;       /* keys must not be null */
    bool is_log_append_time;
    int64_t wall_ms;
    int64_t timestamp_before_ms_max; /* INT64_MAX = no limit */
    int64_t timestamp_after_ms_max;
};

struct batch_fault {
    const char *message;  /* Static text for error_message; names the rule. */
    int32_t record_index; /* -1 = the batch as a whole. */
};

/* Checks everything a leader must before it appends (PROTOCOL 9): exactly one magic-2 batch, base
 * offset 0, counts, CRC, codec, size, timestamps; all records are walked once, compressed ones too
 * (docs/decisions/0008).
 *
 * On success *ret_header is the header to store: as received, but for the timestamp type and the
 * max timestamp, which the leader sets (see batch_needs_rewrite). On error *ret_fault is written.
 *   ERR_CORRUPT            truncated, or the CRC does not match
 *   ERR_TOO_LARGE          above size_max, or compressed records above batch_records_size_max
 *   ERR_RECORD_INVALID, ERR_TIMESTAMP_INVALID, ERR_CODEC_UNSUPPORTED
 *   ERR_BUSY               no memory to decompress
 */
enum err batch_check_produced(struct slice bytes,
                              const struct batch_rules *rules,
                              struct batch_header *ret_header,
                              struct batch_fault *ret_fault);

/* The same in parts, for who has the records decompressed by himself, in steps:
 *
 *   batch_check_head -> batch_check_records -> batch_set_by_leader
 *
 * Errors as above. */
enum err batch_check_head(struct slice bytes,
                          const struct batch_rules *rules,
                          struct batch_header *ret_header,
                          struct batch_fault *ret_fault);
/* records: uncompressed. Sets h's max timestamp to what they say. */
enum err batch_check_records(struct batch_header *h,
                             struct slice records,
                             const struct batch_rules *rules,
                             struct batch_fault *ret_fault);
/* The same in steps: as many records as begin within about size_max bytes, above 0, each. */
struct batch_walk {
    struct batch_header *h; /* Must outlive the walk, as the two below. */
    const struct batch_rules *rules;
    struct slice records;
    size_t pos;
    int32_t index; /* Of the next record. */
    int64_t timestamp_max;
    bool is_done;
};
void batch_walk_init(struct batch_walk *w,
                     struct batch_header *h,
                     struct slice records,
                     const struct batch_rules *rules);
/* On an error, or once is_done, there is no further step. */
enum err batch_walk_step(struct batch_walk *w, size_t size_max, struct batch_fault *ret_fault);
/* What a decompression that failed with e means for the client. */
enum err batch_judge_decompression(enum err e, struct batch_fault *ret_fault);
/* Timestamp type and, with LogAppendTime, the max timestamp. */
void batch_set_by_leader(struct batch_header *h, const struct batch_rules *rules);

/* How far compressed records are followed before the batch is refused: bounds memory and time
 * against batches made to explode, far above what honest ones of that size hold. */
size_t batch_records_size_max(uint32_t batch_size_max);

/* True if h, from batch_check_produced, differs from the header that batch carries: LogAppendTime,
 * or a max timestamp that the records contradict. Then store what batch_header_encode makes of h,
 * and the records as they are. */
bool batch_needs_rewrite(struct slice batch, const struct batch_header *h);

/* Encodes h, with the length and CRC that the records part asks for. */
void batch_header_encode(const struct batch_header *h,
                         struct slice records,
                         uint8_t ret_bytes[BATCH_HEADER_SIZE]);

/* Writes base offset and leader epoch into the first BATCH_HEAD_SIZE bytes of a batch (copied by
 * the caller). The CRC stays valid. */
void batch_stamp(uint8_t head[BATCH_HEAD_SIZE], int64_t base_offset, int32_t leader_epoch);

/* Last sequence of a batch with wrap at INT32_MAX (PROTOCOL 10). */
int32_t batch_last_sequence(int32_t base_sequence, int32_t last_offset_delta);

struct record_header {
    struct slice key;
    struct slice value; /* Null allowed. */
};

struct record {
    int64_t offset;
    int64_t timestamp;  /* ms */
    struct slice key;   /* Null allowed. */
    struct slice value; /* Null allowed. */
    uint32_t headers_count;
    struct rbuf headers; /* Positioned at the first header; see record_next_header. */
};

/* Walks the records of one batch whose records part (uncompressed) is records. */
struct record_cursor {
    struct batch_header header;
    struct rbuf records;
    int32_t records_left;
};
void record_cursor_init(struct record_cursor *c,
                        const struct batch_header *h,
                        struct slice records);
/* ERR_EOF at the end, ERR_RECORD_INVALID for bad bytes. */
enum err record_next(struct record_cursor *c, struct record *ret_record);
enum err record_next_header(struct record *r, struct record_header *ret_header);

/* The uncompressed records part of a batch: a view into it, or decompressed into w (then
 * ret_records points into w). At most size_max bytes: ERR_TOO_LARGE. ERR_CORRUPT for a bad stream.
 */
enum err
batch_records(struct slice batch, size_t size_max, struct wbuf *w, struct slice *ret_records);

/* A record to be added to a batch. */
struct batch_record {
    int64_t timestamp;                   /* ms */
    struct slice key;                    /* Null allowed. */
    struct slice value;                  /* Null allowed. */
    const struct record_header *headers; /* Keys must not be null. */
    uint32_t headers_count;
};

/* Builds a batch record by record. */
struct batch_builder {
    struct wbuf records; /* Uncompressed records part, behind head_size bytes. */
    size_t head_size;
    int32_t records_count;
    int64_t base_timestamp;
    int64_t max_timestamp;
};
void batch_builder_init(struct batch_builder *b, size_t size_max);
void batch_builder_done(struct batch_builder *b);
/* ERR_TOO_LARGE leaves the builder as it was. */
enum err batch_builder_add(struct batch_builder *b, const struct batch_record *record);
struct batch_identity {
    int64_t producer_id; /* -1 = none, as the two below */
    int16_t producer_epoch;
    int32_t base_sequence;
};
/* Instead of batch_builder_init, for batch_builder_take: size_max is that of the batch. */
void batch_builder_init_in_place(struct batch_builder *b, size_t size_max);
/* The batch, not compressed, in the memory that its records were added to; nothing is left to be
 * done with b. */
void batch_builder_take(struct batch_builder *b,
                        const struct batch_identity *identity,
                        struct wbuf *ret_batch);
/* Appends the finished batch to w. */
enum err batch_builder_finish(const struct batch_builder *b,
                              enum batch_codec codec,
                              const struct batch_identity *identity,
                              struct wbuf *w);
