/* CRC-32C (Castagnoli), as in RFC 3720 and Kafka's batches. ISA-L underneath, which picks the
 * fastest form the processor has and falls back to plain C.
 *
 * Shard: any; pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t size);

/* Continues a checksum: crc32c_extend(crc32c(a), b) == crc32c(a then b). */
uint32_t crc32c_extend(uint32_t crc, const void *data, size_t size);
