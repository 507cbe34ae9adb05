#include "tests/support/fake_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    FAKE_PORT_FIRST = 20000,
};

struct chunk {
    struct list link;
    size_t size;
    uint8_t data[];
};

struct fake_listener {
    struct list link;
    struct listen_options options;
    uint16_t port;
};

/* Both ends of one connection. */
struct fake_peer {
    struct stream stream; /* First: what the user holds. */
    struct fake_transport *transport;
    struct list link;
    char name[NET_PEER_SIZE];
    uint16_t port;
    void *user;
    const struct stream_user_ops *ops;
    void (*on_connected)(void *user, struct stream *stream);

    struct list chunks; /* Sent by the peer, not delivered. */
    struct list sends;  /* struct stream_send */
    uint8_t *into;
    size_t into_left;
    size_t into_size;
    size_t send_pos; /* In the first send. */
    uint8_t *received;
    size_t received_size;
    size_t window_size;
    size_t flushes_count;

    bool is_dialing;
    bool is_refused;
    bool is_paused;
    bool is_close_asked; /* By the user. */
    bool is_peer_gone;
    bool is_ended; /* By the peer: it sends no more. */
    bool is_eof_told;
    bool is_closed; /* on_closed was called. */
    bool is_freed;  /* By the user. */
    enum err reason;
};

struct fake_transport {
    struct transport transport;
    struct list listeners;
    struct list peers;
    uint16_t port_next;
    bool is_running; /* Callbacks come from run only. */
};

static struct fake_peer *peer_of(struct stream *st)
{
    return container_of(st, struct fake_peer, stream);
}

static struct fake_transport *fake_of(struct transport *t)
{
    return container_of(t, struct fake_transport, transport);
}

/* --- the user's side -------------------------------------------------------------------------- */

static enum err fake_listen(struct transport *t,
                            const struct listen_options *o,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE])
{
    struct fake_transport *ft = fake_of(t);
    list_for_each (node, &ft->listeners) {
        if (container_of(node, struct fake_listener, link)->port == o->address.port) {
            (void)strncpy(why, "port taken", NET_WHY_SIZE);
            return ERR_EXISTS;
        }
    }
    struct fake_listener *l = calloc(1, sizeof(*l));
    assert(l != NULL);
    l->options = *o;
    l->port = o->address.port != 0 ? o->address.port : ft->port_next++;
    list_push_back(&ft->listeners, &l->link);
    *ret_port = l->port;
    return ERR_OK;
}

static void fake_stop_listening(struct transport *t, const void *context)
{
    struct fake_transport *ft = fake_of(t);
    list_for_each_safe (node, &ft->listeners) {
        struct fake_listener *l = container_of(node, struct fake_listener, link);
        if (context == NULL || l->options.context == context) {
            list_remove(&l->link);
            free(l);
        }
    }
}

static struct fake_peer *peer_new(struct fake_transport *ft, const char *name)
{
    struct fake_peer *p = calloc(1, sizeof(*p));
    assert(p != NULL);
    p->stream.transport = &ft->transport;
    p->transport = ft;
    (void)snprintf(p->name, sizeof(p->name), "%.*s", (int)sizeof(p->name) - 1, name);
    list_init(&p->chunks);
    list_init(&p->sends);
    p->window_size = SIZE_MAX;
    list_push_back(&ft->peers, &p->link);
    return p;
}

static enum err
fake_connect(struct transport *t, const struct connect_options *o, struct stream **ret_stream)
{
    char text[NET_HOST_SIZE + 8];
    net_address_format(&o->address, text);
    struct fake_peer *p = peer_new(fake_of(t), text);
    p->user = o->user;
    p->ops = o->ops;
    p->on_connected = o->on_connected;
    *ret_stream = &p->stream;
    return ERR_OK;
}

static void fake_receive_into(struct stream *st, void *dst, size_t size)
{
    struct fake_peer *p = peer_of(st);
    assert(p->into == NULL);
    assert(size > 0);
    assert(!p->is_closed);
    p->into = dst;
    p->into_left = size;
}

static void fake_pause(struct stream *st)
{
    assert(!peer_of(st)->is_closed);
    peer_of(st)->is_paused = true;
}

static void fake_resume(struct stream *st)
{
    assert(!peer_of(st)->is_closed);
    peer_of(st)->is_paused = false;
}

static void fake_send(struct stream *st, struct stream_send *send)
{
    struct fake_peer *p = peer_of(st);
    assert(!p->is_closed);
    assert(!p->is_close_asked);
    assert(send->iov_count > 0 && send->iov_count <= NET_IOV_MAX);
    send->iov_done = 0;
    list_push_back(&p->sends, &send->link);
    p->flushes_count += send->has_more ? 0 : 1;
}

