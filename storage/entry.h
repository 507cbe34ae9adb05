/* The entry: what a log is made of. On-disk layout, little-endian, no padding.
 *
 *   segment file:  [segment header, 4 KiB] [entries ... zero padding to the block] [entries ...]
 * zeros entry:         [struct entry_header, 96 bytes] [payload] [zeros to a multiple of 8]
 *
 * Invariants:
 *  1. header_crc covers the header behind that field and the first ENTRY_HEAD_SIZE payload bytes of
 * a data entry (Kafka's batch CRC covers the rest), or the whole payload of any other type.
 *  2. salt equals the segment's: bytes of an earlier life of a recycled block never look valid.
 *  3. generation rises with every cut of the log: entries of an older one behind a cut count for
 *     nothing, and neither do their D.
 *  4. index is dense: the next entry's is one more; previous_id is the entry_id before it.
 *  5. entry_id is a checksum of index, term, offsets and payload head as first created; it is
 * copied, never recomputed, so that the chain holds on every replica.
 *  6. durable_index (D) is the raft index known durable when this header was written, with the
 *     generation it was learnt in. At or below the highest D a bad entry is corruption; above it is
 * a torn write that was never acknowledged.
 *  7. Each write starts at a block boundary: an append never touches a block that holds
 * acknowledged bytes. Behind the last entry of a write stand zeros to the end of the block.
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
    ENTRY_GAP = 6,           /* Left by compaction. */
    ENTRY_TYPE_COUNT,
};

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
    uint32_t reserved; /* Zero, checked. */
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
};
