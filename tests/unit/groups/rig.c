#include "tests/unit/groups/rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata_edit.h"

enum {
    START_US = 1000000000,
    ARENA_SIZE_MAX = 1 << 30,
    MEMORY_SIZE_MAX = 1 << 30,
    TICKS_MAX = 1000000,
};

/* The data directory of all partitions. */
static const uint8_t DIRECTORY[UUID_SIZE] = {1};

static const int64_t START_WALL_MS = 1700000000000;

/* ---- the environment ---- */

static void on_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)l;
    (void)level;
    (void)line;
    (void)size;
}

static int64_t wall_ms(struct logger *l)
{
    const struct rig *r = l->context;
    return r->now.wall_ms;
}

static void on_reached(struct reached *reached, const char *name)
{
    struct rig *r = container_of(reached, struct rig, reached);
    if (!rig_has_reached(r, name)) {
        cr_assert(lt(sz, r->marks_count, RIG_MARKS_MAX));
        r->marks[r->marks_count++] = name;
    }
}

bool rig_has_reached(const struct rig *r, const char *mark)
{
    for (size_t i = 0; i < r->marks_count; i++) {
        if (strcmp(r->marks[i], mark) == 0) {
            return true;
        }
    }
    return false;
}

static void intervals(void *context, struct slice group, struct groups_intervals *ret)
{
    (void)group;
    const struct rig_node *n = context;
    *ret = n->r->intervals;
}

static void append(void *context, struct coordinator *c, struct proposal *p)
{
    const struct rig_node *n = context;
    struct rig *r = n->r;
    cr_assert(n == r->leader && n->c == c);
    cr_assert(lt(sz, r->proposals_count, RIG_PROPOSALS_MAX));
    r->proposals[r->proposals_count++] = p;
}

static void answer(void *context, struct group_call *call)
{
    (void)context;
    struct rig_call *rc = container_of(call, struct rig_call, call);
    cr_assert(not(rc->is_answered), "a call is answered once");
    cr_assert(call->out != NULL || call->is_out_of_memory);
    rc->is_answered = true;
}

/* ---- the log ---- */

static void append_to_log(struct rig *r, struct slice batch)
{
    struct rig_batch *grown = realloc(r->batches, (r->batches_count + 1) * sizeof(*grown));
    cr_assert(grown != NULL);
    r->batches = grown;
    struct rig_batch *b = &r->batches[r->batches_count++];
    *b = (struct rig_batch){malloc(batch.size), batch.size};
    cr_assert(b->bytes != NULL);
    memcpy(b->bytes, batch.data, batch.size);
}

static void decide_first(struct rig *r, enum err e)
{
    struct proposal *p = r->proposals[0];
    r->proposals_count--;
    memmove(r->proposals, r->proposals + 1, r->proposals_count * sizeof(struct proposal *));
    if (e == ERR_OK) {
        const struct slice batch = proposal_batch(p);
        append_to_log(r, batch);
        cr_assert(eq(int, coordinator_apply(r->follower->c, batch), ERR_OK));
        if (p->is_void) {
            cr_assert(eq(int, coordinator_apply(r->leader->c, batch), ERR_OK));
        }
    }
    coordinator_on_appended(r->leader->c, p, e, r->now);
}

static void settle(struct rig *r)
{
    while (!r->is_holding && r->proposals_count > 0) {
        decide_first(r, r->append_err);
    }
    rig_check(r);
}

void rig_check(const struct rig *r)
{
    coordinator_check(r->leader->c);
    coordinator_check(r->follower->c);
    cr_assert(eq(u64, coordinator_digest(r->leader->c), coordinator_digest(r->follower->c)));
}

void rig_commit(struct rig *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cr_assert(lt(sz, 0, r->proposals_count), "there is a batch to commit");
        decide_first(r, ERR_OK);
        rig_check(r);
    }
}

void rig_commit_all(struct rig *r)
{
    while (r->proposals_count > 0) {
        rig_commit(r, 1);
    }
}

void rig_fail_all(struct rig *r, enum err e)
{
    while (r->proposals_count > 0) {
        decide_first(r, e);
        rig_check(r);
    }
}

/* ---- life ---- */

static struct coordinator *new_coordinator(const struct rig_node *n)
{
    struct coordinator *c = NULL;
    cr_assert(eq(int, coordinator_new(&n->env, 0, &c), ERR_OK));
    return c;
}

