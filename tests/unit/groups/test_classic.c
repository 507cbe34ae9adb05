/* The classic protocol in transcripts: what each state answers, and what leads from one to the
 * next. How to read them: classic_script.h. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#include "kafka/proto/join_group.h"

#include "tests/unit/groups/classic_script.h"

/* a leads and b follows, in generation 1. */
#define TWO_JOINED                                                               \
    "join a v=3\n"                                                               \
    "join b v=3\n"                                                               \
    "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | " \
    "b join generation=1 protocol=range leader=a\n"
#define TWO_STABLE \
    TWO_JOINED     \
    "sync b\n"     \
    "sync a give=a:x;b:y => b sync ok assignment=y | a sync ok assignment=x\n"

static void run(const char *script)
{
    struct rig *r = rig_new();
    play(r, script);
    rig_free(r);
}

/* A group that is joined at once has no use of the delay. */
static void run_with_delay(int32_t delay_ms, const char *script)
{
    struct rig *r = rig_new();
    r->settings.initial_delay_ms = delay_ms;
    play(r, script);
    rig_free(r);
}

Test(classic, one_member_comes_and_goes)
{
    run("describe => GROUP_ID_NOT_FOUND Dead type= protocol=\n"
        "join a => a join MEMBER_ID_REQUIRED\n"
        "describe => ok Empty type= protocol=\n"
        "join a\n"
        "describe => ok PreparingRebalance type=consumer protocol= a()()\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "describe => ok CompletingRebalance type=consumer protocol= a()()\n"
        "sync a give=a:x => a sync ok assignment=x\n"
        "describe => ok Stable type=consumer protocol=range a(m)(x)\n"
        "heartbeat a => a ok\n"
        "leave a => a leave ok ok\n"
        "describe => ok Empty type=consumer protocol=\n"
        "heartbeat a => a UNKNOWN_MEMBER_ID\n"
        "join b v=3\n"
        "pass 0 => b join generation=3 protocol=range leader=b members=b(m)\n");
}

/* ---- what is refused before anything else ---- */

Test(classic, joins_that_say_too_little)
{
    run("join a session=5999 => a join INVALID_SESSION_TIMEOUT\n"
        "join a session=1800001 => a join INVALID_SESSION_TIMEOUT\n"
        "join a session=0 => a join INVALID_SESSION_TIMEOUT\n"
        "join a session=6000 => a join MEMBER_ID_REQUIRED\n"
        "join b session=1800000 => b join MEMBER_ID_REQUIRED\n"
        "join c protocols= => c join INCONSISTENT_GROUP_PROTOCOL\n"
        "join c type= => c join INCONSISTENT_GROUP_PROTOCOL\n"
        "join c id='x' => c join UNKNOWN_MEMBER_ID\n");
}

Test(classic, nothing_is_known_of_the_group)
{
    run("join a id='x' => a join UNKNOWN_MEMBER_ID\n"
        "sync a id='x' gen=1 => a sync UNKNOWN_MEMBER_ID\n"
        "sync a id='x' gen=1 type=null => a sync INCONSISTENT_GROUP_PROTOCOL\n"
        "sync a id='x' gen=1 protocol=null => a sync INCONSISTENT_GROUP_PROTOCOL\n"
        "sync a id='x' gen=1 v=4 => a sync UNKNOWN_MEMBER_ID\n"
        "heartbeat a id='x' gen=1 => a UNKNOWN_MEMBER_ID\n"
        "leave 'x' => 'x' leave ok UNKNOWN_MEMBER_ID\n"
        "leave 'x' v=2 => 'x' leave UNKNOWN_MEMBER_ID\n"
        "leave none as=i => none leave ok UNKNOWN_MEMBER_ID\n"
        "offsets a gen=-1 => ok\n"
        "offsets a gen=-7 id='x' => ok\n"
        "offsets a gen=1 id='x' => GROUP_ID_NOT_FOUND\n"
        "offsets a gen=1 => GROUP_ID_NOT_FOUND\n"
        "offsets a gen=0 v=8 => ILLEGAL_GENERATION\n"
        "describe v=5 => ok Dead type= protocol=\n"
        "describe v=6 => GROUP_ID_NOT_FOUND Dead type= protocol=\n");
}

