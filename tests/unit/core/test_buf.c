/* The buddy allocator against a model that knows which pages are taken; budgets; waiters. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <string.h>

#include "core/buf.h"
#include "core/list.h"
#include "core/rand.h"

enum {
    POOL_SIZE = 4 << 20,
    PAGES_COUNT = POOL_SIZE / BUF_SIZE_MIN,
    HELD_MAX = 300,
};

struct model {
    uint8_t *base;
    bool is_taken[PAGES_COUNT];
    struct buf *held[HELD_MAX];
    uint8_t marks[HELD_MAX];
    size_t held_count;
    size_t used_size;
};

static struct buf_pool *new_pool(size_t reserve_size)
{
    struct buf_pool *p = NULL;
    cr_assert(eq(int, buf_pool_new(POOL_SIZE, reserve_size, NULL, &p), ERR_OK));
    return p;
}

static void model_set(struct model *m, const struct buf *b, bool is_taken)
{
    size_t first = (size_t)(b->data - m->base) / BUF_SIZE_MIN;
    for (size_t i = 0; i < b->capacity / BUF_SIZE_MIN; i++) {
        cr_assert(ne(int, m->is_taken[first + i], is_taken));
        m->is_taken[first + i] = is_taken;
    }
    m->used_size = is_taken ? m->used_size + b->capacity : m->used_size - b->capacity;
}

/* True if an aligned run of free pages of that size exists: then the allocator must find one. */
static bool model_has_room(const struct model *m, size_t capacity)
{
    size_t run = capacity / BUF_SIZE_MIN;
    for (size_t first = 0; first + run <= PAGES_COUNT; first += run) {
        size_t i = 0;
        while (i < run && !m->is_taken[first + i]) {
            i++;
        }
        if (i == run) {
            return true;
        }
    }
    return false;
}

static void take(struct buf_pool *p, struct model *m, struct rand *r)
{
    size_t size = 1 + rand_below(r, (size_t)BUF_SIZE_MIN << rand_below(r, 10));
    size_t capacity = BUF_SIZE_MIN;
    while (capacity < size) {
        capacity *= 2;
    }
    struct buf *b = buf_alloc(p, size, BUF_RESERVED);
    cr_assert(eq(int, b != NULL, model_has_room(m, capacity)));
    if (b == NULL) {
        return;
    }
    cr_assert(eq(sz, b->capacity, capacity));
    cr_assert(eq(sz, (uintptr_t)b->data % (capacity < 2 << 20 ? capacity : 2 << 20), 0));
    model_set(m, b, true);
    m->marks[m->held_count] = (uint8_t)rand_u64(r);
    memset(b->data, m->marks[m->held_count], b->capacity);
    m->held[m->held_count++] = b;
}

static void give(struct model *m, size_t i)
{
    struct buf *b = m->held[i];
    cr_assert(eq(u8, b->data[0], m->marks[i]));
    cr_assert(eq(u8, b->data[b->capacity - 1], m->marks[i]));
    model_set(m, b, false);
    buf_unref(b);
    m->held_count--;
    m->held[i] = m->held[m->held_count];
    m->marks[i] = m->marks[m->held_count];
}

Test(buf, agrees_with_the_model)
{
    static struct model m;
    struct rand r;
    rand_init_seed(&r, 21);
    struct buf_pool *p = new_pool(0);
    struct buf *all = buf_alloc(p, POOL_SIZE, BUF_CLIENT);
    m.base = all->data;
    buf_unref(all);
    for (int step = 0; step < 20000; step++) {
        bool is_filling = (step / 1000) % 2 == 0;
        if (m.held_count < HELD_MAX && !rand_one_in(&r, is_filling ? 3 : 2)) {
            take(p, &m, &r);
        } else if (m.held_count > 0) {
            give(&m, rand_below(&r, m.held_count));
        }
        struct buf_pool_stats stats;
        buf_pool_stats(p, &stats);
        cr_assert(eq(u64, stats.used_size, m.used_size));
    }
    while (m.held_count > 0) {
        give(&m, m.held_count - 1);
    }
    all = buf_alloc(p, POOL_SIZE, BUF_CLIENT);
    cr_assert(ne(ptr, all, NULL), "everything merged again");
    buf_unref(all);
    buf_pool_free(p);
}

Test(buf, clients_leave_the_reserve_alone)
{
    struct buf_pool *p = new_pool(POOL_SIZE / 2);
    struct buf *clients[2];
    cr_assert(eq(ptr, buf_alloc(p, POOL_SIZE, BUF_CLIENT), NULL));
    for (size_t i = 0; i < 2; i++) {
        clients[i] = buf_alloc(p, POOL_SIZE / 4, BUF_CLIENT);
        cr_assert(ne(ptr, clients[i], NULL));
    }
    cr_assert(eq(ptr, buf_alloc(p, 1, BUF_CLIENT), NULL));
    struct buf *reserved = buf_alloc(p, POOL_SIZE / 2, BUF_RESERVED);
    cr_assert(ne(ptr, reserved, NULL));
    cr_assert(eq(ptr, buf_alloc(p, 1, BUF_RESERVED), NULL));
    cr_assert(eq(ptr, buf_alloc(p, (size_t)POOL_SIZE * 2, BUF_RESERVED), NULL));

    /* Reserved work in progress counts against clients, not the other way round. */
    buf_unref(clients[0]);
    cr_assert(eq(ptr, buf_alloc(p, 1, BUF_CLIENT), NULL));
    struct buf_pool_stats stats;
    buf_pool_stats(p, &stats);
    cr_assert(eq(u64, stats.refused, 5));
    cr_assert(eq(u64, stats.used_size_peak, POOL_SIZE));
    buf_unref(clients[1]);
    buf_unref(reserved);
    buf_pool_free(p);
}

