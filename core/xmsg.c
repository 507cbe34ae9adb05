#include "core/xmsg.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/shard.h"
#include "core/xmsg_priv.h"

enum {
    CACHE_LINE_SIZE = 64,
    /* Room for the bursts of one turn; beyond it the outbox takes over. Smaller with many shards,
     * since there are count * count rings. */
    RING_CAPACITY_MAX = 1024,
    RING_CAPACITY_MIN = 128,
    RINGS_SLOTS_MAX = 1 << 20,
};

/* Indexes run freely and wrap; capacity is a power of two. */
struct xmsg_ring {
    /* Written by the producer. */
    _Alignas(CACHE_LINE_SIZE) _Atomic(uint32_t) tail;
    uint32_t head_seen; /* Saves the producer a look at the consumer's line. */
    uint32_t mask;
    /* Written by the consumer. */
    _Alignas(CACHE_LINE_SIZE) _Atomic(uint32_t) head;
    _Alignas(CACHE_LINE_SIZE) struct xmsg *slots[];
};

struct shard_slot {
    _Alignas(CACHE_LINE_SIZE) _Atomic(bool) is_sleeping;
    _Atomic(bool) hears_quiet; /* While it sleeps: quiet messages wake it, too. */
    _Atomic(struct shard *) shard;
};

struct shard_group {
    uint16_t count;
    uint32_t ring_capacity;
    struct xmsg_ring **rings; /* [from * count + to]; NULL on the diagonal. */
    struct shard_slot slots[];
};

struct xmsg_port {
    struct shard_group *group;
    uint16_t id;
    uint16_t turn_first;     /* Which ring comes first in this turn, so that none starves. */
    uint32_t outboxes_count; /* Messages in all outboxes. */
    /* Destinations that may need waking. */
    uint64_t sent_to[SHARDS_MAX / 64];
    uint64_t sent_quietly_to[SHARDS_MAX / 64];
    struct list outboxes[]; /* struct xmsg, per destination. */
};

static struct xmsg_ring *ring_of(const struct shard_group *g, uint16_t from, uint16_t to)
{
    return g->rings[(size_t)from * g->count + to];
}

static struct xmsg_ring *ring_new(uint32_t capacity)
{
    size_t size = sizeof(struct xmsg_ring) + capacity * sizeof(struct xmsg *);
    struct xmsg_ring *r = aligned_alloc(CACHE_LINE_SIZE, size);
    if (r != NULL) {
        atomic_init(&r->tail, 0);
        atomic_init(&r->head, 0);
        r->head_seen = 0;
        r->mask = capacity - 1;
    }
    return r;
}

/* False if the ring is full. */
static bool ring_push(struct xmsg_ring *r, struct xmsg *m)
{
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    if (tail - r->head_seen > r->mask) {
        r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
        if (tail - r->head_seen > r->mask) {
            return false;
        }
    }
    r->slots[tail & r->mask] = m;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
    return true;
}

static uint32_t ring_count(struct xmsg_ring *r)
{
    return atomic_load_explicit(&r->tail, memory_order_acquire) -
           atomic_load_explicit(&r->head, memory_order_relaxed);
}

/* The ring must not be empty. */
static struct xmsg *ring_pop(struct xmsg_ring *r)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    struct xmsg *m = r->slots[head & r->mask];
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
    return m;
}

static uint32_t ring_capacity_for(uint16_t count)
{
    uint32_t capacity = RING_CAPACITY_MAX;
    while (capacity > RING_CAPACITY_MIN && capacity * count * count > RINGS_SLOTS_MAX) {
        capacity /= 2;
    }
    return capacity;
}

enum err shard_group_new(uint16_t count, struct shard_group **ret_group)
{
    assert(count > 0);
    assert_cmp(count, <=, SHARDS_MAX);

