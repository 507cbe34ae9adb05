/* What of a classic group is durable: one record with its generation and its members. */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "groups/classic_priv.h"
#include "groups/consumer.h"

enum {
    VALUE_VERSION = 3, /* What Kafka writes, and tools read. */
    RECORD_ARENA_SIZE_MAX = 2 * PROPOSAL_SIZE_MAX,
};

/* ---- members of a record ---- */

static int compare_members(const void *a, const void *b)
{
    const struct group_metadata_value_member *const *left = a;
    const struct group_metadata_value_member *const *right = b;
    return slice_compare((*left)->member_id, (*right)->member_id);
}

static int compare_id(const void *id, const void *member)
{
    const struct slice *left = id;
    const struct group_metadata_value_member *const *right = member;
    return slice_compare(*left, (*right)->member_id);
}

struct group_metadata_value_member **classic_sort_by_id(const struct group_metadata_value *v,
                                                        struct arena *a)
{
    struct group_metadata_value_member **by_id =
        arena_alloc_array(a, v->members_count, sizeof(struct group_metadata_value_member *));
    for (size_t i = 0; by_id != NULL && i < v->members_count; i++) {
        by_id[i] = &v->members[i];
    }
    if (by_id != NULL && v->members_count > 1) {
        qsort(by_id, v->members_count, sizeof(by_id[0]), compare_members);
    }
    return by_id;
}

struct group_metadata_value_member *classic_find_by_id(
    struct group_metadata_value_member *const *by_id, size_t count, struct slice member_id)
{
    struct group_metadata_value_member *const *found =
        count == 0 ? NULL : bsearch(&member_id, by_id, count, sizeof(by_id[0]), compare_id);
    return found == NULL ? NULL : *found;
}

/* ---- apply ---- */

void classic_record_free(struct classic *c)
{
    struct classic_record *r = c->durable;
    if (r != NULL) {
        group_memory_give(classic_coordinator(c)->env->memory, r->charged);
        arena_done(&r->arena);
        free(r);
        c->durable = NULL;
    }
}

static enum err record_new(struct slice value, struct classic_record **ret_record)
{
    struct classic_record *r = malloc(sizeof(*r) + value.size);
    if (r == NULL) {
        return ERR_BUSY;
    }
    if (value.size > 0) {
        memcpy(r->bytes, value.data, value.size);
    }
    r->bytes_size = value.size;
    arena_init(&r->arena, RECORD_ARENA_SIZE_MAX);
    struct rbuf in = rbuf_over(r->bytes, r->bytes_size);
    enum err e = group_metadata_value_decode(&in, &r->arena, &r->value);
    if (e == ERR_OK) {
        r->by_id = classic_sort_by_id(&r->value, &r->arena);
        e = r->by_id == NULL ? ERR_BUSY : ERR_OK;
    }
    if (e != ERR_OK) {
        arena_done(&r->arena);
        free(r);
        return e == ERR_BUSY ? ERR_BUSY : ERR_CORRUPT;
    }
    r->charged = sizeof(*r) + value.size + r->arena.used_size;
    *ret_record = r;
    return ERR_OK;
}

/* Whoever waits here is told to come again: the group is deleted, which it cannot be with members,
 * or it goes on with the new protocol. */
static void apply_tombstone(struct group *g)
{
    if (g->classic != NULL) {
        classic_record_free(g->classic);
        classic_forget_live(g->classic, KAFKA_REBALANCE_IN_PROGRESS);
        classic_drop_unused(g->classic);
    }
    group_drop_unused(g);
}

static enum err apply_value(struct coordinator *c, struct slice group, struct slice value)
{
    struct classic_record *record = NULL;
    enum err e = record_new(value, &record);
    if (e != ERR_OK) {
        return e;
    }
    struct group *g = group_get(c, group);
    const bool is_first = g != NULL && g->classic == NULL;
    if (is_first) {
        consumer_free(g);
    }
    struct classic *classic = g == NULL ? NULL : classic_get(g);
    if (classic == NULL) {
        arena_done(&record->arena);
        free(record);
        return ERR_BUSY;
    }
    classic_record_free(classic);
    classic->durable = record;
    group_memory_take(c->env->memory, record->charged);
    if (is_first && classic->is_live) {
        classic_go_live(classic);
    }
    return ERR_OK;
}

