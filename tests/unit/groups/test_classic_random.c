/* Members that join, forget, lie and vanish at random, over a log that fails and coordinators that
 * come and go. Whatever happens, a generation has one assignment, which is what its members get;
 * and once the faults stop all members are soon in one generation. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/sync_group.h"

#include "tests/unit/groups/rig.h"

enum {
    MEMBERS = 5,
    STATIC_MEMBERS = 2, /* The first of them. */
    SEEDS = 40,
    STEPS = 1200,
    GENERATIONS_MAX = STEPS * 2,
    CALM_ROUNDS_MAX = 400,
    TEXT_MAX = 64,
};

struct member {
    int index;
    struct rig_call *call; /* Outstanding, or NULL. */
    struct slice id;
    int32_t generation;
    bool is_leader;
    bool is_synced;
    int metadata; /* Changes now and then. */
    struct slice others[MEMBERS * 2];
    size_t others_count;
};

struct world {
    struct rig *r;
    struct rand rand;
    struct member members[MEMBERS];
    size_t members_count;                 /* Of them take part. */
    struct slice nonces[GENERATIONS_MAX]; /* By generation: whose assignment counts. */
    int nonce_next;
};

static struct slice text(struct world *w, const char *format, int value)
{
    char bytes[TEXT_MAX];
    (void)snprintf(bytes, sizeof(bytes), format, value);
    return rig_text(w->r, bytes);
}

static struct slice instance_of(struct world *w, const struct member *m)
{
    return m->index < STATIC_MEMBERS ? text(w, "instance-%d", m->index) : (struct slice){0};
}

static void forget(struct member *m)
{
    m->id = slice_of("", 0);
    m->generation = -1;
    m->is_synced = false;
    m->is_leader = false;
}

/* ---- requests ---- */

static void send_join(struct world *w, struct member *m)
{
    static const int16_t VERSIONS[] = {3, 5, 8, 9};
    struct join_group_request *in = rig_alloc(w->r, 1, sizeof(*in));
    struct join_group_request_protocol *protocols = rig_alloc(w->r, 2, sizeof(*protocols));
    join_group_request_init(in);
    in->session_timeout_ms = 6000 + 1000 * (int32_t)rand_below(&w->rand, 4);
    in->rebalance_timeout_ms = 4000 + 1000 * (int32_t)rand_below(&w->rand, 10);
    in->member_id = m->id;
    in->group_instance_id = instance_of(w, m);
    in->protocol_type = slice_of_string("consumer");
    protocols[0] = (struct join_group_request_protocol){slice_of_string("range"),
                                                        text(w, "metadata-%d", m->metadata)};
    protocols[1] = (struct join_group_request_protocol){slice_of_string("robin"), slice_of("", 0)};
    in->protocols = protocols;
    in->protocols_count = 1 + rand_below(&w->rand, 2);
    m->is_synced = false;
    m->call = rig_send(w->r, GROUP_JOIN, VERSIONS[rand_below(&w->rand, 4)], "g", in);
}

static void send_sync(struct world *w, struct member *m)
{
    struct sync_group_request *in = rig_alloc(w->r, 1, sizeof(*in));
    sync_group_request_init(in);
    in->generation_id = m->generation;
    in->member_id = m->id;
    in->group_instance_id = instance_of(w, m);
    if (m->is_leader) {
        const struct slice nonce = text(w, "assignment-%d", w->nonce_next++);
        in->assignments = rig_alloc(w->r, m->others_count + 1, sizeof(*in->assignments));
        in->assignments_count = m->others_count;
        for (size_t i = 0; i < m->others_count; i++) {
            in->assignments[i] = (struct sync_group_request_assignment){m->others[i], nonce};
        }
    }
    m->call = rig_send(w->r, GROUP_SYNC, 4, "g", in);
}

