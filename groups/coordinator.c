#include "groups/coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/ids.h"
#include "core/rbuf.h"
#include "groups/classic.h"
#include "groups/consumer.h"
#include "groups/group.h"
#include "groups/group_priv.h"
#include "groups/listing.h"
#include "groups/matching.h"
#include "groups/offsets.h"
#include "groups/settings.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/offset_commit.h"
#include "storage/batch.h"

enum {
    GROUP_ID_SIZE_MAX = INT16_MAX,
    TICK_TIMERS_MAX = 64,
    TICK_BUCKETS_MAX = 64, /* Told of the metadata in one tick. */
};

/* ---- the table of groups ---- */

struct group *group_find(const struct coordinator *c, struct slice id)
{
    const uint64_t hash = hash_bytes(c->env->hash_seed, id.data, id.size);
    list_for_each (link, name_table_bucket(&c->groups, hash)) {
        struct group *g = group_at(link);
        if (g->by_id.hash == hash && slice_equal(group_id(g), id)) {
            return g;
        }
    }
    return NULL;
}

/* Whoever was told of the metadata stays told when the table grows. */
static enum err enter(struct coordinator *c, struct group *g)
{
    const uint32_t before = c->groups.buckets_count;
    const uint64_t hash = hash_bytes(c->env->hash_seed, g->id, g->id_size);
    const enum err e = name_table_add(&c->groups, &g->by_id, hash);
    if (c->metadata_bucket == before) {
        c->metadata_bucket = c->groups.buckets_count;
    }
    return e;
}

struct group *group_get(struct coordinator *c, struct slice id)
{
    struct group *g = group_find(c, id);
    if (g != NULL || id.size > GROUP_ID_SIZE_MAX) {
        return g;
    }
    g = calloc(1, sizeof(*g) + id.size + 1);
    if (g == NULL) {
        return NULL;
    }
    g->c = c;
    g->id_size = (uint32_t)id.size;
    if (id.size > 0) {
        memcpy(g->id, id.data, id.size);
    }
    if (enter(c, g) != ERR_OK) {
        free(g);
        return NULL;
    }
    list_init(&g->waiting);
    list_init(&g->due);
    offsets_init(g);
    c->env->memory->groups_count++;
    group_memory_take(c->env->memory, sizeof(*g) + id.size + 1);
    return g;
}

bool group_exists(const struct group *g)
{
    return g->offsets != NULL || g->classic != NULL || g->consumer != NULL;
}

static bool is_gate_idle(const struct group *g)
{
    return !g->is_changing && g->commits_count == 0 && list_is_empty(&g->waiting) &&
           list_is_empty(&g->due);
}

void group_drop_unused(struct group *g)
{
    if (g->is_running || group_exists(g) || !is_gate_idle(g)) {
        return;
    }
    struct coordinator *c = g->c;
    group_timer_cancel(&g->cleaning.timer);
    name_table_remove(&c->groups, &g->by_id);
    c->env->memory->groups_count--;
    group_memory_give(c->env->memory, sizeof(*g) + g->id_size + 1);
    free(g);
}

/* ---- what a call does ---- */

/* A group of the new protocol serves calls of the old one, too, while it is migrated. */
static void join(struct group *g, struct group_call *call)
{
    (g->consumer != NULL ? consumer_classic_join : classic_join)(g, call);
}

static void sync(struct group *g, struct group_call *call)
{
    (g->consumer != NULL ? consumer_classic_sync : classic_sync)(g, call);
}

static void heartbeat(struct group *g, struct group_call *call)
{
    (g->consumer != NULL ? consumer_classic_heartbeat : classic_heartbeat)(g, call);
}

static void leave(struct group *g, struct group_call *call)
{
    (g->consumer != NULL ? consumer_classic_leave : classic_leave)(g, call);
}

enum gate {
    GATE_NONE,
    GATE_SHARED,
    GATE_EXCLUSIVE,
};

