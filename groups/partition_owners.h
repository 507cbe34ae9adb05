/* Who holds a partition: a hash table from partitions to holders. A partition has one holder; who
 * is put later takes its place.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "groups/partition_set.h"

struct partition_owner {
    struct uuid topic_id;
    int32_t partition;
    const void *holder; /* NULL = the slot is free. */
};

struct partition_owners {
    uint64_t hash_seed;
    struct partition_owner *slots; /* A power of two, or none. */
    uint32_t slots_count;
    uint32_t count;
};

void partition_owners_init(struct partition_owners *o, uint64_t hash_seed);
void partition_owners_done(struct partition_owners *o);

/* NULL = nobody. */
const void *partition_owners_find(const struct partition_owners *o,
                                  const struct uuid *topic_id,
                                  int32_t partition);
/* The holder gets all of the set. ERR_BUSY without memory, with nothing changed. */
enum err partition_owners_put(struct partition_owners *o,
                              const struct partition_set *set,
                              const void *holder);
/* Those of the set that the holder has. */
void partition_owners_remove(struct partition_owners *o,
                             const struct partition_set *set,
                             const void *holder);

static inline size_t partition_owners_size(const struct partition_owners *o)
{
    return o->slots_count * sizeof(o->slots[0]);
}
