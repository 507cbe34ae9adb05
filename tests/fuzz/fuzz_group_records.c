/* Records of __consumer_offsets, as a log holds them that somebody else wrote, or wrote wrongly,
 * and what members then tell each other through it. The input is a script of steps, each a byte and
 * what that says:
 *
 *   0   u8 size, key, u16 size, value: a record
 *   1   u8 size, key: a tombstone
 *   2   what came so far is a batch, and committed
 *   3   u16 size, bytes: a batch as it stands, with the right length and checksum
 *   4   u8 n: 2^n us pass, at most 17 minutes
 *   5   u8 api, u8 version, u16 size, bytes: a request to group "g"; see APIS
 *   6   the next leader takes over
 *
 * Two coordinators apply the same, one of them leads: both must come to the same state, every
 * request is answered, and nothing is left at the end.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "core/assert.h"
#include "core/logger.h"
#include "core/rand.h"
#include "groups/coordinator.h"
#include "groups/matching.h"
#include "groups/memory.h"
#include "groups/proposal.h"
#include "groups/settings.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/schema.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"

enum {
    STEPS_MAX = 512,
    CALLS_MAX = 64,
    TICKS_MAX = 100 * 1000,
    PROPOSALS_MAX = 256,
    SHIFT_MAX = 30,
    BATCH_SIZE_MAX = 1 << 20,
    MEMORY_SIZE_MAX = 4 << 20,
    ARENA_SIZE_MAX = 16 << 20,
};

/* What a member may ask; without an api: of the group as a whole. */
static const struct {
    enum group_call_kind kind;
    int16_t api_key;
} APIS[] = {
    {GROUP_JOIN, API_JOIN_GROUP},
    {GROUP_SYNC, API_SYNC_GROUP},
    {GROUP_HEARTBEAT, API_HEARTBEAT},
    {GROUP_LEAVE, API_LEAVE_GROUP},
    {GROUP_COMMIT, API_OFFSET_COMMIT},
    {GROUP_DELETE_OFFSETS, API_OFFSET_DELETE},
    {GROUP_CONSUMER_HEARTBEAT, API_CONSUMER_GROUP_HEARTBEAT},
    {GROUP_DESCRIBE, -1},
    {GROUP_DELETE, -1},
    {GROUP_CONSUMER_DESCRIBE, -1},
};

struct call {
    struct group_call call;
    struct arena arena; /* What `in` is made of. */
    bool is_answered;
};

struct node {
    struct rig *g;
    struct coordinator_env env;
    struct group_memory memory;
    struct group_counters counters;
    struct matching matching;
    struct rand rand;
    struct coordinator *c;
};

struct rig {
    struct cluster_settings cluster;
    struct groups_settings settings;
    struct metadata *metadata;
    struct logger log;
    struct node nodes[2];
    struct node *leader;
    struct node *follower;
    struct group_time now;
    struct batch_builder batch;
    struct proposal *proposals[PROPOSALS_MAX];
    size_t proposals_count;
    struct call *calls[CALLS_MAX];
    size_t calls_count;
    bool is_foreign; /* Records were applied that no coordinator proposed: they may contradict. */
};

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
    return ((const struct rig *)l->context)->now.wall_ms;
}

static void intervals(void *context, struct slice group_id, struct groups_intervals *ret)
{
    (void)group_id;
    const struct groups_settings *s = &((const struct node *)context)->g->settings;
    *ret = (struct groups_intervals){
        .session_timeout_ms = s->consumer_session_timeout_ms.value,
        .heartbeat_interval_ms = s->consumer_heartbeat_interval_ms.value,
        .assignment_interval_ms = s->consumer_assignment_interval_ms.value,
    };
}

static void append(void *context, struct coordinator *c, struct proposal *p)
{
    struct node *n = context;
    struct rig *g = n->g;
    assert(n == g->leader);
    assert(n->c == c);
    assert_cmp(g->proposals_count, <, PROPOSALS_MAX);
    g->proposals[g->proposals_count++] = p;
}

static void answer(void *context, struct group_call *call)
{
    (void)context;
    struct call *k = container_of(call, struct call, call);
    assert(!k->is_answered);
    assert(call->out != NULL || call->is_out_of_memory);
    k->is_answered = true;
}

/* ---- both of them ---- */

static void check(const struct rig *g)
{
    if (!g->is_foreign) {
        coordinator_check(g->leader->c);
        coordinator_check(g->follower->c);
    }
    assert(coordinator_digest(g->leader->c) == coordinator_digest(g->follower->c));
}

