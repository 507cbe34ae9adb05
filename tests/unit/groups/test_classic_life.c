/* What of a classic group outlives its coordinator, and what becomes of it when its records cannot
 * be written: in each state, in transcripts (classic_script.h). */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "groups/classic.h"
#include "groups/group.h"
#include "kafka/proto/group_metadata_record.h"
#include "kafka/proto/join_group.h"

#include "tests/unit/groups/classic_script.h"

#define TWO_JOINED                                                               \
    "join a v=3\n"                                                               \
    "join b v=3\n"                                                               \
    "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | " \
    "b join generation=1 protocol=range leader=a\n"
#define TWO_STABLE \
    TWO_JOINED     \
    "sync b\n"     \
    "sync a give=a:x;b:y => b sync ok assignment=y | a sync ok assignment=x\n"

/* Twice: a coordinator that starts again, and another that takes over. */
static void run_both(const char *before, const char *answers, const char *after)
{
    static const char *const EVENTS[] = {"restart", "handover"};
    for (size_t i = 0; i < 2; i++) {
        struct rig *r = rig_new();
        char *script = rig_alloc(r, 1, 8192);
        (void)snprintf(script,
                       8192,
                       "%s%s%s%s\n%s",
                       before,
                       EVENTS[i],
                       answers[0] ? " => " : "",
                       answers,
                       after);
        play(r, script);
        rig_free(r);
    }
}

static void run(const char *script)
{
    struct rig *r = rig_new();
    play(r, script);
    rig_free(r);
}

/* ---- a coordinator goes, in each state ---- */

Test(classic_life, nothing_is_there_yet)
{
    run_both("join a => a join MEMBER_ID_REQUIRED\n",
             "",
             "describe => GROUP_ID_NOT_FOUND Dead type= protocol=\n"
             "join a => a join UNKNOWN_MEMBER_ID\n");
}

Test(classic_life, in_the_first_join)
{
    run_both("join a v=3\n",
             "a join NOT_COORDINATOR",
             "describe => GROUP_ID_NOT_FOUND Dead type= protocol=\n"
             "join a v=3\n"
             "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n");
}

Test(classic_life, in_the_first_generation)
{
    run_both(TWO_JOINED "sync b\n",
             "b sync NOT_COORDINATOR",
             "describe => GROUP_ID_NOT_FOUND Dead type= protocol=\n"
             "sync b => b sync UNKNOWN_MEMBER_ID\n"
             "join b => b join UNKNOWN_MEMBER_ID\n");
}

Test(classic_life, stable)
{
    run_both(TWO_STABLE,
             "",
             "describe => ok Stable type=consumer protocol=range a(m)(x) b(m)(y)\n"
             "heartbeat a => a ok\n"
             "heartbeat b gen=0 => b ILLEGAL_GENERATION\n"
             "sync b => b sync ok assignment=y\n"
             "offsets b => ok\n"
             "join b => b join generation=1 protocol=range leader=a\n"
             "join a\n"
             "join b => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
             "b join generation=2 protocol=range leader=a\n");
}

Test(classic_life, everybody_gets_the_whole_session)
{
    run_both(TWO_STABLE "pass 9999\n",
             "",
             "pass 9999\n"
             "heartbeat a => a ok\n"
             "pass 1\n"
             "heartbeat b => b UNKNOWN_MEMBER_ID\n");
}

/* The generation goes on where it is durable; members come again. */
Test(classic_life, preparing)
{
    run_both(TWO_STABLE "join b protocols=range:n\n",
             "b join NOT_COORDINATOR",
             "describe => ok Stable type=consumer protocol=range a(m)(x) b(m)(y)\n"
             "heartbeat a => a ok\n"
             "join b protocols=range:n\n"
             "join a => b join generation=2 protocol=range leader=a | "
             "a join generation=2 protocol=range leader=a members=a(m),b(n)\n");
}