static const struct group_verb {
    enum gate gate;
    void (*run)(struct group *g, struct group_call *call);
    bool is_nameless_legal; /* Or the module has its own words for an empty group id. */
} VERBS[GROUP_CALL_KIND_COUNT] = {
    [GROUP_JOIN] = {GATE_EXCLUSIVE, join},
    [GROUP_SYNC] = {GATE_EXCLUSIVE, sync},
    [GROUP_HEARTBEAT] = {GATE_EXCLUSIVE, heartbeat},
    [GROUP_LEAVE] = {GATE_EXCLUSIVE, leave},
    [GROUP_COMMIT] = {GATE_SHARED, offsets_commit, true},
    [GROUP_FETCH] = {GATE_NONE, offsets_fetch, true},
    [GROUP_DELETE_OFFSETS] = {GATE_EXCLUSIVE, offsets_delete},
    [GROUP_DESCRIBE] = {GATE_NONE, classic_describe},
    [GROUP_DELETE] = {GATE_EXCLUSIVE, offsets_delete_group, true},
    [GROUP_CONSUMER_HEARTBEAT] = {GATE_EXCLUSIVE, consumer_heartbeat, true},
    [GROUP_CONSUMER_DESCRIBE] = {GATE_NONE, consumer_describe},
};

/* ---- the gate ---- */

static bool is_open(const struct group *g, enum gate gate)
{
    switch (gate) {
    case GATE_NONE:
        return true;
    case GATE_SHARED:
        return !g->is_changing;
    case GATE_EXCLUSIVE:
        break;
    }
    return !g->is_changing && g->commits_count == 0;
}

static struct group_timer *first_due(const struct group *g)
{
    return list_is_empty(&g->due) ? NULL : container_of(g->due.next, struct group_timer, due_link);
}

static struct group_call *first_waiting(const struct group *g)
{
    return list_is_empty(&g->waiting) ? NULL
                                      : container_of(g->waiting.next, struct group_call, link);
}

static bool run_timer(struct group *g, struct group_timer *t)
{
    if (!is_open(g, GATE_EXCLUSIVE)) {
        return false;
    }
    list_remove(&t->due_link);
    t->on_due(t);
    return true;
}

static bool run_call(struct group *g, struct group_call *call)
{
    const struct group_verb *verb = &VERBS[call->kind];
    if (!is_open(g, verb->gate)) {
        return false;
    }
    list_remove(&call->link);
    call->group = NULL;
    verb->run(g, call);
    return true;
}

/* A call that came before the deadline goes before the timer: whoever spoke in time was not silent,
 * however long the gate was closed. */
static bool run_next(struct group *g)
{
    struct group_timer *t = first_due(g);
    struct group_call *call = first_waiting(g);
    const bool is_call_first =
        call != NULL && (t == NULL || call->waits_since_us < t->timer.deadline_us);
    if (is_call_first) {
        return run_call(g, call);
    }
    return t != NULL && run_timer(g, t);
}

/* Lets in whoever may come in now; g may be gone afterwards. */
static void group_run(struct group *g)
{
    if (g->is_running) {
        return;
    }
    g->is_running = true;
    while (run_next(g)) {
    }
    g->is_running = false;
    group_drop_unused(g);
}

/* Behind all that wait; or at once. g may be gone afterwards. */
static void wait_at_gate(struct group *g, struct group_call *call)
{
    call->group = g;
    call->waits_since_us = g->c->time.now_us;
    list_push_back(&g->waiting, &call->link);
    group_run(g);
}

void group_on_proposed(struct proposal *p)
{
    if (p->class == PROPOSAL_SHARED) {
        p->g->commits_count++;
    } else {
        assert(!p->g->is_changing);
        p->g->is_changing = true;
    }
}

