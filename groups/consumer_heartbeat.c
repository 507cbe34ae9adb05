/* ConsumerGroupHeartbeat: what a request must have, who it is that speaks, and the answer. */
#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/rand.h"
#include "groups/classic.h"
#include "groups/consumer_priv.h"
#include "groups/memory.h"
#include "groups/topic_pattern.h"

enum {
    TEXT_SIZE_MAX = 512,
    TEXT_ID_MAX = 128, /* What messages show of an id. */
};

#define TOO_MANY_NAMES "A group may name 50000 topics: subscribe to a pattern."
static_assert(CONSUMER_NAMES_MAX == 50000, "and the text says so");

#define SHOWN(text) slice_shown((text), TEXT_ID_MAX), (const char *)(text).data

static const struct consumer_group_heartbeat_request *in_of(const struct consumer_beat *b)
{
    return b->call->in;
}

/* ---- what a request must have ---- */

static bool is_empty(struct slice text)
{
    return !slice_is_null(text) && text.size == 0;
}

static const char *check_join(const struct consumer_group_heartbeat_request *in)
{
    if (in->rebalance_timeout_ms == -1) {
        return "RebalanceTimeoutMs must be provided in first request.";
    }
    if (in->topic_partitions == NULL || in->topic_partitions_count > 0) {
        return "TopicPartitions must be empty when (re-)joining.";
    }
    if (in->subscribed_topic_names == NULL && slice_is_null(in->subscribed_topic_regex)) {
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
               "(re-)joining.";
    }
    return NULL;
}

/* NULL if there is nothing to say against it. */
static const char *check_request(const struct consumer_group_heartbeat_request *in, int16_t version)
{
    const bool has_id = in->member_id.size > 0;
    if (in->subscribed_topic_names_count > CONSUMER_NAMES_MAX) {
        return TOO_MANY_NAMES;
    }
    if (version > 0 && !has_id) {
        return "MemberId can't be empty.";
    }
    if (in->group_id.size == 0) {
        return "GroupId can't be empty.";
    }
    if (is_empty(in->instance_id)) {
        return "InstanceId can't be empty.";
    }
    if (is_empty(in->rack_id)) {
        return "RackId can't be empty.";
    }
    if (in->member_epoch == 0) {
        return check_join(in); /* Up to v0 the coordinator makes the id. */
    }
    if (!has_id) {
        return "MemberId can't be empty.";
    }
    if (in->member_epoch == MEMBER_EPOCH_AWAY && slice_is_null(in->instance_id)) {
        return "InstanceId can't be null.";
    }
    return in->member_epoch < MEMBER_EPOCH_AWAY ? "MemberEpoch is invalid." : NULL;
}

static bool is_assignor_known(const struct groups_settings *settings, struct slice name)
{
    bool is_known = slice_is_null(name);
    for (uint32_t i = 0; i < settings->consumer_assignors_count; i++) {
        is_known = is_known || slice_equal_string(name, settings->consumer_assignors[i]);
    }
    return is_known;
}

static void refuse_assignor(struct group *g, struct group_call *call, struct slice name)
{
    const struct groups_settings *settings = g->c->env->settings;
    char text[TEXT_SIZE_MAX];
    int size = snprintf(text,
                        sizeof(text),
                        "ServerAssignor %.*s is not supported. Supported assignors: ",
                        SHOWN(name));
    for (uint32_t i = 0; i < settings->consumer_assignors_count; i++) {
        const bool is_last = i + 1 == settings->consumer_assignors_count;
        size += snprintf(text + size,
                         sizeof(text) - (size_t)size,
                         "%s%s",
                         settings->consumer_assignors[i],
                         is_last ? "." : ", ");
    }
    group_refuse(g->c, call, KAFKA_UNSUPPORTED_ASSIGNOR, text);
}

/* False if the call was refused. */
static bool check_pattern(struct group *g, struct group_call *call, struct slice pattern)
{
    struct topic_pattern *p = NULL;
    const char *why = NULL;
    const enum err e = pattern.size == 0 ? ERR_OK : topic_pattern_new(pattern, &p, &why);
    topic_pattern_free(p);
    if (e == ERR_OK) {
        return true;
    }
    if (e != ERR_INVALID) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return false;
    }
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "SubscribedTopicRegex `%.*s` is not a valid regular expression: %s.",
                   SHOWN(pattern),
                   why);
    group_refuse(g->c, call, KAFKA_INVALID_REGULAR_EXPRESSION, text);
    return false;
}

