/* Data directories: lock, identity, checks (DESIGN 4, start-up refusals).
 *
 *   <data>/LOCK         one process per directory
 *   <data>/format.json  {"version", "cluster_id", "node_id", "directory_id",
 *                        "controller_directory_id"}
 *
 * A node may have several. They are told apart by directory_id, not by path or order: they may
 * move. The one whose directory_id is controller_directory_id has the controller's log (group 0).
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
    int quiet_fd;         /* Never written: a flusher's quiet file; 0 = none. */
    struct io_fs_info fs; /* No shared flush, either, if logs/ lies elsewhere. */
    struct uuid cluster_id;
    struct uuid directory_id;
    struct uuid controller_directory_id;
    int32_t node_id;
    bool is_new; /* Was empty: format.json was written now. */
};

/* Creates directories that are missing (not their parents), locks all, checks their file systems,
 * reads format.json or, in an empty directory, writes it (durably: file, rename, directory): with
 * the ids of the others, or fresh ones if all are empty, when the first of them is to have the
 * controller's log. Then merges the stores of another number of shards (store_merge.h), so no store
 * may be open yet. The one with the controller's log comes first in ret_dirs, then the others in
 * the order given.
 *
 * On error why holds one line that names the fix, and no lock is held.
 *   ERR_LOCKED        a live process has one of them, or one is given twice
 *   ERR_UNSUPPORTED   a file system has no direct I/O
 *   ERR_NEWER_FORMAT  written by a newer version
 *   ERR_FOREIGN       another node's or cluster's, a copy, or not empty and no data directory
 *   ERR_NOT_FOUND     a parent, or the one with the controller's log, is missing
 *   ERR_CORRUPT, ERR_NO_SPACE, ERR_IO, ERR_BUSY, ERR_INVALID
 */
struct data_dirs_open {
    const char *const *paths;
    uint32_t count;
    int32_t node_id;
};
enum err data_dirs_open(struct shard *s,
                        const struct data_dirs_open *how,
                        char why[DATA_WHY_SIZE],
                        struct data_dir *ret_dirs);
/* Releases the locks and forgets the paths. */
void data_dirs_close(struct shard *s, struct data_dir *dirs, uint32_t count);

/* The same for a single one. */
enum err data_dir_open(struct shard *s,
                       const char *path,
                       int32_t node_id,
                       char why[DATA_WHY_SIZE],
                       struct data_dir *ret_dir);
void data_dir_close(struct shard *s, struct data_dir *d);
