#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/ids.h"
#include "groups/consumer_priv.h"

static struct consumer_regex *regex_at(struct list *link)
{
    return container_of(link, struct consumer_regex, link);
}

static uint64_t text_hash(const struct consumer *c, struct slice text)
{
    return hash_bytes(c->g->c->env->hash_seed, text.data, text.size);
}

struct consumer_regex *consumer_regex_find(const struct consumer *c, struct slice text)
{
    if (text.size == 0) {
        return NULL;
    }
    const uint64_t hash = text_hash(c, text);
    list_for_each (link, name_table_bucket(&c->regexes_by_text, hash)) {
        struct consumer_regex *r = container_of(name_link_at(link), struct consumer_regex, by_text);
        if (r->by_text.hash == hash && slice_equal(r->text, text)) {
            return r;
        }
    }
    return NULL;
}

static enum err get(struct consumer *c, struct slice text, struct consumer_regex **ret_regex)
{
    struct consumer_regex *r = consumer_regex_find(c, text);
    if (r == NULL) {
        r = calloc(1, sizeof(*r) + text.size);
        if (r == NULL) {
            return ERR_BUSY;
        }
        uint8_t *copy = (uint8_t *)(r + 1);
        memcpy(copy, text.data, text.size);
        r->text = slice_of(copy, text.size);
        list_init(&r->by_text.link);
        const enum err e = name_table_add(&c->regexes_by_text, &r->by_text, text_hash(c, text));
        if (e != ERR_OK) {
            free(r);
            return e;
        }
        list_push_back(&c->regexes, &r->link);
        consumer_charge(c, &r->charged, sizeof(*r) + text.size);
    }
    *ret_regex = r;
    return ERR_OK;
}

static void forget_topics(struct consumer *c, struct consumer_regex *r)
{
    consumer_topics_remove(c, r->topics, r->topics_count);
    free(r->memory);
    r->memory = NULL;
    r->topics = NULL;
    r->topics_count = 0;
}

static void drop_unused(struct consumer *c, struct consumer_regex *r)
{
    if (r->members_count == 0 && !r->is_resolved) {
        forget_topics(c, r);
        list_remove(&r->link);
        name_table_remove(&c->regexes_by_text, &r->by_text);
        consumer_charge(c, &r->charged, 0);
        free(r);
    }
}

enum err consumer_regex_take(struct consumer *c, struct slice text)
{
    if (text.size == 0) {
        return ERR_OK;
    }
    struct consumer_regex *r = NULL;
    const enum err e = get(c, text, &r);
    if (e == ERR_OK) {
        r->members_count++;
    }
    return e;
}

void consumer_regex_release(struct consumer *c, struct slice text)
{
    struct consumer_regex *r = consumer_regex_find(c, text);
    if (r != NULL) {
        assert_cmp(r->members_count, >, 0);
        r->members_count--;
        drop_unused(c, r);
    }
}

/* Names in one piece of memory: their slices, then their bytes. */
static void *copy_names(const struct slice *names, size_t count, size_t *ret_size)
{
    size_t size = count * sizeof(struct slice);
    for (size_t i = 0; i < count; i++) {
        size += names[i].size;
    }
    struct slice *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) {
        return NULL;
    }
    uint8_t *bytes = (uint8_t *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        if (names[i].size > 0) {
            memcpy(bytes, names[i].data, names[i].size);
        }
        copy[i] = slice_of(bytes, names[i].size);
        bytes += names[i].size;
    }
    *ret_size = size;
    return copy;
}

enum err consumer_regex_set(struct consumer *c,
                            struct slice text,
                            const struct consumer_group_regular_expression_value *v)
{
    struct consumer_regex *r = NULL;
    enum err e = get(c, text, &r);
    if (e != ERR_OK) {
        return e;
    }
    size_t size = 0;
    struct slice *topics = copy_names(v->topics, v->topics_count, &size);
    if (topics == NULL) {
        return ERR_BUSY;
    }
    e = consumer_topics_add(c, topics, v->topics_count);
    if (e != ERR_OK) {
        free(topics);
        return e;
    }
    forget_topics(c, r);
    r->memory = topics;
    r->topics = topics;
    r->topics_count = (uint32_t)v->topics_count;
    r->version = v->version;
    r->timestamp_ms = v->timestamp;
    r->is_resolved = true;
    consumer_charge(c, &r->charged, sizeof(*r) + text.size + size);
    return ERR_OK;
}

void consumer_regex_clear(struct consumer *c, struct slice text)
{
    struct consumer_regex *r = consumer_regex_find(c, text);
    if (r != NULL) {
        forget_topics(c, r);
        r->is_resolved = false;
        consumer_charge(c, &r->charged, sizeof(*r) + text.size);
        drop_unused(c, r);
    }
}

void consumer_regexes_done(struct consumer *c)
{
    list_for_each_safe (link, &c->regexes) {
        struct consumer_regex *r = regex_at(link);
        r->members_count = 0;
        r->is_resolved = false;
        drop_unused(c, r);
    }
    name_table_done(&c->regexes_by_text);
}

uint64_t consumer_regexes_digest(const struct consumer *c)
{
    uint64_t sum = 0;
    list_for_each (link, &c->regexes) {
        const struct consumer_regex *r = regex_at(link);
        const int64_t numbers[] = {r->is_resolved, r->version, r->timestamp_ms, r->topics_count};
        uint64_t digest = hash_bytes(2, r->text.data, r->text.size);
        digest = hash_bytes(digest, numbers, sizeof(numbers));
        for (uint32_t i = 0; i < r->topics_count; i++) {
            digest = hash_bytes(digest, r->topics[i].data, r->topics[i].size);
        }
        sum += digest;
    }
    return sum;
}
