/* Which partition a record goes to: by key as Kafka's Java client does, so that all clients agree.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdint.h>

#include "core/slice.h"

/* MurmurHash2 with Kafka's seed. */
uint32_t partitioner_murmur2(struct slice key);

/* The partition of a record with this key, which is not null (an empty one is a key). count > 0. */
int32_t partitioner_of_key(struct slice key, int32_t count);
