#include "core/rbuf.h"

#include <endian.h>
#include <string.h>

#include "core/assert.h"

enum {
    VARINT_SIZE_MAX = 5,
    VARLONG_SIZE_MAX = 10,
};

void rbuf_fail(struct rbuf *r, enum err e)
{
    assert(e != ERR_OK);
    if (r->failure == ERR_OK) {
        r->failure = e;
    }
    r->cursor = r->end;
}

enum err rbuf_finish(const struct rbuf *r)
{
    if (r->failure != ERR_OK) {
        return r->failure;
    }
    return r->cursor == r->end ? ERR_OK : ERR_CORRUPT;
}

/* NULL, and the cursor failed, if fewer than size bytes are left. */
static inline const uint8_t *take(struct rbuf *r, size_t size)
{
    /* A cursor that failed has nothing left, so only who wants nothing has to look. */
    if (size == 0 && r->failure != ERR_OK) {
        return NULL;
    }
    if (rbuf_left(r) < size) {
        rbuf_fail(r, ERR_EOF); /* The first failure stays. */
        return NULL;
    }
    const uint8_t *at = r->cursor;
    r->cursor += size;
    return at;
}

static inline uint64_t take_big_endian(struct rbuf *r, size_t size)
{
    const uint8_t *at = take(r, size);
    if (at == NULL) {
        return 0;
    }
    uint64_t v = 0;
    memcpy(&v, at, size);
    return be64toh(v) >> (64 - 8 * size);
}

int8_t rbuf_i8(struct rbuf *r)
{
    return (int8_t)take_big_endian(r, 1);
}

int16_t rbuf_i16(struct rbuf *r)
{
    return (int16_t)take_big_endian(r, 2);
}

uint16_t rbuf_u16(struct rbuf *r)
{
    return (uint16_t)take_big_endian(r, 2);
}

int32_t rbuf_i32(struct rbuf *r)
{
    return (int32_t)take_big_endian(r, 4);
}

uint32_t rbuf_u32(struct rbuf *r)
{
    return (uint32_t)take_big_endian(r, 4);
}

int64_t rbuf_i64(struct rbuf *r)
{
    return (int64_t)take_big_endian(r, 8);
}

uint64_t rbuf_u64(struct rbuf *r)
{
    return take_big_endian(r, 8);
}

double rbuf_f64(struct rbuf *r)
{
    uint64_t bits = take_big_endian(r, 8);
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

bool rbuf_bool(struct rbuf *r)
{
    /* Kafka: any byte but zero means true. */
    return take_big_endian(r, 1) != 0;
}

struct uuid rbuf_uuid(struct rbuf *r)
{
    struct uuid u = {0};
    const uint8_t *at = take(r, sizeof(u.bytes));
    if (at != NULL) {
        memcpy(u.bytes, at, sizeof(u.bytes));
    }
    return u;
}

/* Seven bits per byte, least significant first. Bits that do not fit are corruption, not silence.
 */
static uint64_t take_varint(struct rbuf *r, int size_max, int bits_max)
{
    uint64_t v = 0;
    for (int i = 0; i < size_max; i++) {
        const uint8_t *at = take(r, 1);
        if (at == NULL) {
            return 0;
        }
        int shift = 7 * i;
        uint64_t part = *at & 0x7f;
        if (bits_max - shift < 7 && part >> (bits_max - shift) != 0) {
            break;
        }
        v |= part << shift;
        if ((*at & 0x80) == 0) {
            return v;
        }
    }
    rbuf_fail(r, ERR_CORRUPT);
    return 0;
}

uint32_t rbuf_uvarint(struct rbuf *r)
{
    return (uint32_t)take_varint(r, VARINT_SIZE_MAX, 32);
}

uint64_t rbuf_uvarlong(struct rbuf *r)
{
    return take_varint(r, VARLONG_SIZE_MAX, 64);
}

int32_t rbuf_varint(struct rbuf *r)
{
    uint32_t v = rbuf_uvarint(r);
    return (int32_t)(v >> 1 ^ (0u - (v & 1)));
}

int64_t rbuf_varlong(struct rbuf *r)
{
    uint64_t v = rbuf_uvarlong(r);
    return (int64_t)(v >> 1 ^ (0ull - (v & 1)));
}

struct slice rbuf_bytes(struct rbuf *r, size_t size)
{
    const uint8_t *at = take(r, size);
    return at == NULL ? (struct slice){0} : slice_of(at, size);
}

void rbuf_skip(struct rbuf *r, size_t size)
{
    (void)take(r, size);
}
