/* Random numbers as a shard sees them: xoshiro256** seeded from the kernel or from the simulator.
 * Not for secrets.
 *
 * Shard: one object per shard; no locking.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ids.h"

struct rand {
    uint64_t state[4];
};

void rand_init_seed(struct rand *r, uint64_t seed);
/* Seeds from getrandom(2). */
void rand_init_real(struct rand *r);

uint64_t rand_u64(struct rand *r);
/* Uniform in [0, bound); bound > 0. */
uint64_t rand_below(struct rand *r, uint64_t bound);
/* True once in `of` times on average; of > 0. */
bool rand_one_in(struct rand *r, uint64_t of);
void rand_bytes(struct rand *r, void *data, size_t size);
/* A version 4 UUID; never zero, and its text never starts with '-'. */
struct uuid rand_uuid(struct rand *r);