static void fake_close(struct stream *st)
{
    assert(!peer_of(st)->is_closed);
    peer_of(st)->is_close_asked = true;
}

static void fake_free(struct stream *st)
{
    struct fake_peer *p = peer_of(st);
    assert(p->is_closed);
    assert(!p->is_freed);
    assert(list_is_empty(&p->sends));
    p->is_freed = true;
}

static void fake_destroy(struct transport *t)
{
    struct fake_transport *ft = fake_of(t);
    assert_cmp(fake_transport_streams_count(ft), ==, 0);
    fake_stop_listening(t, NULL);
    while (!list_is_empty(&ft->peers)) {
        fake_peer_free(container_of(ft->peers.next, struct fake_peer, link));
    }
    free(ft);
}

static const struct transport_ops fake_ops = {
    .listen = fake_listen,
    .stop_listening = fake_stop_listening,
    .connect = fake_connect,
    .receive_into = fake_receive_into,
    .pause = fake_pause,
    .resume = fake_resume,
    .send = fake_send,
    .close = fake_close,
    .free = fake_free,
    .destroy = fake_destroy,
};

/* --- delivery --------------------------------------------------------------------------------- */

static struct fake_listener *find_listener(struct fake_transport *ft, uint16_t port)
{
    list_for_each (node, &ft->listeners) {
        struct fake_listener *l = container_of(node, struct fake_listener, link);
        if (l->port == port) {
            return l;
        }
    }
    return NULL;
}

static void accept_peer(struct fake_peer *p)
{
    p->is_dialing = false;
    struct fake_listener *l = find_listener(p->transport, p->port);
    p->user =
        l == NULL ? NULL : l->options.on_accept(l->options.context, &p->stream, p->name, &p->ops);
    p->is_refused = p->user == NULL;
}

static bool deliver_chunk(struct fake_peer *p)
{
    if (p->is_paused || list_is_empty(&p->chunks)) {
        return false;
    }
    struct chunk *k = container_of(list_pop_front(&p->chunks), struct chunk, link);
    size_t into = k->size < p->into_left ? k->size : p->into_left;
    if (into > 0) {
        memcpy(p->into, k->data, into);
        p->into += into;
        p->into_left -= into;
        p->into_size += into;
    }
    if (into < k->size) {
        /* A copy of its own, so that keeping a pointer into it is found by the sanitizer. */
        struct chunk *rest = malloc(sizeof(*rest) + k->size - into);
        assert(rest != NULL);
        rest->size = k->size - into;
        memcpy(rest->data, k->data + into, rest->size);
        list_push_front(&p->chunks, &rest->link);
    }
    free(k);
    if (into > 0) {
        if (p->into_left == 0) {
            p->into = NULL;
            p->ops->on_received(p->user);
        }
        return true;
    }
    struct chunk *now = container_of(list_pop_front(&p->chunks), struct chunk, link);
    p->ops->on_data(p->user, now->data, now->size);
    free(now);
    return true;
}

/* Moves bytes of the first send to the peer. True if it was released. */
static bool take_send(struct fake_peer *p)
{
    if (list_is_empty(&p->sends) || p->is_close_asked || p->is_peer_gone) {
        return false;
    }
    struct stream_send *send = container_of(p->sends.next, struct stream_send, link);
    while (send->iov_done < send->iov_count) {
        const struct iovec *v = &send->iov[send->iov_done];
        size_t left = v->iov_len - p->send_pos;
        size_t taken = left < p->window_size ? left : p->window_size;
        p->received = realloc(p->received, p->received_size + taken + 1);
        assert(p->received != NULL);
        memcpy(p->received + p->received_size, (uint8_t *)v->iov_base + p->send_pos, taken);
        p->received_size += taken;
        p->send_pos += taken;
        p->window_size -= p->window_size == SIZE_MAX ? 0 : taken;
        if (taken < left) {
            return false;
        }
        p->send_pos = 0;
        send->iov_done++;
    }
    list_remove(&send->link);
    send->on_released(send);
    return true;
}

