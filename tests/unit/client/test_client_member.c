/* Members of groups: what they say to the coordinator, in which order, and what the program gets.
 * Over a broker that answers from a state (fake_group.h), with a clock that jumps. Their commits:
 * test_client_member_commits.c. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"

#include "tests/unit/client/member_rig.h"

TestSuite(client_member, .init = member_rig_setup, .fini = member_rig_teardown);

/* ---- joining ---- */

Test(client_member, joins_and_reads_from_where_the_group_is)
{
    group.committed[0] = 1;
    group.committed[1] = 2;
    fake_group_assign(&group, 1, 3);
    start();
    expect_record(0, 1);
    expect_record(0, 2);
    expect_record(1, 2);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("+0 +1 ");
    fake_group_expect(&group, "find; join t; beat 1 owns 0,1; fetch 0,1; ");
    cr_assert(strcmp(group.member_id, client_member_id(member)) == 0);
    cr_assert(eq(sz, strlen(group.member_id), UUID_TEXT_SIZE - 1));
    cr_assert(eq(i64, client_member_position(member, &t0), 3));
    cr_assert(eq(i64, client_member_end(member, &t0), 3));
}

/* A member that is given nothing says that it owns nothing, and goes on living. */
Test(client_member, nothing_assigned)
{
    const struct client_topic_partition *partitions = NULL;
    size_t count = 1;
    fake_group_assign(&group, 1, 0);
    start();
    expect_nothing(ERR_TIMED_OUT);
    client_member_assignment(member, &partitions, &count);
    cr_assert(eq(sz, count, 0));
    fake_broker_pass(&group.broker, client, 11 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "find; join t; beat 1 owns -; beat 1; beat 1; ");
    expect_told("");
}

