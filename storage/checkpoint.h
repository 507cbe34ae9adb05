/* A checkpoint of a log: what recovery has to know of the entries up to an index, so that it need
 * not read them (DESIGN 4.8). On-disk layout, little-endian, no padding.
 *
 *   [struct checkpoint_header] [terms] [points] [configuration] [state]
 *
 * It stands in the value of STORE_CHECKPOINT, behind struct checkpoint_record, or, if it is larger
 * than CHECKPOINT_INLINE_SIZE_MAX, in the file <index, 20 digits>.checkpoint beside the log, which
 * the value names with size and checksum.
 *
 * Invariants:
 *  1. index <= min(flushed, committed) when the record is put: no cut ever reaches it.
 *  2. Closed segments before `segment` have their end in their manifest records, put before the
 *     checkpoint's: the store keeps the order.
 *  3. It is never trusted over the log: whatever does not fit to manifest, cuts and files makes
 *     recovery read the log instead.
 *
 * Shard: pure; any.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/segment_index.h"

enum {
    CHECKPOINT_INLINE_SIZE_MAX = 8 << 10,
    CHECKPOINT_SIZE_MAX = 1 << 30,
};

/* Where a term begins. */
struct log_term {
    uint64_t term;
    uint64_t index; /* First of the term. */
    int64_t offset;
};
static_assert(sizeof(struct log_term) == 24, "on-disk size");

struct checkpoint_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t crc;       /* CRC-32C over all, with this field zero. */
    uint64_t file_size; /* Of all. */

    /* The last entry that it covers. */
    uint64_t index;
    uint64_t term;
    uint64_t entry_id;
    int64_t next_offset;

    /* Where the next one is looked for. */
    uint64_t segment; /* Base index. */
    uint64_t salt;
    uint64_t pos;
    int64_t max_timestamp; /* Of the segment up to pos. */
    uint32_t generation;   /* Of the log. */

    uint32_t terms_count;
    uint32_t points_count; /* Of the segment, up to pos. */
    uint32_t configuration_version;
    uint32_t configuration_size; /* Raft membership. */
    uint32_t state_size;         /* The owner's. */

    uint64_t start_index; /* Of the log. */
    int64_t start_offset;
    int64_t first_timestamp; /* Of the segment's first batch; LOG_TIMESTAMP_UNKNOWN = no batch. */
};
static_assert(sizeof(struct checkpoint_header) == 136, "on-disk size");
static_assert(offsetof(struct checkpoint_header, index) == 24, "on-disk layout");
static_assert(offsetof(struct checkpoint_header, generation) == 88, "on-disk layout");
static_assert(offsetof(struct checkpoint_header, start_index) == 112, "on-disk layout");

/* STORE_CHECKPOINT, sub 0. */
struct checkpoint_record {
    uint32_t version;
    uint32_t crc;       /* Of the file's header: a file of another time is none. */
    uint64_t index;     /* Names the file. */
    uint64_t file_size; /* Without padding to the block; 0: the checkpoint follows. */
};
static_assert(sizeof(struct checkpoint_record) == 24, "on-disk size");

/* A checkpoint in memory; the slices are the caller's, or point into the decoded bytes. */
struct checkpoint {
    struct checkpoint_header header;
    struct slice terms;  /* struct log_term, in order. Unaligned when decoded. */
    struct slice points; /* struct segment_point, in order. Likewise. */
    struct slice configuration;
    struct slice state;
};

/* Appends it to w; sets magic, version, sizes, counts and checksum of the header, also in *c. */
void checkpoint_encode(struct checkpoint *c, struct wbuf *w);
/* Checks all that can be checked by itself. ERR_CORRUPT, ERR_NEWER_FORMAT. */
enum err checkpoint_decode(struct slice bytes, struct checkpoint *ret_checkpoint);

/* ret_inline is empty if there is a file. ERR_CORRUPT, ERR_NEWER_FORMAT. */
enum err checkpoint_record_decode(struct slice value,
                                  struct checkpoint_record *ret_record,
                                  struct slice *ret_inline);
/* Sets version. */
void checkpoint_record_encode(struct checkpoint_record *r, struct wbuf *w);