static void on_proposal_over(struct proposal *p, enum err e)
{
    struct group *g = p->g;
    if (p->class == PROPOSAL_SHARED) {
        assert_cmp(g->commits_count, >, 0);
        g->commits_count--;
    } else {
        assert(g->is_changing);
        g->is_changing = false;
    }
    g->is_running = true;
    p->on_applied(p, e);
    consumer_wake(g);
    g->is_running = false;
}

/* ---- timers ---- */

static void on_timer(struct timer *timer)
{
    struct group_timer *t = container_of(timer, struct group_timer, timer);
    list_push_back(&t->g->due, &t->due_link);
    group_run(t->g);
}

void group_timer_init(struct group_timer *t, struct group *g, void (*on_due)(struct group_timer *t))
{
    timer_init(&t->timer, on_timer);
    t->g = g;
    list_init(&t->due_link);
    t->on_due = on_due;
}

void group_timer_arm(struct group_timer *t, uint64_t deadline_us)
{
    list_remove(&t->due_link);
    timer_arm(&t->g->c->timers, &t->timer, deadline_us);
}

void group_timer_cancel(struct group_timer *t)
{
    list_remove(&t->due_link);
    timer_cancel(&t->g->c->timers, &t->timer);
}

struct coordinator *coordinator_match(struct matching *m, struct group_time now)
{
    struct group_timer *t = container_of(matching_pop(m), struct group_timer, due_link);
    struct coordinator *c = t->g->c;
    c->time = now;
    t->timer.deadline_us = now.now_us;
    on_timer(&t->timer);
    return c;
}

/* ---- metadata, told to some groups per tick ---- */

static bool is_telling(const struct coordinator *c)
{
    return c->is_active && c->metadata_bucket < c->groups.buckets_count;
}

void coordinator_on_metadata(struct coordinator *c, struct group_time now)
{
    c->time = now;
    c->metadata_changes++;
    if (is_telling(c)) {
        c->is_metadata_newer = true;
    } else {
        c->metadata_bucket = 0;
    }
}

static void tell_group(struct group *g)
{
    offsets_on_metadata(g);
    consumer_on_metadata(g);
    group_run(g);
}

/* Buckets split when the table grows: groups of one that was told are told again at most. */
static void tell_some(struct coordinator *c)
{
    for (uint32_t i = 0; is_telling(c) && i < TICK_BUCKETS_MAX; i++) {
        const struct list *bucket = &c->groups.buckets[c->metadata_bucket++];
        list_for_each_safe (link, bucket) {
            tell_group(group_at(link));
        }
    }
    if (!is_telling(c) && c->is_metadata_newer) {
        c->is_metadata_newer = false;
        c->metadata_bucket = 0;
    }
}

uint64_t coordinator_deadline_us(const struct coordinator *c)
{
    return is_telling(c) ? 0 : timers_next_deadline_us(&c->timers);
}

void coordinator_tick(struct coordinator *c, struct group_time now)
{
    c->time = now;
    (void)timers_run(&c->timers, now.now_us, TICK_TIMERS_MAX);
    tell_some(c);
}

/* ---- calls ---- */

void group_answer(struct coordinator *c, struct group_call *call)
{
    list_remove(&call->link);
    call->group = NULL;
    call->on_cancel = NULL;
    c->env->answer(c->env->context, call);
}

void group_refuse(struct coordinator *c,
                  struct group_call *call,
                  enum kafka_error e,
                  const char *text)
{
    group_call_refuse(call, e, slice_of_string(text));
    group_answer(c, call);
}

void group_keep(struct group_call *call, void (*on_cancel)(struct group_call *call))
{
    call->on_cancel = on_cancel;
}

void group_requeue(struct group *g, struct group_call *call)
{
    call->on_cancel = NULL;
    call->keeper = NULL;
    call->was_kept = true;
    wait_at_gate(g, call);
}

static bool is_join(const struct group_call *call)
{
    if (call->kind == GROUP_JOIN) {
        return ((const struct join_group_request *)call->in)->member_id.size == 0;
    }
    return call->kind == GROUP_CONSUMER_HEARTBEAT &&
           ((const struct consumer_group_heartbeat_request *)call->in)->member_epoch == 0;
}

