#include "core/wbuf.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    WBUF_CAPACITY_MIN = 256,
};

void wbuf_init(struct wbuf *w, size_t size_max)
{
    *w = (struct wbuf){.size_max = size_max};
}

void wbuf_init_fixed(struct wbuf *w, void *data, size_t capacity)
{
    *w = (struct wbuf){.data = data, .capacity = capacity, .size_max = capacity, .is_fixed = true};
}

void wbuf_done(struct wbuf *w)
{
    if (!w->is_fixed) {
        free(w->data);
    }
    *w = (struct wbuf){0};
}

uint8_t *wbuf_take(struct wbuf *w, size_t *ret_size)
{
    assert(!w->is_fixed);
    uint8_t *data = w->data;
    *ret_size = w->size;
    wbuf_init(w, w->size_max);
    return data;
}

static enum err grow(struct wbuf *w, size_t size_needed)
{
    assert_cmp(size_needed, >, w->capacity);
    if (w->is_fixed) {
        return ERR_TOO_LARGE;
    }
    size_t capacity = w->capacity < WBUF_CAPACITY_MIN ? WBUF_CAPACITY_MIN : w->capacity;
    while (capacity < size_needed) {
        capacity *= 2;
    }
    if (capacity > w->size_max) {
        capacity = w->size_max;
    }
    uint8_t *data = realloc(w->data, capacity);
    if (data == NULL) {
        return ERR_BUSY;
    }
    w->data = data;
    w->capacity = capacity;
    return ERR_OK;
}

void wbuf_shrink(struct wbuf *w)
{
    if (w->is_fixed || w->size == 0 || w->size == w->capacity) {
        return;
    }
    uint8_t *data = realloc(w->data, w->size);
    if (data != NULL) { /* Else it stays as it is. */
        w->data = data;
        w->capacity = w->size;
    }
}

static bool make_room(struct wbuf *w, size_t size)
{
    if (w->failure != ERR_OK) {
        return false;
    }
    w->failure = size > w->size_max - w->size ? ERR_TOO_LARGE : grow(w, w->size + size);
    return w->failure == ERR_OK;
}

static inline bool has_room(const struct wbuf *w, size_t size)
{
    return w->failure == ERR_OK && size <= w->capacity - w->size;
}

uint8_t *wbuf_extend(struct wbuf *w, size_t size)
{
    if (!has_room(w, size) && !make_room(w, size)) {
        return NULL;
    }
    w->size += size;
    return w->size == 0 ? w->data : w->data + w->size - size; /* Which may be without memory. */
}

/* The low size bytes of v. */
static inline void store_big_endian(uint8_t *at, uint64_t v, size_t size)
{
    const uint64_t bytes = htobe64(v << (64 - 8 * size));
    memcpy(at, &bytes, size);
}

static __attribute__((noinline)) void make_room_and_put(struct wbuf *w, uint64_t v, size_t size)
{
    uint8_t *at = wbuf_extend(w, size);
    if (at != NULL) {
        store_big_endian(at, v, size);
    }
}

/* What is seldom is a call apart, so that the rest is a dozen instructions: an answer of a hundred
 * partitions comes here a thousand times. */
static inline void put_big_endian(struct wbuf *w, uint64_t v, size_t size)
{
    if (!has_room(w, size)) {
        make_room_and_put(w, v, size);
        return;
    }
    store_big_endian(w->data + w->size, v, size);
    w->size += size;
}

void wbuf_i8(struct wbuf *w, int8_t v)
{
    put_big_endian(w, (uint64_t)v, 1);
}

void wbuf_i16(struct wbuf *w, int16_t v)
{
    put_big_endian(w, (uint64_t)v, 2);
}

void wbuf_u16(struct wbuf *w, uint16_t v)
{
    put_big_endian(w, v, 2);
}

void wbuf_i32(struct wbuf *w, int32_t v)
{
    put_big_endian(w, (uint64_t)v, 4);
}

void wbuf_u32(struct wbuf *w, uint32_t v)
{
    put_big_endian(w, v, 4);
}

void wbuf_i64(struct wbuf *w, int64_t v)
{
    put_big_endian(w, (uint64_t)v, 8);
}

void wbuf_u64(struct wbuf *w, uint64_t v)
{
    put_big_endian(w, v, 8);
}

void wbuf_f64(struct wbuf *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    put_big_endian(w, bits, 8);
}

void wbuf_bool(struct wbuf *w, bool v)
{
    put_big_endian(w, v ? 1 : 0, 1);
}

void wbuf_uuid(struct wbuf *w, const struct uuid *v)
{
    wbuf_bytes(w, v->bytes, sizeof(v->bytes));
}

void wbuf_uvarint(struct wbuf *w, uint32_t v)
{
    wbuf_uvarlong(w, v);
}

void wbuf_uvarlong(struct wbuf *w, uint64_t v)
{
    if (v < 0x80) { /* Nearly all are lengths of names and numbers of a few items. */
        put_big_endian(w, v, 1);
        return;
    }
    uint8_t bytes[10];
    size_t size = 0;
    while (v >= 0x80) {
        bytes[size++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[size++] = (uint8_t)v;
    wbuf_bytes(w, bytes, size);
}

void wbuf_varint(struct wbuf *w, int32_t v)
{
    wbuf_uvarint(w, (uint32_t)v << 1 ^ (v < 0 ? UINT32_MAX : 0));
}

void wbuf_varlong(struct wbuf *w, int64_t v)
{
    wbuf_uvarlong(w, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

void wbuf_bytes(struct wbuf *w, const void *data, size_t size)
{
    uint8_t *at = wbuf_extend(w, size);
    if (at != NULL && size > 0) {
        memcpy(at, data, size);
    }
}

size_t wbuf_reserve(struct wbuf *w, size_t size)
{
    size_t pos = w->size;
    uint8_t *at = wbuf_extend(w, size);
    if (at != NULL && size > 0) {
        memset(at, 0, size);
    }
    return pos;
}

void wbuf_patch_i32(struct wbuf *w, size_t pos, int32_t v)
{
    wbuf_patch_u32(w, pos, (uint32_t)v);
}

void wbuf_patch_u32(struct wbuf *w, size_t pos, uint32_t v)
{
    if (w->failure != ERR_OK) {
        return; /* The reservation itself may be what failed. */
    }
    assert_cmp(pos, <=, w->size);
    assert_cmp(w->size - pos, >=, sizeof(v));
    store_big_endian(w->data + pos, v, sizeof(v));
}

size_t uvarint_size(uint32_t v)
{
    size_t size = 1;
    while (v >= 0x80) {
        v >>= 7;
        size++;
    }
    return size;
}
