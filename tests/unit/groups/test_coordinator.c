/* The gate, and what a coordinator does with groups that nothing is known of. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/leave_group.h"

#include "tests/unit/groups/rig.h"

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
