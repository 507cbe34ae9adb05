#include <stdlib.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/rbuf.h"
#include "core/wbuf.h"
#include "groups/classic.h"
#include "groups/consumer_priv.h"
#include "kafka/proto/consumer_group_current_member_assignment_record.h"
#include "kafka/proto/consumer_group_metadata_record.h"
#include "kafka/proto/consumer_group_target_assignment_member_record.h"
#include "kafka/proto/consumer_group_target_assignment_metadata_record.h"
#include "kafka/proto/record_types.h"

enum {
    VALUE_VERSION = 0,
};

/* ---- putting ---- */

static void put_string(struct wbuf *w, struct slice text)
{
    wbuf_i16(w, (int16_t)text.size);
    wbuf_bytes(w, text.data, text.size);
}

static void fail(struct proposal *p, enum err e)
{
    if (p->failure == ERR_OK) {
        p->failure = e;
    }
}

/* The keys of these types have the same form: a group's id and, of most, a member's or a pattern
 * (null: not of this type). value: NULL for a tombstone. Ends it. */
static void put_record(
    const struct group *g, struct proposal *p, int16_t type, struct slice other, struct wbuf *value)
{
    struct wbuf key;
    wbuf_init(&key, PROPOSAL_SIZE_MAX);
    wbuf_i16(&key, type);
    put_string(&key, group_id(g));
    if (!slice_is_null(other)) {
        put_string(&key, other);
    }
    fail(p, wbuf_failure(&key));
    if (value != NULL) {
        fail(p, wbuf_failure(value));
    }
    proposal_put(p, wbuf_slice(&key), value == NULL ? (struct slice){0} : wbuf_slice(value));
    wbuf_done(&key);
    if (value != NULL) {
        wbuf_done(value);
    }
}

/* Whose encoding failed is noticed by put_record: the wbuf's failure is sticky. */
static void start_value(struct wbuf *w)
{
    wbuf_init(w, PROPOSAL_SIZE_MAX);
}

void consumer_put_epoch(const struct group *g, struct proposal *p, int32_t epoch, int64_t hash)
{
    const struct consumer_group_metadata_value v = {.epoch = epoch, .metadata_hash = hash};
    struct wbuf w;
    start_value(&w);
    fail(p, consumer_group_metadata_value_encode(&w, VALUE_VERSION, &v));
    put_record(g, p, RECORD_CONSUMER_GROUP_METADATA, (struct slice){0}, &w);
}

void consumer_put_metadata(const struct group *g,
                           struct proposal *p,
                           struct slice member_id,
                           const struct consumer_group_member_metadata_value *v)
{
    struct wbuf w;
    start_value(&w);
    fail(p, consumer_group_member_metadata_value_encode(&w, VALUE_VERSION, v));
    put_record(g, p, RECORD_CONSUMER_GROUP_MEMBER_METADATA, member_id, &w);
}

void consumer_put_target_epoch(const struct group *g, struct proposal *p, int32_t epoch)
{
    const struct consumer_group_target_assignment_metadata_value v = {
        .assignment_epoch = epoch,
        .assignment_timestamp = g->c->time.wall_ms,
    };
    struct wbuf w;
    start_value(&w);
    fail(p, consumer_group_target_assignment_metadata_value_encode(&w, VALUE_VERSION, &v));
    put_record(g, p, RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, (struct slice){0}, &w);
}

/* The topics of a set; partitions and epochs in arrays of the arena. NULL at its limit. */
static struct consumer_group_current_member_assignment_value_topic *
topics_of(const struct partition_set *set, struct arena *a, size_t *ret_count)
{
    const uint32_t topics_count = partition_set_topics_count(set);
    struct consumer_group_current_member_assignment_value_topic *topics =
        arena_alloc_array(a, topics_count, sizeof(*topics));
    int32_t *numbers = arena_alloc_array(a, set->count, 2 * sizeof(*numbers));
    if (topics == NULL || numbers == NULL) {
        return NULL;
    }
    struct consumer_group_current_member_assignment_value_topic *to = topics;
    for (uint32_t i = 0, end = 0; i < set->count; i = end, to++) {
        end = partition_set_topic_end(set, i);
        consumer_group_current_member_assignment_value_topic_init(to);
        to->topic_id = set->items[i].topic_id;
        to->partitions_count = end - i;
        to->partitions = &numbers[i];
        to->assignment_epochs_count = end - i;
        to->assignment_epochs = &numbers[set->count + i];
        for (uint32_t j = i; j < end; j++) {
            numbers[j] = set->items[j].partition;
            numbers[set->count + j] = set->items[j].epoch;
        }
    }
    *ret_count = topics_count;
    return topics;
}

