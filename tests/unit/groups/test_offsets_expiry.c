/* When offsets, and groups, expire (KIP-211, PROTOCOL facts 16), and what members keep. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster/metadata_edit.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/sync_group.h"

#include "tests/unit/groups/offsets_rig.h"

enum {
    CHECK_MS = 5000,
    RETENTION_MS = 60000,
};

static struct rig *rig_that_expires(void)
{
    struct rig *r = rig_new();
    r->settings.offsets_check_ms = CHECK_MS;
    r->settings.offsets_retention_ms = RETENTION_MS;
    /* The interval is looked at when a coordinator becomes active. */
    rig_restart(r);
    rig_topic(r, "t", 4);
    rig_topic(r, "u", 4);
    return r;
}

static bool is_kept(struct rig *r, const char *group, const char *topic)
{
    return offsets_fetch_one(r, group, topic, 0).committed_offset >= 0;
}

/* ---- members of both protocols ---- */

struct member {
    struct rig *r;
    const char *group;
    struct slice id;
    int32_t generation;
};

static struct slice subscription(struct rig *r, const char *topic)
{
    struct slice *topics = rig_alloc(r, 1, sizeof(*topics));
    topics[0] = slice_of_string(topic);
    struct consumer_protocol_subscription s;
    consumer_protocol_subscription_init(&s);
    s.topics = topics;
    s.topics_count = 1;
    struct wbuf w;
    wbuf_init(&w, 1024);
    cr_assert(eq(int, consumer_protocol_subscription_encode(&w, 0, &s), ERR_OK));
    uint8_t *copy = rig_alloc(r, w.size, 1);
    memcpy(copy, w.data, w.size);
    const struct slice bytes = slice_of(copy, w.size);
    wbuf_done(&w);
    return bytes;
}

/* The only member of a classic group. */
static struct member join(struct rig *r, const char *group, const char *type, const char *topic)
{
    struct join_group_request_protocol *protocol = rig_alloc(r, 1, sizeof(*protocol));
    protocol->name = slice_of_string("range");
    protocol->metadata = subscription(r, topic);
    struct join_group_request *in = rig_alloc(r, 1, sizeof(*in));
    join_group_request_init(in);
    in->session_timeout_ms = 30000;
    in->rebalance_timeout_ms = 30000;
    in->protocol_type = slice_of_string(type);
    in->protocols = protocol;
    in->protocols_count = 1;
    const struct rig_call *call = rig_send(r, GROUP_JOIN, 3, group, in);
    rig_pass_ms(r, 1); /* No delay is a timer that is due. */
    const struct join_group_response *out = rig_answer(call);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    return (struct member){r, group, out->member_id, out->generation_id};
}

static void sync(const struct member *m)
{
    struct sync_group_request *in = rig_alloc(m->r, 1, sizeof(*in));
    sync_group_request_init(in);
    in->member_id = m->id;
    in->generation_id = m->generation;
    const struct sync_group_response *out = rig_answer(rig_send(m->r, GROUP_SYNC, 3, m->group, in));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
}

static void heartbeat(const struct member *m)
{
    struct heartbeat_request *in = rig_alloc(m->r, 1, sizeof(*in));
    heartbeat_request_init(in);
    in->member_id = m->id;
    in->generation_id = m->generation;
    const struct heartbeat_response *out =
        rig_answer(rig_send(m->r, GROUP_HEARTBEAT, 3, m->group, in));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
}

static void leave(const struct member *m)
{
    struct leave_group_request_member *who = rig_alloc(m->r, 1, sizeof(*who));
    leave_group_request_member_init(who);
    who->member_id = m->id;
    struct leave_group_request *in = rig_alloc(m->r, 1, sizeof(*in));
    leave_group_request_init(in);
    in->members = who;
    in->members_count = 1;
    (void)rig_answer(rig_send(m->r, GROUP_LEAVE, 4, m->group, in));
}

