/* What is in a store file or a checkpoint file, for people: `coreflume log dump FILE`.
 *
 * Only reads; a broker may have the files open, and change a store meanwhile: then what is read may
 * be refused as damaged, and the next try sees it whole. Bytes come from outside: nothing here
 * asserts on them. Blocking, through io_call.
 *
 * Shard: a tool's own.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"
#include "storage/checkpoint.h"
#include "storage/store_map.h"

struct io;

struct store_dump {
    uint16_t shard;
    uint16_t shards_count;
    struct uuid directory_id;
    uint32_t area; /* The one that counts. */
    uint64_t epoch;
    uint64_t bad_pos;     /* In the file, of what ERR_CORRUPT is about; 0: the superblock. */
    struct store_map map; /* All live values. */
};

/* On success ret_dump is freed by store_dump_done.
 *   ERR_NOT_FOUND, ERR_IO, ERR_CORRUPT (bad_pos), ERR_NEWER_FORMAT, ERR_BUSY */
enum err store_dump_load(struct io *io, const char *path, struct store_dump *ret_dump);
void store_dump_done(struct store_dump *d);

struct checkpoint_dump {
    struct checkpoint checkpoint; /* Points into bytes. */
    uint8_t *bytes;
};

/* As above. */
enum err checkpoint_dump_load(struct io *io, const char *path, struct checkpoint_dump *ret_dump);
void checkpoint_dump_done(struct checkpoint_dump *d);
