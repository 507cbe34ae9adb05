/* The entry: what a log is made of. On-disk layout, little-endian, no padding.
 *
 *   segment file:  [segment header, 4 KiB] [entries ... zero padding to the block] [entries ...]
 *   entry:         [struct entry_header, 96 bytes] [payload] [zeros to a multiple of 8]
 *
 * Invariants:
 *  1. header_crc covers the header behind that field and the first ENTRY_HEAD_SIZE payload bytes of
 *     a data entry (Kafka's batch CRC covers the rest), or the whole payload of any other type.
 *  2. salt equals the segment's: bytes of an earlier life of a recycled block never look valid.
 *  3. generation rises with every cut of the log: entries of an older one behind a cut count for
 *     nothing, and neither do their D.
 *  4. index is dense: the next entry's is one more; previous_id is the entry_id before it.
 *  5. entry_id is a checksum of type, index, term, offsets and the payload bytes that header_crc
 *     covers, as first created; it is copied, never recomputed, so that the chain holds on every
 *     replica.
 *  6. durable_index (D) is the raft index known durable when this header was written, with the
 *     generation it was learnt in. At or below the highest D a bad entry is corruption; above it is
 *     a torn write that was never acknowledged.
 *  7. Each write starts at a block boundary: an append never touches a block that holds
 *     acknowledged bytes. Behind the last entry of a write stand zeros to the end of the block.
 *  8. A header never crosses a block boundary: where it would, zeros fill the block. So "zeros to
 *     the end of the block" is told from an entry by looking at one block.
 *  9. A gap stands for the entries index .. index + span that compaction removed: all of one term,
 *     offsets [base_offset, next_offset), previous_id the id before the first, entry_id that of the
 *     last. So what follows chains on as if they were there (2, 4, 5 hold across it), and no
 *     payload is needed for that.
 *
 * 10. No entry's index is above ENTRY_INDEX_MAX: sums and comparisons with signed numbers hold.
 *
 * Shard: pure; any.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"

enum {
    ENTRY_BLOCK_SIZE = 4096, /* Equals IO_ALIGN. */
    ENTRY_ALIGN = 8,
    ENTRY_HEAD_SIZE = 21, /* Payload bytes that Kafka's CRC leaves out. */
    ENTRY_PAYLOAD_SIZE_MAX = 128 << 20,
};

enum entry_type {
    ENTRY_NONE = 0,
    ENTRY_DATA = 1,          /* One RecordBatch v2. Takes next_offset - base_offset offsets. */
    ENTRY_NOOP = 2,          /* A leader's first entry of a term. Takes no offset. */
    ENTRY_CONFIGURATION = 3, /* Raft membership. Takes no offset. */
    ENTRY_CONTROLLER = 4,    /* A command of group 0. Takes no offset. */
    ENTRY_LOG_START = 5,     /* The log start moved. Takes no offset. */
    ENTRY_GAP = 6,           /* Left by compaction for entries it removed. No payload. */
    ENTRY_TYPE_COUNT,
};

#define ENTRY_INDEX_MAX ((uint64_t)INT64_MAX)

struct entry_header {
    uint32_t header_crc;
    uint32_t payload_size;
    uint64_t salt;
    uint32_t generation;
    uint8_t type; /* enum entry_type */
    uint8_t flags;
    uint16_t version; /* 1 */
    uint64_t index;
    uint64_t term;
    int64_t base_offset; /* Kafka offset of the first record; what comes next if it takes none. */
    int64_t next_offset;
    int64_t max_timestamp; /* Milliseconds since 1970; -1 = none. */
    uint64_t durable_index;
    uint32_t durable_generation;
    uint32_t span; /* Of a gap: how many entries it stands for, less one. Else zero, checked. */
    uint64_t entry_id;
    uint64_t previous_id;
};

static_assert(sizeof(struct entry_header) == 96, "on-disk size");
static_assert(offsetof(struct entry_header, index) == 24, "on-disk layout");
static_assert(offsetof(struct entry_header, entry_id) == 80, "on-disk layout");

