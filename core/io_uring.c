/* Ops become submission entries; completions come back by the op's address.
 *
 * States of an op inside of this backend:
 *   queued   in pending (no free entry) or starved (pooled receive without a free buffer): marked
 *            with FLAG_QUEUED and linked by op->link
 *   kernel   anything else
 *
 * IO_FSYNC_DIR is three entries one after the other, open, fsync and close, so that nothing blocks
 * the loop; which one is under way stands in backend_flags.
 *
 * Setup flags (all in Linux 6.1):
 *   SINGLE_ISSUER, DEFER_TASKRUN  completions are worked off when we look, not in between
 *   TASKRUN_FLAG                  looking costs no system call when there is nothing
 *   SUBMIT_ALL                    one bad entry does not hold back those behind it
 */
#include "core/io_uring.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/clock.h"
#include "core/ids.h"
#include "core/io_posix_priv.h"

enum {
    SQ_ENTRIES = 1024,
    /* Generous: an overflow is not lost, but costs. */
    CQ_ENTRIES = 8192,

    /* Kernel workers for what cannot be done without blocking, such as fdatasync on a file system
     * without shared flushes. The default of a few per core halves their rate. */
    IO_WORKERS_MAX = 64,

    /* A request around a batch of 64 KiB, which is what clients are set to, comes in one receive.
     */
    RECV_BUFFER_SIZE = 128 * 1024,
    RECV_BUFFERS_COUNT = 64, /* A power of two. */
    RECV_GROUP_ID = 0,

    /* Registered in pieces as large as a huge page: pinning one takes well below a millisecond, so
     * it may happen in the middle of a turn. */
    CHUNK_SHIFT_MIN = 21,
    CHUNKS_MAX = 16384, /* Limit of the kernel. */

    /* One entry moves less than 2 GiB. Stays a multiple of IO_ALIGN. */
    PART_SIZE_MAX = 1 << 30,

    FILE_MODE = 0640,
    DIRECTORY_MODE = 0750,

    SLEEP_US_MAX = 60 * 1000 * 1000,

    FLAG_QUEUED = 1,
    FLAG_DIR_OPENED = 2,
    FLAG_DIR_SYNCED = 4,
};

/* user_data of completions that belong to no op. */
static const uint64_t TAG_WAKE = 1;

enum chunk_state {
    CHUNK_UNKNOWN,
    CHUNK_REGISTERED,
    CHUNK_REFUSED,
};

struct uring {
    struct io_backend backend;
    struct io_uring ring;
    struct clock clock;

    struct list pending; /* struct io_op */

    /* Kept by the entry's slot until the kernel has read it. */
    struct msghdr *send_headers;

    /* Wakes that found no free entry. */
    int wake_fds[SHARDS_MAX];
    uint32_t wake_fds_count;

    /* Memory for IO_FLAG_POOLED. */
    struct io_uring_buf_ring *recv_ring;
    uint8_t *recv_memory;
    uint32_t recv_held_count; /* Handed out, and not back yet. */
    struct list starved;      /* struct io_op */

    /* The registered area. */
    uint8_t *area;
    size_t area_size;
    uint32_t chunk_shift;
    uint8_t *chunk_states; /* enum chunk_state */
};

static struct uring *uring_of(struct io_backend *b)
{
    return container_of(b, struct uring, backend);
}

/* Memory */

static size_t chunk_size_of(const struct uring *u, size_t index)
{
    size_t pos = index << u->chunk_shift;
    size_t size = (size_t)1 << u->chunk_shift;
    return u->area_size - pos < size ? u->area_size - pos : size;
}

static void register_chunk(struct uring *u, size_t index)
{
    struct iovec iov = {
        .iov_base = u->area + (index << u->chunk_shift),
        .iov_len = chunk_size_of(u, index),
    };
    uint64_t tag = 0;
    int r = io_uring_register_buffers_update_tag(&u->ring, (unsigned)index, &iov, (__u64 *)&tag, 1);
    /* Not being allowed to lock more memory is no failure: I/O goes on without. */
    u->chunk_states[index] = r == 1 ? CHUNK_REGISTERED : CHUNK_REFUSED;
}