static void init_node(struct rig *r, struct rig_node *n, uint64_t seed)
{
    n->r = r;
    n->memory = (struct group_memory){
        .size_max = MEMORY_SIZE_MAX, .groups_max = 1000, .members_max = 200000};
    matching_init(&n->matching);
    rand_init_seed(&n->rand, seed);
    n->env = (struct coordinator_env){
        .settings = &r->settings,
        .metadata = r->metadata,
        .memory = &n->memory,
        .counters = &n->counters,
        .matching = &n->matching,
        .hash_seed = seed,
        .rand = &n->rand,
        .log = &r->log,
        .reached = &r->reached,
        .context = n,
        .intervals = intervals,
        .append = append,
        .answer = answer,
    };
    n->c = new_coordinator(n);
}

struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof(*r));
    cr_assert(r != NULL);
    cluster_settings_init(&r->cluster);
    groups_settings_init(&r->settings);
    r->settings.initial_delay_ms = 0;
    r->settings.is_heartbeat_held = false; /* Tests that are about it say so. */
    r->intervals = (struct groups_intervals){
        .session_timeout_ms = r->settings.consumer_session_timeout_ms.value,
        .heartbeat_interval_ms = r->settings.consumer_heartbeat_interval_ms.value,
        .assignment_interval_ms = r->settings.consumer_assignment_interval_ms.value,
    };
    r->metadata = metadata_new(&r->cluster, 1, 1);
    r->log = (struct logger){.level = LOG_DEBUG, .sink = on_line, .context = r, .wall_ms = wall_ms};
    r->reached.hit = on_reached;
    arena_init(&r->arena, ARENA_SIZE_MAX);
    list_init(&r->calls);
    r->now = (struct group_time){START_US, START_WALL_MS};
    init_node(r, &r->nodes[0], 1);
    init_node(r, &r->nodes[1], 2);
    r->leader = &r->nodes[0];
    r->follower = &r->nodes[1];
    coordinator_activate(r->leader->c, r->now);
    return r;
}

static void free_node(struct rig_node *n)
{
    coordinator_resign(n->c);
    coordinator_free(n->c);
    n->c = NULL;
    cr_assert(eq(u64, matching_deadline_us(&n->matching), UINT64_MAX), "nobody waits any more");
    cr_assert(eq(u64, n->memory.size, 0), "all memory was given back");
    cr_assert(eq(u64, n->memory.groups_count, 0));
    cr_assert(eq(u64, n->memory.members_count, 0));
}

static void free_calls(struct rig *r)
{
    struct list *link = NULL;
    while ((link = list_pop_front(&r->calls)) != NULL) {
        struct rig_call *call = container_of(link, struct rig_call, link);
        cr_assert(call->is_answered, "every call is answered");
        group_call_done(&call->call);
        free(call);
    }
}

void rig_free(struct rig *r)
{
    rig_check(r);
    coordinator_resign(r->leader->c);
    rig_check(r);
    rig_fail_all(r, ERR_CANCELLED);
    free_calls(r);
    free_node(r->leader);
    free_node(r->follower);
    for (size_t i = 0; i < r->batches_count; i++) {
        free(r->batches[i].bytes);
    }
    free(r->batches);
    metadata_free(r->metadata);
    arena_done(&r->arena);
    free(r);
}

/* ---- calls ---- */

void *rig_alloc(struct rig *r, size_t count, size_t size)
{
    void *memory = arena_alloc_array(&r->arena, count, size);
    cr_assert(memory != NULL);
    return memory;
}

struct slice rig_text(struct rig *r, const char *text)
{
    if (text == NULL) {
        return (struct slice){0};
    }
    const size_t size = strlen(text);
    return slice_of(memcpy(rig_alloc(r, size + 1, 1), text, size), size);
}

struct rig_call *rig_call_new(
    struct rig *r, enum group_call_kind kind, int16_t version, const char *group, const void *in)
{
    struct rig_call *call = calloc(1, sizeof(*call));
    cr_assert(call != NULL);
    group_call_init(&call->call, kind);
    call->call.version = version;
    call->call.group_id = rig_text(r, group);
    call->call.client_id = slice_of_string("client");
    call->call.client_host = slice_of_string("/127.0.0.1");
    call->call.in = in;
    call->r = r;
    list_push_back(&r->calls, &call->link);
    return call;
}

void rig_start(struct rig_call *call)
{
    coordinator_call(call->r->leader->c, &call->call, call->r->now);
    settle(call->r);
}

