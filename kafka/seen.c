#include "kafka/seen.h"

#include "core/assert.h"
#include "core/ids.h"
#include "core/shard.h"
#include "kafka/request.h"

bool seen_init(struct seen *set, struct request *r, size_t count_max)
{
    size_t slots_count = 8;
    while (slots_count < 2 * count_max) {
        slots_count *= 2;
    }
    set->slots = request_alloc(r, slots_count, sizeof(*set->slots));
    set->mask = slots_count - 1;
    set->seed = r->d->s->hash_seed;
    return set->slots != NULL;
}

static struct seen_slot *find(const struct seen *set, struct slice name, int32_t number)
{
    const uint64_t seed = set->seed + (uint32_t)number * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)hash_bytes(seed, name.data, name.size) & set->mask;
    for (size_t probes = 0; probes <= set->mask; probes++) {
        struct seen_slot *slot = &set->slots[at];
        if (slot->times == 0 || (slot->number == number && slice_equal(slot->name, name))) {
            return slot;
        }
        at = (at + 1) & set->mask;
    }
    assert(false && "more pairs than seen_init was told");
    return NULL;
}

uint32_t seen_add(struct seen *set, struct slice name, int32_t number)
{
    struct seen_slot *slot = find(set, name, number);
    slot->name = name;
    slot->number = number;
    slot->times++;
    return slot->times;
}

uint32_t seen_times(const struct seen *set, struct slice name, int32_t number)
{
    return find(set, name, number)->times;
}
