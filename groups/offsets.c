#include "groups/offsets.h"

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/rbuf.h"
#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/expiry.h"
#include "groups/group.h"
#include "groups/memory.h"
#include "groups/offsets_priv.h"
#include "groups/settings.h"
#include "kafka/proto/legacy_offset_commit_record.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_commit_record.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/proto/record_types.h"

enum {
    /* Versions of OffsetCommitValue: the only ones that can say it. */
    VALUE_WITH_EXPIRY = 1,
    VALUE_WITH_TOPIC_ID = 4,
    /* Offsets of one batch: so a turn's work stays about a millisecond. */
    COMMIT_COUNT_MAX = 2000,
    COMMIT_TOPIC_IDS = 10,   /* Versions of requests that name topics by id. */
    RECORD_ARENA_MAX = 4096, /* Nothing but slices comes out of these records. */
};

/* ---- topics ---- */

const struct topic *offsets_topic_now(const struct group *g, struct slice name)
{
    return metadata_topic_by_name(g->c->env->metadata, name);
}

bool offsets_is_alive(const struct topic *now, const struct offset_entry *e)
{
    return now != NULL && e->partition < now->partitions_count &&
           (uuid_is_zero(&e->topic_id) || uuid_equal(&e->topic_id, &now->id));
}

static const struct topic *
topic_of(const struct group *g, int16_t version, struct slice name, const struct uuid *id)
{
    const struct metadata *m = g->c->env->metadata;
    return version >= COMMIT_TOPIC_IDS ? metadata_topic_by_id(m, id)
                                       : metadata_topic_by_name(m, name);
}

static enum kafka_error unknown_topic(int16_t version)
{
    return version >= COMMIT_TOPIC_IDS ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
}

/* ---- commit ---- */

/* One OffsetCommit that is judged. */
struct commit {
    struct group *g;
    const struct group_call *call;
    const struct offset_commit_request *in;
    enum kafka_error refused; /* The member may not commit at all. */
    struct proposal *proposal;
    struct wbuf key;
    struct wbuf value;
    uint64_t growth; /* Memory that it will take. */
};

/* As Kafka counts: in UTF-16 units. */
static size_t utf16_units(struct slice text)
{
    size_t units = 0;
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t byte = text.data[i];
        units += (byte & 0xc0) == 0x80 ? 0 : byte >= 0xf0 ? 2 : 1;
    }
    return units;
}

static enum kafka_error check_member(struct group *g, const struct group_call *call)
{
    const struct offset_commit_request *in = call->in;
    if (g->consumer == NULL) {
        return classic_check_commit(g, in, call->version);
    }
    return consumer_check_commit(
        g, in->member_id, in->generation_id_or_member_epoch, call->version);
}

/* A member of the new protocol that is behind may commit what it has had since. */
static enum kafka_error
check_epoch(const struct commit *c, const struct topic *topic, int32_t partition)
{
    const int32_t epoch = c->in->generation_id_or_member_epoch;
    if (c->g->consumer == NULL || epoch < 0) {
        return KAFKA_NONE;
    }
    const struct partition_id id = {topic->id, partition};
    return consumer_check_commit_partition(c->g, c->in->member_id, epoch, &id);
}

static int64_t expire_ms(const struct commit *c)
{
    const int64_t retention_ms = c->in->retention_time_ms;
    int64_t at = 0;
    if (retention_ms < 0) {
        return OFFSET_NEVER_EXPIRES;
    }
    return __builtin_add_overflow(c->g->c->time.wall_ms, retention_ms, &at) ? INT64_MAX : at;
}

/* Room for it, besides what was judged before. What takes no more memory than it has goes always.
 */
static enum kafka_error
reserve(struct commit *c, struct slice topic, const struct offset_value *value)
{
    const uint64_t growth = offset_table_growth(offsets_table(c->g), topic, value);
    if (growth > 0 && !group_memory_has_room(c->g->c->env->memory, (int64_t)(c->growth + growth))) {
        return KAFKA_COORDINATOR_NOT_AVAILABLE;
    }
    c->growth += growth;
    return KAFKA_NONE;
}