/* The number of the registered buffer that holds all of [data, data + size), or -1. */
static int fixed_buffer_of(struct uring *u, const void *data, size_t size)
{
    if (u->chunk_states == NULL || (const uint8_t *)data < u->area) {
        return -1;
    }
    size_t pos = (size_t)((const uint8_t *)data - u->area);
    if (pos >= u->area_size || size > u->area_size - pos) {
        return -1;
    }
    size_t index = pos >> u->chunk_shift;
    if ((pos + size - 1) >> u->chunk_shift != index) {
        return -1;
    }
    if (u->chunk_states[index] == CHUNK_UNKNOWN) {
        register_chunk(u, index);
    }
    return u->chunk_states[index] == CHUNK_REGISTERED ? (int)index : -1;
}

static void uring_register_memory(struct io_backend *b, void *base, size_t size)
{
    struct uring *u = uring_of(b);
    if (u->chunk_states != NULL) {
        return; /* One area per ring is all that anybody needs. */
    }
    uint32_t shift = CHUNK_SHIFT_MIN;
    while (((size + ((size_t)1 << shift) - 1) >> shift) > CHUNKS_MAX) {
        shift++;
    }
    size_t count = (size + ((size_t)1 << shift) - 1) >> shift;
    uint8_t *states = calloc(count, 1);
    if (states == NULL) {
        return;
    }
    if (io_uring_register_buffers_sparse(&u->ring, (unsigned)count) != 0) {
        free(states);
        return;
    }
    u->area = base;
    u->area_size = size;
    u->chunk_shift = shift;
    u->chunk_states = states;
}

/* Submission */

static int open_flags_of(uint32_t flags)
{
    int f = O_CLOEXEC;
    bool can_write = (flags & IO_OPEN_WRITE) != 0;
    bool can_read = (flags & IO_OPEN_READ) != 0 || !can_write;
    f |= can_write ? (can_read ? O_RDWR : O_WRONLY) : O_RDONLY;
    f |= (flags & IO_OPEN_CREATE) != 0 ? O_CREAT : 0;
    f |= (flags & IO_OPEN_EXCLUSIVE) != 0 ? O_EXCL : 0;
    f |= (flags & IO_OPEN_DIRECT) != 0 ? O_DIRECT : 0;
    f |= (flags & IO_OPEN_DIRECTORY) != 0 ? O_DIRECTORY : 0;
    f |= (flags & IO_OPEN_TRUNCATE) != 0 ? O_TRUNC : 0;
    return f;
}

static unsigned part_size_of(const struct iovec *iov)
{
    return iov->iov_len < PART_SIZE_MAX ? (unsigned)iov->iov_len : (unsigned)PART_SIZE_MAX;
}

static void prepare_file_transfer(struct uring *u, struct io_uring_sqe *sqe, struct io_op *op)
{
    uint64_t pos = op->pos + op->done_size;
    if (op->rest_count != 1) {
        if (op->kind == IO_READ) {
            io_uring_prep_readv(sqe, op->fd, op->rest, op->rest_count, pos);
        } else {
            io_uring_prep_writev(sqe, op->fd, op->rest, op->rest_count, pos);
        }
        return;
    }
    void *data = op->rest[0].iov_base;
    unsigned size = part_size_of(&op->rest[0]);
    int fixed = fixed_buffer_of(u, data, size);
    if (op->kind == IO_READ && fixed >= 0) {
        io_uring_prep_read_fixed(sqe, op->fd, data, size, pos, fixed);
    } else if (op->kind == IO_READ) {
        io_uring_prep_read(sqe, op->fd, data, size, pos);
    } else if (fixed >= 0) {
        io_uring_prep_write_fixed(sqe, op->fd, data, size, pos, fixed);
    } else {
        io_uring_prep_write(sqe, op->fd, data, size, pos);
    }
}

