/* Counters, gauges and latency histograms of one shard, plain numbers without locks. A reader on
 * another shard asks by message and sums copies.
 *
 * A module embeds its own struct of counters and registers them once with stats_add, so that the
 * metrics page needs no knowledge of modules.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/list.h"

enum {
    HISTOGRAM_BUCKETS = 32, /* Powers of two of microseconds: bucket i counts values < 2^i. */
};

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t sum;
};

void histogram_record(struct histogram *h, uint64_t value);

enum stat_kind {
    STAT_COUNTER,   /* const uint64_t *, only grows; Prometheus name ends with _total. */
    STAT_GAUGE,     /* const uint64_t *. */
    STAT_HISTOGRAM, /* const struct histogram *, microseconds; exported in seconds. */
};

struct stat {
    struct list link;
    enum stat_kind kind;
    const char *name;   /* Prometheus name, "coreflume_..." */
    const char *labels; /* Without braces, "" for none: `topic="a",partition="0"`. Must outlive. */
    const char *help;
    const void *value;
};

struct stats {
    struct list all; /* struct stat */
};

void stats_init(struct stats *ss);
void stats_add(struct stats *ss, struct stat *st);
void stats_remove(struct stat *st);
