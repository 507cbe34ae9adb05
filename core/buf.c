/* Buddy allocator over one reserved range.
 *
 * Invariants:
 *  1. A block of order k is 4 KiB << k long and aligned to its length within the range, so its
 *     buddy's number is its own with bit k flipped.
 *  2. Each page has one byte of metadata, meaningful for the first page of a free block only: its
 *     order, with PAGE_FREE. All other pages have 0 there.
 *  3. Two free buddies never exist: the release that would make the second one merges them.
 *
 * All metadata lies outside of the range: device writes into a freed buffer can damage contents,
 * never the allocator, and pages of the range that nobody asked for are never touched.
 *
 * Memory registered with the kernel is never given back with madvise: the kernel would go on
 * writing to the old, detached pages.
 */
#include "core/buf.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/assert.h"
#include "core/io.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum {
    PAGE_SHIFT = 12,
    ORDERS_MAX = 32, /* 4 KiB << 31 = 8 TiB. */
    PAGE_FREE = 0x80,
    PAGE_ORDER_MASK = 0x7f,
    HUGE_SIZE = 2 << 20,
    POOL_SIZE_MIN = 1 << 20,
    HUGE_POOL_SIZE_MIN = 64 << 20, /* Smaller pools would grow by whole huge pages for nothing. */
    GIVE_BACK_SIZE_MIN = 1 << 20,
    DESCRIPTORS_PER_SLAB = 64,
};

static const uint32_t NO_PAGE = UINT32_MAX;

struct page_link {
    uint32_t next;
    uint32_t prev;
};

struct slab {
    struct slab *next;
    struct buf bufs[DESCRIPTORS_PER_SLAB];
};

struct buf_pool {
    uint8_t *base;
    size_t size_max;
    size_t reserve_size;
    uint32_t top_order; /* The whole range is one block of this order. */

    uint32_t free_first[ORDERS_MAX]; /* First page of the first free block, or NO_PAGE. */
    uint8_t *page_states;
    struct page_link *page_links;
    size_t metadata_size;

    struct slab *slabs;
    struct buf *descriptors_free; /* Linked through pool, which a free descriptor has no use for. */

    struct buf_pool_stats stats;
    bool is_registered;

    bool has_new_memory; /* Given back since the waiters ran last. */
    struct buf_waiter *waiting_first;
    struct buf_waiter **waiting_last;
    struct buf_waiter *ready; /* Being run now. */
    struct list reclaimers;
};

static size_t order_size(uint32_t order)
{
    return (size_t)BUF_SIZE_MIN << order;
}

static uint32_t order_for(size_t size)
{
    uint32_t order = 0;
    while (order_size(order) < size) {
        order++;
    }
    return order;
}

static void free_list_add(struct buf_pool *p, uint32_t page, uint32_t order)
{
    assert(p->page_states[page] == 0);
    p->page_states[page] = (uint8_t)(PAGE_FREE | order);
    uint32_t first = p->free_first[order];
    p->page_links[page] = (struct page_link){.next = first, .prev = NO_PAGE};
    if (first != NO_PAGE) {
        p->page_links[first].prev = page;
    }
    p->free_first[order] = page;
}

static void free_list_remove(struct buf_pool *p, uint32_t page, uint32_t order)
{
    assert(p->page_states[page] == (PAGE_FREE | order));
    p->page_states[page] = 0;
    struct page_link link = p->page_links[page];
    if (link.prev == NO_PAGE) {
        p->free_first[order] = link.next;
    } else {
        p->page_links[link.prev].next = link.next;
    }
    if (link.next != NO_PAGE) {
        p->page_links[link.next].prev = link.prev;
    }
}

/* NO_PAGE if no block is large enough. */
static uint32_t take_block(struct buf_pool *p, uint32_t order)
{
    uint32_t from = order;
    while (from <= p->top_order && p->free_first[from] == NO_PAGE) {
        from++;
    }
    if (from > p->top_order) {
        return NO_PAGE;
    }
    uint32_t page = p->free_first[from];
    free_list_remove(p, page, from);
    while (from > order) {
        from--;
        /* The lower half is kept: low addresses are reused first and stay the warm ones. */
        free_list_add(p, page + (1u << from), from);
    }
    return page;
}

static void give_block(struct buf_pool *p, uint32_t page, uint32_t order)
{
    while (order < p->top_order) {
        uint32_t buddy = page ^ (1u << order);
        if (p->page_states[buddy] != (PAGE_FREE | order)) {
            break;
        }
        free_list_remove(p, buddy, order);
        page &= ~(1u << order);
        order++;
    }
    free_list_add(p, page, order);
}