    size_t size = sizeof(struct shard_group) + count * sizeof(struct shard_slot);
    struct shard_group *g = aligned_alloc(CACHE_LINE_SIZE, size);
    if (g == NULL) {
        return ERR_BUSY;
    }
    g->count = count;
    g->ring_capacity = ring_capacity_for(count);
    for (uint16_t i = 0; i < count; i++) {
        atomic_init(&g->slots[i].is_sleeping, false);
        atomic_init(&g->slots[i].hears_quiet, false);
        atomic_init(&g->slots[i].shard, NULL);
    }
    g->rings = calloc((size_t)count * count, sizeof(struct xmsg_ring *));
    if (g->rings == NULL) {
        goto out_free;
    }
    for (size_t i = 0; i < (size_t)count * count; i++) {
        if (i / count == i % count) {
            continue;
        }
        g->rings[i] = ring_new(g->ring_capacity);
        if (g->rings[i] == NULL) {
            goto out_free;
        }
    }
    *ret_group = g;
    return ERR_OK;

out_free:
    shard_group_free(g);
    return ERR_BUSY;
}

void shard_group_free(struct shard_group *g)
{
    if (g == NULL) {
        return;
    }
    if (g->rings != NULL) {
        for (size_t i = 0; i < (size_t)g->count * g->count; i++) {
            free(g->rings[i]);
        }
    }
    free(g->rings);
    free(g);
}

struct shard *shard_group_get(struct shard_group *g, uint16_t id)
{
    assert_cmp(id, <, g->count);
    return atomic_load_explicit(&g->slots[id].shard, memory_order_acquire);
}

uint16_t shard_group_count(const struct shard_group *g)
{
    return g->count;
}

void xmsg_publish_shard(struct shard_group *g, uint16_t id, struct shard *s)
{
    assert_cmp(id, <, g->count);
    atomic_store_explicit(&g->slots[id].shard, s, memory_order_release);
}

enum err xmsg_port_new(struct shard_group *g, uint16_t id, struct xmsg_port **ret_port)
{
    assert_cmp(id, <, g->count);
    struct xmsg_port *port = calloc(1, sizeof(*port) + g->count * sizeof(struct list));
    if (port == NULL) {
        return ERR_BUSY;
    }
    port->group = g;
    port->id = id;
    for (uint16_t i = 0; i < g->count; i++) {
        list_init(&port->outboxes[i]);
    }
    *ret_port = port;
    return ERR_OK;
}

void xmsg_port_free(struct xmsg_port *port)
{
    free(port);
}

static void send(struct shard *from, struct xmsg *m, uint64_t *sent_to)
{
    struct xmsg_port *port = from->port;
    uint16_t to = m->next_hop->shard;
    assert_cmp(to, <, port->group->count);
    if (to == port->id) {
        list_push_back(&from->inbox, &m->link);
        return;
    }
    sent_to[to / 64] |= 1ull << (to % 64);
    /* Behind what overflowed before, or the order would be lost. */
    struct list *outbox = &port->outboxes[to];
    if (list_is_empty(outbox) && ring_push(ring_of(port->group, port->id, to), m)) {
        return;
    }
    list_push_back(outbox, &m->link);
    port->outboxes_count++;
    from->counters.messages_overflowed++;
}

void xmsg_send(struct shard *from, struct xmsg *m)
{
    send(from, m, from->port->sent_to);
}

void xmsg_send_quietly(struct shard *from, struct xmsg *m)
{
    send(from, m, from->port->sent_quietly_to);
}

void xmsg_forward(struct shard *here, struct xmsg *m)
{
    m->next_hop++;
    xmsg_send(here, m);
}

static void run_message(struct shard *s, struct xmsg *m)
{
    assert(m->next_hop->shard == s->id);
    m->next_hop->run(s, m); /* May send, free or keep m. */
}

static size_t run_ring(struct shard *s, struct xmsg_ring *r, size_t budget)
{
    size_t count = ring_count(r);
    if (count > budget) {
        count = budget;
    }
    for (size_t i = 0; i < count; i++) {
        run_message(s, ring_pop(r));
    }
    return count;
}

static uint16_t next_shard(const struct shard_group *g, uint16_t id)
{
    return id + 1 == g->count ? 0 : (uint16_t)(id + 1);
}

size_t xmsg_run(struct shard *s, size_t budget)
{
    struct xmsg_port *port = s->port;
    const struct shard_group *g = port->group;
    size_t ran = 0;
    uint16_t from = port->turn_first;
    for (uint16_t i = 0; i < g->count && ran < budget; i++) {
        if (from != port->id) {
            ran += run_ring(s, ring_of(g, from, port->id), budget - ran);
        }
        from = next_shard(g, from);
    }
    port->turn_first = next_shard(g, port->turn_first);
    s->counters.messages += ran;
    return ran;
}

