/* Streams of the kernel's transport.
 *
 *   connect -> CONNECTING --+
 *                           v
 *   accept --------------> OPEN --> CLOSING ------> CLOSING_FD --> CLOSED -> stream_free
 *                                   until no op      IO_CLOSE       on_closed was called
 *                                   is in flight
 *
 * One receive and one batch of sends are in flight at most. A receive goes to the memory given by
 * stream_receive_into if there is any, else to a pooled buffer that goes back right after on_data.
 * A batch takes what is queued, up to IO_IOV_MAX vectors, in one system call.
 */
#include "net/transport_kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/assert.h"
#include "net/transport_kernel_priv.h"

enum {
    SPARE_BATCHES_MAX = 256,
    WAIT_US = 100 * 1000,
};

enum kernel_stream_state {
    KERNEL_STREAM_CONNECTING,
    KERNEL_STREAM_OPEN,
    KERNEL_STREAM_CLOSING,
    KERNEL_STREAM_CLOSING_FD,
    KERNEL_STREAM_CLOSED,
};

struct kernel_stream;

/* What one send call takes. Apart from the stream, so that idle streams are small. */
struct send_batch {
    struct list link; /* kernel_transport.spare_batches */
    struct kernel_stream *st;
    struct list sends; /* struct stream_send */
    struct io_op op;
    struct iovec iov[IO_IOV_MAX];
};

struct kernel_stream {
    struct stream stream;
    struct kernel_transport *kt;
    int fd;
    enum kernel_stream_state state;
    enum err reason; /* Why it closes. */
    void *user;
    const struct stream_user_ops *ops;

    void (*on_connected)(void *user, struct stream *stream);
    struct net_sockaddr *address; /* While connecting. */

    struct io_op in_op;    /* Connect, then each receive. */
    struct io_op close_op; /* Cancel of in_op, then close of fd. */
    bool is_in_flight;     /* in_op */
    bool is_cancelling;    /* in_op, by close_op */
    bool is_paused;
    bool is_eof;        /* The peer sends no more. */
    bool is_delivering; /* A callback runs that may ask for the next receive. */
    bool is_releasing;  /* The same for sends. */
    uint8_t *into;
    size_t into_left;

    struct list sends; /* struct stream_send, not in a batch. */
    struct send_batch *batch;
};

static_assert(sizeof(struct kernel_stream) <= 1024, "an idle stream is small: net rule 4");

static void start_receive(struct kernel_stream *st);
static void start_send(struct kernel_stream *st);

static struct kernel_stream *kernel_stream_of(struct stream *st)
{
    return container_of(st, struct kernel_stream, stream);
}

static struct io *io_of(struct kernel_stream *st)
{
    return &st->kt->shard->io;
}

/* --- closing ---------------------------------------------------------------------------------- */

/* What io says, in the words of transport.h. */
static enum err reason_of(const struct io_op *op)
{
    switch (op->raw_errno) {
    case ECONNREFUSED:
        return ERR_CLOSED;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return ERR_TIMED_OUT;
    default:
        return op->result == ERR_EOF ? ERR_CLOSED : op->result;
    }
}

static void log_failed(struct kernel_stream *st, const struct io_op *op)
{
    struct kernel_transport *kt = st->kt;
    uint64_t held;
    /* Peers that went away are everyday life. */
    bool is_notable = st->state == KERNEL_STREAM_OPEN && reason_of(op) != ERR_CLOSED;
    if (is_notable && log_limit_pass(&kt->log_stream, kt->shard->now_us, &held)) {
        log_warn(kt->shard->log,
                 "stream_failed",
                 "op=%s reason=%s errno=%d held_back=%" PRIu64 " action=closing",
                 op->kind == IO_SEND ? "send" : "receive",
                 err_name(op->result),
                 op->raw_errno,
                 held);
    }
}

static void release_all(struct list *sends)
{
    struct list *node;
    while ((node = list_pop_front(sends)) != NULL) {
        struct stream_send *send = container_of(node, struct stream_send, link);
        send->on_released(send);
    }
}

static void on_fd_closed(struct io_op *op)
{
    struct kernel_stream *st = container_of(op, struct kernel_stream, close_op);
    assert(st->state == KERNEL_STREAM_CLOSING_FD);
    release_all(&st->sends);
    st->state = KERNEL_STREAM_CLOSED;
    st->ops->on_closed(st->user, st->reason); /* May free st. */
}