/* Of the new protocol; epoch -1 leaves. */
static struct member consume(struct rig *r, const char *group, int32_t epoch, const char *topic)
{
    struct slice *topics = rig_alloc(r, 1, sizeof(*topics));
    topics[0] = slice_of_string(topic);
    struct consumer_group_heartbeat_request *in = rig_alloc(r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = slice_of_string(group);
    in->member_id = slice_of_string("m");
    in->member_epoch = epoch;
    if (epoch == 0) {
        in->rebalance_timeout_ms = 30000;
        in->subscribed_topic_names = topics;
        in->subscribed_topic_names_count = 1;
        in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    }
    const struct consumer_group_heartbeat_response *out =
        rig_answer(rig_send(r, GROUP_CONSUMER_HEARTBEAT, 1, group, in));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE),
              "%.*s",
              (int)out->error_message.size,
              (const char *)out->error_message.data);
    return (struct member){r, group, in->member_id, out->member_epoch};
}

static int16_t commit_as(const struct member *m, const char *topic, int16_t version)
{
    const struct offset_line line = {topic, 0, 7, NULL};
    struct offset_commit_request *in = offsets_commit_request(m->r, &line, 1);
    in->member_id = m->id;
    in->generation_id_or_member_epoch = m->generation;
    return offsets_commit_error(rig_send(m->r, GROUP_COMMIT, version, m->group, in));
}

/* ---- expiry ---- */

/* From the commit on, at the next look after it; and the group with its last offset. */
Test(offsets_expiry, simple_groups_from_the_commit)
{
    struct rig *r = rig_that_expires();
    offsets_commit_one(r, "g", "t", 0, 7);
    rig_pass_ms(r, RETENTION_MS / 2);
    offsets_commit_one(r, "g", "u", 0, 7);
    rig_pass_ms(r, RETENTION_MS / 2 - 1);
    cr_assert(is_kept(r, "g", "t"));
    rig_pass_ms(r, CHECK_MS + 1);
    cr_assert(not(is_kept(r, "g", "t")));
    cr_assert(is_kept(r, "g", "u"));
    rig_pass_ms(r, RETENTION_MS);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_restart(r);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* What clients before v5 ask for themselves. */
Test(offsets_expiry, honours_retention_time)
{
    static const struct {
        int16_t version;
        int64_t retention_ms;
        int64_t kept_ms; /* At least; and not longer than a look more. */
    } CASES[] = {
        {2, -1, RETENTION_MS},
        {2, 10000, 10000},
        {3, 0, 0},
        {4, 3L * RETENTION_MS, 3L * RETENTION_MS},
        {4, INT64_MAX, INT64_MAX},
        {4, -2, RETENTION_MS},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct rig *r = rig_that_expires();
        const struct offset_line line = {"t", 0, 7, NULL};
        struct offset_commit_request *in = offsets_commit_request(r, &line, 1);
        in->retention_time_ms = CASES[i].retention_ms;
        (void)rig_answer(rig_send(r, GROUP_COMMIT, CASES[i].version, "g", in));
        const bool is_endless = CASES[i].kept_ms == INT64_MAX;
        const uint64_t kept_ms = is_endless ? 10 * RETENTION_MS : (uint64_t)CASES[i].kept_ms;
        cr_assert(is_kept(r, "g", "t"));
        rig_restart(r);
        if (kept_ms > 0) {
            rig_pass_ms(r, kept_ms - 1);
        }
        cr_assert(is_kept(r, "g", "t"));
        rig_pass_ms(r, CHECK_MS + 2);
        cr_assert(eq(int, is_kept(r, "g", "t"), is_endless));
        rig_free(r);
    }
}

/* Members that subscribe to a topic keep its offsets, however old; others' expire from the commit.
 */
Test(offsets_expiry, members_keep_what_they_subscribe_to)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        struct rig *r = rig_that_expires();
        offsets_commit_one(r, "g", "t", 0, 7);
        offsets_commit_one(r, "g", "u", 0, 7);
        struct member m = is_new ? consume(r, "g", 0, "t") : join(r, "g", "consumer", "t");
        if (!is_new) {
            sync(&m);
        }
        for (int passed_ms = 0; passed_ms < 2 * RETENTION_MS; passed_ms += CHECK_MS) {
            cr_assert(is_kept(r, "g", "t"));
            cr_assert(passed_ms >= RETENTION_MS || is_kept(r, "g", "u"));
            rig_pass_ms(r, CHECK_MS);
            if (is_new) {
                (void)consume(r, "g", m.generation, "t");
            } else {
                heartbeat(&m);
            }
        }
        cr_assert(is_kept(r, "g", "t"));
        cr_assert(not(is_kept(r, "g", "u")));
        rig_free(r);
    }
}