size_t xmsg_run_own(struct shard *s, size_t budget)
{
    size_t ran = 0;
    struct list *node;
    while (ran < budget && (node = list_pop_front(&s->inbox)) != NULL) {
        ran++;
        run_message(s, container_of(node, struct xmsg, link));
    }
    s->counters.messages += ran;
    return ran;
}

static void move_outbox(struct xmsg_port *port, uint16_t to)
{
    struct list *outbox = &port->outboxes[to];
    struct xmsg_ring *r = ring_of(port->group, port->id, to);
    while (!list_is_empty(outbox)) {
        struct xmsg *m = container_of(outbox->next, struct xmsg, link);
        /* Off the list first: once pushed, m belongs to the other shard. */
        list_remove(&m->link);
        if (!ring_push(r, m)) {
            list_push_front(outbox, &m->link);
            return;
        }
        assert(port->outboxes_count > 0);
        port->outboxes_count--;
        port->sent_to[to / 64] |= 1ull << (to % 64);
    }
}

static void wake_if_sleeping(struct shard *s, uint16_t to)
{
    struct shard_slot *slot = &s->port->group->slots[to];
    if (!atomic_exchange_explicit(&slot->is_sleeping, false, memory_order_acq_rel)) {
        return;
    }
    struct shard *other = atomic_load_explicit(&slot->shard, memory_order_acquire);
    assert(other != NULL); /* Whoever slept was published before. */
    s->counters.wakes_sent++;
    s->io.backend->ops->wake(s->io.backend, other->io.backend);
}

static void wake_if_it_hears(struct shard *s, uint16_t to)
{
    struct shard_slot *slot = &s->port->group->slots[to];
    if (atomic_exchange_explicit(&slot->hears_quiet, false, memory_order_acq_rel)) {
        wake_if_sleeping(s, to);
    }
}

void xmsg_flush(struct shard *s)
{
    struct xmsg_port *port = s->port;
    if (port->outboxes_count > 0) {
        for (uint16_t to = 0; to < port->group->count; to++) {
            if (to != port->id) {
                move_outbox(port, to);
            }
        }
    }
    for (size_t i = 0; i * 64 < port->group->count; i++) {
        uint64_t loudly_to = port->sent_to[i];
        uint64_t quietly_to = port->sent_quietly_to[i];
        if ((loudly_to | quietly_to) == 0) {
            continue;
        }
        quietly_to &= ~loudly_to;
        port->sent_to[i] = 0;
        port->sent_quietly_to[i] = 0;
        for (; loudly_to != 0; loudly_to &= loudly_to - 1) {
            wake_if_sleeping(s, (uint16_t)(i * 64 + (size_t)__builtin_ctzll(loudly_to)));
        }
        for (; quietly_to != 0; quietly_to &= quietly_to - 1) {
            wake_if_it_hears(s, (uint16_t)(i * 64 + (size_t)__builtin_ctzll(quietly_to)));
        }
    }
}

static bool has_arrived(const struct xmsg_port *port)
{
    const struct shard_group *g = port->group;
    for (uint16_t from = 0; from < g->count; from++) {
        if (from != port->id && ring_count(ring_of(g, from, port->id)) > 0) {
            return true;
        }
    }
    return false;
}

bool xmsg_has_work(const struct shard *s)
{
    return !list_is_empty(&s->inbox) || s->port->outboxes_count > 0 || has_arrived(s->port);
}

bool xmsg_begin_sleep(struct shard *s)
{
    struct shard_slot *slot = &s->port->group->slots[s->id];
    const bool hears_quiet = s->quiet_waiters_count > 0 || buf_pool_has_waiters(s->bufs);
    (void)atomic_exchange_explicit(&slot->hears_quiet, hears_quiet, memory_order_acq_rel);
    (void)atomic_exchange_explicit(&slot->is_sleeping, true, memory_order_acq_rel);
    if (has_arrived(s->port)) {
        xmsg_end_sleep(s);
        return false;
    }
    return true;
}

void xmsg_end_sleep(struct shard *s)
{
    struct shard_slot *slot = &s->port->group->slots[s->id];
    atomic_store_explicit(&slot->is_sleeping, false, memory_order_relaxed);
    atomic_store_explicit(&slot->hears_quiet, false, memory_order_relaxed);
}
