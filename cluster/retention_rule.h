/* What of a log retention takes: Kafka's rules, as a pure function of the segments.
 *
 *  1. Segments go whole, oldest first, and only if everything in them is below the high watermark.
 *  2. By time: the largest timestamp of the segment is more than retention_ms ago, the last segment
 *     included (it is rolled away from). A timestamp in the future keeps its segment until then.
 *     Without any timestamp it counts when the segment was changed.
 *  3. By size: what is left is still at least retention_size.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "storage/log.h"

struct retention_limits {
    int64_t ms;   /* -1 (or any negative) = no limit. */
    int64_t size; /* bytes, likewise. */
};

struct retention_rule {
    /* Set by the caller. */
    struct retention_limits limits;
    int64_t wall_ms;
    int64_t high_watermark;
    uint64_t log_size;
    int64_t start_offset; /* In: of the log; out: where it may start. */

    bool takes_last;       /* Out: the last segment is among those that go. */
    uint64_t removed_size; /* Out. */
};

/* One more segment. False: it stays, and so do all behind it. */
bool retention_rule_take(struct retention_rule *r, const struct log_segment_info *segment);

/* The time by which a segment ages. */
int64_t retention_time_of(const struct log_segment_info *segment);
