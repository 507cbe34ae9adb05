/* What stands about segments on disk, outside of the entries: the header block of a segment file
 * and the values in the shard's store. Little-endian, no padding.
 *
 * A segment is named twice, in its header and in the manifest record of the store. The record is
 * what counts: it was durable before the segment was used, and salt, base and generation of every
 * entry are judged by it. The header is for people and tools that have only the file; recovery
 * warns when it disagrees.
 *
 * Shard: pure; any.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

enum {
    SEGMENT_HEADER_SIZE = 4096, /* One block; the first entry follows. */
    SEGMENT_NAME_SIZE = 48,     /* "<20 digits>-<10 digits>.timeindex", and NUL. */
};

/* What comes before the first entry of a segment. */
struct segment_base {
    uint64_t index;       /* Raft index of the first entry. */
    int64_t offset;       /* Its Kafka offset. */
    uint64_t previous_id; /* entry_id of the entry before; 0 at the start of the log. */
    uint64_t term;        /* Its term; 0 at the start of the log. */
};

struct segment_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t crc; /* CRC-32C over the struct with this field zero. */
    uint64_t salt;
    struct segment_base base;
    uint8_t topic_id[16];
    int32_t partition;
    uint32_t generation;   /* Of the log when the segment was born, or rewritten. */
    uint32_t file_version; /* As in its name. */
    uint8_t reserved[44];
};
static_assert(sizeof(struct segment_header) == 128, "on-disk size");
static_assert(offsetof(struct segment_header, base) == 24, "on-disk layout");

/* Writes the header block into block (SEGMENT_HEADER_SIZE bytes). */
void segment_header_encode(struct segment_header *h, uint8_t *block);
/* ERR_CORRUPT, ERR_NEWER_FORMAT. */
enum err segment_header_decode(const uint8_t *block, struct segment_header *ret_header);

/* STORE_SEGMENT, sub = base index.
 *
 * A rewritten segment stands for all that was in [base.index, end_index): whatever other segment
 * the manifest names there, and whatever cut of an older file version, counts for nothing from the
 * moment this one record is durable. So one record swaps any number of files. */
struct segment_record {
    uint32_t version;
    uint32_t generation;
    uint64_t salt;
    struct segment_base base;
    uint64_t filled_to;    /* Nothing of this life stands at or above. */
    uint64_t written_to;   /* Blocks below were written, perhaps by an earlier life of the file, and
                              are durable with their extents. Not below filled_to. */
    uint64_t end_index;    /* Rewritten: the index behind its last entry. 0 = as appended. */
    uint32_t file_version; /* In the name; 0 as appended, one more with each rewriting. */
    uint32_t reserved;     /* Zero. */
    uint64_t end_pos;      /* Closed, and below a checkpoint: end of the last entry. Else 0. */
    int64_t max_timestamp; /* Likewise; -1 = none. */
    uint64_t entries_size; /* Likewise: bytes of entries without padding. */
};
static_assert(sizeof(struct segment_record) == 104, "on-disk size");

/* STORE_CUT, sub = generation. */
struct cut_record {
    uint32_t version;
    uint32_t generation;   /* After the cut. */
    uint64_t segment;      /* Base index of the segment it cuts into. */
    uint64_t pos;          /* End of the last entry that stays. Readers jump to the next block. */
    uint64_t index;        /* First one removed. */
    uint64_t previous_id;  /* Of the last entry that stays; what the next one must name. */
    uint32_t is_done;      /* 0: an intent, recovery redoes it. */
    uint32_t file_version; /* Of the segment; a record of an older one means nothing. */
};
static_assert(sizeof(struct cut_record) == 48, "on-disk size");

/* STORE_DURABLE, sub 0. */
struct durable_record {
    uint32_t version;
    uint32_t generation; /* Of the log when durable_index was learnt. */
    uint64_t durable_index;
    uint64_t commit_index;
    uint64_t
        end_segment;  /* The log was closed, all of it durable: base index of its last segment, */
    uint64_t end_pos; /* and where it ends; behind it nothing was written. 0: it was not. */
};
static_assert(sizeof(struct durable_record) == 40, "on-disk size");

/* STORE_CLEAN, sub 0. */
struct clean_record {
    uint32_t version;
    uint32_t reserved;    /* Zero. */
    uint64_t clean_index; /* Below, nothing superseded or aborted remains. */
    int64_t clean_offset; /* The same as an offset, which may be inside a batch. */
};
static_assert(sizeof(struct clean_record) == 24, "on-disk size");

/* STORE_HOLE, sub = first_index. What stands between pos and resume_pos is given up, and read as
 * the gap that compaction would leave for it. */
struct hole_record {
    uint32_t version;
    uint32_t file_version; /* Of the segment; a record of an older one means nothing. */
    uint64_t segment;      /* Base index of the segment it is in. */
    uint64_t pos;          /* End of the entry before. */
    uint64_t resume_pos;   /* Where the next one starts; the segment's end if it is in the next. */
    uint64_t first_index;
    uint64_t next_index; /* Of that next entry, as what follows. */
    int64_t first_offset;
    int64_t next_offset;
    uint64_t previous_id; /* Which it names: of the last one lost. */
    uint64_t term;
};
static_assert(sizeof(struct hole_record) == 80, "on-disk size");

/* Each sets version. The decoders check size and version: ERR_CORRUPT, ERR_NEWER_FORMAT. */
struct slice segment_record_encode(struct segment_record *r);
enum err segment_record_decode(struct slice value, struct segment_record *ret_record);
struct slice cut_record_encode(struct cut_record *r);
enum err cut_record_decode(struct slice value, struct cut_record *ret_record);
struct slice durable_record_encode(struct durable_record *r);
enum err durable_record_decode(struct slice value, struct durable_record *ret_record);
struct slice clean_record_encode(struct clean_record *r);
enum err clean_record_decode(struct slice value, struct clean_record *ret_record);
struct slice hole_record_encode(struct hole_record *r);
enum err hole_record_decode(struct slice value, struct hole_record *ret_record);

/* What names the files of a segment: "<base index, 20 digits>[-<version>]<suffix>"; the version
 * stands there if it is not 0. */
struct segment_name {
    uint64_t base_index;
    uint32_t version;
};
void segment_name_format(const struct segment_name *n,
                         const char *suffix,
                         char ret_name[SEGMENT_NAME_SIZE]);
/* False if text is not of that form with that suffix. */
bool segment_name_parse(const char *text, const char *suffix, struct segment_name *ret_name);

static inline uint64_t block_align_up(uint64_t pos)
{
    return (pos + 4095) & ~(uint64_t)4095;
}

static inline uint64_t block_align_down(uint64_t pos)
{
    return pos & ~(uint64_t)4095;
}
