/* The pace of what a shard does to its disk in the background: deletes, compaction, repacking. Two
 * token buckets, operations and bytes per second; whoever wants to do something waits for its turn.
 *
 *  1. Turns are given in the order of asking, by the shard's one timer, never inside pace_ask.
 *  2. A turn is given when neither bucket is in debt, and is then taken off both: something larger
 *     than a bucket gets its turn too, and those after it wait the longer.
 *  3. While nobody waits nothing is armed; the buckets fill by looking at the clock.
 *  4. After pace_stop everybody, waiting or asking, is told ERR_CANCELLED.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"
#include "core/timer.h"

struct shard;

struct pace_limits {
    uint64_t ops_per_s; /* 0 = no limit, like all of them. */
    uint64_t bytes_per_s;
    uint32_t burst_ms; /* After a rest, as much as this time would have given is given at once. */
};

struct pace {
    struct shard *s;
    struct pace_limits limits;
    struct list waiters; /* struct pace_wait */
    struct timer timer;  /* Armed while somebody waits. */
    uint64_t filled_us;  /* When the buckets were looked at last. */
    int64_t ops;         /* What is in the buckets, in millionths; negative: in debt. */
    int64_t bytes;
    bool is_stopped;
    uint64_t turns_count;
    uint64_t waited_us; /* Summed over all turns. */
};

/* Somebody's turn to come. Embedded in its owner, who must stay until on_turn or pace_cancel. */
struct pace_wait {
    struct list link; /* Private, as what follows. */
    uint64_t ops;
    uint64_t bytes;
    uint64_t asked_us;
    /* ERR_OK, or ERR_CANCELLED after a stop. May ask again, also with w. */
    void (*on_turn)(struct pace_wait *w, enum err e);
};

void pace_init(struct pace *p, struct shard *s, const struct pace_limits *limits);
/* Nobody may wait. */
void pace_done(struct pace *p);
/* Holds for what is asked from now on and for those that wait. */
void pace_set_limits(struct pace *p, const struct pace_limits *limits);

void pace_wait_init(struct pace_wait *w, void (*on_turn)(struct pace_wait *w, enum err e));
/* w must not be waiting. */
void pace_ask(struct pace *p, struct pace_wait *w, uint64_t ops, uint64_t bytes);
/* Takes an ask back. Harmless if w does not wait. */
void pace_cancel(struct pace *p, struct pace_wait *w);
static inline bool pace_is_waiting(const struct pace_wait *w)
{
    return !list_is_empty(&w->link);
}

/* See rule 4; those that wait are told from the loop. */
void pace_stop(struct pace *p);
