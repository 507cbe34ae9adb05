/* Byte streams between machines, behind one interface: the kernel's TCP over io_uring
 * (net/transport_kernel.h), the simulator's net, later DPDK with lwIP. TLS will be a filter on it.
 *
 * One transport per shard. A stream belongs to the shard that accepted or connected it.
 *
 * Rules of use:
 *  1. Callbacks come from the loop, never inside a call of this interface.
 *  2. on_data hands bytes in the transport's memory, valid during the call; the user takes all of
 *     them. stream_receive_into is a hint for large bodies: the next bytes go straight to dst and
 *     on_received tells when all are there; a transport that cannot copies. dst belongs to the
 *     transport until on_received or on_closed.
 *  3. stream_pause stops reading from the peer (back-pressure); data already read may still come.
 *  4. stream_send queues; sends of one stream leave in order. The memory belongs to the transport
 *     until on_released, which may come after on_closed.
 *  5. on_closed comes exactly once, for whatever reason, as the last callback but on_released. The
 *     user then calls stream_free once nothing is outstanding, from inside on_closed or on_released
 *     at the earliest.
 *  6. on_eof comes at most once, behind the last byte of a peer that sends no more and may still
 *     read (it half-closed; one that went away looks the same until something is sent to it). No
 *     on_data or on_received comes after it, and the dst of a stream_receive_into is the user's
 *     again. The stream stays open for sends; the user closes it. A user without on_eof gets
 *     on_closed instead.
 *  7. stream_close drops what is queued (it is released, unsent) and leads to on_closed; what the
 *     peer's machine or our kernel already took still arrives. Closing twice is harmless.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/err.h"
#include "core/list.h"

enum {
    NET_HOST_SIZE = 256, /* Longest host name, with NUL. */
    NET_IOV_MAX = 64,
    NET_WHY_SIZE = 256,
    NET_PEER_SIZE = 80, /* Numeric address, scope and port as text, with NUL. */
};

struct net_address {
    char host[NET_HOST_SIZE]; /* Name or numeric address. */
    uint16_t port;            /* 0 when listening = any free one. */
};

/* "host:port", "[::1]:port"; ERR_INVALID otherwise. */
enum err net_address_parse(const char *text, struct net_address *ret_address);
/* The inverse, into text of NET_HOST_SIZE + 8 bytes. */
void net_address_format(const struct net_address *a, char *ret_text);

struct transport;
struct stream;

struct stream_send {
    struct list link;        /* Private while sending. */
    const struct iovec *iov; /* Stays valid until on_released. */
    uint32_t iov_count;
    void (*on_released)(struct stream_send *send);
    bool
        has_more; /* A hint: the same caller sends again at once, worth one system call for both. */
    uint32_t iov_done; /* Private. */
};

struct stream_user_ops {
    void (*on_data)(void *user, const uint8_t *data, size_t size);
    void (*on_received)(void *user);                /* stream_receive_into is complete. */
    void (*on_eof)(void *user);                     /* May be NULL. */
    void (*on_closed)(void *user, enum err reason); /* ERR_CLOSED: by the peer, in order. */
};

struct listen_options {
    struct net_address address;
    void *context;
    /* A new connection; peer is its text address. Returns the user of the stream and its ops, or
     * NULL to refuse it at once. */
    void *(*on_accept)(void *context,
                       struct stream *stream,
                       const char *peer,
                       const struct stream_user_ops **ret_ops);
};

struct connect_options {
    struct net_address address;
    void *user;
    const struct stream_user_ops *ops;
    void (*on_connected)(void *user, struct stream *stream);
};

struct transport_ops {
    /* Binds and accepts. *ret_port is the port bound. Several shards of one process may listen on
     * one address: shard 0 first, which makes sure that nobody else has the port, then the others
     * with the port it got. On error why gets one line that names the fix. */
    enum err (*listen)(struct transport *t,
                       const struct listen_options *o,
                       uint16_t *ret_port,
                       char why[NET_WHY_SIZE]);
    /* Stops accepting on the listeners whose listen_options.context is context; NULL = on all. No
     * on_accept of theirs comes after it. */
    void (*stop_listening)(struct transport *t, const void *context);
    /* Starts connecting; on_closed reports failure, on_connected success. */
    enum err (*connect)(struct transport *t,
                        const struct connect_options *o,
                        struct stream **ret_stream);
    void (*receive_into)(struct stream *st, void *dst, size_t size);
    void (*pause)(struct stream *st);
    void (*resume)(struct stream *st);
    void (*send)(struct stream *st, struct stream_send *send);
    void (*close)(struct stream *st);
    void (*free)(struct stream *st);
    /* All streams must have been freed. */
    void (*destroy)(struct transport *t);
};

struct transport {
    const struct transport_ops *ops;
};

struct stream {
    struct transport *transport;
};

static inline void stream_receive_into(struct stream *st, void *dst, size_t size)
{
    st->transport->ops->receive_into(st, dst, size);
}
static inline void stream_pause(struct stream *st)
{
    st->transport->ops->pause(st);
}
static inline void stream_resume(struct stream *st)
{
    st->transport->ops->resume(st);
}
static inline void stream_send(struct stream *st, struct stream_send *send)
{
    st->transport->ops->send(st, send);
}
static inline void stream_close(struct stream *st)
{
    st->transport->ops->close(st);
}
static inline void stream_free(struct stream *st)
{
    st->transport->ops->free(st);
}