Test(classic_life, completing)
{
    run_both(TWO_STABLE "join a\n"
                        "join b => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
                        "b join generation=2 protocol=range leader=a\n"
                        "sync b\n",
             "b sync NOT_COORDINATOR",
             "sync a give=a:x => a sync ILLEGAL_GENERATION\n"
             "heartbeat a => a ILLEGAL_GENERATION\n"
             "heartbeat a gen=1 => a ok\n");
}

Test(classic_life, a_member_that_left_is_back_for_a_session)
{
    run_both(TWO_STABLE "leave b => b leave ok ok\n"
                        "heartbeat a => a REBALANCE_IN_PROGRESS\n",
             "",
             "heartbeat a => a ok\n"
             "pass 9999\n"
             "heartbeat a => a ok\n"
             "pass 1\n"
             "heartbeat a => a REBALANCE_IN_PROGRESS\n");
}

Test(classic_life, empty)
{
    run_both(TWO_STABLE "leave a;b => a leave ok ok ok\n",
             "",
             "describe => ok Empty type=consumer protocol=\n"
             "heartbeat a => a UNKNOWN_MEMBER_ID\n"
             "join c v=3 protocols=other:m\n"
             "pass 0 => c join generation=3 protocol=other leader=c members=c(m)\n");
}

/* A record knows one protocol of each member. */
Test(classic_life, other_protocols_are_forgotten)
{
    run_both("join a v=3 protocols=range:1;sticky:2\n"
             "pass 0 => a join generation=1 protocol=range leader=a members=a(1)\n"
             "sync a => a sync ok assignment=\n",
             "",
             "join b v=3 protocols=sticky:m => b join INCONSISTENT_GROUP_PROTOCOL\n"
             "join b v=3 protocols=sticky:m;range:n\n"
             "join a protocols=range:1;sticky:2 => "
             "b join generation=2 protocol=range leader=a | "
             "a join generation=2 protocol=range leader=a members=a(1),b(n)\n");
}

Test(classic_life, a_group_that_is_too_large_by_now)
{
    struct rig *r = rig_new();
    play(r, TWO_STABLE "pass 0\n");
    r->settings.members_max = 1;
    rig_restart(r);
    cr_assert(rig_has_reached(r, "classic_too_large_at_start"));
    rig_free(r);
}

/* ---- records that are not written, in each state ---- */

Test(classic_life, an_assignment_is_not_written)
{
    run(TWO_JOINED "sync b\n"
                   "hold\n"
                   "sync a\n"
                   "heartbeat a\n"
                   "fail NO_SPACE => b sync COORDINATOR_NOT_AVAILABLE | "
                   "a sync COORDINATOR_NOT_AVAILABLE | a REBALANCE_IN_PROGRESS\n"
                   "join a\n"
                   "join b => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
                   "b join generation=2 protocol=range leader=a\n"
                   "sync b\n"
                   "sync a give=b:y\n"
                   "write => b sync ok assignment=y | a sync ok assignment=\n");
}

/* Refused for good: no use in trying again. */
Test(classic_life, an_assignment_is_too_large)
{
    run(TWO_JOINED "hold\n"
                   "sync a\n"
                   "fail TOO_LARGE => a sync UNKNOWN_SERVER_ERROR\n");
}

Test(classic_life, nobody_is_told_before_it_is_written)
{
    run(TWO_JOINED "sync b\n"
                   "hold\n"
                   "sync a give=a:x;b:y\n"
                   "describe => ok CompletingRebalance type=consumer protocol= a()() b()()\n"
                   "heartbeat b\n"
                   "leave b\n"
                   "join c v=3\n"
                   "pass 20000\n"
                   "write => b sync ok assignment=y | a sync ok assignment=x | b ok | "
                   "b leave ok ok\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n"
                   "join a => c join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),c(m)\n");
}

Test(classic_life, a_sync_in_flight_is_cancelled)
{
    run(TWO_JOINED "sync b\n"
                   "hold\n"
                   "sync a give=b:y\n"
                   "cancel a\n"
                   "cancel b\n"
                   "write\n"
                   "sync b => b sync ok assignment=y\n");
}

