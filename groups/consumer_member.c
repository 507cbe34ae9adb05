#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/rbuf.h"
#include "groups/consumer_priv.h"

enum {
    USEC_PER_MS = 1000,
};

/* ---- what it says of itself ---- */

/* Room behind the struct, in this order; the bytes last, which need no alignment. */
static size_t size_needed(const struct consumer_group_member_metadata_value *v, size_t bytes_size)
{
    size_t size =
        sizeof(struct member_metadata) + v->subscribed_topic_names_count * sizeof(struct slice);
    if (v->classic_member_metadata != NULL) {
        size += sizeof(*v->classic_member_metadata) +
                v->classic_member_metadata->supported_protocols_count *
                    sizeof(struct consumer_group_member_metadata_value_protocol);
    }
    return size + bytes_size;
}

static void *place(uint8_t **cursor, const void *from, size_t size)
{
    void *to = *cursor;
    if (size > 0) {
        memcpy(to, from, size);
    }
    *cursor += size;
    return to;
}

/* Slices point into bytes, which lie behind; arrays are moved from the arena to `room`. */
static void settle(struct consumer_group_member_metadata_value *v, uint8_t *room)
{
    v->subscribed_topic_names = place(
        &room, v->subscribed_topic_names, v->subscribed_topic_names_count * sizeof(struct slice));
    struct consumer_group_member_metadata_value_classic *classic = v->classic_member_metadata;
    if (classic != NULL) {
        v->classic_member_metadata = place(&room, classic, sizeof(*classic));
        v->classic_member_metadata->supported_protocols =
            place(&room,
                  classic->supported_protocols,
                  classic->supported_protocols_count * sizeof(classic->supported_protocols[0]));
    }
}

static enum err
decode(struct slice bytes, struct arena *a, struct consumer_group_member_metadata_value *ret_value)
{
    struct rbuf in = rbuf_over(bytes.data, bytes.size);
    const enum err e = consumer_group_member_metadata_value_decode(&in, a, ret_value);
    return e == ERR_OK || e == ERR_TOO_LARGE ? e : ERR_CORRUPT;
}

static enum err
metadata_new(struct slice value, struct arena *a, struct member_metadata **ret_metadata)
{
    struct consumer_group_member_metadata_value v;
    enum err e = decode(value, a, &v);
    if (e != ERR_OK) {
        return e;
    }
    const size_t size = size_needed(&v, value.size);
    struct member_metadata *m = malloc(size);
    if (m == NULL) {
        return ERR_BUSY;
    }
    uint8_t *bytes = (uint8_t *)m + size - value.size;
    memcpy(bytes, value.data, value.size);
    m->size = size;
    m->bytes = slice_of(bytes, value.size);
    e = decode(m->bytes, a, &m->v);
    if (e != ERR_OK) {
        free(m);
        return e;
    }
    settle(&m->v, (uint8_t *)(m + 1));
    *ret_metadata = m;
    return ERR_OK;
}

enum err member_metadata_new(struct slice value, struct member_metadata **ret_metadata)
{
    struct arena a;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    const enum err e = metadata_new(value, &a, ret_metadata);
    arena_done(&a);
    return e == ERR_TOO_LARGE ? ERR_BUSY : e;
}

static int compare_names(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

bool consumer_set_names(struct consumer_group_member_metadata_value *v,
                        const struct slice *names,
                        size_t count,
                        struct arena *a)
{
    struct slice *copy = arena_alloc_array(a, count, sizeof(*copy));
    if (copy == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(copy, names, count * sizeof(*copy));
        qsort(copy, count, sizeof(*copy), compare_names);
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !slice_equal(copy[kept - 1], copy[i])) {
            copy[kept++] = copy[i];
        }
    }
    v->subscribed_topic_names = copy;
    v->subscribed_topic_names_count = kept;
    return true;
}

/* ---- life ---- */

static void recharge(struct consumer_member *m)
{
    const uint64_t size = sizeof(*m) + m->id_size + (m->metadata == NULL ? 0 : m->metadata->size) +
                          partition_set_size(&m->progress.assigned) +
                          partition_set_size(&m->progress.pending) + partition_set_size(&m->target);
    consumer_charge(m->consumer, &m->charged, size);
}

/* Does the same as a leave would. */
static void on_session_over(struct group_timer *t)
{
    struct consumer_member *m = container_of(t, struct consumer_member, session);
    consumer_fence(m, t, "session expired");
}

static void on_revocation_over(struct group_timer *t)
{
    struct consumer_member *m = container_of(t, struct consumer_member, revocation);
    consumer_fence(m, t, "partitions were not given back in time");
}

static uint64_t hash_of(const struct consumer *c, struct slice name)
{
    return hash_bytes(c->g->c->env->hash_seed, name.data, name.size);
}

enum err
consumer_get_member(struct consumer *c, struct slice id, struct consumer_member **ret_member)
{
    struct consumer_member *m = consumer_find_member(c, id);
    if (m != NULL) {
        *ret_member = m;
        return ERR_OK;
    }
    m = calloc(1, sizeof(*m) + id.size + 1);
    if (m == NULL) {
        return ERR_BUSY;
    }
    m->consumer = c;
    m->progress.previous_epoch = -1;
    m->id_size = (uint32_t)id.size;
    if (id.size > 0) {
        memcpy(m->id, id.data, id.size);
    }
    list_init(&m->by_id.link);
    list_init(&m->by_instance.link);
    group_timer_init(&m->session, c->g, on_session_over);
    group_timer_init(&m->revocation, c->g, on_revocation_over);
    consumer_hold_init(m);
    const enum err e = name_table_add(&c->members, &m->by_id, hash_of(c, id));
    if (e != ERR_OK) {
        free(m);
        return e;
    }
    c->g->c->env->memory->members_count++;
    recharge(m);
    *ret_member = m;
    return ERR_OK;
}