static void send_heartbeat(struct world *w, struct member *m)
{
    struct heartbeat_request *in = rig_alloc(w->r, 1, sizeof(*in));
    heartbeat_request_init(in);
    in->generation_id = m->generation;
    in->member_id = m->id;
    in->group_instance_id = instance_of(w, m);
    m->call = rig_send(w->r, GROUP_HEARTBEAT, 4, "g", in);
}

static void send_leave(struct world *w, struct member *m)
{
    struct leave_group_request *in = rig_alloc(w->r, 1, sizeof(*in));
    leave_group_request_init(in);
    in->members = rig_alloc(w->r, 1, sizeof(*in->members));
    in->members_count = 1;
    in->members[0].member_id = m->id;
    in->members[0].group_instance_id = instance_of(w, m);
    m->call = rig_send(w->r, GROUP_LEAVE, 5, "g", in);
}

/* ---- answers ---- */

static void on_joined(struct member *m, const struct join_group_response *out)
{
    if (out->error_code == KAFKA_MEMBER_ID_REQUIRED) {
        m->id = out->member_id;
        return;
    }
    if (out->error_code != KAFKA_NONE) {
        if (out->error_code != KAFKA_REBALANCE_IN_PROGRESS) {
            forget(m);
        }
        return;
    }
    m->id = out->member_id;
    m->generation = out->generation_id;
    m->is_leader = slice_equal(out->leader, out->member_id) && !out->skip_assignment;
    cr_assert(eq(int, out->members_count > 0, slice_equal(out->leader, out->member_id)));
    cr_assert(le(sz, out->members_count, MEMBERS * 2));
    m->others_count = out->members_count;
    for (size_t i = 0; i < out->members_count; i++) {
        m->others[i] = out->members[i].member_id;
    }
}

static void on_synced(struct world *w, struct member *m, const struct sync_group_response *out)
{
    if (out->error_code != KAFKA_NONE) {
        m->generation = -1;
        if (out->error_code == KAFKA_UNKNOWN_MEMBER_ID ||
            out->error_code == KAFKA_FENCED_INSTANCE_ID) {
            forget(m);
        }
        return;
    }
    m->is_synced = true;
    cr_assert(lt(i32, m->generation, GENERATIONS_MAX));
    struct slice *nonce = &w->nonces[m->generation];
    if (out->assignment.size == 0) {
        return;
    }
    if (slice_is_null(*nonce)) {
        *nonce = out->assignment;
    }
    cr_assert(slice_equal(*nonce, out->assignment), "one assignment per generation");
}

static void take_answer(struct world *w, struct member *m)
{
    if (m->call == NULL || !m->call->is_answered) {
        return;
    }
    const struct rig_call *call = m->call;
    const void *out = rig_answer(call);
    m->call = NULL;
    if (call->call.kind == GROUP_JOIN) {
        on_joined(m, out);
    } else if (call->call.kind == GROUP_SYNC) {
        on_synced(w, m, out);
    } else if (call->call.kind == GROUP_LEAVE) {
        forget(m);
    } else {
        const struct heartbeat_response *heartbeat = out;
        if (heartbeat->error_code == KAFKA_UNKNOWN_MEMBER_ID ||
            heartbeat->error_code == KAFKA_FENCED_INSTANCE_ID) {
            forget(m);
        } else if (heartbeat->error_code != KAFKA_NONE) {
            m->generation = -1;
        }
    }
}

/* ---- what happens ---- */

static void step(struct world *w, struct member *m)
{
    take_answer(w, m);
    if (m->call != NULL) {
        return;
    }
    if (m->generation < 0) {
        send_join(w, m);
    } else if (!m->is_synced) {
        send_sync(w, m);
    } else {
        send_heartbeat(w, m);
    }
}

static void misbehave(struct world *w, struct member *m)
{
    take_answer(w, m);
    const uint64_t what = rand_below(&w->rand, 7);
    if (m->call != NULL && what < 4) {
        rig_cancel(m->call);
        m->call = NULL;
        if (what == 0) {
            forget(m);
        }
    } else if (m->call != NULL) {
        m->call = NULL; /* It asks again on another connection. */
    } else if (what == 4) {
        send_leave(w, m);
    } else if (what == 5) {
        m->generation += (int32_t)rand_below(&w->rand, 3) - 1;
        send_heartbeat(w, m);
    } else if (what == 6) {
        m->metadata++;
        send_join(w, m);
    } else {
        forget(m);
    }
}

