/* All disk and socket I/O of a shard, asynchronous, behind one interface.
 *
 * Front: struct io, one per shard. It continues short transfers, counts, and queues completions.
 * Back:  struct io_backend, with several implementations: io_uring (core/io_uring.h), the simulated
 *        disk (core/io_sim.h) and the fault shim that sits on either (core/io_fault.h).
 *
 * Rules of use:
 *  1. An op is embedded in its owner and belongs to io from io_submit until on_done runs.
 *  2. on_done never runs inside io_submit; io_run_completions calls it from the loop.
 *  3. io_submit never fails and never blocks: what the kernel's queue cannot take waits in ours.
 *     Bounding what is in flight is the owner's admission (budget, pools).
 *  4. IO_READ and IO_WRITE complete with all `size` bytes or with an error: short transfers are
 *     continued here. A read that meets the end of the file fails with ERR_EOF, done_size says how
 *     far it came. Buffers, positions and sizes of direct files are multiples of IO_ALIGN.
 *  5. A path must stay valid until on_done.
 *
 * Shard: the owner's. errno never leaves the backend but as raw_errno, for log lines.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/err.h"
#include "core/list.h"

enum {
    IO_ALIGN = 4096,    /* Alignment of direct I/O: memory, position and size. */
    IO_TORN_SIZE = 512, /* A disk may tear a write at this grain. */
    IO_IOV_MAX = 64,    /* Vectors per op. */
};

enum io_kind {
    IO_READ,      /* fd, buf or iov, size, pos */
    IO_WRITE,     /* fd, buf or iov, size, pos */
    IO_FSYNC,     /* fd: data and all metadata of this file, its size and extents included */
    IO_FDATASYNC, /* fd: like fsync here; also flushes the device's cache (shared flush) */
    IO_ALLOCATE,  /* fd, size, pos: the file grows to pos + size if it is smaller and gets room,
                     which  reads as zeros; ERR_UNSUPPORTED where the file system cannot. Not
                     "written  before": a write of zeros must follow, and is the cheaper for it */
    IO_OPEN,      /* path, open_flags -> fd */
    IO_CLOSE,     /* fd */
    IO_RENAME,    /* path -> new_path, replaces */
    IO_UNLINK,  /* path of a file, or of an empty directory with IO_OPEN_DIRECTORY in open_flags */
    IO_MKDIR,   /* path; an existing directory is ERR_EXISTS */
    IO_SYMLINK, /* new_path becomes a link that says path */
    IO_FSYNC_DIR, /* path of a directory: its names become durable */
    IO_ACCEPT,    /* fd of a listening socket -> fd */
    IO_CONNECT,   /* fd, buf = struct sockaddr, size */
    IO_RECV,      /* fd, buf, size: at least 1 byte, done_size says; 0 bytes = ERR_EOF.
                     With IO_FLAG_ALL: all size bytes. With IO_FLAG_POOLED: buf and size are chosen
                     by io; hand back with io_recv_buffer_return, even from on_done */
    IO_SEND,      /* fd, buf or iov, size: all bytes */
    IO_CANCEL, /* target, whose on_done has not run yet: asks for its early end; it completes with
                  ERR_CANCELLED or whatever it came to. The cancel itself always ends with
                  ERR_OK, and until then the target's memory must not carry a new op */
    IO_KIND_COUNT,
};

enum io_open_flags {
    IO_OPEN_READ = 1,
    IO_OPEN_WRITE = 2,
    IO_OPEN_CREATE = 4,    /* Create if missing. */
    IO_OPEN_EXCLUSIVE = 8, /* With CREATE: ERR_EXISTS if there. */
    IO_OPEN_DIRECT = 16,   /* O_DIRECT. */
    IO_OPEN_DIRECTORY = 32,
    IO_OPEN_TRUNCATE = 64,
};

enum io_flags {
    IO_FLAG_ALL = 1,
    IO_FLAG_POOLED = 2,
};

struct io;
struct io_op;
typedef void io_done_fn(struct io_op *op);

struct io_op {
    /* Written by the owner before io_submit. */
    enum io_kind kind;
    int fd;
    uint32_t open_flags; /* enum io_open_flags */
    uint32_t flags;      /* enum io_flags */
    const char *path;
    const char *new_path;
    void *buf;               /* Used when iov_count is 0. */
    const struct iovec *iov; /* At most IO_IOV_MAX; total length = size. */
    uint32_t iov_count;
    uint64_t size;
    uint64_t pos;
    struct io_op *target;
    io_done_fn *on_done;

    /* Written by io, read by the owner in on_done. */
    enum err result;
    int raw_errno;      /* Positive errno behind ERR_IO and ERR_NO_SPACE, else 0. */
    int result_fd;      /* IO_OPEN, IO_ACCEPT. */
    uint64_t done_size; /* Bytes moved. */

