#include "kafka/proto/offset_commit.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

void handle_offset_commit(struct request *r)
{
    const struct offset_commit_request *in = r->in;
    group_ask_single(r, GROUP_COMMIT, in->group_id);
}