Test(classic, an_empty_group_id_is_none)
{
    struct rig *r = rig_new();
    struct join_group_request join;
    join_group_request_init(&join);
    const struct join_group_response *out = rig_answer(rig_send(r, GROUP_JOIN, 9, "", &join));
    cr_assert(eq(i16, out->error_code, KAFKA_INVALID_GROUP_ID));
    cr_assert(out->protocol_name.data == NULL, "null in v7 and later");
    out = rig_answer(rig_send(r, GROUP_JOIN, 6, "", &join));
    cr_assert(out->protocol_name.data != NULL, "and empty before");
    rig_free(r);
}

static int16_t join_with_protocols(struct rig *r, size_t count)
{
    struct join_group_request *in = rig_alloc(r, 1, sizeof(*in));
    join_group_request_init(in);
    in->session_timeout_ms = 10000;
    in->protocol_type = slice_of_string("consumer");
    in->protocols = rig_alloc(r, count, sizeof(*in->protocols));
    in->protocols_count = count;
    for (size_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "p%zu", i);
        in->protocols[i].name = rig_text(r, name);
    }
    const struct join_group_response *out = rig_answer(rig_send(r, GROUP_JOIN, 9, "g", in));
    return out->error_code;
}

Test(classic, a_member_speaks_so_many_protocols_at_most)
{
    struct rig *r = rig_new();
    cr_assert(eq(i16, join_with_protocols(r, 100), KAFKA_MEMBER_ID_REQUIRED));
    cr_assert(eq(i16, join_with_protocols(r, 101), KAFKA_INCONSISTENT_GROUP_PROTOCOL));
    rig_free(r);
}

/* ---- ids that are given out ---- */

Test(classic, a_given_id_is_good_for_a_session_timeout)
{
    run("join a session=10000 => a join MEMBER_ID_REQUIRED\n"
        "pass 9999\n"
        "heartbeat a gen=0 => a UNKNOWN_MEMBER_ID\n"
        "join a\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "join b => b join MEMBER_ID_REQUIRED\n"
        "pass 10000\n"
        "join b => b join UNKNOWN_MEMBER_ID\n");
}

Test(classic, old_versions_need_no_id)
{
    run("join a v=0\n"
        "join b v=3\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
        "b join generation=1 protocol=range leader=a\n");
}

Test(classic, a_rebalance_waits_for_ids_that_were_given_out)
{
    run(TWO_STABLE "join c => c join MEMBER_ID_REQUIRED\n"
                   "join a\n"
                   "join b\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n"
                   "join c => a join generation=2 protocol=range leader=a "
                   "members=a(m),b(m),c(m) | b join generation=2 protocol=range leader=a | "
                   "c join generation=2 protocol=range leader=a\n");
}

Test(classic, but_only_until_that_has_expired)
{
    run(TWO_STABLE "join c session=6000 => c join MEMBER_ID_REQUIRED\n"
                   "join a\n"
                   "join b\n"
                   "pass 6000 => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
                   "b join generation=2 protocol=range leader=a\n");
}

Test(classic, a_given_id_may_leave)
{
    run(TWO_STABLE "join c => c join MEMBER_ID_REQUIRED\n"
                   "heartbeat a => a ok\n"
                   "join a\n"
                   "join b\n"
                   "leave c => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
                   "b join generation=2 protocol=range leader=a | c leave ok ok\n"
                   "join c => c join UNKNOWN_MEMBER_ID\n");
}

/* ---- the initial delay ---- */

Test(classic, an_empty_group_waits_for_more_members)
{
    run_with_delay(3000,
                   "join a v=3\n"
                   "pass 2999\n"
                   "pass 1 => a join generation=1 protocol=range leader=a members=a(m)\n");
}

Test(classic, and_again_while_they_come)
{
    run_with_delay(3000,
                   "join a v=3 rebalance=8000\n"
                   "pass 2000\n"
                   "join b v=3 rebalance=8000\n"
                   "pass 3000\n"
                   "join c v=3 rebalance=8000\n"
                   "pass 1000\n"
                   "pass 1000\n"
                   "pass 999\n"
                   "join d v=3 rebalance=8000\n"
                   "pass 1 => a join generation=1 protocol=range leader=a "
                   "members=a(m),b(m),c(m),d(m) | "
                   "b join generation=1 protocol=range leader=a | "
                   "c join generation=1 protocol=range leader=a | "
                   "d join generation=1 protocol=range leader=a\n");
}

