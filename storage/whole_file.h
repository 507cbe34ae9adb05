/* Writing and reading a small file as a whole, with direct I/O.
 *
 *   write:  WAIT_CREATE -> WAIT_WRITE -> WAIT_FSYNC -> WAIT_CLOSE -> WAIT_RENAME -> WAIT_FSYNC_DIR
 *   read:   WAIT_OPEN -> WAIT_READ -> WAIT_CLOSE
 *
 * A write goes to tmp_path first: under its name the file is whole, with what it had before or with
 * what was written, whatever happens. A sync that fails ends the flusher, as all do.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"

struct buf;
struct flusher;
struct shard;

enum whole_file_state {
    WHOLE_FILE_IDLE,
    WHOLE_FILE_WAIT_CREATE,
    WHOLE_FILE_WAIT_WRITE,
    WHOLE_FILE_WAIT_FSYNC,
    WHOLE_FILE_WAIT_CLOSE,
    WHOLE_FILE_WAIT_RENAME,
    WHOLE_FILE_WAIT_FSYNC_DIR,
    WHOLE_FILE_WAIT_OPEN,
    WHOLE_FILE_WAIT_READ,
    WHOLE_FILE_WAIT_CLOSE_READ,
};

struct whole_file {
    /* Set by the owner; to be kept until on_done. */
    struct shard *s;
    struct flusher *flusher;
    const char *path;
    const char *tmp_path; /* In the same directory; only for a write. */
    const char *dir;      /* Likewise. */
    uint8_t *data;        /* size bytes, aligned as direct I/O wants it. */
    uint64_t size;        /* A multiple of IO_ALIGN. */
    /* Never inside of begin. May free the struct or begin again. ERR_EOF: a read met the end. */
    void (*on_done)(struct whole_file *f, enum err e);

    enum whole_file_state state; /* Private, as what follows. */
    enum err result;
    int fd;
    struct io_op op;
};

void whole_file_write_begin(struct whole_file *f);
void whole_file_read_begin(struct whole_file *f);
