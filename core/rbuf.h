/* Cursor over received bytes, with sticky failure: after the first bad read every further read
 * returns zero and rbuf_finish reports the error, so decoders read like the schema and check once.
 *
 * Big-endian unless the name says otherwise. Counts and lengths are capped by the bytes left, so a
 * hostile length never sizes a loop or an allocation.
 *
 * Shard: any; owns nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

struct rbuf {
    const uint8_t *cursor;
    const uint8_t *end;
    enum err failure; /* First failure, ERR_OK until then. */
};

/* The null value reads as empty; the cursor itself is never NULL. */
static inline struct rbuf rbuf_over(const void *data, size_t size)
{
    const uint8_t *start = data == NULL ? (const uint8_t *)"" : data;
    return (struct rbuf){.cursor = start, .end = start + size, .failure = ERR_OK};
}

static inline size_t rbuf_left(const struct rbuf *r)
{
    return (size_t)(r->end - r->cursor);
}

/* Marks the cursor failed (first failure wins) and empties it. */
void rbuf_fail(struct rbuf *r, enum err e);

/* ERR_OK only if nothing failed and nothing is left over. */
enum err rbuf_finish(const struct rbuf *r);

int8_t rbuf_i8(struct rbuf *r);
int16_t rbuf_i16(struct rbuf *r);
uint16_t rbuf_u16(struct rbuf *r);
int32_t rbuf_i32(struct rbuf *r);
uint32_t rbuf_u32(struct rbuf *r);
int64_t rbuf_i64(struct rbuf *r);
uint64_t rbuf_u64(struct rbuf *r);
double rbuf_f64(struct rbuf *r);
bool rbuf_bool(struct rbuf *r);
struct uuid rbuf_uuid(struct rbuf *r);

/* Not zigzag: compact lengths, tags. At most 5 bytes. */
uint32_t rbuf_uvarint(struct rbuf *r);
uint64_t rbuf_uvarlong(struct rbuf *r);
/* Zigzag: inside records. */
int32_t rbuf_varint(struct rbuf *r);
int64_t rbuf_varlong(struct rbuf *r);

/* The next size bytes as a view; fails with ERR_EOF if fewer are left. */
struct slice rbuf_bytes(struct rbuf *r, size_t size);
void rbuf_skip(struct rbuf *r, size_t size);
