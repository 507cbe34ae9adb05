#include "kafka/proto/list_groups.h"

#include <string.h>

#include "core/shard.h"
#include "kafka/group_asks.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

typedef struct list_groups_response_group listed_group;

/* What the shards listed, one after the other. False at the request's memory limit. */
static bool merge(struct request *r, struct list_groups_response *out)
{
    const struct group_asks *all = r->state;
    for (size_t i = 0; i < all->count; i++) {
        const struct list_groups_response *part = all->asks[i].call.out;
        out->groups_count += part->groups_count;
        if (part->error_code != KAFKA_NONE) {
            out->error_code = part->error_code;
        }
    }
    listed_group *to = request_alloc(r, out->groups_count, sizeof(*to));
    if (to == NULL) {
        return false;
    }
    out->groups = to;
    for (size_t i = 0; i < all->count; i++) {
        const struct list_groups_response *part = all->asks[i].call.out;
        memcpy(to, part->groups, part->groups_count * sizeof(*to));
        to += part->groups_count;
    }
    return true;
}

static void on_all(struct request *r)
{
    struct list_groups_response out;
    list_groups_response_init(&out);
    if (!group_asks_are_whole(r->state)) {
        request_abort(r, "no memory");
        return;
    }
    if (!merge(r, &out)) {
        list_groups_response_init(&out);
        out.error_code = (int16_t)group_asks_error(r);
    }
    request_answer(r, &out);
}

void handle_list_groups(struct request *r)
{
    r->state = request_alloc(r, 1, sizeof(struct group_asks));
    if (r->state == NULL || !group_asks_init(r, GROUP_LIST, r->d->s->shards_count)) {
        request_abort(r, "no memory");
        return;
    }
    struct group_asks *all = r->state;
    for (size_t i = 0; i < all->count; i++) {
        all->asks[i].call.in = r->in;
    }
    group_asks_begin(r, on_all);
}
