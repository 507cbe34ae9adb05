/* Random walks of a group of the new protocol: clients that join, leave, fall silent, lose answers,
 * repeat heartbeats, and give partitions back late; topics that grow and go; batches that fail;
 * coordinators that restart and hand over. After every step the engine checks itself, and follower
 * and leader are compared (rig.h); besides: no partition is with two clients at once, epochs only
 * rise. When the faults stop, everybody gets what it is to have, and nothing is left over.
 *
 * Where heartbeats are kept (docs/decisions/0021), as they are on a broker, clients wait for the
 * answer, or hurry it; where batches are in flight, calls wait at the gate meanwhile. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/rand.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"

#include "tests/unit/groups/rig.h"

enum {
    RUNS = 20, /* Of each kind. */
    STEPS = 300,
    CLIENTS = 7,
    TOPICS = 3,
    PARTITIONS_MAX = 12,
    ROUNDS_MAX = 100,
};

/* What a client has or should have: partitions of topics, as bits. */
struct holding {
    uint32_t of[TOPICS];
};

struct client {
    char id[32];
    const char *instance;
    bool is_in;     /* It takes part: joined, or on its way to. */
    bool is_unsure; /* The last answer was lost: it says everything next time. */
    int32_t epoch;
    uint32_t topics; /* That it subscribes to, as bits. */
    bool has_pattern;
    struct holding wanted;
    struct holding owned;
    struct rig_call *asked; /* Not answered yet. */
};

struct walk {
    struct rig *r;
    struct rand rand;
    struct client clients[CLIENTS];
    uint32_t ids_count;
    int32_t group_epoch;
};

static const char *const NAMES[TOPICS] = {"t-a", "t-b", "u"};

static bool one_in(struct walk *w, uint64_t of)
{
    return rand_one_in(&w->rand, of);
}

/* ---- topics ---- */

static const struct topic *topic_of(const struct walk *w, size_t i)
{
    return metadata_topic_by_name(w->r->metadata, slice_of_string(NAMES[i]));
}

static void change_topic(struct walk *w)
{
    const size_t i = rand_below(&w->rand, TOPICS);
    const struct topic *t = topic_of(w, i);
    if (t != NULL && one_in(w, 3)) {
        rig_topic_delete(w->r, NAMES[i]);
        for (size_t c = 0; c < CLIENTS; c++) { /* There is nothing to be had of it any more. */
            w->clients[c].owned.of[i] = 0;
            w->clients[c].wanted.of[i] = 0;
        }
        return;
    }
    const int32_t count = t == NULL ? 0 : t->partitions_count;
    if (count < PARTITIONS_MAX) {
        rig_topic(w->r,
                  NAMES[i],
                  count + 1 + (int32_t)rand_below(&w->rand, 3) % (PARTITIONS_MAX - count));
    }
}

/* ---- requests ---- */

static void
set_topics(struct walk *w, const struct client *c, struct consumer_group_heartbeat_request *in)
{
    in->subscribed_topic_names = rig_alloc(w->r, TOPICS, sizeof(struct slice));
    for (size_t i = 0; i < TOPICS; i++) {
        if ((c->topics >> i & 1) != 0) {
            in->subscribed_topic_names[in->subscribed_topic_names_count++] =
                slice_of_string(NAMES[i]);
        }
    }
    in->subscribed_topic_regex = slice_of_string(c->has_pattern ? "t-.*" : "");
}

static void
set_owned(struct walk *w, const struct client *c, struct consumer_group_heartbeat_request *in)
{
    in->topic_partitions = rig_alloc(w->r, TOPICS, sizeof(*in->topic_partitions));
    for (size_t i = 0; i < TOPICS; i++) {
        const struct topic *topic = topic_of(w, i);
        if (topic == NULL || c->owned.of[i] == 0) {
            continue;
        }
        struct consumer_group_heartbeat_request_topic_partition *t =
            &in->topic_partitions[in->topic_partitions_count++];
        t->topic_id = topic->id;
        t->partitions = rig_alloc(w->r, PARTITIONS_MAX, sizeof(int32_t));
        for (int32_t p = 0; p < PARTITIONS_MAX; p++) {
            if ((c->owned.of[i] >> p & 1) != 0) {
                t->partitions[t->partitions_count++] = p;
            }
        }
    }
}

