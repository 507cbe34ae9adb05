#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/assert.h"
#include "groups/assignor.h"
#include "groups/consumer_priv.h"

enum {
    TOPIC_MISSING = UINT32_MAX,
};

/* ---- topics ---- */

struct topic_entry {
    struct uuid id;
    struct consumer_topic *topic;
    uint32_t partitions_count;
};

static int compare_entries(const void *a, const void *b)
{
    const struct topic_entry *left = a;
    const struct topic_entry *right = b;
    return memcmp(left->id.bytes, right->id.bytes, UUID_SIZE);
}

static size_t collect_topics(const struct consumer *c, struct topic_entry *entries)
{
    size_t count = 0;
    for (uint32_t i = 0; i < c->topics.buckets_count; i++) {
        list_for_each (link, &c->topics.buckets[i]) {
            struct consumer_topic *t =
                container_of(name_link_at(link), struct consumer_topic, by_name);
            const struct topic *topic =
                metadata_topic_by_name(c->g->c->env->metadata, slice_of(t->name, t->name_size));
            t->index = TOPIC_MISSING;
            if (topic != NULL) {
                entries[count++] =
                    (struct topic_entry){topic->id, t, (uint32_t)topic->partitions_count};
            }
        }
    }
    return count;
}

static enum err add_topics(struct target_draft *d)
{
    const uint32_t room = d->c->topics.count;
    struct topic_entry *entries = arena_alloc_array(d->a, room, sizeof(*entries));
    struct assignor_topic *topics = arena_alloc_array(d->a, room, sizeof(*topics));
    if (entries == NULL || topics == NULL) {
        return ERR_TOO_LARGE;
    }
    const size_t count = collect_topics(d->c, entries);
    if (count > 1) {
        qsort(entries, count, sizeof(*entries), compare_entries);
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].topic->index = (uint32_t)i;
        topics[i] = (struct assignor_topic){entries[i].id, entries[i].partitions_count};
    }
    d->group.topics = topics;
    d->group.topics_count = count;
    return ERR_OK;
}

/* ---- subscriptions ---- */

static int compare_indexes(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static size_t sort_indexes(uint32_t *items, size_t count)
{
    if (count > 1) {
        qsort(items, count, sizeof(*items), compare_indexes);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || items[kept - 1] != items[i]) {
            items[kept++] = items[i];
        }
    }
    return kept;
}

/* Those of names that exist, and those of base. */
static enum err resolve(const struct target_draft *d,
                        const struct slice *names,
                        size_t names_count,
                        const struct topic_indexes *base,
                        struct topic_indexes *ret_indexes)
{
    uint32_t *items = arena_alloc_array(d->a, names_count + base->count, sizeof(*items));
    if (items == NULL) {
        return ERR_TOO_LARGE;
    }
    size_t count = base->count;
    if (count > 0) {
        memcpy(items, base->items, count * sizeof(*items));
    }
    for (size_t i = 0; i < names_count; i++) {
        const struct consumer_topic *t = consumer_topics_find(d->c, names[i]);
        if (t != NULL && t->index != TOPIC_MISSING) {
            items[count++] = t->index;
        }
    }
    *ret_indexes = (struct topic_indexes){items, sort_indexes(items, count)};
    return ERR_OK;
}

