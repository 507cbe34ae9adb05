/* Offsets of members: what is committed, when, in which order, and what becomes of it. As
 * test_client_member.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"

#include "tests/unit/client/member_rig.h"

TestSuite(client_member_commits, .init = member_rig_setup, .fini = member_rig_teardown);

Test(client_member_commits, commits_go_one_after_the_other)
{
    const struct client_group_offset offsets[] = {{"t", 0, 1, NULL}, {"t", 0, 2, "m"}};
    start_with(1);
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, 1);
    for (size_t i = 0; i < 2; i++) {
        cr_assert(client_member_commit_async(member, &offsets[i], 1, on_committed, NULL) == ERR_OK);
    }
    expect_told("");
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    expect_told("ok ok ");
    fake_group_expect(&group, "commit 1 0@1; commit 1 0@1; commit 1 0@2; commit 1 0@3; ");
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    fake_group_expect(&group, ""); /* The group has it already. */
}

/* The usual way back after a failure: to what was committed before. The commit that is on its way
 * must not be the last. */
Test(client_member_commits, a_position_goes_back_behind_a_commit_on_its_way)
{
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        member_rig_teardown();
        member_rig_setup();
        options.auto_commit_ms = is_closed ? 3600000 : 0;
        start_with(1);
        cr_assert(client_member_commit_async(member, NULL, 0, NULL, NULL) == ERR_OK);
        cr_assert(client_member_seek(member, &t0, 0) == ERR_OK);
        cr_assert(eq(int,
                     is_closed ? client_member_close(member, WAIT_MS)
                               : client_member_commit(member, NULL, 0, WAIT_MS),
                     ERR_OK));
        fake_group_expect(&group,
                          is_closed ? "commit 1 0@3; commit 1 0@0; leave -1; "
                                    : "commit 1 0@3; commit 1 0@0; ");
        cr_assert(eq(i64, group.committed[0], 0));
    }
}

/* An older commit's answer says nothing of what a newer one will have changed. */
Test(client_member_commits, a_position_between_two_commits_on_their_way)
{
    const struct client_group_offset offsets[] = {{"t", 0, 3, NULL}, {"t", 0, 1, NULL}};
    start_with(1);
    for (size_t i = 0; i < 2; i++) {
        cr_assert(client_member_commit_async(member, &offsets[i], 1, on_committed, NULL) == ERR_OK);
    }
    while (group.committed[0] != 3) {
        client_lock(client);
        client_turn(client, group.broker.clock.now_us);
        client_unlock(client);
    }
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    fake_group_expect(&group, "commit 1 0@3; commit 1 0@1; commit 1 0@3; ");
}

/* What the group has is not known then: it may be stored all the same. */
Test(client_member_commits, a_position_goes_back_behind_a_commit_of_unknown_end)
{
    start_with(1);
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_NONE, SIZE_MAX);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_TIMED_OUT));
    group.failing_count = 0;
    group.committed[0] = 3;
    cr_assert(client_member_seek(member, &t0, 0) == ERR_OK);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, 5000), ERR_OK));
    cr_assert(eq(i64, group.committed[0], 0));
}

/* It waits for those before it nonetheless, and is told as any other. */
Test(client_member_commits, a_commit_of_nothing)
{
    const struct client_group_offset other = {"t", 1, 2, NULL};
    start_with(1);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    cr_assert(client_member_commit_async(member, &other, 1, NULL, NULL) == ERR_OK);
    cr_assert(client_member_commit_async(member, NULL, 0, on_committed, NULL) == ERR_OK);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    cr_assert(eq(i64, group.committed[1], 2));
    expect_told("ok ");
    fake_group_expect(&group, "commit 1 0@3; commit 1 1@2; ");
    cr_assert(eq(int, client_member_commit(member, NULL, 0, 0), ERR_OK));
    cr_assert(client_member_commit_async(member, NULL, 0, on_committed, NULL) == ERR_OK);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("ok ");
    fake_group_expect(&group, "");
}

static void commit_again(enum err e, const char *why, void *context)
{
    on_committed(e, why, context);
    e = client_member_commit_async(member, NULL, 0, commit_again, context);
    cr_assert(e == ERR_OK || e == ERR_CANCELLED); /* The latter while it closes. */
}

