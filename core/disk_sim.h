/* The file systems of one simulated machine: a disk that lies like a disk.
 *
 * What is visible (current) and what survives a power loss (durable) are kept apart, and separately
 * for three things that a real file system also keeps apart:
 *   data     per 512-byte sector
 *   extents  whether a block of a file was allocated durably, and the size of the file
 *   names    the entries of directories
 *
 * Rules, all of them counted from the *start* of the sync (a write that completes while a sync runs
 * is not covered):
 *  1. IO_FSYNC and IO_FDATASYNC of a file make its data, extents and size durable, not its name.
 *  2. IO_FDATASYNC also flushes the device: completed direct overwrites, in any file, of blocks
 *     whose extent is durable become durable. Nothing else of other files does: not buffered
 *     writes, not data in new extents, not sizes, not names.
 *  3. IO_FSYNC_DIR makes the changes of names in that directory durable. A rename is atomic.
 *  4. A power loss keeps, drops or mangles everything else as the seed says. A mere death of the
 *     process keeps what completed, still not durable, so that a later power loss may take it.
 *     With several file systems (are_roots_volumes) each has its own device and its own space.
 *  5. A sync that failed abandons what it should have written: no later sync covers it.
 * Ops in flight at either end may have happened, wholly or in any subset of sectors.
 *
 * Misuse that no disk would report, and that the design forbids, is a panic: two direct writes in
 * flight on one block, and a buffer that changes while its write is in flight.
 *
 * Deterministic: no clock, and randomness only from the struct rand passed in.
 *
 * Shard: any of the simulated machine; the simulator runs them all in one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"
#include "core/rand.h"

struct disk_sim;
struct disk_sim_op; /* One op in flight. */

struct disk_sim_options {
    uint64_t capacity_size; /* Bytes of file data that fit; 0 = no limit. */
    bool is_direct_capable; /* What fs_info says. */
    bool is_flush_shared;   /* Rule 2 holds; else IO_FDATASYNC covers its own file only. */
    bool are_roots_volumes; /* Every directory of the root is a file system of its own. */
};

struct disk_sim *disk_sim_new(const struct disk_sim_options *o);
/* No op may be in flight. Accepts NULL. */
void disk_sim_free(struct disk_sim *d);

/* Takes note of a disk op (not of sockets). Nothing is visible before its finish. Paths and data
 * are copied. An op that is refused at once (bad descriptor, misalignment) fails in finish. */
struct disk_sim_op *disk_sim_start(struct disk_sim *d, const struct io_op *op);

/* Performs it: bytes moved, a descriptor, 0, or -errno. size_max < the op's size gives a short
 * transfer. Frees o. */
int64_t disk_sim_finish(struct disk_sim_op *o, uint64_t size_max);

/* It fails in the device: a write may have reached any subset of its sectors, a sync abandons what
 * it should have covered, anything else did nothing. Frees o. */
void disk_sim_fail(struct disk_sim_op *o, struct rand *r);

/* A transfer in flight will meet another place than it was meant for: the bytes of path from pos
 * on. A write then leaves what stands at its own place; the file system, which knows nothing of it,
 * allocates that all the same. ERR_NOT_FOUND, ERR_EOF if it does not fit there. */
enum err disk_sim_misdirect(struct disk_sim_op *o, const char *path, uint64_t pos);
/* The path of the file that an op is about. False if it has no name, or a longer one. */
bool disk_sim_op_path(const struct disk_sim_op *o, char *ret_path, size_t size);

/* The op never happened (cancelled before it began). Frees o. */
void disk_sim_drop(struct disk_sim_op *o);

/* How a crash treats what is not durable. Chances in percent. */
struct disk_sim_crash {
    bool is_power_loss;     /* Else only the process died. */
    bool are_names_ordered; /* Names survive as a prefix of their changes, as journals do it. */
    uint32_t keep_sector;   /* An unsynced sector has its new content ... */
    uint32_t mangle_sector; /* ... of those lost: neither old nor new, but noise, zeros, what stood
                               there long ago, or what a deleted file left. */
    uint32_t keep_extent;   /* A new block, or a new size, is there. */
    uint32_t keep_name;     /* A change of a name is there. */
};

/* Draws one of the kinds of crash: nothing kept, all kept, mixtures. */
struct disk_sim_crash disk_sim_crash_draw(struct rand *r);

/* The machine loses power, or its only process dies. Ops in flight happen or not; all descriptors
 * and locks go. After a power loss everything there is, is durable. */
void disk_sim_crash(struct disk_sim *d, struct rand *r, const struct disk_sim_crash *how);

/* Start-up helpers behind struct io_backend_ops. */
enum err disk_sim_list_dir(struct disk_sim *d,
                           const char *path,
                           void *context,
                           void (*on_name)(void *context, const char *name));
void disk_sim_fs_info(struct disk_sim *d, const char *path, struct io_fs_info *ret_info);
enum err disk_sim_lock(struct disk_sim *d, const char *path, int *ret_handle);
void disk_sim_unlock(struct disk_sim *d, int handle);
enum err disk_sim_file_size(struct disk_sim *d, const char *path, uint64_t *ret_size);

/* For tests and for planting damage. */

/* Flips one bit of a file in every version there is of it. ERR_NOT_FOUND, ERR_EOF. */
enum err disk_sim_flip_bit(struct disk_sim *d, const char *path, uint64_t pos, uint32_t bit);
/* Overwrites bytes of a file in every version, as a misdirected write of another file would do.
 * ERR_NOT_FOUND, ERR_EOF if that is beyond the end. */
enum err
disk_sim_damage(struct disk_sim *d, const char *path, uint64_t pos, const void *data, size_t size);
/* Copies current bytes of a file, like a read at once. ERR_NOT_FOUND, ERR_EOF. */
enum err disk_sim_peek(struct disk_sim *d, const char *path, uint64_t pos, void *dst, size_t size);
/* Of every file system, or of the one that path is on. */
void disk_sim_set_capacity(struct disk_sim *d, uint64_t capacity_size);
void disk_sim_set_capacity_at(struct disk_sim *d, const char *path, uint64_t capacity_size);
/* Of all file systems together, or of that one. */
uint64_t disk_sim_used_size(const struct disk_sim *d);
uint64_t disk_sim_used_size_at(struct disk_sim *d, const char *path);
/* The device of path's file system is gone, or back: then all ops on it fail, but for closing. What
 * is asked while starting (disk_sim_list_dir and the like) is still answered. */
void disk_sim_set_broken(struct disk_sim *d, const char *path, bool is_broken);
bool disk_sim_op_is_broken(const struct disk_sim_op *o);
uint32_t disk_sim_open_count(const struct disk_sim *d);
uint32_t disk_sim_in_flight_count(const struct disk_sim *d);

/* Of all current names, sizes and contents. Walks everything. */
uint64_t disk_sim_hash(const struct disk_sim *d);

/* Calls on_file for each file reachable now, in a fixed order; path is valid during the call. */
void disk_sim_each_file(const struct disk_sim *d,
                        void *context,
                        void (*on_file)(void *context, const char *path, uint64_t size));
