/* Which (name, number) pairs a request has named, and how often: duplicates within one request are
 * refused or answered once. Memory comes from the request, slots are never more than half full, and
 * the hash is seeded, so that no request can make it slow.
 *
 * Shard: the request's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"

struct request;

struct seen_slot {
    struct slice name;
    int32_t number;
    uint32_t times; /* 0 = free. */
};

struct seen {
    struct seen_slot *slots;
    size_t mask;
    uint64_t seed;
};

/* Room for count_max pairs. False at the request's memory limit. Names are views and must stay. */
bool seen_init(struct seen *set, struct request *r, size_t count_max);

/* Notes one more occurrence; returns how often the pair was seen, this one included. */
uint32_t seen_add(struct seen *set, struct slice name, int32_t number);

/* How often so far. */
uint32_t seen_times(const struct seen *set, struct slice name, int32_t number);
