#include "kafka/proto/wire.h"

#include <string.h>

#include "core/assert.h"

enum {
    LENGTH_NULL = -1, /* How a length or count says null, once decoded. */
};

void *wire_empty_array(void)
{
    /* One object for all: only its address counts. */
    static const max_align_t nothing;
    return (void *)(uintptr_t)&nothing;
}

/* A length or count: -1 is null, anything below is damage. Compact ones are stored plus one. */
static int64_t read_length(struct wire_reader *r, bool is_short)
{
    if (r->is_flexible) {
        return (int64_t)rbuf_uvarint(r->in) - 1;
    }
    return is_short ? rbuf_i16(r->in) : rbuf_i32(r->in);
}

static struct slice read_sized(struct wire_reader *r, bool is_string, bool is_nullable)
{
    const int64_t size = read_length(r, is_string);
    if (!wire_is_ok(r)) {
        return (struct slice){0};
    }
    if (size == LENGTH_NULL && is_nullable) {
        return (struct slice){0};
    }
    if (size < 0 || (is_string && size > WIRE_STRING_SIZE_MAX)) {
        rbuf_fail(r->in, ERR_CORRUPT);
        return (struct slice){0};
    }
    return rbuf_bytes(r->in, (size_t)size);
}

struct slice wire_read_string(struct wire_reader *r, bool is_nullable)
{
    return read_sized(r, true, is_nullable);
}

struct slice wire_read_long_string(struct wire_reader *r, bool is_nullable)
{
    return read_sized(r, !r->is_flexible, is_nullable);
}

struct slice wire_read_bytes(struct wire_reader *r, bool is_nullable)
{
    return read_sized(r, false, is_nullable);
}

struct wire_array
wire_read_array(struct wire_reader *r, bool is_nullable, size_t item_size, size_t wire_size_min)
{
    assert(wire_size_min > 0);
    const struct wire_array null = {0};
    const int64_t count = read_length(r, false);
    if (!wire_is_ok(r)) {
        return null;
    }
    if (count == LENGTH_NULL && is_nullable) {
        return null;
    }
    if (count < 0) {
        rbuf_fail(r->in, ERR_CORRUPT);
        return null;
    }
    if ((uint64_t)count > rbuf_left(r->in) / wire_size_min) {
        rbuf_fail(r->in, ERR_EOF);
        return null;
    }
    if (count == 0) {
        return (struct wire_array){.items = wire_empty_array()};
    }
    void *items = arena_alloc_array(r->arena, (size_t)count, item_size);
    if (items == NULL) {
        rbuf_fail(r->in, ERR_TOO_LARGE);
        return null;
    }
    return (struct wire_array){.items = items, .count = (size_t)count};
}

static void *read_present(struct wire_reader *r, bool is_present, size_t size)
{
    if (!wire_is_ok(r) || !is_present) {
        return NULL;
    }
    void *item = arena_alloc(r->arena, size);
    if (item == NULL) {
        rbuf_fail(r->in, ERR_TOO_LARGE);
    }
    return item;
}

void *wire_read_nullable(struct wire_reader *r, size_t size)
{
    const int8_t marker = rbuf_i8(r->in);
    return read_present(r, marker >= 0, size);
}

void *wire_read_tagged_nullable(struct wire_reader *r, size_t size)
{
    const uint32_t marker = rbuf_uvarint(r->in);
    return read_present(r, marker != 0, size);
}

struct wire_tags wire_read_tags(struct wire_reader *r)
{
    return (struct wire_tags){.left = rbuf_uvarint(r->in), .tag = -1};
}

bool wire_next_tag(struct wire_reader *r, struct wire_tags *tags)
{
    if (tags->end != NULL && wire_is_ok(r)) {
        if (rbuf_left(r->in) > 0) {
            rbuf_fail(r->in, ERR_CORRUPT);
        } else {
            r->in->end = tags->end;
        }
    }
    tags->end = NULL;
    if (tags->left == 0 || !wire_is_ok(r)) {
        return false;
    }
    tags->left--;
    const uint32_t tag = rbuf_uvarint(r->in);
    const uint32_t size = rbuf_uvarint(r->in);
    if (!wire_is_ok(r)) {
        return false;
    }
    if (tag <= tags->tag) {
        rbuf_fail(r->in, ERR_CORRUPT);
        return false;
    }
    if (size > rbuf_left(r->in)) {
        rbuf_fail(r->in, ERR_EOF);
        return false;
    }
    tags->tag = tag;
    tags->end = r->in->end;
    r->in->end = r->in->cursor + size;
    return true;
}

void wire_skip_tag(struct wire_reader *r)
{
    rbuf_skip(r->in, rbuf_left(r->in));
}