Test(classic_life, nobody_knows_whether_an_assignment_was_written)
{
    run(TWO_JOINED "sync b\n"
                   "hold\n"
                   "sync a give=a:x;b:y\n"
                   "resign => b sync NOT_COORDINATOR | a sync NOT_COORDINATOR\n"
                   "write\n"
                   "handover\n"
                   "sync b => b sync ok assignment=y\n"
                   "heartbeat a => a ok\n");
}

Test(classic_life, a_leave_waits_until_the_empty_group_is_written)
{
    run(TWO_STABLE "hold\n"
                   "leave a;b\n"
                   "join c v=3\n"
                   "write => a leave ok ok ok\n"
                   "pass 0 => c join generation=3 protocol=range leader=c members=c(m)\n");
}

Test(classic_life, an_empty_group_is_not_written)
{
    struct rig *r = rig_new();
    play(r,
         TWO_STABLE "hold\n"
                    "leave a;b v=3\n"
                    "fail BUSY => a leave COORDINATOR_NOT_AVAILABLE\n"
                    "describe => ok PreparingRebalance type=consumer protocol=\n"
                    "pass 1000\n"
                    "fail BUSY\n"
                    "pass 999\n"
                    "release\n"
                    "pass 1\n"
                    "describe => ok Empty type=consumer protocol=\n");
    cr_assert(rig_has_reached(r, "classic_not_emptied"));
    rig_free(r);
}

Test(classic_life, somebody_joins_before_it_is_written)
{
    run(TWO_STABLE "hold\n"
                   "leave a;b\n"
                   "fail BUSY => a leave COORDINATOR_NOT_AVAILABLE\n"
                   "join c v=3 => c join generation=2 protocol=range leader=c members=c(m)\n"
                   "sync c give=c:z\n"
                   "write => c sync ok assignment=z\n"
                   "pass 5000\n"
                   "heartbeat c => c ok\n");
}

Test(classic_life, a_leave_that_was_written_by_another)
{
    run(TWO_STABLE "hold\n"
                   "leave a;b\n"
                   "resign => a leave NOT_COORDINATOR\n"
                   "write\n"
                   "handover\n"
                   "describe => ok Empty type=consumer protocol=\n");
}

Test(classic_life, a_session_ends_while_a_record_is_under_way)
{
    run(TWO_JOINED "sync b\n"
                   "hold\n"
                   "sync a give=a:x;b:y\n"
                   "pass 600000\n"
                   "write => b sync ok assignment=y | a sync ok assignment=x\n"
                   "heartbeat a => a ok\n");
}

/* ---- records of others ---- */

static void apply(struct rig *r, const struct group_metadata_value *value, int16_t version)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    cr_assert(eq(int, group_metadata_value_encode(&w, version, value), ERR_OK));
    struct wbuf k;
    wbuf_init(&k, 1 << 20);
    const struct group_metadata_key key = {.group = slice_of("g", 1)};
    cr_assert(eq(int, group_metadata_key_encode(&k, &key), ERR_OK));
    struct coordinator *c = r->leader->c;
    cr_assert(eq(int, classic_apply(c, 2, wbuf_slice(&k), wbuf_slice(&w)), ERR_OK));
    cr_assert(eq(int, classic_apply(r->follower->c, 2, wbuf_slice(&k), wbuf_slice(&w)), ERR_OK));
    wbuf_done(&w);
    wbuf_done(&k);
}

Test(classic_life, records_of_all_versions_are_taken)
{
    for (int16_t version = 0; version <= GROUP_METADATA_VALUE_VERSION_MAX; version++) {
        struct rig *r = rig_new();
        rig_resign(r);
        struct group_metadata_value_member m;
        group_metadata_value_member_init(&m);
        m.member_id = slice_of("m1", 2);
        m.session_timeout = 7000;
        m.assignment = slice_of("x", 1);
        struct group_metadata_value v;
        group_metadata_value_init(&v);
        v.protocol_type = slice_of_string("connect");
        v.generation = 5;
        v.protocol = slice_of_string("sessioned");
        v.leader = slice_of_string("somebody else");
        v.members = &m;
        v.members_count = 1;
        apply(r, &v, version);
        rig_handover(r);
        play(r,
             "heartbeat a id='m1' gen=5 => a ok\n"
             "describe => ok Stable type=connect protocol=sessioned m1()(x)\n"
             "pass 7000\n"
             "describe => ok Empty type=connect protocol=\n");
        rig_free(r);
    }
}

