/* The shared flush of one shard on one data directory (DESIGN 4.2).
 *
 * A client (a log, the store) with something to make durable asks once. A round then is
 *   write: every asking client submits its writes;
 *   flush: when all those writes completed, ONE fdatasync makes them durable (or one per touched
 *          file, where the file system does not give that promise);
 *   done:  each client of the round is told.
 * The next round writes while the current one flushes; at most one flush is in flight. Rounds run
 * back to back while there is work, never on a timer. A failed flush is fatal and never retried:
 * the kernel tells one caller, drops what it could not write, and the next sync succeeds without
 * it. That caller may be a sync outside of the rounds, hence flusher_sync_done.
 *
 *            ask            all writes done,           flush done
 *   asking --------> writing -----------------> flushing ---------> on_flushed
 *                            no flush in flight
 *
 * A round whose writes are done and that waits for the flush before it still takes in clients that
 * are not part of it: with a slow disk they would otherwise wait one flush longer. A client that is
 * in the writing round already, and asks again, is in the next one.
 *
 * Callbacks come from the loop, never inside flusher_ask. In on_flushed a client may ask again. A
 * client must stay alive and keep its files open while it is in a round.
 *
 * A shared flush is that of a quiet file, so what it covers it covers as the device's, never
 * because it was the file's own.
 *
 * Only overwrites of blocks whose extents are durable may ride a shared flush; births and growth of
 * files use their own fsync (segment_birth.c, segment_fill.c).
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"
#include "core/stats.h"

struct shard;
struct io_op;
struct flusher;
struct flush_client;

struct flush_client_ops {
    /* Submit all writes that should be durable at the end of this round; for each call
     * flusher_write_started now and flusher_write_done from its completion. */
    void (*write)(struct flush_client *c);
    /* Everything this client started in the round is durable. */
    void (*on_flushed)(struct flush_client *c);
    /* The flusher failed while c asked or was in a round: c is in none any more. NULL = c learns it
     * from whoever owns the flusher. */
    void (*on_failed)(struct flush_client *c);
};

/* Embedded in the client. A client is in at most one writing and one flushing round at a time. */
struct flush_client {
    const struct flush_client_ops *ops;
    struct list ask_link; /* Private. */
    struct list
        round_links[2]; /* Private: it may be in one round that writes and one that flushes. */
};

void flush_client_init(struct flush_client *c, const struct flush_client_ops *ops);

struct flusher_options {
    bool is_shared; /* io_fs_info said that one flush covers all files. */
    /* With is_shared: a file of that file system which nobody writes. It is flushed in place of
     * those that were: the device's cache goes, and no file's times with it, which some file
     * systems write and wait for first. 0 = none: the first file of the round is. */
    int quiet_fd;
    const char *stats_labels; /* Must outlive the flusher; NULL = the shard's. */
    void *context;
    /* Called once when a write or flush failed for good; the flusher has then let go of all its
     * clients, tells them nothing any more and ignores who asks. */
    void (*on_failed)(void *context, enum err e);
};
enum err
flusher_new(struct shard *s, const struct flusher_options *o, struct flusher **ret_flusher);
/* It must be idle, or failed and without writes or flushes in flight. Not from a callback. */
void flusher_free(struct flusher *f);

/* c wants a round; harmless if it asks already. */
void flusher_ask(struct flusher *f, struct flush_client *c);
/* Takes back an ask that is not in a round. */
void flusher_withdraw(struct flusher *f, struct flush_client *c);

/* fd: the file written, for the flush. */
void flusher_write_started(struct flusher *f, int fd);
/* result other than ERR_OK fails the flusher. */
void flusher_write_done(struct flusher *f, enum err result);

/* op, of the same file system, ended outside of the rounds. If it is a sync (IO_FSYNC,
 * IO_FDATASYNC, IO_FSYNC_DIR) that failed other than for want of room, of the directory, or of a
 * descriptor for it, the flusher fails: what the sync dropped may be what a round of somebody else
 * counts on. f may be NULL: the merge at start, whose failure ends the start. */
void flusher_sync_done(struct flusher *f, const struct io_op *op);

/* Another shard's flusher of the same file system failed: nothing that this one is told from now on
 * could be trusted. Like a failed flush of its own; nothing if it has failed already. */
void flusher_fail(struct flusher *f, enum err e);

/* No round is running and nobody asks, nothing is in flight. */
bool flusher_is_idle(const struct flusher *f);
bool flusher_is_failed(const struct flusher *f);

/* On the metrics page as coreflume_flush_... of the shard. */
struct flusher_stats {
    uint64_t rounds;
    uint64_t flushes; /* fdatasync calls. */
    uint64_t clients; /* Sum over rounds. */
    struct histogram flush_us;
};
const struct flusher_stats *flusher_stats(const struct flusher *f);