/* ---- the answer ---- */

static struct consumer_group_heartbeat_response *new_answer(struct group_call *call)
{
    struct consumer_group_heartbeat_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        consumer_group_heartbeat_response_init(out);
        call->out = out;
    }
    return out;
}

static bool show_assignment(struct group_call *call,
                            struct consumer_group_heartbeat_response *out,
                            const struct partition_set *set)
{
    struct consumer_group_heartbeat_response_assignment *to =
        group_call_alloc(call, 1, sizeof(*to));
    const uint32_t topics_count = partition_set_topics_count(set);
    struct consumer_group_heartbeat_response_topic_partitions *topics =
        group_call_alloc(call, topics_count, sizeof(*topics));
    int32_t *numbers = group_call_alloc(call, set->count, sizeof(*numbers));
    if (to == NULL || topics == NULL || numbers == NULL) {
        return false;
    }
    consumer_group_heartbeat_response_assignment_init(to);
    to->topic_partitions = topics;
    to->topic_partitions_count = topics_count;
    for (uint32_t i = 0, end = 0; i < set->count; i = end, topics++) {
        end = partition_set_topic_end(set, i);
        topics->topic_id = set->items[i].topic_id;
        topics->partitions = &numbers[i];
        topics->partitions_count = end - i;
        for (uint32_t j = i; j < end; j++) {
            numbers[j] = set->items[j].partition;
        }
    }
    out->assignment = to;
    return true;
}

/* There is nothing to say to it, and nothing expected of it. */
static bool may_wait(const struct consumer_beat *b, const struct consumer_member *m)
{
    const struct consumer *c = m->consumer;
    const struct group_call *call = b->call;
    const bool is_asked = m->progress.state == MEMBER_UNREVOKED;
    return consumer_may_hold(b->g->c->env) && !call->is_hurried && !call->was_kept &&
           !b->is_shown && !b->has_news && !is_asked && in_of(b)->member_epoch == c->target_epoch &&
           m->progress.epoch == c->target_epoch && c->epoch == c->target_epoch &&
           consumer_hold_ms(m, call) > 0;
}

/* An answer may be lost, also because its client had given it up: librdkafka does so when the
 * interval has passed that it was told last. So what a member may use is in every answer, until it
 * says that this is what it has. What it has already is no news to a client. */
static void note_heard(const struct consumer_beat *b, struct consumer_member *m)
{
    const bool has_it = b->has_owned && partition_set_equal(&b->owned, &m->progress.assigned);
    m->has_heard = has_it || (m->has_heard && !b->is_shown);
}

static void answer(struct consumer_beat *b)
{
    struct consumer *c = b->g->consumer;
    struct consumer_member *m = consumer_find_member(c, b->member_id);
    note_heard(b, m);
    consumer_schedule_target(c);
    consumer_schedule_resolve(c);
    if (!b->call->was_kept) { /* Else it was here before. */
        member_touch(m);
        consumer_unhold(m);
    }
    if (may_wait(b, m)) {
        consumer_hold(m, b->call);
        return;
    }
    struct consumer_group_heartbeat_response *out = new_answer(b->call);
    if (out != NULL) {
        out->member_id = b->member_id;
        out->member_epoch = m->progress.epoch;
        out->heartbeat_interval_ms = consumer_hold_rest_ms(m, b->call);
        const bool is_told = b->is_shown || !m->has_heard;
        if (is_told && !show_assignment(b->call, out, &m->progress.assigned)) {
            b->call->out = NULL;
        }
    }
    group_answer(b->g->c, b->call);
}

/* ---- what it says of itself ---- */

static struct slice not_null(struct slice text)
{
    return slice_is_null(text) ? slice_of("", 0) : text;
}

