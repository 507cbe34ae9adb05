/* The rig, and what a coordinator does with groups that nothing is known of. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

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
