#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/assert.h"
#include "core/ids.h"
#include "groups/consumer_priv.h"

static struct consumer_topic *topic_at(struct list *link)
{
    return container_of(name_link_at(link), struct consumer_topic, by_name);
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
    const uint64_t hash = name_hash(c, name);
    list_for_each (link, name_table_bucket(&c->topics, hash)) {
        struct consumer_topic *t = topic_at(link);
        if (t->by_name.hash == hash && slice_equal(slice_of(t->name, t->name_size), name)) {
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
    list_init(&t->by_name.link);
    t->subscribers_count = 1;
    t->name_size = (uint32_t)name.size;
    memcpy(t->name, name.data, name.size);
    const enum err e = name_table_add(&c->topics, &t->by_name, name_hash(c, name));
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
            name_table_remove(&c->topics, &t->by_name);
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
    name_table_done(&c->topics);
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
