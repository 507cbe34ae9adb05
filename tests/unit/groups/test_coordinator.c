/* The gate, and what a coordinator does with groups that nothing is known of. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/offset_commit.h"

#include "tests/unit/groups/classic_script.h"

Test(coordinator, forgets_a_group_that_nothing_is_known_of)
{
    struct rig *r = rig_new();
    struct heartbeat_request in;
    heartbeat_request_init(&in);
    in.member_id = slice_of_string("m");
    const struct rig_call *call = rig_send(r, GROUP_HEARTBEAT, 4, "g", &in);
    const struct heartbeat_response *out = rig_answer(call);
    cr_assert(ne(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    cr_assert(eq(sz, r->batches_count, 0));
    rig_restart(r);
    rig_handover(r);
    rig_free(r);
}

/* Kafka's answer, not "no room", to whoever asks about a group that is not there. */
Test(coordinator, groups_can_be_asked_about_at_their_limit)
{
    struct rig *r = rig_new();
    r->leader->memory.groups_max = 0;
    const struct rig_call *call = rig_send(r, GROUP_DELETE, 2, "g", NULL);
    const struct delete_groups_response_result *out = rig_answer(call);
    cr_assert(eq(i16, out->error_code, KAFKA_GROUP_ID_NOT_FOUND));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

static struct rig_call *beat(struct rig *r, const char *member, int32_t epoch)
{
    struct consumer_group_heartbeat_request *in = rig_alloc(r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = rig_text(r, "g");
    in->member_id = rig_text(r, member);
    in->member_epoch = epoch;
    in->rebalance_timeout_ms = 60000;
    in->subscribed_topic_names = rig_alloc(r, 1, sizeof(struct slice));
    in->subscribed_topic_names[0] = rig_text(r, "t");
    in->subscribed_topic_names_count = 1;
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    return rig_send(r, GROUP_CONSUMER_HEARTBEAT, 1, "g", in);
}

static int16_t error_of(const struct rig_call *call)
{
    return ((const struct consumer_group_heartbeat_response *)rig_answer(call))->error_code;
}

/* group.coordinator.rebalance.protocols=classic: as Kafka answers, in words. */
Test(coordinator, serves_no_protocol_that_is_switched_off)
{
    struct rig *r = rig_new();
    r->settings.is_consumer_enabled = false;
    const struct consumer_group_heartbeat_response *beaten = rig_answer(beat(r, "m", 0));
    cr_assert(eq(i16, beaten->error_code, KAFKA_UNSUPPORTED_VERSION));
    cr_assert(ne(ptr, (void *)strstr((const char *)beaten->error_message.data, "lacks"), NULL));
    const struct consumer_group_describe_response_group *group =
        rig_answer(rig_send(r, GROUP_CONSUMER_DESCRIBE, 1, "g", NULL));
    cr_assert(eq(i16, group->error_code, KAFKA_UNSUPPORTED_VERSION));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

static int16_t commit_error(struct rig *r, int32_t generation)
{
    struct offset_commit_request_partition partition = {.committed_offset = 1};
    struct offset_commit_request_topic topic = {
        .name = slice_of_string("t"), .partitions = &partition, .partitions_count = 1};
    struct offset_commit_request in;
    offset_commit_request_init(&in);
    in.group_id = slice_of_string("g");
    in.member_id = slice_of_string("m");
    in.generation_id_or_member_epoch = generation;
    in.topics = &topic;
    in.topics_count = 1;
    const struct offset_commit_response *out = rig_answer(rig_send(r, GROUP_COMMIT, 8, "g", &in));
    return out->topics[0].partitions[0].error_code;
}

static int16_t join_error(struct rig *r, const char *member)
{
    struct join_group_request_protocol protocol;
    join_group_request_protocol_init(&protocol);
    protocol.name = slice_of_string("range");
    struct join_group_request in;
    join_group_request_init(&in);
    in.group_id = slice_of_string("g");
    in.member_id = rig_text(r, member);
    in.session_timeout_ms = in.rebalance_timeout_ms = 10000;
    in.protocol_type = slice_of_string("consumer");
    in.protocols = &protocol;
    in.protocols_count = 1;
    const struct join_group_response *out = rig_answer(rig_send(r, GROUP_JOIN, 3, "g", &in));
    return out->error_code;
}

/* An operator is told the limit that it was. */
Test(coordinator, a_group_without_room_names_its_limit)
{
    static const char *const SETTINGS[] = {"coreflume.groups.max", "coreflume.groups.state.bytes"};
    for (size_t i = 0; i < 2; i++) {
        struct rig *r = rig_new();
        if (i == 0) {
            r->leader->memory.groups_max = 0;
        } else {
            r->leader->memory.size_max = 1;
        }
        const struct consumer_group_heartbeat_response *out = rig_answer(beat(r, "m", 0));
        cr_assert(eq(i16, out->error_code, KAFKA_GROUP_MAX_SIZE_REACHED));
        char text[256];
        (void)snprintf(text,
                       sizeof(text),
                       "%.*s",
                       (int)out->error_message.size,
                       (const char *)out->error_message.data);
        cr_assert(strstr(text, SETTINGS[i]) != NULL, "%s", text);
        rig_free(r);
    }
}

/* Nobody looks for another coordinator for ever: a member of a group that is gone learns that, and
 * who would make one that there is no room. */
Test(coordinator, members_hear_at_the_limit_of_groups_what_they_can_act_on)
{
    struct rig *r = rig_new();
    r->leader->memory.groups_max = 0;
    rig_topic(r, "t", 1);
    cr_assert(eq(i16, join_error(r, ""), KAFKA_GROUP_MAX_SIZE_REACHED));
    cr_assert(eq(i16, join_error(r, "m"), KAFKA_UNKNOWN_MEMBER_ID));
    cr_assert(eq(i16, error_of(beat(r, "m", 0)), KAFKA_GROUP_MAX_SIZE_REACHED));
    cr_assert(eq(i16, error_of(beat(r, "m", 3)), KAFKA_GROUP_ID_NOT_FOUND));
    cr_assert(eq(i16, commit_error(r, -1), KAFKA_COORDINATOR_NOT_AVAILABLE), "later, perhaps");
    cr_assert(eq(i16, commit_error(r, 3), KAFKA_ILLEGAL_GENERATION));
    cr_assert(eq(u32, coordinator_groups_count(r->leader->c), 0));
    rig_free(r);
}

/* What was received counts, also if nobody waits for the answer. */
Test(coordinator, who_says_goodbye_and_hangs_up_has_left)
{
    struct rig *r = rig_new();
    rig_topic(r, "t", 4);
    cr_assert(eq(i16, error_of(beat(r, "a", 0)), KAFKA_NONE));
    r->is_holding = true;
    (void)beat(r, "b", 0);
    struct leave_group_request leave;
    struct leave_group_request_member a;
    leave_group_request_init(&leave);
    leave_group_request_member_init(&a);
    a.member_id = slice_of_string("a");
    leave.members = &a;
    leave.members_count = 1;
    struct rig_call *goodbye = rig_send(r, GROUP_LEAVE, 5, "g", &leave);
    rig_cancel(goodbye);
    cr_assert(not(goodbye->is_answered));
    r->is_holding = false;
    rig_commit_all(r);
    const struct leave_group_response *out = rig_answer(goodbye);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(i16, error_of(beat(r, "a", -1)), KAFKA_UNKNOWN_MEMBER_ID));
    rig_free(r);
}

/* Of partition 0 of the topic, by nobody. */
static void commit(struct rig *r, const char *topic)
{
    struct offset_commit_request *in = rig_alloc(r, 1, sizeof(*in));
    offset_commit_request_init(in);
    in->group_id = slice_of_string("g");
    in->topics = rig_alloc(r, 1, sizeof(*in->topics));
    in->topics_count = 1;
    offset_commit_request_topic_init(in->topics);
    in->topics->name = rig_text(r, topic);
    in->topics->partitions = rig_alloc(r, 1, sizeof(*in->topics->partitions));
    in->topics->partitions_count = 1;
    offset_commit_request_partition_init(in->topics->partitions);
    in->topics->partitions->committed_offset = 1;
    (void)rig_send(r, GROUP_COMMIT, 8, "g", in);
}

/* A join whose client is gone must not begin to wait for others. */
Test(coordinator, a_join_cancelled_at_the_gate_is_over)
{
    struct rig *r = rig_new();
    struct join_group_request_protocol protocol;
    join_group_request_protocol_init(&protocol);
    protocol.name = slice_of_string("range");
    struct join_group_request in;
    join_group_request_init(&in);
    in.group_id = slice_of_string("g");
    in.member_id = slice_of("", 0);
    in.session_timeout_ms = 10000;
    in.rebalance_timeout_ms = 10000;
    in.protocol_type = slice_of_string("consumer");
    in.protocols = &protocol;
    in.protocols_count = 1;
    rig_topic(r, "t", 1);
    r->is_holding = true;
    commit(r, "t"); /* Its batch is under way. */
    struct rig_call *join = rig_send(r, GROUP_JOIN, 3, "g", &in);
    cr_assert(not(join->is_answered));
    rig_cancel(join);
    cr_assert(join->is_answered);
    r->is_holding = false;
    rig_commit_all(r);
    rig_free(r);
}

/* What the leader decided is for all, whoever hangs up meanwhile. */
Test(coordinator, an_assignment_cancelled_at_the_gate_is_given)
{
    struct rig *r = rig_new();
    rig_topic(r, "u", 1);
    commit(r, "u");
    play(r,
         "join a v=3\n"
         "join b v=3\n"
         "join c v=3\n"
         "pass 0 => a join generation=1 protocol=range leader=a members=a(m),b(m),c(m) | "
         "b join generation=1 protocol=range leader=a | "
         "c join generation=1 protocol=range leader=a\n"
         "sync b\n"
         "hold\n"
         "no-topic u\n"
         "sync c\n"
         "cancel c\n"
         "sync a give=a:x;b:y;c:z\n"
         "cancel a\n"
         "release => b sync ok assignment=y\n"
         "sync a => a sync ok assignment=x\n"
         "sync c => c sync ok assignment=z\n");
    rig_free(r);
}