void member_clear_metadata(struct consumer_member *m)
{
    if (m->metadata == NULL) {
        return;
    }
    struct consumer *c = m->consumer;
    const struct consumer_group_member_metadata_value *v = &m->metadata->v;
    consumer_topics_remove(c, v->subscribed_topic_names, v->subscribed_topic_names_count);
    consumer_regex_release(c, v->subscribed_topic_regex);
    c->classic_count -= member_is_classic(m);
    name_table_remove(&c->instances, &m->by_instance);
    free(m->metadata);
    m->metadata = NULL;
    recharge(m);
}

void member_free(struct consumer_member *m)
{
    struct consumer *c = m->consumer;
    consumer_unhold(m);
    member_cancel_timers(m);
    member_clear_progress(m);
    member_clear_target(m);
    member_clear_metadata(m);
    name_table_remove(&c->members, &m->by_id);
    c->g->c->env->memory->members_count--;
    consumer_charge(c, &m->charged, 0);
    free(m);
}

void consumer_drop_member(struct consumer_member *m)
{
    if (m->metadata == NULL && !m->has_progress && !m->has_target) {
        member_free(m);
    }
}

/* ---- what records change ---- */

/* First the new, so that what both subscribe to does not go in between. */
enum err member_set_metadata(struct consumer_member *m, struct member_metadata *metadata)
{
    struct consumer *c = m->consumer;
    const struct consumer_group_member_metadata_value *v = &metadata->v;
    enum err e = consumer_topics_add(c, v->subscribed_topic_names, v->subscribed_topic_names_count);
    if (e == ERR_OK) {
        e = consumer_regex_take(c, v->subscribed_topic_regex);
    }
    if (e != ERR_OK) {
        free(metadata);
        return e;
    }
    member_clear_metadata(m);
    m->metadata = metadata;
    c->classic_count += member_is_classic(m);
    recharge(m);
    return slice_is_null(v->instance_id)
               ? ERR_OK
               : name_table_add(&c->instances, &m->by_instance, hash_of(c, v->instance_id));
}

static void release(struct consumer_member *m)
{
    struct consumer *c = m->consumer;
    partition_owners_remove(&c->owners, &m->progress.assigned, m);
    partition_owners_remove(&c->owners, &m->progress.pending, m);
    c->is_released = true;
}

static enum err hold(struct consumer_member *m, const struct member_progress *progress)
{
    struct consumer *c = m->consumer;
    const uint64_t size = partition_owners_size(&c->owners);
    enum err e = partition_owners_put(&c->owners, &progress->assigned, m);
    if (e == ERR_OK) {
        e = partition_owners_put(&c->owners, &progress->pending, m);
    }
    consumer_charge(c, &c->charged, c->charged - size + partition_owners_size(&c->owners));
    return e;
}

enum err member_set_progress(struct consumer_member *m, const struct member_progress *progress)
{
    struct member_progress copy = *progress;
    enum err e = partition_set_copy(&copy.assigned, &progress->assigned);
    if (e != ERR_OK) {
        return e;
    }
    e = partition_set_copy(&copy.pending, &progress->pending);
    if (e != ERR_OK) {
        partition_set_done(&copy.assigned);
        return e;
    }
    struct consumer *c = m->consumer;
    const bool was_released = c->is_released;
    const bool is_less = !partition_set_is_subset(&copy.assigned, &m->progress.assigned) ||
                         !partition_set_is_subset(&copy.pending, &m->progress.pending);
    member_clear_progress(m);
    c->is_released = was_released || is_less;
    m->progress = copy;
    m->has_progress = true;
    recharge(m);
    return hold(m, &copy);
}

void member_clear_progress(struct consumer_member *m)
{
    release(m);
    partition_set_done(&m->progress.assigned);
    partition_set_done(&m->progress.pending);
    m->progress = (struct member_progress){.previous_epoch = -1};
    m->has_progress = false;
    recharge(m);
}

enum err member_set_target(struct consumer_member *m, const struct partition_set *target)
{
    struct partition_set copy;
    const enum err e = partition_set_copy(&copy, target);
    if (e == ERR_OK) {
        partition_set_done(&m->target);
        m->target = copy;
        m->has_target = true;
        recharge(m);
    }
    return e;
}

void member_clear_target(struct consumer_member *m)
{
    partition_set_done(&m->target);
    m->has_target = false;
    recharge(m);
}

/* ---- deadlines ---- */

static uint64_t in_ms(const struct consumer *c, int32_t ms)
{
    return c->g->c->time.now_us + (uint64_t)(ms < 0 ? 0 : ms) * USEC_PER_MS;
}

void member_touch(struct consumer_member *m)
{
    const struct consumer *c = m->consumer;
    const int32_t timeout_ms = member_is_classic(m)
                                   ? m->metadata->v.classic_member_metadata->session_timeout_ms
                                   : consumer_intervals(c).session_timeout_ms;
    group_timer_arm(&m->session, in_ms(c, timeout_ms));
}

void member_arm_revocation(struct consumer_member *m)
{
    if (m->progress.state == MEMBER_UNREVOKED && m->metadata != NULL) {
        group_timer_arm(&m->revocation, in_ms(m->consumer, m->metadata->v.rebalance_timeout_ms));
    } else {
        group_timer_cancel(&m->revocation);
    }
}

void member_cancel_timers(struct consumer_member *m)
{
    group_timer_cancel(&m->session);
    group_timer_cancel(&m->revocation);
}
