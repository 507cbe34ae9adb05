/* The layout of a store file. Little-endian, no padding.
 *
 *   block 0           struct store_superblock; written once, before the file gets its name
 *   1 .. n            area 0
 *   n + 1 .. 2n       area 1
 *
 * An area holds one epoch: a snapshot of all live values in its first snapshot_blocks blocks, then
 * changes in the order they were made. Blocks are a header and a piece of a stream of records;
 * writes begin with a new block, and a record may span blocks of one write.
 *
 * Invariants:
 *  1. Every block was written before the file got its name. A block of the epoch in force is
 *     written once; the other area is overwritten only when this epoch's snapshot is durable.
 *  2. Epochs rise, and no epoch number is begun twice: what an earlier life of an area, or an
 *     attempt that a crash cut short, left behind, has another epoch. The salt tells files apart.
 *  3. durable_blocks of a block says how many first blocks of the epoch were known durable when it
 *     was written. A bad block below the highest of them is damage; above, it is a write that a
 *     crash tore, and nobody was told that it is durable.
 *  4. The epoch that counts is the highest one, if its snapshot is complete. If not, and if no
 * block of it says that its snapshot was durable, it was never in force, and the other area counts.
 *
 * Shard: pure; any.
 */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"
#include "core/wbuf.h"

enum {
    STORE_BLOCK_SIZE = 4096,
    STORE_FORMAT_VERSION = 1,
    STORE_SHARD_NONE = 0xffff,       /* In the superblock of the merge file (store_merge.h). */
    STORE_AREA_BLOCKS_MIN = 256,     /* 1 MiB */
    STORE_AREA_BLOCKS_MAX = 1 << 15, /* 128 MiB */
};

struct store_superblock {
    uint8_t magic[8];
    uint32_t crc; /* Over the whole block, with this field zero. */
    uint32_t version;
    uint64_t salt;
    uint32_t area_blocks;
    uint16_t shard;
    uint16_t shards_count;    /* Of the broker that made the file: logs are placed by it. */
    uint8_t directory_id[16]; /* Of the data directory: its logs are meant, and no others. */
    uint8_t reserved[STORE_BLOCK_SIZE - 48];
};

struct store_block_header {
    uint32_t crc; /* Over the rest of the block. */
    uint32_t payload_size;
    uint64_t salt;
    uint64_t epoch;
    uint32_t index; /* Within the area. */
    uint32_t snapshot_blocks;
    uint32_t durable_blocks; /* See invariant 3. */
    uint32_t reserved;       /* Zero, checked. */
};

enum {
    STORE_BLOCK_PAYLOAD_SIZE = STORE_BLOCK_SIZE - sizeof(struct store_block_header),
};

enum store_record_op {
    STORE_RECORD_PUT = 1,
    STORE_RECORD_DELETE = 2,
    STORE_RECORD_DELETE_LOG = 3,
};

struct store_record_header {
    uint32_t value_size;
    uint8_t op; /* enum store_record_op */
    uint8_t reserved[3];
    uint8_t topic_id[16];
    int32_t partition;
    uint32_t kind;
    uint64_t sub;
    uint64_t version; /* Of the log, counting all its changes. */
};

static_assert(sizeof(struct store_superblock) == STORE_BLOCK_SIZE, "on-disk size");
static_assert(offsetof(struct store_superblock, salt) == 16, "on-disk layout");
static_assert(offsetof(struct store_superblock, directory_id) == 32, "on-disk layout");
static_assert(sizeof(struct store_block_header) == 40, "on-disk size");
static_assert(offsetof(struct store_block_header, snapshot_blocks) == 28, "on-disk layout");
static_assert(sizeof(struct store_record_header) == 48, "on-disk size");
static_assert(offsetof(struct store_record_header, version) == 40, "on-disk layout");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are written as they are");

/* Whom a store is for. */
struct store_owner {
    struct uuid directory_id;
    uint16_t shard;
    uint16_t shards_count;
};

void store_superblock_encode(struct store_superblock *sb,
                             uint64_t salt,
                             uint32_t area_blocks,
                             const struct store_owner *owner);
struct store_owner store_superblock_owner(const struct store_superblock *sb);
/* Checks a superblock read from a file of file_size bytes. ERR_CORRUPT, ERR_NEWER_FORMAT */
enum err store_superblock_check(const struct store_superblock *sb, uint64_t file_size);

static inline uint64_t store_file_size(uint32_t area_blocks)
{
    return (1 + 2 * (uint64_t)area_blocks) * STORE_BLOCK_SIZE;
}

static inline uint64_t store_area_pos(uint32_t area_blocks, uint32_t area)
{
    return (1 + area * (uint64_t)area_blocks) * STORE_BLOCK_SIZE;
}

static inline uint64_t store_blocks_of(uint64_t stream_size)
{
    return (stream_size + STORE_BLOCK_PAYLOAD_SIZE - 1) / STORE_BLOCK_PAYLOAD_SIZE;
}

/* What the headers of one write say. */
struct store_stamp {
    uint64_t salt;
    uint64_t epoch;
    uint32_t index; /* Of the first block. */
    uint32_t snapshot_blocks;
    uint32_t durable_blocks;
};

/* Packs a stream into blocks, at least one; blocks has room for store_blocks_of(stream.size), or 1.
 * Returns how many. */
uint32_t
store_blocks_encode(const struct store_stamp *stamp, struct slice stream, uint8_t *ret_blocks);

/* What one area holds. */
struct store_area {
    uint64_t epoch;        /* The highest; 0 = no valid block. */
    uint32_t valid_blocks; /* First blocks of that epoch without a gap. */
    uint32_t snapshot_blocks;
    uint32_t durable_blocks; /* The highest that any block of the epoch says. */
};

struct store_area store_area_scan(const uint8_t *blocks, uint32_t count, uint64_t salt);

/* Says which of two areas counts. ERR_CORRUPT: the block *ret_bad of area *ret_area is damaged. */
enum err store_area_choose(const struct store_area areas[2], uint32_t *ret_area, uint32_t *ret_bad);

/* Joins the payloads of count valid blocks to one stream, in place, and returns its size. */
size_t store_area_join(uint8_t *blocks, uint32_t count);

struct store_record {
    enum store_record_op op;
    struct partition_id log;
    uint32_t kind;
    uint64_t sub;
    uint64_t version;
    struct slice value;
};

static inline size_t store_record_size(size_t value_size)
{
    return sizeof(struct store_record_header) + value_size;
}

void store_record_encode(const struct store_record *r, struct wbuf *w);

/* Takes the next record off the front of stream. ERR_EOF at its end, also inside of a record: the
 * rest was torn off. ERR_CORRUPT if it makes no sense. */
enum err store_record_next(struct slice *stream, struct store_record *ret_record);
