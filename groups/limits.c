#include "groups/limits.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/logger.h"
#include "core/shard.h"
#include "core/xmsg.h"
#include "groups/memory.h"
#include "groups/settings.h"

enum {
    FULL_PERCENT = 99, /* The last offset, of whatever size, does not fill it exactly. */
    OVER_PERCENT = 90,
};

static const struct {
    const char *name;
    struct group_problem problem;
} LIMITS[GROUP_LIMIT_COUNT] = {
    [GROUP_LIMIT_MEMORY] = {"coreflume.groups.state.bytes",
                            {"group_memory_full",
                             "memory of consumer groups",
                             "new groups, members and offsets are refused: raise "
                             "coreflume.groups.state.bytes, or delete groups nobody needs"}},
    [GROUP_LIMIT_GROUPS] = {"coreflume.groups.max",
                            {"groups_full",
                             "number of consumer groups",
                             "new groups are refused: raise coreflume.groups.max, or delete groups "
                             "nobody needs"}},
    [GROUP_LIMIT_MEMBERS] = {"coreflume.groups.members.max",
                             {"group_members_full",
                              "number of members of consumer groups",
                              "new members are refused: raise coreflume.groups.members.max, or "
                              "run fewer consumers"}},
};

/* On its way to shard 0 and home. */
struct note {
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct limits *reader;
    enum group_limit limit;
    bool is_reached;
};

static void on_told(struct shard *here, struct xmsg *m)
{
    const struct note *note = container_of(m, struct note, msg);
    uint32_t *count = &note->reader->shards_count[note->limit];
    assert(note->is_reached || *count > 0);
    *count = note->is_reached ? *count + 1 : *count - 1;
    xmsg_forward(here, m);
}

static void on_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    free(container_of(m, struct note, msg));
}

/* False without memory: tried again at the next look. */
static bool tell(struct limits *l, enum group_limit limit, bool is_reached)
{
    struct note *note = calloc(1, sizeof(*note));
    if (note == NULL) {
        return false;
    }
    note->reader = l->reader;
    note->limit = limit;
    note->is_reached = is_reached;
    note->route[0] = (struct xmsg_hop){.shard = 0, .run = on_told};
    note->route[1] = (struct xmsg_hop){.shard = l->s->id, .run = on_home};
    note->msg.next_hop = note->route;
    xmsg_send(l->s, &note->msg);
    return true;
}

static void look(struct limits *l, enum group_limit limit, uint64_t value, uint64_t max)
{
    const uint64_t percent = l->is_reached[limit] ? OVER_PERCENT : FULL_PERCENT;
    const uint64_t rest = 100 - percent; /* Rounded down: of a small number all of it is full. */
    const bool is_reached = value >= max - (max / 100 * rest + max % 100 * rest / 100);
    if (is_reached == l->is_reached[limit] || !tell(l, limit, is_reached)) {
        return;
    }
    l->is_reached[limit] = is_reached;
    log_event(l->s->log,
              is_reached ? LOG_WARN : LOG_INFO,
              is_reached ? "group_limit_reached" : "group_limit_over",
              "limit=%s shard=%u value=%" PRIu64 " max=%" PRIu64 " groups=%" PRIu64,
              LIMITS[limit].name,
              l->s->id,
              value,
              max,
              l->memory->groups_count);
}

void limits_look(struct limits *l)
{
    const struct group_memory *m = l->memory;
    look(l, GROUP_LIMIT_MEMORY, m->size, m->size_max);
    look(l, GROUP_LIMIT_GROUPS, m->groups_count, m->groups_max);
    look(l, GROUP_LIMIT_MEMBERS, m->members_count, m->members_max);
}

uint32_t limits_list(const struct limits *l, struct group_problem ret[GROUP_LIMIT_COUNT])
{
    uint32_t count = 0;
    for (int i = 0; i < GROUP_LIMIT_COUNT; i++) {
        if (l->shards_count[i] > 0) {
            ret[count++] = LIMITS[i].problem;
        }
    }
    return count;
}
