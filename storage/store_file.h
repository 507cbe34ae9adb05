/* Files of a store: making a new one, reading a whole one. Both are tasks of several waits.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"
#include "storage/store_format.h"

struct shard;

/* A new store file, under a temporary name until it is complete:
 *
 *   START -> WAIT_OPEN -> WAIT_ZEROS (again and again) -> WAIT_SYNC -> WRITABLE
 *   WRITABLE -> WAIT_RENAME -> WAIT_SYNC_DIR -> DONE      store_birth_install
 *   any error, or store_birth_abandon in WRITABLE: -> WAIT_CLOSE -> DONE
 *
 * In WRITABLE all its blocks were written and are durable, so what is then written to it is an
 * overwrite like any other, and may ride a shared flush. A crash before the rename leaves the old
 * file, if any, in force; the temporary one is overwritten by the next attempt. */
enum store_birth_state {
    STORE_BIRTH_START,
    STORE_BIRTH_WAIT_OPEN,
    STORE_BIRTH_WAIT_ZEROS,
    STORE_BIRTH_WAIT_SYNC,
    STORE_BIRTH_WRITABLE,
    STORE_BIRTH_WAIT_RENAME,
    STORE_BIRTH_WAIT_SYNC_DIR,
    STORE_BIRTH_WAIT_CLOSE,
    STORE_BIRTH_DONE,
    STORE_BIRTH_STATE_COUNT,
};

struct store_birth {
    struct shard *s;
    struct flusher *flusher; /* Learns of a failed sync. */
    const char *dir;         /* The caller's, as the next two. */
    const char *path;        /* The name it gets in the end, */
    const char *path_new;    /* and the one before. */
    struct store_owner owner;
    uint32_t area_blocks;
    void *context;
    /* It is WRITABLE, or DONE: installed, or with an error closed again. From the loop. */
    void (*on_step)(void *context, enum err e);

    /* Private, but for fd and salt in WRITABLE. */
    int fd;
    uint64_t salt;
    uint8_t state; /* enum store_birth_state */
    enum err result;
    struct io_op op;
    uint8_t *blocks;
    uint64_t pos;
};

/* The fields above "Private" are set. */
void store_birth_begin(struct store_birth *b);
/* In WRITABLE, when what was written to it is durable. The file is then the caller's. */
void store_birth_install(struct store_birth *b);
/* In WRITABLE: ends in DONE with ERR_CANCELLED. */
void store_birth_abandon(struct store_birth *b);

/* Reading a whole file:
 *
 *   START -> WAIT_OPEN -> WAIT_SUPERBLOCK -> WAIT_AREAS (again and again) -> DONE
 *   any error: -> WAIT_CLOSE -> DONE */
enum store_load_state {
    STORE_LOAD_START,
    STORE_LOAD_WAIT_OPEN,
    STORE_LOAD_WAIT_SUPERBLOCK,
    STORE_LOAD_WAIT_AREAS,
    STORE_LOAD_WAIT_CLOSE,
    STORE_LOAD_DONE,
    STORE_LOAD_STATE_COUNT,
};

struct store_load {
    struct shard *s;
    const char *path;
    void *context;
    /* ERR_NOT_FOUND, ERR_CORRUPT (no valid superblock), ERR_NEWER_FORMAT, ERR_IO, ERR_BUSY. On
     * success fd is open for reading and writing, and the caller's. From the loop. */
    void (*on_loaded)(void *context, enum err e);

    /* Private until on_loaded. */
    int fd;
    uint8_t state; /* enum store_load_state */
    enum err result;
    uint64_t size;                       /* Of the file. */
    struct store_superblock *superblock; /* Both of malloc; store_load_done frees them. */
    uint8_t *blocks;                     /* The two areas. */
    uint64_t pos;
    struct io_op op;
};

void store_load_begin(struct store_load *ld);
void store_load_done(struct store_load *ld);

/* A checked file in memory to a stream of records, which replaces the blocks in place.
 * ERR_CORRUPT: *ret_bad_pos in the file is damaged. */
struct store_contents {
    uint32_t area;
    struct store_area areas[2];
    struct slice stream;
};
enum err store_contents_find(const struct store_superblock *sb,
                             uint8_t *blocks,
                             struct store_contents *ret_contents,
                             uint64_t *ret_bad_pos);

/* "<dir>/shard-<n>.store<suffix>"; free() it. NULL without memory. */
char *store_path(const char *dir, uint16_t shard, const char *suffix);
