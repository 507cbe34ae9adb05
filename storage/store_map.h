/* The values of a store in memory: logs by id in a hash table, the values of a log in an array
 * sorted by (kind, sub). So one log's values are found and walked without looking at others, and a
 * log costs nothing beyond what it holds.
 *
 * Shard: pure; the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/store_format.h"

struct store_value {
    uint64_t sub;
    uint32_t kind;
    uint32_t size;
    uint8_t *data;
};

struct store_log {
    struct list link;            /* All logs of the map. */
    struct store_log *hash_next; /* Logs of one bucket. */
    struct partition_id id;
    uint32_t values_count;
    uint32_t values_capacity;
    struct store_value *values;
    uint64_t version; /* Of the last change. */
};

struct store_map {
    uint64_t hash_seed;
    struct store_log **buckets;
    size_t buckets_count; /* A power of two. */
    size_t logs_count;
    struct list logs;
    size_t live_size; /* What a snapshot takes as a stream of records. */
    /* A log whose values are all deleted stays, so that its version tells that an older file which
     * still holds values of it is out of date. */
    bool keeps_deleted_logs;
};

enum err store_map_init(struct store_map *m, uint64_t hash_seed);
void store_map_done(struct store_map *m);

/* NULL if it has none. */
struct store_log *store_map_find(const struct store_map *m, const struct partition_id *id);
const struct store_value *store_log_find(const struct store_log *l, uint32_t kind, uint64_t sub);
/* Where values of at least (kind, sub) begin. */
uint32_t store_log_lower_bound(const struct store_log *l, uint32_t kind, uint64_t sub);

/* Makes the change that r says. The value is copied. ERR_BUSY without memory; nothing changed. */
enum err store_map_apply(struct store_map *m, const struct store_record *r);

/* Applies a stream of records as recovered. ERR_CORRUPT if it makes no sense, ERR_BUSY. */
enum err store_map_load(struct store_map *m, struct slice stream);

/* Takes those logs of from over whose version is higher than what m has, and that owns (NULL = all)
 * says yes to. from keeps the others. */
void store_map_take(struct store_map *m,
                    struct store_map *from,
                    void *context,
                    bool (*owns)(void *context, const struct partition_id *id));

/* Ends keeps_deleted_logs. */
void store_map_forget_deleted_logs(struct store_map *m);

/* Appends everything, as records, to w. */
void store_map_snapshot(const struct store_map *m, struct wbuf *w);