struct rig_call *rig_send(
    struct rig *r, enum group_call_kind kind, int16_t version, const char *group, const void *in)
{
    struct rig_call *call = rig_call_new(r, kind, version, group, in);
    rig_start(call);
    return call;
}

void rig_cancel(struct rig_call *call)
{
    if (!call->is_answered) {
        coordinator_cancel(call->r->leader->c, &call->call, call->r->now);
        settle(call->r);
    }
}

const void *rig_answer(const struct rig_call *call)
{
    cr_assert(call->is_answered, "the call is answered");
    cr_assert(call->call.out != NULL);
    return call->call.out;
}

/* ---- time ---- */

static void set_time(struct rig *r, uint64_t now_us)
{
    const uint64_t passed_us = now_us - r->now.now_us;
    r->now.now_us = now_us;
    r->now.wall_ms += (int64_t)(passed_us / 1000);
}

/* Of the one coordinator and of the queue that it has for itself. */
static uint64_t deadline_us(const struct rig_node *n)
{
    const uint64_t of_matching_us = matching_deadline_us(&n->matching);
    const uint64_t of_coordinator_us = coordinator_deadline_us(n->c);
    return of_matching_us < of_coordinator_us ? of_matching_us : of_coordinator_us;
}

static void tick(struct rig_node *n, struct group_time now)
{
    coordinator_tick(n->c, now);
    if (matching_deadline_us(&n->matching) <= now.now_us) {
        (void)coordinator_match(&n->matching, now);
    }
}

void rig_pass_ms(struct rig *r, uint64_t ms)
{
    const uint64_t end_us = r->now.now_us + ms * 1000;
    for (int i = 0; i < TICKS_MAX; i++) {
        const uint64_t due_us = deadline_us(r->leader);
        if (due_us > end_us) {
            set_time(r, end_us);
            return;
        }
        if (due_us > r->now.now_us) {
            set_time(r, due_us);
        }
        tick(r->leader, r->now);
        settle(r);
    }
    cr_fatal("a deadline that fires again and again");
}

/* ---- brokers ---- */

void rig_resign(struct rig *r)
{
    coordinator_resign(r->leader->c);
    rig_check(r);
}

void rig_handover(struct rig *r)
{
    rig_resign(r);
    rig_fail_all(r, ERR_NOT_LEADER);
    struct rig_node *old = r->leader;
    r->leader = r->follower;
    r->follower = old;
    coordinator_activate(r->leader->c, r->now);
    settle(r);
}

static void replay(struct rig *r, struct coordinator *c)
{
    for (size_t i = 0; i < r->batches_count; i++) {
        const struct slice batch = slice_of(r->batches[i].bytes, r->batches[i].size);
        cr_assert(eq(int, coordinator_apply(c, batch), ERR_OK));
    }
    coordinator_check(c);
}

/* ---- the compacted log ---- */

struct kept {
    struct slice key;
    struct slice value;
    int64_t timestamp;
    bool is_latest;
};

static size_t count_records(const struct rig *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->batches_count; i++) {
        struct batch_header h;
        const struct slice batch = slice_of(r->batches[i].bytes, r->batches[i].size);
        cr_assert(eq(int, batch_header_decode(batch, &h), ERR_OK));
        count += (size_t)h.records_count;
    }
    return count;
}

static void add_kept(struct kept *all, size_t *count, const struct record *record)
{
    for (size_t i = 0; i < *count; i++) {
        if (slice_equal(all[i].key, record->key)) {
            all[i].is_latest = false;
        }
    }
    all[(*count)++] = (struct kept){record->key, record->value, record->timestamp, true};
}

static struct kept *read_records(const struct rig *r, size_t *ret_count)
{
    struct kept *all = calloc(count_records(r) + 1, sizeof(*all));
    cr_assert(all != NULL);
    *ret_count = 0;
    for (size_t i = 0; i < r->batches_count; i++) {
        const struct slice batch = slice_of(r->batches[i].bytes, r->batches[i].size);
        struct batch_header h;
        cr_assert(eq(int, batch_header_decode(batch, &h), ERR_OK));
        struct record_cursor records;
        record_cursor_init(&records, &h, batch_records_part(batch));
        struct record record;
        while (record_next(&records, &record) == ERR_OK) {
            add_kept(all, ret_count, &record);
        }
    }
    return all;
}