/* A mapping of size bytes aligned to align, both multiples of the page size. NULL if the address
 * range cannot be had. */
static void *map_aligned(size_t size, size_t align)
{
    uint8_t *raw = mmap(NULL,
                        size + align,
                        PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1,
                        0);
    if (raw == MAP_FAILED) {
        return NULL;
    }
    size_t head = (align - ((uintptr_t)raw & (align - 1))) & (align - 1);
    if (head > 0) {
        (void)munmap(raw, head);
    }
    if (align - head > 0) {
        (void)munmap(raw + head + size, align - head);
    }
    return raw + head;
}

static bool map_metadata(struct buf_pool *p)
{
    size_t pages_count = p->size_max >> PAGE_SHIFT;
    size_t links_size = pages_count * sizeof(struct page_link);
    p->metadata_size = links_size + pages_count;
    void *metadata = mmap(NULL,
                          p->metadata_size,
                          PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1,
                          0);
    if (metadata == MAP_FAILED) {
        return false;
    }
    p->page_links = metadata;
    p->page_states = (uint8_t *)metadata + links_size;
    return true;
}

enum err
buf_pool_new(size_t size_max, size_t reserve_size, struct io *io, struct buf_pool **ret_pool)
{
    assert(size_max >= POOL_SIZE_MIN);
    assert((size_max & (size_max - 1)) == 0);
    assert(reserve_size <= size_max / 2);

    struct buf_pool *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return ERR_BUSY;
    }
    p->size_max = size_max;
    p->reserve_size = reserve_size;
    p->top_order = order_for(size_max);
    assert_cmp(p->top_order, <, ORDERS_MAX);
    p->stats.size_max = size_max;
    p->waiting_last = &p->waiting_first;
    list_init(&p->reclaimers);
    for (uint32_t i = 0; i < ORDERS_MAX; i++) {
        p->free_first[i] = NO_PAGE;
    }

    p->base = map_aligned(size_max, HUGE_SIZE);
    if (p->base == NULL) {
        goto out_free_pool;
    }
    if (!map_metadata(p)) {
        goto out_unmap_base;
    }
    if (size_max >= HUGE_POOL_SIZE_MIN) {
        (void)madvise(
            p->base, size_max, MADV_HUGEPAGE); /* Best effort: only speed depends on it. */
    }
    free_list_add(p, 0, p->top_order);
    if (io != NULL && io->backend->ops->register_memory != NULL) {
        io->backend->ops->register_memory(io->backend, p->base, size_max);
        p->is_registered = true;
    }
    *ret_pool = p;
    return ERR_OK;

out_unmap_base:
    (void)munmap(p->base, size_max);
out_free_pool:
    free(p);
    return ERR_BUSY;
}

void buf_pool_free(struct buf_pool *p)
{
    if (p == NULL) {
        return;
    }
    assert_cmp(p->stats.used_size, ==, 0);
    assert(p->waiting_first == NULL);
    ASAN_UNPOISON_MEMORY_REGION(p->base, p->size_max);
    (void)munmap(p->base, p->size_max);
    (void)munmap(p->page_links, p->metadata_size);
    while (p->slabs != NULL) {
        struct slab *slab = p->slabs;
        p->slabs = slab->next;
        free(slab);
    }
    free(p);
}

static void descriptor_give(struct buf_pool *p, struct buf *b)
{
    b->data = NULL;
    b->pool = (struct buf_pool *)p->descriptors_free;
    p->descriptors_free = b;
}

static struct buf *descriptor_take(struct buf_pool *p)
{
    if (p->descriptors_free == NULL) {
        struct slab *slab = malloc(sizeof(*slab));
        if (slab == NULL) {
            return NULL;
        }
        slab->next = p->slabs;
        p->slabs = slab;
        for (size_t i = DESCRIPTORS_PER_SLAB; i > 0; i--) {
            descriptor_give(p, &slab->bufs[i - 1]);
        }
    }
    struct buf *b = p->descriptors_free;
    p->descriptors_free = (struct buf *)b->pool;
    return b;
}

static bool is_within_limit(const struct buf_pool *p, size_t capacity, enum buf_class class)
{
    size_t free_size = p->size_max - p->stats.used_size;
    size_t kept_size = class == BUF_CLIENT ? p->reserve_size : 0;
    return free_size >= kept_size && capacity <= free_size - kept_size;
}