Test(client_member, heartbeats_keep_the_broker_s_interval_and_take_its_epochs)
{
    start_with(1);
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    group.epoch = 7;
    fake_broker_pass(&group.broker, client, 10 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 1; beat 1; beat 7; ");
}

/* What options say goes with the join. */
Test(client_member, options_are_told_the_broker)
{
    static const struct row {
        const char *pattern;
        const char *assignor;
        const char *rack;
        size_t topics_count;
        const char *wanted;
    } rows[] = {
        {"t|u.*",
         "range",
         "r1",
         1,
         "find; join t like t|u.* by range at r1; beat 1 owns 0; fetch 0; "},
        {"t|u.*", NULL, NULL, 0, "find; join like t|u.*; beat 1 owns 0; fetch 0; "},
        {NULL, "uniform", NULL, 1, "find; join t by uniform; beat 1 owns 0; fetch 0; "},
        {NULL, NULL, "r1", 1, "find; join t at r1; beat 1 owns 0; fetch 0; "},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        member_rig_teardown();
        member_rig_setup();
        options.pattern = rows[i].pattern;
        options.assignor = rows[i].assignor;
        options.rack = rows[i].rack;
        options.topics_count = rows[i].topics_count;
        fake_group_assign(&group, 1, 1);
        start();
        expect_record(0, 0);
        fake_group_expect(&group, rows[i].wanted);
    }
}

/* Only the first version of the heartbeat has no place for them. */
Test(client_member, a_broker_that_knows_no_patterns)
{
    group.broker.version_max[API_CONSUMER_GROUP_HEARTBEAT] = 0;
    fake_group_assign(&group, 1, 1);
    start();
    expect_record(0, 0); /* Without one it is as good. */
    member_rig_teardown();
    member_rig_setup();
    group.broker.version_max[API_CONSUMER_GROUP_HEARTBEAT] = 0;
    options.pattern = "t.*";
    start();
    expect_nothing(ERR_UNSUPPORTED);
    cr_assert(strstr(client_why(client), "knows no patterns") != NULL, "%s", client_why(client));
}

Test(client_member, options_that_cannot_be)
{
    static const char *const topics[] = {"t"};
    const struct client_member_options nameless = {.topics = topics, .topics_count = 1};
    const struct client_member_options aimless = {.group = "g"};
    cr_assert(eq(int, client_member_new(client, &nameless, &member), ERR_INVALID));
    cr_assert(eq(int, client_member_new(client, &aimless, &member), ERR_INVALID));
}

/* ---- where a partition starts that the group has no offset for ---- */

Test(client_member, no_offset_and_no_reset)
{
    options.reading.reset = CLIENT_RESET_NONE;
    memset(group.committed, 0xff, sizeof(group.committed)); /* -1 */
    fake_group_assign(&group, 1, 1);
    start();
    expect_nothing(ERR_NOT_FOUND);
    cr_assert(strstr(client_why(client), "'g' has no offset for t[0]") != NULL);
    cr_assert(client_member_failed(member) != NULL);
    cr_assert(eq(i32, client_member_failed(member)->partition, 0));
    expect_nothing(ERR_TIMED_OUT);
    cr_assert(client_member_failed(member) == NULL);
    cr_assert(eq(int, client_member_seek(member, &t0, 2), ERR_OK));
    expect_record(0, 2);
}

Test(client_member, no_offset_and_resets)
{
    static const struct row {
        enum client_reset reset;
        int64_t time;
        int64_t position;
    } rows[] = {
        {CLIENT_RESET_START, CLIENT_OFFSET_START, 0},
        {CLIENT_RESET_END, CLIENT_OFFSET_END, 3},
        {CLIENT_RESET_AGO, 0 /* Filled in. */, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        member_rig_teardown();
        member_rig_setup();
        struct client_record r;
        options.reading.reset = rows[i].reset;
        options.reading.reset_ago_ms = 60000;
        memset(group.committed, 0xff, sizeof(group.committed));
        fake_group_assign(&group, 1, 1);
        start();
        (void)client_member_next(member, WAIT_MS, &r);
        const int64_t now_ms = clock_wall_ms(&group.broker.clock.clock);
        if (rows[i].reset == CLIENT_RESET_AGO) {
            cr_assert(le(i64, group.list_offsets_time, now_ms - 60000));
            cr_assert(ge(i64, group.list_offsets_time, now_ms - 61000));
        } else {
            cr_assert(eq(i64, group.list_offsets_time, rows[i].time));
            cr_assert(ge(i64, client_member_position(member, &t0), rows[i].position));
        }
    }
}

/* ---- partitions that come and go ---- */

/* What goes is told, given up, and acknowledged at once; what stays is read on meanwhile. */
Test(client_member, a_partition_goes_and_comes_back)
{
    start_with(3);
    fake_group_assign(&group, 2, 1);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 1; "); /* It is the program's until the next poll. */
    cr_assert(eq(i64, client_member_position(member, &t1), 3));
    expect_nothing(ERR_TIMED_OUT);
    expect_told("-1 ");
    cr_assert(eq(i64, client_member_position(member, &t1), -1));
    cr_assert(eq(int, client_member_seek(member, &t1, 0), ERR_INVALID));
    fake_group_expect(&group, "beat 2 owns 0; ");
    fake_group_grow(&group, 0, 1);
    expect_record(0, 3);
    fake_group_assign(&group, 3, 3);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    group.committed[1] = 3;
    expect_nothing(ERR_TIMED_OUT);
    expect_told("+1 ");
    fake_group_expect(&group, "beat 2; beat 3 owns 0,1; fetch 1; ");
}

/* Records in hand of a partition that goes are not handed out any more: its next owner gets them.
 */
Test(client_member, records_in_hand_of_a_partition_that_goes)
{
    options.auto_commit_ms = 3600000;
    fake_group_assign(&group, 1, 3);
    start();
    expect_record(0, 0);
    fake_group_assign(&group, 2, 2);
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    group.trace_size = 0;
    expect_record(1, 0); /* Meanwhile the commit is on its way. */
    fake_broker_run(&group.broker, client);
    expect_record(1, 1);
    expect_told("+0 +1 -0 ");
    fake_broker_run(&group.broker, client);
    fake_group_expect(&group, "commit 2 0@1; beat 2 owns 1; ");
    cr_assert(eq(i64, group.committed[0], 1));
}

/* The commit goes first, the partition afterwards: also when the commit takes long. */
Test(client_member, commits_are_over_before_a_partition_is_given_up)
{
    start_with(3);
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, 3);
    cr_assert(client_member_commit_async(member, NULL, 0, on_committed, NULL) == ERR_OK);
    fake_group_assign(&group, 2, 2);
    client_lock(client);
    member->interval_ms = 0; /* The next heartbeat is due now. */
    client_unlock(client);
    expect_nothing(ERR_TIMED_OUT);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("-0 ok ");
    fake_group_expect(&group,
                      "beat 1; commit 1 0@3,1@3; commit 2 0@3,1@3; commit 2 0@3,1@3; "
                      "commit 2 0@3,1@3; beat 2 owns 1; ");
}

static void commit_in_callback(struct client_member *m,
                               const struct client_topic_partition *partitions,
                               size_t count,
                               void *context)
{
    struct client_record r;
    on_revoked(m, partitions, count, context);
    cr_assert(eq(int, client_member_commit(m, NULL, 0, WAIT_MS), ERR_OK));
    cr_assert(eq(int, client_member_next(m, 0, &r), ERR_INVALID));
    cr_assert(eq(int, client_member_close(m, 0), ERR_INVALID));
}

Test(client_member, a_callback_may_commit_and_not_poll)
{
    options.on_revoked = commit_in_callback;
    start_with(3);
    fake_group_assign(&group, 2, 2);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    group.trace_size = 0;
    expect_nothing(ERR_TIMED_OUT);
    fake_group_expect(&group, "commit 2 0@3,1@3; beat 2 owns 1; ");
}

static void commit_async_in_callback(struct client_member *m,
                                     const struct client_topic_partition *partitions,
                                     size_t count,
                                     void *context)
{
    on_revoked(m, partitions, count, context);
    cr_assert(eq(int, client_member_commit_async(m, NULL, 0, on_committed, NULL), ERR_OK));
}

/* A commit by the callback is over before the partition is given up, too, and the program is told
 * once that it goes. */
Test(client_member, commits_of_a_callback_that_waits_for_none)
{
    options.on_revoked = commit_async_in_callback;
    start_with(3);
    fake_group_assign(&group, 2, 2);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    group.trace_size = 0;
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, 1);
    expect_nothing(ERR_TIMED_OUT);
    fake_group_expect(&group, "commit 2 0@3,1@3; commit 2 0@3,1@3; beat 2 owns 1; ");
    expect_told("-0 ok ");
}

