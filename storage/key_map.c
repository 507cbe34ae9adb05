#include "storage/key_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

struct key_map_slot {
    uint64_t hash[2];
    int64_t next_offset; /* Of the key, plus one: 0 = the slot is free. */
};

enum {
    SLOTS_MIN = 16,
};

/* ---- SipHash-2-4, 128 bits (Aumasson, Bernstein) ---- */

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static uint64_t sip_end(struct sip *s)
{
    for (int i = 0; i < 4; i++) {
        sip_round(s);
    }
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void key_map_hash(const uint64_t secret[2], struct slice key, uint64_t ret_hash[2])
{
    struct sip s = {
        .v0 = secret[0] ^ 0x736f6d6570736575,
        .v1 = secret[1] ^ 0x646f72616e646f6d ^ 0xee,
        .v2 = secret[0] ^ 0x6c7967656e657261,
        .v3 = secret[1] ^ 0x7465646279746573,
    };
    size_t at = 0;
    for (; at + 8 <= key.size; at += 8) {
        uint64_t word;
        memcpy(&word, key.data + at, sizeof(word));
        sip_word(&s, word);
    }
    uint64_t last = (uint64_t)key.size << 56;
    for (size_t i = 0; at + i < key.size; i++) {
        last |= (uint64_t)key.data[at + i] << (8 * i);
    }
    sip_word(&s, last);
    s.v2 ^= 0xee;
    ret_hash[0] = sip_end(&s);
    s.v1 ^= 0xdd;
    ret_hash[1] = sip_end(&s);
}

/* ---- the map ---- */

enum err
key_map_init(struct key_map *m, uint64_t keys_expected, uint64_t size_max, const uint64_t secret[2])
{
    uint64_t slots_count = SLOTS_MIN;
    while (slots_count / 4 * 3 < keys_expected &&
           slots_count * 2 * sizeof(struct key_map_slot) <= size_max) {
        slots_count *= 2;
    }
    *m = (struct key_map){
        .slots = calloc(slots_count, sizeof(struct key_map_slot)),
        .slots_count = slots_count,
        .count_max = slots_count / 4 * 3,
        .secret = {secret[0], secret[1]},
    };
    return m->slots == NULL ? ERR_BUSY : ERR_OK;
}

void key_map_done(struct key_map *m)
{
    free(m->slots);
    *m = (struct key_map){0};
}

void key_map_clear(struct key_map *m)
{
    memset(m->slots, 0, m->slots_count * sizeof(m->slots[0]));
    m->count = 0;
}

/* The slot of the hash, or the free one where it belongs. */
static struct key_map_slot *find(const struct key_map *m, const uint64_t hash[2])
{
    uint64_t at = hash[0] & (m->slots_count - 1);
    for (;;) {
        struct key_map_slot *slot = &m->slots[at];
        const bool is_it = slot->hash[0] == hash[0] && slot->hash[1] == hash[1];
        if (slot->next_offset == 0 || is_it) {
            return slot;
        }
        at = (at + 1) & (m->slots_count - 1);
    }
}

bool key_map_put(struct key_map *m, struct slice key, int64_t offset)
{
    assert_cmp(offset, >=, 0);
    assert_cmp(offset, <, INT64_MAX);
    uint64_t hash[2];
    key_map_hash(m->secret, key, hash);
    struct key_map_slot *slot = find(m, hash);
    if (slot->next_offset == 0) {
        if (m->count == m->count_max) {
            return false;
        }
        m->count++;
        slot->hash[0] = hash[0];
        slot->hash[1] = hash[1];
    }
    slot->next_offset = offset + 1;
    return true;
}

int64_t key_map_get(const struct key_map *m, struct slice key)
{
    uint64_t hash[2];
    key_map_hash(m->secret, key, hash);
    return find(m, hash)->next_offset - 1;
}

uint64_t key_map_size(const struct key_map *m)
{
    return m->slots_count * sizeof(struct key_map_slot);
}
