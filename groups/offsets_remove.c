/* How offsets, and groups without members, go: OffsetDelete, DeleteGroups, expiry, and topics that
 * are not there any more. Tombstones in batches of a bounded size; the group's own come last, so
 * that whatever a crash leaves is a group still, and goes by the same way. */
#include <string.h>

#include "core/assert.h"
#include "core/logger.h"
#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/expiry.h"
#include "groups/offsets.h"
#include "groups/offsets_priv.h"
#include "groups/settings.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/offset_commit_record.h"
#include "kafka/proto/offset_delete.h"

enum {
    KEY_SIZE_MAX = 1 << 17,
};

static bool has_members(const struct group *g)
{
    return g->consumer != NULL ? consumer_has_members(g)
                               : g->classic != NULL && classic_has_members(g);
}

/* What a group's members subscribe to. Classic members are read when that is asked for first. Must
 * not outlive the event that it was made in. */
struct subscribed {
    const struct group *g;
    bool is_read;
    struct classic_topics topics;
};

/* ---- a batch of tombstones ---- */

bool removal_begin(struct removal *r,
                   struct group *g,
                   void (*on_applied)(struct proposal *p, enum err e))
{
    *r = (struct removal){.proposal = proposal_new(g, PROPOSAL_EXCLUSIVE, on_applied)};
    wbuf_init(&r->key, KEY_SIZE_MAX);
    return r->proposal != NULL;
}

bool removal_put(struct removal *r, struct slice topic, int32_t partition)
{
    if (r->count == REMOVAL_COUNT_MAX) {
        return false;
    }
    struct offset_commit_key key;
    offset_commit_key_init(&key);
    key.group = group_id(r->proposal->g);
    key.topic = topic;
    key.partition = partition;
    r->key.size = 0;
    const enum err e = offset_commit_key_encode(&r->key, &key);
    if (e == ERR_OK) {
        proposal_put(r->proposal, wbuf_slice(&r->key), (struct slice){0});
    } else {
        r->proposal->failure = e;
    }
    r->count++;
    return true;
}

struct proposal *removal_end(struct removal *r)
{
    wbuf_done(&r->key);
    return r->proposal;
}

/* What is left of a group without members and, once the batch is applied, without offsets. */
static void put_group(const struct group *g, struct proposal *p)
{
    assert(!has_members(g));
    if (g->classic != NULL) {
        classic_put_tombstones(g, p);
    }
    if (g->consumer != NULL) {
        consumer_put_tombstones(g, p);
    }
}

/* ---- OffsetDelete ---- */

/* How far it is, in the answer that is prepared. */
struct deletion {
    size_t topic;
    size_t partition;
};

static bool is_subscribed(struct subscribed *s, struct slice topic)
{
    if (s->g->consumer != NULL) {
        return consumer_is_subscribed(s->g, topic);
    }
    if (s->g->classic == NULL) {
        return false;
    }
    if (!s->is_read) {
        classic_topics_read(&s->topics, s->g);
        s->is_read = true;
    }
    return classic_topics_has(&s->topics, topic);
}

static void subscribed_done(struct subscribed *s)
{
    if (s->is_read) {
        classic_topics_done(&s->topics);
    }
}

static enum kafka_error
judge_topic(struct subscribed *s, const struct topic *now, struct slice name)
{
    if (now == NULL) {
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    }
    return is_subscribed(s, name) ? KAFKA_GROUP_SUBSCRIBED_TO_TOPIC : KAFKA_NONE;
}

static bool fill_deleted_topic(struct subscribed *s,
                               struct group_call *call,
                               const struct offset_delete_request_topic *in,
                               struct offset_delete_response_topic *to)
{
    const struct topic *now = offsets_topic_now(s->g, in->name);
    const enum kafka_error e = judge_topic(s, now, in->name);
    offset_delete_response_topic_init(to);
    to->name = in->name;
    to->partitions_count = in->partitions_count;
    to->partitions = group_call_alloc(call, in->partitions_count, sizeof(*to->partitions));
    for (size_t i = 0; to->partitions != NULL && i < in->partitions_count; i++) {
        const int32_t partition = in->partitions[i].partition_index;
        const bool is_there = now != NULL && partition >= 0 && partition < now->partitions_count;
        offset_delete_response_partition_init(&to->partitions[i]);
        to->partitions[i].partition_index = partition;
        to->partitions[i].error_code = (int16_t)(is_there ? e : KAFKA_UNKNOWN_TOPIC_OR_PARTITION);
    }
    return to->partitions != NULL;
}