/* Of who is no member of anything. */
static bool is_simple_commit(const struct group_call *call)
{
    return call->kind == GROUP_COMMIT &&
           ((const struct offset_commit_request *)call->in)->generation_id_or_member_epoch < 0;
}

/* Who only asks about a group gets one for the question, also at the limit: it goes with it. So
 * does who takes itself for a member of one that is not there: it is told, and acts. */
static bool may_be_made(const struct coordinator *c, const struct group_call *call)
{
    const struct group_memory *m = c->env->memory;
    const bool is_to_stay = is_join(call) || is_simple_commit(call);
    return !is_to_stay ||
           (m->groups_count < m->groups_max && group_memory_has_room(m, sizeof(struct group)));
}

/* A new group's first member hears what a full group's does, and stops: nothing of its doing makes
 * room. An offset is committed again and again, until there is. */
static void refuse_group(struct coordinator *c, struct group_call *call)
{
    const struct group_memory *m = c->env->memory;
    const enum kafka_error e =
        is_join(call) ? KAFKA_GROUP_MAX_SIZE_REACHED : KAFKA_COORDINATOR_NOT_AVAILABLE;
    group_refuse(c,
                 call,
                 e,
                 m->groups_count < m->groups_max
                     ? "The groups of this broker take all of coreflume.groups.state.bytes."
                     : "The groups of this broker have reached coreflume.groups.max.");
}

static bool is_served(const struct coordinator *c, enum group_call_kind kind)
{
    const bool is_of_consumers =
        kind == GROUP_CONSUMER_HEARTBEAT || kind == GROUP_CONSUMER_DESCRIBE;
    return !is_of_consumers || c->env->settings->is_consumer_enabled;
}

void coordinator_call(struct coordinator *c, struct group_call *call, struct group_time now)
{
    assert(c->is_active);
    c->time = now;
    if (!is_served(c, call->kind)) {
        group_refuse(c,
                     call,
                     KAFKA_UNSUPPORTED_VERSION,
                     "group.coordinator.rebalance.protocols of this broker lacks consumer.");
        return;
    }
    if (call->group_id.size == 0 && !VERBS[call->kind].is_nameless_legal) {
        group_refuse(c, call, KAFKA_INVALID_GROUP_ID, NULL);
        return;
    }
    struct group *g = group_find(c, call->group_id);
    if (g == NULL && may_be_made(c, call)) {
        g = group_get(c, call->group_id);
    }
    if (g == NULL) {
        refuse_group(c, call);
        return;
    }
    if (VERBS[call->kind].gate == GATE_NONE) {
        g->is_running = true;
        VERBS[call->kind].run(g, call);
        g->is_running = false;
        group_drop_unused(g);
        return;
    }
    wait_at_gate(g, call);
}

/* A call whose batch is in flight is answered when that is applied. */
void coordinator_cancel(struct coordinator *c, struct group_call *call, struct group_time now)
{
    c->time = now;
    if (call->on_cancel != NULL) {
        void (*on_cancel)(struct group_call * call) = call->on_cancel;
        call->on_cancel = NULL;
        on_cancel(call);
        return;
    }
    /* At the gate it stays: its turn comes soon, and what it asks for is to happen (a leave, a
     * commit, a leader's assignment), although nobody waits for the answer. But who would only wait
     * for others there is gone. */
    call->is_hurried = true;
    struct group *g = call->group;
    if (call->kind == GROUP_JOIN && g != NULL) {
        group_refuse(c, call, KAFKA_COORDINATOR_NOT_AVAILABLE, NULL);
        group_run(g);
    }
}

/* ---- records ---- */

