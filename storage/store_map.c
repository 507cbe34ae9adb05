#include "storage/store_map.h"

#include <stdlib.h>

#include "core/assert.h"

enum {
    BUCKETS_MIN = 16,
    VALUES_CAPACITY_MIN = 4,
};

enum err store_map_init(struct store_map *m, uint64_t hash_seed)
{
    *m = (struct store_map){.hash_seed = hash_seed, .buckets_count = BUCKETS_MIN};
    list_init(&m->logs);
    m->buckets = calloc(m->buckets_count, sizeof(m->buckets[0]));
    return m->buckets == NULL ? ERR_BUSY : ERR_OK;
}

static void log_free(struct store_log *l)
{
    for (uint32_t i = 0; i < l->values_count; i++) {
        free(l->values[i].data);
    }
    free(l->values);
    free(l);
}

void store_map_done(struct store_map *m)
{
    struct list *link;
    while (m->buckets != NULL && (link = list_pop_front(&m->logs)) != NULL) {
        log_free(container_of(link, struct store_log, link));
    }
    free(m->buckets);
    *m = (struct store_map){0};
}

/* ---- logs ---------------------------------------------------------------------------------- */

static struct store_log **bucket_of(const struct store_map *m, const struct partition_id *id)
{
    return &m->buckets[partition_id_hash(m->hash_seed, id) & (m->buckets_count - 1)];
}

struct store_log *store_map_find(const struct store_map *m, const struct partition_id *id)
{
    struct store_log *l = *bucket_of(m, id);
    while (l != NULL && !partition_id_equal(&l->id, id)) {
        l = l->hash_next;
    }
    return l;
}

static void hash_insert(struct store_map *m, struct store_log *l)
{
    struct store_log **bucket = bucket_of(m, &l->id);
    l->hash_next = *bucket;
    *bucket = l;
}

/* Without memory the table just stays as small as it is. */
static void hash_grow(struct store_map *m)
{
    struct store_log **buckets = calloc(m->buckets_count * 2, sizeof(buckets[0]));
    if (buckets == NULL) {
        return;
    }
    free(m->buckets);
    m->buckets = buckets;
    m->buckets_count *= 2;
    list_for_each (node, &m->logs) {
        hash_insert(m, container_of(node, struct store_log, link));
    }
}

/* What a log takes in a snapshot: its values, or the record that says it has none. */
static size_t log_size(const struct store_log *l)
{
    size_t size = l->values_count == 0 ? store_record_size(0) : 0;
    for (uint32_t i = 0; i < l->values_count; i++) {
        size += store_record_size(l->values[i].size);
    }
    return size;
}

static void link_log(struct store_map *m, struct store_log *l)
{
    list_push_back(&m->logs, &l->link);
    hash_insert(m, l);
    m->logs_count++;
    m->live_size += log_size(l);
    if (m->logs_count > m->buckets_count) {
        hash_grow(m);
    }
}

static void unlink_log(struct store_map *m, struct store_log *l)
{
    struct store_log **at = bucket_of(m, &l->id);
    while (*at != l) {
        at = &(*at)->hash_next;
    }
    *at = l->hash_next;
    list_remove(&l->link);
    m->logs_count--;
    m->live_size -= log_size(l);
}

static struct store_log *add_log(struct store_map *m, const struct partition_id *id)
{
    struct store_log *l = calloc(1, sizeof(*l));
    if (l != NULL) {
        l->id = *id;
        link_log(m, l);
    }
    return l;
}

static void drop_log_if_empty(struct store_map *m, struct store_log *l)
{
    if (l->values_count == 0 && !m->keeps_deleted_logs) {
        unlink_log(m, l);
        log_free(l);
    }
}

/* ---- values -------------------------------------------------------------------------------- */

