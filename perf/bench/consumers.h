/* The consumers of a run: each a client and a thread of its own, that waits for records. They count
 * all, and measure those of the run, from when they were due until they were in the program's
 * hands.
 *
 * They read by assignment, the partitions dealt out among them; or as members of groups, so many in
 * each. Every reader (all the consumers by assignment together, each group) gets every record.
 *
 * The thread that runs the windows, but for the consumers' own threads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "core/clock.h"
#include "core/err.h"

#include "perf/bench/meter.h"

struct consumers_options {
    const char *brokers;
    const char *topic;
    int32_t partitions_count;  /* Of the topic. */
    bool is_from_start;        /* Else from the end as it is when they are made. */
    bool is_repeated;          /* By assignment, from the start: begins anew at the end. */
    size_t count;              /* By assignment, or in each group. 0: none. */
    const char *const *groups; /* NULL: by assignment. */
    size_t groups_count;
    uint64_t run_id;
    struct meter *delivered; /* From when a record was due until it was read. */
    struct clock *clock;     /* Used by several threads: the kernel's. */
};

struct consumers_state {
    size_t ready_count;     /* Consumers that know where they read. */
    uint64_t records_count; /* Read so far, whoever wrote them. */
    uint64_t size;          /* Their keys and values. */
    uint64_t last_us;       /* When the latest came. */
    uint64_t lag_count;     /* Between where they are and the ends, as seen a moment ago. */
    bool is_at_end;         /* Every partition is read by every reader, up to its end. */
    enum err err;           /* Of the first that failed. */
    char why[CLIENT_WHY_SIZE];
};

struct consumers;

/* Makes them, and finds where those by assignment begin. On error ret_why has a line. */
enum err consumers_new(const struct consumers_options *options,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct consumers **ret_consumers);
/* They read from now on. Once; on error ret_why has a line. */
enum err consumers_start(struct consumers *c, char ret_why[CLIENT_WHY_SIZE]);
/* Ends them. Accepts NULL. */
void consumers_free(struct consumers *c);

/* All consumers, and how often each record is read. */
size_t consumers_count(const struct consumers *c);
size_t consumers_readers(const struct consumers *c);

void consumers_state(struct consumers *c, struct consumers_state *ret_state);
/* True once every partition is read by every reader: what is sent from then on arrives. */
bool consumers_are_ready(struct consumers *c);
