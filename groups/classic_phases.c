/* The states of a classic group: how a rebalance goes. */
#include "core/assert.h"
#include "groups/classic_priv.h"
#include "groups/settings.h"

static const struct groups_settings *settings_of(const struct classic *c)
{
    return classic_coordinator(c)->env->settings;
}

static void arm(struct classic *c, int32_t ms)
{
    const uint64_t wait_ms = ms < 0 ? 0 : (uint64_t)ms;
    group_timer_arm(&c->timer, classic_coordinator(c)->time.now_us + wait_ms * 1000);
}

static int32_t rebalance_timeout_ms(const struct classic *c)
{
    int32_t ms = 0;
    list_for_each (link, &c->members) {
        const struct classic_member *m = classic_member_at(link);
        ms = m->rebalance_timeout_ms > ms ? m->rebalance_timeout_ms : ms;
    }
    return ms;
}

/* ---- protocols ---- */

static bool do_all_speak(const struct classic *c, struct slice protocol)
{
    list_for_each (link, &c->members) {
        if (slice_is_null(
                classic_protocols_metadata(classic_member_at(link)->protocols, protocol))) {
            return false;
        }
    }
    return true;
}

bool classic_fits(const struct classic *c, const struct join_group_request *in)
{
    if (c->members_count == 0) {
        return true;
    }
    bool is_common = false;
    for (size_t i = 0; i < in->protocols_count && !is_common; i++) {
        is_common = do_all_speak(c, in->protocols[i].name);
    }
    return is_common && slice_equal(c->protocol_type, in->protocol_type);
}

/* A member votes for the first in its order that all speak. */
static void
vote(const struct classic_member *m, const struct slice *common, size_t count, uint32_t *votes)
{
    for (size_t i = 0; i < m->protocols->count; i++) {
        for (size_t j = 0; j < count; j++) {
            if (slice_equal(m->protocols->items[i].name, common[j])) {
                votes[j]++;
                return;
            }
        }
    }
}

struct slice classic_select_protocol(const struct classic *c)
{
    struct slice common[CLASSIC_PROTOCOLS_MAX];
    uint32_t votes[CLASSIC_PROTOCOLS_MAX] = {0};
    size_t count = 0;
    if (c->members_count == 0) {
        return (struct slice){0};
    }
    const struct classic_protocols *first = classic_member_at(c->members.next)->protocols;
    for (size_t i = 0; i < first->count && count < CLASSIC_PROTOCOLS_MAX; i++) {
        if (do_all_speak(c, first->items[i].name)) {
            common[count++] = first->items[i].name;
        }
    }
    list_for_each (link, &c->members) {
        vote(classic_member_at(link), common, count, votes);
    }
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        best = votes[i] > votes[best] ? i : best;
    }
    return count == 0 ? (struct slice){0} : common[best];
}

/* ---- the end of the join phase ---- */

static void on_emptied(struct classic *c, enum err e)
{
    struct coordinator *coordinator = classic_coordinator(c);
    if (e == ERR_OK) {
        c->state = CLASSIC_EMPTY;
        c->generation = c->durable->value.generation;
        (void)classic_text_set(c, &c->protocol, (struct slice){0});
        group_timer_cancel(&c->timer);
    } else {
        reached(coordinator->env, "classic_not_emptied");
        arm(c, CLASSIC_RETRY_MS);
    }
    struct group_call *leave = c->write.call;
    if (leave != NULL && e == ERR_OK) {
        group_answer(coordinator, leave);
    } else if (leave != NULL) {
        group_refuse(coordinator, leave, proposal_error(e), NULL);
    }
}

static void remove_who_did_not_join(struct classic *c)
{
    list_for_each_safe (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        if (!m->is_joining && slice_is_null(m->identity->instance_id)) {
            classic_member_remove(m, KAFKA_UNKNOWN_MEMBER_ID);
        }
    }
}

/* Stays with the leader if that is there. NULL if nobody is. */
static struct classic_member *elect_leader(const struct classic *c)
{
    if (c->leader != NULL && c->leader->is_joining) {
        return c->leader;
    }
    list_for_each (link, &c->members) {
        if (classic_member_at(link)->is_joining) {
            return classic_member_at(link);
        }
    }
    return NULL;
}

