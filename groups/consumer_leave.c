#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "core/logger.h"
#include "groups/consumer_priv.h"

enum {
    TEXT_SIZE_MAX = 512,
    TEXT_ID_MAX = 128,
    RETRY_US = 1000 * 1000, /* After a batch that could not be written. */
};

#define SHOWN(text) slice_shown((text), TEXT_ID_MAX), (const char *)(text).data

/* ---- what it takes ---- */

/* Patterns that nobody is left of. */
static void put_unused_regexes(struct consumer *c,
                               struct proposal *p,
                               struct consumer_member *const *members,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct member_metadata *metadata = members[i]->metadata;
        struct consumer_regex *r =
            metadata == NULL ? NULL : consumer_regex_find(c, metadata->v.subscribed_topic_regex);
        if (r != NULL) {
            r->going_count++;
        }
    }
    list_for_each (link, &c->regexes) {
        struct consumer_regex *r = container_of(link, struct consumer_regex, link);
        if (r->is_resolved && r->going_count == r->members_count) {
            consumer_put_regex_tombstone(c->g, p, r->text);
        }
        r->going_count = 0;
    }
}

static void mark_going(struct consumer_member *const *members, size_t count, bool is_going)
{
    for (size_t i = 0; i < count; i++) {
        members[i]->is_going = is_going;
    }
}

void consumer_put_removal(struct consumer *c,
                          struct proposal *p,
                          struct consumer_member *const *members,
                          size_t count)
{
    if (consumer_is_downgrade(c, members, count)) {
        mark_going(members, count, true);
        consumer_put_downgrade(c, p);
        mark_going(members, count, false);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        consumer_put_member_tombstones(p, members[i]);
    }
    put_unused_regexes(c, p, members, count);
    consumer_put_epoch(c->g, p, group_next_epoch(c->epoch), c->topics_hash);
}

/* ---- who is thrown out ---- */

static void retry(struct group_timer *deadline)
{
    group_timer_arm(deadline, deadline->g->c->time.now_us + RETRY_US);
}

/* Where half of the batch was applied the member may be gone, and its deadline with it. */
static void on_fenced(struct proposal *p, enum err e)
{
    if (e == ERR_OK) {
        consumer_on_removed(p->g);
    } else if (p->c->is_active && !p->c->is_broken) {
        retry(p->context);
    }
}

void consumer_fence(struct consumer_member *m, struct group_timer *deadline, const char *reason)
{
    struct consumer *c = m->consumer;
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_fenced);
    if (p == NULL) {
        retry(deadline);
        return;
    }
    log_info(c->g->c->env->log,
             "group_member_fenced",
             "group=%.*s member=%.*s epoch=%" PRId32 " reason=\"%s\"",
             SHOWN(group_id(c->g)),
             SHOWN(member_id(m)),
             m->progress.epoch,
             reason);
    p->context = deadline;
    consumer_put_removal(c, p, &m, 1);
    proposal_submit(p);
}

/* ---- who leaves ---- */

static void answer(struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    struct consumer_group_heartbeat_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        consumer_group_heartbeat_response_init(out);
        out->member_id = group_call_copy(call, in->member_id);
        out->member_epoch = in->member_epoch;
        call->out = out;
    }
}

static void on_left(struct proposal *p, enum err e)
{
    const struct consumer_group_heartbeat_request *in = p->call->in;
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    consumer_on_removed(p->g);
    if (in->member_epoch == MEMBER_EPOCH_AWAY) {
        struct consumer_member *m = consumer_find_member(p->g->consumer, in->member_id);
        member_touch(m);
        member_arm_revocation(m);
    }
    answer(p->call);
    group_answer(p->c, p->call);
}

/* It keeps its partitions until its session is over; what it was asked to give back it has not. */
static void put_away(struct proposal *p, const struct consumer_member *m)
{
    struct member_progress progress = m->progress;
    progress.epoch = MEMBER_EPOCH_AWAY;
    progress.state = MEMBER_STABLE;
    progress.pending = (struct partition_set){0};
    consumer_put_progress(m->consumer->g, p, member_id(m), &progress);
}

static struct consumer_member *find_leaver(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    const bool is_static = !slice_is_null(in->instance_id);
    struct consumer_member *m = is_static ? consumer_find_instance(g->consumer, in->instance_id)
                                          : consumer_find_member(g->consumer, in->member_id);
    enum kafka_error e = KAFKA_UNKNOWN_MEMBER_ID;
    char text[TEXT_SIZE_MAX];
    if (m == NULL && is_static) {
        (void)snprintf(text, sizeof(text), "Instance id %.*s is unknown.", SHOWN(in->instance_id));
    } else if (m == NULL) {
        (void)snprintf(text,
                       sizeof(text),
                       "Member %.*s is not a member of group %.*s.",
                       SHOWN(in->member_id),
                       SHOWN(group_id(g)));
    } else if (!slice_equal(member_id(m), in->member_id)) {
        e = KAFKA_FENCED_INSTANCE_ID;
        (void)snprintf(text,
                       sizeof(text),
                       "Static member %.*s with instance id %.*s was fenced by member %.*s.",
                       SHOWN(in->member_id),
                       SHOWN(in->instance_id),
                       SHOWN(member_id(m)));
    } else {
        return m;
    }
    group_refuse(g->c, call, e, text);
    return NULL;
}

void consumer_leave(struct group *g, struct group_call *call)
{
    const struct consumer_group_heartbeat_request *in = call->in;
    struct consumer_member *m = find_leaver(g, call);
    if (m == NULL) {
        return;
    }
    struct proposal *p = proposal_new(g, PROPOSAL_EXCLUSIVE, on_left);
    if (p == NULL) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, "no memory");
        return;
    }
    p->call = call;
    if (in->member_epoch == MEMBER_EPOCH_AWAY) {
        put_away(p, m);
    } else {
        consumer_put_removal(g->consumer, p, &m, 1);
    }
    proposal_submit(p);
}
