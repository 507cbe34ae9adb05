/* One data directory: lock, identity, checks (DESIGN 4, start-up refusals).
 *
 *   <data>/LOCK         one process per directory
 *   <data>/format.json  {"version", "cluster_id", "node_id", "directory_id"}
 *
 * Shard: shard 0 at start; blocking (through io_call, which waits on the backend).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/io.h"

struct shard;

enum {
    DATA_FORMAT_VERSION = 1,
    DATA_WHY_SIZE = 512,
};

struct data_dir {
    char *path;
    int lock_handle;
    struct io_fs_info fs;
    struct uuid cluster_id;
    struct uuid directory_id;
    int32_t node_id;
    bool is_new; /* Was empty: format.json was written now. */
};

/* Creates the directory if missing (not its parents), locks it, checks the file system, reads
 * format.json or, in an empty directory, writes it with fresh ids (durably: file, rename,
 * directory); then merges the stores of another number of shards (store_merge.h), so no store may
 * be open yet. On error why holds one line that names the fix, and the lock is not held. ERR_LOCKED
 * a live process has it ERR_UNSUPPORTED    the file system has no direct I/O ERR_NEWER_FORMAT
 * written by a newer version ERR_FOREIGN        another node's, or not empty and no data directory
 *   ERR_CORRUPT, ERR_NO_SPACE, ERR_IO, ERR_BUSY
 */
enum err data_dir_open(struct shard *s,
                       const char *path,
                       int32_t node_id,
                       char why[DATA_WHY_SIZE],
                       struct data_dir *ret_dir);
/* Releases the lock and forgets the path. */
void data_dir_close(struct shard *s, struct data_dir *d);