static void close_if_quiet(struct kernel_stream *st)
{
    bool is_quiet = !st->is_in_flight && !st->is_cancelling && st->batch == NULL;
    if (st->state != KERNEL_STREAM_CLOSING || !is_quiet) {
        return;
    }
    st->state = KERNEL_STREAM_CLOSING_FD;
    st->close_op = (struct io_op){.kind = IO_CLOSE, .fd = st->fd, .on_done = on_fd_closed};
    io_submit(io_of(st), &st->close_op);
}

static void on_cancelled(struct io_op *op)
{
    struct kernel_stream *st = container_of(op, struct kernel_stream, close_op);
    st->is_cancelling = false;
    close_if_quiet(st);
}

/* Ends what is in flight; everything else follows from the loop. */
static void begin_close(struct kernel_stream *st, enum err reason)
{
    if (st->state >= KERNEL_STREAM_CLOSING) {
        return;
    }
    if (st->state == KERNEL_STREAM_OPEN) {
        /* Ends a blocked send too; what the kernel already took is followed by the FIN. */
        (void)shutdown(st->fd, SHUT_RDWR);
    }
    st->state = KERNEL_STREAM_CLOSING;
    st->reason = reason;
    if (st->is_in_flight) {
        st->is_cancelling = true;
        st->close_op =
            (struct io_op){.kind = IO_CANCEL, .target = &st->in_op, .on_done = on_cancelled};
        io_submit(io_of(st), &st->close_op);
    }
    close_if_quiet(st);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void take_into(struct kernel_stream *st, size_t size)
{
    assert_cmp(size, <=, st->into_left);
    st->into += size;
    st->into_left -= size;
    if (st->into_left == 0) {
        st->into = NULL;
        st->ops->on_received(st->user);
    }
}

/* Bytes of a pooled buffer. A stream_receive_into may have come after the receive was started, or
 * may come while the bytes are handed out. */
static void deliver(struct kernel_stream *st, const uint8_t *data, size_t size)
{
    while (size > 0 && st->state == KERNEL_STREAM_OPEN) {
        if (st->into == NULL) {
            st->ops->on_data(st->user, data, size);
            return;
        }
        size_t part = size < st->into_left ? size : st->into_left;
        memcpy(st->into, data, part);
        data += part;
        size -= part;
        take_into(st, part);
    }
}

static void take_eof(struct kernel_stream *st)
{
    st->is_eof = true;
    st->into = NULL;
    st->into_left = 0;
    st->ops->on_eof(st->user);
}

static bool is_half_close(const struct kernel_stream *st, const struct io_op *op)
{
    return op->result == ERR_EOF && st->state == KERNEL_STREAM_OPEN && st->ops->on_eof != NULL;
}

static void on_receive_done(struct io_op *op)
{
    struct kernel_stream *st = container_of(op, struct kernel_stream, in_op);
    st->is_in_flight = false;
    st->is_delivering = true;
    bool is_pooled = (op->flags & IO_FLAG_POOLED) != 0;
    uint8_t *data = op->buf;
    size_t size = op->done_size;
    if (op->result == ERR_OK) {
        if (is_pooled) {
            deliver(st, data, size);
            io_recv_buffer_return(io_of(st), data);
        } else if (st->state == KERNEL_STREAM_OPEN) {
            take_into(st, size);
        }
    } else if (is_half_close(st, op)) {
        take_eof(st);
    } else {
        log_failed(st, op);
        begin_close(st, reason_of(op));
    }
    st->is_delivering = false;
    start_receive(st);
    close_if_quiet(st);
}

static void start_receive(struct kernel_stream *st)
{
    bool is_wanted = st->state == KERNEL_STREAM_OPEN && !st->is_paused && !st->is_eof;
    if (!is_wanted || st->is_in_flight || st->is_delivering) {
        return;
    }
    st->in_op = (struct io_op){.kind = IO_RECV, .fd = st->fd, .on_done = on_receive_done};
    if (st->into != NULL) {
        st->in_op.flags = IO_FLAG_ALL;
        st->in_op.buf = st->into;
        st->in_op.size = st->into_left;
    } else {
        st->in_op.flags = IO_FLAG_POOLED;
    }
    st->is_in_flight = true;
    io_submit(io_of(st), &st->in_op);
}

/* --- sending ---------------------------------------------------------------------------------- */

static struct send_batch *batch_new(struct kernel_stream *st)
{
    struct kernel_transport *kt = st->kt;
    struct send_batch *b;
    struct list *node = list_pop_front(&kt->spare_batches);
    if (node != NULL) {
        kt->spare_batches_count--;
        b = container_of(node, struct send_batch, link);
    } else {
        b = malloc(sizeof(*b));
        if (b == NULL) {
            return NULL;
        }
    }
    list_init(&b->link);
    list_init(&b->sends);
    b->st = st;
    return b;
}

static void batch_free(struct kernel_transport *kt, struct send_batch *b)
{
    assert(list_is_empty(&b->sends));
    if (kt->spare_batches_count < SPARE_BATCHES_MAX) {
        kt->spare_batches_count++;
        list_push_front(&kt->spare_batches, &b->link);
    } else {
        free(b);
    }
}

static void on_send_done(struct io_op *op)
{
    struct send_batch *b = container_of(op, struct send_batch, op);
    struct kernel_stream *st = b->st;
    if (op->result != ERR_OK) {
        log_failed(st, op);
        begin_close(st, reason_of(op));
    }
    st->is_releasing = true;
    release_all(&b->sends);
    st->is_releasing = false;
    st->batch = NULL;
    batch_free(st->kt, b);
    start_send(st);
    close_if_quiet(st);
}

/* Moves sends into the batch while their vectors fit; the first always does. */
static void fill_batch(struct kernel_stream *st, struct send_batch *b)
{
    uint32_t count = 0;
    uint64_t size = 0;
    while (!list_is_empty(&st->sends)) {
        struct stream_send *send = container_of(st->sends.next, struct stream_send, link);
        if (count + send->iov_count > IO_IOV_MAX) {
            break;
        }
        for (uint32_t i = 0; i < send->iov_count; i++) {
            b->iov[count++] = send->iov[i];
            size += send->iov[i].iov_len;
        }
        list_remove(&send->link);
        list_push_back(&b->sends, &send->link);
    }
    b->op = (struct io_op){.kind = IO_SEND,
                           .fd = st->fd,
                           .iov = b->iov,
                           .iov_count = count,
                           .size = size,
                           .on_done = on_send_done};
}

static void start_send(struct kernel_stream *st)
{
    bool is_wanted = st->state == KERNEL_STREAM_OPEN && !list_is_empty(&st->sends);
    if (!is_wanted || st->batch != NULL || st->is_releasing) {
        return;
    }
    st->batch = batch_new(st);
    if (st->batch == NULL) {
        begin_close(st, ERR_BUSY);
        return;
    }
    fill_batch(st, st->batch);
    io_submit(io_of(st), &st->batch->op);
}

/* --- the interface ---------------------------------------------------------------------------- */

static void kernel_receive_into(struct stream *stream, void *dst, size_t size)
{
    struct kernel_stream *st = kernel_stream_of(stream);
    assert(st->into == NULL);
    assert(size > 0);
    st->into = dst;
    st->into_left = size;
}

static void kernel_pause(struct stream *stream)
{
    kernel_stream_of(stream)->is_paused = true;
}

static void kernel_resume(struct stream *stream)
{
    struct kernel_stream *st = kernel_stream_of(stream);
    st->is_paused = false;
    start_receive(st);
}

static void kernel_send(struct stream *stream, struct stream_send *send)
{
    struct kernel_stream *st = kernel_stream_of(stream);
    assert(st->state != KERNEL_STREAM_CLOSED);
    assert(send->iov_count > 0 && send->iov_count <= NET_IOV_MAX);
    list_push_back(&st->sends, &send->link);
    if (!send->has_more) {
        start_send(st);
    }
    /* While it closes, the send waits for on_fd_closed. */
}

static void kernel_close(struct stream *stream)
{
    begin_close(kernel_stream_of(stream), ERR_CANCELLED);
}

static void stream_memory_free(struct kernel_stream *st)
{
    st->kt->streams_count--;
    free(st->address);
    free(st);
}

static void kernel_free(struct stream *stream)
{
    struct kernel_stream *st = kernel_stream_of(stream);
    assert(st->state == KERNEL_STREAM_CLOSED);
    assert(list_is_empty(&st->sends));
    stream_memory_free(st);
}

static struct kernel_stream *kernel_stream_new(struct kernel_transport *kt, int fd)
{
    struct kernel_stream *st = calloc(1, sizeof(*st));
    if (st == NULL) {
        return NULL;
    }
    st->stream.transport = &kt->transport;
    st->kt = kt;
    st->fd = fd;
    list_init(&st->sends);
    kt->streams_count++;

    /* Best effort: without them the stream works, only later. Keepalive finds peers that vanished
     * without a word while nothing is sent. */
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    return st;
}

void kernel_stream_accepted(struct kernel_transport *kt, const struct listen_options *o, int fd)
{
    struct kernel_stream *st = kernel_stream_new(kt, fd);
    if (st == NULL) {
        (void)close(fd);
        return;
    }
    char peer[NET_PEER_SIZE] = "unknown";
    struct net_sockaddr address = {.size = sizeof(address.storage)};
    if (getpeername(fd, (struct sockaddr *)&address.storage, &address.size) == 0) {
        net_sockaddr_format(&address, peer);
    }
    st->state = KERNEL_STREAM_OPEN;
    st->is_delivering = true;
    st->user = o->on_accept(o->context, &st->stream, peer, &st->ops);
    st->is_delivering = false;
    if (st->user == NULL) {
        (void)close(fd);
        stream_memory_free(st);
        return;
    }
    start_receive(st);
}

static void on_connect_done(struct io_op *op)
{
    struct kernel_stream *st = container_of(op, struct kernel_stream, in_op);
    st->is_in_flight = false;
    free(st->address);
    st->address = NULL;
    if (st->state == KERNEL_STREAM_CONNECTING && op->result == ERR_OK) {
        st->state = KERNEL_STREAM_OPEN;
        st->is_delivering = true;
        st->on_connected(st->user, &st->stream);
        st->is_delivering = false;
        start_receive(st);
        start_send(st);
    } else {
        begin_close(st, reason_of(op));
        close_if_quiet(st);
    }
}

static enum err
kernel_connect(struct transport *t, const struct connect_options *o, struct stream **ret_stream)
{
    struct kernel_transport *kt = kernel_of(t);
    struct net_sockaddr *sa = malloc(sizeof(*sa));
    if (sa == NULL) {
        return ERR_BUSY;
    }
    enum err e = net_sockaddr_numeric(&o->address, sa);
    if (e != ERR_OK) {
        goto out_free_address;
    }
    int fd = socket(sa->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        e = errno == EMFILE || errno == ENFILE ? ERR_BUSY : ERR_IO;
        goto out_free_address;
    }
    struct kernel_stream *st = kernel_stream_new(kt, fd);
    if (st == NULL) {
        e = ERR_BUSY;
        goto out_close_fd;
    }
    st->state = KERNEL_STREAM_CONNECTING;
    st->user = o->user;
    st->ops = o->ops;
    st->on_connected = o->on_connected;
    st->address = sa;
    st->in_op = (struct io_op){.kind = IO_CONNECT,
                               .fd = fd,
                               .buf = &sa->storage,
                               .size = sa->size,
                               .on_done = on_connect_done};
    st->is_in_flight = true;
    io_submit(&kt->shard->io, &st->in_op);
    *ret_stream = &st->stream;
    return ERR_OK;

out_close_fd:
    (void)close(fd);
out_free_address:
    free(sa);
    return e;
}

static void kernel_destroy(struct transport *t)
{
    struct kernel_transport *kt = kernel_of(t);
    assert_cmp(kt->streams_count, ==, 0);
    kernel_stop_listening(t, NULL);
    struct io *io = &kt->shard->io;
    while (!list_is_empty(&kt->listeners)) {
        /* The loop has ended, so nobody else sees to the completions. */
        io_flush(io);
        if (io_run_completions(io, 1) == 0) {
            io->backend->ops->wait(io->backend, clock_now_us(kt->shard->clock) + WAIT_US);
        }
    }
    struct list *node;
    while ((node = list_pop_front(&kt->spare_batches)) != NULL) {
        free(container_of(node, struct send_batch, link));
    }
    free(kt);
}

static const struct transport_ops kernel_ops = {
    .listen = kernel_listen,
    .stop_listening = kernel_stop_listening,
    .connect = kernel_connect,
    .receive_into = kernel_receive_into,
    .pause = kernel_pause,
    .resume = kernel_resume,
    .send = kernel_send,
    .close = kernel_close,
    .free = kernel_free,
    .destroy = kernel_destroy,
};

enum err transport_kernel_new(struct shard *s, struct transport **ret_transport)
{
    struct kernel_transport *kt = calloc(1, sizeof(*kt));
    if (kt == NULL) {
        return ERR_BUSY;
    }
    kt->transport.ops = &kernel_ops;
    kt->shard = s;
    list_init(&kt->listeners);
    list_init(&kt->spare_batches);
    *ret_transport = &kt->transport;
    return ERR_OK;
}