static void answer_joins(struct classic *c)
{
    list_for_each (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        struct group_call *call = classic_member_take_join(m);
        if (call != NULL) {
            const struct classic_joined joined = {
                .member = m,
                .leader = c->leader->identity->member_id,
                .has_members = m == c->leader,
            };
            classic_answer_join(c, call, &joined);
        }
        classic_member_touch(m);
        m->is_new = false;
        m->is_sync_due = true;
    }
}

/* Whoever is not there by now, is not in the next generation; but static members have their session
 * to come back. */
static void complete_join(struct classic *c)
{
    assert(c->state == CLASSIC_PREPARING);
    group_timer_cancel(&c->timer);
    c->is_initial = false;
    remove_who_did_not_join(c);
    if (c->members_count == 0) {
        const struct classic_write write = {.on_done = on_emptied, .call = c->leaving};
        c->leaving = NULL;
        classic_write_empty(c, &write);
        return;
    }
    struct classic_member *leader = elect_leader(c);
    if (leader == NULL || !classic_text_set(c, &c->protocol, classic_select_protocol(c))) {
        reached(classic_coordinator(c)->env, "classic_nobody_rejoined");
        arm(c, rebalance_timeout_ms(c));
        return;
    }
    c->leader = leader;
    c->generation = group_next_epoch(c->generation);
    c->state = CLASSIC_COMPLETING;
    classic_coordinator(c)->env->counters->rebalances++;
    answer_joins(c);
    arm(c, rebalance_timeout_ms(c));
}

static bool are_all_there(const struct classic *c)
{
    return c->joining_count == c->members_count && c->pending.count == 0;
}

/* ---- the begin of one ---- */

static void begin_initial_delay(struct classic *c)
{
    const int32_t delay_ms = settings_of(c)->initial_delay_ms;
    const int32_t whole_ms = rebalance_timeout_ms(c);
    c->is_initial = true;
    c->is_member_added = false;
    c->initial_left_ms = whole_ms > delay_ms ? whole_ms - delay_ms : 0;
    arm(c, delay_ms);
}

/* Again while members keep coming, but not for longer than they want to wait. */
static void on_initial_delay_over(struct classic *c)
{
    if (!c->is_member_added || c->initial_left_ms == 0) {
        complete_join(c);
        return;
    }
    const int32_t delay_ms = settings_of(c)->initial_delay_ms;
    const int32_t more_ms = delay_ms < c->initial_left_ms ? delay_ms : c->initial_left_ms;
    c->is_member_added = false;
    c->initial_left_ms -= more_ms;
    arm(c, more_ms);
}

void classic_prepare(struct classic *c)
{
    assert(c->state != CLASSIC_PREPARING);
    const enum classic_state before = c->state;
    c->state = CLASSIC_PREPARING;
    c->is_initial = false;
    list_for_each (link, &c->members) {
        classic_member_at(link)->is_sync_due = false;
    }
    if (before == CLASSIC_EMPTY) {
        begin_initial_delay(c);
        return;
    }
    classic_refuse_syncs(c, KAFKA_REBALANCE_IN_PROGRESS);
    if (are_all_there(c)) {
        complete_join(c);
    } else {
        arm(c, rebalance_timeout_ms(c));
    }
}

void classic_on_changed(struct classic *c)
{
    if (c->state != CLASSIC_PREPARING) {
        classic_prepare(c);
    } else if (!c->is_initial && are_all_there(c)) {
        complete_join(c);
    }
}

/* ---- after it ---- */

void classic_stop_waiting_for_syncs(struct classic *c)
{
    list_for_each (link, &c->members) {
        if (classic_member_at(link)->is_sync_due) {
            return;
        }
    }
    group_timer_cancel(&c->timer);
}

static void remove_who_did_not_sync(struct classic *c)
{
    bool is_changed = false;
    list_for_each_safe (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        if (m->is_sync_due) {
            classic_member_remove(m, KAFKA_UNKNOWN_MEMBER_ID);
            is_changed = true;
        }
    }
    if (is_changed) {
        reached(classic_coordinator(c)->env, "classic_never_synced");
        classic_on_changed(c);
    }
}

void classic_on_timer(struct group_timer *t)
{
    struct classic *c = container_of(t, struct classic, timer);
    if (c->state != CLASSIC_PREPARING) {
        remove_who_did_not_sync(c);
    } else if (c->is_initial) {
        on_initial_delay_over(c);
    } else {
        complete_join(c);
    }
}