static const struct {
    int16_t type;
    enum err (*apply)(struct coordinator *c, int16_t type, struct slice key, struct slice value);
} RECORDS[] = {
    {0, offsets_apply},
    {1, offsets_apply},
    {2, classic_apply},
    {3, consumer_apply},
    {4, consumer_apply},
    {5, consumer_apply},
    {6, consumer_apply},
    {7, consumer_apply},
    {8, consumer_apply},
    {16, consumer_apply},
};

static enum err apply_record(struct coordinator *c, struct slice key, struct slice value)
{
    struct rbuf in = rbuf_over(key.data, key.size);
    const int16_t type = rbuf_i16(&in);
    for (size_t i = 0; i < sizeof(RECORDS) / sizeof(RECORDS[0]); i++) {
        if (RECORDS[i].type == type && in.failure == ERR_OK) {
            return RECORDS[i].apply(c, type, key, value);
        }
    }
    c->env->counters->records_unknown++;
    return ERR_OK;
}

/* ---- life ---- */

enum err coordinator_new(const struct coordinator_env *env,
                         int32_t partition,
                         struct coordinator **ret_coordinator)
{
    struct coordinator *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return ERR_BUSY;
    }
    c->env = env;
    c->partition = partition;
    timers_init(&c->timers);
    list_init(&c->proposals);
    *ret_coordinator = c;
    return ERR_OK;
}

/* Runs over all groups; visit may drop the one it gets. */
static void for_each_group(struct coordinator *c, void (*visit)(struct group *g))
{
    for (uint32_t i = 0; i < c->groups.buckets_count; i++) {
        list_for_each_safe (link, &c->groups.buckets[i]) {
            visit(group_at(link));
        }
    }
}

static void free_group(struct group *g)
{
    offsets_free(g);
    classic_free(g);
    consumer_free(g);
    group_drop_unused(g);
}

void coordinator_free(struct coordinator *c)
{
    if (c == NULL) {
        return;
    }
    assert(!c->is_active);
    assert(list_is_empty(&c->proposals));
    for_each_group(c, free_group);
    timers_done(&c->timers);
    name_table_done(&c->groups);
    free(c);
}

static void activate_group(struct group *g)
{
    offsets_activate(g);
    classic_activate(g);
    consumer_activate(g);
}

void coordinator_activate(struct coordinator *c, struct group_time now)
{
    assert(!c->is_active);
    c->is_active = true;
    c->time = now;
    expiry_start(c);
    for_each_group(c, activate_group);
}

static void resign_group(struct group *g)
{
    struct list *link = NULL;
    while ((link = list_pop_front(&g->waiting)) != NULL) {
        struct group_call *call = container_of(link, struct group_call, link);
        group_refuse(g->c, call, KAFKA_NOT_COORDINATOR, NULL);
    }
    offsets_resign(g);
    classic_resign(g);
    consumer_resign(g);
    assert(list_is_empty(&g->due));
    group_drop_unused(g);
}

/* Their batches may still be committed; whoever leads then applies them. */
static void void_proposals(struct coordinator *c)
{
    list_for_each (link, &c->proposals) {
        struct proposal *p = container_of(link, struct proposal, link);
        if (!p->is_void) {
            p->is_void = true;
            on_proposal_over(p, ERR_NOT_LEADER);
            p->g = NULL;
        }
    }
}

void coordinator_resign(struct coordinator *c)
{
    if (!c->is_active) {
        return;
    }
    c->is_active = false;
    expiry_stop(c);
    void_proposals(c);
    for_each_group(c, resign_group);
}

bool coordinator_is_active(const struct coordinator *c)
{
    return c->is_active;
}

bool coordinator_is_broken(const struct coordinator *c)
{
    return c->is_broken;
}

int32_t coordinator_partition(const struct coordinator *c)
{
    return c->partition;
}

/* ---- batches ---- */