enum err classic_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    (void)type;
    struct arena arena;
    arena_init(&arena, PROPOSAL_SIZE_MAX);
    struct rbuf in = rbuf_over(key.data, key.size);
    struct group_metadata_key k;
    enum err e = group_metadata_key_decode(&in, &arena, &k);
    arena_done(&arena);
    if (e != ERR_OK) {
        return ERR_CORRUPT;
    }
    if (!slice_is_null(value)) {
        return apply_value(c, k.group, value);
    }
    struct group *g = group_find(c, k.group);
    if (g != NULL) {
        apply_tombstone(g);
    }
    return ERR_OK;
}

struct group_metadata_value_member *classic_record_member(const struct classic *c,
                                                          struct slice member_id)
{
    const struct classic_record *r = c->durable;
    return r == NULL ? NULL : classic_find_by_id(r->by_id, r->value.members_count, member_id);
}

uint64_t classic_digest(const struct group *g)
{
    const struct classic_record *r = g->classic == NULL ? NULL : g->classic->durable;
    return r == NULL ? 0 : hash_bytes(0, r->bytes, r->bytes_size) | 1;
}

/* ---- propose ---- */

bool classic_draft_init(struct classic_draft *d, const struct classic *c, size_t members_count)
{
    arena_init(&d->arena, PROPOSAL_SIZE_MAX);
    group_metadata_value_init(&d->value);
    d->value.protocol_type = slice_is_null(c->protocol_type) ? slice_of("", 0) : c->protocol_type;
    d->value.generation = c->generation;
    d->value.protocol = c->protocol;
    d->value.leader = c->leader == NULL ? (struct slice){0} : c->leader->identity->member_id;
    d->value.current_state_timestamp = classic_coordinator(c)->time.wall_ms;
    d->value.members =
        arena_alloc_array(&d->arena, members_count, sizeof(struct group_metadata_value_member));
    return d->value.members != NULL;
}

void classic_draft_done(struct classic_draft *d)
{
    arena_done(&d->arena);
}

static void put(const struct group *g, struct proposal *p, const struct group_metadata_value *value)
{
    struct wbuf key;
    struct wbuf w;
    wbuf_init(&key, PROPOSAL_SIZE_MAX);
    wbuf_init(&w, PROPOSAL_SIZE_MAX);
    const struct group_metadata_key k = {.group = group_id(g)};
    enum err e = group_metadata_key_encode(&key, &k);
    if (e == ERR_OK && value != NULL) {
        e = group_metadata_value_encode(&w, VALUE_VERSION, value);
    }
    if (e == ERR_OK) {
        proposal_put(p, wbuf_slice(&key), value == NULL ? (struct slice){0} : wbuf_slice(&w));
    } else {
        p->failure = p->failure == ERR_OK ? e : p->failure;
    }
    wbuf_done(&key);
    wbuf_done(&w);
}

static void on_applied(struct proposal *p, enum err e)
{
    struct classic *c = p->g->classic;
    c->write.on_done(c, e);
}

void classic_write_draft(struct classic *c,
                         struct classic_draft *d,
                         const struct classic_write *write)
{
    c->write = *write;
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_applied);
    if (p == NULL) {
        classic_draft_done(d);
        c->write.on_done(c, ERR_BUSY);
        return;
    }
    put(c->g, p, &d->value);
    classic_draft_done(d);
    proposal_submit(p);
}

void classic_write_empty(struct classic *c, const struct classic_write *write)
{
    struct classic_draft d;
    if (!classic_draft_init(&d, c, 0)) {
        classic_draft_done(&d);
        c->write = *write;
        c->write.on_done(c, ERR_BUSY);
        return;
    }
    d.value.generation = group_next_epoch(c->generation);
    d.value.protocol = (struct slice){0};
    classic_write_draft(c, &d, write);
}

void classic_put_record(const struct group *g,
                        struct proposal *p,
                        const struct group_metadata_value *value)
{
    put(g, p, value);
}

void classic_put_tombstones(const struct group *g, struct proposal *p)
{
    if (g->classic != NULL) {
        put(g, p, NULL);
    }
}
