#include <stdio.h>

#include "cluster/metadata.h"
#include "groups/consumer_priv.h"
#include "kafka/proto/consumer_group_describe.h"

enum {
    TEXT_SIZE_MAX = 512,
    TEXT_ID_MAX = 128,
    MEMBER_TYPE_CLASSIC = 0,
    MEMBER_TYPE_CONSUMER = 1,
};

/* A group under description. */
struct description {
    const struct consumer *c;
    struct group_call *call;
    struct consumer_group_describe_response_group *out;
};

static bool show_set(struct description *d,
                     const struct partition_set *set,
                     struct consumer_group_describe_response_assignment *to)
{
    struct consumer_group_describe_response_topic_partitions *topics =
        group_call_alloc(d->call, partition_set_topics_count(set), sizeof(*topics));
    int32_t *numbers = group_call_alloc(d->call, set->count, sizeof(*numbers));
    if (topics == NULL || numbers == NULL) {
        return false;
    }
    to->topic_partitions = topics;
    to->topic_partitions_count = 0;
    for (uint32_t i = 0, end = 0; i < set->count; i = end) {
        end = partition_set_topic_end(set, i);
        const struct topic *topic =
            metadata_topic_by_id(d->c->g->c->env->metadata, &set->items[i].topic_id);
        if (topic == NULL) {
            continue; /* Deleted, and the target that says so is still to come. */
        }
        struct consumer_group_describe_response_topic_partitions *t =
            &topics[to->topic_partitions_count++];
        t->topic_id = topic->id;
        t->topic_name = group_call_copy(d->call, slice_of_string(topic->name));
        t->partitions = &numbers[i];
        t->partitions_count = end - i;
        for (uint32_t j = i; j < end; j++) {
            numbers[j] = set->items[j].partition;
        }
    }
    return true;
}

/* What it has: also what it is still to give back. */
static bool show_held(struct description *d,
                      const struct member_progress *progress,
                      struct consumer_group_describe_response_assignment *to)
{
    const struct partition_set *sets[] = {&progress->assigned, &progress->pending};
    const size_t room = (size_t)sets[0]->count + sets[1]->count;
    struct partition_set all = {group_call_alloc(d->call, room, sizeof(*all.items)), 0};
    if (all.items == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        for (uint32_t j = 0; j < sets[i]->count; j++) {
            all.items[all.count++] = sets[i]->items[j];
        }
    }
    partition_set_sort(&all);
    return show_set(d, &all, to);
}

static bool show_names(struct description *d,
                       const struct consumer_group_member_metadata_value *v,
                       struct consumer_group_describe_response_member *to)
{
    struct slice *names =
        group_call_alloc(d->call, v->subscribed_topic_names_count, sizeof(*names));
    if (names == NULL) {
        return false;
    }
    for (size_t i = 0; i < v->subscribed_topic_names_count; i++) {
        names[i] = group_call_copy(d->call, v->subscribed_topic_names[i]);
    }
    to->subscribed_topic_names = names;
    to->subscribed_topic_names_count = v->subscribed_topic_names_count;
    return true;
}

static void show_member(void *context, struct consumer_member *m)
{
    struct description *d = context;
    if (m->metadata == NULL || d->call->is_out_of_memory) {
        return;
    }
    struct consumer_group_describe_response_member *to = &d->out->members[d->out->members_count];
    const struct consumer_group_member_metadata_value *v = &m->metadata->v;
    consumer_group_describe_response_member_init(to);
    to->member_id = group_call_copy(d->call, member_id(m));
    to->instance_id = group_call_copy(d->call, v->instance_id);
    to->rack_id = group_call_copy(d->call, v->rack_id);
    to->member_epoch = m->progress.epoch;
    to->client_id = group_call_copy(d->call, v->client_id);
    to->client_host = group_call_copy(d->call, v->client_host);
    to->subscribed_topic_regex = group_call_copy(d->call, v->subscribed_topic_regex);
    if (slice_is_null(to->subscribed_topic_regex)) {
        to->subscribed_topic_regex = slice_of("", 0);
    }
    to->member_type = member_is_classic(m) ? MEMBER_TYPE_CLASSIC : MEMBER_TYPE_CONSUMER;
    if (show_names(d, v, to) && show_held(d, &m->progress, &to->assignment) &&
        show_set(d, &m->target, &to->target_assignment)) {
        d->out->members_count++;
    }
}

static void refuse(struct group *g, struct group_call *call)
{
    char text[TEXT_SIZE_MAX];
    const char *format =
        group_exists(g) ? "Group %.*s is not a consumer group." : "Group %.*s not found.";
    (void)snprintf(text,
                   sizeof(text),
                   format,
                   slice_shown(group_id(g), TEXT_ID_MAX),
                   (const char *)group_id(g).data);
    group_refuse(g->c, call, KAFKA_GROUP_ID_NOT_FOUND, text);
}

void consumer_describe(struct group *g, struct group_call *call)
{
    const struct consumer *c = g->consumer;
    if (c == NULL) {
        refuse(g, call);
        return;
    }
    struct consumer_group_describe_response_group *out = group_call_alloc(call, 1, sizeof(*out));
    struct description d = {.c = c, .call = call, .out = out};
    if (out != NULL) {
        consumer_group_describe_response_group_init(out);
        out->group_id = call->group_id;
        out->group_state = slice_of_string(consumer_state_name(g));
        out->group_epoch = c->epoch;
        out->assignment_epoch = c->target_epoch;
        out->assignor_name = slice_of_string(consumer_assignor_name(c));
        out->members = group_call_alloc(call, c->members.count, sizeof(*out->members));
    }
    if (!call->is_out_of_memory) {
        consumer_for_each_member(c, show_member, &d);
    }
    call->out = call->is_out_of_memory ? NULL : out;
    group_answer(g->c, call);
}