static void put_commit(struct commit *c, struct slice topic, const struct offset_value *v)
{
    struct offset_commit_key key;
    offset_commit_key_init(&key);
    key.group = group_id(c->g);
    key.topic = topic;
    key.partition = v->partition;
    struct offset_commit_value value;
    offset_commit_value_init(&value);
    value.offset = v->offset;
    value.leader_epoch = v->leader_epoch;
    value.metadata = v->metadata;
    value.commit_timestamp = v->commit_ms;
    value.expire_timestamp = v->expire_ms;
    value.topic_id = v->topic_id;
    const bool has_expiry = v->expire_ms != OFFSET_NEVER_EXPIRES;
    c->key.size = 0;
    c->value.size = 0;
    const enum err key_err = offset_commit_key_encode(&c->key, &key);
    const enum err value_err = offset_commit_value_encode(
        &c->value, has_expiry ? VALUE_WITH_EXPIRY : VALUE_WITH_TOPIC_ID, &value);
    if (key_err != ERR_OK || value_err != ERR_OK) {
        c->proposal->failure = key_err != ERR_OK ? key_err : value_err;
        return;
    }
    proposal_put(c->proposal, wbuf_slice(&c->key), wbuf_slice(&c->value));
}

static enum kafka_error judge_partition(struct commit *c,
                                        const struct topic *topic,
                                        const struct offset_commit_request_partition *in)
{
    if (topic == NULL) {
        return unknown_topic(c->call->version);
    }
    if (in->partition_index < 0 || in->partition_index >= topic->partitions_count) {
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (c->refused != KAFKA_NONE) {
        return c->refused;
    }
    const int32_t metadata_max = c->g->c->env->settings->offset_metadata_size_max;
    if (utf16_units(in->committed_metadata) > (size_t)metadata_max) {
        return KAFKA_OFFSET_METADATA_TOO_LARGE;
    }
    const enum kafka_error stale = check_epoch(c, topic, in->partition_index);
    if (stale != KAFKA_NONE) {
        return stale;
    }
    const struct slice metadata = in->committed_metadata;
    const struct offset_value value = {
        .partition = in->partition_index,
        .leader_epoch = in->committed_leader_epoch,
        .offset = in->committed_offset,
        .commit_ms = c->g->c->time.wall_ms,
        .expire_ms = expire_ms(c),
        .topic_id = topic->id,
        .metadata = slice_is_null(metadata) ? slice_of("", 0) : metadata,
    };
    const enum kafka_error full = reserve(c, slice_of_string(topic->name), &value);
    if (full == KAFKA_NONE) {
        put_commit(c, slice_of_string(topic->name), &value);
    }
    return full;
}

/* Where a commit goes on: what lies before it is committed, or was refused. */
struct commit_cursor {
    size_t topic;
    size_t partition;
};

/* Of a commit under way, in its call's arena: its batch has what lies between. */
struct commit_progress {
    struct commit_cursor begin;
    struct commit_cursor end;
};

/* Fills in the errors of partitions until the batch is full; those without one are in it. */
static void
judge_some(struct commit *c, struct offset_commit_response *out, struct commit_cursor *at)
{
    for (; at->topic < out->topics_count; at->topic++, at->partition = 0) {
        const struct offset_commit_request_topic *in = &c->in->topics[at->topic];
        const struct topic *topic = topic_of(c->g, c->call->version, in->name, &in->topic_id);
        struct offset_commit_response_topic *to = &out->topics[at->topic];
        for (; at->partition < to->partitions_count; at->partition++) {
            if (c->proposal->builder.records_count == COMMIT_COUNT_MAX) {
                return;
            }
            to->partitions[at->partition].error_code =
                (int16_t)judge_partition(c, topic, &in->partitions[at->partition]);
        }
    }
}

/* Partitions from there on that have no error get e. */
static void
fail_commit(struct offset_commit_response *out, struct commit_cursor from, enum kafka_error e)
{
    for (size_t i = from.topic; i < out->topics_count; i++) {
        struct offset_commit_response_topic *topic = &out->topics[i];
        for (size_t j = i == from.topic ? from.partition : 0; j < topic->partitions_count; j++) {
            struct offset_commit_response_partition *p = &topic->partitions[j];
            p->error_code = p->error_code == KAFKA_NONE ? (int16_t)e : p->error_code;
        }
    }
}

static void on_commit_applied(struct proposal *p, enum err e);

/* The next batch, or the answer. */
static void go_on_committing(struct group *g, struct group_call *call, struct commit_progress *at)
{
    struct proposal *p = proposal_new(g, PROPOSAL_SHARED, on_commit_applied);
    at->begin = at->end;
    if (p == NULL) {
        fail_commit(call->out, at->begin, KAFKA_COORDINATOR_NOT_AVAILABLE);
        group_answer(g->c, call);
        return;
    }
    p->call = call;
    p->context = at;
    struct commit c = {
        .g = g,
        .call = call,
        .in = call->in,
        .refused = check_member(g, call),
        .proposal = p,
    };
    wbuf_init(&c.key, PROPOSAL_SIZE_MAX);
    wbuf_init(&c.value, PROPOSAL_SIZE_MAX);
    judge_some(&c, call->out, &at->end);
    wbuf_done(&c.key);
    wbuf_done(&c.value);
    if (p->failure == ERR_OK && p->builder.records_count == 0) {
        proposal_free(p);
        group_answer(g->c, call);
        return;
    }
    proposal_submit(p);
}

static void on_commit_applied(struct proposal *p, enum err e)
{
    const struct offset_commit_response *out = p->call->out;
    struct commit_progress *at = p->context;
    if (e == ERR_OK && at->end.topic < out->topics_count) {
        go_on_committing(p->g, p->call, at);
        return;
    }
    p->c->env->counters->commits += e == ERR_OK ? 1 : 0;
    if (e != ERR_OK) {
        fail_commit(p->call->out,
                    at->begin,
                    e == ERR_TOO_LARGE ? KAFKA_INVALID_COMMIT_OFFSET_SIZE : proposal_error(e));
    }
    group_answer(p->c, p->call);
}

void offsets_commit(struct group *g, struct group_call *call)
{
    /* Every partition's answer, to be filled in. */
    group_call_refuse(call, KAFKA_NONE, (struct slice){0});
    struct commit_progress *at = call->out == NULL ? NULL : group_call_alloc(call, 1, sizeof(*at));
    if (at == NULL) {
        group_answer(g->c, call);
        return;
    }
    go_on_committing(g, call, at);
}

/* ---- fetch ---- */

/* One OffsetFetch. */
struct fetch {
    struct group *g;
    struct group_call *call;
    struct offset_fetch_response_group *out;
    /* The topic that is being filled. */
    const struct topic *now;
    struct offset_fetch_response_group_topic *topic;
};

static void fill_partition(struct fetch *f,
                           struct offset_fetch_response_group_topic_partition *to,
                           const struct offset_entry *e)
{
    to->partition_index = e->partition;
    to->committed_offset = e->offset;
    to->committed_leader_epoch = e->leader_epoch;
    to->metadata =
        e->extra == NULL ? slice_of("", 0) : group_call_copy(f->call, offset_entry_metadata(e));
}

static bool add_alive(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    (void)t;
    struct fetch *f = context;
    if (offsets_is_alive(f->now, e)) {
        struct offset_fetch_response_group_topic_partition *to =
            &f->topic->partitions[f->topic->partitions_count++];
        offset_fetch_response_group_topic_partition_init(to);
        fill_partition(f, to, e);
    }
    return !f->call->is_out_of_memory;
}

static bool add_topic(void *context, const struct offset_topic *t)
{
    struct fetch *f = context;
    f->now = offsets_topic_now(f->g, offset_topic_name(t));
    if (f->now == NULL) {
        return true;
    }
    f->topic = &f->out->topics[f->out->topics_count];
    offset_fetch_response_group_topic_init(f->topic);
    f->topic->name = group_call_copy(f->call, offset_topic_name(t));
    f->topic->topic_id = f->now->id;
    f->topic->partitions =
        group_call_alloc(f->call, t->entries_count, sizeof(*f->topic->partitions));
    if (f->topic->partitions == NULL || !offset_topic_for_each(t, add_alive, f)) {
        return false;
    }
    f->out->topics_count += f->topic->partitions_count > 0 ? 1 : 0;
    return true;
}

static void fetch_all(struct fetch *f)
{
    const struct offset_table *table = offsets_table(f->g);
    if (table == NULL) {
        return;
    }
    f->out->topics = group_call_alloc(f->call, table->topics_count, sizeof(*f->out->topics));
    if (f->out->topics != NULL) {
        (void)offset_table_for_each_topic(table, add_topic, f);
    }
}

static void fetch_partition(struct fetch *f,
                            const struct offset_topic *committed,
                            struct offset_fetch_response_group_topic_partition *to)
{
    const struct offset_entry *e =
        committed == NULL ? NULL : offset_topic_find(committed, to->partition_index);
    to->committed_offset = -1;
    to->metadata = slice_of("", 0);
    if (e != NULL && offsets_is_alive(f->now, e)) {
        fill_partition(f, to, e);
    }
}

static bool fetch_topic(struct fetch *f, const struct offset_fetch_request_group_topic *in)
{
    const struct offset_table *table = offsets_table(f->g);
    const bool is_unknown = f->call->version >= COMMIT_TOPIC_IDS && f->now == NULL;
    const struct offset_topic *committed =
        table == NULL || f->now == NULL ? NULL
                                        : offset_table_topic(table, slice_of_string(f->now->name));
    struct offset_fetch_response_group_topic *to = f->topic;
    offset_fetch_response_group_topic_init(to);
    to->name = in->name;
    to->topic_id = in->topic_id;
    to->partitions_count = in->partition_indexes_count;
    to->partitions = group_call_alloc(f->call, to->partitions_count, sizeof(*to->partitions));
    for (size_t i = 0; to->partitions != NULL && i < to->partitions_count; i++) {
        offset_fetch_response_group_topic_partition_init(&to->partitions[i]);
        to->partitions[i].partition_index = in->partition_indexes[i];
        to->partitions[i].error_code = is_unknown ? KAFKA_UNKNOWN_TOPIC_ID : KAFKA_NONE;
        fetch_partition(f, committed, &to->partitions[i]);
    }
    return !f->call->is_out_of_memory;
}

static void fetch_some(struct fetch *f, const struct offset_fetch_request_group *in)
{
    f->out->topics = group_call_alloc(f->call, in->topics_count, sizeof(*f->out->topics));
    f->out->topics_count = in->topics_count;
    for (size_t i = 0; f->out->topics != NULL && i < in->topics_count; i++) {
        const struct offset_fetch_request_group_topic *topic = &in->topics[i];
        f->now = topic_of(f->g, f->call->version, topic->name, &topic->topic_id);
        f->topic = &f->out->topics[i];
        if (!fetch_topic(f, topic)) {
            return;
        }
    }
}

void offsets_fetch(struct group *g, struct group_call *call)
{
    const struct offset_fetch_request_group *in = call->in;
    enum kafka_error e = KAFKA_NONE;
    if (g->consumer != NULL) {
        e = consumer_check_fetch(g, in->member_id, in->member_epoch);
    }
    /* No offsets, and the error if there is one. */
    group_call_refuse(call, e, (struct slice){0});
    if (e == KAFKA_NONE && call->out != NULL) {
        struct fetch f = {.g = g, .call = call, .out = call->out};
        if (in->topics == NULL) {
            fetch_all(&f);
        } else {
            fetch_some(&f, in);
        }
    }
    if (call->is_out_of_memory) {
        call->out = NULL;
    }
    group_answer(g->c, call);
}

/* ---- records ---- */

/* Type 0 is Kafka's before 0.9, with the same key and the oldest value. */
static enum err decode_key(int16_t type, struct slice bytes, struct offset_commit_key *ret_key)
{
    struct rbuf in = rbuf_over(bytes.data, bytes.size);
    struct arena arena;
    arena_init(&arena, RECORD_ARENA_MAX);
    enum err e = ERR_OK;
    if (type == RECORD_OFFSET_COMMIT) {
        e = offset_commit_key_decode(&in, &arena, ret_key);
    } else {
        struct legacy_offset_commit_key key;
        e = legacy_offset_commit_key_decode(&in, &arena, &key);
        if (e == ERR_OK) {
            *ret_key = (struct offset_commit_key){key.group, key.topic, key.partition};
        }
    }
    arena_done(&arena);
    return e;
}

static enum err decode_value(struct slice bytes, struct offset_commit_value *ret_value)
{
    struct rbuf in = rbuf_over(bytes.data, bytes.size);
    struct arena arena;
    arena_init(&arena, RECORD_ARENA_MAX);
    const enum err e = offset_commit_value_decode(&in, &arena, ret_value);
    arena_done(&arena);
    return e;
}

static enum err apply_commit(struct coordinator *c,
                             const struct offset_commit_key *key,
                             const struct offset_commit_value *value)
{
    struct group *g = group_get(c, key->group);
    if (g == NULL) {
        return ERR_BUSY;
    }
    if (g->offsets == NULL) {
        g->offsets = calloc(1, sizeof(*g->offsets));
        if (g->offsets == NULL) {
            group_drop_unused(g);
            return ERR_BUSY;
        }
        group_memory_take(c->env->memory, sizeof(*g->offsets));
        offset_table_init(&g->offsets->table, c->env->memory, c->env->hash_seed);
    }
    const struct offset_value v = {
        .partition = key->partition,
        .leader_epoch = value->leader_epoch,
        .offset = value->offset,
        .commit_ms = value->commit_timestamp,
        .expire_ms = value->expire_timestamp < 0 ? OFFSET_NEVER_EXPIRES : value->expire_timestamp,
        .topic_id = value->topic_id,
        .metadata = value->metadata,
    };
    const enum err e = offset_table_put(&g->offsets->table, key->topic, &v);
    if (g->offsets->table.entries_count == 0) {
        offsets_free(g);
        group_drop_unused(g);
    }
    return e;
}

static void apply_tombstone(struct coordinator *c, const struct offset_commit_key *key)
{
    struct group *g = group_find(c, key->group);
    if (g == NULL || g->offsets == NULL) {
        return;
    }
    (void)offset_table_remove(&g->offsets->table, key->topic, key->partition);
    if (g->offsets->table.entries_count == 0) {
        offsets_free(g);
        group_drop_unused(g);
    }
}

enum err offsets_apply(struct coordinator *c, int16_t type, struct slice key, struct slice value)
{
    struct offset_commit_key k;
    struct offset_commit_value v;
    if (decode_key(type, key, &k) != ERR_OK || k.partition < 0) {
        return ERR_CORRUPT;
    }
    if (slice_is_null(value)) {
        apply_tombstone(c, &k);
        return ERR_OK;
    }
    if (decode_value(value, &v) != ERR_OK) {
        return ERR_CORRUPT;
    }
    return apply_commit(c, &k, &v);
}

/* ---- life ---- */

void offsets_free(struct group *g)
{
    if (g->offsets == NULL) {
        return;
    }
    offset_table_done(&g->offsets->table);
    group_memory_give(g->c->env->memory, sizeof(*g->offsets));
    free(g->offsets);
    g->offsets = NULL;
}

uint64_t offsets_digest(const struct group *g)
{
    return g->offsets == NULL ? 0 : offset_table_digest(&g->offsets->table);
}

void offsets_check(const struct group *g)
{
    if (g->offsets != NULL) {
        assert_cmp(g->offsets->table.entries_count, >, 0);
        offset_table_check(&g->offsets->table);
    }
}

/* ---- lag ---- */

struct visit {
    const struct group *g;
    bool (*visit)(void *context, const struct committed_offset *o);
    void *context;
    const struct topic *now;
};

static bool visit_entry(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    const struct visit *v = context;
    if (!offsets_is_alive(v->now, e)) {
        return true;
    }
    const struct committed_offset o = {
        .topic = offset_topic_name(t),
        .topic_id = v->now->id,
        .partition = e->partition,
        .offset = e->offset,
        .leader_epoch = e->leader_epoch,
        .commit_ms = e->commit_ms,
    };
    return v->visit(v->context, &o);
}

static bool visit_topic(void *context, const struct offset_topic *t)
{
    struct visit *v = context;
    v->now = offsets_topic_now(v->g, offset_topic_name(t));
    return v->now == NULL || offset_topic_for_each(t, visit_entry, v);
}

void offsets_for_each(const struct group *g,
                      bool (*visit)(void *context, const struct committed_offset *o),
                      void *context)
{
    struct visit v = {.g = g, .visit = visit, .context = context};
    if (g->offsets != NULL) {
        (void)offset_table_for_each_topic(&g->offsets->table, visit_topic, &v);
    }
}

uint64_t offsets_count(const struct group *g)
{
    return g->offsets == NULL ? 0 : g->offsets->table.entries_count;
}