Test(classic_life, what_is_no_record_is_passed_over)
{
    struct rig *r = rig_new();
    struct coordinator *c = r->leader->c;
    const struct slice key = slice_of("\0\2\0\1g", 5);
    const struct slice keys[] = {slice_of("\0\2", 2), slice_of("\0\2\0\2g", 5), key, key};
    const struct slice values[] = {
        slice_of("", 0), slice_of("", 0), slice_of("", 0), slice_of("\0\3\0\1", 4)};
    for (size_t i = 0; i < 4; i++) {
        cr_assert(eq(int, classic_apply(c, 2, keys[i], values[i]), ERR_CORRUPT));
    }
    cr_assert(eq(u32, coordinator_groups_count(c), 0));
    rig_free(r);
}

/* ---- what others ask ---- */

Test(classic_life, others_ask)
{
    struct rig *r = rig_new();
    play(r,
         TWO_STABLE "pass 5000\n"
                    "leave a;b => a leave ok ok ok\n");
    const struct group *g = group_find(r->leader->c, slice_of("g", 1));
    cr_assert(not(classic_has_members(g)));
    cr_assert(eq(i64, classic_empty_since_ms(g), r->now.wall_ms));
    const struct group *on_follower = group_find(r->follower->c, slice_of("g", 1));
    cr_assert(eq(i64, classic_empty_since_ms(on_follower), r->now.wall_ms));
    play(r, "join c v=3 => -\n");
    cr_assert(classic_has_members(g));
    cr_assert(eq(i64, classic_empty_since_ms(g), -1));
    rig_free(r);
}

static void check_subscribed(struct rig *r, const char *topic, bool is_subscribed)
{
    const struct group *g = group_find(r->leader->c, slice_of("g", 1));
    struct classic_topics topics;
    classic_topics_read(&topics, g);
    const bool has = classic_topics_has(&topics, slice_of_string(topic));
    classic_topics_done(&topics);
    cr_assert(eq(int, has, is_subscribed), "%s", topic);
}

static void join_subscribed(struct rig *r, const char *type, struct slice metadata)
{
    struct join_group_request_protocol *protocol = rig_alloc(r, 1, sizeof(*protocol));
    *protocol = (struct join_group_request_protocol){slice_of("range", 5), metadata};
    struct join_group_request *in = rig_alloc(r, 1, sizeof(*in));
    join_group_request_init(in);
    in->session_timeout_ms = 10000;
    in->protocol_type = slice_of_string(type);
    in->protocols = protocol;
    in->protocols_count = 1;
    (void)rig_send(r, GROUP_JOIN, 3, "g", in);
}

Test(classic_life, what_consumers_subscribe_to)
{
    struct rig *r = rig_new();
    join_subscribed(r, "consumer", slice_of("\0\0\0\0\0\2\0\1t\0\1u\xff\xff\xff\xff", 16));
    check_subscribed(r, "t", true);
    check_subscribed(r, "u", true);
    check_subscribed(r, "v", false);
    /* Owned partitions and fields of the future do not matter. */
    join_subscribed(r,
                    "consumer",
                    slice_of("\0\7\0\0\0\1\0\1w\xff\xff\xff\xff\0\0\0\0\0\0\0\0\xff\xff"
                             "more",
                             27));
    check_subscribed(r, "w", true);
    check_subscribed(r, "v", false);
    join_subscribed(r, "consumer", slice_of("\0\0\0", 3));
    check_subscribed(r, "v", true);
    rig_free(r);
}

Test(classic_life, what_others_subscribe_to_is_not_known)
{
    struct rig *r = rig_new();
    join_subscribed(r, "connect", slice_of("\0\0\0\0\0\0\xff\xff\xff\xff", 10));
    check_subscribed(r, "t", true);
    rig_free(r);
}
