#include "kafka/proto/sync_group.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_sync_group(struct request *r)
{
    const struct sync_group_request *in = r->in;
    group_ask_single(r, GROUP_SYNC, in->group_id);
}
