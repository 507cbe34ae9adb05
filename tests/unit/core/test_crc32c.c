/* CRC-32C against published vectors and against a bit-by-bit model, at every alignment. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/rand.h"

static uint32_t model(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
        }
    }
    return ~crc;
}

/* RFC 3720, B.4, and the check value of the polynomial. */
Test(crc32c, vectors)
{
    uint8_t bytes[32];
    cr_assert(eq(u32, crc32c("123456789", 9), 0xe3069283));
    cr_assert(eq(u32, crc32c("", 0), 0));
    memset(bytes, 0, sizeof(bytes));
    cr_assert(eq(u32, crc32c(bytes, sizeof(bytes)), 0x8a9136aa));
    memset(bytes, 0xff, sizeof(bytes));
    cr_assert(eq(u32, crc32c(bytes, sizeof(bytes)), 0x62a8ab43));
    for (uint8_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = i;
    }
    cr_assert(eq(u32, crc32c(bytes, sizeof(bytes)), 0x46dd794e));
}

Test(crc32c, any_size_alignment_and_split_agrees_with_the_model)
{
    struct rand r;
    rand_init_seed(&r, 1);
    uint8_t data[1200];
    rand_bytes(&r, data, sizeof(data));
    for (size_t size = 0; size < 1100; size += 1 + size / 7) {
        size_t start = rand_below(&r, 64);
        size_t split = rand_below(&r, size + 1);
        uint32_t expected = model(data + start, size);
        cr_assert(eq(u32, crc32c(data + start, size), expected));
        uint32_t head = crc32c(data + start, split);
        cr_assert(eq(u32, crc32c_extend(head, data + start + split, size - split), expected));
    }
}
