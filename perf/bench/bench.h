/* A load generator for any broker that speaks Kafka's protocol, over the client library: producers,
 * consumers, or both end to end; at a rate, along a ramp, or in search of the highest rate that is
 * sustained.
 *
 * What it measures
 * 1. An open loop: when a record is due follows from the rate alone. Its latency begins there, not
 *    when it was sent, so what a slow broker keeps from being sent shows in full (pacer.h).
 * 2. A window is warm-up and duration. Records that are due in the duration count, and all of them,
 *    whenever they are answered. Those that were not sent or not answered when the patience is over
 *    are told apart, as those are that failed. In the percentiles of publishing all of them count
 *    with the time they had waited when they were given up (in a step of a search: since its end,
 *    at least); those that failed with the time that was theirs, at least. End to end the same
 *    ones count, once for each reader: what he did not get with the time since the window's end, or
 *    the patience if it was given up, at least. So do the intervals, the last one with what came of
 *    nothing.
 * 3. Achieved is what was acknowledged, by the time from the window's start until the last of them,
 *    at least the window.
 * 4. A step of a search holds if nothing failed or is missing, everything was answered within
 *    BENCH_SETTLE_US_MIN, or BENCH_SETTLE_SHARE of the step if that is more, of its end, and p99 is
 *    not above p99_us_max. A step is at least BENCH_STEP_US_MIN: so what is left at its end is 5 %.
 * 5. Of reading alone no latency is told: nobody knows when a record was due. What was read within
 *    the window counts, by the time it took.
 *
 * The calling thread sends; signals are heard through stop_fd. Nothing is printed here: report.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/client.h"
#include "core/err.h"

#include "perf/bench/hdr.h"
#include "perf/bench/search.h"
#include "perf/bench/usage.h"
#include "perf/bench/workload.h"

#define BENCH_SETTLE_SHARE 0.02

enum {
    BENCH_SETTLE_US_MIN = 200000,
    BENCH_STEP_US_MIN = 4000000,
    BENCH_INTERVAL_US = 1000000, /* Of a row. */
    BENCH_SLIP_US = 5000,        /* Sends that are later deserve a word. */
    BENCH_WARNINGS_MAX = 6,
    BENCH_WARNING_SIZE = 256,
};

enum bench_mode {
    BENCH_RATE,
    BENCH_RAMP,
    BENCH_SEARCH, /* Begins at rate. */
    BENCH_READ,   /* Nothing is written: what is there is read, or what others write. */
};

enum bench_from {
    BENCH_FROM_END,
    BENCH_FROM_START,       /* Until the end was reached, or the duration is over. */
    BENCH_FROM_START_AGAIN, /* By assignment: for the whole duration, anew at the end. */
};

struct bench_options {
    const char *brokers;
    const char *topic;
    int32_t partitions_count; /* Of the topic. */
    bool is_new_topic;        /* It has no records. */
    enum bench_mode mode;
    enum bench_from from; /* Of BENCH_READ. Groups begin where they have offsets. */
    double rate;          /* Records per second. */
    double rate_to;       /* Of a ramp. */
    uint64_t warmup_us;
    uint64_t duration_us; /* Of each step, in a search. Above 0. */
    uint64_t patience_us; /* Of a record, all attempts together; and of the wait behind it. */
    uint64_t p99_us_max;  /* Of a step that holds. 0: any. */
    size_t producers_count;
    struct client_producer_options producer;
    struct workload_options workload; /* run_id and seed are filled in here if 0. */
    bool is_replay;
    size_t replay_batch_size;
    size_t consumers_count; /* By assignment, or in each group. */
    const char *const *groups;
    size_t groups_count;
    size_t idle_count; /* Connections besides these that hardly ever say something (idle.h). */
    FILE *hlog;        /* Where intervals go, or NULL. */
    int stop_fd;       /* Readable: somebody wants it to end; -1: none. */
    bool (*take_stop)(int stop_fd); /* Whether it is so, and makes it unreadable again. */
};

/* What makes a figure doubtful. */
struct bench_warnings {
    char texts[BENCH_WARNINGS_MAX][BENCH_WARNING_SIZE];
    size_t count;
};

/* One second; the last one is what is left. Its histograms are valid during the callback. */
struct bench_interval {
    double from_s; /* Since the window's duration began. */
    double length_s;
    double offered_rate; /* Records per second, as here all rates. */
    double achieved_rate;
    double size_rate;       /* Bytes of keys and values per second, acknowledged. */
    uint64_t backlog_count; /* Records that are due and not settled, at its end. */
    uint64_t failed_count;
    double cores;
    const struct hdr *published;
    const struct hdr *delivered;
};

struct bench_window {
    double rate_from; /* What was asked for. */
    double rate_to;
    double seconds; /* Without the warm-up. */
    double offered_rate;
    double achieved_rate;
    double size_rate;
    double record_size; /* Key and value, on average. */
    uint64_t offered_count;
    uint64_t acked_count;
    uint64_t failed_count;
    uint64_t unsent_count;       /* No client had room for them. */
    uint64_t unanswered_count;   /* Sent, and neither acknowledged nor failed. */
    uint64_t missing_count;      /* Acknowledged, and not delivered to every reader. */
    double settle_s;             /* From its end until the last answer. */
    const struct hdr *published; /* Valid until the next window. */
    const struct hdr *delivered;
    const struct hdr *slip; /* From due until handed to a client, where it had room. */
    struct usage usage;
    bool was_stopped;
    bool has_held; /* Of a search. */
    char why_not[BENCH_WARNING_SIZE];
    char failure[CLIENT_WHY_SIZE]; /* Of the first record that failed; "": none. */
    struct bench_warnings warnings;
};

/* Of reading alone: a row, and the whole. */
struct bench_reading {
    double from_s; /* Since the window began. */
    double seconds;
    uint64_t records_count;
    uint64_t size;      /* Of their keys and values. */
    uint64_t lag_count; /* Between where the readers are and the ends, all together. */
    struct usage usage; /* Of a row the processor time only. */
    bool is_through;    /* The end was reached. */
    bool was_stopped;
    char failure[CLIENT_WHY_SIZE]; /* Of the first consumer that gave up; "": none. */
    struct bench_warnings warnings;
};

struct bench_callbacks {
    /* Everything stands, and the first record is about to be due. */
    void (*on_ready)(void *context);
    void (*on_interval)(const struct bench_interval *i, void *context);
    void (*on_window)(const struct bench_window *w, void *context);
    /* Of BENCH_READ, instead of the two above. */
    void (*on_row)(const struct bench_reading *row, void *context);
    void (*on_reading)(const struct bench_reading *all, void *context);
    void *context;
};

struct bench_result {
    double found_rate; /* Of a search: the highest that held. 0: none. */
    bool is_complete;  /* No rate above it, by more than SEARCH_PRECISION, holds. */
    int steps_count;
};

/* ERR_CANCELLED: stopped before there was anything to tell. On errors ret_why has a line. */
enum err bench_run(const struct bench_options *options,
                   const struct bench_callbacks *callbacks,
                   char ret_why[CLIENT_WHY_SIZE],
                   struct bench_result *ret_result);
