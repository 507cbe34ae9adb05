#include "kafka/proto/leave_group.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_leave_group(struct request *r)
{
    const struct leave_group_request *in = r->in;
    group_ask_single(r, GROUP_LEAVE, in->group_id);
}
