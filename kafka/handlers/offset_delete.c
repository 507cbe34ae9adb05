#include "kafka/proto/offset_delete.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_offset_delete(struct request *r)
{
    const struct offset_delete_request *in = r->in;
    group_ask_single(r, GROUP_DELETE_OFFSETS, in->group_id);
}
