#include "storage/entry.h"

#include <isa-l/crc64.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/batch.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "structs are the on-disk layout");
static_assert((int)ENTRY_HEAD_SIZE == (int)BATCH_HEAD_SIZE, "what Kafka's CRC leaves out");

enum {
    ENTRY_VERSION = 1,
    LOG_START_VERSION = 1,
};

static uint64_t crc64(uint64_t seed, const void *data, size_t size)
{
    return crc64_ecma_refl(seed, data, size);
}

uint64_t entry_id_of(const struct entry_header *h, const uint8_t *covered)
{
    const uint64_t fields[] = {
        h->type,
        h->index,
        h->term,
        (uint64_t)h->base_offset,
        (uint64_t)h->next_offset,
        h->payload_size,
    };
    uint64_t id = crc64(0, fields, sizeof(fields));
    return crc64(id, covered, entry_covered_size(h->type, h->payload_size));
}

static uint32_t header_crc_of(const struct entry_header *h, const uint8_t *payload)
{
    const size_t skip = offsetof(struct entry_header, payload_size);
    uint32_t crc = crc32c((const uint8_t *)h + skip, sizeof(*h) - skip);
    return crc32c_extend(crc, payload, entry_covered_size(h->type, h->payload_size));
}

void entry_seal(struct entry_header *h, uint8_t *out)
{
    assert(h->salt != 0); /* A header must never look like zeros. */
    assert(h->index != 0);
    assert(h->type != ENTRY_NONE);
    assert(h->type == ENTRY_GAP || h->span == 0);
    h->version = ENTRY_VERSION;
    h->header_crc = header_crc_of(h, out + sizeof(*h));
    memcpy(out, h, sizeof(*h));
}

void entry_log_start_encode(int64_t start_offset, struct entry_log_start *ret_payload)
{
    *ret_payload = (struct entry_log_start){.version = LOG_START_VERSION, .offset = start_offset};
}

enum err
entry_log_start_decode(struct slice payload, int64_t base_offset, int64_t *ret_start_offset)
{
    struct entry_log_start start;
    if (payload.size < sizeof(start)) {
        return ERR_CORRUPT;
    }
    memcpy(&start, payload.data, sizeof(start));
    if (start.version > LOG_START_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    if (payload.size != sizeof(start) || start.version != LOG_START_VERSION ||
        start.reserved != 0 || start.offset < 0 || start.offset > base_offset) {
        return ERR_CORRUPT;
    }
    *ret_start_offset = start.offset;
    return ERR_OK;
}

const char *entry_fault_name(enum entry_fault f)
{
    static const char *const names[ENTRY_FAULT_COUNT] = {
        [ENTRY_GOOD] = "good",
        [ENTRY_FAULT_ZERO] = "zero",
        [ENTRY_FAULT_SALT] = "salt",
        [ENTRY_FAULT_HEADER] = "header",
        [ENTRY_FAULT_GENERATION] = "generation",
        [ENTRY_FAULT_ORDER] = "order",
        [ENTRY_FAULT_PAYLOAD] = "payload",
    };
    assert((unsigned)f < ENTRY_FAULT_COUNT);
    return names[f];
}

static bool is_zero(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

static bool has_sound_span(const struct entry_header *h)
{
    return h->type == ENTRY_GAP ? h->payload_size == 0 : h->span == 0;
}

enum entry_fault entry_check_fields(const struct entry_header *h, uint64_t salt)
{
    if (h->salt != salt) {
        return is_zero(h, sizeof(*h)) ? ENTRY_FAULT_ZERO : ENTRY_FAULT_SALT;
    }
    bool is_sound = h->version == ENTRY_VERSION && has_sound_span(h) && h->flags == 0 &&
                    h->type != ENTRY_NONE && h->type < ENTRY_TYPE_COUNT && h->index != 0 &&
                    h->index <= ENTRY_INDEX_MAX - h->span &&
                    h->payload_size <= ENTRY_PAYLOAD_SIZE_MAX && h->base_offset >= 0 &&
                    h->next_offset >= h->base_offset && h->durable_index < h->index;
    return is_sound ? ENTRY_GOOD : ENTRY_FAULT_HEADER;
}

bool entry_crc_matches(const struct entry_header *h, const uint8_t *payload)
{
    return h->header_crc == header_crc_of(h, payload);
}

bool entry_payload_matches(const struct entry_header *h, struct slice payload)
{
    assert_cmp(payload.size, ==, h->payload_size);
    if (h->type != ENTRY_DATA) {
        return true;
    }
    struct batch_header batch;
    if (batch_header_decode(payload, &batch) != ERR_OK) {
        return false;
    }
    return batch_size(&batch) == payload.size && batch.base_offset == h->base_offset &&
           batch.base_offset + batch.last_offset_delta + 1 == h->next_offset &&
           batch_crc_matches(payload);
}