Test(classic, the_only_one_leaves_in_the_delay)
{
    run_with_delay(3000,
                   "join a => a join MEMBER_ID_REQUIRED\n"
                   "join a\n"
                   "leave a => a join UNKNOWN_MEMBER_ID | a leave ok ok\n"
                   "describe => ok PreparingRebalance type=consumer protocol=\n"
                   "pass 3000\n"
                   "describe => ok Empty type=consumer protocol=\n");
}

/* ---- PreparingRebalance ---- */

Test(classic, preparing_answers)
{
    run(TWO_STABLE "join a\n"
                   "describe => ok PreparingRebalance type=consumer protocol= a()(x) b()(y)\n"
                   "heartbeat b => b REBALANCE_IN_PROGRESS\n"
                   "heartbeat b gen=0 => b ILLEGAL_GENERATION\n"
                   "heartbeat b gen=-1 => b ILLEGAL_GENERATION\n"
                   "heartbeat b id='x' => b UNKNOWN_MEMBER_ID\n"
                   "heartbeat b as=i => b UNKNOWN_MEMBER_ID\n"
                   "sync b => b sync REBALANCE_IN_PROGRESS\n"
                   "sync b type=connect => b sync INCONSISTENT_GROUP_PROTOCOL\n"
                   "sync b gen=2 => b sync ILLEGAL_GENERATION\n"
                   "offsets b => ok\n"
                   "offsets b gen=0 => ILLEGAL_GENERATION\n"
                   "offsets b gen=-1 => ILLEGAL_GENERATION\n"
                   "offsets b id='x' => UNKNOWN_MEMBER_ID\n"
                   "offsets b id=none gen=-1 => UNKNOWN_MEMBER_ID\n"
                   "join c type=connect => c join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join c protocols=sticky:m => c join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join c id='x' => c join UNKNOWN_MEMBER_ID\n");
}

Test(classic, who_does_not_rejoin_in_time_is_out)
{
    run("join a v=3 rebalance=20000 session=30000\n"
        "join b v=3 rebalance=30000 session=60000\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
        "b join generation=1 protocol=range leader=a\n"
        "sync b\n"
        "sync a => b sync ok assignment= | a sync ok assignment=\n"
        "join a rebalance=20000\n"
        "pass 29999\n"
        "heartbeat b => b REBALANCE_IN_PROGRESS\n"
        "pass 1 => a join generation=2 protocol=range leader=a members=a(m)\n"
        "heartbeat b => b UNKNOWN_MEMBER_ID\n");
}

Test(classic, a_leader_that_does_not_rejoin_is_replaced)
{
    run(TWO_STABLE "join b protocols=range:n\n"
                   "leave a => b join generation=2 protocol=range leader=b members=b(n) | "
                   "a leave ok ok\n");
}

Test(classic, nobody_rejoins)
{
    run(TWO_STABLE "leave a => a leave ok ok\n"
                   "describe => ok PreparingRebalance type=consumer protocol= b()(y)\n"
                   "pass 60000\n"
                   "describe => ok Empty type=consumer protocol=\n");
}

Test(classic, a_second_join_takes_the_place_of_the_first)
{
    run(TWO_STABLE "join a\n"
                   "join a protocols=range:n => a join REBALANCE_IN_PROGRESS\n"
                   "join b => a join generation=2 protocol=range leader=a members=a(n),b(m) | "
                   "b join generation=2 protocol=range leader=a\n");
}

/* A connection that is gone takes nothing back: the member has joined, and never hears of it. */
Test(classic, a_join_is_cancelled)
{
    run(TWO_STABLE "join a\n"
                   "cancel a\n"
                   "join b => b join generation=2 protocol=range leader=a\n"
                   "sync b\n"
                   "pass 10000 => b sync REBALANCE_IN_PROGRESS\n"
                   "heartbeat a gen=2 => a UNKNOWN_MEMBER_ID\n"
                   "join b => b join generation=3 protocol=range leader=b members=b(m)\n");
}

/* A member that is new knows no id to come back with: it is kept for five minutes. */
Test(classic, a_new_member_is_kept_for_five_minutes)
{
    run("join a v=3 rebalance=600000 session=1000000\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "sync a => a sync ok assignment=\n"
        "join b v=3 session=6000 rebalance=600000\n"
        "pass 299999\n"
        "heartbeat a => a REBALANCE_IN_PROGRESS\n"
        "pass 1 => b join UNKNOWN_MEMBER_ID\n"
        "join a => a join generation=2 protocol=range leader=a members=a(m)\n");
}