static enum err resolve_regexes(const struct target_draft *d)
{
    static const struct topic_indexes NONE = {0};
    list_for_each (link, &d->c->regexes) {
        struct consumer_regex *r = container_of(link, struct consumer_regex, link);
        const enum err e = resolve(d, r->topics, r->topics_count, &NONE, &r->indexes);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* Members that say the same share one array. */
static enum err add_subscription(struct target_draft *d,
                                 const struct consumer_member *m,
                                 struct assignor_member *to)
{
    if (d->last != NULL && consumer_is_subscription_equal(&d->last->metadata->v, &m->metadata->v)) {
        to->topics = to[-1].topics;
        to->topics_count = to[-1].topics_count;
        return ERR_OK;
    }
    const struct consumer_group_member_metadata_value *v = &m->metadata->v;
    const struct consumer_regex *r = consumer_regex_find(d->c, v->subscribed_topic_regex);
    struct topic_indexes indexes = r == NULL ? (struct topic_indexes){0} : r->indexes;
    if (r == NULL || v->subscribed_topic_names_count > 0) {
        const struct topic_indexes base = indexes;
        const enum err e =
            resolve(d, v->subscribed_topic_names, v->subscribed_topic_names_count, &base, &indexes);
        if (e != ERR_OK) {
            return e;
        }
    }
    d->last = m;
    to->topics = indexes.items;
    to->topics_count = indexes.count;
    return ERR_OK;
}

static enum err
add_current(struct target_draft *d, const struct consumer_member *m, struct assignor_member *to)
{
    struct assignor_partition *current = arena_alloc_array(d->a, m->target.count, sizeof(*current));
    if (current == NULL) {
        return ERR_TOO_LARGE;
    }
    const struct partition_set *set = &m->target;
    for (uint32_t i = 0, end = 0; i < set->count; i = end) {
        end = partition_set_topic_end(set, i);
        uint32_t topic = 0;
        if (!assignor_topic_index(&d->group, &set->items[i].topic_id, &topic)) {
            continue;
        }
        for (uint32_t j = i; j < end; j++) {
            current[to->current_count++] =
                (struct assignor_partition){topic, (uint32_t)set->items[j].partition};
        }
    }
    to->current = current;
    return ERR_OK;
}

/* ---- members ---- */

static void collect_member(void *context, struct consumer_member *m)
{
    struct target_draft *d = context;
    if (m->metadata != NULL) {
        d->members[d->group.members_count++] = m;
    }
}

static enum err add_members(struct target_draft *d)
{
    const uint32_t room = d->c->members.count;
    d->members = arena_alloc_array(d->a, room, sizeof(*d->members));
    d->group.members = arena_alloc_array(d->a, room, sizeof(*d->group.members));
    if (d->members == NULL || d->group.members == NULL) {
        return ERR_TOO_LARGE;
    }
    consumer_for_each_member(d->c, collect_member, d);
    for (size_t i = 0; i < d->group.members_count; i++) {
        const struct consumer_member *m = d->members[i];
        struct assignor_member *to = &d->group.members[i];
        to->id = member_id(m);
        to->instance_id = member_instance_id(m);
        enum err e = add_subscription(d, m, to);
        if (e == ERR_OK) {
            e = add_current(d, m, to);
        }
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* ---- the result ---- */

struct votes {
    const struct groups_settings *settings;
    uint32_t counts[GROUPS_ASSIGNORS_MAX];
};

static void count_vote(void *context, struct consumer_member *m)
{
    struct votes *votes = context;
    if (m->metadata == NULL || slice_is_null(m->metadata->v.server_assignor)) {
        return;
    }
    for (uint32_t i = 0; i < votes->settings->consumer_assignors_count; i++) {
        votes->counts[i] += slice_equal_string(m->metadata->v.server_assignor,
                                               votes->settings->consumer_assignors[i]);
    }
}

const char *consumer_assignor_name(const struct consumer *c)
{
    struct votes votes = {.settings = c->g->c->env->settings};
    consumer_for_each_member(c, count_vote, &votes);
    uint32_t best = 0;
    for (uint32_t i = 1; i < votes.settings->consumer_assignors_count; i++) {
        if (votes.counts[i] > votes.counts[best]) {
            best = i;
        }
    }
    return votes.settings->consumer_assignors[best];
}

enum err target_draft_make(struct target_draft *draft, struct consumer *c, struct arena *a)
{
    *draft = (struct target_draft){.c = c, .a = a};
    enum err e = add_topics(draft);
    if (e == ERR_OK) {
        e = resolve_regexes(draft);
    }
    if (e == ERR_OK) {
        e = add_members(draft);
    }
    if (e != ERR_OK) {
        return e;
    }
    assignor_fn *assign = assignor_find(slice_of_string(consumer_assignor_name(c)));
    assert(assign != NULL);
    return assign(&draft->group, a);
}

bool target_draft_result(struct target_draft *draft, size_t index, struct partition_set *ret_set)
{
    const struct assignor_member *from = &draft->group.members[index];
    if (!partition_set_init(ret_set, draft->a, from->target_count)) {
        return false;
    }
    for (size_t i = 0; i < from->target_count; i++) {
        const struct assignor_partition *p = &from->target[i];
        partition_set_add(ret_set, &draft->group.topics[p->topic].id, (int32_t)p->partition, 0);
    }
    return true;
}