/* A poll ends also if there is always one more that has nothing to do. */
Test(client_member_commits, a_commit_after_each_commit)
{
    start_with(1);
    cr_assert(client_member_commit_async(member, NULL, 0, commit_again, NULL) == ERR_OK);
    expect_nothing(ERR_TIMED_OUT);
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(strncmp(told, "ok ok ", 6) == 0, "%s", told);
    fake_group_expect(&group, "commit 1 0@3; ");
    cr_assert(eq(int, client_member_close(member, WAIT_MS), ERR_OK));
    told[0] = '\0';
}

/* It takes no longer per partition than one of a few. */
Test(client_member_commits, a_commit_of_many_partitions)
{
    enum {
        COUNT = 20000,
    };
    static struct client_group_offset offsets[COUNT];
    for (int32_t i = 0; i < COUNT; i++) {
        offsets[i] = (struct client_group_offset){"t", i, 1, NULL};
    }
    start_with(1);
    cr_assert(eq(int, client_member_commit(member, offsets, COUNT, WAIT_MS), ERR_OK));
    cr_assert(eq(i64, group.committed[3], 1));
}

/* The epoch moved while the commit was on its way: it goes again with the new one. */
Test(client_member_commits, a_commit_with_an_old_epoch)
{
    start_with(1);
    group.epoch = 9;
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_STALE_MEMBER_EPOCH, 1);
    client_lock(client);
    member->interval_ms = 0;
    client_unlock(client);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    fake_group_expect(&group, "beat 1; commit 1 0@3; commit 9 0@3; ");
}

Test(client_member_commits, commits_that_are_refused)
{
    static const struct row {
        int16_t code;
        enum err err;
    } rows[] = {
        {KAFKA_UNKNOWN_MEMBER_ID, ERR_CANCELLED},
        {KAFKA_FENCED_INSTANCE_ID, ERR_CANCELLED},
        {KAFKA_OFFSET_METADATA_TOO_LARGE, ERR_TOO_LARGE},
        {KAFKA_TOPIC_AUTHORIZATION_FAILED, ERR_FAILED},
    };
    start_with(1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake_group_fail(&group, API_OFFSET_COMMIT, rows[i].code, 1);
        cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), rows[i].err));
        cr_assert(strstr(client_why(client), "t[0]") != NULL, "%s", client_why(client));
    }
}

/* What one partition is refused for keeps nothing from the others, and is not asked again. */
Test(client_member_commits, a_partition_that_is_refused)
{
    const struct client_group_offset offsets[] = {{"t", 0, 1, NULL}, {"t", 1, 2, NULL}};
    static const struct row {
        int16_t code;
        enum err err;
    } rows[] = {
        {KAFKA_OFFSET_METADATA_TOO_LARGE, ERR_TOO_LARGE},
        {KAFKA_TOPIC_AUTHORIZATION_FAILED, ERR_FAILED},
        {KAFKA_UNKNOWN_TOPIC_ID, ERR_TOPIC_UNKNOWN},
    };
    start_with(2);
    group.refused = 1U << 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        group.refused_code = rows[i].code;
        group.committed[1] = 0;
        cr_assert(eq(int, client_member_commit(member, offsets, 2, WAIT_MS), rows[i].err));
        cr_assert(strstr(client_why(client), "t[0]") != NULL, "%s", client_why(client));
        cr_assert(eq(i64, group.committed[1], 2));
        fake_group_expect(&group, "commit 1 0@1,1@2; ");
    }
}

/* A coordinator may hear of a topic later than its member: only what is missing goes again. */
Test(client_member_commits, a_topic_that_the_coordinator_does_not_know_yet)
{
    const struct client_group_offset offsets[] = {{"t", 0, 1, NULL}, {"t", 1, 2, NULL}};
    start_with(3);
    group.refused = 1U << 0;
    group.refused_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    cr_assert(client_member_commit_async(member, offsets, 2, on_committed, NULL) == ERR_OK);
    fake_broker_run(&group.broker, client);
    group.refused = 0;
    expect_nothing(ERR_TIMED_OUT);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("ok ");
    fake_group_expect(&group, "commit 1 0@1,1@2; commit 1 0@1; ");
}

