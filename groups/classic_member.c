/* Members of the classic protocol: who they are, what they speak, what they wait for. */
#include <stdlib.h>
#include <string.h>

#include "groups/classic_priv.h"

static struct group_memory *memory_of(const struct classic *c)
{
    return classic_coordinator(c)->env->memory;
}

static uint64_t deadline_us(const struct classic *c, int32_t ms)
{
    const uint64_t wait_ms = ms < 0 ? 0 : (uint64_t)ms;
    return classic_coordinator(c)->time.now_us + wait_ms * 1000;
}

/* ---- who ---- */

/* Copies text to *at and moves that on; null stays null. */
static struct slice put_text(uint8_t **at, struct slice text)
{
    if (slice_is_null(text)) {
        return text;
    }
    uint8_t *to = *at;
    if (text.size > 0) {
        memcpy(to, text.data, text.size);
    }
    *at += text.size;
    return slice_of(to, text.size);
}

struct classic_identity *classic_identity_new(struct classic *c, const struct classic_identity *of)
{
    const size_t size = sizeof(struct classic_identity) + of->member_id.size +
                        of->instance_id.size + of->client_id.size + of->client_host.size + 1;
    struct classic_identity *i = malloc(size);
    if (i == NULL) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)(i + 1);
    i->charged = size;
    i->member_id = put_text(&at, of->member_id);
    i->instance_id = put_text(&at, of->instance_id);
    i->client_id = put_text(&at, of->client_id);
    i->client_host = put_text(&at, of->client_host);
    group_memory_take(memory_of(c), size);
    return i;
}

void classic_identity_free(struct classic *c, struct classic_identity *i)
{
    if (i != NULL) {
        group_memory_give(memory_of(c), i->charged);
        free(i);
    }
}

/* ---- what ---- */

size_t classic_said_size(const struct join_group_request_protocol *items, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += items[i].name.size + items[i].metadata.size;
    }
    return size;
}

struct classic_protocols *classic_protocols_new(struct classic *c,
                                                const struct join_group_request_protocol *items,
                                                size_t count)
{
    const size_t said_size = classic_said_size(items, count);
    struct classic_protocols *p = NULL;
    const size_t size = sizeof(*p) + count * sizeof(p->items[0]) + said_size + 1;
    p = malloc(size);
    if (p == NULL) {
        return NULL;
    }
    p->charged = size;
    p->said_size = said_size;
    p->count = count;
    uint8_t *at = (uint8_t *)&p->items[count];
    for (size_t i = 0; i < count; i++) {
        const struct slice metadata = items[i].metadata;
        p->items[i].name = put_text(&at, items[i].name);
        /* Null means that it is not spoken. */
        p->items[i].metadata = put_text(&at, slice_is_null(metadata) ? slice_of("", 0) : metadata);
    }
    group_memory_take(memory_of(c), size);
    return p;
}

void classic_protocols_free(struct classic *c, struct classic_protocols *p)
{
    if (p != NULL) {
        group_memory_give(memory_of(c), p->charged);
        free(p);
    }
}

struct slice classic_protocols_metadata(const struct classic_protocols *p, struct slice name)
{
    for (size_t i = 0; i < p->count; i++) {
        if (slice_equal(p->items[i].name, name)) {
            return p->items[i].metadata;
        }
    }
    return (struct slice){0};
}

bool classic_protocols_match(const struct classic_protocols *p, const struct join_group_request *in)
{
    for (size_t i = 0; i < p->count && i < in->protocols_count; i++) {
        if (!slice_equal(p->items[i].name, in->protocols[i].name) ||
            !slice_equal(p->items[i].metadata, in->protocols[i].metadata)) {
            return false;
        }
    }
    return p->count == in->protocols_count;
}

/* ---- the members of a group ---- */

static uint64_t hash_of(const struct classic *c, struct slice name)
{
    return hash_bytes(classic_coordinator(c)->env->hash_seed, name.data, name.size);
}

struct classic_member *classic_member_find(const struct classic *c, struct slice member_id)
{
    const uint64_t hash = hash_of(c, member_id);
    list_for_each (link, name_table_bucket(&c->by_id, hash)) {
        struct classic_member *m = container_of(name_link_at(link), struct classic_member, by_id);
        if (m->by_id.hash == hash && slice_equal(m->identity->member_id, member_id)) {
            return m;
        }
    }
    return NULL;
}

