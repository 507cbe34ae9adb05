#include "kafka/proto/delete_groups.h"

#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"
#include "kafka/seen.h"

static void on_all(struct request *r)
{
    const struct group_asks *all = r->state;
    struct delete_groups_response out;
    delete_groups_response_init(&out);
    out.results_count = all->count;
    out.results = all->results;
    if (group_asks_are_whole(all)) {
        request_answer(r, &out);
    } else {
        request_abort(r, "no memory");
    }
}

/* What is named more than once is asked, and answered, once: as Kafka. */
void handle_delete_groups(struct request *r)
{
    struct delete_groups_request *in = r->in;
    struct seen names;
    if (!seen_init(&names, r, in->groups_names_count)) {
        request_abort(r, "too many groups");
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < in->groups_names_count; i++) {
        if (seen_add(&names, in->groups_names[i], 0) == 1) {
            in->groups_names[count++] = in->groups_names[i];
        }
    }
    group_ask_each(r, GROUP_DELETE, in->groups_names, count, on_all);
}