static bool is_settled(const struct client *c)
{
    return memcmp(&c->owned, &c->wanted, sizeof(c->owned)) == 0;
}

/* A client says what it has when it has carried out all it was told. */
static struct consumer_group_heartbeat_request *
request_of(struct walk *w, const struct client *c, bool is_changed)
{
    struct consumer_group_heartbeat_request *in = rig_alloc(w->r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = slice_of_string("g");
    in->member_id = rig_text(w->r, c->id);
    in->instance_id = rig_text(w->r, c->instance);
    in->member_epoch = c->epoch;
    if (c->epoch == 0 || c->is_unsure) {
        in->rebalance_timeout_ms = 20000;
    }
    if (c->epoch == 0 || c->is_unsure || is_changed) {
        set_topics(w, c, in);
    }
    if (c->epoch == 0 || c->is_unsure || (is_settled(c) && !one_in(w, 3))) {
        set_owned(w, c, in);
    }
    return in;
}

static void lose_all(struct client *c)
{
    c->epoch = 0;
    c->asked = NULL;
    c->is_unsure = false;
    c->wanted = (struct holding){0};
    c->owned = (struct holding){0};
}

static void
take(struct walk *w, struct client *c, const struct consumer_group_heartbeat_response_assignment *a)
{
    c->wanted = (struct holding){0};
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        for (size_t t = 0; t < TOPICS; t++) {
            const struct topic *topic = topic_of(w, t);
            const bool is_it =
                topic != NULL && uuid_equal(&topic->id, &a->topic_partitions[i].topic_id);
            for (size_t j = 0; is_it && j < a->topic_partitions[i].partitions_count; j++) {
                c->wanted.of[t] |= 1U << a->topic_partitions[i].partitions[j];
            }
        }
    }
}

static void on_answer(struct walk *w, struct client *c, const struct rig_call *call)
{
    const struct consumer_group_heartbeat_response *out = rig_answer(call);
    switch (out->error_code) {
    case KAFKA_NONE:
        cr_assert(le(i32, c->epoch, out->member_epoch), "the epoch of a member only rises");
        c->epoch = out->member_epoch;
        c->is_unsure = false;
        if (out->assignment != NULL) {
            take(w, c, out->assignment);
        }
        break;
    case KAFKA_UNKNOWN_MEMBER_ID:
    case KAFKA_FENCED_MEMBER_EPOCH:
    case KAFKA_GROUP_ID_NOT_FOUND:
        lose_all(c);
        break;
    case KAFKA_FENCED_INSTANCE_ID:
    case KAFKA_UNRELEASED_INSTANCE_ID:
        lose_all(c);
        c->is_in = false;
        break;
    case KAFKA_COORDINATOR_NOT_AVAILABLE:
    case KAFKA_NOT_COORDINATOR:
        c->is_unsure = true;
        break;
    default:
        cr_fatal("error %d: %.*s",
                 out->error_code,
                 (int)out->error_message.size,
                 (const char *)out->error_message.data);
    }
}

static void hear(struct walk *w, struct client *c)
{
    if (c->asked != NULL && c->asked->is_answered) {
        struct rig_call *call = c->asked;
        c->asked = NULL;
        on_answer(w, c, call);
    }
}