static void prepare_recv(struct io_uring_sqe *sqe, struct io_op *op)
{
    if ((op->flags & IO_FLAG_POOLED) != 0) {
        io_uring_prep_recv(sqe, op->fd, NULL, RECV_BUFFER_SIZE, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = RECV_GROUP_ID;
        return;
    }
    int flags = (op->flags & IO_FLAG_ALL) != 0 ? MSG_WAITALL : 0;
    io_uring_prep_recv(sqe, op->fd, op->rest[0].iov_base, part_size_of(&op->rest[0]), flags);
}

static void prepare_send(struct uring *u, struct io_uring_sqe *sqe, struct io_op *op)
{
    /* MSG_WAITALL lets the kernel go on after a short send by itself. */
    const int flags = MSG_WAITALL | MSG_NOSIGNAL;
    if (op->rest_count == 1) {
        io_uring_prep_send(sqe, op->fd, op->rest[0].iov_base, part_size_of(&op->rest[0]), flags);
        return;
    }
    struct msghdr *header = &u->send_headers[sqe - u->ring.sq.sqes];
    *header = (struct msghdr){
        .msg_iov = (struct iovec *)op->rest, /* Not written by the kernel. */
        .msg_iovlen = op->rest_count,
    };
    io_uring_prep_sendmsg(sqe, op->fd, header, (unsigned)flags);
}

static void prepare_fsync_dir(struct io_uring_sqe *sqe, struct io_op *op)
{
    if ((op->backend_flags & FLAG_DIR_SYNCED) != 0) {
        io_uring_prep_close(sqe, op->result_fd);
    } else if ((op->backend_flags & FLAG_DIR_OPENED) != 0) {
        io_uring_prep_fsync(sqe, op->result_fd, 0);
    } else {
        io_uring_prep_openat(sqe, AT_FDCWD, op->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    }
}

static void prepare(struct uring *u, struct io_uring_sqe *sqe, struct io_op *op)
{
    switch (op->kind) {
    case IO_READ:
    case IO_WRITE:
        prepare_file_transfer(u, sqe, op);
        break;
    case IO_FSYNC:
        io_uring_prep_fsync(sqe, op->fd, 0);
        break;
    case IO_FDATASYNC:
        io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
        break;
    case IO_ALLOCATE:
        io_uring_prep_fallocate(sqe, op->fd, 0, (off_t)op->pos, (off_t)op->size);
        break;
    case IO_OPEN:
        io_uring_prep_openat(sqe, AT_FDCWD, op->path, open_flags_of(op->open_flags), FILE_MODE);
        break;
    case IO_CLOSE:
        io_uring_prep_close(sqe, op->fd);
        break;
    case IO_RENAME:
        io_uring_prep_renameat(sqe, AT_FDCWD, op->path, AT_FDCWD, op->new_path, 0);
        break;
    case IO_UNLINK:
        io_uring_prep_unlinkat(
            sqe, AT_FDCWD, op->path, (op->open_flags & IO_OPEN_DIRECTORY) != 0 ? AT_REMOVEDIR : 0);
        break;
    case IO_MKDIR:
        io_uring_prep_mkdirat(sqe, AT_FDCWD, op->path, DIRECTORY_MODE);
        break;
    case IO_SYMLINK:
        io_uring_prep_symlinkat(sqe, op->path, AT_FDCWD, op->new_path);
        break;
    case IO_FSYNC_DIR:
        prepare_fsync_dir(sqe, op);
        break;
    case IO_ACCEPT:
        io_uring_prep_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
        break;
    case IO_CONNECT:
        io_uring_prep_connect(sqe, op->fd, op->buf, (socklen_t)op->size);
        break;
    case IO_RECV:
        prepare_recv(sqe, op);
        break;
    case IO_SEND:
        prepare_send(u, sqe, op);
        break;
    case IO_CANCEL:
        io_uring_prep_cancel(sqe, op->target, 0);
        break;
    case IO_KIND_COUNT:
        assert(false && "not a kind");
    }
    io_uring_sqe_set_data(sqe, op);
}

/* Hands the collected entries to the kernel, which also works off finished ones on the way. What it
 * cannot take now (completion queue overflowed, out of memory) stays and goes with the next call.
 */
static void submit(struct uring *u)
{
    int r = io_uring_submit_and_get_events(&u->ring);
    if (r < 0 && r != -EBUSY && r != -EAGAIN && r != -EINTR && r != -ENOMEM && r != -ETIME) {
        panic("io_uring_enter failed: errno=%d", -r);
    }
}

/* NULL if there is no room even after handing over what was collected. */
static struct io_uring_sqe *take_entry(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe == NULL) {
        submit(u);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

static void queue_op(struct list *queue, struct io_op *op)
{
    op->backend_flags |= FLAG_QUEUED;
    list_push_back(queue, &op->link);
}

static struct io_op *unqueue_first(struct list *queue)
{
    struct io_op *op = container_of(list_pop_front(queue), struct io_op, link);
    op->backend_flags &= ~(uint32_t)FLAG_QUEUED;
    return op;
}

static void complete_with(struct io_op *op, int64_t result)
{
    op->backend_result = result;
    io_complete(op);
}

/* True if the cancel needs no kernel: its target is still here, or already ended. */
static bool cancel_here(struct io_op *cancel)
{
    struct io_op *target = cancel->target;
    if ((target->backend_flags & FLAG_QUEUED) != 0) {
        target->backend_flags &= ~(uint32_t)FLAG_QUEUED;
        list_remove(&target->link);
        complete_with(target, -ECANCELED);
        complete_with(cancel, 0);
        return true;
    }
    if (!list_is_empty(&target->link)) {
        complete_with(cancel, 0);
        return true;
    }
    return false;
}

static void uring_start(struct io_backend *b, struct io_op *op)
{
    struct uring *u = uring_of(b);
    if (op->kind == IO_CANCEL && cancel_here(op)) {
        return;
    }
    struct io_uring_sqe *sqe = list_is_empty(&u->pending) ? take_entry(u) : NULL;
    if (sqe == NULL) {
        queue_op(&u->pending, op);
        return;
    }
    prepare(u, sqe, op);
}

static void prepare_wake(struct io_uring_sqe *sqe, int ring_fd)
{
    io_uring_prep_msg_ring(sqe, ring_fd, 0, TAG_WAKE, 0);
    io_uring_sqe_set_data64(sqe, TAG_WAKE);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

/* Fills free entries with what waited for them. False if some still wait. */
static bool prepare_waiting(struct uring *u)
{
    while (u->wake_fds_count > 0) {
        struct io_uring_sqe *sqe = take_entry(u);
        if (sqe == NULL) {
            return false;
        }
        prepare_wake(sqe, u->wake_fds[--u->wake_fds_count]);
    }
    while (!list_is_empty(&u->pending)) {
        struct io_uring_sqe *sqe = take_entry(u);
        if (sqe == NULL) {
            return false;
        }
        prepare(u, sqe, unqueue_first(&u->pending));
    }
    return true;
}

static void uring_flush(struct io_backend *b)
{
    struct uring *u = uring_of(b);
    (void)prepare_waiting(u);
    if (io_uring_sq_ready(&u->ring) > 0) {
        submit(u);
    }
}

static void uring_wake(struct io_backend *self, struct io_backend *other)
{
    struct uring *u = uring_of(self);
    int ring_fd = uring_of(other)->ring.ring_fd;
    for (uint32_t i = 0; i < u->wake_fds_count; i++) {
        if (u->wake_fds[i] == ring_fd) {
            return;
        }
    }
    assert_cmp(u->wake_fds_count, <, SHARDS_MAX);
    u->wake_fds[u->wake_fds_count++] = ring_fd;
}

/* Completion */

static uint8_t *recv_buffer_at(const struct uring *u, uint32_t id)
{
    return u->recv_memory + (size_t)id * RECV_BUFFER_SIZE;
}

static void add_recv_buffer(struct uring *u, uint32_t id)
{
    io_uring_buf_ring_add(u->recv_ring,
                          recv_buffer_at(u, id),
                          RECV_BUFFER_SIZE,
                          (unsigned short)id,
                          io_uring_buf_ring_mask(RECV_BUFFERS_COUNT),
                          0);
    io_uring_buf_ring_advance(u->recv_ring, 1);
}

/* Each free buffer gives one who waits another try. What comes of that goes on: it brings a buffer
 * back, waits again, or ends without one and comes here. */
static void try_starved(struct uring *u)
{
    if (u->recv_held_count < RECV_BUFFERS_COUNT && !list_is_empty(&u->starved)) {
        uring_start(&u->backend, unqueue_first(&u->starved));
    }
}

static void uring_recv_buffer_return(struct io_backend *b, void *buf)
{
    struct uring *u = uring_of(b);
    size_t pos = (size_t)((uint8_t *)buf - u->recv_memory);
    assert_cmp(pos % RECV_BUFFER_SIZE, ==, 0);
    assert_cmp(pos / RECV_BUFFER_SIZE, <, RECV_BUFFERS_COUNT);
    assert_cmp(u->recv_held_count, >, 0);
    u->recv_held_count--;
    add_recv_buffer(u, (uint32_t)(pos / RECV_BUFFER_SIZE));
    try_starved(u);
}

/* True if op goes on. A pooled receive that found no buffer waits until one comes back: trying
 * again before that would spin. One that came back before this was heard woke nobody: it is there.
 */
static bool continue_recv(struct uring *u, struct io_op *op, int result, uint32_t cqe_flags)
{
    if ((op->flags & IO_FLAG_POOLED) == 0) {
        return false;
    }
    if (result == -ENOBUFS && !op->is_cancelled) {
        queue_op(&u->starved, op);
        try_starved(u);
        return true;
    }
    const bool has_buffer = (cqe_flags & IORING_CQE_F_BUFFER) != 0;
    const uint32_t id = cqe_flags >> IORING_CQE_BUFFER_SHIFT;
    if (has_buffer && result > 0) {
        op->buf = recv_buffer_at(u, id);
        op->size = (uint64_t)result;
        u->recv_held_count++;
        return false;
    }
    if (has_buffer) {
        add_recv_buffer(u, id);
    }
    try_starved(u);
    return false;
}

/* True if op goes on with its next step. */
static bool continue_fsync_dir(struct uring *u, struct io_op *op, int *result)
{
    if ((op->backend_flags & FLAG_DIR_SYNCED) != 0) {
        op->result_fd = -1;
        *result = (int)op->backend_result; /* What the fsync said; closing has nothing to add. */
        return false;
    }
    if ((op->backend_flags & FLAG_DIR_OPENED) != 0) {
        op->backend_result = *result;
        op->backend_flags |= FLAG_DIR_SYNCED;
    } else {
        if (*result < 0) {
            return false;
        }
        op->result_fd = *result;
        op->backend_flags |= FLAG_DIR_OPENED;
    }
    uring_start(&u->backend, op);
    return true;
}

static bool is_interrupted(const struct io_op *op, int result)
{
    bool can_repeat = op->kind == IO_READ || op->kind == IO_WRITE || op->kind == IO_RECV ||
                      op->kind == IO_SEND || op->kind == IO_ACCEPT || op->kind == IO_OPEN;
    return result == -EINTR && can_repeat && !op->is_cancelled;
}

static void on_completion(struct uring *u, struct io_op *op, int result, uint32_t cqe_flags)
{
    if (is_interrupted(op, result)) {
        uring_start(&u->backend, op);
        return;
    }
    if (op->kind == IO_RECV && continue_recv(u, op, result, cqe_flags)) {
        return;
    }
    if (op->kind == IO_FSYNC_DIR && continue_fsync_dir(u, op, &result)) {
        return;
    }
    complete_with(op, result);
}

static size_t uring_reap(struct io_backend *b, size_t budget)
{
    struct uring *u = uring_of(b);
    size_t count = 0;
    struct io_uring_cqe *cqe;
    while (count < budget && io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        const uint64_t tag = cqe->user_data;
        const int result = cqe->res;
        const uint32_t flags = cqe->flags;
        io_uring_cqe_seen(&u->ring, cqe);
        count++;
        if (tag != TAG_WAKE) {
            on_completion(u, (struct io_op *)(uintptr_t)tag, result, flags);
        }
    }
    return count;
}

static void uring_wait(struct io_backend *b, uint64_t deadline_us)
{
    struct uring *u = uring_of(b);
    if (!prepare_waiting(u)) {
        submit(u);
        return; /* Something could not be started yet: look at completions first. */
    }
    uint64_t now_us = clock_now_us(&u->clock);
    uint64_t timeout_us = deadline_us > now_us ? deadline_us - now_us : 0;
    if (timeout_us > SLEEP_US_MAX) {
        timeout_us = SLEEP_US_MAX;
    }
    struct __kernel_timespec timeout = {
        .tv_sec = (long long)(timeout_us / 1000000),
        .tv_nsec = (long long)(timeout_us % 1000000) * 1000,
    };
    struct io_uring_cqe *cqe;
    int r = io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &timeout, NULL);
    if (r < 0 && r != -ETIME && r != -EINTR && r != -EBUSY && r != -EAGAIN && r != -ENOMEM) {
        panic("io_uring wait failed: errno=%d", -r);
    }
}

/* Life cycle */

static const struct io_backend_ops uring_ops = {
    .start = uring_start,
    .flush = uring_flush,
    .reap = uring_reap,
    .wait = uring_wait,
    .wake = uring_wake,
    .recv_buffer_return = uring_recv_buffer_return,
    .register_memory = uring_register_memory,
    .list_dir = io_posix_list_dir,
    .fs_info = io_posix_fs_info,
    .lock = io_posix_lock,
    .unlock = io_posix_unlock,
    .file_size = io_posix_file_size,
    .available = io_posix_available,
};

static int sysctl_io_uring_disabled(void)
{
    int value = 0;
    FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    if (f != NULL) {
        if (fscanf(f, "%d", &value) != 1) {
            value = 0;
        }
        (void)fclose(f);
    }
    return value;
}

static enum err explain_setup(int error, char ret_why[IO_URING_WHY_SIZE])
{
    const char *why;
    enum err e = ERR_UNSUPPORTED;
    if (error == EPERM && sysctl_io_uring_disabled() != 0) {
        why = "io_uring is disabled on this machine: set sysctl kernel.io_uring_disabled=0";
    } else if (error == EPERM || error == ENOSYS || error == EACCES) {
        why = "io_uring is blocked: allow io_uring_setup, io_uring_enter and io_uring_register in "
              "the "
              "seccomp profile of the container or service (and run Linux 6.1 or newer)";
    } else if (error == EINVAL) {
        why = "this kernel's io_uring is too old: run Linux 6.1 or newer";
    } else if (error == EMFILE || error == ENFILE) {
        why = "no descriptor left for io_uring: raise the limit on open files (ulimit -n)";
        e = ERR_BUSY;
    } else {
        why = "no memory for io_uring: raise the locked-memory limit (ulimit -l, LimitMEMLOCK= of "
              "systemd, --ulimit memlock=-1 of docker), or free some";
        e = ERR_BUSY;
    }
    (void)snprintf(ret_why, IO_URING_WHY_SIZE, "%s (errno %d)", why, error);
    return e;
}

/* 0 or a positive errno. */
static int setup_ring(struct uring *u)
{
    struct io_uring_params parameters = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
        .cq_entries = CQ_ENTRIES,
    };
    int r = io_uring_queue_init_params(SQ_ENTRIES, &u->ring, &parameters);
    if (r < 0) {
        return -r;
    }
    /* Only speed depends on these two. */
    unsigned workers[2] = {IO_WORKERS_MAX, 0}; /* 0: leave unbounded ones. */
    (void)io_uring_register_iowq_max_workers(&u->ring, workers);
    (void)io_uring_register_ring_fd(&u->ring);
    return 0;
}

/* 0 or a positive errno. Untouched buffers cost no memory. */
static int setup_recv_buffers(struct uring *u)
{
    size_t ring_size = RECV_BUFFERS_COUNT * sizeof(struct io_uring_buf);
    size_t head_size = (ring_size + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN;
    size_t size = head_size + (size_t)RECV_BUFFERS_COUNT * RECV_BUFFER_SIZE;
    uint8_t *memory = mmap(
        NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return ENOMEM;
    }
    u->recv_ring = (struct io_uring_buf_ring *)memory;
    u->recv_memory = memory + head_size;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uint64_t)(uintptr_t)memory,
        .ring_entries = RECV_BUFFERS_COUNT,
        .bgid = RECV_GROUP_ID,
    };
    int r = io_uring_register_buf_ring(&u->ring, &registration, 0);
    if (r < 0) {
        return -r;
    }
    io_uring_buf_ring_init(u->recv_ring);
    for (uint32_t id = 0; id < RECV_BUFFERS_COUNT; id++) {
        add_recv_buffer(u, id);
    }
    return 0;
}

static void free_recv_buffers(struct uring *u)
{
    if (u->recv_ring != NULL) {
        size_t size = (size_t)(u->recv_memory - (uint8_t *)u->recv_ring) +
                      (size_t)RECV_BUFFERS_COUNT * RECV_BUFFER_SIZE;
        (void)munmap(u->recv_ring, size);
    }
}

enum err io_uring_backend_new(struct io_backend **ret_backend, char ret_why[IO_URING_WHY_SIZE])
{
    int error = ENOMEM;
    struct uring *u = calloc(1, sizeof(*u));
    if (u == NULL) {
        return explain_setup(error, ret_why);
    }
    u->backend.ops = &uring_ops;
    clock_init_real(&u->clock);
    list_init(&u->pending);
    list_init(&u->starved);
    u->send_headers = calloc(SQ_ENTRIES, sizeof(struct msghdr));
    if (u->send_headers == NULL) {
        goto out_free;
    }
    error = setup_ring(u);
    if (error != 0) {
        goto out_free_headers;
    }
    error = setup_recv_buffers(u);
    if (error != 0) {
        goto out_exit_ring;
    }
    *ret_backend = &u->backend;
    return ERR_OK;

out_exit_ring:
    io_uring_queue_exit(&u->ring);
    free_recv_buffers(u);
out_free_headers:
    free(u->send_headers);
out_free:
    free(u);
    return explain_setup(error, ret_why);
}

void io_uring_backend_free(struct io_backend *b)
{
    if (b == NULL) {
        return;
    }
    struct uring *u = uring_of(b);
    io_uring_queue_exit(&u->ring); /* First: the kernel may still write into what follows. */
    free_recv_buffers(u);
    free(u->chunk_states);
    free(u->send_headers);
    free(u);
}

static bool may_lock_any_memory(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, data) != 0) {
        return false;
    }
    return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

enum err io_uring_check_memlock(uint64_t size, char *why, size_t why_size)
{
    struct rlimit limit;
    if (may_lock_any_memory() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return ERR_OK;
    }
    if (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur) {
        return ERR_OK;
    }
    (void)snprintf(why,
                   why_size,
                   "the locked-memory limit is %llu KiB, %llu KiB are needed: raise it (ulimit -l, "
                   "LimitMEMLOCK= of systemd, --ulimit memlock=-1 of docker), grant CAP_IPC_LOCK, "
                   "or lower --memory",
                   (unsigned long long)limit.rlim_cur / 1024,
                   (unsigned long long)size / 1024);
    return ERR_NO_SPACE;
}