/* base is what was known of it; what the request does not say stays. */
static bool merge_metadata(struct consumer_beat *b,
                           const struct member_metadata *base,
                           struct consumer_group_member_metadata_value *ret_value)
{
    const struct consumer_group_heartbeat_request *in = in_of(b);
    struct consumer_group_member_metadata_value *v = ret_value;
    consumer_group_member_metadata_value_init(v);
    v->instance_id = v->rack_id = v->server_assignor = (struct slice){0};
    if (base != NULL) {
        *v = base->v;
    }
    v->classic_member_metadata = NULL;
    v->client_id = not_null(b->call->client_id);
    v->client_host = not_null(b->call->client_host);
    if (!slice_is_null(in->instance_id)) {
        v->instance_id = in->instance_id;
    }
    if (!slice_is_null(in->rack_id)) {
        v->rack_id = in->rack_id;
    }
    if (in->rebalance_timeout_ms != -1) {
        v->rebalance_timeout_ms = in->rebalance_timeout_ms;
    }
    if (!slice_is_null(in->server_assignor)) {
        v->server_assignor = in->server_assignor;
    }
    if (!slice_is_null(in->subscribed_topic_regex)) {
        v->subscribed_topic_regex = in->subscribed_topic_regex;
    }
    return in->subscribed_topic_names == NULL ||
           consumer_set_names(
               v, in->subscribed_topic_names, in->subscribed_topic_names_count, &b->call->arena);
}

/* ---- who it is ---- */

static void refuse_unknown(struct consumer_beat *b)
{
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "Member %.*s is not a member of group %.*s.",
                   SHOWN(b->member_id),
                   SHOWN(group_id(b->g)));
    group_refuse(b->g->c, b->call, KAFKA_UNKNOWN_MEMBER_ID, text);
}

static void
refuse_instance(struct consumer_beat *b, enum kafka_error e, const struct consumer_member *owner)
{
    const struct slice instance_id = in_of(b)->instance_id;
    char text[TEXT_SIZE_MAX];
    if (owner == NULL) {
        (void)snprintf(text, sizeof(text), "Instance id %.*s is unknown.", SHOWN(instance_id));
    } else if (e == KAFKA_FENCED_INSTANCE_ID) {
        (void)snprintf(text,
                       sizeof(text),
                       "Static member %.*s with instance id %.*s was fenced by member %.*s.",
                       SHOWN(b->member_id),
                       SHOWN(instance_id),
                       SHOWN(member_id(owner)));
    } else {
        (void)snprintf(text,
                       sizeof(text),
                       "Static member %.*s with instance id %.*s cannot join the group because "
                       "the instance id is owned by %.*s member.",
                       SHOWN(b->member_id),
                       SHOWN(instance_id),
                       SHOWN(member_id(owner)));
    }
    group_refuse(b->g->c, b->call, e, text);
}

/* The member of that id, if it has said who it is. */
static struct consumer_member *find_member(const struct consumer *c, struct slice id)
{
    struct consumer_member *m = c == NULL ? NULL : consumer_find_member(c, id);
    return m == NULL || m->metadata == NULL ? NULL : m;
}

/* False if the call was refused. */
static bool find_static(struct consumer_beat *b, struct consumer_speaker *ret_who)
{
    const struct consumer *c = b->g->consumer;
    const bool is_join = in_of(b)->member_epoch == 0;
    struct consumer_member *m = find_member(c, b->member_id);
    if (m == NULL || !slice_equal(member_instance_id(m), in_of(b)->instance_id)) {
        m = c == NULL ? NULL : consumer_find_instance(c, in_of(b)->instance_id);
    }
    if (m == NULL) {
        if (!is_join) {
            refuse_instance(b, KAFKA_UNKNOWN_MEMBER_ID, NULL);
        }
        return is_join;
    }
    if (slice_equal(member_id(m), b->member_id)) {
        ret_who->member = m;
        return true;
    }
    if (!is_join) {
        refuse_instance(b, KAFKA_FENCED_INSTANCE_ID, m);
        return false;
    }
    if (m->progress.epoch != MEMBER_EPOCH_AWAY && !member_is_classic(m)) {
        refuse_instance(b, KAFKA_UNRELEASED_INSTANCE_ID, m);
        return false;
    }
    ret_who->former = m;
    return true;
}

