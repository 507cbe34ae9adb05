/* The front of all I/O: what does not depend on who does it.
 *
 * A transfer is a range of bytes, moved by one or more attempts of the backend. io keeps the part
 * that is left in op->rest without allocating: when an attempt ended inside a vector, the next one
 * moves only the remainder of that vector, and the one after it goes on with the owner's array.
 */
#include "core/io.h"

#include <errno.h>

#include "core/assert.h"

enum {
    CALL_BUDGET = 64, /* Completions that io_call reaps at once. */
};

void io_init(struct io *io, struct io_backend *backend)
{
    *io = (struct io){.backend = backend};
    list_init(&io->done);
}

void io_done(struct io *io)
{
    assert(io->in_flight_count == 0);
    assert(list_is_empty(&io->done));
    io->backend = NULL;
}

enum err io_err_of(int64_t negative_errno)
{
    if (negative_errno >= 0) {
        return ERR_OK;
    }
    switch (-negative_errno) {
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EOPNOTSUPP:
        return ERR_UNSUPPORTED;
    case ECANCELED:
        return ERR_CANCELLED;
    case ECONNRESET:
    case EPIPE:
        return ERR_CLOSED;
    case ENOBUFS:
    case EMFILE: /* Descriptors come back: no damage, and a reason to try again. */
    case ENFILE:
        return ERR_BUSY;
    default:
        return ERR_IO;
    }
}

static bool is_transfer(const struct io_op *op)
{
    switch (op->kind) {
    case IO_READ:
    case IO_WRITE:
    case IO_SEND:
        return true;
    case IO_RECV:
        return (op->flags & IO_FLAG_POOLED) == 0;
    case IO_FSYNC:
    case IO_FDATASYNC:
    case IO_ALLOCATE:
    case IO_OPEN:
    case IO_CLOSE:
    case IO_RENAME:
    case IO_UNLINK:
    case IO_MKDIR:
    case IO_SYMLINK:
    case IO_FSYNC_DIR:
    case IO_ACCEPT:
    case IO_CONNECT:
    case IO_CANCEL:
    case IO_KIND_COUNT:
        return false;
    }
    return false;
}

/* Points op->rest to the bytes behind done_size. */
static void set_rest(struct io_op *op)
{
    assert_cmp(op->done_size, <=, op->size);
    if (op->iov_count == 0) {
        op->rest_one.iov_base = (uint8_t *)op->buf + op->done_size;
        op->rest_one.iov_len = op->size - op->done_size;
        op->rest = &op->rest_one;
        op->rest_count = 1;
        return;
    }
    uint64_t skip = op->done_size;
    uint32_t i = 0;
    while (i < op->iov_count && skip >= op->iov[i].iov_len) {
        skip -= op->iov[i].iov_len;
        i++;
    }
    if (skip > 0) {
        assert_cmp(i, <, op->iov_count);
        op->rest_one.iov_base = (uint8_t *)op->iov[i].iov_base + skip;
        op->rest_one.iov_len = op->iov[i].iov_len - skip;
        op->rest = &op->rest_one;
        op->rest_count = 1;
        return;
    }
    op->rest = op->iov + i;
    op->rest_count = op->iov_count - i;
}

static void check_op(const struct io_op *op)
{
    assert((unsigned)op->kind < IO_KIND_COUNT);
    assert(op->on_done != NULL);
    assert_cmp(op->iov_count, <=, IO_IOV_MAX);
    if (op->kind == IO_CANCEL) {
        assert(op->target != NULL);
        assert(op->target != op);
    }
    if (is_transfer(op) && op->iov_count > 0) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < op->iov_count; i++) {
            total += op->iov[i].iov_len;
        }
        assert_cmp(total, ==, op->size);
    }
}

void io_submit(struct io *io, struct io_op *op)
{
    check_op(op);
    op->io = io;
    op->result = ERR_OK;
    op->raw_errno = 0;
    op->result_fd = -1;
    op->done_size = 0;
    op->backend_result = 0;
    op->backend_flags = 0;
    op->backend_data = NULL;
    op->rest = NULL;
    op->rest_count = 0;
    op->is_cancelled = false;
    list_init(&op->link);

    io->in_flight_count++;
    io->stats.ops[op->kind]++;
    if (op->kind == IO_CANCEL) {
        op->target->is_cancelled = true;
    }
    if (is_transfer(op) && op->size == 0) {
        list_push_back(&io->done, &op->link); /* Nothing to move, and no error to meet. */
        return;
    }
    if (is_transfer(op)) {
        set_rest(op);
    }
    io->backend->ops->start(io->backend, op);
}

static void finish(struct io_op *op, enum err result, int raw_errno)
{
    struct io *io = op->io;
    op->result = result;
    op->raw_errno = raw_errno;
    if (result != ERR_OK) {
        io->stats.failed++;
    }
    list_push_back(&io->done, &op->link);
}