static struct offset_delete_response *judge_deletion(const struct group *g, struct group_call *call)
{
    const struct offset_delete_request *in = call->in;
    struct offset_delete_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out == NULL) {
        return NULL;
    }
    offset_delete_response_init(out);
    out->topics_count = in->topics_count;
    out->topics = group_call_alloc(call, in->topics_count, sizeof(*out->topics));
    struct subscribed subscribed = {.g = g};
    bool is_whole = out->topics != NULL;
    for (size_t i = 0; is_whole && i < in->topics_count; i++) {
        is_whole = fill_deleted_topic(&subscribed, call, &in->topics[i], &out->topics[i]);
    }
    subscribed_done(&subscribed);
    return is_whole ? out : NULL;
}

/* False if the batch is full. */
static bool put_deleted_topic(const struct group *g,
                              const struct offset_delete_response_topic *t,
                              struct deletion *d,
                              struct removal *r)
{
    const struct offset_table *table = offsets_table(g);
    const struct offset_topic *committed =
        table == NULL ? NULL : offset_table_topic(table, t->name);
    for (; committed != NULL && d->partition < t->partitions_count; d->partition++) {
        const struct offset_delete_response_partition *p = &t->partitions[d->partition];
        const bool is_there =
            p->error_code == KAFKA_NONE && offset_topic_find(committed, p->partition_index) != NULL;
        if (is_there && !removal_put(r, t->name, p->partition_index)) {
            return false;
        }
    }
    d->partition = 0;
    return true;
}

static void on_offsets_deleted(struct proposal *p, enum err e);

/* The next batch, or the answer. */
static void go_on_deleting(struct group *g, struct group_call *call, struct deletion *d)
{
    const struct offset_delete_response *out = call->out;
    struct removal r;
    if (!removal_begin(&r, g, on_offsets_deleted)) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
        return;
    }
    while (d->topic < out->topics_count && put_deleted_topic(g, &out->topics[d->topic], d, &r)) {
        d->topic++;
    }
    struct proposal *p = removal_end(&r);
    if (proposal_is_empty(p)) {
        proposal_free(p);
        group_answer(g->c, call);
        return;
    }
    p->call = call;
    p->context = d;
    proposal_submit(p);
}

static void on_offsets_deleted(struct proposal *p, enum err e)
{
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    go_on_deleting(p->g, p->call, p->context);
}

void offsets_delete(struct group *g, struct group_call *call)
{
    if (!group_exists(g)) {
        group_refuse(g->c, call, KAFKA_GROUP_ID_NOT_FOUND, NULL);
        return;
    }
    /* What members of other kinds consume cannot be known. */
    if (g->classic != NULL && classic_has_members(g) &&
        !slice_equal_string(classic_protocol_type(g), "consumer")) {
        group_refuse(g->c, call, KAFKA_NON_EMPTY_GROUP, NULL);
        return;
    }
    struct deletion *d = group_call_alloc(call, 1, sizeof(*d));
    call->out = judge_deletion(g, call);
    if (d == NULL || call->out == NULL) {
        group_answer(g->c, call);
        return;
    }
    go_on_deleting(g, call, d);
}

/* ---- DeleteGroups ---- */

static bool put_entry(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    return removal_put(context, offset_topic_name(t), e->partition);
}

static bool put_topic(void *context, const struct offset_topic *t)
{
    return offset_topic_for_each(t, put_entry, context);
}

static void delete_piece(struct group *g, struct group_call *call);

/* The gate stayed closed: nobody has joined. */
static void on_piece_deleted(struct proposal *p, enum err e)
{
    if (e != ERR_OK) {
        group_refuse(p->c, p->call, proposal_error(e), NULL);
        return;
    }
    delete_piece(p->g, p->call);
}

static void on_group_deleted(struct proposal *p, enum err e)
{
    if (e == ERR_OK) {
        p->c->env->counters->groups_deleted++;
        log_info(p->c->env->log, "group_deleted", "group=%s", p->g->id);
    }
    group_refuse(p->c, p->call, proposal_error(e), NULL);
}