static enum err
encode_progress(struct wbuf *w, struct arena *a, const struct member_progress *progress)
{
    struct consumer_group_current_member_assignment_value v;
    consumer_group_current_member_assignment_value_init(&v);
    v.member_epoch = progress->epoch;
    v.previous_member_epoch = progress->previous_epoch;
    v.state = (int8_t)progress->state;
    v.assigned_partitions = topics_of(&progress->assigned, a, &v.assigned_partitions_count);
    v.partitions_pending_revocation =
        topics_of(&progress->pending, a, &v.partitions_pending_revocation_count);
    if (v.assigned_partitions == NULL || v.partitions_pending_revocation == NULL) {
        return ERR_BUSY;
    }
    return consumer_group_current_member_assignment_value_encode(w, VALUE_VERSION, &v);
}

void consumer_put_progress(const struct group *g,
                           struct proposal *p,
                           struct slice member_id,
                           const struct member_progress *progress)
{
    struct arena a;
    struct wbuf w;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    start_value(&w);
    fail(p, encode_progress(&w, &a, progress));
    put_record(g, p, RECORD_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member_id, &w);
    arena_done(&a);
}

static enum err encode_target(struct wbuf *w, struct arena *a, const struct partition_set *target)
{
    size_t count = 0;
    const struct consumer_group_current_member_assignment_value_topic *topics =
        topics_of(target, a, &count);
    struct consumer_group_target_assignment_member_value v;
    consumer_group_target_assignment_member_value_init(&v);
    v.topic_partitions = arena_alloc_array(a, count, sizeof(*v.topic_partitions));
    if (topics == NULL || v.topic_partitions == NULL) {
        return ERR_BUSY;
    }
    for (size_t i = 0; i < count; i++) {
        v.topic_partitions[i] = (struct consumer_group_target_assignment_member_value_topic){
            .topic_id = topics[i].topic_id,
            .partitions = topics[i].partitions,
            .partitions_count = topics[i].partitions_count,
        };
    }
    v.topic_partitions_count = count;
    return consumer_group_target_assignment_member_value_encode(w, VALUE_VERSION, &v);
}

void consumer_put_target(const struct group *g,
                         struct proposal *p,
                         struct slice member_id,
                         const struct partition_set *target)
{
    struct arena a;
    struct wbuf w;
    arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
    start_value(&w);
    fail(p, encode_target(&w, &a, target));
    put_record(g, p, RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member_id, &w);
    arena_done(&a);
}

/* A tombstone for each record there is, the member itself last: as Kafka has it. */
void consumer_put_member_tombstones(struct proposal *p, const struct consumer_member *m)
{
    const struct group *g = m->consumer->g;
    if (m->has_progress) {
        put_record(g, p, RECORD_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, member_id(m), NULL);
    }
    if (m->has_target) {
        put_record(g, p, RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, member_id(m), NULL);
    }
    if (m->metadata != NULL) {
        put_record(g, p, RECORD_CONSUMER_GROUP_MEMBER_METADATA, member_id(m), NULL);
    }
}

void consumer_put_regex(const struct group *g,
                        struct proposal *p,
                        struct slice text,
                        const struct consumer_group_regular_expression_value *v)
{
    struct wbuf w;
    start_value(&w);
    fail(p, consumer_group_regular_expression_value_encode(&w, VALUE_VERSION, v));
    put_record(g, p, RECORD_CONSUMER_GROUP_REGULAR_EXPRESSION, text, &w);
}

void consumer_put_regex_tombstone(const struct group *g, struct proposal *p, struct slice text)
{
    put_record(g, p, RECORD_CONSUMER_GROUP_REGULAR_EXPRESSION, text, NULL);
}

static void put_member(void *context, struct consumer_member *m)
{
    consumer_put_member_tombstones(context, m);
}

void consumer_put_tombstones(const struct group *g, struct proposal *p)
{
    const struct consumer *c = g->consumer;
    if (c == NULL) {
        return;
    }
    consumer_for_each_member(c, put_member, p);
    list_for_each (link, &c->regexes) {
        const struct consumer_regex *r = container_of(link, struct consumer_regex, link);
        if (r->is_resolved) {
            consumer_put_regex_tombstone(g, p, r->text);
        }
    }
    if (c->has_target) {
        put_record(g, p, RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, (struct slice){0}, NULL);
    }
    if (c->has_epoch) {
        put_record(g, p, RECORD_CONSUMER_GROUP_METADATA, (struct slice){0}, NULL);
    }
}

/* ---- applying ---- */

/* A record under application. */
struct applied {
    struct consumer *c;
    struct slice other; /* Member id or pattern. */
    struct slice value;
    struct arena *a;
};

static enum err damage(enum err e)
{
    return e == ERR_TOO_LARGE || e == ERR_BUSY ? ERR_BUSY : ERR_CORRUPT;
}

