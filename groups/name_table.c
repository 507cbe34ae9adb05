#include "groups/name_table.h"

#include <stdlib.h>

#include "core/assert.h"

enum {
    BUCKETS_MIN = 8,
};

void name_table_done(struct name_table *t)
{
    assert_cmp(t->count, ==, 0);
    free(t->buckets);
    *t = (struct name_table){0};
}

const struct list *name_table_bucket(const struct name_table *t, uint64_t hash)
{
    static const struct list EMPTY = {(struct list *)&EMPTY, (struct list *)&EMPTY};
    return t->buckets_count == 0 ? &EMPTY : &t->buckets[hash & (t->buckets_count - 1)];
}

static struct list *new_buckets(uint32_t count)
{
    struct list *buckets = calloc(count, sizeof(*buckets));
    for (uint32_t i = 0; buckets != NULL && i < count; i++) {
        list_init(&buckets[i]);
    }
    return buckets;
}

static void push(struct name_table *t, struct name_link *item)
{
    struct list *bucket = &t->buckets[item->hash & (t->buckets_count - 1)];
    assert(bucket->prev != NULL); /* It is a list: new_buckets. */
    list_push_back(bucket, &item->link);
}

/* Stays as it is without memory: longer chains. */
static void grow(struct name_table *t)
{
    struct name_table grown = *t;
    grown.buckets_count = t->buckets_count == 0 ? BUCKETS_MIN : t->buckets_count * 2;
    grown.buckets = new_buckets(grown.buckets_count);
    if (grown.buckets == NULL) {
        return;
    }
    for (uint32_t i = 0; i < t->buckets_count; i++) {
        struct list *link = NULL;
        while ((link = list_pop_front(&t->buckets[i])) != NULL) {
            push(&grown, name_link_at(link));
        }
    }
    free(t->buckets);
    *t = grown;
}

enum err name_table_add(struct name_table *t, struct name_link *item, uint64_t hash)
{
    if (t->count >= t->buckets_count) {
        grow(t);
    }
    if (t->buckets_count == 0) {
        return ERR_BUSY;
    }
    item->hash = hash;
    push(t, item);
    t->count++;
    return ERR_OK;
}

void name_table_remove(struct name_table *t, struct name_link *item)
{
    if (!list_is_empty(&item->link)) {
        list_remove(&item->link);
        assert_cmp(t->count, >, 0);
        t->count--;
    }
}