static void delete_piece(struct group *g, struct group_call *call)
{
    const struct offset_table *table = offsets_table(g);
    struct removal r;
    if (!removal_begin(&r, g, on_piece_deleted)) {
        group_refuse(g->c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
        return;
    }
    const bool is_last = table == NULL || offset_table_for_each_topic(table, put_topic, &r);
    struct proposal *p = removal_end(&r);
    if (is_last) {
        p->on_applied = on_group_deleted;
        put_group(g, p);
    }
    p->call = call;
    if (proposal_is_empty(p)) {
        /* It was nothing but memory of this coordinator. */
        proposal_free(p);
        group_refuse(g->c, call, KAFKA_NONE, NULL);
        return;
    }
    proposal_submit(p);
}

void offsets_delete_group(struct group *g, struct group_call *call)
{
    if (!group_exists(g)) {
        group_refuse(g->c, call, KAFKA_GROUP_ID_NOT_FOUND, NULL);
    } else if (has_members(g)) {
        group_refuse(g->c, call, KAFKA_NON_EMPTY_GROUP, NULL);
    } else {
        delete_piece(g, call);
    }
}

/* ---- expiry, and topics that are gone ---- */

/* KIP-211: from when on an offset is kept for offsets.retention.minutes. */
enum expiry_base {
    EXPIRE_NEVER,
    EXPIRE_FROM_COMMIT,
    EXPIRE_FROM_EMPTY, /* Since the group has no members; or the commit, if that came later. */
};

/* One look at a group. */
struct cleaning {
    const struct group *g;
    int64_t now_ms;
    enum expiry_base base;
    int64_t empty_since_ms;
    bool spares_subscribed;
    struct subscribed subscribed;
    struct removal *removal; /* NULL: only asks whether there is anything to do. */
    bool has_more;           /* The batch is full, or something was found. */
    bool keeps_some;         /* Offsets stay. */
    uint32_t expired_count;
    uint32_t orphans_count;
    /* The topic that is looked at. */
    const struct topic *now;
    bool is_spared;
};

static void set_base(struct cleaning *c)
{
    const struct group *g = c->g;
    const bool is_simple = g->consumer == NULL && g->classic == NULL;
    c->base = EXPIRE_FROM_COMMIT;
    c->spares_subscribed = has_members(g);
    if (!is_simple && !c->spares_subscribed) {
        c->empty_since_ms =
            g->consumer != NULL ? consumer_empty_since_ms(g) : classic_empty_since_ms(g);
        c->base = c->empty_since_ms >= 0 ? EXPIRE_FROM_EMPTY : EXPIRE_FROM_COMMIT;
        return;
    }
    if (g->classic == NULL) {
        return;
    }
    const bool is_known = strcmp(classic_state_name(g), "Stable") == 0 &&
                          slice_equal_string(classic_protocol_type(g), "consumer");
    c->base = is_known ? EXPIRE_FROM_COMMIT : EXPIRE_NEVER;
}

static struct cleaning cleaning_of(const struct group *g)
{
    struct cleaning c = {.g = g, .now_ms = expiry_now_ms(g->c), .subscribed = {.g = g}};
    set_base(&c);
    return c;
}

static bool is_expired(const struct cleaning *c, const struct offset_entry *e)
{
    if (c->base == EXPIRE_NEVER || c->is_spared) {
        return false;
    }
    const int64_t expire_ms = offset_entry_expire_ms(e);
    if (expire_ms != OFFSET_NEVER_EXPIRES) {
        return c->now_ms >= expire_ms;
    }
    const bool is_later = c->base == EXPIRE_FROM_EMPTY && c->empty_since_ms > e->commit_ms;
    const int64_t base_ms = is_later ? c->empty_since_ms : e->commit_ms;
    int64_t age_ms = 0;
    return !__builtin_sub_overflow(c->now_ms, base_ms, &age_ms) &&
           age_ms >= c->g->c->env->settings->offsets_retention_ms;
}

static bool clean_entry(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    struct cleaning *c = context;
    const bool is_orphan = !offsets_is_alive(c->now, e);
    if (!is_orphan && !is_expired(c, e)) {
        c->keeps_some = true;
        return true;
    }
    if (c->removal == NULL || !removal_put(c->removal, offset_topic_name(t), e->partition)) {
        c->has_more = true;
        return false;
    }
    c->orphans_count += is_orphan ? 1 : 0;
    c->expired_count += is_orphan ? 0 : 1;
    return true;
}

/* Without looking at each: all are of the topic that has the name. */
static bool has_no_orphans(const struct topic *now, const struct offset_topic *t)
{
    return now != NULL && !t->is_mixed && offset_topic_last(t)->partition < now->partitions_count &&
           (uuid_is_zero(&t->id) || uuid_equal(&t->id, &now->id));
}

static bool clean_topic(void *context, const struct offset_topic *t)
{
    struct cleaning *c = context;
    c->now = offsets_topic_now(c->g, offset_topic_name(t));
    c->is_spared = c->spares_subscribed && is_subscribed(&c->subscribed, offset_topic_name(t));
    if ((c->base == EXPIRE_NEVER || c->is_spared) && has_no_orphans(c->now, t)) {
        c->keeps_some = true;
        return true;
    }
    return offset_topic_for_each(t, clean_entry, c);
}

static void clean(struct cleaning *c)
{
    const struct offset_table *table = offsets_table(c->g);
    if (table != NULL) {
        (void)offset_table_for_each_topic(table, clean_topic, c);
    }
    subscribed_done(&c->subscribed);
}

static void arm(struct group *g)
{
    group_timer_arm(&g->cleaning.timer, g->c->time.now_us);
}

static void on_cleaned(struct proposal *p, enum err e)
{
    struct group *g = p->g;
    struct group_cleaning *done = &g->cleaning;
    if (e == ERR_OK && done->has_more) {
        arm(g);
        return;
    }
    if (e == ERR_OK && done->expired_count > 0) {
        log_info(p->c->env->log,
                 "group_offsets_expired",
                 "group=%s offsets=%u",
                 g->id,
                 done->expired_count);
    }
    if (e == ERR_OK && done->orphans_count > 0) {
        log_info(p->c->env->log,
                 "group_offsets_of_deleted_topics_removed",
                 "group=%s offsets=%u",
                 g->id,
                 done->orphans_count);
    }
    if (e == ERR_OK && done->is_whole_group) {
        p->c->env->counters->groups_expired++;
        log_info(p->c->env->log, "group_expired", "group=%s", g->id);
    }
    p->c->env->counters->offsets_expired += e == ERR_OK ? done->expired_count : 0;
    done->expired_count = 0;
    done->orphans_count = 0;
}

/* Alone in the group, by its timer. What fails is found again at the next look. */
static void on_cleaning_due(struct group_timer *t)
{
    struct group *g = t->g;
    struct removal r;
    if (!removal_begin(&r, g, on_cleaned)) {
        return;
    }
    struct cleaning c = cleaning_of(g);
    c.removal = &r;
    clean(&c);
    struct proposal *p = removal_end(&r);
    g->cleaning.has_more = c.has_more;
    g->cleaning.expired_count += c.expired_count;
    g->cleaning.orphans_count += c.orphans_count;
    g->cleaning.is_whole_group = !c.has_more && !c.keeps_some && group_exists(g) && !has_members(g);
    if (g->cleaning.is_whole_group) {
        put_group(g, p);
    }
    if (proposal_is_empty(p)) {
        proposal_free(p);
        return;
    }
    proposal_submit(p);
}

void offsets_init(struct group *g)
{
    group_timer_init(&g->cleaning.timer, g, on_cleaning_due);
}

uint32_t offsets_look(struct group *g)
{
    struct cleaning c = cleaning_of(g);
    clean(&c);
    if (c.has_more || (!c.keeps_some && group_exists(g) && !has_members(g))) {
        arm(g);
    }
    return 1 + (uint32_t)offsets_count(g) + c.subscribed.topics.read_count;
}

/* ---- events ---- */

static bool find_orphans(void *context, const struct offset_topic *t)
{
    struct cleaning *c = context;
    c->now = offsets_topic_now(c->g, offset_topic_name(t));
    return has_no_orphans(c->now, t) || offset_topic_for_each(t, clean_entry, c);
}

void offsets_on_metadata(struct group *g)
{
    struct cleaning c = {.g = g, .base = EXPIRE_NEVER};
    const struct offset_table *table = offsets_table(g);
    if (table != NULL && !offset_table_for_each_topic(table, find_orphans, &c)) {
        arm(g);
    }
}

void offsets_activate(struct group *g)
{
    offsets_on_metadata(g);
}

void offsets_resign(struct group *g)
{
    group_timer_cancel(&g->cleaning.timer);
    g->cleaning.expired_count = 0;
    g->cleaning.orphans_count = 0;
}