static enum err apply_records(struct coordinator *c, struct record_cursor *records)
{
    enum err corrupt = ERR_OK;
    struct record r;
    enum err e = ERR_OK;
    while ((e = record_next(records, &r)) == ERR_OK) {
        c->record_ms = r.timestamp;
        e = apply_record(c, r.key, r.value);
        if (e == ERR_BUSY) {
            return e;
        }
        if (e != ERR_OK) {
            corrupt = ERR_CORRUPT;
        }
    }
    return e == ERR_EOF ? corrupt : ERR_CORRUPT;
}

enum err coordinator_apply(struct coordinator *c, struct slice batch)
{
    struct batch_header header;
    if (batch_header_decode(batch, &header) != ERR_OK) {
        return ERR_CORRUPT;
    }
    if ((header.attributes & BATCH_CONTROL) != 0) {
        return ERR_OK;
    }
    struct wbuf w;
    wbuf_init(&w, PROPOSAL_SIZE_MAX);
    struct slice bytes;
    enum err e = batch_records(batch, PROPOSAL_SIZE_MAX, &w, &bytes);
    if (e == ERR_OK) {
        struct record_cursor records;
        record_cursor_init(&records, &header, bytes);
        e = apply_records(c, &records);
    } else if (e != ERR_BUSY) {
        e = ERR_CORRUPT;
    }
    wbuf_done(&w);
    return e;
}

void coordinator_on_appended(struct coordinator *c,
                             struct proposal *p,
                             enum err e,
                             struct group_time now)
{
    assert(c->proposals.next == &p->link);
    c->time = now;
    if (!p->is_void) {
        struct group *g = p->g;
        if (e == ERR_OK) {
            e = coordinator_apply(c, proposal_batch(p));
            c->is_broken = c->is_broken || e != ERR_OK;
        }
        on_proposal_over(p, e);
        group_run(g);
    }
    proposal_free(p);
}

/* ---- listing ---- */

static bool add_to_list(const struct group *g, struct group_call *call)
{
    struct list_groups_response *out = call->out;
    struct list_groups_response_group *to = &out->groups[out->groups_count];
    if (!listing_fill(g, call->in, to)) {
        return true;
    }
    to->group_id = group_call_copy(call, to->group_id);
    to->protocol_type = group_call_copy(call, to->protocol_type);
    out->groups_count++;
    return !call->is_out_of_memory;
}

bool coordinator_list(struct coordinator *c, struct group_call *call)
{
    for (uint32_t i = 0; i < c->groups.buckets_count; i++) {
        list_for_each (link, &c->groups.buckets[i]) {
            if (!add_to_list(group_at(link), call)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- for tests ---- */

uint64_t coordinator_digest(const struct coordinator *c)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < c->groups.buckets_count; i++) {
        list_for_each (link, &c->groups.buckets[i]) {
            const struct group *g = group_at(link);
            const uint64_t parts[] = {offsets_digest(g), classic_digest(g), consumer_digest(g)};
            if ((parts[0] | parts[1] | parts[2]) != 0) {
                digest += hash_bytes(hash_bytes(0, g->id, g->id_size), parts, sizeof(parts));
            }
        }
    }
    return digest;
}

static void check_group(const struct coordinator *c, const struct group *g)
{
    assert(g->c == c);
    assert(!g->is_running);
    assert(group_exists(g) || !is_gate_idle(g));
    assert(g->classic == NULL || g->consumer == NULL);
    assert(c->is_active || is_gate_idle(g));
    /* Nobody waits at an open gate. */
    assert(list_is_empty(&g->due) || !is_open(g, GATE_EXCLUSIVE));
    offsets_check(g);
    classic_check(g);
    consumer_check(g);
}

void coordinator_check(const struct coordinator *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->groups.buckets_count; i++) {
        list_for_each (link, &c->groups.buckets[i]) {
            check_group(c, group_at(link));
            count++;
        }
    }
    assert_cmp(count, ==, c->groups.count);
}

uint32_t coordinator_groups_count(const struct coordinator *c)
{
    return c->groups.count;
}
