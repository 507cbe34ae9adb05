/* ConsumerGroupHeartbeat. A heartbeat takes up to two batches: what the member says of itself with
 * the group's new epoch; then the target if it is due, and the member's next step towards it. Each
 * is judged against what is applied, while the gate is closed to others. */
#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/rand.h"
#include "groups/classic.h"
#include "groups/consumer_priv.h"
#include "groups/memory.h"
#include "groups/topic_pattern.h"

enum {
    /* With more members on a shard none is kept: some clients send one per second instead. */
    HELD_MEMBERS_MAX = 10000,
    TEXT_SIZE_MAX = 512,
    TEXT_ID_MAX = 128,         /* What messages show of an id. */
    MEMBER_SIZE_MIN = 1 << 10, /* What a member takes besides its names. */
};

/* A heartbeat on its way. Lies in the call's arena, as all it points to. */
struct beat {
    struct group *g;
    struct group_call *call;
    const struct consumer_group_heartbeat_request *in;
    struct slice member_id;
    bool is_shown; /* The answer has the assignment. */
    bool has_news; /* A batch was applied for it. */
    bool has_owned;
    struct partition_set owned;
};

#define SHOWN(text) slice_shown((text), TEXT_ID_MAX), (const char *)(text).data

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
    const bool may_make_id = version == 0 && in->member_epoch == 0;
    if (in->member_id.size == 0 && !may_make_id) {
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
        return check_join(in);
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

/* There is nothing to say to it, and nothing expected of anybody. */
static bool may_wait(const struct beat *b, const struct consumer_member *m)
{
    const struct consumer *c = m->consumer;
    return b->g->c->env->settings->is_heartbeat_held && !b->call->is_hurried && !b->is_shown &&
           b->g->c->env->memory->members_count <= HELD_MEMBERS_MAX && !b->has_news &&
           b->in->member_epoch == m->progress.epoch && c->epoch == c->target_epoch &&
           consumer_is_settled(c, m);
}

static void answer(struct beat *b)
{
    struct consumer *c = b->g->consumer;
    struct consumer_member *m = consumer_find_member(c, b->member_id);
    consumer_schedule_target(c);
    consumer_schedule_resolve(c);
    if (!b->call->is_hurried) { /* Else it was here before. */
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
        if (b->is_shown && !show_assignment(b->call, out, &m->progress.assigned)) {
            b->call->out = NULL;
        }
    }
    group_answer(b->g->c, b->call);
}

static void refuse_failed(struct proposal *p, enum err e)
{
    group_refuse(p->c, p->call, proposal_error(e), NULL);
}

static struct proposal *new_proposal(struct beat *b,
                                     void (*on_applied)(struct proposal *p, enum err e))
{
    struct proposal *p = proposal_new(b->g, PROPOSAL_EXCLUSIVE, on_applied);
    if (p == NULL) {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return NULL;
    }
    p->call = b->call;
    p->context = b;
    return p;
}

/* ---- the second batch: target and progress ---- */

static void on_progress_applied(struct proposal *p, enum err e)
{
    struct beat *b = p->context;
    if (e != ERR_OK) {
        refuse_failed(p, e);
        return;
    }
    b->has_news = true;
    member_arm_revocation(consumer_find_member(b->g->consumer, b->member_id));
    answer(b);
}

/* Puts what changes; ret_is_shown: the member may use other partitions than before. */
static enum err put_step(struct beat *b, struct proposal *p, struct arena *a, bool *ret_is_shown)
{
    struct consumer *c = b->g->consumer;
    const struct consumer_member *m = consumer_find_member(c, b->member_id);
    struct partition_set target = m->target;
    struct reconcile_input in = {
        .from = &m->progress,
        .target_epoch = c->target_epoch,
        .target = &target,
        .owned = b->has_owned ? &b->owned : NULL,
        .owners = &c->owners,
        .holder = m,
    };
    if (consumer_is_target_due(c, c->epoch)) {
        const enum err e = consumer_put_new_target(c, p, a, m, &target);
        if (e != ERR_OK) {
            return e;
        }
        in.target_epoch = c->epoch;
    }
    struct member_progress next;
    if (!consumer_reconcile(&in, a, &next)) {
        return ERR_BUSY;
    }
    if (!m->has_progress || !member_progress_equal(&next, &m->progress)) {
        consumer_put_progress(b->g, p, b->member_id, &next);
    }
    *ret_is_shown = !partition_set_equal(&next.assigned, &m->progress.assigned);
    return ERR_OK;
}

static void step(struct beat *b)
{
    struct proposal *p = new_proposal(b, on_progress_applied);
    if (p == NULL) {
        return;
    }
    struct arena a;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    bool is_shown = false;
    const enum err e = put_step(b, p, &a, &is_shown);
    arena_done(&a);
    if (e != ERR_OK) {
        proposal_free(p);
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    b->is_shown = b->is_shown || is_shown;
    if (proposal_is_empty(p)) {
        proposal_free(p);
        answer(b);
        return;
    }
    proposal_submit(p);
}

/* ---- the first batch: the member ---- */

/* Who speaks, and in whose place. */
struct speaker {
    struct consumer_member *member; /* NULL: it joins. */
    struct consumer_member *former; /* Had the instance before it; or NULL. */
};

static int compare_names(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* Sorted, each once, so that subscriptions can be compared. */
static bool set_names(struct group_call *call,
                      const struct consumer_group_heartbeat_request *in,
                      struct consumer_group_member_metadata_value *v)
{
    const size_t count = in->subscribed_topic_names_count;
    struct slice *names = group_call_alloc(call, count, sizeof(*names));
    if (names == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(names, in->subscribed_topic_names, count * sizeof(*names));
        qsort(names, count, sizeof(*names), compare_names);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !slice_equal(names[kept - 1], names[i])) {
            names[kept++] = names[i];
        }
    }
    v->subscribed_topic_names = names;
    v->subscribed_topic_names_count = kept;
    return true;
}

static struct slice not_null(struct slice text)
{
    return slice_is_null(text) ? slice_of("", 0) : text;
}

/* base is what was known of it; what the request does not say stays. */
static bool merge_metadata(struct beat *b,
                           const struct member_metadata *base,
                           struct consumer_group_member_metadata_value *ret_value)
{
    const struct consumer_group_heartbeat_request *in = b->in;
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
    return in->subscribed_topic_names == NULL || set_names(b->call, in, v);
}

static bool is_subscription_equal(const struct consumer_group_member_metadata_value *a,
                                  const struct consumer_group_member_metadata_value *b)
{
    if (a->subscribed_topic_names_count != b->subscribed_topic_names_count ||
        !slice_equal(a->subscribed_topic_regex, b->subscribed_topic_regex)) {
        return false;
    }
    for (size_t i = 0; i < a->subscribed_topic_names_count; i++) {
        if (!slice_equal(a->subscribed_topic_names[i], b->subscribed_topic_names[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the record of it would say anything else. */
static bool is_metadata_equal(const struct member_metadata *old,
                              const struct consumer_group_member_metadata_value *v)
{
    struct wbuf w;
    wbuf_init(&w, PROPOSAL_SIZE_MAX);
    const bool is_equal = consumer_group_member_metadata_value_encode(&w, 0, v) == ERR_OK &&
                          slice_equal(wbuf_slice(&w), old->bytes);
    wbuf_done(&w);
    return is_equal;
}

/* The first step of one that needs no target: it is where the group is, with nothing. */
static void put_first_progress(struct beat *b, struct proposal *p)
{
    const struct consumer *c = b->g->consumer;
    const struct member_progress progress = {
        .epoch = c->target_epoch,
        .previous_epoch = -1,
        .state = MEMBER_STABLE,
    };
    consumer_put_progress(b->g, p, b->member_id, &progress);
}

/* It goes on where the former one stopped, under its own id. */
static enum err
put_replacement(struct beat *b, struct proposal *p, const struct consumer_member *former)
{
    const struct consumer *c = former->consumer;
    const struct reconcile_input in = {
        .from = &former->progress,
        .target_epoch = c->target_epoch,
        .target = &former->target,
        .owned = &b->owned,
        .owners = &c->owners,
        .holder = former,
    };
    struct member_progress progress;
    if (!consumer_reconcile(&in, &b->call->arena, &progress)) {
        return ERR_BUSY;
    }
    consumer_put_member_tombstones(p, former);
    consumer_put_target(b->g, p, b->member_id, &former->target);
    consumer_put_progress(b->g, p, b->member_id, &progress);
    return ERR_OK;
}

static void on_member_applied(struct proposal *p, enum err e)
{
    if (e != ERR_OK) {
        refuse_failed(p, e);
        return;
    }
    struct beat *b = p->context;
    b->has_news = true;
    member_touch(consumer_find_member(b->g->consumer, b->member_id));
    step(b);
}

/* Puts what the member says, where it is new. */
static enum err put_member(struct beat *b,
                           struct proposal *p,
                           const struct speaker *who,
                           const struct consumer_group_member_metadata_value *v)
{
    const struct consumer *c = b->g->consumer;
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    const bool is_new_group = c == NULL || !c->has_epoch;
    struct consumer_group_member_metadata_value nothing;
    consumer_group_member_metadata_value_init(&nothing);
    const bool is_bumped = !is_subscription_equal(base == NULL ? &nothing : &base->metadata->v, v);
    const int32_t epoch = (is_new_group ? 1 : c->epoch) + is_bumped;
    if (who->former != NULL) {
        const enum err e = put_replacement(b, p, who->former);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (who->member == NULL || !is_metadata_equal(who->member->metadata, v)) {
        consumer_put_metadata(b->g, p, b->member_id, v);
    }
    consumer_put_resolved(b->g, p, v->subscribed_topic_regex);
    if (base != NULL &&
        !slice_equal(base->metadata->v.subscribed_topic_regex, v->subscribed_topic_regex)) {
        consumer_put_regex_unused(c, p, base->metadata->v.subscribed_topic_regex);
    }
    if (is_new_group || is_bumped) {
        consumer_put_epoch(b->g, p, epoch, is_new_group ? 0 : c->topics_hash);
    }
    if (base == NULL && !is_new_group && !consumer_is_target_due(c, epoch)) {
        put_first_progress(b, p);
    }
    return ERR_OK;
}

static void say(struct beat *b, const struct speaker *who)
{
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    struct consumer_group_member_metadata_value v;
    if (!merge_metadata(b, base == NULL ? NULL : base->metadata, &v)) {
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    struct proposal *p = new_proposal(b, on_member_applied);
    if (p == NULL) {
        return;
    }
    if (b->g->classic != NULL) {
        classic_put_tombstones(b->g, p);
    }
    if (put_member(b, p, who, &v) != ERR_OK) {
        proposal_free(p);
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
    } else if (proposal_is_empty(p)) {
        proposal_free(p);
        step(b);
    } else {
        proposal_submit(p);
    }
}

/* ---- who it is ---- */

static void refuse_unknown(struct beat *b)
{
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "Member %.*s is not a member of group %.*s.",
                   SHOWN(b->member_id),
                   SHOWN(group_id(b->g)));
    group_refuse(b->g->c, b->call, KAFKA_UNKNOWN_MEMBER_ID, text);
}

static void refuse_instance(struct beat *b, enum kafka_error e, const struct consumer_member *owner)
{
    const struct slice instance_id = b->in->instance_id;
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
static bool find_static(struct beat *b, struct speaker *ret_who)
{
    const struct consumer *c = b->g->consumer;
    const bool is_join = b->in->member_epoch == 0;
    struct consumer_member *m = find_member(c, b->member_id);
    if (m == NULL || !slice_equal(member_instance_id(m), b->in->instance_id)) {
        m = c == NULL ? NULL : consumer_find_instance(c, b->in->instance_id);
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

static bool find_speaker(struct beat *b, struct speaker *ret_who)
{
    *ret_who = (struct speaker){0};
    if (!slice_is_null(b->in->instance_id)) {
        return find_static(b, ret_who);
    }
    ret_who->member = find_member(b->g->consumer, b->member_id);
    if (ret_who->member == NULL && b->in->member_epoch != 0) {
        refuse_unknown(b);
        return false;
    }
    return true;
}

/* The epoch before this one is let pass if it may be that the answer with this one was lost. */
static bool check_epoch(struct beat *b, const struct consumer_member *m)
{
    const int32_t epoch = b->in->member_epoch;
    const int32_t known = m->progress.epoch;
    if (epoch == known || epoch == 0) {
        return true;
    }
    if (epoch < known && epoch == m->progress.previous_epoch && b->has_owned &&
        partition_set_is_subset(&m->progress.assigned, &b->owned)) {
        return true;
    }
    char text[TEXT_SIZE_MAX];
    (void)snprintf(text,
                   sizeof(text),
                   "The consumer group member has a %s member epoch (%d) than the one known by the "
                   "group coordinator (%d). The member must abandon all its partitions and rejoin.",
                   epoch > known ? "greater" : "smaller",
                   epoch,
                   known);
    group_refuse(b->g->c, b->call, KAFKA_FENCED_MEMBER_EPOCH, text);
    return false;
}

/* ---- whether there is room ---- */

static uint64_t size_of_request(const struct consumer_group_heartbeat_request *in)
{
    uint64_t size = MEMBER_SIZE_MIN + in->subscribed_topic_regex.size;
    for (size_t i = 0; i < in->subscribed_topic_names_count; i++) {
        size += sizeof(struct consumer_topic) + 2 * in->subscribed_topic_names[i].size;
    }
    return size;
}

static bool check_room(struct beat *b, const struct speaker *who)
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
    const bool is_growing = is_new || b->in->subscribed_topic_names_count > 0;
    if ((is_new && env->memory->members_count >= env->settings->all_members_max) ||
        (is_growing && !group_memory_has_room(env->memory, size_of_request(b->in)))) {
        group_refuse(
            b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "groups take all their memory");
        return false;
    }
    return true;
}

/* ---- the call ---- */

/* What it says it has. */
static bool read_owned(struct beat *b)
{
    const struct consumer_group_heartbeat_request *in = b->in;
    size_t count = 0;
    for (size_t i = 0; i < in->topic_partitions_count; i++) {
        count += in->topic_partitions[i].partitions_count;
    }
    if (!partition_set_init(&b->owned, &b->call->arena, count)) {
        return false;
    }
    for (size_t i = 0; i < in->topic_partitions_count; i++) {
        const struct consumer_group_heartbeat_request_topic_partition *t = &in->topic_partitions[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            partition_set_add(&b->owned, &t->topic_id, t->partitions[j], 0);
        }
    }
    partition_set_sort(&b->owned);
    b->has_owned = in->topic_partitions != NULL;
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

static struct beat *new_beat(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    struct beat *b = group_call_alloc(call, 1, sizeof(*b));
    if (b == NULL) {
        return NULL;
    }
    b->g = g;
    b->call = call;
    b->in = in;
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

static void beat(struct beat *b)
{
    struct speaker who;
    if (!find_speaker(b, &who)) {
        return;
    }
    if (who.member != NULL && !check_epoch(b, who.member)) {
        return;
    }
    if (check_room(b, &who)) {
        say(b, &who);
    }
}

/* Whether a group that has no members of this protocol, or none at all, may be spoken to. */
static bool check_group(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    char text[TEXT_SIZE_MAX];
    if (g->consumer != NULL || (in->member_epoch == 0 && !classic_has_members(g))) {
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
    struct beat *b = new_beat(g, call);
    if (b == NULL) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    beat(b);
}