static void disturb(struct world *w)
{
    static const enum err ERRORS[] = {ERR_BUSY, ERR_NO_SPACE, ERR_TOO_LARGE, ERR_FAILED};
    struct rig *r = w->r;
    switch (rand_below(&w->rand, 12)) {
    case 0:
        rig_handover(r);
        break;
    case 1:
        if (rand_one_in(&w->rand, 4)) {
            rig_restart(r);
        }
        break;
    case 2:
        rig_fail_all(r, ERRORS[rand_below(&w->rand, 4)]);
        break;
    case 3:
        rig_resign(r);
        if (rand_one_in(&w->rand, 2)) {
            rig_commit_all(r);
        }
        rig_handover(r);
        break;
    case 4:
    case 5:
        r->is_holding = true;
        break;
    case 6:
        r->is_holding = false;
        rig_commit_all(r);
        break;
    case 7:
        rig_pass_ms(r, rand_below(&w->rand, 20000));
        break;
    default:
        rig_pass_ms(r, rand_below(&w->rand, 500));
        break;
    }
}

static bool are_all_together(const struct world *w)
{
    for (size_t i = 0; i < w->members_count; i++) {
        const struct member *m = &w->members[i];
        if (!m->is_synced || m->generation < 0 || m->generation != w->members[0].generation) {
            return false;
        }
    }
    return true;
}

static void calm_down(struct world *w, uint64_t seed)
{
    w->r->is_holding = false;
    rig_commit_all(w->r);
    for (int round = 0; round < CALM_ROUNDS_MAX; round++) {
        for (size_t i = 0; i < w->members_count; i++) {
            step(w, &w->members[i]);
        }
        rig_pass_ms(w->r, 1000);
        for (size_t i = 0; i < w->members_count; i++) {
            take_answer(w, &w->members[i]);
        }
        if (are_all_together(w)) {
            return;
        }
    }
    cr_fatal("seed %llu: members do not come together", (unsigned long long)seed);
}

static const char *const MARKS[] = {
    "classic_not_emptied",
    "classic_nobody_rejoined",
    "classic_never_synced",
    "classic_not_assigned",
    "classic_old_leader_named",
};
enum { MARKS_COUNT = sizeof(MARKS) / sizeof(MARKS[0]) };

static void run(uint64_t seed, bool *is_reached)
{
    struct rig *r = rig_new();
    struct world *w = rig_alloc(r, 1, sizeof(*w));
    w->r = r;
    rand_init_seed(&w->rand, seed);
    r->settings.initial_delay_ms = (int32_t)rand_below(&w->rand, 2) * 1000;
    w->members_count = STATIC_MEMBERS + rand_below(&w->rand, MEMBERS - STATIC_MEMBERS + 1);
    for (int i = 0; i < MEMBERS; i++) {
        w->members[i].index = i;
        forget(&w->members[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        struct member *m = &w->members[rand_below(&w->rand, w->members_count)];
        if (rand_one_in(&w->rand, 20)) {
            misbehave(w, m);
        } else if (rand_one_in(&w->rand, 8)) {
            disturb(w);
        } else {
            step(w, m);
        }
    }
    calm_down(w, seed);
    for (size_t i = 0; i < MARKS_COUNT; i++) {
        is_reached[i] = is_reached[i] || rig_has_reached(r, MARKS[i]);
    }
    rig_free(r);
}

Test(classic_random, members_come_together)
{
    bool is_reached[MARKS_COUNT] = {false};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run(seed, is_reached);
    }
    for (size_t i = 0; i < MARKS_COUNT; i++) {
        cr_assert(is_reached[i], "%s", MARKS[i]);
    }
}
