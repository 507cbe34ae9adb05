/* Latencies of one kind, as several threads bring them: of the second that runs and of the whole
 * window. A window is a time in which operations are due; only those count whose due time lies in
 * it, whenever they are over.
 *
 * Any thread, but for what is the owner's: the thread that runs the windows. A mutex, not messages:
 * the threads are those of clients, which have no shard (docs/decisions/0022).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/err.h"

#include "perf/bench/hdr.h"

struct meter {
    pthread_mutex_t lock;
    uint64_t from_us; /* The window. */
    uint64_t to_us;
    struct hdr *running; /* Since the last take. */
    uint64_t good_count; /* Of any due time, since the start. */
    uint64_t bad_count;
    uint64_t window_good_count;
    uint64_t window_bad_count;
    uint64_t window_waited_count;
    uint64_t window_last_us; /* When the last of the window's was over; 0: none was. */
    enum err err;            /* Of the first that failed. */
    char why[CLIENT_WHY_SIZE];
    /* The owner's. */
    struct hdr *taken; /* The interval before. */
    struct hdr *total; /* Of the window, up to the last take. */
};

struct meter_counts {
    uint64_t good_count;
    uint64_t bad_count;
    uint64_t window_good_count;
    uint64_t window_bad_count;
    uint64_t window_waited_count; /* Given up: they may be bad ones, too. */
    uint64_t window_last_us;
};

/* ERR_BUSY without memory; then m may be given to meter_done too. */
enum err meter_init(struct meter *m);
void meter_done(struct meter *m);

/* Operations that were due at due_us are over, well. */
void meter_record(struct meter *m, uint64_t due_us, uint64_t now_us, uint32_t count);
/* Nobody answered until now_us: they are among the latencies with what they waited, and neither
 * good nor bad by that. */
void meter_wait(struct meter *m, uint64_t due_us, uint64_t now_us, uint32_t count);
/* Of the window, but with a due time that is not known: they waited so long, at least. */
void meter_miss(struct meter *m, uint64_t waited_us, uint64_t count);
/* They failed; why is copied, of the first. */
void meter_fail(struct meter *m, uint64_t due_us, uint32_t count, enum err e, const char *why);

void meter_counts(struct meter *m, struct meter_counts *ret_counts);
/* The first failure's text; "" if there was none. Copied. */
void meter_why(struct meter *m, char ret_why[CLIENT_WHY_SIZE]);

/* ---- the owner's ---- */

/* Begins a window: all figures of the one before are gone. */
void meter_open(struct meter *m, uint64_t from_us, uint64_t to_us);
/* The window ends early: what is due from here on does not count. */
void meter_shorten(struct meter *m, uint64_t to_us);
/* What came since the last take; it is in total from then on. Valid until the next take. */
const struct hdr *meter_take(struct meter *m);