/* Commits what was proposed, in order. What a coordinator proposes it can read. */
static void settle(struct rig *g)
{
    while (g->proposals_count > 0) {
        struct proposal *p = g->proposals[0];
        g->proposals_count--;
        memmove(g->proposals, g->proposals + 1, g->proposals_count * sizeof(g->proposals[0]));
        const enum err e = coordinator_apply(g->follower->c, proposal_batch(p));
        assert_cmp(e, ==, ERR_OK);
        coordinator_on_appended(g->leader->c, p, ERR_OK, g->now);
        assert(!coordinator_is_broken(g->leader->c));
    }
    check(g);
}

/* The leader resigns: it applies what it has not proposed itself only while it does not lead. */
static void apply(struct rig *g, struct slice batch)
{
    g->is_foreign = true;
    coordinator_resign(g->leader->c);
    const enum err e = coordinator_apply(g->leader->c, batch);
    const enum err e_follower = coordinator_apply(g->follower->c, batch);
    assert_cmp(e, ==, e_follower);
    check(g);
    coordinator_activate(g->leader->c, g->now);
    settle(g);
}

static void take_over(struct rig *g)
{
    coordinator_resign(g->leader->c);
    struct node *old = g->leader;
    g->leader = g->follower;
    g->follower = old;
    coordinator_activate(g->leader->c, g->now);
    settle(g);
}

/* Of the one coordinator and of the queue that it has for itself. */
static uint64_t deadline_us(const struct node *n)
{
    const uint64_t of_matching_us = matching_deadline_us(&n->matching);
    const uint64_t of_coordinator_us = coordinator_deadline_us(n->c);
    return of_matching_us < of_coordinator_us ? of_matching_us : of_coordinator_us;
}

static void tick(struct node *n, struct group_time now)
{
    coordinator_tick(n->c, now);
    if (matching_deadline_us(&n->matching) <= now.now_us) {
        (void)coordinator_match(&n->matching, now);
    }
}

static void pass(struct rig *g, uint64_t us)
{
    const uint64_t end_us = g->now.now_us + us;
    for (int i = 0;; i++) {
        assert_cmp(i, <, TICKS_MAX);
        const uint64_t due_us = deadline_us(g->leader);
        const uint64_t next_us = due_us < end_us ? due_us : end_us;
        if (next_us > g->now.now_us) {
            g->now.wall_ms += (int64_t)((next_us - g->now.now_us) / 1000);
            g->now.now_us = next_us;
        }
        if (due_us > end_us) {
            return;
        }
        tick(g->leader, g->now);
        settle(g);
    }
}

/* ---- steps ---- */

static struct slice take(struct rbuf *in, size_t size)
{
    return rbuf_bytes(in, size < rbuf_left(in) ? size : rbuf_left(in));
}

static void add_record(struct rig *g, struct rbuf *in, bool is_tombstone)
{
    const struct slice key = take(in, (uint8_t)rbuf_i8(in));
    const struct slice value = is_tombstone ? (struct slice){0} : take(in, rbuf_u16(in));
    const struct batch_record record = {.timestamp = g->now.wall_ms, .key = key, .value = value};
    (void)batch_builder_add(&g->batch, &record);
}

static void commit_batch(struct rig *g)
{
    static const struct batch_identity nobody = {-1, -1, -1};
    if (g->batch.records_count == 0) {
        return;
    }
    struct wbuf w;
    wbuf_init(&w, 2 * BATCH_SIZE_MAX);
    const enum err e = batch_builder_finish(&g->batch, CODEC_NONE, &nobody, &w);
    assert(e == ERR_OK);
    apply(g, wbuf_slice(&w));
    wbuf_done(&w);
    batch_builder_done(&g->batch);
    batch_builder_init(&g->batch, BATCH_SIZE_MAX);
}

static void commit_bytes(struct rig *g, struct slice bytes)
{
    uint8_t *copy = malloc(bytes.size + 1);
    assert(copy != NULL);
    if (bytes.size > 0) {
        memcpy(copy, bytes.data, bytes.size);
    }
    seal_batch(copy, bytes.size);
    apply(g, slice_of(copy, bytes.size));
    free(copy);
}

