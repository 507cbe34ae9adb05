/* Static members of the classic protocol (KIP-345) in transcripts: classic_script.h. */
#include <criterion/criterion.h>

#include "tests/unit/groups/classic_script.h"

/* a leads as instance i, b follows as j. */
#define TWO_JOINED                                                               \
    "join a as=i\n"                                                              \
    "join b as=j\n"                                                              \
    "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | " \
    "b join generation=1 protocol=range leader=a\n"
#define TWO_STABLE  \
    TWO_JOINED      \
    "sync b as=j\n" \
    "sync a as=i give=a:x;b:y => b sync ok assignment=y | a sync ok assignment=x\n"

static void run(const char *script)
{
    struct rig *r = rig_new();
    play(r, script);
    rig_free(r);
}

Test(classic_static, no_id_is_required_first)
{
    run("join a as=i v=5\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n");
}

Test(classic_static, they_are_told_of_before_the_others)
{
    run("join a v=3\n"
        "join b as=i\n"
        "join c v=3\n"
        "join d as=j\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=b(m),d(m),a(m),c(m) | "
        "b join generation=1 protocol=range leader=a | c join generation=1 protocol=range leader=a "
        "| "
        "d join generation=1 protocol=range leader=a\n");
}

/* ---- Stable ---- */

Test(classic_static, a_follower_comes_back_without_a_rebalance)
{
    run(TWO_STABLE "join b2 as=j => b2 join generation=1 protocol=range leader=a\n"
                   "describe => ok Stable type=consumer protocol=range a(m)(x) b2(m)(y)\n"
                   "sync b2 as=j => b2 sync ok assignment=y\n"
                   "heartbeat a => a ok\n"
                   "heartbeat b2 as=j => b2 ok\n"
                   "heartbeat b as=j => b FENCED_INSTANCE_ID\n"
                   "heartbeat b as=j gen=7 => b FENCED_INSTANCE_ID\n"
                   "heartbeat b => b UNKNOWN_MEMBER_ID\n"
                   "sync b as=j => b sync FENCED_INSTANCE_ID\n"
                   "sync b => b sync UNKNOWN_MEMBER_ID\n"
                   "offsets b as=j => FENCED_INSTANCE_ID\n"
                   "offsets b => UNKNOWN_MEMBER_ID\n"
                   "join b as=j => b join FENCED_INSTANCE_ID\n"
                   "leave b as=j => b leave ok FENCED_INSTANCE_ID\n"
                   "restart\n"
                   "heartbeat b2 as=j => b2 ok\n"
                   "heartbeat b as=j => b FENCED_INSTANCE_ID\n");
}

Test(classic_static, the_leader_comes_back_and_is_to_skip_the_assignment)
{
    run(TWO_STABLE "join a2 as=i => a2 join generation=1 protocol=range leader=a2 "
                   "members=a2(m),b(m) skip\n"
                   "sync a2 as=i => a2 sync ok assignment=x\n"
                   "restart\n"
                   "join a2 as=i\n"
                   "heartbeat b => b REBALANCE_IN_PROGRESS\n");
}

Test(classic_static, an_older_leader_is_told_of_its_former_self)
{
    run(TWO_STABLE "join a2 as=i v=8 => a2 join generation=1 protocol=range leader=a\n"
                   "sync a2 as=i => a2 sync ok assignment=x\n"
                   "join a2 as=i v=8\n"
                   "join b as=j => a2 join generation=2 protocol=range leader=a2 "
                   "members=a2(m),b(m) | b join generation=2 protocol=range leader=a2\n");
}

Test(classic_static, new_metadata_is_kept_and_shown)
{
    run(TWO_STABLE "join a2 as=i protocols=range:n => a2 join generation=1 protocol=range "
                   "leader=a2 members=a2(n),b(m) skip\n"
                   "restart\n"
                   "describe => ok Stable type=consumer protocol=range a2(n)(x) b(m)(y)\n");
}

Test(classic_static, another_protocol_needs_a_rebalance)
{
    run("join a as=i protocols=range:1;sticky:2\n"
        "join b as=j protocols=range:3;sticky:4\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(1),b(3) | "
        "b join generation=1 protocol=range leader=a\n"
        "sync b as=j\n"
        "sync a as=i => b sync ok assignment= | a sync ok assignment=\n"
        "join b2 as=j protocols=sticky:5\n"
        "heartbeat a => a REBALANCE_IN_PROGRESS\n"
        "join a as=i protocols=range:1;sticky:2 => b2 join generation=2 protocol=sticky leader=a "
        "| a join generation=2 protocol=sticky leader=a members=a(2),b2(5)\n");
}

Test(classic_static, it_has_its_whole_session_to_come_back)
{
    run(TWO_STABLE "pass 6000\n"
                   "heartbeat a => a ok\n"
                   "pass 3999\n"
                   "join b2 as=j => b2 join generation=1 protocol=range leader=a\n"
                   "heartbeat a => a ok\n"
                   "pass 9999\n"
                   "heartbeat b2 => b2 ok\n"
                   "pass 1\n"
                   "heartbeat a => a UNKNOWN_MEMBER_ID\n");
}

/* ---- the other states ---- */

Test(classic_static, in_completing_a_rebalance_begins)
{
    run(TWO_JOINED "sync b as=j\n"
                   "join b2 as=j => b sync FENCED_INSTANCE_ID\n"
                   "sync a as=i => a sync REBALANCE_IN_PROGRESS\n"
                   "join a as=i => b2 join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),b2(m)\n");
}

