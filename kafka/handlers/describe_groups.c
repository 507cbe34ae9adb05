#include "kafka/proto/describe_groups.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/operations.h"
#include "kafka/request.h"

static void on_all(struct request *r)
{
    const struct describe_groups_request *in = r->in;
    const struct group_asks *all = r->state;
    struct describe_groups_response out;
    describe_groups_response_init(&out);
    out.groups_count = all->count;
    out.groups = all->results;
    if (!group_asks_are_whole(all)) {
        request_abort(r, "no memory");
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (in->include_authorized_operations && out.groups[i].error_code == KAFKA_NONE) {
            out.groups[i].authorized_operations = GROUP_OPERATIONS;
        }
    }
    request_answer(r, &out);
}

void handle_describe_groups(struct request *r)
{
    const struct describe_groups_request *in = r->in;
    group_ask_each(r, GROUP_DESCRIBE, in->groups, in->groups_count, on_all);
}