/* While a rebalance goes on nobody knows what they will subscribe to; nor what members of another
 * protocol type do. */
Test(offsets_expiry, what_cannot_be_known_is_kept)
{
    for (int is_syncing = 0; is_syncing < 2; is_syncing++) {
        struct rig *r = rig_that_expires();
        offsets_commit_one(r, "g", "u", 0, 7);
        struct member m = join(r, "g", is_syncing ? "connect" : "consumer", "t");
        if (is_syncing) {
            sync(&m);
        }
        r->settings.offsets_retention_ms = 1;
        rig_pass_ms(r, CHECK_MS + 1);
        if (is_syncing) {
            heartbeat(&m);
        }
        cr_assert(is_kept(r, "g", "u"));
        rig_free(r);
    }
}

/* The time runs from when the group became empty, or from a commit after that. */
Test(offsets_expiry, emptied_groups_from_then_on)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        struct rig *r = rig_that_expires();
        offsets_commit_one(r, "g", "t", 0, 7);
        rig_pass_ms(r, RETENTION_MS / 2);
        struct member m = is_new ? consume(r, "g", 0, "t") : join(r, "g", "consumer", "t");
        if (is_new) {
            (void)consume(r, "g", -1, "t");
        } else {
            sync(&m);
            leave(&m);
        }
        rig_restart(r);
        rig_pass_ms(r, RETENTION_MS * 3 / 4);
        cr_assert(is_kept(r, "g", "t"), "it is old, but the group has not been empty for long");
        offsets_commit_one(r, "g", "u", 0, 7);
        rig_pass_ms(r, RETENTION_MS * 3 / 4);
        cr_assert(not(is_kept(r, "g", "t")));
        cr_assert(is_kept(r, "g", "u"));
        rig_pass_ms(r, RETENTION_MS / 2);
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0), "and the group is gone");
        rig_restart(r);
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
        rig_free(r);
    }
}

/* More groups than are told of it in a turn, and the table of groups grows meanwhile. */
Test(offsets_expiry, every_group_hears_of_a_topic_that_is_gone)
{
    enum {
        OLD = 300,
        NEW = 500,
    };
    char id[16];
    struct rig *r = rig_that_expires();
    for (int i = 0; i < OLD; i++) {
        (void)snprintf(id, sizeof(id), "old-%d", i);
        offsets_commit_one(r, id, "t", 0, 7);
    }
    const struct uuid gone = metadata_topic_by_name(r->metadata, slice_of_string("t"))->id;
    cr_assert(metadata_remove_topic(r->metadata, &gone));
    coordinator_on_metadata(r->leader->c, r->now);
    coordinator_tick(r->leader->c, r->now);
    for (int i = 0; i < NEW; i++) {
        (void)snprintf(id, sizeof(id), "new-%d", i);
        offsets_commit_one(r, id, "u", 0, 7);
    }
    cr_assert(eq(u64, coordinator_deadline_us(r->leader->c), 0), "most were not told yet");
    rig_pass_ms(r, 2000);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), NEW));
    rig_free(r);
}

/* A disk that is full delays it. */
Test(offsets_expiry, tries_again)
{
    struct rig *r = rig_that_expires();
    offsets_commit_one(r, "g", "t", 0, 7);
    r->append_err = ERR_NO_SPACE;
    rig_pass_ms(r, RETENTION_MS + CHECK_MS);
    cr_assert(is_kept(r, "g", "t"));
    r->append_err = ERR_OK;
    rig_pass_ms(r, CHECK_MS + 1);
    cr_assert(not(is_kept(r, "g", "t")));
    rig_free(r);
}

