/* What the members of a classic group subscribe to. */
#include "groups/classic_priv.h"
#include "kafka/proto/consumer_protocol_subscription.h"

enum {
    SUBSCRIPTION_SIZE_MAX = 32 << 20, /* What is taken to read one. */
    NAMES_SIZE_MAX = 256 << 20,
};

struct topic_name {
    struct name_link by_name; /* classic_topics.names */
    struct slice name;
};

static uint64_t hash_of(const struct classic_topics *t, struct slice name)
{
    return hash_bytes(t->hash_seed, name.data, name.size);
}

static bool has(const struct classic_topics *t, struct slice name, uint64_t hash)
{
    list_for_each (link, name_table_bucket(&t->names, hash)) {
        const struct topic_name *n = container_of(name_link_at(link), struct topic_name, by_name);
        if (n->by_name.hash == hash && slice_equal(n->name, name)) {
            return true;
        }
    }
    return false;
}

/* False without memory. */
static bool add(struct classic_topics *t, struct slice name)
{
    const uint64_t hash = hash_of(t, name);
    t->read_count++;
    if (has(t, name, hash)) {
        return true;
    }
    struct topic_name *n = arena_alloc(&t->arena, sizeof(*n));
    if (n == NULL) {
        return false;
    }
    list_init(&n->by_name.link);
    n->name = name;
    return name_table_add(&t->names, &n->by_name, hash) == ERR_OK;
}

/* False for what cannot be read. */
static bool read_names(struct classic_topics *t, struct slice subscription)
{
    struct arena arena;
    arena_init(&arena, SUBSCRIPTION_SIZE_MAX);
    struct rbuf in = rbuf_over(subscription.data, subscription.size);
    struct consumer_protocol_subscription s;
    bool is_read = consumer_protocol_subscription_decode(&in, &arena, &s) == ERR_OK;
    for (size_t i = 0; is_read && i < s.topics_count; i++) {
        is_read = add(t, s.topics[i]);
    }
    arena_done(&arena);
    return is_read;
}

/* Most say the same for all their protocols, and as the member before. */
static void
read_member(struct classic_topics *t, const struct classic_member *m, struct slice *last)
{
    const struct classic_protocols *p = m->protocols;
    for (size_t i = 0; i < p->count && !t->is_all; i++) {
        if (slice_is_null(*last) || !slice_equal(*last, p->items[i].metadata)) {
            t->is_all = !read_names(t, p->items[i].metadata);
            *last = p->items[i].metadata;
        }
    }
}

void classic_topics_read(struct classic_topics *t, const struct group *g)
{
    const struct classic *c = g->classic;
    *t = (struct classic_topics){.hash_seed = g->c->env->hash_seed};
    arena_init(&t->arena, NAMES_SIZE_MAX);
    if (!classic_has_members(g)) {
        return;
    }
    t->is_all = !c->is_live || !slice_equal_string(c->protocol_type, "consumer");
    struct slice last = {0};
    list_for_each (link, &c->members) {
        read_member(t, classic_member_at(link), &last);
    }
}

bool classic_topics_has(const struct classic_topics *t, struct slice topic)
{
    return t->is_all || has(t, topic, hash_of(t, topic));
}

void classic_topics_done(struct classic_topics *t)
{
    for (uint32_t i = 0; i < t->names.buckets_count; i++) {
        list_for_each_safe (link, &t->names.buckets[i]) {
            name_table_remove(&t->names, name_link_at(link));
        }
    }
    name_table_done(&t->names);
    arena_done(&t->arena);
}