static enum err apply_epoch(const struct applied *in)
{
    struct consumer *c = in->c;
    struct consumer_group_metadata_value v = {0};
    if (!slice_is_null(in->value)) {
        struct rbuf r = rbuf_over(in->value.data, in->value.size);
        const enum err e = consumer_group_metadata_value_decode(&r, in->a, &v);
        if (e != ERR_OK) {
            return damage(e);
        }
    }
    c->g->c->env->counters->rebalances +=
        c->g->c->is_active && group_epoch_is_later(v.epoch, c->epoch) ? 1 : 0;
    c->has_epoch = !slice_is_null(in->value);
    c->epoch = v.epoch;
    c->epoch_ms = c->g->c->record_ms;
    c->topics_hash = v.metadata_hash;
    return ERR_OK;
}

static enum err apply_target_epoch(const struct applied *in)
{
    struct consumer *c = in->c;
    struct consumer_group_target_assignment_metadata_value v = {0};
    if (!slice_is_null(in->value)) {
        struct rbuf r = rbuf_over(in->value.data, in->value.size);
        const enum err e = consumer_group_target_assignment_metadata_value_decode(&r, in->a, &v);
        if (e != ERR_OK) {
            return damage(e);
        }
    }
    c->has_target = !slice_is_null(in->value);
    c->target_epoch = v.assignment_epoch;
    c->target_ms = v.assignment_timestamp;
    return ERR_OK;
}

static enum err apply_metadata(const struct applied *in)
{
    struct member_metadata *metadata = NULL;
    enum err e = member_metadata_new(in->value, &metadata);
    struct consumer_member *m = NULL;
    if (e != ERR_OK) {
        return e;
    }
    e = consumer_get_member(in->c, in->other, &m);
    if (e != ERR_OK) {
        free(metadata);
        return e;
    }
    return member_set_metadata(m, metadata);
}

static size_t
count_partitions(const struct consumer_group_current_member_assignment_value_topic *topics,
                 size_t topics_count)
{
    size_t count = 0;
    for (size_t i = 0; i < topics_count; i++) {
        count += topics[i].partitions_count;
    }
    return count;
}

/* Epochs that are not said (a version without them wrote it) are the member's. */
static enum err set_of(const struct consumer_group_current_member_assignment_value_topic *topics,
                       size_t topics_count,
                       int32_t epoch,
                       struct arena *a,
                       struct partition_set *ret_set)
{
    if (!partition_set_init(ret_set, a, count_partitions(topics, topics_count))) {
        return ERR_BUSY;
    }
    for (size_t i = 0; i < topics_count; i++) {
        const struct consumer_group_current_member_assignment_value_topic *t = &topics[i];
        const bool has_epochs = t->assignment_epochs_count == t->partitions_count;
        for (size_t j = 0; j < t->partitions_count; j++) {
            const int32_t since = has_epochs ? t->assignment_epochs[j] : epoch;
            partition_set_add(ret_set, &t->topic_id, t->partitions[j], since);
        }
    }
    partition_set_sort(ret_set);
    return ERR_OK;
}

static enum err decode_progress(const struct applied *in, struct member_progress *ret_progress)
{
    struct consumer_group_current_member_assignment_value v;
    struct rbuf r = rbuf_over(in->value.data, in->value.size);
    enum err e = consumer_group_current_member_assignment_value_decode(&r, in->a, &v);
    if (e != ERR_OK) {
        return damage(e);
    }
    if (v.state < MEMBER_STABLE || v.state > MEMBER_UNRELEASED) {
        return ERR_CORRUPT;
    }
    *ret_progress = (struct member_progress){
        .epoch = v.member_epoch,
        .previous_epoch = v.previous_member_epoch,
        .state = (enum member_state)v.state,
    };
    e = set_of(v.assigned_partitions,
               v.assigned_partitions_count,
               v.member_epoch,
               in->a,
               &ret_progress->assigned);
    if (e != ERR_OK) {
        return e;
    }
    return set_of(v.partitions_pending_revocation,
                  v.partitions_pending_revocation_count,
                  v.member_epoch,
                  in->a,
                  &ret_progress->pending);
}

static enum err apply_progress(const struct applied *in)
{
    struct member_progress progress;
    struct consumer_member *m = NULL;
    enum err e = decode_progress(in, &progress);
    if (e == ERR_OK) {
        e = consumer_get_member(in->c, in->other, &m);
    }
    return e == ERR_OK ? member_set_progress(m, &progress) : e;
}

