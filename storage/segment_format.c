#include "storage/segment_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"

enum {
    SEGMENT_VERSION = 1,
    RECORD_VERSION = 1,
    NAME_DIGITS = 20,
};

static const uint8_t MAGIC[8] = {'C', 'F', 'L', 'O', 'G', 'S', 'E', 'G'};

static uint32_t header_crc_of(const struct segment_header *h)
{
    struct segment_header copy = *h;
    copy.crc = 0;
    return crc32c(&copy, sizeof(copy));
}

void segment_header_encode(struct segment_header *h, uint8_t *block)
{
    assert(h->salt != 0);
    assert(h->base.index != 0);
    memcpy(h->magic, MAGIC, sizeof(MAGIC));
    h->version = SEGMENT_VERSION;
    memset(h->reserved, 0, sizeof(h->reserved));
    h->crc = header_crc_of(h);
    memset(block, 0, SEGMENT_HEADER_SIZE);
    memcpy(block, h, sizeof(*h));
}

enum err segment_header_decode(const uint8_t *block, struct segment_header *ret_header)
{
    struct segment_header h;
    memcpy(&h, block, sizeof(h));
    if (memcmp(h.magic, MAGIC, sizeof(MAGIC)) != 0) {
        return ERR_CORRUPT;
    }
    if (h.crc != header_crc_of(&h)) {
        return ERR_CORRUPT;
    }
    if (h.version != SEGMENT_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    *ret_header = h;
    return ERR_OK;
}

/* Store values are checksummed by the store; only size and version are ours to check. */
static enum err decode(struct slice value, void *record, size_t size)
{
    uint32_t version;
    if (value.size < sizeof(version)) {
        return ERR_CORRUPT;
    }
    memcpy(&version, value.data, sizeof(version));
    if (version != RECORD_VERSION) {
        return version > RECORD_VERSION ? ERR_NEWER_FORMAT : ERR_CORRUPT;
    }
    if (value.size != size) {
        return ERR_CORRUPT;
    }
    memcpy(record, value.data, size);
    return ERR_OK;
}

struct slice segment_record_encode(struct segment_record *r)
{
    r->version = RECORD_VERSION;
    return slice_of(r, sizeof(*r));
}

enum err segment_record_decode(struct slice value, struct segment_record *ret_record)
{
    return decode(value, ret_record, sizeof(*ret_record));
}

struct slice cut_record_encode(struct cut_record *r)
{
    r->version = RECORD_VERSION;
    return slice_of(r, sizeof(*r));
}

enum err cut_record_decode(struct slice value, struct cut_record *ret_record)
{
    return decode(value, ret_record, sizeof(*ret_record));
}

struct slice durable_record_encode(struct durable_record *r)
{
    r->version = RECORD_VERSION;
    return slice_of(r, sizeof(*r));
}

enum err durable_record_decode(struct slice value, struct durable_record *ret_record)
{
    return decode(value, ret_record, sizeof(*ret_record));
}

void segment_name_format(uint64_t base_index, const char *suffix, char ret_name[SEGMENT_NAME_SIZE])
{
    int size = snprintf(ret_name, SEGMENT_NAME_SIZE, "%020" PRIu64 "%s", base_index, suffix);
    assert_cmp(size, <, SEGMENT_NAME_SIZE);
}

bool segment_name_parse(const char *name, const char *suffix, uint64_t *ret_base_index)
{
    if (strlen(name) != NAME_DIGITS + strlen(suffix) || strcmp(name + NAME_DIGITS, suffix) != 0) {
        return false;
    }
    uint64_t base_index = 0;
    for (int i = 0; i < NAME_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
        if (__builtin_mul_overflow(base_index, 10u, &base_index) ||
            __builtin_add_overflow(base_index, (uint64_t)(name[i] - '0'), &base_index)) {
            return false;
        }
    }
    *ret_base_index = base_index;
    return true;
}