Test(classic, a_known_member_is_kept_in_its_join)
{
    run("join a v=3 rebalance=600000 session=1000000\n"
        "join b v=3 rebalance=600000 session=6000\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
        "b join generation=1 protocol=range leader=a\n"
        "sync b\n"
        "sync a => b sync ok assignment= | a sync ok assignment=\n"
        "join b protocols=range:n rebalance=600000\n"
        "pass 400000\n"
        "join a => b join generation=2 protocol=range leader=a | "
        "a join generation=2 protocol=range leader=a members=a(m),b(n)\n");
}

/* ---- CompletingRebalance ---- */

Test(classic, completing_answers)
{
    run(TWO_JOINED "describe => ok CompletingRebalance type=consumer protocol= a()() b()()\n"
                   "heartbeat b => b ok\n"
                   "heartbeat b gen=0 => b ILLEGAL_GENERATION\n"
                   "heartbeat b id='x' => b UNKNOWN_MEMBER_ID\n"
                   "offsets b => REBALANCE_IN_PROGRESS\n"
                   "offsets b gen=0 => ILLEGAL_GENERATION\n"
                   "offsets b id='x' => UNKNOWN_MEMBER_ID\n"
                   "sync b gen=2 => b sync ILLEGAL_GENERATION\n"
                   "sync b id='x' => b sync UNKNOWN_MEMBER_ID\n"
                   "sync b type=connect => b sync INCONSISTENT_GROUP_PROTOCOL\n"
                   "sync b protocol=sticky => b sync INCONSISTENT_GROUP_PROTOCOL\n"
                   "join c type=connect => c join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join c protocols=sticky:m => c join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join b => b join generation=1 protocol=range leader=a\n"
                   "join a => a join generation=1 protocol=range leader=a members=a(m),b(m)\n"
                   "sync b v=4\n"
                   "sync a v=4 => b sync ok assignment= | a sync ok assignment=\n");
}

Test(classic, completing_is_left_by_other_metadata)
{
    run(TWO_JOINED "sync b\n"
                   "join b protocols=range:n => b sync REBALANCE_IN_PROGRESS\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n"
                   "join a => b join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),b(n)\n");
}

Test(classic, completing_is_left_by_a_new_member)
{
    run(TWO_JOINED "sync b\n"
                   "join c v=3 => b sync REBALANCE_IN_PROGRESS\n"
                   "join a\n"
                   "join b => c join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),b(m),c(m) | "
                   "b join generation=2 protocol=range leader=a\n");
}

Test(classic, completing_is_left_by_a_member_that_goes)
{
    run(TWO_JOINED "sync b\n"
                   "leave b => b sync UNKNOWN_MEMBER_ID | b leave ok ok\n"
                   "sync a => a sync REBALANCE_IN_PROGRESS\n"
                   "join a => a join generation=2 protocol=range leader=a members=a(m)\n");
}

Test(classic, the_leader_dies_before_it_has_assigned)
{
    run(TWO_JOINED "sync b\n"
                   "pass 9999\n"
                   "pass 1 => b sync REBALANCE_IN_PROGRESS\n"
                   "join b => b join generation=2 protocol=range leader=b members=b(m)\n");
}

Test(classic, who_never_syncs_is_removed)
{
    run("join a v=3 rebalance=7000\n"
        "join b v=3 rebalance=7000\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
        "b join generation=1 protocol=range leader=a\n"
        "sync a => a sync ok assignment=\n"
        "describe => ok Stable type=consumer protocol=range a(m)() b(m)()\n"
        "pass 6999\n"
        "heartbeat b => b ok\n"
        "heartbeat a => a ok\n"
        "pass 1\n"
        "heartbeat b => b UNKNOWN_MEMBER_ID\n"
        "heartbeat a => a REBALANCE_IN_PROGRESS\n"
        "join a => a join generation=2 protocol=range leader=a members=a(m)\n");
}

Test(classic, assignments_that_fit_nobody)
{
    run(TWO_JOINED "sync b\n"
                   "sync a give=b:1;'x':2;b:3 => b sync ok assignment=3 | a sync ok assignment=\n");
}