/* Its topic was deleted, say. It is given up, and what comes is taken, without a word. */
Test(client_member_commits, what_is_not_stored_of_a_partition_that_goes_holds_nothing_up)
{
    options.auto_commit_ms = 3600000;
    fake_group_assign(&group, 1, 3);
    start();
    expect_record(0, 0);
    group.refused = 1U << 0;
    group.refused_code = KAFKA_UNKNOWN_TOPIC_ID;
    fake_group_assign(&group, 2, 6);
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    group.trace_size = 0;
    expect_record(1, 0);
    fake_broker_run(&group.broker, client);
    expect_record(1, 1);
    expect_told("+0 +1 -0 +2 ");
    fake_broker_run(&group.broker, client);
    fake_group_expect(&group, "commit 2 0@1; beat 2 owns 1,2; fetch 2; ");
}

/* Nor of one that stays, as long as its topic is gone and the group does not know. */
Test(client_member_commits, automatic_commits_of_the_others_go_on)
{
    options.auto_commit_ms = 1000;
    start_with(3);
    group.refused = 1U << 0;
    group.refused_code = KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
    for (int64_t i = 0; i < 3; i++) {
        fake_group_grow(&group, 0, 1);
        fake_group_grow(&group, 1, 1);
        expect_record(0, 3 + i);
        expect_record(1, 3 + i);
        for (int turn = 0; turn < 4; turn++) {
            expect_nothing(ERR_TIMED_OUT);
        }
        cr_assert(eq(i64, group.committed[1], 4 + i));
    }
}

/* It goes again, perhaps, but only as long as nobody else can have it: with the next epoch the
 * coordinator would take it for any partition, and put the next owner back. */
Test(client_member_commits, an_offset_of_a_partition_given_up_does_not_outlive_the_epoch)
{
    options.poll_interval_ms_max = 6000;
    client->timeout_ms = 60000; /* The commit lives longer than giving up may take. */
    start_with(3);
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, SIZE_MAX);
    cr_assert(client_member_commit_async(member, NULL, 0, on_committed, NULL) == ERR_OK);
    fake_group_assign(&group, 2, 2);
    for (int i = 0; i < 40 && strcmp(told, "-0 ") != 0; i++) {
        expect_nothing(ERR_TIMED_OUT);
    }
    expect_told("-0 ");
    group.epoch = 3; /* What is given up is another's. */
    group.committed[0] = 7;
    for (int i = 0; i < 20; i++) {
        expect_nothing(ERR_TIMED_OUT);
    }
    group.failing_count = 0;
    group.trace_size = 0;
    for (int i = 0; i < 20 && told[0] == '\0'; i++) {
        expect_nothing(ERR_TIMED_OUT);
    }
    expect_told("no "); /* Of what was given up. */
    cr_assert(eq(i64, group.committed[0], 7));
    cr_assert(eq(i64, group.committed[1], 3));
    cr_assert(not(group.has_gone_back));
}

Test(client_member_commits, commits_are_bounded)
{
    const struct client_group_offset offset = {"t", 0, 1, NULL};
    start_with(1);
    for (size_t i = 0; i < CLIENT_COMMITS_MAX; i++) {
        cr_assert(client_member_commit_async(member, &offset, 1, NULL, NULL) == ERR_OK);
    }
    cr_assert(eq(int, client_member_commit_async(member, &offset, 1, NULL, NULL), ERR_BUSY));
    expect_nothing(ERR_TIMED_OUT);
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(client_member_commit_async(member, &offset, 1, NULL, NULL) == ERR_OK);
}

