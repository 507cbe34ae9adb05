/* The part of a history that differs where a topic is compacted; see history.h. */
#pragma once

#include "tests/sim/history.h"

/* b is about to be sent for the first time, as bytes. */
void history_keys_add(struct history *h, struct sent_batch *b, struct slice bytes);
void history_keys_acked(struct history *h, const struct sent_batch *b, int64_t base_offset);
/* A fetch at offset gave this batch. Returns the offset behind it. */
int64_t history_keys_read(struct history *h, int64_t offset, struct slice batch);
void history_keys_begin_final(struct history *h);
void history_keys_finish(struct history *h);