/* What the program was told of goes, even if the group changes its mind before it is given up. */
Test(client_member, what_was_revoked_comes_back_as_a_new_one)
{
    const struct client_topic_partition *partitions = NULL;
    size_t count = 0;
    options.on_revoked = commit_async_in_callback;
    client->timeout_ms = 60000; /* The commit is not given up. */
    start_with(3);
    fake_group_assign(&group, 2, 2);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_COORDINATOR_LOAD_IN_PROGRESS, SIZE_MAX);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("-0 ");
    client_member_assignment(member, &partitions, &count);
    cr_assert(eq(sz, count, 1));
    cr_assert(eq(i32, partitions[0].partition, 1));
    cr_assert(eq(int, client_member_seek(member, &t0, 0), ERR_INVALID));
    fake_group_assign(&group, 3, 3);
    client_lock(client);
    member->interval_ms = 0; /* The next heartbeat is due now. */
    client_unlock(client);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("");
    group.failing_count = 0;
    fake_group_grow(&group, 0, 1);
    for (int i = 0; i < 10 && told[0] == '\0'; i++) {
        struct client_record r;
        (void)client_member_next(member, WAIT_MS, &r);
    }
    expect_told("+0 ok ");
    cr_assert(eq(i64, group.committed[0], 3));
    cr_assert(not(group.has_gone_back));
}

static void commit_while_more_goes(struct client_member *m,
                                   const struct client_topic_partition *partitions,
                                   size_t count,
                                   void *context)
{
    on_revoked(m, partitions, count, context);
    if (group.epoch == 2) {
        fake_group_assign(&group, 3, 4);
        client_lock(client);
        member->interval_ms = 0; /* The next heartbeat is due now. */
        client_unlock(client);
    }
    cr_assert(eq(int, client_member_commit(m, NULL, 0, WAIT_MS), ERR_OK));
}

