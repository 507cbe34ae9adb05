#include "core/crc32c.h"

#include <isa-l/crc.h>

enum {
    /* crc32_iscsi takes the size as int. */
    CRC_PART_SIZE_MAX = 1 << 30,
};

uint32_t crc32c(const void *data, size_t size)
{
    return crc32c_extend(0, data, size);
}

/* crc32_iscsi works on the raw register: the standard's inversion before and after is ours. */
uint32_t crc32c_extend(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *cursor = data;
    uint32_t state = ~crc;
    while (size > 0) {
        size_t part = size < CRC_PART_SIZE_MAX ? size : CRC_PART_SIZE_MAX;
        /* The library does not write; its prototype merely forgets to say so. */
        state = crc32_iscsi((unsigned char *)(uintptr_t)cursor, (int)part, state);
        cursor += part;
        size -= part;
    }
    return ~state;
}
