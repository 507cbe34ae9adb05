/* What retention takes: one row, one sentence of Kafka's rules. The segments of a row hold ten
 * records each. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "cluster/retention_rule.h"

enum {
    SEGMENTS_MAX = 4,
    PER_SEGMENT = 10,
    NOW = 1000000,
    UNLIMITED = -1,
};

struct row {
    const char *what;
    struct retention_limits limits;
    int64_t high_watermark;
    int64_t start_offset;
    int count;
    struct log_segment_info segments[SEGMENTS_MAX];
    int64_t start_after;
    bool takes_last;
};

static const struct row rows[] = {
    {"no limits",
     {UNLIMITED, UNLIMITED},
     30,
     0,
     3,
     {{100, .max_timestamp = 1}, {100, .max_timestamp = 2}, {100, .max_timestamp = 3}},
     0,
     false},
    {"by time: those whose largest timestamp is too old",
     {1000, UNLIMITED},
     30,
     0,
     3,
     {{100, .max_timestamp = NOW - 1002},
      {100, .max_timestamp = NOW - 1001},
      {100, .max_timestamp = NOW - 1000}},
     20,
     false},
    {"by time: only from the oldest on",
     {1000, UNLIMITED},
     30,
     0,
     3,
     {{100, .max_timestamp = NOW}, {100, .max_timestamp = 1}, {100, .max_timestamp = NOW}},
     0,
     false},
    {"by time: the last one, too",
     {1000, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = 1}, {100, .max_timestamp = 2}},
     20,
     true},
    {"by time: an empty last one is nothing to take",
     {1000, UNLIMITED},
     20,
     20,
     1,
     {{100, .next_offset = 20, .max_timestamp = 1}},
     20,
     false},
    {"by time: a timestamp in the future keeps its segment",
     {1000, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = NOW + 5000}, {100, .max_timestamp = 1}},
     0,
     false},
    {"by time: the largest number there is, is no overflow",
     {0, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = INT64_MAX}, {100, .max_timestamp = 1}},
     0,
     false},
    {"by time: no timestamp, so by when it was changed",
     {1000, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = -1, .changed_ms = NOW - 1001},
      {100, .max_timestamp = -1, .changed_ms = NOW - 999}},
     10,
     false},
    {"by time: for ever",
     {INT64_MAX, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = 0}, {100, .max_timestamp = 0}},
     0,
     false},
    {"by time: nothing is kept",
     {0, UNLIMITED},
     20,
     0,
     2,
     {{100, .max_timestamp = NOW - 1}, {100, .max_timestamp = NOW}},
     10,
     false},
    {"nothing at or above the high watermark",
     {1000, UNLIMITED},
     29,
     0,
     3,
     {{100, .max_timestamp = 1}, {100, .max_timestamp = 1}, {100, .max_timestamp = 1}},
     20,
     false},
    {"by size: what is left is at least the limit",
     {UNLIMITED, 150},
     30,
     0,
     3,
     {{100, .max_timestamp = NOW}, {100, .max_timestamp = NOW}, {100, .max_timestamp = NOW}},
     10,
     false},
    {"by size: exactly the limit",
     {UNLIMITED, 200},
     30,
     0,
     3,
     {{100, .max_timestamp = NOW}, {100, .max_timestamp = NOW}, {100, .max_timestamp = NOW}},
     10,
     false},
    {"by size: the first is too large to go",
     {UNLIMITED, 150},
     30,
     0,
     3,
     {{200, .max_timestamp = NOW}, {100, .max_timestamp = NOW}, {10, .max_timestamp = NOW}},
     0,
     false},
    {"by size: nothing is kept",
     {UNLIMITED, 0},
     20,
     0,
     2,
     {{100, .max_timestamp = NOW}, {100, .max_timestamp = NOW}},
     20,
     true},
    {"by size, then by time",
     {1000, 300},
     40,
     0,
     4,
     {{100, .max_timestamp = NOW},
      {100, .max_timestamp = 1},
      {100, .max_timestamp = NOW},
      {100, .max_timestamp = NOW}},
     20,
     false},
    {"a start inside of the first",
     {1000, UNLIMITED},
     20,
     5,
     2,
     {{100, .max_timestamp = 1}, {100, .max_timestamp = NOW}},
     10,
     false},
};

Test(retention_rule, as_kafka_has_it)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct retention_rule rule = {
            .limits = row->limits,
            .wall_ms = NOW,
            .high_watermark = row->high_watermark,
            .start_offset = row->start_offset,
        };
        for (int s = 0; s < row->count; s++) {
            rule.log_size += row->segments[s].size;
        }
        for (int s = 0; s < row->count; s++) {
            struct log_segment_info segment = row->segments[s];
            if (segment.next_offset == 0) {
                segment.next_offset = (s + 1) * PER_SEGMENT;
            }
            segment.is_last = s == row->count - 1;
            if (!retention_rule_take(&rule, &segment)) {
                break;
            }
        }
        cr_assert(eq(i64, rule.start_offset, row->start_after), "%s", row->what);
        cr_assert(eq(int, rule.takes_last, row->takes_last), "%s", row->what);
    }
}