    /* Private to io and its backend. */
    struct list link;
    struct io *io;
    uint64_t submitted_us;
    int64_t backend_result; /* What the backend reports: >= 0 or -errno; may be short. */
    /* What a backend has to move, at file position pos + done_size: set before every start, of the
     * first attempt as of continued ones, whether the owner gave buf or iov. Backends use these and
     * never buf, iov and size. Not set for IO_FLAG_POOLED. */
    const struct iovec *rest;
    uint32_t rest_count;
    struct iovec rest_one; /* Memory for rest when it is a single piece. */
    bool is_cancelled;     /* A cancel was submitted: do not continue. */
    uint32_t backend_flags;
    void *backend_data;
};

/* What start-up needs to know of a file system. */
struct io_fs_info {
    char type[16];          /* "ext4", "xfs", ... */
    bool is_direct_capable; /* O_DIRECT with reported alignment <= IO_ALIGN. */
    bool is_flush_shared;   /* One fdatasync on any file makes all completed overwrites durable:
                               single-device ext4 or XFS, barriers on, no data=journal. */
    uint64_t device_id;
    uint64_t size;      /* bytes */
    uint64_t available; /* bytes, for an unprivileged user */
};

struct io_backend;

/* The contract of a backend. start takes the op over; later reap hands it to io_complete. */
struct io_backend_ops {
    void (*start)(struct io_backend *b, struct io_op *op);
    /* Gives what start collected to the kernel. */
    void (*flush)(struct io_backend *b);
    /* Calls io_complete for finished ops, at most budget. Never blocks. */
    size_t (*reap)(struct io_backend *b, size_t budget);
    /* Sleeps until a completion, a wake or the deadline. Flushes first. */
    void (*wait)(struct io_backend *b, uint64_t deadline_us);
    /* Ends the wait of other; both are backends of the same kind. Called by self's shard, goes with
     * its next flush or wait. */
    void (*wake)(struct io_backend *self, struct io_backend *other);
    void (*recv_buffer_return)(struct io_backend *b, void *buf);
    /* Optional (may be NULL): registers a memory area for fixed-buffer I/O, best effort. */
    void (*register_memory)(struct io_backend *b, void *base, size_t size);

    /* Blocking, for start-up only. list_dir calls on_name for each entry but "." and "..". */
    enum err (*list_dir)(struct io_backend *b,
                         const char *path,
                         void *context,
                         void (*on_name)(void *context, const char *name));
    enum err (*fs_info)(struct io_backend *b, const char *path, struct io_fs_info *ret_info);
    /* Takes an exclusive lock on path (created if missing) until unlock or death of the process.
     * ERR_LOCKED if a live process has it. */
    enum err (*lock)(struct io_backend *b, const char *path, int *ret_handle);
    void (*unlock)(struct io_backend *b, int handle);
    enum err (*file_size)(struct io_backend *b, const char *path, uint64_t *ret_size);
    /* Bytes that an unprivileged user may still take. Asked while serving: touches no disk. */
    enum err (*available)(struct io_backend *b, const char *path, uint64_t *ret_size);
};

struct io_backend {
    const struct io_backend_ops *ops;
};

struct io_stats {
    uint64_t ops[IO_KIND_COUNT];
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t continued; /* Short transfers that were continued. */
    uint64_t failed;
};

struct io {
    struct io_backend *backend;
    struct list done;         /* Completed, on_done not yet called. */
    uint32_t in_flight_count; /* Submitted and on_done not yet called. */
    struct io_stats stats;
};

void io_init(struct io *io, struct io_backend *backend);
/* Nothing may be in flight. */
void io_done(struct io *io);

void io_submit(struct io *io, struct io_op *op);

/* Called by a backend: the op came to op->backend_result. Continues short transfers, else queues.
 */
void io_complete(struct io_op *op);

/* Reaps and runs at most budget completions; returns how many ran. */
size_t io_run_completions(struct io *io, size_t budget);

static inline void io_flush(struct io *io)
{
    io->backend->ops->flush(io->backend);
}

void io_recv_buffer_return(struct io *io, void *buf);

/* Submits op (on_done is set here) and waits on the backend until it is done. For start-up, before
 * the loop runs, and for tools; the simulated backend moves its clock meanwhile. Returns
 * op->result. */
enum err io_call(struct io *io, struct io_op *op);

/* Start-up helpers, blocking; see io_backend_ops. */
enum err io_list_dir(struct io *io,
                     const char *path,
                     void *context,
                     void (*on_name)(void *context, const char *name));
enum err io_fs_info(struct io *io, const char *path, struct io_fs_info *ret_info);
enum err io_lock(struct io *io, const char *path, int *ret_handle);
void io_unlock(struct io *io, int handle);
/* What is free on the file system of path, as its memory has it; never waits for the disk. */
enum err io_available(struct io *io, const char *path, uint64_t *ret_size);
/* ERR_NOT_FOUND if there is no such file. */
enum err io_file_size(struct io *io, const char *path, uint64_t *ret_size);

/* Maps -errno to our table: ENOSPC and EDQUOT NO_SPACE, ENOENT NOT_FOUND, EEXIST EXISTS, ECANCELED
 * CANCELLED, ECONNRESET and EPIPE CLOSED, ENOBUFS BUSY, else IO. 0 and above: OK. */
enum err io_err_of(int64_t negative_errno);