/* What the client itself commits at the end needs no room among those of the program. */
Test(client_member_commits, the_last_commits_are_not_bounded)
{
    const struct client_group_offset offset = {"t", 0, 1, NULL};
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        member_rig_teardown();
        member_rig_setup();
        options.auto_commit_ms = 3600000;
        start_with(1);
        for (size_t i = 0; i < CLIENT_COMMITS_MAX; i++) {
            cr_assert(client_member_commit_async(member, &offset, 1, NULL, NULL) == ERR_OK);
        }
        if (is_closed) {
            cr_assert(eq(int, client_member_close(member, WAIT_MS), ERR_OK));
        } else {
            fake_group_assign(&group, 2, 2);
            fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
            for (size_t i = 0; i < 2; i++) {
                struct client_record r;
                (void)client_member_next(member, WAIT_MS, &r);
            }
        }
        cr_assert(eq(i64, group.committed[0], 3));
    }
}

/* Also while the program waits: the records before are done, since it asked for more. */
Test(client_member_commits, automatic_commits_during_a_long_poll)
{
    struct client_record r;
    options.auto_commit_ms = 2000;
    start_with(1);
    cr_assert(eq(int, client_member_next(member, 12000, &r), ERR_TIMED_OUT));
    fake_group_expect(&group, "commit 1 0@3; beat 1; beat 1; ");
}

static void seek_to_start(enum err e, const char *why, void *context)
{
    on_committed(e, why, context);
    cr_assert(client_member_seek(member, &t0, 0) == ERR_OK);
}

static void pause_and_resume(enum err e, const char *why, void *context)
{
    on_committed(e, why, context);
    cr_assert(client_member_pause(member, &t0) == ERR_OK);
    cr_assert(client_member_resume(member, &t0) == ERR_OK);
    fake_group_grow(&group, 0, 1);
}

/* A callback may move positions: they are read on in the same poll, however long that waits. */
Test(client_member_commits, a_callback_moves_a_position_during_a_long_poll)
{
    struct client_record r;
    start_with(1);
    cr_assert(client_member_commit_async(member, NULL, 0, seek_to_start, NULL) == ERR_OK);
    cr_assert(eq(int, client_member_next(member, 60000, &r), ERR_OK));
    cr_assert(eq(i64, r.offset, 0));
    expect_record(0, 1);
    expect_record(0, 2);
    cr_assert(client_member_commit_async(member, NULL, 0, pause_and_resume, NULL) == ERR_OK);
    cr_assert(eq(int, client_member_next(member, 60000, &r), ERR_OK));
    cr_assert(eq(i64, r.offset, 3));
    expect_told("ok ok ");
}

/* Retention overtakes a slow member: what it has in hand comes first, and its commits go on from
 * there, not from where it reads next. */
Test(client_member_commits, records_in_hand_of_what_is_gone)
{
    options.reading.partition_size_max = 1; /* So that nothing is asked for ahead of them. */
    group.ends[0] = 40;
    group.more_batches = 1;
    fake_group_assign(&group, 1, 1);
    start();
    expect_record(0, 0);
    group.starts[0] = group.ends[0] = 30;
    fake_broker_pass(&group.broker, client, SECOND_US);
    cr_assert(eq(i64, group.list_offsets_time, CLIENT_OFFSET_START));
    for (int64_t i = 1; i < 20; i++) {
        expect_record(0, i);
        cr_assert(eq(i64, client_member_position(member, &t0), i + 1));
        cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
        cr_assert(eq(i64, group.committed[0], i + 1));
    }
    expect_nothing(ERR_TIMED_OUT);
    /* Only then it is there, and knows that it is at the end. */
    cr_assert(eq(i64, client_member_position(member, &t0), 30));
    cr_assert(eq(i64, client_member_end(member, &t0), 30));
    fake_group_grow(&group, 0, 1);
    expect_record(0, 30);
    cr_assert(not(group.has_gone_back));
}

/* Only what the program asked to go on from is done: not the record that it has in hand. */
Test(client_member_commits, automatic_commits)
{
    options.auto_commit_ms = 2000;
    fake_group_assign(&group, 1, 1);
    start();
    expect_record(0, 0);
    group.trace_size = 0;
    fake_broker_pass(&group.broker, client, 3 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "");
    expect_record(0, 1);
    fake_broker_run(&group.broker, client);
    fake_group_expect(&group, "commit 1 0@1; ");
    cr_assert(eq(int, client_member_close(member, WAIT_MS), ERR_OK));
    fake_group_expect(&group, "commit 1 0@2; leave -1; ");
    expect_told("+0 -0 ");
}
