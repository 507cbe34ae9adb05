/* Heartbeats that wait for news (docs/decisions/0021). A member asks every few seconds whether
 * there is anything for it. When there is not, its heartbeat is kept: it is answered when the
 * target changes for the member, or when others give back what it waits for, at the latest a little
 * before the next one would be due or its client gave it up. So members hear of a rebalance at
 * once.
 *
 * A kept heartbeat delays nothing: it is answered as soon as its client sends anything else on the
 * connection (group_asks.h), and counts for the session when it comes, not when it is answered.
 * Its member is then asked to come back soon, to wait again: so there is one kept nearly always.
 */
#include "core/assert.h"
#include "groups/consumer_priv.h"

enum {
    US_PER_MS = 1000,
    SOON_MS_MIN = 500,
    SOON_MS_MIN_IMPATIENT = 1000,
    WORTH_US = 1000 * 1000, /* Kept so long it was worth coming back. */
    HURRIED_COUNT_MAX = 4,
    IMPATIENT_COUNT = 4,
    GIVEN_UP_COUNT_MAX = 12, /* Then it is for hours. */
    HOLD_MS_MAX = 8000,      /* franz-go waits 10 s for any answer, whatever the interval. */
    RETURNS_PER_MS_MAX = 5,  /* Of all members of a core. */
    LOOK_US_PER_MEMBER = 10, /* Between two looks for who waits for what was given back. */
    /* With more members on a shard none is kept: some clients send one per second instead. */
    HELD_MEMBERS_MAX = 10000,
};

bool consumer_may_hold(const struct coordinator_env *env)
{
    return env->settings->is_heartbeat_held && env->memory->members_count <= HELD_MEMBERS_MAX;
}

/* It could not be kept for its time: there was news, or its client is gone, or sent more. */
static bool was_cut_short(const struct group_call *call)
{
    return (call->was_kept && !call->is_due) || call->is_hurried;
}

/* Its client may give a heartbeat up soon: it is of such a kind, or it did so not long ago. */
static bool is_impatient(const struct consumer_member *m, const struct group_call *call)
{
    return call->is_impatient || m->to_wait_count > 0;
}

/* Clients count from when they sent the heartbeat; from its answer, if they always do so or it
 * tells another interval than the one before did. So it is the same one as long as can be. */
static int32_t soon_ms(struct consumer_member *m, const struct group_call *call)
{
    const struct coordinator_env *env = m->consumer->g->c->env;
    const uint64_t kept_us = call->was_kept ? m->consumer->g->c->time.now_us - call->kept_us : 0;
    if (kept_us >= WORTH_US || call->is_due) {
        m->hurried_count = 0;
    }
    const int32_t least_ms = is_impatient(m, call) ? SOON_MS_MIN_IMPATIENT : SOON_MS_MIN;
    const int32_t fair_ms = (int32_t)(env->memory->members_count / RETURNS_PER_MS_MAX);
    const int32_t ms = (fair_ms > least_ms ? fair_ms : least_ms) << m->hurried_count;
    if (was_cut_short(call) && m->hurried_count < HURRIED_COUNT_MAX) {
        m->hurried_count++;
    }
    return ms;
}

int32_t consumer_hold_rest_ms(struct consumer_member *m, const struct group_call *call)
{
    const struct consumer *c = m->consumer;
    int32_t ms = consumer_heartbeat_interval_ms(c, m);
    if (consumer_may_hold(c->g->c->env) && consumer_is_settled(c, m)) {
        const int32_t sooner_ms = soon_ms(m, call);
        ms = sooner_ms < ms ? sooner_ms : ms;
    }
    m->told_interval_ms = was_cut_short(call) ? 0 : ms; /* Its client may have given it up. */
    return ms;
}

/* A little less than the client waits for: one is answered before it is given up, and before a
 * commit comes that is due after the same interval. */
int32_t consumer_hold_ms(const struct consumer_member *m, const struct group_call *call)
{
    if (is_impatient(m, call)) { /* What is told while something moves is no time to wait in. */
        return consumer_is_settled(m->consumer, m) ? m->told_interval_ms / 2 : 0;
    }
    const int32_t interval_ms = consumer_intervals(m->consumer).heartbeat_interval_ms;
    const int32_t ms =
        interval_ms - (interval_ms > 2 * SOON_MS_MIN ? SOON_MS_MIN : interval_ms / 4);
    return ms < HOLD_MS_MAX ? ms : HOLD_MS_MAX;
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
    struct consumer_member *m = container_of(t, struct consumer_member, hold);
    m->held->is_due = true;
    m->to_wait_count -= m->to_wait_count > 0;
    consumer_unhold(m);
}

/* A connection may end for other reasons: so it is patient again when some were kept for their
 * time, but twice as many each time. */
static void note_given_up(struct consumer_member *m)
{
    if (m->given_up_count < GIVEN_UP_COUNT_MAX) {
        m->given_up_count++;
    }
    m->to_wait_count = (uint32_t)IMPATIENT_COUNT << m->given_up_count;
}

static void on_cancel(struct group_call *call)
{
    struct consumer_member *m = call->keeper;
    if (call->is_client_gone) {
        note_given_up(m);
    }
    consumer_unhold(m);
}

void consumer_hold_init(struct consumer_member *m)
{
    group_timer_init(&m->hold, m->consumer->g, on_due);
}

void consumer_hold(struct consumer_member *m, struct group_call *call)
{
    assert(m->held == NULL);
    const uint64_t now_us = m->consumer->g->c->time.now_us;
    m->held = call;
    call->keeper = m;
    call->kept_us = now_us;
    group_keep(call, on_cancel);
    group_timer_arm(&m->hold, now_us + (uint64_t)consumer_hold_ms(m, call) * US_PER_MS);
}

/* ---- news ---- */

static void wake_member(void *context, struct consumer_member *m)
{
    const struct consumer *c = context;
    if (!consumer_is_settled(c, m)) {
        consumer_unhold(m);
    }
}

static void wake_waiting(void *context, struct consumer_member *m)
{
    (void)context;
    if (m->held != NULL && m->progress.state == MEMBER_UNRELEASED && consumer_is_any_free(m)) {
        consumer_unhold(m);
    }
}

static void on_release_due(struct group_timer *t)
{
    struct consumer *c = t->g->consumer;
    c->next_release_us = c->g->c->time.now_us + (uint64_t)c->members.count * LOOK_US_PER_MEMBER;
    consumer_for_each_member(c, wake_waiting, NULL);
}

void consumer_hold_init_group(struct consumer *c)
{
    c->is_released = false;
    group_timer_init(&c->release, c->g, on_release_due);
}

void consumer_hold_done_group(struct consumer *c)
{
    group_timer_cancel(&c->release);
}

void consumer_wake(struct group *g)
{
    struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    if (c->woken_epoch != c->target_epoch) {
        c->woken_epoch = c->target_epoch;
        consumer_for_each_member(c, wake_member, c);
    }
    if (c->is_released && g->c->is_active && consumer_may_hold(g->c->env)) {
        const uint64_t now_us = g->c->time.now_us;
        c->is_released = false;
        group_timer_arm(&c->release, now_us > c->next_release_us ? now_us : c->next_release_us);
    }
}
