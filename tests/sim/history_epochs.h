/* Leader epochs, as clients know them from the batches that they read (history.h): they never fall
 * along the log, stay what they were, and end where OffsetForLeaderEpoch says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct history;

/* What OffsetForLeaderEpoch said of epoch wanted. */
struct epoch_end {
    int32_t wanted;
    int32_t epoch; /* The answer. */
    int64_t end_offset;
};

/* A batch, or record, at [offset, end) was read with that epoch. */
void history_epoch_read(struct history *h, int64_t offset, int64_t end, int32_t epoch);
/* Of the last one known below offset; -1 = unknown. */
int32_t history_epoch_before(const struct history *h, int64_t offset);
/* Of any that was read, or -1. */
int32_t history_epoch_draw(const struct history *h);
void history_epoch_check(const struct history *h, const struct epoch_end *told);
