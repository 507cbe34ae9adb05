/* Makes right what a fuzzer would not guess: lengths and checksums, so that what stands behind them
 * is reached.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/crc32c.h"
#include "storage/batch.h"

enum {
    SEAL_LENGTH_POS = 8,
    SEAL_CRC_POS = 17,
    SEAL_CRC_START = 21,
};

/* Length and checksum of what begins as a record batch and is size bytes long. Too short for one:
 * nothing. */
static inline void seal_batch(uint8_t *bytes, size_t size)
{
    if (size < BATCH_HEADER_SIZE) {
        return;
    }
    const uint32_t length = (uint32_t)size - BATCH_LENGTH_OVERHEAD;
    const uint32_t crc = crc32c(bytes + SEAL_CRC_START, size - SEAL_CRC_START);
    for (size_t i = 0; i < sizeof(crc); i++) {
        bytes[SEAL_LENGTH_POS + i] = (uint8_t)(length >> (24 - 8 * i));
        bytes[SEAL_CRC_POS + i] = (uint8_t)(crc >> (24 - 8 * i));
    }
}