/* A jump of the wall clock ahead is not believed for a day; a step back counts at once. */
Test(offsets_expiry, a_jump_of_the_clock_takes_nothing)
{
    static const int64_t JUMP_MS = INT64_C(30) * 24 * 3600 * 1000;
    struct rig *r = rig_that_expires();
    r->settings.offsets_retention_ms = INT64_C(7) * 24 * 3600 * 1000;
    offsets_commit_one(r, "g", "t", 0, 7);
    rig_pass_ms(r, CHECK_MS);
    r->now.wall_ms += JUMP_MS;
    rig_pass_ms(r, 3600 * 1000);
    cr_assert(is_kept(r, "g", "t"));
    r->now.wall_ms -= JUMP_MS;
    rig_pass_ms(r, 3600 * 1000);
    cr_assert(is_kept(r, "g", "t"));
    r->now.wall_ms -= JUMP_MS;
    offsets_commit_one(r, "g", "u", 0, 7);
    rig_pass_ms(r, CHECK_MS + 1);
    r->now.wall_ms += JUMP_MS;
    rig_pass_ms(r, 23 * 3600 * 1000);
    cr_assert(is_kept(r, "g", "u"));
    rig_pass_ms(r, 2 * 3600 * 1000);
    cr_assert(not(is_kept(r, "g", "u")), "it lasts: so be it");
    rig_free(r);
}

/* Many groups, in steps. */
Test(offsets_expiry, looks_at_all_groups)
{
    enum { GROUPS = 500 };
    struct rig *r = rig_that_expires();
    for (int i = 0; i < GROUPS; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "g%d", i);
        offsets_commit_one(r, name, "t", 0, 7);
    }
    rig_pass_ms(r, RETENTION_MS + CHECK_MS);
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* ---- what members say to the rest ---- */

Test(offsets_expiry, a_group_with_members_is_not_deleted)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        struct rig *r = rig_that_expires();
        offsets_commit_one(r, "g", "t", 0, 7);
        struct member m = is_new ? consume(r, "g", 0, "t") : join(r, "g", "consumer", "t");
        cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_NON_EMPTY_GROUP));
        if (is_new) {
            (void)consume(r, "g", -1, "t");
        } else {
            leave(&m);
        }
        cr_assert(eq(i16, offsets_delete_group_error(r, "g"), KAFKA_NONE));
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
        rig_restart(r);
        cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
        rig_free(r);
    }
}