Test(client_member, more_goes_while_the_program_is_told_what_goes)
{
    options.on_revoked = commit_while_more_goes;
    start_with(7);
    fake_group_assign(&group, 2, 5);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    expect_nothing(ERR_TIMED_OUT);
    expect_nothing(ERR_TIMED_OUT);
    expect_told("-1 -0 ");
    group.trace_size = 0;
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 3; ");
}

Test(client_member, a_pause_outlasts_rebalances)
{
    start_with(3);
    cr_assert(client_member_pause(member, &t0) == ERR_OK);
    fake_group_assign(&group, 2, 5);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    fake_group_grow(&group, 0, 1);
    group.committed[2] = 3;
    expect_nothing(ERR_TIMED_OUT);
    expect_told("-1 +2 ");
    cr_assert(client_member_resume(member, &t0) == ERR_OK);
    expect_record(0, 3);
}

/* ---- trouble ---- */

/* Whatever way the group forgets the member, it drops all and joins again, as itself. */
Test(client_member, fenced)
{
    static const int16_t codes[] = {KAFKA_FENCED_MEMBER_EPOCH, KAFKA_UNKNOWN_MEMBER_ID};
    for (size_t i = 0; i < 2; i++) {
        member_rig_teardown();
        member_rig_setup();
        start_with(3);
        fake_group_fail(&group, API_CONSUMER_GROUP_HEARTBEAT, codes[i], 1);
        fake_broker_pass(&group.broker, client, 20 * (uint64_t)SECOND_US);
        fake_group_expect(&group, "beat 1; "); /* Nothing more until the program knows. */
        cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_CANCELLED));
        fake_group_assign(&group, 5, 1);
        group.committed[0] = 3;
        expect_nothing(ERR_TIMED_OUT);
        expect_told("!0 !1 +0 ");
        fake_group_expect(&group, "join t; beat 5 owns 0; fetch 0; ");
    }
}

/* An answer that is lost: the next heartbeat says everything, to whoever coordinates now. */
Test(client_member, lost_answers)
{
    start_with(1);
    group.coordinator = FAKE_NODE_ID + 1;
    fake_group_fail(&group, API_CONSUMER_GROUP_HEARTBEAT, KAFKA_NONE, 1);
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "find; beat 1 owns 0; ");
    expect_nothing(ERR_TIMED_OUT);
    expect_told("");
}

/* What the program was told of and has not taken yet, it may take before the answer is there. */
Test(client_member, what_is_about_to_be_taken_is_owned)
{
    start_with(1);
    fake_group_assign(&group, 2, 3);
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    fake_group_assign(&group, 3, 1);
    fake_group_fail(&group, API_CONSUMER_GROUP_HEARTBEAT, KAFKA_NONE, 1);
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 1; find; beat 2 owns 0,1; ");
    expect_nothing(ERR_TIMED_OUT);
    expect_told("");
    fake_group_expect(&group, "beat 3 owns 0; ");
}

Test(client_member, the_coordinator_moves)
{
    start_with(1);
    group.coordinator = FAKE_NODE_ID + 1;
    fake_group_fail(&group, API_OFFSET_COMMIT, KAFKA_NOT_COORDINATOR, 1);
    cr_assert(eq(int, client_member_commit(member, NULL, 0, WAIT_MS), ERR_OK));
    fake_group_expect(&group, "commit 1 0@3; find; commit 1 0@3; ");
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    const struct fake_connection *last =
        &group.broker.connections[group.broker.connections_count - 1];
    cr_assert(eq(int, last->port, FAKE_PORT + 1));
}

Test(client_member, no_coordinator_at_first)
{
    fake_group_fail(&group, API_FIND_COORDINATOR, KAFKA_COORDINATOR_NOT_AVAILABLE, 2);
    fake_group_assign(&group, 1, 1);
    start();
    expect_record(0, 0);
    fake_group_expect(&group, "find; find; find; join t; beat 1 owns 0; fetch 0; ");
}

