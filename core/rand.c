/* xoshiro256** (Blackman and Vigna), seeded through splitmix64 as its authors advise. */
#include "core/rand.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/assert.h"

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void rand_init_seed(struct rand *r, uint64_t seed)
{
    for (size_t i = 0; i < 4; i++) {
        r->state[i] = splitmix64(&seed);
    }
}

void rand_init_real(struct rand *r)
{
    uint64_t seed;
    ssize_t size;
    do {
        size = getrandom(&seed, sizeof(seed), 0);
    } while (size == -1 && errno == EINTR);
    if (size != (ssize_t)sizeof(seed)) {
        panic("getrandom failed: errno=%d", errno);
    }
    rand_init_seed(r, seed);
}

static inline uint64_t rotate_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t rand_u64(struct rand *r)
{
    uint64_t *s = r->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rand_below(struct rand *r, uint64_t bound)
{
    assert(bound > 0);
    /* Values below this threshold would make the low results more likely than the high ones. */
    const uint64_t threshold = (0 - bound) % bound;
    uint64_t v;
    do {
        v = rand_u64(r);
    } while (v < threshold);
    return v % bound;
}

bool rand_one_in(struct rand *r, uint64_t of)
{
    return rand_below(r, of) == 0;
}

void rand_bytes(struct rand *r, void *data, size_t size)
{
    uint8_t *cursor = data;
    while (size > 0) {
        uint64_t v = rand_u64(r);
        size_t part = size < sizeof(v) ? size : sizeof(v);
        memcpy(cursor, &v, part);
        cursor += part;
        size -= part;
    }
}

struct uuid rand_uuid(struct rand *r)
{
    struct uuid u;
    char text[UUID_TEXT_SIZE];
    do {
        rand_bytes(r, u.bytes, sizeof(u.bytes));
        u.bytes[6] = (uint8_t)((u.bytes[6] & 0x0f) | 0x40); /* Version 4. */
        u.bytes[8] = (uint8_t)((u.bytes[8] & 0x3f) | 0x80); /* Variant of RFC 4122. */
        uuid_format(&u, text);
    } while (text[0] == '-'); /* It would look like an option on a command line. */
    return u;
}