Test(classic_static, alone_in_completing_it_gets_the_next_generation_at_once)
{
    run("join a as=i\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "join a2 as=i => a2 join generation=2 protocol=range leader=a2 members=a2(m)\n");
}

Test(classic_static, in_preparing_the_former_self_is_fenced)
{
    run(TWO_STABLE "join b as=j protocols=range:n\n"
                   "join b2 as=j => b join FENCED_INSTANCE_ID\n"
                   "join a as=i => b2 join generation=2 protocol=range leader=a | "
                   "a join generation=2 protocol=range leader=a members=a(m),b2(m)\n");
}

/* A coordinator that takes over then knows the new one, and does not fence it. */
Test(classic_static, in_preparing_it_is_durable)
{
    run(TWO_STABLE "join a as=i\n"
                   "join a2 as=i => a join FENCED_INSTANCE_ID\n"
                   "handover => a2 join NOT_COORDINATOR\n"
                   "heartbeat b as=j => b ok\n"
                   "heartbeat a as=i => a FENCED_INSTANCE_ID\n");
}

Test(classic_static, who_is_away_is_not_removed_at_the_end_of_a_join)
{
    run("join a as=i rebalance=5000 session=60000\n"
        "join b as=j rebalance=5000 session=60000\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
        "b join generation=1 protocol=range leader=a\n"
        "sync b as=j\n"
        "sync a as=i give=a:x;b:y => b sync ok assignment=y | a sync ok assignment=x\n"
        "join b as=j protocols=range:n rebalance=5000\n"
        "pass 5000 => b join generation=2 protocol=range leader=b members=a(m),b(n)\n"
        "sync b as=j give=a:x => b sync ok assignment=\n"
        "join a2 as=i => a2 join generation=2 protocol=range leader=b\n"
        "sync a2 as=i => a2 sync ok assignment=x\n");
}

Test(classic_static, nobody_rejoins_and_all_are_waited_for)
{
    struct rig *r = rig_new();
    play(r,
         "join a as=i rebalance=5000 session=60000\n"
         "join b v=3 rebalance=5000 session=60000\n"
         "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m) | "
         "b join generation=1 protocol=range leader=a\n"
         "sync b\n"
         "sync a as=i give=a:x => b sync ok assignment= | a sync ok assignment=x\n"
         "leave b => b leave ok ok\n"
         "pass 5000\n"
         "describe => ok PreparingRebalance type=consumer protocol= a()(x)\n"
         "pass 5000\n"
         "join a2 as=i => a2 join generation=2 protocol=range leader=a2 members=a2(m)\n");
    cr_assert(rig_has_reached(r, "classic_nobody_rejoined"));
    rig_free(r);
}

/* ---- who they are ---- */

Test(classic_static, an_instance_that_nobody_knows)
{
    run(TWO_STABLE "heartbeat a as=k => a UNKNOWN_MEMBER_ID\n"
                   "sync a as=k => a sync UNKNOWN_MEMBER_ID\n"
                   "offsets a as=k => UNKNOWN_MEMBER_ID\n"
                   "join a as=k => a join UNKNOWN_MEMBER_ID\n"
                   "join c as=k id='x' => c join UNKNOWN_MEMBER_ID\n"
                   "join c as=i id='x' => c join FENCED_INSTANCE_ID\n"
                   "heartbeat a id=none as=i => a FENCED_INSTANCE_ID\n"
                   "heartbeat a => a ok\n");
}

Test(classic_static, an_id_that_was_given_out_is_no_instance)
{
    run("join c => c join MEMBER_ID_REQUIRED\n"
        "join c as=k => c join UNKNOWN_MEMBER_ID\n"
        "join c\n"
        "pass 0 => c join generation=1 protocol=range leader=c members=c(m)\n");
}

Test(classic_static, an_administrator_removes_it)
{
    run(TWO_STABLE "leave none as=k => none leave ok UNKNOWN_MEMBER_ID\n"
                   "leave none => none leave ok UNKNOWN_MEMBER_ID\n"
                   "leave none as=j => none leave ok ok\n"
                   "heartbeat b as=j => b UNKNOWN_MEMBER_ID\n"
                   "heartbeat a => a REBALANCE_IN_PROGRESS\n");
}

Test(classic_static, it_may_leave_by_its_id_alone)
{
    run(TWO_STABLE "leave b => b leave ok ok\n"
                   "leave a as=i => a leave ok ok\n"
                   "describe => ok Empty type=consumer protocol=\n");
}

/* ---- when it cannot be written ---- */

Test(classic_static, a_replacement_that_is_not_written_is_none)
{
    run(TWO_STABLE
        "hold\n"
        "join b2 as=j\n"
        "heartbeat b as=j\n"
        "fail BUSY => b2 join COORDINATOR_NOT_AVAILABLE | b ok\n"
        "join b2 as=j id=none\n"
        "heartbeat b as=j\n"
        "write => b2 join generation=1 protocol=range leader=a | b FENCED_INSTANCE_ID\n");
}

Test(classic_static, nobody_knows_whether_it_was_written)
{
    run(TWO_STABLE "hold\n"
                   "join b2 as=j\n"
                   "cancel b2\n"
                   "heartbeat b as=j\n"
                   "resign => b NOT_COORDINATOR\n"
                   "write\n"
                   "handover\n"
                   "heartbeat b as=j => b FENCED_INSTANCE_ID\n");
}