Test(classic, a_sync_is_cancelled)
{
    run(TWO_JOINED "sync b\n"
                   "cancel b\n"
                   "sync a give=b:y => a sync ok assignment=\n"
                   "sync b => b sync ok assignment=y\n");
}

Test(classic, a_second_sync_takes_the_place_of_the_first)
{
    run(TWO_JOINED "sync b\n"
                   "sync b => b sync REBALANCE_IN_PROGRESS\n"
                   "sync a give=b:y => b sync ok assignment=y | a sync ok assignment=\n");
}

/* ---- Stable ---- */

Test(classic, stable_answers)
{
    run(TWO_STABLE "describe => ok Stable type=consumer protocol=range a(m)(x) b(m)(y)\n"
                   "heartbeat a => a ok\n"
                   "heartbeat a gen=0 => a ILLEGAL_GENERATION\n"
                   "heartbeat a gen=2 => a ILLEGAL_GENERATION\n"
                   "heartbeat a id='x' => a UNKNOWN_MEMBER_ID\n"
                   "heartbeat a as=i => a UNKNOWN_MEMBER_ID\n"
                   "sync b => b sync ok assignment=y\n"
                   "sync b gen=0 => b sync ILLEGAL_GENERATION\n"
                   "sync b id='x' => b sync UNKNOWN_MEMBER_ID\n"
                   "sync b protocol=sticky => b sync INCONSISTENT_GROUP_PROTOCOL\n"
                   "offsets a => ok\n"
                   "offsets a gen=0 => ILLEGAL_GENERATION\n"
                   "offsets a gen=-1 => ILLEGAL_GENERATION\n"
                   "offsets a id=none => UNKNOWN_MEMBER_ID\n"
                   "offsets a id=none gen=-1 => UNKNOWN_MEMBER_ID\n"
                   "offsets a id='x' => UNKNOWN_MEMBER_ID\n"
                   "offsets a as=i => UNKNOWN_MEMBER_ID\n"
                   "join b id='x' => b join UNKNOWN_MEMBER_ID\n"
                   "join c type=connect => c join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join a protocols=sticky:m => a join INCONSISTENT_GROUP_PROTOCOL\n"
                   "join b => b join generation=1 protocol=range leader=a\n");
}

Test(classic, the_leader_rejoins_and_all_have_to)
{
    run(TWO_STABLE "join a\n"
                   "heartbeat b => b REBALANCE_IN_PROGRESS\n"
                   "join b => a join generation=2 protocol=range leader=a members=a(m),b(m) | "
                   "b join generation=2 protocol=range leader=a\n");
}

Test(classic, a_follower_with_other_metadata_and_all_have_to)
{
    run(TWO_STABLE "join b protocols=range:n\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n"
                   "join a => b join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),b(n)\n");
}

Test(classic, a_session_ends)
{
    run(TWO_STABLE "pass 6000\n"
                   "heartbeat a => a ok\n"
                   "pass 4000\n"
                   "heartbeat b => b UNKNOWN_MEMBER_ID\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n");
}

Test(classic, a_commit_counts_as_a_heartbeat)
{
    run(TWO_STABLE "pass 6000\n"
                   "offsets a => ok\n"
                   "heartbeat b => b ok\n"
                   "pass 9999\n"
                   "heartbeat a => a ok\n"
                   "heartbeat b => b ok\n"
                   "pass 5000\n"
                   "offsets a gen=0 => ILLEGAL_GENERATION\n"
                   "heartbeat b => b ok\n"
                   "pass 5000\n"
                   "heartbeat a => a UNKNOWN_MEMBER_ID\n");
}

Test(classic, all_sessions_end)
{
    run(TWO_STABLE "pass 10000\n"
                   "describe => ok Empty type=consumer protocol=\n"
                   "join c v=3\n"
                   "pass 0 => c join generation=3 protocol=range leader=c members=c(m)\n");
}

Test(classic, members_leave_together)
{
    run(TWO_STABLE "leave a;'x';b => a leave ok ok UNKNOWN_MEMBER_ID ok\n"
                   "describe => ok Empty type=consumer protocol=\n"
                   "leave a v=0 => a leave UNKNOWN_MEMBER_ID\n");
}

/* ---- Empty ---- */

