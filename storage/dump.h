/* Walking one segment file without its store, for people: `coreflume log dump FILE`.
 *
 * What only the store knows (cuts, how far the file was filled, which entries are durable) is not
 * known here. So every good entry is shown, and where the entries do not go on, why, and where they
 * go on again. Entries of an older generation that a cut removed, but whose bytes are still in the
 * first cut block, are shown before the DUMP_CUT that tells.
 *
 * Only reads. Bytes come from outside: nothing here asserts on them. Blocking, through io_call.
 *
 * Shard: a tool's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "storage/entry.h"
#include "storage/segment_format.h"

struct io;

enum dump_kind {
    DUMP_SEGMENT, /* First: the file's header, segment. */
    DUMP_ENTRY,   /* entry, payload; fault is ENTRY_FAULT_PAYLOAD if only that is bad. */
    DUMP_BAD,     /* The bytes at pos are not the next entry: fault. */
    DUMP_CUT,     /* Entries shown before with an index >= index were cut. */
    DUMP_END,     /* Last: nothing but zeros, or the end of the file, from pos on. */
};

struct dump_item {
    enum dump_kind kind;
    uint64_t pos; /* In the file. */
    const struct segment_header *segment;
    const struct entry_header *entry;
    struct slice payload; /* Valid during the call. */
    enum entry_fault fault;
    uint64_t index;
    uint64_t end_pos;     /* DUMP_BAD: where they go on; the file's end if nowhere. */
    int64_t first_offset; /* Of what should stand between, */
    int64_t next_offset;  /* and behind it; INT64_MAX: nobody knows. */
};

/* Opens a file to be looked at, and tells its size in whole blocks. ERR_NOT_FOUND, ERR_IO. */
enum err dump_open(struct io *io, const char *path, int *ret_fd, uint64_t *ret_size);

/* on_item is called for each item in order; an error of its ends the walk with it.
 *   ERR_NOT_FOUND, ERR_IO
 *   ERR_CORRUPT        the header block is not that of a segment
 *   ERR_NEWER_FORMAT
 *   ERR_BUSY           no memory
 */
enum err log_dump(struct io *io,
                  const char *path,
                  void *context,
                  enum err (*on_item)(void *context, const struct dump_item *item));