static bool close_peer(struct fake_peer *p)
{
    /* A send to a peer that is gone is what tells a paused stream. */
    bool is_told = p->reason != ERR_CLOSED || list_is_empty(&p->chunks) ||
                   (p->is_paused && !list_is_empty(&p->sends));
    bool is_due = p->is_close_asked || (p->is_peer_gone && is_told);
    if (!is_due) {
        return false;
    }
    p->is_closed = true;
    p->ops->on_closed(p->user, p->is_close_asked ? ERR_CANCELLED : p->reason);
    /* After it, as rule 4 of the contract allows. */
    struct list *node;
    while ((node = list_pop_front(&p->sends)) != NULL) {
        struct stream_send *send = container_of(node, struct stream_send, link);
        send->on_released(send);
    }
    return true;
}

static bool tell_eof(struct fake_peer *p)
{
    if (!p->is_ended || p->is_eof_told || p->is_paused || !list_is_empty(&p->chunks)) {
        return false;
    }
    p->is_eof_told = true;
    p->into = NULL;
    p->into_left = 0;
    p->ops->on_eof(p->user);
    return true;
}

static bool run_peer(struct fake_peer *p)
{
    if (p->is_dialing) {
        accept_peer(p);
        return true;
    }
    if (p->is_refused || p->is_closed) {
        return false;
    }
    if (p->on_connected != NULL) {
        void (*on_connected)(void *user, struct stream *stream) = p->on_connected;
        p->on_connected = NULL;
        on_connected(p->user, &p->stream);
        return true;
    }
    return close_peer(p) || deliver_chunk(p) || tell_eof(p) || take_send(p);
}

size_t fake_transport_run(struct fake_transport *ft)
{
    assert(!ft->is_running);
    ft->is_running = true;
    size_t ran = 0;
    bool any;
    do {
        any = false;
        list_for_each_safe (node, &ft->peers) {
            if (run_peer(container_of(node, struct fake_peer, link))) {
                any = true;
                ran++;
            }
        }
    } while (any);
    ft->is_running = false;
    return ran;
}

/* --- the test's side -------------------------------------------------------------------------- */

struct fake_transport *fake_transport_new(void)
{
    struct fake_transport *ft = calloc(1, sizeof(*ft));
    assert(ft != NULL);
    ft->transport.ops = &fake_ops;
    ft->port_next = FAKE_PORT_FIRST;
    list_init(&ft->listeners);
    list_init(&ft->peers);
    return ft;
}

struct transport *fake_transport_of(struct fake_transport *ft)
{
    return &ft->transport;
}

size_t fake_transport_streams_count(const struct fake_transport *ft)
{
    size_t count = 0;
    list_for_each (node, &ft->peers) {
        const struct fake_peer *p = container_of(node, struct fake_peer, link);
        bool is_held = p->user != NULL && !p->is_refused && !p->is_freed;
        count += is_held ? 1 : 0;
    }
    return count;
}

struct fake_peer *fake_transport_dial(struct fake_transport *ft, uint16_t port, const char *name)
{
    struct fake_peer *p = peer_new(ft, name);
    p->port = port;
    p->is_dialing = true;
    return p;
}

void fake_peer_free(struct fake_peer *p)
{
    assert(p->is_freed || p->is_refused || p->is_dialing);
    struct list *node;
    while ((node = list_pop_front(&p->chunks)) != NULL) {
        free(container_of(node, struct chunk, link));
    }
    list_remove(&p->link);
    free(p->received);
    free(p);
}

void fake_peer_send(struct fake_peer *p, const void *data, size_t size)
{
    if (size == 0) {
        return;
    }
    assert(!p->is_ended);
    struct chunk *k = malloc(sizeof(*k) + size);
    assert(k != NULL);
    k->size = size;
    memcpy(k->data, data, size);
    list_push_back(&p->chunks, &k->link);
}

void fake_peer_end(struct fake_peer *p)
{
    p->is_ended = true;
}

void fake_peer_close(struct fake_peer *p, enum err reason)
{
    p->is_peer_gone = true;
    p->reason = reason;
}

struct slice fake_peer_received(const struct fake_peer *p)
{
    return slice_of(p->received, p->received_size);
}

void fake_peer_forget_received(struct fake_peer *p)
{
    p->received_size = 0;
}

void fake_peer_set_window(struct fake_peer *p, size_t size)
{
    p->window_size = size;
}

bool fake_peer_is_refused(const struct fake_peer *p)
{
    return p->is_refused;
}

bool fake_peer_is_closed(const struct fake_peer *p)
{
    return p->is_close_asked || p->is_closed;
}

bool fake_peer_is_paused(const struct fake_peer *p)
{
    return p->is_paused;
}

size_t fake_peer_into_size(const struct fake_peer *p)
{
    return p->into_size;
}

size_t fake_peer_flushes_count(const struct fake_peer *p)
{
    return p->flushes_count;
}
