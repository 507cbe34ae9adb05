#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/assert.h"
#include "core/ids.h"
#include "groups/consumer_priv.h"

enum {
    BUCKETS_MIN = 8,
};

/* ---- a table of things with a list node and a hash in front ---- */

struct table_item {
    struct list link;
    uint64_t hash;
};

static uint64_t hash_of(const struct list *link)
{
    return container_of(link, const struct table_item, link)->hash;
}

struct list *consumer_table_bucket(const struct consumer_table *t, uint64_t hash)
{
    return t->buckets_count == 0 ? NULL : &t->buckets[hash & (t->buckets_count - 1)];
}

static struct list *new_buckets(uint32_t count)
{
    struct list *buckets = calloc(count, sizeof(*buckets));
    for (uint32_t i = 0; buckets != NULL && i < count; i++) {
        list_init(&buckets[i]);
    }
    return buckets;
}

static void push(struct consumer_table *t, struct list *link)
{
    struct list *bucket = consumer_table_bucket(t, hash_of(link));
    assert(bucket != NULL);
    assert(bucket->prev != NULL); /* It is a list: new_buckets. */
    list_push_back(bucket, link);
}

/* Moves all of it to more buckets. */
static void move_items(struct consumer_table *from, struct consumer_table *to)
{
    for (uint32_t i = 0; i < from->buckets_count; i++) {
        struct list *link = NULL;
        while ((link = list_pop_front(&from->buckets[i])) != NULL) {
            push(to, link);
        }
    }
}

static enum err table_grow(struct consumer_table *t)
{
    struct consumer_table grown = *t;
    grown.buckets_count = t->buckets_count == 0 ? BUCKETS_MIN : t->buckets_count * 2;
    grown.buckets = new_buckets(grown.buckets_count);
    if (grown.buckets == NULL) {
        return ERR_BUSY;
    }
    move_items(t, &grown);
    free(t->buckets);
    *t = grown;
    return ERR_OK;
}

enum err consumer_table_add(struct consumer_table *t, uint64_t hash, struct list *link)
{
    assert(hash_of(link) == hash);
    if (t->count >= t->buckets_count) {
        const enum err e = table_grow(t);
        if (e != ERR_OK && t->buckets_count == 0) {
            return e; /* Else longer chains. */
        }
    }
    push(t, link);
    t->count++;
    return ERR_OK;
}

void consumer_table_done(struct consumer_table *t)
{
    assert_cmp(t->count, ==, 0);
    free(t->buckets);
    *t = (struct consumer_table){0};
}

/* ---- topics ---- */

static_assert(offsetof(struct consumer_topic, hash) == offsetof(struct table_item, hash), "layout");
static_assert(offsetof(struct consumer_member, hash) == offsetof(struct table_item, hash),
              "layout");
static_assert(offsetof(struct consumer_topic, link) == 0, "layout");
static_assert(offsetof(struct consumer_member, link) == 0, "layout");

static struct consumer_topic *topic_at(struct list *link)
{
    return container_of(link, struct consumer_topic, link);
}

static uint64_t name_hash(const struct consumer *c, struct slice name)
{
    return hash_bytes(c->g->c->env->hash_seed, name.data, name.size);
}

static size_t topic_size(const struct consumer_topic *t)
{
    return sizeof(*t) + t->name_size;
}

struct consumer_topic *consumer_topics_find(const struct consumer *c, struct slice name)
{
    if (c->topics.count == 0) {
        return NULL;
    }
    const uint64_t hash = name_hash(c, name);
    list_for_each (link, consumer_table_bucket(&c->topics, hash)) {
        struct consumer_topic *t = topic_at(link);
        if (t->hash == hash && slice_equal(slice_of(t->name, t->name_size), name)) {
            return t;
        }
    }
    return NULL;
}

static enum err add_one(struct consumer *c, struct slice name)
{
    struct consumer_topic *t = consumer_topics_find(c, name);
    if (t != NULL) {
        t->subscribers_count++;
        return ERR_OK;
    }
    t = calloc(1, sizeof(*t) + name.size);
    if (t == NULL) {
        return ERR_BUSY;
    }
    list_init(&t->link);
    t->hash = name_hash(c, name);
    t->subscribers_count = 1;
    t->name_size = (uint32_t)name.size;
    memcpy(t->name, name.data, name.size);
    const enum err e = consumer_table_add(&c->topics, t->hash, &t->link);
    if (e != ERR_OK) {
        free(t);
        return e;
    }
    consumer_charge(c, &c->charged, c->charged + topic_size(t));
    return ERR_OK;
}

enum err consumer_topics_add(struct consumer *c, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const enum err e = add_one(c, names[i]);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

void consumer_topics_remove(struct consumer *c, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct consumer_topic *t = consumer_topics_find(c, names[i]);
        if (t != NULL && --t->subscribers_count == 0) {
            list_remove(&t->link);
            c->topics.count--;
            consumer_charge(c, &c->charged, c->charged - topic_size(t));
            free(t);
        }
    }
}

void consumer_topics_done(struct consumer *c)
{
    for (uint32_t i = 0; i < c->topics.buckets_count; i++) {
        struct list *link = NULL;
        while ((link = list_pop_front(&c->topics.buckets[i])) != NULL) {
            consumer_charge(c, &c->charged, c->charged - topic_size(topic_at(link)));
            c->topics.count--;
            free(topic_at(link));
        }
    }
    consumer_table_done(&c->topics);
}

/* A sum, so that the order in which they lie does not matter. */
int64_t consumer_topics_hash(const struct consumer *c)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->topics.buckets_count; i++) {
        list_for_each (link, &c->topics.buckets[i]) {
            const struct consumer_topic *t = topic_at(link);
            const struct topic *topic =
                metadata_topic_by_name(c->g->c->env->metadata, slice_of(t->name, t->name_size));
            if (topic != NULL) {
                const struct partition_id id = {topic->id, topic->partitions_count};
                sum += partition_id_hash(0, &id);
            }
        }
    }
    return (int64_t)sum;
}
