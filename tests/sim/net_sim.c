#include "tests/sim/net_sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    DELAY_US_MAX = 2000,
    PIECE_SIZE_MAX = 64 << 10, /* As a kernel's receive buffer: on_data gets no more at once. */
};

/* Bytes on their way. */
struct chunk {
    struct list link;
    uint64_t due_us;
    size_t size;
    size_t pos; /* Delivered. */
    uint8_t data[];
};

struct net_link {
    struct stream stream; /* First: what the server holds. */
    struct list link;     /* net_sim.links */
    struct net_sim *net;
    uint16_t shard;
    uint64_t number;

    /* Server's end. */
    void *user;
    const struct stream_user_ops *ops;
    bool is_accepted;
    bool is_paused;
    bool is_server_closing;
    bool is_server_told; /* on_closed was called. */
    bool is_eof_told;    /* on_eof was. */
    bool is_server_done; /* Freed, or never was. */
    uint8_t *into;
    size_t into_left;
    struct list sends; /* struct stream_send */
    uint64_t send_us;  /* When the first of them is taken. */

    /* Client's end. */
    void *client; /* NULL once it is gone. */
    const struct net_client_ops *client_ops;
    bool is_client_told; /* That it is connected. */

    uint64_t accept_us;
    uint64_t break_us;      /* UINT64_MAX = it holds. */
    uint64_t client_end_us; /* When the server learns that the client closed. */
    struct list up;         /* struct chunk, to the server */
    struct list down;       /* to the client */
};

static uint64_t draw_delay_us(struct net_sim *net)
{
    return sim_log_between(net->sim, 5, DELAY_US_MAX);
}

static void chunks_free(struct list *chunks)
{
    struct list *link;
    while ((link = list_pop_front(chunks)) != NULL) {
        free(container_of(link, struct chunk, link));
    }
}

static struct chunk *first_chunk(const struct list *chunks)
{
    return list_is_empty(chunks) ? NULL : container_of(chunks->next, struct chunk, link);
}

/* Behind what is already on its way. */
static struct chunk *chunk_add(struct net_link *l, struct list *chunks, size_t size)
{
    struct chunk *c = malloc(sizeof(*c) + size);
    assert(c != NULL);
    uint64_t due_us = l->net->sim->clock.now_us + draw_delay_us(l->net);
    if (!list_is_empty(chunks)) {
        uint64_t last_us = container_of(chunks->prev, struct chunk, link)->due_us;
        due_us = due_us > last_us ? due_us : last_us;
    }
    *c = (struct chunk){.due_us = due_us, .size = size};
    list_push_back(chunks, &c->link);
    return c;
}

/* A part of what is there; the rest comes a moment later, as segments do. */
static size_t draw_piece(struct net_link *l, struct chunk *c)
{
    struct sim *sim = l->net->sim;
    size_t left = c->size - c->pos;
    size_t size = left < PIECE_SIZE_MAX ? left : PIECE_SIZE_MAX;
    if (rand_one_in(&sim->rand, 4)) {
        size = (size_t)sim_log_between(sim, 1, size);
    }
    if (size < left) {
        c->due_us = sim->clock.now_us + sim_between(sim, 0, 20);
    }
    return size;
}

static void chunk_take(struct chunk *c, size_t size)
{
    c->pos += size;
    if (c->pos == c->size) {
        list_remove(&c->link);
        free(c);
    }
}

static void link_free(struct net_link *l)
{
    list_remove(&l->link);
    chunks_free(&l->up);
    chunks_free(&l->down);
    free(l);
}

static void free_if_done(struct net_link *l)
{
    if (l->is_server_done && l->client == NULL) {
        link_free(l);
    }
}

/* ---- the server's end: called by the product ---- */

static struct net_link *link_of(struct stream *st)
{
    return container_of(st, struct net_link, stream);
}

static void poke(struct net_link *l)
{
    struct net_sim_transport *t = &l->net->transports[l->shard];
    shard_post(t->s, &t->task);
}

static enum err server_listen(struct transport *transport,
                              const struct listen_options *o,
                              uint16_t *ret_port,
                              char why[NET_WHY_SIZE])
{
    (void)why;
    struct net_sim_transport *t = container_of(transport, struct net_sim_transport, transport);
    assert(!t->is_listening);
    t->listener = *o;
    t->is_listening = true;
    *ret_port = o->address.port != 0 ? o->address.port : 9092;
    return ERR_OK;
}

static void server_stop_listening(struct transport *transport, const void *context)
{
    struct net_sim_transport *t = container_of(transport, struct net_sim_transport, transport);
    if (context == NULL || context == t->listener.context) {
        t->is_listening = false;
    }
}

