/* What the generated codecs are made of: the value encodings of the Kafka protocol on top of rbuf
 * and wbuf. Only generated code and header.c use it; everybody else includes <api>.h.
 *
 * Rules
 * 1. Failure is sticky, as in rbuf.h and wbuf.h: nothing here returns an error, the generated
 * decoder asks once at the end.
 * 2. An element count is refused unless that many elements of the smallest size fit into the bytes
 *    left, so memory taken for a frame is bounded by its size times WIRE_EXPANSION_MAX (and what
 *    alignment adds), and the arena's limit bounds it absolutely.
 * 3. Null is NULL: a slice or array without data. Empty is a pointer to nothing with size 0. A
 *    non-nullable array may be written from NULL (it is empty); a non-nullable string may not.
 *
 * Shard: any; owns nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/rbuf.h"
#include "core/wbuf.h"

enum {
    WIRE_STRING_SIZE_MAX = INT16_MAX, /* Also of compact strings, as in Kafka. */
    WIRE_EXPANSION_MAX = 24, /* Memory for an array item per byte it takes on the wire, at most. */
};

/* Bytes that were left out of the output, to be sent by reference between data[pos - 1] and
 * data[pos] of the wbuf. Positions ascend. */
struct wire_ref {
    size_t pos;
    struct slice bytes;
};

struct wire_refs {
    struct wire_ref *refs; /* Caller's array. */
    size_t refs_count;
    size_t refs_count_max;
    size_t size; /* Sum of all bytes left out. */
};

struct wire_reader {
    struct rbuf *in;
    struct arena *arena;
    int16_t version;
    bool is_flexible;
};

struct wire_writer {
    struct wbuf *out;
    struct wire_refs *refs; /* NULL: copy record bytes into out. */
    int16_t version;
    bool is_flexible;
};

/* An array of the wire; items is NULL for null. */
struct wire_array {
    void *items;
    size_t count;
};

/* Walks one tagged section; see wire_next_tag. */
struct wire_tags {
    uint32_t left;      /* Fields not seen yet. */
    int64_t tag;        /* Of the current field; -1 before the first. */
    const uint8_t *end; /* Of the enclosing cursor while a field is open, else NULL. */
};

/* The empty, non-null value of strings and bytes. */
static inline struct slice wire_empty(void)
{
    return slice_of("", 0);
}

/* The empty, non-null array; never dereferenced. */
void *wire_empty_array(void);

static inline bool wire_is_ok(const struct wire_reader *r)
{
    return r->in->failure == ERR_OK;
}

struct slice wire_read_string(struct wire_reader *r, bool is_nullable);
/* Of compact ones also larger than that: for values that are answered with an error of their own.
 */
struct slice wire_read_long_string(struct wire_reader *r, bool is_nullable);
struct slice wire_read_bytes(struct wire_reader *r, bool is_nullable);

/* Reads a count and takes zeroed memory for that many items of item_size. wire_size_min: the
 * fewest bytes an item can take on the wire, at least 1. */
struct wire_array
wire_read_array(struct wire_reader *r, bool is_nullable, size_t item_size, size_t wire_size_min);

/* Reads the marker of a nullable struct; memory for it, or NULL for null (and after failure). */
void *wire_read_nullable(struct wire_reader *r, size_t size);

/* Likewise in a tagged field, where the marker is another. */
void *wire_read_tagged_nullable(struct wire_reader *r, size_t size);

/* Starts a tagged section. */
struct wire_tags wire_read_tags(struct wire_reader *r);

/* Closes the current field, which must have been consumed, and opens the next: until the next call
 * the cursor ends where the field does. False at the end or after failure. */
bool wire_next_tag(struct wire_reader *r, struct wire_tags *tags);

/* Passes over the current field. */
void wire_skip_tag(struct wire_reader *r);

/* Passes over a whole tagged section with no known field. */
void wire_skip_tags(struct wire_reader *r);

void wire_write_string(struct wire_writer *w, struct slice v, bool is_nullable);
void wire_write_long_string(struct wire_writer *w, struct slice v, bool is_nullable);
void wire_write_bytes(struct wire_writer *w, struct slice v, bool is_nullable);

/* As bytes; left out and noted if the writer collects references. */
void wire_write_records(struct wire_writer *w, struct slice v, bool is_nullable);

/* The count of an array; the items are up to the caller. False: nothing follows (null or failed).
 */
bool wire_write_count(struct wire_writer *w, const void *items, size_t count, bool is_nullable);

/* The marker of a nullable struct; true if the struct follows. */
bool wire_write_nullable(struct wire_writer *w, const void *v);
bool wire_write_tagged_nullable(struct wire_writer *w, const void *v);

/* A tagged field: begin, the value, end with what begin returned. */
size_t wire_begin_tag(struct wire_writer *w, uint32_t tag);
void wire_end_tag(struct wire_writer *w, size_t pos);

/* The value cannot be expressed in this version, and dropping it would change the meaning: the
 * output fails with ERR_INVALID. */
void wire_refuse(struct wire_writer *w);
