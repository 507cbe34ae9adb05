/* The life of a classic group, and what other modules ask of it. */
#include "groups/classic.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/logger.h"
#include "groups/classic_priv.h"
#include "groups/settings.h"

static struct group_memory *memory_of(const struct classic *c)
{
    return classic_coordinator(c)->env->memory;
}

/* ---- life ---- */

bool classic_text_set(struct classic *c, struct slice *to, struct slice text)
{
    struct slice copy = {0};
    if (!slice_is_null(text)) {
        uint8_t *bytes = malloc(text.size + 1);
        if (bytes == NULL) {
            return false;
        }
        if (text.size > 0) {
            memcpy(bytes, text.data, text.size);
        }
        copy = slice_of(bytes, text.size);
        group_memory_take(memory_of(c), text.size);
    }
    group_memory_give(memory_of(c), to->size);
    free((void *)to->data);
    *to = copy;
    return true;
}

struct classic *classic_get(struct group *g)
{
    if (g->classic != NULL) {
        return g->classic;
    }
    struct classic *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    c->g = g;
    c->is_live = coordinator_is_active(g->c);
    list_init(&c->members);
    group_timer_init(&c->timer, g, classic_on_timer);
    group_memory_take(memory_of(c), sizeof(*c));
    g->classic = c;
    return c;
}

void classic_drop_unused(struct classic *c)
{
    if (c->durable != NULL || c->members_count > 0 || c->pending.count > 0 ||
        c->state != CLASSIC_EMPTY) {
        return;
    }
    struct group *g = c->g;
    classic_forget_live(c, KAFKA_NOT_COORDINATOR);
    group_memory_give(memory_of(c), sizeof(*c));
    g->classic = NULL;
    name_table_done(&c->by_id);
    name_table_done(&c->by_instance);
    name_table_done(&c->pending);
    free(c);
}

/* What a record says of a member is the one protocol that was chosen. Without memory the member is
 * unknown, and comes again. */
static void add_durable_member(struct classic *c, const struct group_metadata_value_member *from)
{
    const struct classic_identity identity = {
        .member_id = from->member_id,
        .instance_id = from->group_instance_id,
        .client_id = from->client_id,
        .client_host = from->client_host,
    };
    const struct slice chosen = c->durable->value.protocol;
    const struct join_group_request_protocol protocol = {
        .name = slice_is_null(chosen) ? slice_of("", 0) : chosen,
        .metadata = from->subscription,
    };
    struct classic_member *m = classic_member_add(
        c, classic_identity_new(c, &identity), classic_protocols_new(c, &protocol, 1));
    if (m == NULL) {
        log_error(classic_coordinator(c)->env->log,
                  "group_member_lost",
                  "group=%s reason=memory",
                  c->g->id);
        return;
    }
    m->session_timeout_ms = from->session_timeout;
    m->rebalance_timeout_ms =
        from->rebalance_timeout < 0 ? from->session_timeout : from->rebalance_timeout;
    classic_member_touch(m);
}

void classic_go_live(struct classic *c)
{
    c->is_live = true;
    if (c->durable == NULL) {
        return;
    }
    const struct group_metadata_value *v = &c->durable->value;
    const int32_t members_max = classic_coordinator(c)->env->settings->members_max;
    c->generation = v->generation;
    (void)classic_text_set(c, &c->protocol_type, v->protocol_type);
    (void)classic_text_set(c, &c->protocol, v->protocol);
    for (size_t i = 0; i < v->members_count; i++) {
        add_durable_member(c, &v->members[i]);
    }
    struct classic_member *leader = classic_member_find(c, v->leader);
    c->leader = leader == NULL ? c->leader : leader;
    c->state = c->members_count == 0 ? CLASSIC_EMPTY : CLASSIC_STABLE;
    if (c->members_count > (uint32_t)members_max) {
        /* Of group.max.size so many come in again. */
        reached(classic_coordinator(c)->env, "classic_too_large_at_start");
        classic_prepare(c);
    }
}

void classic_forget_live(struct classic *c, enum kafka_error e)
{
    list_for_each_safe (link, &c->members) {
        classic_member_remove(classic_member_at(link), e);
    }
    classic_pending_clear(c);
    group_timer_cancel(&c->timer);
    (void)classic_text_set(c, &c->protocol_type, (struct slice){0});
    (void)classic_text_set(c, &c->protocol, (struct slice){0});
    c->state = CLASSIC_EMPTY;
    c->generation = 0;
    c->is_initial = false;
}

void classic_activate(struct group *g)
{
    struct classic *c = g->classic;
    if (c == NULL) {
        return;
    }
    classic_go_live(c);
    if (c->state == CLASSIC_STABLE && slice_is_null(c->durable->value.leader)) {
        /* It became classic, and its members have not all joined since. */
        reached(classic_coordinator(c)->env, "classic_unled_at_start");
        classic_prepare(c);
    }
}

