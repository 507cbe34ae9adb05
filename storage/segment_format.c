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
    VERSION_DIGITS = 10,
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

struct slice clean_record_encode(struct clean_record *r)
{
    r->version = RECORD_VERSION;
    return slice_of(r, sizeof(*r));
}

enum err clean_record_decode(struct slice value, struct clean_record *ret_record)
{
    return decode(value, ret_record, sizeof(*ret_record));
}

struct slice hole_record_encode(struct hole_record *r)
{
    r->version = RECORD_VERSION;
    return slice_of(r, sizeof(*r));
}

enum err hole_record_decode(struct slice value, struct hole_record *ret_record)
{
    return decode(value, ret_record, sizeof(*ret_record));
}

void segment_name_format(const struct segment_name *n,
                         const char *suffix,
                         char ret_name[SEGMENT_NAME_SIZE])
{
    char version[16] = "";
    if (n->version > 0) {
        (void)snprintf(version, sizeof(version), "-%" PRIu32, n->version);
    }
    int size =
        snprintf(ret_name, SEGMENT_NAME_SIZE, "%020" PRIu64 "%s%s", n->base_index, version, suffix);
    assert_cmp(size, <, SEGMENT_NAME_SIZE);
}

/* Takes digits off *text; false if there are none, or they are too large a number. */
static bool take_digits(const char **text, size_t size_max, uint64_t *ret_number)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < size_max && (*text)[i] >= '0' && (*text)[i] <= '9'; i++) {
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)((*text)[i] - '0'), &number)) {
            return false;
        }
    }
    *text += i;
    *ret_number = number;
    return i > 0;
}

bool segment_name_parse(const char *text, const char *suffix, struct segment_name *ret_name)
{
    uint64_t base_index;
    uint64_t version = 0;
    const char *rest = text;
    if (!take_digits(&rest, NAME_DIGITS, &base_index) || rest != text + NAME_DIGITS) {
        return false;
    }
    if (*rest == '-') {
        rest++;
        /* One spelling per name: what is parsed is formatted to the same text again. */
        bool is_version = *rest != '0' && take_digits(&rest, VERSION_DIGITS, &version);
        if (!is_version || version > UINT32_MAX) {
            return false;
        }
    }
    if (strcmp(rest, suffix) != 0) {
        return false;
    }
    *ret_name = (struct segment_name){.base_index = base_index, .version = (uint32_t)version};
    return true;
}
