#include "groups/expiry.h"

#include "core/assert.h"
#include "groups/group.h"
#include "groups/offsets.h"
#include "groups/settings.h"

#define MS_US      UINT64_C(1000)
#define PAUSE_US   UINT64_C(1000)
#define JUMP_MS    INT64_C(60000) /* Less is no jump. */
#define BELIEVE_US UINT64_C(86400000000)

enum {
    STEP_OFFSETS_MAX =
        20000, /* Offsets, groups and subscriptions that are looked at in one turn. */
};

static struct coordinator *coordinator_of(struct expiry *x)
{
    return container_of(x, struct coordinator, expiry);
}

int64_t expiry_now_ms(struct coordinator *c)
{
    struct expiry *x = &c->expiry;
    const int64_t passed_ms = (int64_t)((c->time.now_us - x->base_us) / MS_US);
    const int64_t believed_ms = x->base_wall_ms + passed_ms;
    const bool is_ahead = c->time.wall_ms - believed_ms > JUMP_MS;
    if (is_ahead && x->ahead_since_us == 0) {
        x->ahead_since_us = c->time.now_us;
    }
    if (is_ahead && c->time.now_us - x->ahead_since_us < BELIEVE_US) {
        return believed_ms;
    }
    x->ahead_since_us = 0;
    x->base_us = c->time.now_us;
    x->base_wall_ms = c->time.wall_ms;
    return x->base_wall_ms;
}

static uint32_t look_at_bucket(struct coordinator *c, uint32_t bucket)
{
    uint32_t seen = 1;
    list_for_each (link, &c->groups.buckets[bucket]) {
        seen += offsets_look(group_at(link));
    }
    return seen;
}

/* A table that grows meanwhile moves groups to later buckets only: nobody is left out. */
static void on_due(struct timer *timer)
{
    struct expiry *x = container_of(timer, struct expiry, timer);
    struct coordinator *c = coordinator_of(x);
    uint32_t seen = 0;
    while (x->bucket < c->groups.buckets_count && seen < STEP_OFFSETS_MAX) {
        seen += look_at_bucket(c, x->bucket++);
    }
    uint64_t pause_us = PAUSE_US;
    if (x->bucket == c->groups.buckets_count) {
        x->bucket = 0;
        pause_us = (uint64_t)c->env->settings->offsets_check_ms * MS_US;
    }
    timer_arm(&c->timers, &x->timer, c->time.now_us + pause_us);
}

void expiry_start(struct coordinator *c)
{
    c->expiry = (struct expiry){.base_us = c->time.now_us, .base_wall_ms = c->time.wall_ms};
    timer_init(&c->expiry.timer, on_due);
    const uint64_t interval_us = (uint64_t)c->env->settings->offsets_check_ms * MS_US;
    timer_arm(&c->timers, &c->expiry.timer, c->time.now_us + interval_us);
}

void expiry_stop(struct coordinator *c)
{
    timer_cancel(&c->timers, &c->expiry.timer);
}
