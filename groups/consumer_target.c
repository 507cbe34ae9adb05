#include "core/assert.h"
#include "groups/consumer_priv.h"

enum {
    USEC_PER_MS = 1000,
    RETRY_US = 1000 * USEC_PER_MS, /* After a batch that could not be written. */
};

/* ---- when ---- */

static uint64_t next_target_us(const struct consumer *c)
{
    if (!c->is_paced || c->members.count <= 1) {
        return c->g->c->time.now_us; /* Nobody to wait for. */
    }
    return c->target_us + (uint64_t)consumer_intervals(c).assignment_interval_ms * USEC_PER_MS;
}

bool consumer_is_target_due(const struct consumer *c, int32_t epoch)
{
    return group_epoch_is_later(epoch, c->target_epoch) &&
           next_target_us(c) <= c->g->c->time.now_us;
}

void consumer_schedule_target(struct consumer *c)
{
    if (group_epoch_is_later(c->epoch, c->target_epoch) && c->members.count > 0) {
        group_timer_arm(&c->assign, next_target_us(c));
    } else {
        group_timer_cancel(&c->assign);
    }
}

static void retry(struct group_timer *t)
{
    group_timer_arm(t, t->g->c->time.now_us + RETRY_US);
}

static void on_target_applied(struct proposal *p, enum err e)
{
    struct consumer *c = p->g->consumer;
    if (c == NULL) {
        return;
    }
    if (e == ERR_OK) {
        consumer_schedule_target(c);
    } else if (p->c->is_active) {
        retry(&c->assign);
    }
}

static enum err propose_target(struct consumer *c)
{
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_target_applied);
    if (p == NULL) {
        return ERR_BUSY;
    }
    struct arena a;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    const enum err e = consumer_put_new_target(c, p, &a, NULL, NULL);
    arena_done(&a);
    if (e == ERR_OK) {
        proposal_submit(p);
    } else {
        proposal_free(p);
    }
    return e;
}

static void on_assign_due(struct group_timer *t)
{
    struct consumer *c = t->g->consumer;
    if (c->members.count == 0 || !consumer_is_target_due(c, c->epoch)) {
        consumer_schedule_target(c);
    } else if (propose_target(c) != ERR_OK) {
        retry(t);
    }
}

/* ---- topics that changed ---- */

static void on_refreshed(struct proposal *p, enum err e)
{
    struct consumer *c = p->g->consumer;
    if (c == NULL) {
        return;
    }
    if (e == ERR_OK) {
        consumer_schedule_target(c);
    } else if (p->c->is_active) {
        retry(&c->refresh);
    }
}

/* A target that is still to be computed takes the topics as they are then. */
static void on_refresh_due(struct group_timer *t)
{
    struct consumer *c = t->g->consumer;
    if (c->members.count == 0 || c->epoch != c->target_epoch) {
        return;
    }
    const int64_t hash = consumer_topics_hash(c);
    if (hash == c->topics_hash) {
        return;
    }
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_refreshed);
    if (p == NULL) {
        retry(t);
        return;
    }
    consumer_put_epoch(c->g, p, group_next_epoch(c->epoch), hash);
    proposal_submit(p);
}

void consumer_on_topics_changed(struct consumer *c)
{
    if (c->members.count > 0) {
        group_timer_arm(&c->refresh, c->g->c->time.now_us);
    }
}

void consumer_on_metadata(struct group *g)
{
    if (g->consumer != NULL) {
        consumer_on_topics_changed(g->consumer);
        consumer_resolve_on_metadata(g->consumer);
    }
}

void consumer_target_init(struct consumer *c)
{
    c->is_paced = false;
    group_timer_init(&c->assign, c->g, on_assign_due);
    group_timer_init(&c->refresh, c->g, on_refresh_due);
}

void consumer_target_done(struct consumer *c)
{
    group_timer_cancel(&c->assign);
    group_timer_cancel(&c->refresh);
}

/* ---- what ---- */

static enum err put_targets(struct target_draft *draft,
                            struct proposal *p,
                            const struct consumer_member *m,
                            struct partition_set *ret_target)
{
    for (size_t i = 0; i < draft->group.members_count; i++) {
        const struct consumer_member *of = draft->members[i];
        struct partition_set target;
        if (!target_draft_result(draft, i, &target)) {
            return ERR_BUSY;
        }
        if (!partition_set_equal(&target, &of->target)) {
            consumer_put_target(of->consumer->g, p, member_id(of), &target);
        }
        if (ret_target != NULL && of == m) {
            *ret_target = target;
        }
    }
    return ERR_OK;
}

enum err consumer_put_new_target(struct consumer *c,
                                 struct proposal *p,
                                 struct arena *a,
                                 const struct consumer_member *m,
                                 struct partition_set *ret_target)
{
    c->is_paced = true;
    c->target_us = c->g->c->time.now_us;
    struct target_draft draft;
    enum err e = target_draft_make(&draft, c, a);
    if (e == ERR_OK) {
        e = put_targets(&draft, p, m, ret_target);
    }
    if (e != ERR_OK) {
        return ERR_BUSY;
    }
    const int64_t hash = consumer_topics_hash(c);
    if (hash != c->topics_hash) {
        consumer_put_epoch(c->g, p, c->epoch, hash);
    }
    consumer_put_target_epoch(c->g, p, c->epoch);
    return ERR_OK;
}
