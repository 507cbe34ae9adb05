#include "kafka/proto/consumer_group_heartbeat.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_consumer_group_heartbeat(struct request *r)
{
    const struct consumer_group_heartbeat_request *in = r->in;
    group_ask_single(r, GROUP_CONSUMER_HEARTBEAT, in->group_id);
}
