/* When each operation is due: an open loop. The times follow from the rate alone, never from what
 * the broker does; a latency begins at the time an operation was due, however late it was sent. So
 * a broker that stands still for a second shows as a second, not as one slow answer.
 *
 * The rate is even, or goes evenly from one to another. Pure: time comes in.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pacer {
    double rate_from; /* Operations per second. */
    double rate_to;
    uint64_t start_us;
    uint64_t length_us; /* Nothing is due behind it. */
    uint64_t next;      /* Operations that were taken. */
};

/* rate_from and rate_to must not be negative, and not both be 0. */
void pacer_init(struct pacer *p, double rate_from, double rate_to);
void pacer_start(struct pacer *p, uint64_t start_us, uint64_t length_us);

/* When the next operation is due; false if there is none any more. */
bool pacer_peek(const struct pacer *p, uint64_t *ret_due_us);
/* It was sent. */
void pacer_take(struct pacer *p);

/* How many operations are due before this time, since the start. */
uint64_t pacer_due_count(const struct pacer *p, uint64_t now_us);
