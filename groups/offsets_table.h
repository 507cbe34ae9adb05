/* The committed offsets of one group, by topic name and partition: a table of topics, each with
 * pages of 16 neighbouring partitions that hold only what was committed.
 *
 *   topic -> pages, by number (partition / 16) -> entries, by partition
 *
 * Costs 50 bytes per offset in a topic whose partitions are all committed (48 of the entry, and its
 * part of a page), about 170 and its name for the first of a topic. Metadata that is not empty adds
 * 12 bytes and itself. All of it is charged to the group_memory; topics are therefore in no
 * name_table, whose first eight buckets every group with one topic would have, and nobody counts.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/uuid.h"

struct group_memory;
struct offset_extra; /* Private, as the next. */
struct offset_page;

enum {
    OFFSET_NEVER_EXPIRES = -1, /* As expire_ms: by the rules of the group. */
};

struct offset_entry {
    int64_t offset;
    int64_t commit_ms;
    struct offset_extra *extra; /* Private; NULL = metadata "" and no expire_ms. */
    struct uuid topic_id;       /* Zero = not known: counts for every topic of that name. */
    int32_t partition;
    int32_t leader_epoch; /* -1 = unknown */
};
struct slice offset_entry_metadata(const struct offset_entry *e);
/* Wall time that the client asked for (before OffsetCommit v5), or OFFSET_NEVER_EXPIRES. */
int64_t offset_entry_expire_ms(const struct offset_entry *e);

struct offset_topic {
    struct offset_topic *next; /* Of its bucket. */
    uint64_t hash;
    struct offset_page **pages; /* By number; none is empty. */
    uint32_t pages_count;
    uint32_t pages_capacity;
    uint32_t entries_count; /* Above 0. */
    bool is_mixed;          /* Some entry may have another id than: */
    struct uuid id;
    uint32_t name_size;
    char name[];
};
static inline struct slice offset_topic_name(const struct offset_topic *t)
{
    return slice_of(t->name, t->name_size);
}
/* Valid until the table changes, as all entries. NULL if there is none. */
const struct offset_entry *offset_topic_find(const struct offset_topic *t, int32_t partition);
/* The last of them. */
const struct offset_entry *offset_topic_last(const struct offset_topic *t);

struct offset_table {
    struct group_memory *memory;
    uint64_t hash_seed;
    struct offset_topic **buckets; /* A power of two of them, or none. */
    uint32_t buckets_count;
    uint32_t topics_count;
    uint64_t entries_count;
};

void offset_table_init(struct offset_table *t, struct group_memory *memory, uint64_t hash_seed);
void offset_table_done(struct offset_table *t);

/* NULL if no offset of it is committed. */
const struct offset_topic *offset_table_topic(const struct offset_table *t, struct slice name);

/* What is to be known of an offset. */
struct offset_value {
    int32_t partition;
    int32_t leader_epoch;
    int64_t offset;
    int64_t commit_ms;
    int64_t expire_ms;
    struct uuid topic_id;
    struct slice metadata; /* Copied; null is "". */
};
/* Replaces what was there. ERR_BUSY without memory. */
enum err offset_table_put(struct offset_table *t, struct slice name, const struct offset_value *v);
/* How much memory that would add, at most; 0 if it replaces and takes no more. t may be NULL. */
uint64_t
offset_table_growth(const struct offset_table *t, struct slice name, const struct offset_value *v);
/* False if it was not there. */
bool offset_table_remove(struct offset_table *t, struct slice name, int32_t partition);

/* Every topic, in no order, or every entry of a topic, by partition, until visit says false, which
 * is then the result. The table must not change meanwhile. */
typedef bool offset_topic_visit(void *context, const struct offset_topic *t);
bool offset_table_for_each_topic(const struct offset_table *t,
                                 offset_topic_visit *visit,
                                 void *context);
typedef bool
offset_entry_visit(void *context, const struct offset_topic *t, const struct offset_entry *e);
bool offset_topic_for_each(const struct offset_topic *t, offset_entry_visit *visit, void *context);

/* Does not depend on the order of changes. */
uint64_t offset_table_digest(const struct offset_table *t);
void offset_table_check(const struct offset_table *t);
