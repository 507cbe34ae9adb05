/* What all groups of a shard take, and may take. The state is charged when it is applied, and that
 * always succeeds: what is committed must be held. So calls ask for room before they propose.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/assert.h"

struct group_memory {
    uint64_t size; /* bytes */
    uint64_t size_max;
    uint64_t groups_count; /* What is committed is held beyond the limit, too. */
    uint64_t groups_max;
    uint64_t members_count;
    uint64_t members_max;
};

/* growth: what will be taken, less what will be given back for it. Who takes no more than before
 * always has room: members that are in stay in. */
static inline bool group_memory_has_room(const struct group_memory *m, int64_t growth)
{
    return growth <= 0 || (m->size < m->size_max && (uint64_t)growth <= m->size_max - m->size);
}

static inline void group_memory_take(struct group_memory *m, uint64_t size)
{
    m->size += size;
}

static inline void group_memory_give(struct group_memory *m, uint64_t size)
{
    assert_cmp(m->size, >=, size);
    m->size -= size;
}
