/* Inside of JoinGroup and SyncGroup consumers tell each other of topics by name. Bytes come from
 * outside: what cannot be read is refused, what is not there is left out. */
#include "cluster/metadata.h"
#include "core/rbuf.h"
#include "core/wbuf.h"
#include "groups/consumer_priv.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/consumer_protocol_subscription.h"

bool consumer_owns_too_many(const struct coordinator_env *env, size_t count)
{
    size_t all = CONSUMER_OWNED_FREELY;
    for (uint32_t i = 0; count > all && i < metadata_topics_count(env->metadata); i++) {
        all += (size_t)metadata_topic_at(env->metadata, i)->partitions_count;
    }
    return count > all;
}

/* However a decoder says it: there is no memory, or the bytes make no sense. */
static enum err judged(enum err e)
{
    return e == ERR_OK || e == ERR_TOO_LARGE || e == ERR_BUSY ? e : ERR_CORRUPT;
}

enum err consumer_read_subscription(struct slice metadata,
                                    struct arena *a,
                                    struct consumer_protocol_subscription *ret_value)
{
    struct rbuf in = rbuf_over(metadata.data, metadata.size);
    return judged(consumer_protocol_subscription_decode(&in, a, ret_value));
}

enum err consumer_set_subscription(struct consumer_group_member_metadata_value *v,
                                   const struct consumer_protocol_subscription *from,
                                   struct arena *a)
{
    v->rack_id = from->rack_id;
    v->subscribed_topic_regex = slice_of("", 0);
    if (from->topics_count > CONSUMER_NAMES_MAX) {
        return ERR_CORRUPT;
    }
    return consumer_set_names(v, from->topics, from->topics_count, a) ? ERR_OK : ERR_TOO_LARGE;
}

/* Of those that are there: others take no room. */
static size_t count_named(const struct coordinator_env *env,
                          const struct consumer_protocol_subscription *from)
{
    size_t count = 0;
    for (size_t i = 0; i < from->owned_partitions_count; i++) {
        const struct consumer_protocol_subscription_topic *t = &from->owned_partitions[i];
        count += metadata_topic_by_name(env->metadata, t->topic) == NULL ? 0 : t->partitions_count;
    }
    return count;
}

/* Partitions of a topic by name; those that are not there are left out. */
static void add_named(const struct coordinator_env *env,
                      struct slice name,
                      const int32_t *partitions,
                      size_t count,
                      struct partition_set *set)
{
    const struct topic *topic = metadata_topic_by_name(env->metadata, name);
    for (size_t i = 0; topic != NULL && i < count; i++) {
        if (partitions[i] >= 0 && partitions[i] < topic->partitions_count) {
            partition_set_add(set, &topic->id, partitions[i], 0);
        }
    }
}

enum err consumer_read_owned(const struct coordinator_env *env,
                             const struct consumer_protocol_subscription *from,
                             struct arena *a,
                             struct partition_set *ret_set)
{
    const size_t count = count_named(env, from);
    if (consumer_owns_too_many(env, count)) {
        return ERR_CORRUPT;
    }
    if (!partition_set_init(ret_set, a, count)) {
        return ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < from->owned_partitions_count; i++) {
        const struct consumer_protocol_subscription_topic *t = &from->owned_partitions[i];
        add_named(env, t->topic, t->partitions, t->partitions_count, ret_set);
    }
    partition_set_sort(ret_set);
    return ERR_OK;
}

enum err consumer_read_assignment(const struct coordinator_env *env,
                                  struct slice assignment,
                                  struct arena *a,
                                  struct partition_set *ret_set)
{
    struct consumer_protocol_assignment v;
    struct rbuf in = rbuf_over(assignment.data, assignment.size);
    if (assignment.size == 0) {
        return partition_set_init(ret_set, a, 0) ? ERR_OK : ERR_TOO_LARGE;
    }
    const enum err e = judged(consumer_protocol_assignment_decode(&in, a, &v));
    if (e != ERR_OK) {
        return e;
    }
    size_t count = 0;
    for (size_t i = 0; i < v.assigned_partitions_count; i++) {
        count += v.assigned_partitions[i].partitions_count;
    }
    if (!partition_set_init(ret_set, a, count)) {
        return ERR_TOO_LARGE;
    }
    for (size_t i = 0; i < v.assigned_partitions_count; i++) {
        const struct consumer_protocol_assignment_topic *t = &v.assigned_partitions[i];
        add_named(env, t->topic, t->partitions, t->partitions_count, ret_set);
    }
    partition_set_sort(ret_set);
    return ERR_OK;
}

/* Topics that were deleted meanwhile have no name any more. */
static bool name_set(const struct coordinator_env *env,
                     const struct partition_set *set,
                     struct arena *a,
                     struct consumer_protocol_assignment *to)
{
    const uint32_t room = partition_set_topics_count(set);
    int32_t *numbers = arena_alloc_array(a, set->count, sizeof(*numbers));
    to->assigned_partitions = arena_alloc_array(a, room, sizeof(*to->assigned_partitions));
    if (numbers == NULL || to->assigned_partitions == NULL) {
        return false;
    }
    for (uint32_t i = 0, end = 0; i < set->count; i = end) {
        end = partition_set_topic_end(set, i);
        const struct topic *topic = metadata_topic_by_id(env->metadata, &set->items[i].topic_id);
        if (topic == NULL) {
            continue;
        }
        struct consumer_protocol_assignment_topic *t =
            &to->assigned_partitions[to->assigned_partitions_count++];
        t->topic = slice_of_string(topic->name);
        t->partitions = &numbers[i];
        t->partitions_count = end - i;
        for (uint32_t j = i; j < end; j++) {
            numbers[j] = set->items[j].partition;
        }
    }
    return true;
}

struct slice consumer_write_assignment(const struct coordinator_env *env,
                                       const struct partition_set *set,
                                       struct slice subscription,
                                       struct arena *a)
{
    enum {
        VERSION_MAX = 3,
    };
    struct rbuf in = rbuf_over(subscription.data, subscription.size);
    const int16_t spoken = rbuf_i16(&in);
    const int16_t version = spoken < 0 ? 0 : (spoken > VERSION_MAX ? VERSION_MAX : spoken);
    struct consumer_protocol_assignment v;
    struct slice bytes = {0};
    struct wbuf w;
    consumer_protocol_assignment_init(&v);
    wbuf_init(&w, PROPOSAL_SIZE_MAX);
    if (name_set(env, set, a, &v) &&
        consumer_protocol_assignment_encode(&w, version, &v) == ERR_OK) {
        const char *copy = arena_strndup(a, (const char *)w.data, w.size);
        bytes = copy == NULL ? bytes : slice_of(copy, w.size);
    }
    wbuf_done(&w);
    return bytes;
}