void classic_resign(struct group *g)
{
    struct classic *c = g->classic;
    if (c != NULL) {
        classic_forget_live(c, KAFKA_NOT_COORDINATOR);
        c->is_live = false;
        classic_drop_unused(c);
    }
}

void classic_free(struct group *g)
{
    struct classic *c = g->classic;
    if (c != NULL) {
        classic_record_free(c);
        classic_forget_live(c, KAFKA_REBALANCE_IN_PROGRESS);
        classic_drop_unused(c);
    }
}

/* ---- what others ask ---- */

static enum classic_state state_of(const struct classic *c)
{
    if (c == NULL) {
        return CLASSIC_EMPTY;
    }
    if (c->is_live) {
        return c->state;
    }
    return c->durable->value.members_count == 0 ? CLASSIC_EMPTY : CLASSIC_STABLE;
}

const char *classic_state_name(const struct group *g)
{
    static const char *const NAMES[] = {
        [CLASSIC_EMPTY] = "Empty",
        [CLASSIC_PREPARING] = "PreparingRebalance",
        [CLASSIC_COMPLETING] = "CompletingRebalance",
        [CLASSIC_STABLE] = "Stable",
    };
    return NAMES[state_of(g->classic)];
}

bool classic_has_members(const struct group *g)
{
    const struct classic *c = g->classic;
    if (c == NULL) {
        return false;
    }
    return c->is_live ? c->members_count > 0 : c->durable->value.members_count > 0;
}

struct slice classic_protocol_type(const struct group *g)
{
    const struct classic *c = g->classic;
    struct slice type = {0};
    if (c != NULL) {
        type = c->is_live ? c->protocol_type : c->durable->value.protocol_type;
    }
    return slice_is_null(type) ? slice_of("", 0) : type;
}

int64_t classic_empty_since_ms(const struct group *g)
{
    const struct classic *c = g->classic;
    if (c == NULL || c->durable == NULL || c->durable->value.members_count > 0 ||
        classic_has_members(g)) {
        return -1;
    }
    return c->durable->value.current_state_timestamp;
}

/* ---- for tests ---- */

static void check_member(const struct classic *c, const struct classic_member *m)
{
    assert(m->classic == c);
    assert(!m->is_joining || c->state == CLASSIC_PREPARING);
    assert(!m->is_syncing || c->state == CLASSIC_COMPLETING);
    assert(!m->is_sync_due || c->state == CLASSIC_COMPLETING || c->state == CLASSIC_STABLE);
    assert(m->join == NULL || m->is_joining);
    assert(m->sync == NULL || m->is_syncing);
    assert(classic_member_find(c, m->identity->member_id) == m);
    assert(classic_pending_find(c, m->identity->member_id) == NULL);
    /* It is heard of, or waits for others. */
    assert(timer_is_armed(&m->session.timer) || !list_is_empty(&m->session.due_link) ||
           m->is_joining || m->is_syncing);
    if (c->state == CLASSIC_STABLE) {
        assert(classic_record_member(c, m->identity->member_id) != NULL);
    }
}

static void check_live(const struct classic *c)
{
    uint32_t members_count = 0;
    uint32_t joining_count = 0;
    bool has_leader = false;
    list_for_each (link, &c->members) {
        const struct classic_member *m = classic_member_at(link);
        check_member(c, m);
        members_count++;
        joining_count += m->is_joining ? 1 : 0;
        has_leader = has_leader || m == c->leader;
    }
    assert_cmp(members_count, ==, c->members_count);
    assert_cmp(joining_count, ==, c->joining_count);
    assert(has_leader == (c->leader != NULL));
    assert(has_leader == (c->members_count > 0));
    assert((c->state == CLASSIC_EMPTY) <= (c->members_count == 0));
    assert(c->state != CLASSIC_STABLE || c->generation == c->durable->value.generation);
    /* Every phase that waits ends some time. */
    assert(c->state != CLASSIC_PREPARING || c->g->is_changing || timer_is_armed(&c->timer.timer) ||
           !list_is_empty(&c->timer.due_link));
    assert(c->leaving == NULL);
}

void classic_check(const struct group *g)
{
    const struct classic *c = g->classic;
    if (c == NULL) {
        return;
    }
    assert(c->g == g);
    assert_cmp(c->is_live, ==, coordinator_is_active(g->c));
    if (c->is_live) {
        check_live(c);
    } else {
        assert(c->durable != NULL);
        assert(list_is_empty(&c->members) && c->pending.count == 0);
    }
}
