/* What a heartbeat, or a classic member's join, does: up to two batches. First what the member says
 * of itself with the group's new epoch; then the target if it is due, and the member's next step
 * towards it. Each is judged against what is applied, while the gate is closed to others. */
#include <stdlib.h>

#include "core/assert.h"
#include "groups/classic.h"
#include "groups/consumer_priv.h"
#include "groups/memory.h"

enum {
    MEMBER_SIZE_MIN = 1 << 10, /* What a member takes at least. */
};

static void refuse_failed(struct proposal *p, enum err e)
{
    group_refuse(p->c, p->call, proposal_error(e), NULL);
}

static struct proposal *new_proposal(struct consumer_beat *b,
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
    struct consumer_beat *b = p->context;
    if (e != ERR_OK) {
        if (p->c->is_active) {
            consumer_schedule_target(b->g->consumer);
        }
        refuse_failed(p, e);
        return;
    }
    b->has_news = true;
    member_arm_revocation(consumer_find_member(b->g->consumer, b->member_id));
    b->answer(b);
}

/* Puts what changes; ret_is_shown: the member may use other partitions than before. */
static enum err
put_step(struct consumer_beat *b, struct proposal *p, struct arena *a, bool *ret_is_shown)
{
    struct consumer *c = b->g->consumer;
    const struct consumer_member *m = consumer_find_member(c, b->member_id);
    struct reconcile_input in;
    if (!consumer_reconcile_begin(m, a, &in)) {
        return ERR_BUSY;
    }
    in.owned = b->has_owned ? &b->owned : NULL;
    if (consumer_is_target_due(c, c->epoch)) {
        const enum err e = consumer_put_new_target(c, p, a, m, &in.target);
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

static void step(struct consumer_beat *b)
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
        b->answer(b);
        return;
    }
    proposal_submit(p);
}

/* ---- the first batch: the member ---- */