Test(buf, references_keep_it_alive)
{
    struct buf_pool *p = new_pool(0);
    struct buf *b = buf_alloc(p, 1, BUF_CLIENT);
    buf_ref(b);
    buf_unref(b);
    b->data[0] = 1;
    struct buf_pool_stats stats;
    buf_pool_stats(p, &stats);
    cr_assert(eq(u64, stats.used_size, BUF_SIZE_MIN));
    buf_unref(b);
    buf_unref(NULL);
    buf_pool_stats(p, &stats);
    cr_assert(eq(u64, stats.used_size, 0));
    buf_pool_free(p);
}

Test(buf, a_pool_in_use_is_not_freed, .signal = SIGABRT)
{
    struct buf_pool *p = new_pool(0);
    (void)!buf_alloc(p, 1, BUF_CLIENT);
    buf_pool_free(p);
}

struct waiter {
    struct buf_waiter waiter;
    struct buf_pool *pool;
    struct waiter *cancels; /* Taken out when this one runs. */
    int runs_count;
    int order;
    int *order_next;
    bool waits_again;
};

static void on_memory(struct buf_waiter *w)
{
    struct waiter *me = container_of(w, struct waiter, waiter);
    cr_assert(not(w->is_waiting));
    me->runs_count++;
    me->order = (*me->order_next)++;
    if (me->cancels != NULL) {
        buf_pool_cancel_wait(me->pool, &me->cancels->waiter);
    }
    if (me->waits_again) {
        buf_pool_wait(me->pool, w);
    }
}

Test(buf, waiters_run_once_in_order_when_memory_came_back)
{
    struct buf_pool *p = new_pool(0);
    int order_next = 0;
    struct waiter ws[4];
    for (size_t i = 0; i < 4; i++) {
        ws[i] = (struct waiter){
            .waiter = {.on_memory = on_memory}, .pool = p, .order_next = &order_next};
        buf_pool_wait(p, &ws[i].waiter);
        buf_pool_wait(p, &ws[i].waiter); /* Harmless. */
    }
    ws[0].waits_again = true;
    ws[1].cancels = &ws[2];
    cr_assert(eq(sz, buf_pool_run_waiters(p), 0), "no memory came back yet");

    buf_unref(buf_alloc(p, 1, BUF_CLIENT));
    cr_assert(buf_pool_has_ready_waiters(p));
    cr_assert(eq(sz, buf_pool_run_waiters(p), 3));
    cr_assert(eq(int, ws[0].order, 0));
    cr_assert(eq(int, ws[1].order, 1));
    cr_assert(eq(int, ws[3].order, 2));
    cr_assert(eq(int, ws[2].runs_count, 0));
    cr_assert(eq(sz, buf_pool_run_waiters(p), 0), "who waits again waits for new memory");

    ws[0].waits_again = false;
    buf_pool_wait(p, &ws[3].waiter);
    buf_pool_cancel_wait(p, &ws[3].waiter);
    buf_pool_cancel_wait(p, &ws[3].waiter); /* Harmless. */
    buf_pool_wait(p, &ws[2].waiter);
    buf_unref(buf_alloc(p, 1, BUF_CLIENT));
    cr_assert(eq(sz, buf_pool_run_waiters(p), 2));
    cr_assert(eq(int, ws[0].runs_count, 2));
    cr_assert(eq(int, ws[2].runs_count, 1));
    buf_pool_free(p);
}

struct hoard {
    struct buf_reclaimer reclaimer;
    int told_count;
};

static void on_starving(struct buf_reclaimer *r)
{
    container_of(r, struct hoard, reclaimer)->told_count++;
}

/* A cache is told when a first one begins to wait, not for each that joins, and not once removed.
 */
Test(buf, caches_are_told_when_somebody_begins_to_wait)
{
    struct buf_pool *p = new_pool(0);
    struct hoard hoard = {.reclaimer = {.on_starving = on_starving}};
    buf_pool_add_reclaimer(p, &hoard.reclaimer);
    int order_next = 0;
    struct waiter ws[2];
    for (size_t i = 0; i < 2; i++) {
        ws[i] = (struct waiter){
            .waiter = {.on_memory = on_memory}, .pool = p, .order_next = &order_next};
    }
    cr_assert(not(buf_pool_has_waiters(p)));
    buf_pool_wait(p, &ws[0].waiter);
    buf_pool_wait(p, &ws[1].waiter);
    cr_assert(buf_pool_has_waiters(p));
    cr_assert(eq(int, hoard.told_count, 1));

    buf_unref(buf_alloc(p, 1, BUF_CLIENT));
    cr_assert(eq(sz, buf_pool_run_waiters(p), 2));
    cr_assert(not(buf_pool_has_waiters(p)));
    buf_pool_wait(p, &ws[0].waiter);
    cr_assert(eq(int, hoard.told_count, 2));
    buf_pool_cancel_wait(p, &ws[0].waiter);

    buf_pool_remove_reclaimer(&hoard.reclaimer);
    buf_pool_wait(p, &ws[0].waiter);
    cr_assert(eq(int, hoard.told_count, 2));
    buf_pool_cancel_wait(p, &ws[0].waiter);
    buf_pool_free(p);
}