struct classic_member *classic_member_find_instance(const struct classic *c, struct slice instance)
{
    const uint64_t hash = hash_of(c, instance);
    list_for_each (link, name_table_bucket(&c->by_instance, hash)) {
        struct classic_member *m =
            container_of(name_link_at(link), struct classic_member, by_instance);
        if (m->by_instance.hash == hash && slice_equal(m->identity->instance_id, instance)) {
            return m;
        }
    }
    return NULL;
}

/* False without memory; it is then in no table. */
static bool enter(struct classic_member *m)
{
    struct classic *c = m->classic;
    const struct classic_identity *i = m->identity;
    enum err e = name_table_add(&c->by_id, &m->by_id, hash_of(c, i->member_id));
    if (e == ERR_OK && !slice_is_null(i->instance_id)) {
        e = name_table_add(&c->by_instance, &m->by_instance, hash_of(c, i->instance_id));
    }
    if (e != ERR_OK) {
        name_table_remove(&c->by_id, &m->by_id);
    }
    return e == ERR_OK;
}

static void leave(struct classic_member *m)
{
    name_table_remove(&m->classic->by_id, &m->by_id);
    name_table_remove(&m->classic->by_instance, &m->by_instance);
}

struct classic_identity *classic_member_rename(struct classic_member *m,
                                               struct classic_identity *identity)
{
    struct classic_identity *before = m->identity;
    leave(m);
    m->identity = identity;
    const bool is_entered = enter(m);
    assert(is_entered); /* The tables have their buckets: it was in them. */
    return before;
}

enum kafka_error classic_member_check(const struct classic *c,
                                      struct slice member_id,
                                      struct slice instance_id,
                                      struct classic_member **ret_member)
{
    struct classic_member *m = NULL;
    if (!slice_is_null(instance_id)) {
        m = classic_member_find_instance(c, instance_id);
        if (m != NULL && !slice_equal(m->identity->member_id, member_id)) {
            return KAFKA_FENCED_INSTANCE_ID;
        }
    } else {
        m = classic_member_find(c, member_id);
    }
    if (m == NULL) {
        return KAFKA_UNKNOWN_MEMBER_ID;
    }
    *ret_member = m;
    return KAFKA_NONE;
}

/* Who waits for others is not expected to be heard of; but a new member is not kept for ever. */
static void on_session_over(struct group_timer *t)
{
    struct classic_member *m = container_of(t, struct classic_member, session);
    struct classic *c = m->classic;
    if ((m->is_joining || m->is_syncing) && !m->is_new) {
        return;
    }
    classic_member_remove(m, KAFKA_UNKNOWN_MEMBER_ID);
    classic_on_changed(c);
}

struct classic_member *classic_member_add(struct classic *c,
                                          struct classic_identity *identity,
                                          struct classic_protocols *protocols)
{
    struct classic_member *m = identity == NULL || protocols == NULL ? NULL : calloc(1, sizeof(*m));
    if (m == NULL) {
        classic_identity_free(c, identity);
        classic_protocols_free(c, protocols);
        return NULL;
    }
    list_init(&m->link);
    list_init(&m->by_id.link);
    list_init(&m->by_instance.link);
    m->classic = c;
    m->identity = identity;
    m->protocols = protocols;
    if (!enter(m)) {
        classic_identity_free(c, identity);
        classic_protocols_free(c, protocols);
        free(m);
        return NULL;
    }
    group_timer_init(&m->session, c->g, on_session_over);
    list_push_back(&c->members, &m->link);
    c->members_count++;
    memory_of(c)->members_count++;
    group_memory_take(memory_of(c), sizeof(*m));
    if (c->leader == NULL) {
        c->leader = m;
    }
    return m;
}

void classic_member_remove(struct classic_member *m, enum kafka_error e)
{
    struct classic *c = m->classic;
    classic_member_refuse(m, e);
    group_timer_cancel(&m->session);
    leave(m);
    list_remove(&m->link);
    c->members_count--;
    memory_of(c)->members_count--;
    if (c->leader == m) {
        c->leader = c->members_count == 0 ? NULL : classic_member_at(c->members.next);
    }
    classic_identity_free(c, m->identity);
    classic_protocols_free(c, m->protocols);
    group_memory_give(memory_of(c), sizeof(*m));
    free(m);
}

void classic_member_touch(struct classic_member *m)
{
    group_timer_arm(&m->session, deadline_us(m->classic, m->session_timeout_ms));
}