static enum err server_connect(struct transport *transport,
                               const struct connect_options *o,
                               struct stream **ret_stream)
{
    (void)transport;
    (void)o;
    (void)ret_stream;
    return ERR_UNSUPPORTED; /* A single broker connects to nobody. */
}

static void server_receive_into(struct stream *st, void *dst, size_t size)
{
    struct net_link *l = link_of(st);
    assert(l->into_left == 0);
    assert(size > 0);
    assert(!l->is_server_told);
    l->into = dst;
    l->into_left = size;
}

static void server_pause(struct stream *st)
{
    link_of(st)->is_paused = true;
}

static void server_resume(struct stream *st)
{
    struct net_link *l = link_of(st);
    l->is_paused = false;
    poke(l);
}

static void server_send(struct stream *st, struct stream_send *send)
{
    struct net_link *l = link_of(st);
    assert(!l->is_server_done);
    if (list_is_empty(&l->sends)) {
        l->send_us = l->net->sim->clock.now_us + sim_between(l->net->sim, 0, 50);
    }
    list_push_back(&l->sends, &send->link);
    poke(l);
}

static void server_close(struct stream *st)
{
    struct net_link *l = link_of(st);
    l->is_server_closing = true;
    poke(l);
}

static void server_free(struct stream *st)
{
    struct net_link *l = link_of(st);
    assert(l->is_server_told);
    assert(list_is_empty(&l->sends));
    assert(!l->is_server_done);
    l->is_server_done = true;
    l->user = NULL;
}

static void server_destroy(struct transport *transport)
{
    struct net_sim_transport *t = container_of(transport, struct net_sim_transport, transport);
    t->is_listening = false;
}

static const struct transport_ops server_ops = {
    .listen = server_listen,
    .stop_listening = server_stop_listening,
    .connect = server_connect,
    .receive_into = server_receive_into,
    .pause = server_pause,
    .resume = server_resume,
    .send = server_send,
    .close = server_close,
    .free = server_free,
    .destroy = server_destroy,
};

/* ---- the server's end: callbacks, from the shard's loop ---- */

static void release_sends(struct net_link *l)
{
    struct list *link;
    while ((link = list_pop_front(&l->sends)) != NULL) {
        struct stream_send *send = container_of(link, struct stream_send, link);
        send->on_released(send); /* May free l's server side at the last one. */
    }
}

static void tell_closed(struct net_link *l, enum err reason)
{
    /* Either order is allowed: memory may come back before or after the news. */
    if (rand_one_in(&l->net->sim->rand, 2)) {
        release_sends(l);
    }
    l->is_server_told = true;
    l->into_left = 0;
    l->ops->on_closed(l->user, reason);
}

/* The client closed, which the server cannot tell from one that only sends no more: it is told so
 * by the reset that its next answer meets. */
static void tell_eof(struct net_link *l)
{
    l->is_eof_told = true;
    l->into_left = 0;
    l->ops->on_eof(l->user);
}

static bool is_answer_reset(const struct net_link *l)
{
    return l->client == NULL && !list_is_empty(&l->sends) &&
           l->send_us <= l->net->sim->clock.now_us;
}

static void accept_link(struct net_link *l)
{
    struct net_sim_transport *t = &l->net->transports[l->shard];
    char peer[NET_PEER_SIZE];
    (void)snprintf(peer, sizeof(peer), "10.0.0.1:%" PRIu64, 10000 + l->number);
    l->is_accepted = true;
    if (t->is_listening) {
        l->user = t->listener.on_accept(t->listener.context, &l->stream, peer, &l->ops);
    }
    if (l->user == NULL) {
        l->is_server_told = true;
        l->is_server_done = true;
        l->break_us = l->net->sim->clock.now_us; /* The client finds out. */
    }
}

static void deliver_up(struct net_link *l, struct chunk *c)
{
    size_t size = draw_piece(l, c);
    if (l->into_left > 0) {
        size = size < l->into_left ? size : l->into_left;
        memcpy(l->into, c->data + c->pos, size);
        l->into += size;
        l->into_left -= size;
        bool is_complete = l->into_left == 0;
        chunk_take(c, size);
        if (is_complete) {
            l->ops->on_received(l->user);
        }
        return;
    }
    /* A copy that is gone afterwards: whoever keeps a pointer into it is found out. */
    uint8_t *copy = malloc(size);
    assert(copy != NULL);
    memcpy(copy, c->data + c->pos, size);
    chunk_take(c, size);
    l->ops->on_data(l->user, copy, size);
    free(copy);
}

