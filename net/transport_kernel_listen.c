/* Listeners of the kernel's transport. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/assert.h"
#include "net/transport_kernel_priv.h"

enum {
    ACCEPT_RETRY_US = 100 * 1000,
};

struct listener {
    struct list link; /* kernel_transport.listeners, until nothing is in flight. */
    struct kernel_transport *transport;
    struct listen_options options;
    int fd;
    bool is_stopped;
    bool is_accepting;
    bool is_cancelling;
    struct io_op accept_op;
    struct io_op cancel_op;
    struct timer retry_timer;
};

static void start_accept(struct listener *l);

static void free_if_quiet(struct listener *l)
{
    if (!l->is_stopped || l->is_accepting || l->is_cancelling) {
        return;
    }
    timer_cancel(&l->transport->shard->timers, &l->retry_timer);
    list_remove(&l->link);
    (void)close(l->fd);
    free(l);
}

static bool is_out_of_resources(const struct io_op *op)
{
    return op->result == ERR_BUSY || op->raw_errno == EMFILE || op->raw_errno == ENFILE ||
           op->raw_errno == ENOMEM;
}

static void log_accept_failed(struct listener *l, const struct io_op *op)
{
    struct kernel_transport *kt = l->transport;
    uint64_t held;
    if (log_limit_pass(&kt->log_accept, kt->shard->now_us, &held)) {
        log_error(kt->shard->log,
                  "accept_failed",
                  "host=%s result=%s errno=%d held_back=%" PRIu64
                  " hint=\"raise the limit on open files (LimitNOFILE=, ulimit -n)\"",
                  l->options.address.host,
                  err_name(op->result),
                  op->raw_errno,
                  held);
    }
}

static void on_accept_done(struct io_op *op)
{
    struct listener *l = container_of(op, struct listener, accept_op);
    l->is_accepting = false;
    if (op->result == ERR_OK) {
        if (l->is_stopped) {
            (void)close(op->result_fd);
        } else {
            kernel_stream_accepted(l->transport, &l->options, op->result_fd);
        }
    }
    if (l->is_stopped) {
        free_if_quiet(l);
    } else if (is_out_of_resources(op)) {
        /* The connection stays in the kernel's queue: asking again at once would spin. */
        log_accept_failed(l, op);
        shard_timer_arm(l->transport->shard, &l->retry_timer, ACCEPT_RETRY_US);
    } else {
        start_accept(l); /* Any other failure is that of one connection. */
    }
}

static void start_accept(struct listener *l)
{
    l->is_accepting = true;
    l->accept_op = (struct io_op){.kind = IO_ACCEPT, .fd = l->fd, .on_done = on_accept_done};
    io_submit(&l->transport->shard->io, &l->accept_op);
}

static void on_retry(struct timer *t)
{
    start_accept(container_of(t, struct listener, retry_timer));
}

static void on_cancel_done(struct io_op *op)
{
    struct listener *l = container_of(op, struct listener, cancel_op);
    l->is_cancelling = false;
    free_if_quiet(l);
}

static void stop_listener(struct listener *l)
{
    if (l->is_stopped) {
        return;
    }
    l->is_stopped = true;
    timer_cancel(&l->transport->shard->timers, &l->retry_timer);
    if (l->is_accepting) {
        l->is_cancelling = true;
        l->cancel_op =
            (struct io_op){.kind = IO_CANCEL, .target = &l->accept_op, .on_done = on_cancel_done};
        io_submit(&l->transport->shard->io, &l->cancel_op);
    }
    free_if_quiet(l);
}

void kernel_stop_listening(struct transport *t, const void *context)
{
    struct kernel_transport *kt = kernel_of(t);
    list_for_each_safe (node, &kt->listeners) {
        struct listener *l = container_of(node, struct listener, link);
        if (context == NULL || l->options.context == context) {
            stop_listener(l);
        }
    }
}

/* --- binding ---------------------------------------------------------------------------------- */