/* ---- what they wait for ---- */

struct group_call *classic_member_take_join(struct classic_member *m)
{
    struct group_call *call = m->join;
    if (m->is_joining) {
        m->classic->joining_count--;
    }
    m->is_joining = false;
    m->join = NULL;
    return call;
}

struct group_call *classic_member_take_sync(struct classic_member *m)
{
    struct group_call *call = m->sync;
    m->is_syncing = false;
    m->sync = NULL;
    return call;
}

static void refuse(const struct classic_member *m, struct group_call *call, enum kafka_error e)
{
    if (call != NULL) {
        group_refuse(classic_coordinator(m->classic), call, e, NULL);
    }
}

void classic_member_refuse(struct classic_member *m, enum kafka_error e)
{
    refuse(m, classic_member_take_join(m), e);
    refuse(m, classic_member_take_sync(m), e);
}

/* The connection is gone. Its member is kept as it is. */
static void on_cancelled(struct group_call *call)
{
    struct classic *c = call->group->classic;
    list_for_each (link, &c->members) {
        struct classic_member *m = classic_member_at(link);
        m->join = m->join == call ? NULL : m->join;
        m->sync = m->sync == call ? NULL : m->sync;
    }
    group_refuse(classic_coordinator(c), call, KAFKA_REBALANCE_IN_PROGRESS, NULL);
}

void classic_member_keep_join(struct classic_member *m, struct group_call *call)
{
    /* What it asked before, on another connection. */
    classic_member_refuse(m, KAFKA_REBALANCE_IN_PROGRESS);
    m->is_joining = true;
    m->join = call;
    m->classic->joining_count++;
    call->group = m->classic->g;
    group_keep(call, on_cancelled);
}

void classic_member_keep_sync(struct classic_member *m, struct group_call *call)
{
    classic_member_refuse(m, KAFKA_REBALANCE_IN_PROGRESS);
    m->is_syncing = true;
    m->sync = call;
    call->group = m->classic->g;
    group_keep(call, on_cancelled);
}

/* ---- ids that were given out ---- */

static struct classic_pending *pending_at(struct list *link)
{
    return container_of(name_link_at(link), struct classic_pending, by_id);
}

struct classic_pending *classic_pending_find(const struct classic *c, struct slice member_id)
{
    const uint64_t hash = hash_of(c, member_id);
    list_for_each (link, name_table_bucket(&c->pending, hash)) {
        struct classic_pending *p = pending_at(link);
        if (p->by_id.hash == hash && slice_equal(p->id, member_id)) {
            return p;
        }
    }
    return NULL;
}

static void on_pending_over(struct group_timer *t)
{
    struct classic_pending *p = container_of(t, struct classic_pending, timer);
    struct classic *c = p->classic;
    classic_pending_remove(p);
    if (c->state == CLASSIC_PREPARING) {
        classic_on_changed(c);
    }
    classic_drop_unused(c);
}

bool classic_pending_add(struct classic *c, struct slice member_id, int32_t session_timeout_ms)
{
    struct classic_pending *p = malloc(sizeof(*p) + member_id.size);
    if (p == NULL) {
        return false;
    }
    uint8_t *at = (uint8_t *)(p + 1);
    p->id = put_text(&at, member_id);
    p->classic = c;
    list_init(&p->by_id.link);
    if (name_table_add(&c->pending, &p->by_id, hash_of(c, member_id)) != ERR_OK) {
        free(p);
        return false;
    }
    group_timer_init(&p->timer, c->g, on_pending_over);
    group_timer_arm(&p->timer, deadline_us(c, session_timeout_ms));
    memory_of(c)->members_count++;
    group_memory_take(memory_of(c), sizeof(*p) + member_id.size);
    return true;
}

void classic_pending_remove(struct classic_pending *p)
{
    struct classic *c = p->classic;
    group_timer_cancel(&p->timer);
    name_table_remove(&c->pending, &p->by_id);
    memory_of(c)->members_count--;
    group_memory_give(memory_of(c), sizeof(*p) + p->id.size);
    free(p);
}

void classic_pending_clear(struct classic *c)
{
    for (uint32_t i = 0; i < c->pending.buckets_count; i++) {
        list_for_each_safe (link, &c->pending.buckets[i]) {
            classic_pending_remove(pending_at(link));
        }
    }
}
