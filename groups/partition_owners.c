#include "groups/partition_owners.h"

#include <stdlib.h>

#include "core/assert.h"

enum {
    SLOTS_MIN = 16,
};

void partition_owners_init(struct partition_owners *o, uint64_t hash_seed)
{
    *o = (struct partition_owners){.hash_seed = hash_seed};
}

void partition_owners_done(struct partition_owners *o)
{
    free(o->slots);
    *o = (struct partition_owners){0};
}

static uint32_t
home_of(const struct partition_owners *o, const struct uuid *topic_id, int32_t partition)
{
    const struct partition_id id = {*topic_id, partition};
    return (uint32_t)partition_id_hash(o->hash_seed, &id) & (o->slots_count - 1);
}

static uint32_t next_of(const struct partition_owners *o, uint32_t slot)
{
    return (slot + 1) & (o->slots_count - 1);
}

/* Its slot, or the free one where it would be. There always is a free one. */
static uint32_t
slot_of(const struct partition_owners *o, const struct uuid *topic_id, int32_t partition)
{
    uint32_t slot = home_of(o, topic_id, partition);
    while (o->slots[slot].holder != NULL && (o->slots[slot].partition != partition ||
                                             !uuid_equal(&o->slots[slot].topic_id, topic_id))) {
        slot = next_of(o, slot);
    }
    return slot;
}

const void *partition_owners_find(const struct partition_owners *o,
                                  const struct uuid *topic_id,
                                  int32_t partition)
{
    return o->slots_count == 0 ? NULL : o->slots[slot_of(o, topic_id, partition)].holder;
}

/* At most three quarters of the slots are taken. */
static enum err grow(struct partition_owners *o, uint64_t count)
{
    uint64_t slots_count = o->slots_count == 0 ? SLOTS_MIN : o->slots_count;
    while (slots_count * 3 / 4 < count) {
        slots_count *= 2;
    }
    if (slots_count == o->slots_count) {
        return ERR_OK;
    }
    struct partition_owners grown = *o;
    grown.slots = slots_count > UINT32_MAX ? NULL : calloc(slots_count, sizeof(*grown.slots));
    if (grown.slots == NULL) {
        return ERR_BUSY;
    }
    grown.slots_count = (uint32_t)slots_count;
    for (uint32_t i = 0; i < o->slots_count; i++) {
        const struct partition_owner *from = &o->slots[i];
        if (from->holder != NULL) {
            grown.slots[slot_of(&grown, &from->topic_id, from->partition)] = *from;
        }
    }
    free(o->slots);
    *o = grown;
    return ERR_OK;
}

enum err partition_owners_put(struct partition_owners *o,
                              const struct partition_set *set,
                              const void *holder)
{
    assert(holder != NULL);
    const enum err e = grow(o, (uint64_t)o->count + set->count);
    if (e != ERR_OK) {
        return e;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const struct held_partition *p = &set->items[i];
        struct partition_owner *slot = &o->slots[slot_of(o, &p->topic_id, p->partition)];
        o->count += slot->holder == NULL;
        *slot = (struct partition_owner){p->topic_id, p->partition, holder};
    }
    return ERR_OK;
}

/* Moves up those behind the hole that could not be found across it. */
static void close_hole(struct partition_owners *o, uint32_t hole)
{
    const uint32_t mask = o->slots_count - 1;
    for (uint32_t i = next_of(o, hole); o->slots[i].holder != NULL; i = next_of(o, i)) {
        const uint32_t home = home_of(o, &o->slots[i].topic_id, o->slots[i].partition);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            o->slots[hole] = o->slots[i];
            hole = i;
        }
    }
    o->slots[hole] = (struct partition_owner){0};
}

void partition_owners_remove(struct partition_owners *o,
                             const struct partition_set *set,
                             const void *holder)
{
    for (uint32_t i = 0; i < set->count && o->count > 0; i++) {
        const uint32_t slot = slot_of(o, &set->items[i].topic_id, set->items[i].partition);
        if (o->slots[slot].holder == holder) {
            close_hole(o, slot);
            o->count--;
        }
    }
}