static void beat(struct walk *w, struct client *c, bool is_changed, bool has_faults)
{
    hear(w, c);
    if (c->asked != NULL) {
        if (has_faults && one_in(w, 2)) {
            return; /* It waits. */
        }
        rig_cancel(c->asked);
        hear(w, c);
        if (c->asked != NULL) {
            return;
        }
    }
    if (!c->is_in) {
        return;
    }
    const struct consumer_group_heartbeat_request *in = request_of(w, c, is_changed);
    struct rig_call *call = rig_send(w->r, GROUP_CONSUMER_HEARTBEAT, 1, "g", in);
    if (has_faults && call->is_answered && one_in(w, 10)) {
        c->is_unsure = true;
        if (one_in(w, 2)) { /* The same again: its answer is lost as well. */
            (void)rig_send(w->r, GROUP_CONSUMER_HEARTBEAT, 1, "g", in);
        }
        return;
    }
    c->asked = call;
    hear(w, c);
}

/* ---- what clients do ---- */

static void start(struct walk *w, struct client *c)
{
    lose_all(c);
    c->is_in = true;
    (void)snprintf(c->id, sizeof(c->id), "m%u", w->ids_count++);
    c->topics = 1 + (uint32_t)rand_below(&w->rand, (1U << TOPICS) - 1);
    c->has_pattern = one_in(w, 4);
}

static void leave(struct walk *w, struct client *c)
{
    const int32_t before = c->epoch;
    if (before == 0) {
        c->is_in = false;
        return;
    }
    struct consumer_group_heartbeat_request *in = rig_alloc(w->r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = slice_of_string("g");
    in->member_id = rig_text(w->r, c->id);
    in->instance_id = rig_text(w->r, c->instance);
    in->member_epoch = c->instance != NULL && one_in(w, 2) ? -2 : -1;
    (void)rig_send(w->r, GROUP_CONSUMER_HEARTBEAT, 1, "g", in);
    lose_all(c);
    c->is_in = false;
}

static void act(struct walk *w, struct client *c)
{
    if (!c->is_in) {
        if (one_in(w, 3)) {
            start(w, c);
        }
        return;
    }
    switch (rand_below(&w->rand, 16)) {
    case 0:
        leave(w, c);
        break;
    case 1: /* Killed. */
        lose_all(c);
        c->is_in = false;
        break;
    case 2:
        c->topics = 1 + (uint32_t)rand_below(&w->rand, (1U << TOPICS) - 1);
        c->has_pattern = !c->has_pattern && one_in(w, 2);
        beat(w, c, true, true);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        if (c->asked == NULL) {
            c->owned = c->wanted;
        }
        break;
    default:
        beat(w, c, false, true);
    }
}

static void disturb(struct walk *w)
{
    switch (rand_below(&w->rand, 8)) {
    case 0:
    case 1:
        change_topic(w);
        break;
    case 2:
        rig_handover(w->r);
        break;
    case 3:
        rig_restart(w->r);
        break;
    case 4:
        w->r->append_err = ERR_NO_SPACE;
        break;
    default:
        w->r->append_err = ERR_OK;
        rig_pass_ms(w->r, rand_below(&w->rand, one_in(w, 8) ? 50000 : 2000));
    }
}

/* ---- what is checked ---- */

static const struct consumer_group_describe_response_group *describe(struct walk *w)
{
    return rig_answer(rig_send(w->r, GROUP_CONSUMER_DESCRIBE, 1, "g", NULL));
}

static const struct consumer_group_describe_response_member *
member_of(const struct consumer_group_describe_response_group *g, const struct client *c)
{
    for (size_t i = 0; i < g->members_count; i++) {
        if (slice_equal_string(g->members[i].member_id, c->id)) {
            return &g->members[i];
        }
    }
    return NULL;
}

/* Clients that the group does not know any more will hear so; the others never share. */
static void check(struct walk *w)
{
    const struct consumer_group_describe_response_group *g = describe(w);
    struct holding all = {0};
    if (g->error_code != KAFKA_NONE) {
        return;
    }
    cr_assert(le(i32, w->group_epoch, g->group_epoch), "the epoch of the group only rises");
    cr_assert(le(i32, g->assignment_epoch, g->group_epoch));
    w->group_epoch = g->group_epoch;
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *c = &w->clients[i];
        if (!c->is_in || c->epoch == 0 || member_of(g, c) == NULL) {
            continue;
        }
        for (size_t t = 0; t < TOPICS; t++) {
            cr_assert(eq(u32, all.of[t] & c->owned.of[t], 0), "a partition has two owners");
            all.of[t] |= c->owned.of[t];
        }
    }
}

