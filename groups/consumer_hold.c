/* Heartbeats that wait for news (docs/decisions/0021). A member asks every few seconds whether
 * there is anything for it. When there is not, and the group is at rest, its heartbeat is kept: it
 * is answered when the target changes for the member, at the latest when the next one would be due.
 * So members hear of a rebalance at once.
 *
 * A kept heartbeat delays nothing: it is answered as soon as its client sends anything else on the
 * connection (group_asks.h), and counts for the session when it comes, not when it is answered.
 * Its member is then asked to come back soon, to wait again: so there is one kept nearly always.
 */
#include "core/assert.h"
#include "groups/consumer_priv.h"

enum {
    US_PER_MS = 1000,
    REST_MS_MIN = 10,
    SOON_MS_MIN = 500,
    WORTH_US = 1000 * 1000, /* Kept so long it was worth coming back. */
    HURRIED_COUNT_MAX = 4,
    RETURNS_PER_MS_MAX = 5, /* Of all members of a core. */
    /* With more members on a shard none is kept: some clients send one per second instead. */
    HELD_MEMBERS_MAX = 10000,
};

bool consumer_may_hold(const struct coordinator_env *env)
{
    return env->settings->is_heartbeat_held && env->memory->members_count <= HELD_MEMBERS_MAX;
}

/* Clients count from when they sent the heartbeat, or from its answer. */
int32_t consumer_hold_rest_ms(struct consumer_member *m, const struct group_call *call)
{
    const struct coordinator_env *env = m->consumer->g->c->env;
    const int32_t ms = consumer_heartbeat_interval_ms(m->consumer, m);
    if (!consumer_may_hold(env) || !consumer_is_settled(m->consumer, m)) {
        return ms;
    }
    const uint64_t kept_us = call->was_kept ? m->consumer->g->c->time.now_us - call->kept_us : 0;
    if (kept_us >= WORTH_US) {
        m->hurried_count = 0;
    }
    if (kept_us >= (uint64_t)ms * US_PER_MS) {
        return REST_MS_MIN;
    }
    const int32_t fair_ms = (int32_t)(env->memory->members_count / RETURNS_PER_MS_MAX);
    const int32_t soon_ms = (fair_ms > SOON_MS_MIN ? fair_ms : SOON_MS_MIN) << m->hurried_count;
    if ((call->was_kept || call->is_hurried) && m->hurried_count < HURRIED_COUNT_MAX) {
        m->hurried_count++;
    }
    return soon_ms < ms ? soon_ms : ms;
}

static struct group_call *take(struct consumer_member *m)
{
    struct group_call *call = m->held;
    m->held = NULL;
    group_timer_cancel(&m->hold);
    return call;
}

void consumer_unhold(struct consumer_member *m)
{
    if (m->held != NULL) {
        group_requeue(m->consumer->g, take(m));
    }
}

void consumer_hold_refuse(struct consumer_member *m, enum kafka_error e)
{
    if (m->held != NULL) {
        group_refuse(m->consumer->g->c, take(m), e, NULL);
    }
}

static void on_due(struct group_timer *t)
{
    consumer_unhold(container_of(t, struct consumer_member, hold));
}

static void on_cancel(struct group_call *call)
{
    consumer_unhold(call->keeper);
}

void consumer_hold_init(struct consumer_member *m)
{
    group_timer_init(&m->hold, m->consumer->g, on_due);
}

void consumer_hold(struct consumer_member *m, struct group_call *call)
{
    assert(m->held == NULL);
    const int32_t ms = consumer_heartbeat_interval_ms(m->consumer, m);
    const uint64_t now_us = m->consumer->g->c->time.now_us;
    m->held = call;
    call->keeper = m;
    call->kept_us = now_us;
    group_keep(call, on_cancel);
    group_timer_arm(&m->hold, now_us + (uint64_t)ms * US_PER_MS);
}

static void wake_member(void *context, struct consumer_member *m)
{
    const struct consumer *c = context;
    if (!consumer_is_settled(c, m)) {
        consumer_unhold(m);
    }
}

void consumer_wake(struct group *g)
{
    struct consumer *c = g->consumer;
    if (c != NULL && c->woken_epoch != c->target_epoch) {
        c->woken_epoch = c->target_epoch;
        consumer_for_each_member(c, wake_member, c);
    }
}
