/* One window of a run: the pacer, the producers it drives, and what became of the records. See
 * bench.h for what counts.
 *
 * Private to perf/bench/. The thread that called bench_run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"

#include "perf/bench/bench.h"
#include "perf/bench/consumers.h"
#include "perf/bench/idle.h"
#include "perf/bench/meter.h"
#include "perf/bench/pacer.h"
#include "perf/bench/producers.h"

struct run {
    const struct bench_options *options;
    const struct bench_callbacks *callbacks;
    struct clock *clock;
    uint64_t began_us; /* What hlog counts from. */
    struct meter published;
    struct meter delivered;
    struct meter slip;
    struct producers producers;
    struct consumers *consumers;
    struct idle *idle;   /* NULL: none. */
    int stops_count;     /* How often somebody wanted it to end. */
    uint64_t stopped_us; /* The first time. */
    enum err hlog_err;

    /* Of the window. */
    struct pacer pacer;
    uint64_t from_us;
    uint64_t to_us;
    bool is_blocked;      /* No client has room. */
    uint64_t room_us;     /* Since then one has: what is late before is not our own doing. */
    uint64_t debt_count;  /* Operations of the warm-up that were never sent. */
    uint64_t interval_us; /* When the interval that runs began. */
    uint64_t told_due;    /* Operations that were due before it. */
    uint64_t told_acked;
    uint64_t told_failed;
    struct usage_sample told_usage;
    struct usage_sample before; /* At the ends of the duration; at_us 0: not taken yet. */
    struct usage_sample after;
};

/* Until the time, or earlier if somebody wants it to end. In bench.c: what runs windows may be a
 * test, with a time of its own. */
void run_wait(struct run *r, uint64_t until_us);
/* Adds what the generator's own use of the machine makes doubtful. */
void run_warn_of_usage(const struct usage *u, struct bench_warnings *w);
void run_warn_of_idle(struct run *r, struct bench_warnings *w);
/* Runs a window with its warm-up and waits for the answers. Errors are the producers'. */
enum err window_run(struct run *r, double rate_from, double rate_to, struct bench_window *ret);
