/* The rig, and what a coordinator does with groups that nothing is known of. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/delete_groups.h"
#include "kafka/proto/heartbeat.h"

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