Test(offsets_expiry, offsets_of_subscribed_topics_are_not_deleted)
{
    static const struct offset_line LINES[] = {
        {"t", 0, 0, NULL}, {"u", 0, 0, NULL}, {"none", 0, 0, NULL}};
    for (int is_new = 0; is_new < 2; is_new++) {
        struct rig *r = rig_that_expires();
        offsets_commit_one(r, "g", "t", 0, 7);
        offsets_commit_one(r, "g", "u", 0, 7);
        if (is_new) {
            (void)consume(r, "g", 0, "t");
        } else {
            const struct member m = join(r, "g", "consumer", "t");
            sync(&m);
        }
        const struct offset_delete_response *out = rig_answer(
            rig_send(r, GROUP_DELETE_OFFSETS, 0, "g", offsets_delete_request(r, LINES, 3)));
        cr_assert(eq(i16, out->error_code, KAFKA_NONE));
        cr_assert(
            eq(i16, out->topics[0].partitions[0].error_code, KAFKA_GROUP_SUBSCRIBED_TO_TOPIC));
        cr_assert(eq(i16, out->topics[1].partitions[0].error_code, KAFKA_NONE));
        cr_assert(
            eq(i16, out->topics[2].partitions[0].error_code, KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
        cr_assert(is_kept(r, "g", "t"));
        cr_assert(not(is_kept(r, "g", "u")));
        rig_free(r);
    }
}

Test(offsets_expiry, members_of_another_kind_keep_everything)
{
    const struct offset_line line = {"u", 0, 0, NULL};
    struct rig *r = rig_that_expires();
    offsets_commit_one(r, "g", "u", 0, 7);
    const struct member m = join(r, "g", "connect", "t");
    sync(&m);
    const struct offset_delete_response *out =
        rig_answer(rig_send(r, GROUP_DELETE_OFFSETS, 0, "g", offsets_delete_request(r, &line, 1)));
    cr_assert(eq(i16, out->error_code, KAFKA_NON_EMPTY_GROUP));
    cr_assert(is_kept(r, "g", "u"));
    rig_free(r);
}

/* Who may commit, by member and epoch: unknown topics are that first of all. */
Test(offsets_expiry, asks_whether_the_member_may_commit)
{
    struct rig *r = rig_that_expires();
    struct member m = join(r, "g", "consumer", "t");
    sync(&m);
    cr_assert(eq(i16, commit_as(&m, "t", 8), KAFKA_NONE));
    m.generation++;
    cr_assert(eq(i16, commit_as(&m, "t", 8), KAFKA_ILLEGAL_GENERATION));
    cr_assert(eq(i16, commit_as(&m, "none", 8), KAFKA_UNKNOWN_TOPIC_OR_PARTITION));
    m.id = slice_of_string("");
    m.generation = -1;
    cr_assert(eq(i16, commit_as(&m, "t", 8), KAFKA_UNKNOWN_MEMBER_ID));
    struct member n = consume(r, "n", 0, "t");
    cr_assert(eq(i16, commit_as(&n, "t", 8), KAFKA_UNSUPPORTED_VERSION));
    cr_assert(eq(i16, commit_as(&n, "t", 9), KAFKA_NONE));
    n.generation++;
    cr_assert(eq(i16, commit_as(&n, "t", 9), KAFKA_STALE_MEMBER_EPOCH));
    n.id = slice_of_string("x");
    cr_assert(eq(i16, commit_as(&n, "t", 9), KAFKA_UNKNOWN_MEMBER_ID));
    struct member nobody = {r, "unknown", slice_of_string("x"), 1};
    cr_assert(eq(i16, commit_as(&nobody, "t", 8), KAFKA_ILLEGAL_GENERATION));
    cr_assert(eq(i16, commit_as(&nobody, "t", 9), KAFKA_GROUP_ID_NOT_FOUND));
    nobody.group = "simple";
    offsets_commit_one(r, "simple", "t", 0, 1);
    cr_assert(eq(i16, commit_as(&nobody, "t", 9), KAFKA_UNKNOWN_MEMBER_ID));
    nobody.generation = -5;
    cr_assert(eq(i16, commit_as(&nobody, "t", 9), KAFKA_NONE));
    rig_free(r);
}

/* OffsetFetch v9 and later: only of groups of the new protocol, and only if it says who it is. */
Test(offsets_expiry, asks_whether_the_member_may_fetch)
{
    static const struct {
        const char *id;
        int32_t epoch; /* Added to the member's, if that is not -1. */
        int16_t error;
        int16_t classic_error;
    } CASES[] = {
        {NULL, -1, KAFKA_NONE, KAFKA_NONE},
        {"m", 0, KAFKA_NONE, KAFKA_NONE},
        {"m", 1, KAFKA_STALE_MEMBER_EPOCH, KAFKA_NONE},
        {"m", -1, KAFKA_STALE_MEMBER_EPOCH, KAFKA_NONE},
        {"x", 0, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_NONE},
        {"", -1, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_NONE},
        {NULL, 0, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_NONE},
    };
    const struct offset_line line = {"t", 0, 0, NULL};
    struct rig *r = rig_that_expires();
    const struct member m = consume(r, "n", 0, "t");
    (void)join(r, "g", "consumer", "t");
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        for (int is_new = 0; is_new < 2; is_new++) {
            struct offset_fetch_request_group *in = offsets_fetch_request(r, &line, 1);
            in->member_id = rig_text(r, CASES[i].id);
            in->member_epoch = CASES[i].epoch < 0 ? -1 : m.generation + CASES[i].epoch;
            const struct offset_fetch_response_group *out =
                rig_answer(rig_send(r, GROUP_FETCH, 9, is_new ? "n" : "g", in));
            cr_assert(eq(i16, out->error_code, is_new ? CASES[i].error : CASES[i].classic_error));
            cr_assert(eq(sz, out->topics_count, out->error_code == KAFKA_NONE ? 1 : 0));
        }
    }
    rig_free(r);
}