/* Trouble that lasts is told after a while, again and again, and asked meanwhile. */
Test(client_member, trouble_that_lasts)
{
    fake_group_fail(&group, API_FIND_COORDINATOR, KAFKA_COORDINATOR_NOT_AVAILABLE, SIZE_MAX);
    start();
    expect_nothing(ERR_TIMED_OUT);
    for (int i = 0; i < 2; i++) {
        fake_broker_pass(&group.broker, client, 32 * (uint64_t)SECOND_US);
        expect_nothing(ERR_NOT_LEADER);
        cr_assert(strstr(client_why(client), "no coordinator for group 'g'") != NULL);
        expect_nothing(ERR_TIMED_OUT);
    }
}

/* Errors that no second try helps against. */
Test(client_member, refused_for_good)
{
    static const struct row {
        int16_t code;
        enum err err;
    } rows[] = {
        {KAFKA_GROUP_ID_NOT_FOUND, ERR_INVALID}, /* A group of another kind. */
        {KAFKA_INVALID_REQUEST, ERR_INVALID},
        {KAFKA_UNSUPPORTED_ASSIGNOR, ERR_INVALID},
        {KAFKA_INVALID_REGULAR_EXPRESSION, ERR_INVALID},
        {KAFKA_GROUP_AUTHORIZATION_FAILED, ERR_FAILED},
        {KAFKA_GROUP_MAX_SIZE_REACHED, ERR_POLICY},
        {KAFKA_UNSUPPORTED_VERSION, ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        member_rig_teardown();
        member_rig_setup();
        fake_group_fail(&group, API_CONSUMER_GROUP_HEARTBEAT, rows[i].code, 1);
        start();
        expect_nothing(rows[i].err);
        expect_nothing(rows[i].err);
        fake_broker_pass(&group.broker, client, 20 * (uint64_t)SECOND_US);
        fake_group_expect(&group, "find; join t; ");
    }
}

Test(client_member, a_broker_without_the_protocol)
{
    group.broker.version_max[API_CONSUMER_GROUP_HEARTBEAT] = -1;
    start();
    expect_nothing(ERR_UNSUPPORTED);
    cr_assert(strstr(client_why(client), "KIP-848") != NULL, "%s", client_why(client));
}

/* A static member that was killed waits for its own place. */
Test(client_member, an_instance_id_that_is_taken)
{
    options.instance_id = "i";
    fake_group_fail(&group, API_CONSUMER_GROUP_HEARTBEAT, KAFKA_UNRELEASED_INSTANCE_ID, 3);
    fake_group_assign(&group, 1, 1);
    start();
    expect_nothing(ERR_EXISTS);
    cr_assert(strstr(client_why(client), "instance id 'i'") != NULL);
    expect_record(0, 0);
    cr_assert(eq(int, client_member_close(member, WAIT_MS), ERR_OK));
    fake_group_expect(&group,
                      "find; join t; join t; join t; join t; beat 1 owns 0; fetch 0; leave -2; ");
}

/* Who does not poll leaves, so that others get his partitions, and is back with his next poll. */
Test(client_member, a_slow_program_leaves_and_comes_back)
{
    options.poll_interval_ms_max = 12000;
    start_with(1);
    fake_broker_pass(&group.broker, client, 60 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 1; beat 1; leave -1; ");
    expect_told("");
    fake_group_assign(&group, 4, 2);
    expect_record(1, 0);
    expect_told("!0 +1 ");
    fake_group_expect(&group, "join t; beat 4 owns 1; fetch 1; ");
}

/* ---- the end ---- */

/* Whatever was last on its way, a close ends in time and leaves nothing behind. */
Test(client_member, close_at_every_step)
{
    for (int turns = 0; turns < 40; turns++) {
        for (int is_mute = 0; is_mute < 2; is_mute++) {
            member_rig_teardown();
            member_rig_setup();
            struct client_record r;
            options.auto_commit_ms = 1000;
            fake_group_assign(&group, 1, 3);
            start();
            client_lock(client);
            member->is_polling = true;
            member->state = CLIENT_MEMBER_JOINING;
            for (int i = 0; i < turns; i++) {
                client_turn(client, group.broker.clock.now_us);
            }
            member->is_polling = false;
            client_unlock(client);
            if (turns % 2) {
                (void)client_member_next(member, 0, &r);
            }
            group.is_mute = is_mute;
            const uint64_t before_us = group.broker.clock.now_us;
            (void)client_member_close(member, 500);
            cr_assert(le(u64, group.broker.clock.now_us, before_us + 500000));
            cr_assert(eq(int, client_member_next(member, 0, &r), ERR_INVALID));
        }
    }
}

/* A coordinator may keep a heartbeat until there is news: who leaves does not wait for that. */
Test(client_member, a_kept_heartbeat_delays_no_goodbye)
{
    start_with(1);
    group.is_keeping = true;
    fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
    fake_group_expect(&group, "beat 1; ");
    const uint64_t before_us = group.broker.clock.now_us;
    cr_assert(eq(int, client_member_close(member, 10000), ERR_OK));
    cr_assert(le(u64, group.broker.clock.now_us, before_us + 100000));
    fake_group_expect(&group, "beat 1; leave -1; "); /* Written again when it was answered. */
}

/* The answer to a heartbeat of an earlier life is none to the join. */
Test(client_member, an_answer_from_an_earlier_life)
{
    options.poll_interval_ms_max = 6000;
    start_with(1);
    group.is_keeping = true;
    fake_broker_pass(&group.broker, client, 5 * (uint64_t)SECOND_US);
    cr_assert(group.has_kept);
    client_lock(client);
    client_member_lose(member); /* As if fenced in another way. */
    client_unlock(client);
    fake_group_assign(&group, 8, 1);
    group.committed[0] = 3;
    expect_nothing(ERR_TIMED_OUT);
    /* The kept one is not answered yet. */
    cr_assert(eq(int, member->state, CLIENT_MEMBER_JOINING));
    group.epoch = 3;
    group.trace_size = 0;
    fake_group_release(&group);
    group.epoch = 8;
    expect_nothing(ERR_TIMED_OUT);
    fake_group_expect(&group, "beat 1; join t; beat 8 owns 0; fetch 0; ");
    cr_assert(eq(i32, member->epoch, 8));
}

/* Without time the member is just gone; its group notices by its session timeout. */
Test(client_member, close_without_waiting)
{
    start_with(1);
    cr_assert(eq(int, client_member_close(member, 0), ERR_TIMED_OUT));
    expect_told("-0 ");
    fake_group_expect(&group, "");
}

/* Faults of all kinds by chance, for a long time: every record is read, commits never go back, and
 * in the end the group has what was read. */
Test(client_member, faults_by_chance)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        member_rig_teardown();
        member_rig_setup();
        rand_init_seed(&group.broker.rand, seed);
        bool is_read[FAKE_GROUP_PARTITIONS][200] = {0};
        struct client_record r;
        options.auto_commit_ms = 300;
        for (size_t i = 0; i < 2; i++) {
            group.ends[i] = 200;
        }
        group.faults_of = 8;
        fake_group_assign(&group, 1, 3);
        start();
        for (int i = 0; i < 400; i++) {
            const enum err e = client_member_next(member, 50, &r);
            if (e == ERR_OK) {
                is_read[r.partition][r.offset] = true;
            }
            if (i % 50 == 49) {
                fake_group_assign(&group, group.epoch + 1, (uint32_t)i % 100 == 49 ? 1 : 3);
                fake_broker_pass(&group.broker, client, SECOND_US);
            }
        }
        group.faults_of = 0;
        fake_group_assign(&group, group.epoch + 1, 3);
        fake_broker_pass(&group.broker, client, 6 * (uint64_t)SECOND_US);
        while (client_member_next(member, 2000, &r) == ERR_OK) {
            is_read[r.partition][r.offset] = true;
        }
        cr_assert(eq(int, client_member_close(member, 1000), ERR_OK), "%s", client_why(client));
        for (size_t i = 0; i < 2; i++) {
            cr_assert(eq(i64, group.committed[i], 200));
            for (size_t j = 0; j < 200; j++) {
                cr_assert(is_read[i][j], "seed %d: %zu@%zu", (int)seed, i, j);
            }
        }
        cr_assert(not(group.has_gone_back));
    }
}