static bool find_speaker(struct consumer_beat *b, struct consumer_speaker *ret_who)
{
    *ret_who = (struct consumer_speaker){0};
    if (!slice_is_null(in_of(b)->instance_id)) {
        return find_static(b, ret_who);
    }
    ret_who->member = find_member(b->g->consumer, b->member_id);
    if (ret_who->member == NULL && in_of(b)->member_epoch != 0) {
        refuse_unknown(b);
        return false;
    }
    return true;
}

/* Nothing but that the member is there. */
static bool says_nothing(const struct consumer_group_heartbeat_request *in)
{
    return in->topic_partitions == NULL && in->subscribed_topic_names == NULL &&
           slice_is_null(in->subscribed_topic_regex);
}

/* The epoch before this one is let pass: the answer with this one was lost. But not with partitions
 * that were given back since. Who says nothing else is told it again, and goes no further, else
 * another lost answer put him out. False: answered. */
static bool check_epoch(struct consumer_beat *b, const struct consumer_member *m)
{
    const int32_t epoch = in_of(b)->member_epoch;
    const int32_t known = m->progress.epoch;
    if (epoch == known || epoch == 0) {
        return true;
    }
    const bool has_more =
        b->has_owned && !partition_set_is_subset(&m->progress.assigned, &b->owned);
    const bool is_greater = group_epoch_is_later(epoch, known);
    if (!is_greater && epoch == m->progress.previous_epoch && !has_more) {
        if (b->call->was_kept || !says_nothing(in_of(b))) {
            return true;
        }
        b->answer(b);
        return false;
    }
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "The consumer group member has a %s member epoch (%d) than the one known by the "
                   "group coordinator (%d). The member must abandon all its partitions and rejoin.",
                   is_greater ? "greater" : "smaller",
                   epoch,
                   known);
    group_refuse(b->g->c, b->call, KAFKA_FENCED_MEMBER_EPOCH, text);
    return false;
}

/* ---- whether there is a place for it ---- */

static bool check_place(struct consumer_beat *b, const struct consumer_speaker *who)
{
    const struct coordinator_env *env = b->g->c->env;
    const struct consumer *c = b->g->consumer;
    const bool is_new = who->member == NULL && who->former == NULL;
    const int32_t members_max = env->settings->consumer_members_max;
    if (is_new && c != NULL && c->members.count >= (uint32_t)members_max) {
        char text[TEXT_SIZE_MAX];
        (void)snprintf(text,
                       sizeof(text),
                       "The consumer group has reached its maximum capacity of %d members.",
                       members_max);
        group_refuse(b->g->c, b->call, KAFKA_GROUP_MAX_SIZE_REACHED, text);
        return false;
    }
    if (is_new && env->memory->members_count >= env->memory->members_max) {
        group_refuse(b->g->c,
                     b->call,
                     KAFKA_GROUP_MAX_SIZE_REACHED,
                     "The groups of this broker have reached coreflume.groups.members.max.");
        return false;
    }
    return true;
}

/* ---- the call ---- */

/* What a kept heartbeat said of the member it said when it came: it may be old by now. */
static void say(struct consumer_beat *b, const struct consumer_speaker *who)
{
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    struct consumer_group_member_metadata_value v;
    if (b->call->was_kept) {
        assert(base != NULL); /* Its member was settled: it has an epoch, and find_speaker it. */
        consumer_say(b, who, &base->metadata->v);
    } else if (!merge_metadata(b, base == NULL ? NULL : base->metadata, &v)) {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
    } else if (!consumer_has_room_for_names(b->g, who, &v)) {
        group_refuse(b->g->c, b->call, KAFKA_INVALID_REQUEST, TOO_MANY_NAMES);
    } else if (!consumer_has_room(b->g, who, &v)) {
        if (who->member != NULL) { /* Stays in, as what it said before. */
            member_touch(who->member);
        }
        group_refuse(
            b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "groups take all their memory");
    } else {
        consumer_say(b, who, &v);
    }
}

static size_t count_owned(const struct consumer_group_heartbeat_request *in)
{
    size_t count = 0;
    for (size_t i = 0; i < in->topic_partitions_count; i++) {
        count += in->topic_partitions[i].partitions_count;
    }
    return count;
}