static enum err explain(const struct net_address *a, int error, char why[NET_WHY_SIZE])
{
    char text[NET_HOST_SIZE + 8];
    net_address_format(a, text);
    switch (error) {
    case EADDRINUSE:
        (void)snprintf(why,
                       NET_WHY_SIZE,
                       "%.120s is taken: stop the process that listens there (ss -ltnp sport = :%u "
                       "shows it), or choose another port",
                       text,
                       (unsigned)a->port);
        return ERR_EXISTS;
    case EADDRNOTAVAIL:
        (void)snprintf(why,
                       NET_WHY_SIZE,
                       "%.120s is not an address of this machine: choose one of ip address, or "
                       "0.0.0.0",
                       text);
        return ERR_INVALID;
    case EACCES:
        (void)snprintf(why,
                       NET_WHY_SIZE,
                       "no permission for %.120s: choose a port above 1023, or grant "
                       "CAP_NET_BIND_SERVICE",
                       text);
        return ERR_IO;
    case EMFILE:
    case ENFILE:
        (void)snprintf(
            why, NET_WHY_SIZE, "no descriptor left: raise the limit on open files (ulimit -n)");
        return ERR_BUSY;
    default:
        (void)snprintf(
            why, NET_WHY_SIZE, "cannot listen on %.120s: %s", text, strerrordesc_np(error));
        return ERR_IO;
    }
}

static bool set_on(int fd, int option)
{
    const int on = 1;
    return setsockopt(fd, SOL_SOCKET, option, &on, sizeof(on)) == 0;
}

/* The first socket of this process on the address is bound without SO_REUSEPORT: that fails if
 * anybody else is bound there, also another broker of the same user, whom SO_REUSEPORT alone would
 * let share the port without a word. Set afterwards, before listen, it lets our other shards join.
 * There is no moment in between that two starting processes could both pass. */
static bool bind_first(int fd, const struct net_sockaddr *a)
{
    return bind(fd, (const struct sockaddr *)&a->storage, a->size) == 0 && set_on(fd, SO_REUSEPORT);
}

static bool bind_further(int fd, const struct net_sockaddr *a)
{
    return set_on(fd, SO_REUSEPORT) && bind(fd, (const struct sockaddr *)&a->storage, a->size) == 0;
}

/* A bound and listening socket, or -1 with errno. */
static int open_socket(const struct net_sockaddr *a, bool is_first)
{
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return -1;
    }
    /* Connections of an earlier process in TIME_WAIT must not keep this one from starting. */
    bool is_listening = set_on(fd, SO_REUSEADDR) &&
                        (is_first ? bind_first(fd, a) : bind_further(fd, a)) &&
                        listen(fd, SOMAXCONN) == 0;
    if (!is_listening) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static uint16_t bound_port(int fd)
{
    struct net_sockaddr a = {.size = sizeof(a.storage)};
    if (getsockname(fd, (struct sockaddr *)&a.storage, &a.size) != 0) {
        return 0;
    }
    return net_sockaddr_port(&a);
}

enum err kernel_listen(struct transport *t,
                       const struct listen_options *o,
                       uint16_t *ret_port,
                       char why[NET_WHY_SIZE])
{
    struct kernel_transport *kt = kernel_of(t);
    struct net_sockaddr address;
    const char *reason = "";
    if (net_sockaddr_resolve(&o->address, &address, &reason) != ERR_OK) {
        (void)snprintf(why,
                       NET_WHY_SIZE,
                       "cannot resolve %.100s: %.60s: give a numeric address",
                       o->address.host,
                       reason);
        return ERR_NOT_FOUND;
    }
    struct listener *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        (void)snprintf(why, NET_WHY_SIZE, "no memory for a listener: free some");
        return ERR_BUSY;
    }
    l->fd = open_socket(&address, kt->shard->id == 0);
    if (l->fd == -1) {
        int error = errno;
        free(l);
        return explain(&o->address, error, why);
    }
    l->transport = kt;
    l->options = *o;
    timer_init(&l->retry_timer, on_retry);
    list_push_back(&kt->listeners, &l->link);
    *ret_port = bound_port(l->fd);
    start_accept(l);
    return ERR_OK;
}