/* In a batch of its own. */
static void put_batch(struct wbuf *w, struct slice key, struct slice value, int64_t timestamp)
{
    static const struct batch_identity NOBODY = {-1, -1, -1};
    struct batch_builder b;
    batch_builder_init(&b, PROPOSAL_SIZE_MAX);
    const struct batch_record record = {.timestamp = timestamp, .key = key, .value = value};
    cr_assert(eq(int, batch_builder_add(&b, &record), ERR_OK));
    wbuf_init(w, PROPOSAL_SIZE_MAX + BATCH_HEADER_SIZE);
    cr_assert(eq(int, batch_builder_finish(&b, CODEC_NONE, &NOBODY, w), ERR_OK));
    batch_builder_done(&b);
}

static void apply_one(struct coordinator *c, const struct kept *k)
{
    struct wbuf w;
    put_batch(&w, k->key, k->value, k->timestamp);
    cr_assert(eq(int, coordinator_apply(c, wbuf_slice(&w)), ERR_OK));
    wbuf_done(&w);
}

void rig_record(struct rig *r, struct slice key, struct slice value)
{
    struct wbuf w;
    put_batch(&w, key, value, r->now.wall_ms);
    append_to_log(r, wbuf_slice(&w));
    for (size_t i = 0; i < 2; i++) {
        cr_assert(eq(int, coordinator_apply(r->nodes[i].c, wbuf_slice(&w)), ERR_OK));
    }
    wbuf_done(&w);
    rig_check(r);
}

/* What compaction leaves gives the same. */
static void check_compacted(struct rig *r, bool has_tombstones)
{
    struct rig_node n;
    init_node(r, &n, 3);
    size_t count = 0;
    struct kept *all = read_records(r, &count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_latest && (has_tombstones || !slice_is_null(all[i].value))) {
            apply_one(n.c, &all[i]);
        }
    }
    free(all);
    coordinator_check(n.c);
    cr_assert(eq(u64, coordinator_digest(n.c), coordinator_digest(r->leader->c)));
    free_node(&n);
}

void rig_restart(struct rig *r)
{
    rig_resign(r);
    rig_fail_all(r, ERR_CANCELLED);
    check_compacted(r, true);
    check_compacted(r, false);
    const uint64_t digest = coordinator_digest(r->leader->c);
    free_node(r->leader);
    r->leader->c = new_coordinator(r->leader);
    replay(r, r->leader->c);
    cr_assert(eq(u64, coordinator_digest(r->leader->c), digest));
    coordinator_activate(r->leader->c, r->now);
    settle(r);
}

/* ---- topics ---- */

static void on_metadata(struct rig *r)
{
    if (coordinator_is_active(r->leader->c)) {
        coordinator_on_metadata(r->leader->c, r->now);
    }
    settle(r);
}

void rig_topic(struct rig *r, const char *name, int32_t partitions_count)
{
    const struct topic *t = metadata_topic_by_name(r->metadata, slice_of_string(name));
    if (t != NULL) {
        const struct command_partitions_added added = {
            .id = t->id,
            .first = t->partitions_count,
            .partitions_count = partitions_count,
            .directories = slice_of(DIRECTORY, sizeof(DIRECTORY)),
        };
        cr_assert(eq(int, metadata_add_partitions(r->metadata, &added, &t), ERR_OK));
        on_metadata(r);
        return;
    }
    r->topics_count++;
    struct uuid id = {0};
    id.bytes[UUID_SIZE - 1] = (uint8_t)r->topics_count;
    id.bytes[UUID_SIZE - 2] = (uint8_t)(r->topics_count >> 8);
    rig_topic_as(r, name, partitions_count, &id);
}

void rig_topic_as(struct rig *r, const char *name, int32_t partitions_count, const struct uuid *id)
{
    const struct topic *t;
    const struct command_topic_created created = {
        .id = *id,
        .name = slice_of_string(name),
        .partitions_count = partitions_count,
        .replication_factor = 1,
        .directories = slice_of(DIRECTORY, sizeof(DIRECTORY)),
    };
    cr_assert(eq(int, metadata_add_topic(r->metadata, &created, &t), ERR_OK));
    on_metadata(r);
}

void rig_topic_delete(struct rig *r, const char *name)
{
    const struct topic *t = metadata_topic_by_name(r->metadata, slice_of_string(name));
    cr_assert(t != NULL);
    const struct uuid id = t->id;
    cr_assert(metadata_remove_topic(r->metadata, &id));
    on_metadata(r);
}
