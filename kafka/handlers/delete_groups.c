#include "kafka/proto/delete_groups.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

static void on_all(struct request *r)
{
    const struct group_asks *all = r->state;
    struct delete_groups_response out;
    delete_groups_response_init(&out);
    out.results_count = all->count;
    out.results = request_alloc(r, all->count, sizeof(*out.results));
    if (out.results == NULL || !group_asks_are_whole(all)) {
        request_abort(r, "the answer is too large: ask for fewer groups");
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        const struct delete_groups_response_result *group = all->asks[i].call.out;
        out.results[i] = *group;
    }
    request_answer(r, &out);
}

void handle_delete_groups(struct request *r)
{
    const struct delete_groups_request *in = r->in;
    group_ask_each(r, GROUP_DELETE, in->groups_names, in->groups_names_count, on_all);
}
