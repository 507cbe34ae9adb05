#include "kafka/proto/join_group.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_join_group(struct request *r)
{
    const struct join_group_request *in = r->in;
    group_ask_single(r, GROUP_JOIN, in->group_id);
}
