#include "cluster/partition_table.h"

#include <stdlib.h>

#include "cluster/memory.h"
#include "cluster/partition.h"
#include "core/assert.h"

enum {
    BUCKETS_COUNT_MIN = 64,
};

static struct list *new_buckets(uint32_t count)
{
    struct list *buckets = memory_alloc_array(count, sizeof(*buckets));
    for (uint32_t i = 0; i < count; i++) {
        list_init(&buckets[i]);
    }
    return buckets;
}

void partition_table_init(struct partition_table *pt, uint64_t hash_seed)
{
    *pt = (struct partition_table){
        .hash_seed = hash_seed,
        .buckets = new_buckets(BUCKETS_COUNT_MIN),
        .buckets_count = BUCKETS_COUNT_MIN,
    };
}

void partition_table_done(struct partition_table *pt)
{
    assert_cmp(pt->count, ==, 0);
    free(pt->buckets);
    pt->buckets = NULL;
}

static struct list *bucket_of(const struct partition_table *pt, const struct partition_id *id)
{
    return &pt->buckets[partition_id_hash(pt->hash_seed, id) & (pt->buckets_count - 1)];
}

struct partition *partition_table_find(const struct partition_table *pt,
                                       const struct partition_id *id)
{
    struct list *bucket = bucket_of(pt, id);
    list_for_each (node, bucket) {
        struct partition *p = partition_of_link(node);
        if (partition_id_equal(partition_id(p), id)) {
            return p;
        }
    }
    return NULL;
}

static void grow(struct partition_table *pt)
{
    struct list *old = pt->buckets;
    const uint32_t old_count = pt->buckets_count;
    pt->buckets_count = old_count * 2;
    pt->buckets = new_buckets(pt->buckets_count);
    for (uint32_t i = 0; i < old_count; i++) {
        struct list *node;
        while ((node = list_pop_front(&old[i])) != NULL) {
            list_push_back(bucket_of(pt, partition_id(partition_of_link(node))), node);
        }
    }
    free(old);
}

void partition_table_insert(struct partition_table *pt, struct partition *p)
{
    assert(partition_table_find(pt, partition_id(p)) == NULL);
    if (pt->count >= pt->buckets_count) {
        grow(pt);
    }
    list_push_back(bucket_of(pt, partition_id(p)), partition_link(p));
    pt->count++;
}

void partition_table_remove(struct partition_table *pt, struct partition *p)
{
    assert(partition_table_find(pt, partition_id(p)) == p);
    list_remove(partition_link(p));
    pt->count--;
}

bool partition_table_some(struct partition_table *pt,
                          uint32_t *cursor,
                          uint32_t count,
                          void *context,
                          void (*on_partition)(void *context, struct partition *p))
{
    uint32_t met = 0;
    while (*cursor < pt->buckets_count && met < count) {
        list_for_each_safe (node, &pt->buckets[*cursor]) {
            on_partition(context, partition_of_link(node));
            met++;
        }
        (*cursor)++;
        met++; /* An empty bucket costs something, too. */
    }
    return *cursor < pt->buckets_count;
}

void partition_table_each(struct partition_table *pt,
                          void *context,
                          void (*on_partition)(void *context, struct partition *p))
{
    for (uint32_t i = 0; i < pt->buckets_count; i++) {
        list_for_each_safe (node, &pt->buckets[i]) {
            on_partition(context, partition_of_link(node));
        }
    }
}