/* An attempt moved no byte though some were asked for. */
static void finish_at_end(struct io_op *op)
{
    if (op->kind == IO_READ || op->kind == IO_RECV) {
        finish(op, ERR_EOF, 0);
    } else {
        finish(op, ERR_IO, EIO); /* A write or send that goes nowhere would be tried for ever. */
    }
}

static void complete_transfer(struct io_op *op)
{
    uint64_t moved = (uint64_t)op->backend_result;
    if (moved == 0) {
        finish_at_end(op);
        return;
    }
    assert_cmp(moved, <=, op->size - op->done_size);
    op->done_size += moved;
    if (op->kind == IO_READ) {
        op->io->stats.read_bytes += moved;
    } else if (op->kind == IO_WRITE) {
        op->io->stats.write_bytes += moved;
    }

    bool wants_all = op->kind != IO_RECV || (op->flags & IO_FLAG_ALL) != 0;
    if (op->done_size == op->size || !wants_all) {
        finish(op, ERR_OK, 0);
    } else if (op->is_cancelled) {
        finish(op, ERR_CANCELLED, 0);
    } else {
        op->io->stats.continued++;
        set_rest(op);
        op->io->backend->ops->start(op->io->backend, op);
    }
}

static void complete_pooled_recv(struct io_op *op)
{
    op->done_size = (uint64_t)op->backend_result;
    if (op->done_size == 0) {
        finish(op, ERR_EOF, 0);
    } else {
        finish(op, ERR_OK, 0);
    }
}

void io_complete(struct io_op *op)
{
    if (op->backend_result < 0) {
        enum err e = io_err_of(op->backend_result);
        bool is_raw_shown = e == ERR_IO || e == ERR_NO_SPACE;
        if (op->kind == IO_CANCEL) {
            finish(op, ERR_OK, 0); /* The target had ended by itself. */
        } else {
            finish(op, e, is_raw_shown ? (int)-op->backend_result : 0);
        }
        return;
    }
    if (is_transfer(op)) {
        complete_transfer(op);
    } else if (op->kind == IO_RECV) {
        complete_pooled_recv(op);
    } else {
        if (op->kind == IO_OPEN || op->kind == IO_ACCEPT) {
            op->result_fd = (int)op->backend_result;
        }
        finish(op, ERR_OK, 0);
    }
}

size_t io_run_completions(struct io *io, size_t budget)
{
    (void)io->backend->ops->reap(io->backend, budget);
    size_t ran = 0;
    while (ran < budget) {
        struct list *node = list_pop_front(&io->done);
        if (node == NULL) {
            break;
        }
        struct io_op *op = container_of(node, struct io_op, link);
        assert(io->in_flight_count > 0);
        io->in_flight_count--;
        ran++;
        op->on_done(op); /* May submit or free op. */
    }
    return ran;
}

static void on_call_done(struct io_op *op)
{
    (void)op;
    assert(false && "io_call takes its op off the queue itself");
}

static bool is_done(const struct io *io, const struct io_op *op)
{
    list_for_each (node, &io->done) {
        if (node == &op->link) {
            return true;
        }
    }
    return false;
}

enum err io_call(struct io *io, struct io_op *op)
{
    op->on_done = on_call_done;
    io_submit(io, op);
    io_flush(io);
    /* Ops of others that complete meanwhile stay queued for the loop. */
    (void)io->backend->ops->reap(io->backend, CALL_BUDGET);
    while (!is_done(io, op)) {
        io->backend->ops->wait(io->backend, UINT64_MAX);
        (void)io->backend->ops->reap(io->backend, CALL_BUDGET);
    }
    list_remove(&op->link);
    io->in_flight_count--;
    return op->result;
}

void io_recv_buffer_return(struct io *io, void *buf)
{
    io->backend->ops->recv_buffer_return(io->backend, buf);
}

enum err io_list_dir(struct io *io,
                     const char *path,
                     void *context,
                     void (*on_name)(void *context, const char *name))
{
    return io->backend->ops->list_dir(io->backend, path, context, on_name);
}

enum err io_fs_info(struct io *io, const char *path, struct io_fs_info *ret_info)
{
    return io->backend->ops->fs_info(io->backend, path, ret_info);
}

enum err io_lock(struct io *io, const char *path, int *ret_handle)
{
    return io->backend->ops->lock(io->backend, path, ret_handle);
}

void io_unlock(struct io *io, int handle)
{
    io->backend->ops->unlock(io->backend, handle);
}

enum err io_available(struct io *io, const char *path, uint64_t *ret_size)
{
    return io->backend->ops->available(io->backend, path, ret_size);
}

enum err io_file_size(struct io *io, const char *path, uint64_t *ret_size)
{
    return io->backend->ops->file_size(io->backend, path, ret_size);
}