/* All that anybody subscribes to, and that is there. */
static void check_all_owned(const struct walk *w)
{
    struct holding all = {0};
    uint32_t wanted = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        const struct client *c = &w->clients[i];
        if (c->is_in) {
            wanted |= c->topics | (c->has_pattern ? 3U : 0);
            for (size_t t = 0; t < TOPICS; t++) {
                all.of[t] |= c->owned.of[t];
            }
        }
    }
    for (size_t t = 0; t < TOPICS; t++) {
        const struct topic *topic = topic_of(w, t);
        const bool is_wanted = topic != NULL && (wanted >> t & 1) != 0;
        const uint32_t expected = is_wanted ? (1U << topic->partitions_count) - 1 : 0;
        cr_assert(eq(u32, all.of[t], expected), "all partitions are with somebody");
    }
}

static void converge(struct walk *w)
{
    w->r->append_err = ERR_OK;
    w->r->is_holding = false;
    rig_commit_all(w->r);
    for (size_t round = 0; round < ROUNDS_MAX; round++) {
        rig_pass_ms(w->r, 1000);
        for (size_t i = 0; i < CLIENTS; i++) {
            struct client *c = &w->clients[i];
            if (c->is_in) {
                c->owned = c->wanted;
                beat(w, c, false, false);
                c->owned = c->wanted;
                beat(w, c, false, false);
            }
        }
        check(w);
    }
    const struct consumer_group_describe_response_group *g = describe(w);
    if (g->error_code == KAFKA_NONE && g->members_count > 0) {
        cr_assert(slice_equal_string(g->group_state, "Stable"));
    }
    check_all_owned(w);
}

/* Batches stay in flight from now on; or those that are are decided, the first alone or all. */
static void decide_batches(struct walk *w)
{
    struct rig *r = w->r;
    if (one_in(w, 3)) {
        r->is_holding = true;
        return;
    }
    if (!r->is_holding || !one_in(w, 2)) {
        return;
    }
    r->is_holding = false;
    if (one_in(w, 8)) {
        rig_fail_all(r, ERR_NO_SPACE);
    } else if (r->proposals_count > 0) {
        rig_commit(r, 1);
    }
    rig_pass_ms(r, 0);
}

static void walk(uint64_t seed, bool is_held, bool has_flights)
{
    struct walk w = {.r = rig_new()};
    rand_init_seed(&w.rand, seed);
    w.r->settings.is_heartbeat_held = is_held;
    for (size_t i = 0; i < CLIENTS; i++) {
        static const char *const INSTANCES[CLIENTS] = {"i", "j"};
        w.clients[i].instance = INSTANCES[i];
    }
    for (size_t step = 0; step < STEPS; step++) {
        if (has_flights) {
            decide_batches(&w);
        }
        if (one_in(&w, 4)) {
            disturb(&w);
        } else {
            act(&w, &w.clients[rand_below(&w.rand, CLIENTS)]);
        }
        check(&w);
    }
    converge(&w);
    rig_restart(w.r);
    rig_free(w.r);
}

static void walks(bool is_held, bool has_flights)
{
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        cr_log_info("seed %lu", (unsigned long)seed);
        walk(seed, is_held, has_flights);
    }
}

Test(consumer_random, walks)
{
    walks(false, false);
}

Test(consumer_random, walks_with_heartbeats_kept)
{
    walks(true, false);
}

Test(consumer_random, walks_with_batches_in_flight)
{
    walks(true, true);
}
