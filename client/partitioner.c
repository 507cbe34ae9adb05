#include "client/partitioner.h"

#include <assert.h>

uint32_t partitioner_murmur2(struct slice key)
{
    const uint32_t seed = 0x9747b28c;
    const uint32_t m = 0x5bd1e995;
    uint32_t h = seed ^ (uint32_t)key.size;
    const uint8_t *data = key.data;
    size_t left = key.size;
    for (; left >= 4; left -= 4, data += 4) {
        uint32_t k = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                     (uint32_t)data[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h = (h * m) ^ k;
    }
    for (size_t i = 0; i < left; i++) {
        h ^= (uint32_t)data[i] << (8 * i);
    }
    if (left > 0) {
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ (h >> 15);
}

int32_t partitioner_of_key(struct slice key, int32_t count)
{
    assert(count > 0);
    /* The sign bit is cleared, not the absolute value taken: what Java calls toPositive. */
    return (int32_t)(partitioner_murmur2(key) & INT32_MAX) % count;
}
