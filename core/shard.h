/* The runtime of one core. Everything that belongs to a shard hangs off this struct and is touched
 * by no other shard; see xmsg.h for the only way across.
 *
 * One turn of the loop, in this order, each source with a budget:
 *   messages from other shards -> completions -> timers -> messages to oneself -> tasks -> submit
 *   -> flush messages
 *
 * So what a request asks of its own shard is done, and its answer home, in the turn in which the
 * request came.
 *
 * In production a thread per shard calls shard_run; the simulator calls shard_turn itself.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/io.h"
#include "core/list.h"
#include "core/logger.h"
#include "core/rand.h"
#include "core/stats.h"
#include "core/timer.h"
#include "core/xmsg.h"

struct reached;
struct shard;
struct shard_group; /* The shards of one broker and the rings between them. */

/* Something to run in the tasks phase of the next turn. Intrusive; queued at most once. */
struct task {
    struct list link;
    const char *name; /* For the stall detector. */
    void (*run)(struct task *t);
};

void task_init(struct task *t, const char *name, void (*run)(struct task *t));

/* Exported as metrics with the label shard="<id>". */
struct shard_counters {
    uint64_t turns; /* In which something ran. */
    uint64_t sleeps;
    uint64_t stalls; /* Turns longer than stall_us_max. */
    uint64_t messages;
    uint64_t messages_overflowed; /* Met a full ring and went through the outbox. */
    uint64_t wakes_sent;
};

enum {
    SHARD_STATS_COUNT = 12,
};

struct shard {
    uint16_t id;
    uint16_t shards_count;
    struct shard_group *group;

    struct io io;
    struct clock *clock;
    struct rand rand;
    uint64_t hash_seed; /* For hash tables that outsiders can fill. */
    struct timers timers;
    struct buf_pool *bufs;
    struct logger *log;
    struct stats stats;

    uint64_t now_us;  /* Read once per turn; use this, not the clock. */
    int64_t wall_ms;  /* Read once per turn. */
    bool is_stopping; /* Set by broker/ when the stop begins: no new work. */

    struct list tasks;      /* struct task, ready. */
    struct list inbox;      /* Messages to oneself. */
    struct xmsg_port *port; /* Private to shard.c / xmsg.c. */

    const char *running;   /* What runs now, for the stall detector. Callbacks may refine it. */
    uint64_t stall_us_max; /* A longer turn is logged; 0 = off. */

    struct shard_counters counters;

    /* Who waits for what quiet messages give back, beside the waiters of bufs: see xmsg.h. */
    uint32_t quiet_waiters_count;

    /* Private to shard.c. */
    bool has_loop_ended;
    bool is_submit_put_off;   /* The last turn left what it began for this one to submit. */
    uint64_t mark_us;         /* When the part of the turn that runs now began. */
    uint64_t turn_longest_us; /* Longest part of this turn, and what it was. */
    const char *turn_longest;
    uint64_t stall_logged_us; /* When a stall was logged last. */
    uint64_t gap_us_mean;     /* Smoothed time between a turn without work and the next work. */
    char stats_label[24];
    struct stat own_stats[SHARD_STATS_COUNT];

    void *broker; /* The broker's per-shard context (broker/), opaque here. */

    struct reached *reached; /* reached.h; NULL outside of the simulator, which sets it. */
};

struct shard_options {
    struct io_backend *backend; /* Owned by the caller, must outlive the shard. */
    struct clock *clock;
    struct logger *log;
    uint64_t rand_seed; /* 0 = from the kernel. */
    size_t memory_size; /* Budget of the shard's buf pool, bytes. */
    size_t memory_reserve_size;
    uint64_t stall_us_max;
};

/* Rings for count shards. */
enum err shard_group_new(uint16_t count, struct shard_group **ret_group);
/* Accepts NULL. After shard_done of all its shards. */
void shard_group_free(struct shard_group *g);
/* NULL before shard_init and after shard_done of that shard. */
struct shard *shard_group_get(struct shard_group *g, uint16_t id);
uint16_t shard_group_count(const struct shard_group *g);

/* Called in the thread that will run the shard. */
enum err
shard_init(struct shard *s, struct shard_group *g, uint16_t id, const struct shard_options *o);
/* In any thread, but only when no loop of the group turns any more: the others may wake this one.
 * Nothing may be in flight, no timer armed, no buffer held. */
void shard_done(struct shard *s);

/* Queues t for the tasks phase; harmless if queued. */
void shard_post(struct shard *s, struct task *t);

/* One turn without waiting. True if anything ran. */
bool shard_turn(struct shard *s);

/* When the shard must run next though nothing arrives: now_us if work is queued, the next timer's
 * deadline, or UINT64_MAX. The simulator asks this; shard_run sleeps by it. */
uint64_t shard_next_us(const struct shard *s);

/* Turns until shard_stop_loop was called by the shard itself. Without work it spins for as long as
 * the recent past says that the wait is worth it, then sleeps. */
void shard_run(struct shard *s);
/* The turn that runs now is the last one. */
void shard_stop_loop(struct shard *s);

static inline void shard_timer_arm(struct shard *s, struct timer *t, uint64_t timeout_us)
{
    timer_arm(&s->timers, t, s->now_us + timeout_us);
}
