/* Walking the entries of a segment: which bytes are the next entry, where it ends, why it is none.
 *
 * An engine: it looks at a window of the file that the caller read, and says what it needs next.
 * Recovery, reads from disk, queries, cuts and the dump tool all walk with it, so that there is one
 * place that knows the rules of entry.h.
 *
 * Bytes come from outside: nothing here asserts on them.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"
#include "storage/entry.h"

/* A place where the entries do not go on at the next byte. */
struct segment_jump {
    uint64_t pos;        /* End of the entry before. */
    uint64_t resume_pos; /* Where the next one starts. */
    bool is_damage;      /* Else a cut. */
    bool is_accepted;    /* Damage whose loss was accepted: read as a gap (log_holes.c). */

    /* A cut: what follows is of this generation or a later one. */
    uint32_t generation;
    /* Damage: what the entry at resume_pos must be. Of a cut only index: the first one removed;
     * entries from it on of older generations count nowhere. */
    uint64_t index;
    int64_t offset;
    uint64_t previous_id;
    uint64_t term;
};

/* Bytes of the file in memory. pos and size are multiples of the block. */
struct segment_window {
    const uint8_t *data;
    uint64_t pos;
    uint64_t size;
};

struct segment_scan {
    /* Set by the caller. */
    uint64_t salt;
    uint32_t generation_min;          /* Rises at cuts. */
    uint32_t generation_max;          /* Of the log. */
    uint64_t limit_pos;               /* Nothing counts from here on; a multiple of the block. */
    const struct segment_jump *jumps; /* By pos. */
    size_t jumps_count;
    int64_t skip_offset; /* Entries that end at or below it need no payload check. */
    bool has_previous;   /* previous_id is known. */

    /* The next entry must be this. */
    uint64_t pos; /* End of the entry before. */
    uint64_t index;
    int64_t offset;
    uint64_t previous_id;
    uint64_t term; /* Not below. */

    size_t jump_next; /* First one with jumps[].pos >= pos. */
};

enum scan_step {
    SCAN_ENTRY, /* header, pos; payload if it was in the window, else null (skipped). */
    SCAN_MORE,  /* Give a window with [need_pos, need_pos + need_size), for what is at pos. */
    SCAN_END,   /* A block that no entry of this life begins, or the limit. fault, if it is a block:
                   zeros, or (salt) what a recycled file held before. */
    SCAN_BAD,   /* fault says why the bytes at pos are not the next entry. */
    SCAN_DAMAGE, /* A known hole. segment_scan_leap goes on behind it. */
};

struct scan_result {
    struct entry_header header; /* SCAN_ENTRY; SCAN_MORE and SCAN_BAD if has_header. */
    bool has_header;            /* The header is good, checksum included. */
    struct slice payload;
    uint64_t pos; /* Of the entry, or of what might be one. */
    uint64_t need_pos;
    uint64_t need_size;
    enum entry_fault fault;
};

/* Looks for jump_next after pos was set. A place inside of a hole, as an index that is older than
 * the damage may name it, moves to the beginning of the hole. */
void segment_scan_seek(struct segment_scan *scan);

/* Takes the next step; only SCAN_ENTRY moves on to the next entry. */
enum scan_step segment_scan_next(struct segment_scan *scan,
                                 const struct segment_window *window,
                                 struct scan_result *ret);

/* After SCAN_DAMAGE: goes on behind the hole. */
void segment_scan_leap(struct segment_scan *scan);

/* Whether the window has, at or after pos, a place where the header of an entry of this life
 * stands, or what is left of one. Without one nothing there can ever look valid. */
bool segment_scan_has_own(const struct segment_scan *scan,
                          const struct segment_window *window,
                          uint64_t pos);

/* Behind a bad entry: the first good header in window at or after *pos with an index above
 * scan->index. True: ret->header and ret->pos. False: none up to *pos, which moved to where the
 * search must go on (a window from there is needed, or the limit is reached). */
bool segment_scan_probe(const struct segment_scan *scan,
                        const struct segment_window *window,
                        uint64_t *pos,
                        struct scan_result *ret);