/* What it was given may be of topics that are gone. */
static bool owns_too_many(const struct group *g, const struct consumer_group_heartbeat_request *in)
{
    const struct consumer_member *m = find_member(g->consumer, in->member_id);
    const size_t given =
        m == NULL ? 0 : (size_t)m->progress.assigned.count + m->progress.pending.count;
    const size_t count = count_owned(in);
    return count > given && consumer_owns_too_many(g->c->env, count);
}

/* What it says it has. */
static bool read_owned(struct consumer_beat *b)
{
    const struct consumer_group_heartbeat_request *in = in_of(b);
    if (!partition_set_init(&b->owned, &b->call->arena, count_owned(in))) {
        return false;
    }
    for (size_t i = 0; i < in->topic_partitions_count; i++) {
        const struct consumer_group_heartbeat_request_topic_partition *t = &in->topic_partitions[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            partition_set_add(&b->owned, &t->topic_id, t->partitions[j], 0);
        }
    }
    partition_set_sort(&b->owned);
    b->has_owned = in->topic_partitions != NULL && !b->call->was_kept;
    return true;
}

/* A member says all there is when it joins, or when it does not know what became of its last
 * heartbeat. */
static bool is_in_full(const struct consumer_group_heartbeat_request *in)
{
    return in->member_epoch == 0 ||
           (in->rebalance_timeout_ms != -1 && in->topic_partitions != NULL &&
            (in->subscribed_topic_names != NULL || !slice_is_null(in->subscribed_topic_regex)));
}

static struct consumer_beat *new_beat(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    struct consumer_beat *b = group_call_alloc(call, 1, sizeof(*b));
    if (b == NULL) {
        return NULL;
    }
    b->g = g;
    b->call = call;
    b->answer = answer;
    b->is_shown = is_in_full(in);
    if (in->member_id.size > 0) {
        b->member_id = group_call_copy(call, in->member_id);
    } else {
        char text[UUID_TEXT_SIZE];
        const struct uuid id = rand_uuid(g->c->env->rand);
        uuid_format(&id, text);
        b->member_id = group_call_copy(call, slice_of_string(text));
    }
    return slice_is_null(b->member_id) || !read_owned(b) ? NULL : b;
}

static void beat(struct consumer_beat *b)
{
    struct consumer_speaker who;
    if (!find_speaker(b, &who)) {
        return;
    }
    if (who.member != NULL && !check_epoch(b, who.member)) {
        return;
    }
    if (check_place(b, &who)) {
        say(b, &who);
    }
}

/* Whether a group that has no members of this protocol, or none at all, may be spoken to. */
static bool check_group(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    char text[TEXT_SIZE_MAX];
    if (g->consumer != NULL || in->member_epoch == 0) {
        return true;
    }
    const char *format = "Group %.*s not found.";
    if (g->classic != NULL || g->offsets != NULL) {
        format = "Group %.*s is not a consumer group.";
    } else if (in->member_epoch > 0) {
        format = "Consumer group %.*s not found.";
    }
    (void)snprintf(text, sizeof(text), format, SHOWN(group_id(g)));
    group_refuse(g->c, call, KAFKA_GROUP_ID_NOT_FOUND, text);
    return false;
}

void consumer_heartbeat(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    const char *wrong = check_request(in, call->version);
    if (wrong != NULL) {
        group_refuse(g->c, call, KAFKA_INVALID_REQUEST, wrong);
        return;
    }
    if (!is_assignor_known(g->c->env->settings, in->server_assignor)) {
        refuse_assignor(g, call, in->server_assignor);
        return;
    }
    if (!check_pattern(g, call, in->subscribed_topic_regex) || !check_group(g, call)) {
        return;
    }
    if (in->member_epoch < 0) {
        consumer_leave(g, call);
        return;
    }
    if (owns_too_many(g, in)) {
        group_refuse(g->c, call, KAFKA_INVALID_REQUEST, "TopicPartitions has more than there are.");
        return;
    }
    struct consumer_beat *b = new_beat(g, call);
    if (b == NULL) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    if (classic_has_members(g)) {
        consumer_upgrade(b, beat);
    } else {
        beat(b);
    }
}