uint32_t store_log_lower_bound(const struct store_log *l, uint32_t kind, uint64_t sub)
{
    uint32_t low = 0;
    uint32_t high = l->values_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct store_value *v = &l->values[middle];
        if (v->kind < kind || (v->kind == kind && v->sub < sub)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct store_log *l, uint32_t i, uint32_t kind, uint64_t sub)
{
    return i < l->values_count && l->values[i].kind == kind && l->values[i].sub == sub;
}

const struct store_value *store_log_find(const struct store_log *l, uint32_t kind, uint64_t sub)
{
    uint32_t i = store_log_lower_bound(l, kind, sub);
    return is_at(l, i, kind, sub) ? &l->values[i] : NULL;
}

static bool has_room(struct store_log *l)
{
    if (l->values_count < l->values_capacity) {
        return true;
    }
    uint32_t capacity = l->values_capacity == 0 ? VALUES_CAPACITY_MIN : l->values_capacity * 2;
    struct store_value *values = realloc(l->values, capacity * sizeof(values[0]));
    if (values == NULL) {
        return false;
    }
    l->values = values;
    l->values_capacity = capacity;
    return true;
}

static enum err add_value(struct store_map *m, const struct store_record *r)
{
    struct store_log *l = store_map_find(m, &r->log);
    if (l == NULL) {
        l = add_log(m, &r->log);
    }
    if (l == NULL) {
        return ERR_BUSY;
    }
    uint8_t *data = malloc(r->value.size + 1);
    if (data == NULL || !has_room(l)) {
        free(data);
        drop_log_if_empty(m, l);
        return ERR_BUSY;
    }
    if (r->value.size > 0) {
        memcpy(data, r->value.data, r->value.size);
    }
    uint32_t i = store_log_lower_bound(l, r->kind, r->sub);
    memmove(&l->values[i + 1], &l->values[i], (l->values_count - i) * sizeof(l->values[0]));
    l->values[i] = (struct store_value){
        .sub = r->sub, .kind = r->kind, .size = (uint32_t)r->value.size, .data = data};
    m->live_size -= l->values_count == 0 ? store_record_size(0) : 0;
    m->live_size += store_record_size(r->value.size);
    l->values_count++;
    l->version = r->version;
    return ERR_OK;
}

static enum err replace_value(struct store_map *m, struct store_value *v, struct slice value)
{
    if (v->size != value.size) {
        uint8_t *data = malloc(value.size + 1);
        if (data == NULL) {
            return ERR_BUSY;
        }
        free(v->data);
        v->data = data;
        m->live_size -= store_record_size(v->size);
        m->live_size += store_record_size(value.size);
        v->size = (uint32_t)value.size;
    }
    if (value.size > 0) {
        memcpy(v->data, value.data, value.size);
    }
    return ERR_OK;
}

static enum err put(struct store_map *m, const struct store_record *r)
{
    struct store_log *l = store_map_find(m, &r->log);
    uint32_t i = l == NULL ? 0 : store_log_lower_bound(l, r->kind, r->sub);
    if (l == NULL || !is_at(l, i, r->kind, r->sub)) {
        return add_value(m, r);
    }
    enum err e = replace_value(m, &l->values[i], r->value);
    if (e == ERR_OK) {
        l->version = r->version;
    }
    return e;
}

static void delete_value(struct store_map *m, struct store_log *l, uint32_t i)
{
    m->live_size -= store_record_size(l->values[i].size);
    free(l->values[i].data);
    l->values_count--;
    memmove(&l->values[i], &l->values[i + 1], (l->values_count - i) * sizeof(l->values[0]));
    m->live_size += l->values_count == 0 ? store_record_size(0) : 0;
}

enum err store_map_apply(struct store_map *m, const struct store_record *r)
{
    if (r->op == STORE_RECORD_PUT) {
        return put(m, r);
    }
    struct store_log *l = store_map_find(m, &r->log);
    if (l == NULL && m->keeps_deleted_logs) {
        l = add_log(m, &r->log);
        if (l == NULL) {
            return ERR_BUSY;
        }
    }
    if (l == NULL) {
        return ERR_OK;
    }
    l->version = r->version;
    if (r->op == STORE_RECORD_DELETE_LOG) {
        while (l->values_count > 0) {
            delete_value(m, l, l->values_count - 1);
        }
    } else {
        uint32_t i = store_log_lower_bound(l, r->kind, r->sub);
        if (is_at(l, i, r->kind, r->sub)) {
            delete_value(m, l, i);
        }
    }
    drop_log_if_empty(m, l);
    return ERR_OK;
}

/* ---- many at once -------------------------------------------------------------------------- */

enum err store_map_load(struct store_map *m, struct slice stream)
{
    while (true) {
        struct store_record r;
        enum err e = store_record_next(&stream, &r);
        if (e == ERR_EOF) {
            return ERR_OK;
        }
        if (e == ERR_OK) {
            e = store_map_apply(m, &r);
        }
        if (e != ERR_OK) {
            return e;
        }
    }
}

void store_map_take(struct store_map *m,
                    struct store_map *from,
                    void *context,
                    bool (*owns)(void *context, const struct partition_id *id))
{
    list_for_each_safe (node, &from->logs) {
        struct store_log *l = container_of(node, struct store_log, link);
        if (owns != NULL && !owns(context, &l->id)) {
            continue;
        }
        struct store_log *mine = store_map_find(m, &l->id);
        if (mine != NULL && mine->version >= l->version) {
            continue;
        }
        if (mine != NULL) {
            unlink_log(m, mine);
            log_free(mine);
        }
        unlink_log(from, l);
        link_log(m, l);
        drop_log_if_empty(m, l);
    }
}

void store_map_forget_deleted_logs(struct store_map *m)
{
    m->keeps_deleted_logs = false;
    list_for_each_safe (node, &m->logs) {
        drop_log_if_empty(m, container_of(node, struct store_log, link));
    }
}

void store_map_snapshot(const struct store_map *m, struct wbuf *w)
{
    list_for_each (node, &m->logs) {
        const struct store_log *l = container_of(node, struct store_log, link);
        struct store_record r = {.op = STORE_RECORD_PUT, .log = l->id, .version = l->version};
        for (uint32_t i = 0; i < l->values_count; i++) {
            r.kind = l->values[i].kind;
            r.sub = l->values[i].sub;
            r.value = slice_of(l->values[i].data, l->values[i].size);
            store_record_encode(&r, w);
        }
        if (l->values_count == 0) {
            r.op = STORE_RECORD_DELETE_LOG;
            store_record_encode(&r, w);
        }
    }
}