struct buf *buf_alloc(struct buf_pool *p, size_t size, enum buf_class class)
{
    if (size > p->size_max) {
        p->stats.refused++;
        return NULL;
    }
    uint32_t order = order_for(size);
    size_t capacity = order_size(order);
    if (!is_within_limit(p, capacity, class)) {
        p->stats.refused++;
        return NULL;
    }
    struct buf *b = descriptor_take(p);
    if (b == NULL) {
        p->stats.refused++;
        return NULL;
    }
    uint32_t page = take_block(p, order);
    if (page == NO_PAGE) {
        descriptor_give(p, b);
        p->stats.refused++;
        return NULL;
    }
    *b = (struct buf){
        .data = p->base + ((size_t)page << PAGE_SHIFT),
        .capacity = capacity,
        .refs_count = 1,
        .class = class,
        .pool = p,
    };
    ASAN_UNPOISON_MEMORY_REGION(b->data, capacity);
    p->stats.used_size += capacity;
    if (p->stats.used_size > p->stats.used_size_peak) {
        p->stats.used_size_peak = p->stats.used_size;
    }
    return b;
}

void buf_give_back(struct buf *b)
{
    assert_cmp(b->refs_count, ==, 1);
    b->refs_count = 0;
    struct buf_pool *p = b->pool;
    assert_cmp(p->stats.used_size, >=, b->capacity);
    p->stats.used_size -= b->capacity;
    if (b->capacity >= GIVE_BACK_SIZE_MIN && !p->is_registered) {
        (void)madvise(b->data, b->capacity, MADV_DONTNEED);
    }
    ASAN_POISON_MEMORY_REGION(b->data, b->capacity);
    give_block(p, (uint32_t)((size_t)(b->data - p->base) >> PAGE_SHIFT), order_for(b->capacity));
    descriptor_give(p, b);
    p->has_new_memory = true;
}

void buf_pool_stats(const struct buf_pool *p, struct buf_pool_stats *ret_stats)
{
    *ret_stats = p->stats;
}

const struct buf_pool_stats *buf_pool_counters(const struct buf_pool *p)
{
    return &p->stats;
}

void buf_pool_wait(struct buf_pool *p, struct buf_waiter *w)
{
    if (w->is_waiting) {
        return;
    }
    const bool is_first = p->waiting_first == NULL;
    w->is_waiting = true;
    w->next = NULL;
    *p->waiting_last = w;
    p->waiting_last = &w->next;
    if (is_first) {
        list_for_each (n, &p->reclaimers) {
            struct buf_reclaimer *r = container_of(n, struct buf_reclaimer, link);
            r->on_starving(r);
        }
    }
}

/* True if w was found and taken out of the list at *first. */
static bool unlink_waiter(struct buf_waiter **first, const struct buf_waiter *w)
{
    for (struct buf_waiter **at = first; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            return true;
        }
    }
    return false;
}

void buf_pool_cancel_wait(struct buf_pool *p, struct buf_waiter *w)
{
    if (!w->is_waiting) {
        return;
    }
    bool was_found = unlink_waiter(&p->ready, w) || unlink_waiter(&p->waiting_first, w);
    assert(was_found);
    w->is_waiting = false;
    w->next = NULL;
    p->waiting_last = &p->waiting_first;
    while (*p->waiting_last != NULL) {
        p->waiting_last = &(*p->waiting_last)->next;
    }
}

bool buf_pool_has_ready_waiters(const struct buf_pool *p)
{
    return p->has_new_memory && p->waiting_first != NULL;
}

size_t buf_pool_run_waiters(struct buf_pool *p)
{
    if (!buf_pool_has_ready_waiters(p)) {
        return 0;
    }
    /* Whoever waits again while we run joins the next round. */
    p->ready = p->waiting_first;
    p->waiting_first = NULL;
    p->waiting_last = &p->waiting_first;
    p->has_new_memory = false;

    size_t ran = 0;
    while (p->ready != NULL) {
        struct buf_waiter *w = p->ready;
        p->ready = w->next;
        w->next = NULL;
        w->is_waiting = false;
        ran++;
        w->on_memory(w);
    }
    return ran;
}

void buf_pool_add_reclaimer(struct buf_pool *p, struct buf_reclaimer *r)
{
    list_push_back(&p->reclaimers, &r->link);
}

void buf_pool_remove_reclaimer(struct buf_reclaimer *r)
{
    list_remove(&r->link);
}

bool buf_pool_has_waiters(const struct buf_pool *p)
{
    return p->waiting_first != NULL;
}