static enum err apply_target(const struct applied *in)
{
    struct consumer_group_target_assignment_member_value v;
    struct rbuf r = rbuf_over(in->value.data, in->value.size);
    enum err e = consumer_group_target_assignment_member_value_decode(&r, in->a, &v);
    if (e != ERR_OK) {
        return damage(e);
    }
    struct consumer_group_current_member_assignment_value_topic *topics =
        arena_alloc_array(in->a, v.topic_partitions_count, sizeof(*topics));
    if (topics == NULL) {
        return ERR_BUSY;
    }
    for (size_t i = 0; i < v.topic_partitions_count; i++) {
        topics[i].topic_id = v.topic_partitions[i].topic_id;
        topics[i].partitions = v.topic_partitions[i].partitions;
        topics[i].partitions_count = v.topic_partitions[i].partitions_count;
    }
    struct partition_set target;
    struct consumer_member *m = NULL;
    e = set_of(topics, v.topic_partitions_count, 0, in->a, &target);
    if (e == ERR_OK) {
        e = consumer_get_member(in->c, in->other, &m);
    }
    return e == ERR_OK ? member_set_target(m, &target) : e;
}

static enum err apply_regex(const struct applied *in)
{
    struct consumer_group_regular_expression_value v;
    struct rbuf r = rbuf_over(in->value.data, in->value.size);
    const enum err e = consumer_group_regular_expression_value_decode(&r, in->a, &v);
    return e == ERR_OK ? consumer_regex_set(in->c, in->other, &v) : damage(e);
}

static void apply_member_tombstone(struct consumer *c, int16_t type, struct slice id)
{
    struct consumer_member *m = consumer_find_member(c, id);
    if (m == NULL) {
        return;
    }
    if (type == RECORD_CONSUMER_GROUP_MEMBER_METADATA) {
        member_clear_metadata(m);
    } else if (type == RECORD_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT) {
        member_clear_progress(m);
    } else {
        member_clear_target(m);
    }
    consumer_drop_member(m);
}

static const struct record_kind {
    int16_t type;
    bool has_other; /* In the key. */
    enum err (*apply)(const struct applied *in);
} KINDS[] = {
    {RECORD_CONSUMER_GROUP_METADATA, false, apply_epoch},
    {RECORD_CONSUMER_GROUP_PARTITION_METADATA, false, NULL}, /* What Kafka before 4.1 wrote. */
    {RECORD_CONSUMER_GROUP_MEMBER_METADATA, true, apply_metadata},
    {RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, false, apply_target_epoch},
    {RECORD_CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, true, apply_target},
    {RECORD_CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, true, apply_progress},
    {RECORD_CONSUMER_GROUP_REGULAR_EXPRESSION, true, apply_regex},
};

static const struct record_kind *find_kind(int16_t type)
{
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        if (KINDS[i].type == type) {
            return &KINDS[i];
        }
    }
    return NULL;
}

static struct slice read_string(struct rbuf *r)
{
    const int16_t size = rbuf_i16(r);
    if (size < 0) {
        rbuf_fail(r, ERR_CORRUPT);
        return (struct slice){0};
    }
    return rbuf_bytes(r, (size_t)size);
}

static enum err apply_tombstone(struct group *g, const struct record_kind *kind, struct slice other)
{
    struct consumer *c = g == NULL ? NULL : g->consumer;
    if (c == NULL) {
        return ERR_OK;
    }
    enum err e = ERR_OK;
    if (!kind->has_other) {
        const struct applied in = {.c = c};
        e = kind->apply(&in);
    } else if (kind->type == RECORD_CONSUMER_GROUP_REGULAR_EXPRESSION) {
        consumer_regex_clear(c, other);
    } else {
        apply_member_tombstone(c, kind->type, other);
    }
    consumer_drop_unused(c);
    return e;
}

static enum err apply_value(struct coordinator *c,
                            struct slice id,
                            const struct record_kind *kind,
                            struct slice other,
                            struct slice value)
{
    struct group *g = group_get(c, id);
    if (g == NULL) {
        return ERR_BUSY;
    }
    struct applied in = {.other = other, .value = value};
    enum err e = consumer_get(g, &in.c);
    if (e == ERR_OK) {
        struct arena a;
        arena_init(&a, CONSUMER_SCRATCH_SIZE_MAX);
        in.a = &a;
        e = kind->apply(&in);
        arena_done(&a);
        if (e == ERR_OK) {
            /* The way from there has a tombstone before; whatever is written last counts. */
            classic_free(g);
        }
        consumer_drop_unused(in.c);
    } else {
        group_drop_unused(g);
    }
    return e;
}

enum err consumer_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    const struct record_kind *kind = find_kind(type);
    struct rbuf r = rbuf_over(key.data, key.size);
    (void)rbuf_i16(&r);
    const struct slice id = read_string(&r);
    const struct slice other = kind->has_other ? read_string(&r) : (struct slice){0};
    if (rbuf_finish(&r) != ERR_OK) {
        return ERR_CORRUPT;
    }
    if (kind->apply == NULL) {
        return ERR_OK;
    }
    if (slice_is_null(value)) {
        return apply_tombstone(group_find(c, id), kind, other);
    }
    return apply_value(c, id, kind, other, value);
}
