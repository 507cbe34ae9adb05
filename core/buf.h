/* Reference-counted, page-aligned, DMA-able memory of one shard, under one budget.
 *
 * A buddy allocator over one reserved address range: sizes are powers of two from 4 KiB up to the
 * whole range. Pages that were never used cost nothing. The range is registered with the io backend
 * in chunks on first use, so that direct I/O on it needs no page pinning per op.
 *
 * Two classes share the range: BUF_CLIENT allocations fail once free memory falls to the reserve;
 * BUF_RESERVED ones (appends in flight, flushes, recovery: work that frees memory) may use it up.
 *
 * Shard: allocated, referenced and released by the owner only. Another shard may read or fill the
 * bytes while a message holds a reference for it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"

struct io;

enum {
    BUF_SIZE_MIN = 4096,
};

enum buf_class {
    BUF_CLIENT,
    BUF_RESERVED,
};

struct buf_pool;

struct buf {
    uint8_t *data;   /* Aligned to min(capacity, 2 MiB). */
    size_t capacity; /* A power of two >= the size asked for. */
    uint32_t refs_count;
    uint32_t pins_count; /* The owner's: references of those who are not to be waited for. */
    enum buf_class class;
    struct buf_pool *pool;
};

/* size_max: the shard's budget in bytes, a power of two >= 1 MiB; reserve_size <= size_max / 2.
 * io may be NULL (no registration). ERR_BUSY if the address range cannot be had. */
enum err
buf_pool_new(size_t size_max, size_t reserve_size, struct io *io, struct buf_pool **ret_pool);
/* All buffers must have been released. */
void buf_pool_free(struct buf_pool *p);

/* One reference, contents undefined. NULL at the limit: the caller answers ERR_BUSY or stops
 * reading. */
[[nodiscard]] struct buf *buf_alloc(struct buf_pool *p, size_t size, enum buf_class class);

static inline void buf_ref(struct buf *b)
{
    b->refs_count++;
}

/* Private to buf_unref. */
void buf_give_back(struct buf *b);

/* Accepts NULL. The last reference gives the memory back. */
static inline void buf_unref(struct buf *b)
{
    if (b == NULL) {
        return;
    }
    if (b->refs_count > 1) {
        b->refs_count--;
    } else {
        buf_give_back(b);
    }
}

struct buf_pool_stats {
    uint64_t size_max;
    uint64_t used_size; /* Sum of capacities handed out. */
    uint64_t used_size_peak;
    uint64_t refused; /* Allocations that met the limit. */
};
void buf_pool_stats(const struct buf_pool *p, struct buf_pool_stats *ret_stats);
/* The live numbers, for metrics; valid as long as the pool. */
const struct buf_pool_stats *buf_pool_counters(const struct buf_pool *p);

/* Somebody who met the limit and wants to be called from the loop when memory came back. Intrusive.
 */
struct buf_waiter {
    struct buf_waiter *next; /* Private. */
    void (*on_memory)(struct buf_waiter *w);
    bool is_waiting;
};

/* Queues w (if it is not) until some memory was given back; on_memory then runs once, from
 * buf_pool_run_waiters. */
void buf_pool_wait(struct buf_pool *p, struct buf_waiter *w);
void buf_pool_cancel_wait(struct buf_pool *p, struct buf_waiter *w);
/* True if buf_pool_run_waiters would run somebody. */
bool buf_pool_has_ready_waiters(const struct buf_pool *p);
/* Called by the loop once per turn. Returns how many ran. */
size_t buf_pool_run_waiters(struct buf_pool *p);

/* Somebody who keeps memory of the pool that is only good to have (a cache), and is told when
 * others begin to wait for memory: on_starving may come from any buf_pool_wait, so it gives nothing
 * back there and then, but later, from the loop, as long as buf_pool_has_waiters. Intrusive. */
struct buf_reclaimer {
    struct list link;
    void (*on_starving)(struct buf_reclaimer *r);
};
void buf_pool_add_reclaimer(struct buf_pool *p, struct buf_reclaimer *r);
void buf_pool_remove_reclaimer(struct buf_reclaimer *r);
bool buf_pool_has_waiters(const struct buf_pool *p);
