#include "kafka/proto/heartbeat.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_heartbeat(struct request *r)
{
    const struct heartbeat_request *in = r->in;
    group_ask_single(r, GROUP_HEARTBEAT, in->group_id);
}