static void take_send(struct net_link *l)
{
    struct sim *sim = l->net->sim;
    struct stream_send *send = container_of(l->sends.next, struct stream_send, link);
    size_t size = 0;
    for (uint32_t i = 0; i < send->iov_count; i++) {
        size += send->iov[i].iov_len;
    }
    struct chunk *c = chunk_add(l, &l->down, size);
    size_t pos = 0;
    for (uint32_t i = 0; i < send->iov_count; i++) {
        memcpy(c->data + pos, send->iov[i].iov_base, send->iov[i].iov_len);
        pos += send->iov[i].iov_len;
    }
    list_remove(&send->link);
    l->send_us = sim->clock.now_us + sim_between(sim, 0, 50);
    send->on_released(send);
}

/* One event of the server's end, if one is due. */
static bool server_event(struct net_link *l)
{
    uint64_t now_us = l->net->sim->clock.now_us;
    if (!l->is_accepted) {
        if (l->accept_us <= now_us) {
            accept_link(l);
            return true;
        }
        return false;
    }
    if (l->is_server_told) {
        bool has_sends = !list_is_empty(&l->sends);
        release_sends(l);
        return has_sends;
    }
    struct chunk *c = first_chunk(&l->up);
    if (l->is_server_closing) {
        tell_closed(l, ERR_CANCELLED);
        return true;
    }
    if (l->break_us <= now_us) {
        tell_closed(l, rand_one_in(&l->net->sim->rand, 2) ? ERR_CLOSED : ERR_IO);
        return true;
    }
    if (l->client_end_us <= now_us && is_answer_reset(l)) {
        tell_closed(l, ERR_CLOSED);
        return true;
    }
    if (!list_is_empty(&l->sends) && l->send_us <= now_us) {
        take_send(l);
        return true;
    }
    if (c != NULL && !l->is_paused && c->due_us <= now_us) {
        deliver_up(l, c);
        return true;
    }
    if (c == NULL && !l->is_paused && !l->is_eof_told && l->client_end_us <= now_us) {
        tell_eof(l);
        return true;
    }
    return false;
}

static void on_task(struct task *task)
{
    struct net_sim_transport *t = container_of(task, struct net_sim_transport, task);
    list_for_each_safe (node, &t->net->links) {
        struct net_link *l = container_of(node, struct net_link, link);
        if (l->shard == (uint16_t)(t - t->net->transports) && server_event(l)) {
            shard_post(t->s, &t->task); /* There may be more. */
        }
    }
}

/* ---- the client's end ---- */

static void client_gone(struct net_link *l)
{
    void *client = l->client;
    l->client = NULL;
    if (client != NULL) {
        l->client_ops->on_gone(client);
    }
}

/* One event of the client's end, if one is due. */
static bool client_event(struct net_link *l)
{
    uint64_t now_us = l->net->sim->clock.now_us;
    if (l->client == NULL) {
        return false;
    }
    if (l->break_us <= now_us) {
        client_gone(l);
        return true;
    }
    if (l->is_accepted && !l->is_client_told) {
        l->is_client_told = true;
        l->client_ops->on_connected(l->client);
        return true;
    }
    struct chunk *c = first_chunk(&l->down);
    if (c != NULL && c->due_us <= now_us) {
        size_t size = draw_piece(l, c);
        uint8_t *copy = malloc(size);
        assert(copy != NULL);
        memcpy(copy, c->data + c->pos, size);
        chunk_take(c, size);
        l->client_ops->on_bytes(l->client, copy, size);
        free(copy);
        return true;
    }
    if (c == NULL && l->is_server_told) {
        client_gone(l);
        return true;
    }
    return false;
}

/* When the link next has something to do, at either end. */
static uint64_t link_next_us(const struct net_link *l)
{
    uint64_t next_us = UINT64_MAX;
    const uint64_t now_us = l->net->sim->clock.now_us;
    if (!l->is_accepted) {
        return l->accept_us;
    }
    const struct chunk *up = first_chunk(&l->up);
    const struct chunk *down = first_chunk(&l->down);
    if (l->is_server_told && !list_is_empty(&l->sends)) {
        return now_us;
    }
    if (!l->is_server_told) {
        if (l->is_server_closing) {
            return now_us;
        }
        next_us = up == NULL && !l->is_paused && !l->is_eof_told ? l->client_end_us : next_us;
        if (up != NULL && !l->is_paused && up->due_us < next_us) {
            next_us = up->due_us;
        }
        if (!list_is_empty(&l->sends) && l->send_us < next_us) {
            next_us = l->send_us;
        }
        next_us = l->break_us < next_us ? l->break_us : next_us;
    }
    if (l->client != NULL) {
        if (!l->is_client_told || (down == NULL && l->is_server_told)) {
            return now_us;
        }
        if (down != NULL && down->due_us < next_us) {
            next_us = down->due_us;
        }
        next_us = l->break_us < next_us ? l->break_us : next_us;
    }
    return next_us;
}