static void ask(struct rig *g, struct rbuf *in)
{
    const size_t index = (uint8_t)rbuf_i8(in) % (sizeof(APIS) / sizeof(APIS[0]));
    const int16_t version = (uint8_t)rbuf_i8(in);
    const struct slice body = take(in, rbuf_u16(in));
    const struct schema_api *api = schema_api_find(APIS[index].api_key);
    if (g->calls_count == CALLS_MAX || (api != NULL && !schema_api_has(api, version))) {
        return;
    }
    struct call *k = calloc(1, sizeof(*k));
    assert(k != NULL);
    arena_init(&k->arena, ARENA_SIZE_MAX);
    void *request = NULL;
    if (api != NULL) {
        struct rbuf r = rbuf_over(body.data, body.size);
        request = arena_alloc(&k->arena, api->request.root->size);
        if (api->request.decode(&r, version, &k->arena, request) != ERR_OK) {
            arena_done(&k->arena);
            free(k);
            return;
        }
    }
    group_call_init(&k->call, APIS[index].kind);
    k->call.version = version;
    k->call.group_id = slice_of_string("g");
    k->call.client_id = slice_of_string("client");
    k->call.client_host = slice_of_string("/127.0.0.1");
    k->call.in = request;
    g->calls[g->calls_count++] = k;
    coordinator_call(g->leader->c, &k->call, g->now);
    settle(g);
}

static void step(struct rig *g, struct rbuf *in)
{
    const int kind = (uint8_t)rbuf_i8(in) % 7;
    if (kind <= 1) {
        add_record(g, in, kind == 1);
    } else if (kind == 2) {
        commit_batch(g);
    } else if (kind == 3) {
        commit_bytes(g, take(in, rbuf_u16(in)));
    } else if (kind == 4) {
        pass(g, UINT64_C(1) << ((uint8_t)rbuf_i8(in) % (SHIFT_MAX + 1)));
    } else if (kind == 5) {
        ask(g, in);
    } else {
        take_over(g);
    }
}

/* ---- a run ---- */

static void begin_node(struct rig *g, struct node *n, uint64_t seed)
{
    n->g = g;
    n->memory =
        (struct group_memory){.size_max = MEMORY_SIZE_MAX, .groups_max = 16, .members_max = 64};
    matching_init(&n->matching);
    rand_init_seed(&n->rand, seed);
    n->env = (struct coordinator_env){
        .settings = &g->settings,
        .metadata = g->metadata,
        .memory = &n->memory,
        .counters = &n->counters,
        .matching = &n->matching,
        .hash_seed = seed,
        .rand = &n->rand,
        .log = &g->log,
        .context = n,
        .intervals = intervals,
        .append = append,
        .answer = answer,
    };
    const enum err e = coordinator_new(&n->env, 0, &n->c);
    assert(e == ERR_OK);
}

static void add_topic(struct rig *g, const char *name, int32_t partitions_count)
{
    struct command_topic_created created = {
        .name = slice_of_string(name),
        .partitions_count = partitions_count,
        .replication_factor = 1,
    };
    memset(created.id.bytes, name[0], sizeof(created.id.bytes));
    const struct topic *t = NULL;
    const enum err e = metadata_add_topic(g->metadata, &created, &t);
    assert(e == ERR_OK);
}

static void begin(struct rig *g)
{
    *g = (struct rig){.now = {1000 * 1000, 1700000000000}};
    cluster_settings_init(&g->cluster);
    groups_settings_init(&g->settings);
    g->settings.initial_delay_ms = 0;
    g->metadata = metadata_new(&g->cluster, 1, 1);
    add_topic(g, "t", 3);
    add_topic(g, "u", 1);
    g->log = (struct logger){.level = LOG_DEBUG, .sink = on_line, .context = g, .wall_ms = wall_ms};
    batch_builder_init(&g->batch, BATCH_SIZE_MAX);
    begin_node(g, &g->nodes[0], 1);
    begin_node(g, &g->nodes[1], 2);
    g->leader = &g->nodes[0];
    g->follower = &g->nodes[1];
    coordinator_activate(g->leader->c, g->now);
}

static void end_node(struct node *n)
{
    coordinator_resign(n->c);
    coordinator_free(n->c);
    assert_cmp(n->memory.size, ==, 0);
    assert_cmp(n->memory.groups_count, ==, 0);
    assert_cmp(n->memory.members_count, ==, 0);
}

static void end(struct rig *g)
{
    coordinator_resign(g->leader->c);
    for (size_t i = 0; i < g->calls_count; i++) {
        struct call *k = g->calls[i];
        assert(k->is_answered);
        group_call_done(&k->call);
        arena_done(&k->arena);
        free(k);
    }
    check(g);
    end_node(g->leader);
    end_node(g->follower);
    batch_builder_done(&g->batch);
    metadata_free(g->metadata);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rig g;
    struct rbuf in = rbuf_over(data, size);
    begin(&g);
    for (int i = 0; i < STEPS_MAX && rbuf_left(&in) > 0; i++) {
        step(&g, &in);
    }
    commit_batch(&g);
    end(&g);
    return 0;
}
