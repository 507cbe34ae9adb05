#include "perf/micro/wire.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "perf/micro/micro.h"

enum {
    PREFIX_SIZE = 4,
};

static struct wire_conn *conn_of(struct stream *st)
{
    return container_of(st, struct wire_conn, stream);
}

/* ---- what the broker calls ---- */

static enum err wire_listen(struct transport *t,
                            const struct listen_options *o,
                            uint16_t *ret_port,
                            char why[NET_WHY_SIZE])
{
    (void)why;
    struct wire *w = container_of(t, struct wire, transport);
    assert(w->listener.on_accept == NULL);
    w->listener = *o;
    *ret_port = o->address.port;
    return ERR_OK;
}

static void wire_stop_listening(struct transport *t, const void *context)
{
    (void)context;
    container_of(t, struct wire, transport)->listener.on_accept = NULL;
}

static enum err
wire_connect(struct transport *t, const struct connect_options *o, struct stream **ret_stream)
{
    (void)t;
    (void)o;
    (void)ret_stream;
    return ERR_UNSUPPORTED;
}

static MICRO_SEEN void uncounted_receive_into(struct stream *st, void *dst, size_t size)
{
    struct wire_conn *c = conn_of(st);
    c->into = dst;
    c->into_size = size;
    micro_keep_frame();
}

static MICRO_SEEN void uncounted_pause(struct stream *st)
{
    (void)st;
    assert(false && "a case lets the broker breathe");
    micro_keep_frame();
}

static MICRO_SEEN void uncounted_resume(struct stream *st)
{
    (void)st;
    micro_keep_frame();
}

static MICRO_SEEN void uncounted_send(struct stream *st, struct stream_send *send)
{
    send->iov_done = 0;
    list_push_back(&conn_of(st)->sends, &send->link);
    micro_keep_frame();
}

static void wire_close(struct stream *st)
{
    conn_of(st)->is_close_asked = true;
}

static void wire_free(struct stream *st)
{
    struct wire_conn *c = conn_of(st);
    list_remove(&c->link);
    free(c->answer);
    free(c);
}

/* The wire is the case's. */
static void wire_destroy(struct transport *t)
{
    (void)t;
}

void wire_init(struct wire *w)
{
    *w = (struct wire){
        .ops =
            {
                .listen = wire_listen,
                .stop_listening = wire_stop_listening,
                .connect = wire_connect,
                .receive_into = uncounted_receive_into,
                .pause = uncounted_pause,
                .resume = uncounted_resume,
                .send = uncounted_send,
                .close = wire_close,
                .free = wire_free,
                .destroy = wire_destroy,
            },
    };
    w->transport.ops = &w->ops;
    list_init(&w->conns);
}

void wire_done(struct wire *w)
{
    assert(list_is_empty(&w->conns));
}

/* ---- what calls the broker ---- */

static MICRO_SEEN void counted_on_data(struct wire_conn *c, const uint8_t *data, size_t size)
{
    c->ops->on_data(c->user, data, size);
    micro_keep_frame();
}

static MICRO_SEEN void counted_on_received(struct wire_conn *c)
{
    c->ops->on_received(c->user);
    micro_keep_frame();
}

static MICRO_SEEN void counted_on_released(struct stream_send *send)
{
    send->on_released(send);
    micro_keep_frame();
}

struct wire_conn *wire_dial(struct wire *w)
{
    struct wire_conn *c = calloc(1, sizeof(*c));
    assert(c != NULL);
    c->stream.transport = &w->transport;
    list_init(&c->sends);
    list_push_back(&w->conns, &c->link);
    c->user = w->listener.on_accept(w->listener.context, &c->stream, "127.0.0.1:1", &c->ops);
    assert(c->user != NULL);
    return c;
}

static void close_conn(struct wire_conn *c, enum err reason)
{
    c->is_closed = true;
    c->ops->on_closed(c->user, reason);
}

void wire_hang_up(struct wire_conn *c)
{
    assert(list_is_empty(&c->sends));
    close_conn(c, ERR_CLOSED);
}

/* As much as a receive brings goes to on_data, what the broker wants elsewhere goes there. */
static void deliver(struct wire_conn *c, const uint8_t *data, size_t size)
{
    enum { RECEIVE_SIZE = 32 << 10 };
    while (size > 0) {
        size_t part = c->into != NULL ? c->into_size : RECEIVE_SIZE;
        part = part < size ? part : size;
        if (c->into != NULL) {
            assert_cmp(part, ==, c->into_size);
            memcpy(c->into, data, part);
            c->into = NULL;
            counted_on_received(c);
        } else {
            counted_on_data(c, data, part);
        }
        data += part;
        size -= part;
    }
}

void wire_request(struct wire_conn *c, struct slice frame)
{
    c->answer_size = 0;
    deliver(c, frame.data, frame.size);
}

static void take_send(struct wire_conn *c, struct stream_send *send)
{
    for (uint32_t i = 0; i < send->iov_count; i++) {
        const struct iovec *v = &send->iov[i];
        if (c->answer_size + v->iov_len > c->answer_capacity) {
            c->answer_capacity = 2 * (c->answer_size + v->iov_len);
            c->answer = realloc(c->answer, c->answer_capacity);
            assert(c->answer != NULL);
        }
        memcpy(c->answer + c->answer_size, v->iov_base, v->iov_len);
        c->answer_size += v->iov_len;
    }
    counted_on_released(send);
}

bool wire_take(struct wire *w)
{
    bool is_any = false;
    list_for_each_safe (node, &w->conns) {
        struct wire_conn *c = container_of(node, struct wire_conn, link);
        struct list *link;
        while ((link = list_pop_front(&c->sends)) != NULL) {
            is_any = true;
            take_send(c, container_of(link, struct stream_send, link));
        }
        if (c->is_close_asked && !c->is_closed) {
            is_any = true;
            close_conn(c, ERR_CANCELLED);
        }
    }
    return is_any;
}

struct slice wire_answer(const struct wire_conn *c)
{
    assert_cmp(c->answer_size, >, PREFIX_SIZE);
    const uint8_t *p = c->answer;
    const size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    assert_cmp(size + PREFIX_SIZE, ==, c->answer_size);
    return slice_of(c->answer + PREFIX_SIZE, size);
}
