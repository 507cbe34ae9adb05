/* The sparse index of one segment: where the entry with an index, offset or timestamp is, give or
 * take `interval` bytes. In memory an array of points; for sealed segments also a file.
 *
 *   <base index>.index:  [struct segment_index_header] [points ...] [zeros to the block]
 *
 * Invariants:
 *  1. Points rise strictly in pos and index, and do not fall in offset.
 *  2. The log is trusted, not the index: a point only says where to start, the entry there must
 *     have the index and offset that the point names.
 *
 * Shard: pure; the owner's.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"

struct segment_point {
    uint64_t pos;
    uint64_t index;
    int64_t offset;
    int64_t max_timestamp; /* Over all entries of the segment before this one; -1 = none. */
};

struct segment_points {
    struct segment_point *all;
    uint32_t count;
    uint32_t capacity;
};

void segment_points_done(struct segment_points *ps);
/* ERR_BUSY without memory; the index is then sparser there and still right. */
enum err segment_points_add(struct segment_points *ps, const struct segment_point *p);
/* Adds p if it is at or above *next_pos, and moves that on by interval. Without memory the index
 * stays sparser, and right. */
void segment_points_note(struct segment_points *ps,
                         const struct segment_point *p,
                         uint64_t *next_pos,
                         uint32_t interval);
/* Removes points at or above index. */
void segment_points_cut(struct segment_points *ps, uint64_t index);
size_t segment_points_size(const struct segment_points *ps);

/* The last point with point.offset <= offset, point.index <= index, or point.max_timestamp <
 * timestamp. NULL if there is none: start at the first entry. */
const struct segment_point *segment_points_by_offset(const struct segment_points *ps,
                                                     int64_t offset);
const struct segment_point *segment_points_by_index(const struct segment_points *ps,
                                                    uint64_t index);
const struct segment_point *segment_points_by_timestamp(const struct segment_points *ps,
                                                        int64_t timestamp);

struct segment_index_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t crc; /* CRC-32C over header (this field zero) and points. */
    uint64_t salt;
    uint64_t base_index;
    uint32_t generation; /* Of the log when it was written. */
    uint32_t points_count;
    uint64_t covered_pos;  /* End of the last entry. */
    uint64_t covered_next; /* Index after the last entry. */
    int64_t max_timestamp; /* Of the segment. */
};
static_assert(sizeof(struct segment_index_header) == 64, "on-disk size");
static_assert(sizeof(struct segment_point) == 32, "on-disk size");

/* Bytes of the file, a multiple of the block. */
size_t segment_index_file_size(const struct segment_points *ps);
/* out has segment_index_file_size bytes. Sets magic, version, crc and points_count of h. */
void segment_index_encode(struct segment_index_header *h,
                          const struct segment_points *ps,
                          uint8_t *out);
/* Checks checksum, order and bounds; ps must be empty and is filled. ERR_CORRUPT, ERR_BUSY. */
enum err segment_index_decode(struct slice file,
                              struct segment_index_header *ret_header,
                              struct segment_points *ps);