/* An entry in memory. payload is one piece when read, up to two when appended (a stamped batch head
 * and the rest). */
struct log_entry {
    enum entry_type type;
    uint64_t index;
    uint64_t term;
    int64_t base_offset;
    int64_t next_offset;
    int64_t max_timestamp;
    struct slice payload;
    struct slice payload_rest; /* Follows payload; may be null. */
    uint64_t last_index;       /* Read or replayed: index, or the last one a gap stands for. */
};

/* Bytes that an entry takes in a segment. */
static inline uint64_t entry_size(uint32_t payload_size)
{
    return (sizeof(struct entry_header) + (uint64_t)payload_size + ENTRY_ALIGN - 1) &
           ~(uint64_t)(ENTRY_ALIGN - 1);
}

/* Where an entry may start at or after pos (invariant 8). */
static inline uint64_t entry_place(uint64_t pos)
{
    uint64_t left = ENTRY_BLOCK_SIZE - pos % ENTRY_BLOCK_SIZE;
    return left < sizeof(struct entry_header) ? pos + left : pos;
}

/* The index of an entry; of a gap, the last one it stands for. What follows has the next. */
static inline uint64_t entry_last_index(const struct entry_header *h)
{
    return h->index + h->span;
}

/* Payload bytes that header_crc covers. */
static inline size_t entry_covered_size(uint8_t type, uint32_t payload_size)
{
    return type == ENTRY_DATA && payload_size > ENTRY_HEAD_SIZE ? ENTRY_HEAD_SIZE : payload_size;
}

/* Checksum of what makes an entry unique; covered holds entry_covered_size bytes. */
uint64_t entry_id_of(const struct entry_header *h, const uint8_t *covered);

/* Writes h, with its header_crc, followed by the payload at out + sizeof(struct entry_header)
 * already being there. */
void entry_seal(struct entry_header *h, uint8_t *out);

/* The payload of ENTRY_LOG_START. */
struct entry_log_start {
    uint32_t version;  /* 1 */
    uint32_t reserved; /* Zero, checked. */
    int64_t offset;    /* The log starts here once the entry is committed. */
};
static_assert(sizeof(struct entry_log_start) == 16, "on-disk size");

/* Of an entry that stands at base_offset: a start beyond it is ERR_CORRUPT, like anything else that
 * makes no sense. ERR_NEWER_FORMAT */
enum err
entry_log_start_decode(struct slice payload, int64_t base_offset, int64_t *ret_start_offset);
void entry_log_start_encode(int64_t start_offset, struct entry_log_start *ret_payload);

/* Why bytes are not the entry that was expected. */
enum entry_fault {
    ENTRY_GOOD,
    ENTRY_FAULT_ZERO,       /* No header: zeros. */
    ENTRY_FAULT_SALT,       /* Another life of the block, or garbage. */
    ENTRY_FAULT_HEADER,     /* header_crc, version, type, span or a size out of bounds. */
    ENTRY_FAULT_GENERATION, /* Behind a cut, or newer than the log. */
    ENTRY_FAULT_ORDER,      /* Not the next index, chain, term or offset. */
    ENTRY_FAULT_PAYLOAD,    /* The batch's own CRC. */
    ENTRY_FAULT_COUNT,
};
const char *entry_fault_name(enum entry_fault f);

/* Checks what the header says of itself, without its payload: salt, version, type, sizes.
 * ENTRY_GOOD here does not mean that the checksum holds. */
enum entry_fault entry_check_fields(const struct entry_header *h, uint64_t salt);

/* header_crc over header and covered payload bytes; entry_check_fields went before. */
bool entry_crc_matches(const struct entry_header *h, const uint8_t *payload);

/* The payload's own check: the batch CRC of a data entry and that batch and header name the same
 * offsets. Other types are covered by header_crc. */
bool entry_payload_matches(const struct entry_header *h, struct slice payload);