void wire_skip_tags(struct wire_reader *r)
{
    struct wire_tags tags = wire_read_tags(r);
    while (wire_next_tag(r, &tags)) {
        wire_skip_tag(r);
    }
}

static void fail(struct wire_writer *w, enum err e)
{
    if (w->out->failure == ERR_OK) {
        w->out->failure = e;
    }
}

void wire_refuse(struct wire_writer *w)
{
    fail(w, ERR_INVALID);
}

static void write_length(struct wire_writer *w, int64_t length, bool is_short)
{
    assert_cmp(length, >=, LENGTH_NULL);
    assert_cmp(length, <=, INT32_MAX);
    if (w->is_flexible) {
        wbuf_uvarint(w->out, (uint32_t)(length + 1));
    } else if (is_short) {
        assert_cmp(length, <=, INT16_MAX);
        wbuf_i16(w->out, (int16_t)length);
    } else {
        wbuf_i32(w->out, (int32_t)length);
    }
}

/* Null, or a size within bounds: writes the length and returns true if bytes follow. */
static bool write_size(struct wire_writer *w, struct slice v, bool is_string, bool is_nullable)
{
    if (slice_is_null(v)) {
        if (is_nullable) {
            write_length(w, LENGTH_NULL, is_string);
        } else {
            wire_refuse(w);
        }
        return false;
    }
    if (v.size > (is_string ? WIRE_STRING_SIZE_MAX : INT32_MAX)) {
        wire_refuse(w);
        return false;
    }
    write_length(w, (int64_t)v.size, is_string);
    return v.size > 0;
}

void wire_write_string(struct wire_writer *w, struct slice v, bool is_nullable)
{
    if (write_size(w, v, true, is_nullable)) {
        wbuf_bytes(w->out, v.data, v.size);
    }
}

void wire_write_long_string(struct wire_writer *w, struct slice v, bool is_nullable)
{
    if (write_size(w, v, !w->is_flexible, is_nullable)) {
        wbuf_bytes(w->out, v.data, v.size);
    }
}

void wire_write_bytes(struct wire_writer *w, struct slice v, bool is_nullable)
{
    if (write_size(w, v, false, is_nullable)) {
        wbuf_bytes(w->out, v.data, v.size);
    }
}

void wire_write_records(struct wire_writer *w, struct slice v, bool is_nullable)
{
    if (!write_size(w, v, false, is_nullable)) {
        return;
    }
    if (w->refs == NULL) {
        wbuf_bytes(w->out, v.data, v.size);
        return;
    }
    if (w->refs->refs_count == w->refs->refs_count_max) {
        fail(w, ERR_TOO_LARGE);
        return;
    }
    w->refs->refs[w->refs->refs_count++] = (struct wire_ref){.pos = w->out->size, .bytes = v};
    w->refs->size += v.size;
}

bool wire_write_count(struct wire_writer *w, const void *items, size_t count, bool is_nullable)
{
    if (count > INT32_MAX) {
        wire_refuse(w);
        return false;
    }
    if (items == NULL) {
        assert_cmp(count, ==, 0);
        write_length(w, is_nullable ? LENGTH_NULL : 0, false);
        return false;
    }
    write_length(w, (int64_t)count, false);
    return wbuf_failure(w->out) == ERR_OK;
}

bool wire_write_nullable(struct wire_writer *w, const void *v)
{
    wbuf_i8(w->out, v == NULL ? -1 : 1);
    return v != NULL;
}

bool wire_write_tagged_nullable(struct wire_writer *w, const void *v)
{
    wbuf_uvarint(w->out, v == NULL ? 0 : 1);
    return v != NULL;
}

size_t wire_begin_tag(struct wire_writer *w, uint32_t tag)
{
    wbuf_uvarint(w->out, tag);
    /* Room for the size: one byte nearly always does; wire_end_tag makes more if it must. */
    return wbuf_reserve(w->out, 1);
}

void wire_end_tag(struct wire_writer *w, size_t pos)
{
    if (wbuf_failure(w->out) != ERR_OK) {
        return;
    }
    const size_t value_size = w->out->size - pos - 1;
    if (value_size > INT32_MAX) {
        wire_refuse(w);
        return;
    }
    const size_t more = uvarint_size((uint32_t)value_size) - 1;
    (void)wbuf_reserve(w->out, more);
    if (wbuf_failure(w->out) != ERR_OK) {
        return;
    }
    uint8_t *at = w->out->data + pos;
    memmove(at + 1 + more, at + 1, value_size);
    uint32_t rest = (uint32_t)value_size;
    for (; rest >= 0x80; rest >>= 7) {
        *at++ = (uint8_t)(rest | 0x80);
    }
    *at = (uint8_t)rest;
}