static uint64_t net_next_us(struct machine_source *source)
{
    struct net_sim *net = container_of(source, struct net_sim, source);
    uint64_t next_us = UINT64_MAX;
    list_for_each (node, &net->links) {
        uint64_t us = link_next_us(container_of(node, struct net_link, link));
        next_us = us < next_us ? us : next_us;
    }
    return next_us;
}

static void net_run(struct machine_source *source)
{
    struct net_sim *net = container_of(source, struct net_sim, source);
    list_for_each_safe (node, &net->links) {
        struct net_link *l = container_of(node, struct net_link, link);
        if (link_next_us(l) > net->sim->clock.now_us) {
            continue;
        }
        (void)client_event(l);
        if (!l->is_server_done) {
            poke(l);
        }
        free_if_done(l);
    }
}

void net_client_send(struct net_link *l, const void *data, size_t size)
{
    assert(l->client != NULL);
    struct chunk *c = chunk_add(l, &l->up, size);
    memcpy(c->data, data, size);
    struct sim *sim = l->net->sim;
    uint32_t one_in = sim->swarm.cut_connection_one_in;
    if (one_in != 0 && !l->net->is_steady && l->break_us == UINT64_MAX &&
        rand_one_in(&sim->rand, one_in)) {
        l->break_us = sim->clock.now_us + sim_log_between(sim, 0, 20000);
    }
}

void net_client_close(struct net_link *l)
{
    l->client = NULL;
    uint64_t last_us = l->net->sim->clock.now_us;
    if (!list_is_empty(&l->up)) {
        last_us = container_of(l->up.prev, struct chunk, link)->due_us;
    }
    l->client_end_us = last_us;
    if (!l->is_server_done) {
        poke(l);
    }
}

struct net_link *net_dial(struct net_sim *net, void *client, const struct net_client_ops *ops)
{
    uint16_t shards[SIM_SHARDS_MAX];
    uint16_t count = 0;
    for (uint16_t i = 0; i < net->machine->shards_count; i++) {
        if (net->transports[i].is_listening) {
            shards[count++] = i;
        }
    }
    if (count == 0) {
        return NULL;
    }
    struct net_link *l = calloc(1, sizeof(*l));
    assert(l != NULL);
    l->net = net;
    l->shard = shards[rand_below(&net->sim->rand, count)];
    l->stream.transport = &net->transports[l->shard].transport;
    l->number = net->links_made++;
    l->client = client;
    l->client_ops = ops;
    l->accept_us = net->sim->clock.now_us + draw_delay_us(net);
    l->break_us = UINT64_MAX;
    l->client_end_us = UINT64_MAX;
    list_init(&l->sends);
    list_init(&l->up);
    list_init(&l->down);
    list_push_back(&net->links, &l->link);
    return l;
}

/* ---- life ---- */

void net_sim_start(struct net_sim *net, struct machine *m)
{
    *net = (struct net_sim){.sim = m->sim, .machine = m};
    list_init(&net->links);
    for (uint16_t i = 0; i < m->shards_count; i++) {
        struct net_sim_transport *t = &net->transports[i];
        t->transport.ops = &server_ops;
        t->net = net;
        t->s = &m->shards[i];
        task_init(&t->task, "net_sim", on_task);
    }
    net->source = (struct machine_source){.next_us = net_next_us, .run = net_run};
    machine_add_source(m, &net->source);
}

struct transport *net_sim_transport(struct net_sim *net, uint16_t shard)
{
    return &net->transports[shard].transport;
}

static void end_links(struct net_sim *net, bool is_crash)
{
    while (!list_is_empty(&net->links)) {
        struct net_link *l = container_of(net->links.next, struct net_link, link);
        sim_check(net->sim,
                  is_crash || l->is_server_done || !l->is_accepted,
                  "a stream was never freed: link=%" PRIu64,
                  l->number);
        client_gone(l);
        link_free(l);
    }
}

void net_sim_stop(struct net_sim *net)
{
    end_links(net, false);
}

void net_sim_crash(struct net_sim *net)
{
    end_links(net, true);
}
