/* Writer into a growing byte buffer, big-endian. Failure is sticky as in rbuf.h: at size_max, or
 * when memory is out, further writes are ignored and wbuf_failure reports it.
 *
 * Memory comes from malloc and is owned by the wbuf until wbuf_take. Starts without any.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

struct wbuf {
    uint8_t *data;
    size_t size;     /* Bytes written. */
    size_t capacity; /* Bytes allocated. */
    size_t size_max;
    enum err failure; /* First failure, ERR_OK until then. */
    bool is_fixed;    /* The memory is the caller's. */
};

void wbuf_init(struct wbuf *w, size_t size_max);
/* A buffer over caller's fixed memory; never reallocates, fails when full. */
void wbuf_init_fixed(struct wbuf *w, void *data, size_t capacity);
void wbuf_done(struct wbuf *w);

/* Hands the memory over (free() it); the wbuf is empty afterwards. Not for fixed ones. */
uint8_t *wbuf_take(struct wbuf *w, size_t *ret_size);

static inline enum err wbuf_failure(const struct wbuf *w)
{
    return w->failure;
}

static inline struct slice wbuf_slice(const struct wbuf *w)
{
    return slice_of(w->data, w->size);
}

void wbuf_i8(struct wbuf *w, int8_t v);
void wbuf_i16(struct wbuf *w, int16_t v);
void wbuf_u16(struct wbuf *w, uint16_t v);
void wbuf_i32(struct wbuf *w, int32_t v);
void wbuf_u32(struct wbuf *w, uint32_t v);
void wbuf_i64(struct wbuf *w, int64_t v);
void wbuf_u64(struct wbuf *w, uint64_t v);
void wbuf_f64(struct wbuf *w, double v);
void wbuf_bool(struct wbuf *w, bool v);
void wbuf_uuid(struct wbuf *w, const struct uuid *v);
void wbuf_uvarint(struct wbuf *w, uint32_t v);
void wbuf_uvarlong(struct wbuf *w, uint64_t v);
void wbuf_varint(struct wbuf *w, int32_t v);
void wbuf_varlong(struct wbuf *w, int64_t v);
void wbuf_bytes(struct wbuf *w, const void *data, size_t size);

/* Appends size bytes that the caller writes before the next call; NULL, and the writer failed, if
 * they do not fit. To give back the last n of them: w->size -= n. */
uint8_t *wbuf_extend(struct wbuf *w, size_t size);

/* Gives back the memory that is not used, for a writer that is kept for long. */
void wbuf_shrink(struct wbuf *w);

/* Reserves size zero bytes to be patched later and returns their position. */
size_t wbuf_reserve(struct wbuf *w, size_t size);
void wbuf_patch_i32(struct wbuf *w, size_t pos, int32_t v);
void wbuf_patch_u32(struct wbuf *w, size_t pos, uint32_t v);

/* Bytes an unsigned varint takes. */
size_t uvarint_size(uint32_t v);
