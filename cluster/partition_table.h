/* The partitions of one shard by id: a chained hash table with the shard's seed.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/ids.h"
#include "core/list.h"

struct partition;

struct partition_table {
    uint64_t hash_seed;
    struct list *buckets;   /* of partition_link */
    uint32_t buckets_count; /* A power of two. */
    uint32_t count;
};

void partition_table_init(struct partition_table *pt, uint64_t hash_seed);
/* Must be empty. */
void partition_table_done(struct partition_table *pt);

/* NULL if there is none. */
struct partition *partition_table_find(const struct partition_table *pt,
                                       const struct partition_id *id);
void partition_table_insert(struct partition_table *pt, struct partition *p);
void partition_table_remove(struct partition_table *pt, struct partition *p);

/* A part of the table at a time: calls on_partition for those of the next buckets, from *cursor
 * (0 at first) on, until about count were met. False at the end. What comes or goes in between may
 * be missed, or met twice. */
bool partition_table_some(struct partition_table *pt,
                          uint32_t *cursor,
                          uint32_t count,
                          void *context,
                          void (*on_partition)(void *context, struct partition *p));

/* Calls on_partition for each; it may remove that one. */
void partition_table_each(struct partition_table *pt,
                          void *context,
                          void (*on_partition)(void *context, struct partition *p));
