/* The latest offset of each record key in a range of a log: what compaction decides by. Open
 * addressing, 24 bytes a slot, filled up to three quarters, never grown: its size is its bound, and
 * one that is full ends the range that one pass looks at.
 *
 * Keys are not kept, only 128 bits of SipHash-2-4 of them under a secret drawn per pass (as Kafka
 * keeps 128 bits of MD5, without a secret). Equal hashes count as equal keys. For n keys the chance
 * that any two collide is below n^2 / 2^129: 2^-77 with 2^26 of them, and nobody who does not know
 * the secret can make a pair that does.
 *
 * Shard: pure; the owner's. Memory from malloc, untouched pages of it cost nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"

struct key_map_slot;

struct key_map {
    struct key_map_slot *slots;
    uint64_t slots_count; /* A power of two. */
    uint64_t count;
    uint64_t count_max;
    uint64_t secret[2];
};

/* Room for keys_expected keys, or as many as fit into size_max bytes if those are fewer; at least a
 * few. ERR_BUSY without memory. */
enum err key_map_init(struct key_map *m,
                      uint64_t keys_expected,
                      uint64_t size_max,
                      const uint64_t secret[2]);
/* Harmless on a zeroed one. */
void key_map_done(struct key_map *m);

/* Forgets all keys. */
void key_map_clear(struct key_map *m);
/* offset >= 0 becomes that of key; false, and nothing changed, if key is new and the map is full.
 */
bool key_map_put(struct key_map *m, struct slice key, int64_t offset);
/* -1 if key is not in it. */
int64_t key_map_get(const struct key_map *m, struct slice key);
/* For tests: the hash. */
void key_map_hash(const uint64_t secret[2], struct slice key, uint64_t ret_hash[2]);
uint64_t key_map_size(const struct key_map *m); /* bytes */