Test(classic, empty_answers)
{
    run(TWO_STABLE "leave a;b => a leave ok ok ok\n"
                   "heartbeat a => a UNKNOWN_MEMBER_ID\n"
                   "sync a => a sync UNKNOWN_MEMBER_ID\n"
                   "leave a => a leave ok UNKNOWN_MEMBER_ID\n"
                   "offsets a gen=-1 => ok\n"
                   "offsets a => UNKNOWN_MEMBER_ID\n"
                   "offsets a gen=2 id=none => UNKNOWN_MEMBER_ID\n"
                   "join a => a join UNKNOWN_MEMBER_ID\n"
                   "join c v=3 type=connect protocols=other:m\n"
                   "pass 0 => c join generation=3 protocol=other leader=c members=c(m)\n"
                   "describe => ok CompletingRebalance type=connect protocol= c()()\n");
}

/* ---- which protocol ---- */

Test(classic, the_protocol_most_prefer)
{
    run("join a v=3 protocols=range:1;sticky:2;robin:3\n"
        "join b v=3 protocols=sticky:4;range:5\n"
        "join c v=3 protocols=other:6;sticky:7;range:8\n"
        "pass 0 => a join generation=1 protocol=sticky leader=a members=a(2),b(4),c(7) | "
        "b join generation=1 protocol=sticky leader=a | "
        "c join generation=1 protocol=sticky leader=a\n"
        "leave c => c leave ok ok\n"
        "join d protocols=robin:1 => d join INCONSISTENT_GROUP_PROTOCOL\n");
}

Test(classic, a_member_may_change_what_it_speaks)
{
    run("join a v=3 protocols=range:1;sticky:2\n"
        "join b v=3 protocols=range:3;sticky:4\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(1),b(3) | "
        "b join generation=1 protocol=range leader=a\n"
        "join a protocols=sticky:2\n"
        "join b protocols=sticky:4 => a join generation=2 protocol=sticky leader=a "
        "members=a(2),b(4) | b join generation=2 protocol=sticky leader=a\n"
        "sync a protocol=sticky => a sync ok assignment=\n"
        "sync b protocol=range => b sync INCONSISTENT_GROUP_PROTOCOL\n");
}

/* ---- bounds ---- */

Test(classic, a_group_has_so_many_members_at_most)
{
    struct rig *r = rig_new();
    r->settings.members_max = 2;
    play(r,
         TWO_STABLE "join c => c join GROUP_MAX_SIZE_REACHED\n"
                    "join c v=3 => c join GROUP_MAX_SIZE_REACHED\n"
                    "join a\n"
                    "join c v=3\n"
                    "join b => a join generation=2 protocol=range leader=a members=a(m),c(m) | "
                    "c join generation=2 protocol=range leader=a | "
                    "b join GROUP_MAX_SIZE_REACHED\n");
    rig_free(r);
}

Test(classic, all_groups_have_so_many_members_at_most)
{
    struct rig *r = rig_new();
    r->leader->memory.members_max = 2;
    play(r,
         "join a => a join MEMBER_ID_REQUIRED\n"
         "join b => b join MEMBER_ID_REQUIRED\n"
         "join c => c join GROUP_MAX_SIZE_REACHED\n"
         "pass 10000\n"
         "join c => c join MEMBER_ID_REQUIRED\n");
    rig_free(r);
}

Test(classic, all_groups_have_so_much_memory_at_most)
{
    struct rig *r = rig_new();
    play(r,
         "join a v=3 => -\n"
         "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n");
    r->leader->memory.size_max = r->leader->memory.size + 10;
    play(r, "join b v=3 protocols=range:0123456789 => b join GROUP_MAX_SIZE_REACHED\n");
    rig_free(r);
}

Test(classic, without_memory_left_a_group_goes_on_that_takes_no_more)
{
    run("join a v=3\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "sync a give=a:xyz => a sync ok assignment=xyz\n"
        "full\n"
        "join b v=3 => b join GROUP_MAX_SIZE_REACHED\n"
        "join a => a join generation=2 protocol=range leader=a members=a(m)\n"
        "sync a give=a:123 => a sync ok assignment=123\n"
        "join a protocols=range:n => a join generation=3 protocol=range leader=a members=a(n)\n"
        "join a protocols=range:mm => a join GROUP_MAX_SIZE_REACHED\n"
        "sync a give=a:1234 => a sync UNKNOWN_SERVER_ERROR\n"
        "join a protocols=range:n => a join generation=4 protocol=range leader=a members=a(n)\n"
        "sync a give=a:321 => a sync ok assignment=321\n");
}
