/* Things by the hash of a name: an intrusive table that grows. Who looks for one walks its bucket
 * and compares hash and name.
 *
 *   list_for_each (link, name_table_bucket(t, hash)) { ... name_link_at(link) ... }
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"
#include "core/list.h"

struct name_link {
    struct list link;
    uint64_t hash;
};

/* Zeroed = empty. */
struct name_table {
    struct list *buckets;
    uint32_t buckets_count; /* A power of two; 0 while nothing was ever in it. */
    uint32_t count;
};

static inline struct name_link *name_link_at(struct list *link)
{
    return container_of(link, struct name_link, link);
}

/* Must be empty. */
void name_table_done(struct name_table *t);
/* ERR_BUSY without memory for the first buckets. */
enum err name_table_add(struct name_table *t, struct name_link *item, uint64_t hash);
/* Harmless if it is in none. */
void name_table_remove(struct name_table *t, struct name_link *item);
/* Where all of that hash are. */
const struct list *name_table_bucket(const struct name_table *t, uint64_t hash);
