/* The sparse index of one segment: where the entry with an index, offset or timestamp is, give or
 * take `interval` bytes. In memory an array of points; for sealed segments also a file.
 *
 *   <base index>.index:  [struct segment_index_header] [points ...] [zeros to the block]
 *
 * The entries from one point to the next are a stretch. Each point knows the largest timestamp of
 * its stretch alone, so that a search by time can begin and end anywhere (docs/decisions/0009).
 *
 * Invariants:
 *  1. Points rise strictly in pos and index, and do not fall in offset.
 *  2. The log is trusted, not the index: a point only says where to start, the entry there must
 *     have the index and offset that the point names, and no entry of its stretch a larger
 *     timestamp.
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
    int64_t max_timestamp; /* Of its stretch; -1 = none; or SEGMENT_TIME_UNKNOWN */
};

/* As late as any: a stretch that could not be read to its end, or before the first point. */
#define SEGMENT_TIME_UNKNOWN INT64_MAX

/* The entries from a point (or the start of the segment) up to the next one. */
struct segment_stretch {
    const struct segment_point *start; /* NULL: before the first point. */
    uint64_t end_index;                /* UINT64_MAX and INT64_MAX: the end of the segment. */
    int64_t end_offset;
    int64_t max_timestamp;
};

struct segment_points {
    struct segment_point *all;
    uint32_t count;
    uint32_t capacity;
};

void segment_points_done(struct segment_points *ps);
/* ERR_BUSY without memory; the index is then sparser there and still right. */
enum err segment_points_add(struct segment_points *ps, const struct segment_point *p);
/* Takes note of the next entry of the segment (entry->max_timestamp is its own): adds a point if it
 * is at or above *next_pos, and moves that on by interval. Without memory the index stays sparser,
 * and right. */
void segment_points_note(struct segment_points *ps,
                         const struct segment_point *entry,
                         uint64_t *next_pos,
                         uint32_t interval);
/* Removes points at or above index. What the last one says of times then holds for more than is
 * left of its stretch. */
void segment_points_cut(struct segment_points *ps, uint64_t index);
size_t segment_points_size(const struct segment_points *ps);

/* The last point with point.offset <= offset, or point.index <= index. NULL if there is none: start
 * at the first entry. */
const struct segment_point *segment_points_by_offset(const struct segment_points *ps,
                                                     int64_t offset);
const struct segment_point *segment_points_by_index(const struct segment_points *ps,
                                                    uint64_t index);

/* The first stretch, from the one of the entry with from_index on, that may hold an entry at or
 * after timestamp. False if none does. A walk over the points: 16,000 of them, a full segment of
 * 1 GiB, take some 20 us. */
bool segment_points_find_late(const struct segment_points *ps,
                              uint64_t from_index,
                              int64_t timestamp,
                              struct segment_stretch *ret_stretch);

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
/* out has segment_index_file_size bytes. Sets magic, version, crc and points_count of h. Where a
 * stretch's timestamp is unknown, the file says the segment's. */
void segment_index_encode(struct segment_index_header *h,
                          const struct segment_points *ps,
                          uint8_t *out);
/* Checks checksum, order and bounds; ps must be empty and is filled. ERR_CORRUPT, ERR_BUSY. */
enum err segment_index_decode(struct slice file,
                              struct segment_index_header *ret_header,
                              struct segment_points *ps);
