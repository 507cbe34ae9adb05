/* Retention of one shard: looks at its partitions from time to time and has them propose where
 * their logs may start. One timer per shard, a few partitions per turn of the loop, nothing per
 * partition.
 *
 * A topic whose size is capped as a whole is added up by the shard of its partition 0: a message
 * goes round all shards and comes home with the sum and the oldest segment; if the rest is still at
 * least the cap, that segment's shard is told to let it go, and the next round begins. One such
 * message per shard is under way at a time.
 *
 *   RESTING -> CHECKING -> CAPPING <-> WAIT_TALLY -> RESTING
 *                             ^            |
 *                             |            v
 *                             +------- WAIT_DROP
 *
 * Shard: the owner's; the message travels.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/shard.h"

struct cluster;
struct retention;

/* The first check comes after a while. */
struct retention *retention_new(struct cluster *c);
/* No new work; what is under way comes home. */
void retention_stop(struct retention *t);
/* The message is not at home. */
bool retention_is_busy(const struct retention *t);
/* Not busy. Accepts NULL. */
void retention_free(struct retention *t);
