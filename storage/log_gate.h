/* The gate before reads for clients that go to the disk: a reader that lags must not slow those who
 * write and those who read what was just written (DESIGN 4.11).
 *
 *  1. Reads in flight are bounded by their bytes: what keeps a disk busy while nobody writes, a
 *     fraction of it while somebody does. One read may always be in flight, however large.
 *  2. While a round of the shared flush runs no read begins, unless one has waited for
 *     LOG_GATE_HOLD_US: writers who never rest leave readers at least that pace.
 *  3. Those a reader waits for go before those that are read ahead; each kind in order of asking.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "core/shard.h"

enum {
    LOG_GATE_SIZE_CALM = 1 << 20,
    LOG_GATE_SIZE_BUSY = 128 << 10,
    LOG_GATE_READ_SIZE = 512 << 10, /* Of one, at most, that need not be larger. */
    LOG_GATE_BUSY_US = 1000 * 1000, /* So long after a write somebody writes. */
    LOG_GATE_TELL_US = 250 * 1000,  /* So often others are told that somebody does. */
    LOG_GATE_HOLD_US = 2 * 1000,
};

struct log_gate {
    struct shard *s;
    struct list urgent; /* struct gate_wait */
    struct list others;
    uint64_t in_flight_size;
    uint32_t rounds_count; /* Of the shared flush, of any log. */
    uint64_t written_us;   /* When one began, or somebody else wrote; 0 = never. */
    uint64_t told_us;      /* When on_writing was called; 0 = never. */
    void *context;
    void (*on_writing)(void *context); /* NULL: nobody is told. */
    bool is_flusher_failed;            /* Rounds do not end any more. */
    struct task task;
    struct timer timer; /* Armed while a round holds somebody up. */
    uint64_t held_count;
};

struct gate_wait {
    struct list link; /* Private. */
    uint64_t size;
    uint64_t asked_us; /* Private. */
    /* The read may begin now; log_gate_leave when it ended. */
    void (*on_turn)(struct gate_wait *w);
};

void log_gate_init(struct log_gate *g, struct shard *s);
/* Nobody waits or reads. */
void log_gate_done(struct log_gate *g);

static inline void gate_wait_init(struct gate_wait *w, void (*on_turn)(struct gate_wait *w))
{
    *w = (struct gate_wait){.on_turn = on_turn};
    list_init(&w->link);
}
static inline bool gate_is_waiting(const struct gate_wait *w)
{
    return !list_is_empty(&w->link);
}

/* What one read should bring at most now. */
uint64_t log_gate_size(const struct log_gate *g);

/* True: the read may begin now. False: on_turn comes, from the loop. */
bool log_gate_enter(struct log_gate *g, struct gate_wait *w, uint64_t size, bool is_urgent);
/* One that waits became urgent. Harmless if it does not wait. */
void log_gate_hurry(struct log_gate *g, struct gate_wait *w);
/* Harmless if it does not wait. */
void log_gate_cancel(struct log_gate *g, struct gate_wait *w);
/* A read of size that had its turn ended. */
void log_gate_leave(struct log_gate *g, uint64_t size);

/* A log is in one more round of the flush, or in one less. */
void log_gate_round_begun(struct log_gate *g);
void log_gate_round_ended(struct log_gate *g);
/* Another shard writes to the same disk. */
void log_gate_others_write(struct log_gate *g);
void log_gate_flusher_failed(struct log_gate *g);