bool consumer_is_subscription_equal(const struct consumer_group_member_metadata_value *a,
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

static uint64_t size_of_classic(const struct consumer_group_member_metadata_value_classic *classic)
{
    uint64_t size = 0;
    for (size_t i = 0; classic != NULL && i < classic->supported_protocols_count; i++) {
        const struct consumer_group_member_metadata_value_protocol *p =
            &classic->supported_protocols[i];
        size += sizeof(*p) + p->name.size + p->metadata.size;
    }
    return size;
}

/* What a member takes that says this. Short texts are no matter: a member that comes back from
 * another host says no more than before. */
static uint64_t size_of(const struct consumer_group_member_metadata_value *v)
{
    const uint64_t texts_size = v->instance_id.size + v->rack_id.size + v->client_id.size +
                                v->client_host.size + v->server_assignor.size;
    uint64_t size = texts_size > MEMBER_SIZE_MIN ? texts_size : MEMBER_SIZE_MIN;
    size += v->subscribed_topic_regex.size + size_of_classic(v->classic_member_metadata);
    for (size_t i = 0; i < v->subscribed_topic_names_count; i++) {
        size += sizeof(struct consumer_topic) + 2 * v->subscribed_topic_names[i].size;
    }
    return size;
}

bool consumer_has_room(const struct group *g,
                       const struct consumer_speaker *who,
                       const struct consumer_group_member_metadata_value *v)
{
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    const uint64_t before = base == NULL ? 0 : size_of(&base->metadata->v);
    return group_memory_has_room(g->c->env->memory, (int64_t)size_of(v) - (int64_t)before);
}

static int compare_names(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* Topics that only this one named, and does not any more. */
static size_t count_dropped(const struct consumer_member *m,
                            const struct consumer_group_member_metadata_value *v)
{
    const struct consumer_group_member_metadata_value *old = &m->metadata->v;
    size_t count = 0;
    for (size_t i = 0; i < old->subscribed_topic_names_count; i++) {
        const struct slice *name = &old->subscribed_topic_names[i];
        const struct consumer_topic *t = consumer_topics_find(m->consumer, *name);
        count += t != NULL && t->subscribers_count == 1 &&
                 (v->subscribed_topic_names_count == 0 || bsearch(name,
                                                                  v->subscribed_topic_names,
                                                                  v->subscribed_topic_names_count,
                                                                  sizeof(*name),
                                                                  compare_names) == NULL);
    }
    return count;
}

bool consumer_has_room_for_names(const struct group *g,
                                 const struct consumer_speaker *who,
                                 const struct consumer_group_member_metadata_value *v)
{
    const struct consumer *c = g->consumer;
    const size_t known = c == NULL ? 0 : c->topics.count;
    if (known + v->subscribed_topic_names_count <= CONSUMER_NAMES_MAX) {
        return true;
    }
    size_t fresh = 0;
    for (size_t i = 0; i < v->subscribed_topic_names_count; i++) {
        const struct slice name = v->subscribed_topic_names[i];
        fresh += c == NULL || consumer_topics_find(c, name) == NULL ? 1 : 0;
    }
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    return fresh == 0 || known + fresh <= CONSUMER_NAMES_MAX ||
           (base != NULL && known + fresh - count_dropped(base, v) <= CONSUMER_NAMES_MAX);
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
static void put_first_progress(struct consumer_beat *b, struct proposal *p)
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
put_replacement(struct consumer_beat *b, struct proposal *p, const struct consumer_member *former)
{
    const struct consumer *c = former->consumer;
    const struct reconcile_input in = {
        .from = &former->progress,
        .target_epoch = c->target_epoch,
        .target = former->target,
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
    struct consumer_beat *b = p->context;
    struct consumer *c = b->g->consumer;
    b->has_news = true;
    member_touch(consumer_find_member(c, b->member_id));
    if (b->is_resolved && b->metadata_changes != b->g->c->metadata_changes) {
        consumer_resolve_on_metadata(c); /* The group was told before it had the pattern. */
    }
    step(b);
}

/* Puts what the member says, where it is new. */
static enum err put_member(struct consumer_beat *b,
                           struct proposal *p,
                           const struct consumer_speaker *who,
                           const struct consumer_group_member_metadata_value *v)
{
    const struct consumer *c = b->g->consumer;
    const struct consumer_member *base = who->member != NULL ? who->member : who->former;
    const bool is_new_group = c == NULL || !c->has_epoch;
    struct consumer_group_member_metadata_value nothing;
    consumer_group_member_metadata_value_init(&nothing);
    const bool is_bumped =
        !consumer_is_subscription_equal(base == NULL ? &nothing : &base->metadata->v, v);
    const int32_t before = is_new_group ? 1 : c->epoch;
    const int32_t epoch = is_bumped ? group_next_epoch(before) : before;
    if (who->former != NULL) {
        const enum err e = put_replacement(b, p, who->former);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (who->member == NULL || !is_metadata_equal(who->member->metadata, v)) {
        consumer_put_metadata(b->g, p, b->member_id, v);
    }
    const struct slice pattern =
        base == NULL ? (struct slice){0} : base->metadata->v.subscribed_topic_regex;
    if (!slice_equal(pattern, v->subscribed_topic_regex)) {
        b->is_resolved = consumer_put_resolved(b->g, p, v->subscribed_topic_regex);
        b->metadata_changes = b->g->c->metadata_changes;
        if (base != NULL) {
            consumer_put_regex_unused(c, p, pattern);
        }
    }
    if (is_new_group || is_bumped) {
        consumer_put_epoch(b->g, p, epoch, is_new_group ? 0 : c->topics_hash);
    }
    if (base == NULL && !is_new_group && !consumer_is_target_due(c, epoch)) {
        put_first_progress(b, p);
    }
    return ERR_OK;
}

void consumer_say(struct consumer_beat *b,
                  const struct consumer_speaker *who,
                  const struct consumer_group_member_metadata_value *v)
{
    struct proposal *p = new_proposal(b, on_member_applied);
    if (p == NULL) {
        return;
    }
    if (b->g->classic != NULL) {
        classic_put_tombstones(b->g, p);
    }
    if (put_member(b, p, who, v) != ERR_OK) {
        proposal_free(p);
        group_refuse(b->g->c, b->call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
    } else if (proposal_is_empty(p)) {
        proposal_free(p);
        step(b);
    } else {
        proposal_submit(p);
    }
}
