/* Requests and responses of every API and version, and records of internal topics. The first byte
 * says what follows: 2, the key of a record; 3, an int16 type (-1 and below: data that travels as
 * bytes, in the table's order) and the value; else even, a request with its header; else odd, an
 * int16 key, an int16 version and the body of a response.
 *
 * What decodes must encode again, and from there on bytes and dump must stay the same; and decoding
 * must not take more memory than the frame implies (kafka/proto/README.md, rule 3).
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/header.h"
#include "kafka/proto/schema.h"

#include "tests/fuzz/fuzz.h"

enum {
    MESSAGE_SIZE_MAX = 16 << 20,
    ARENA_SIZE_MAX = 64 << 20,
    MEMORY_PER_BYTE_MAX = 32,
    MEMORY_FIXED_MAX = 256,
};

/* A decoded message with what it was made from and what it becomes. */
struct pass {
    struct arena arena;
    void *value;
    struct wbuf bytes;
    struct wbuf text;
};

static enum err
pass_run(struct pass *p, const struct schema_message *m, int16_t version, struct slice body)
{
    arena_init(&p->arena, ARENA_SIZE_MAX);
    wbuf_init(&p->bytes, MESSAGE_SIZE_MAX);
    wbuf_init(&p->text, MESSAGE_SIZE_MAX);
    p->value = calloc(1, m->root->size);
    assert(p->value != NULL);
    struct rbuf in = rbuf_over(body.data, body.size);
    const enum err e = m->decode(&in, version, &p->arena, p->value);
    assert_cmp(p->arena.used_size, <=, MEMORY_PER_BYTE_MAX * body.size + MEMORY_FIXED_MAX);
    if (e == ERR_OK) {
        const enum err encoded = m->encode(&p->bytes, version, p->value);
        assert_cmp(encoded, ==, ERR_OK);
        schema_dump(&p->text, m->root, version, p->value);
        assert_cmp(wbuf_failure(&p->text), ==, ERR_OK);
    }
    return e;
}

static void pass_done(struct pass *p)
{
    free(p->value);
    wbuf_done(&p->text);
    wbuf_done(&p->bytes);
    arena_done(&p->arena);
}

static void check(const struct schema_message *m, int16_t version, struct slice body)
{
    struct pass first;
    if (pass_run(&first, m, version, body) == ERR_OK) {
        struct pass second;
        const enum err e = pass_run(&second, m, version, wbuf_slice(&first.bytes));
        assert_cmp(e, ==, ERR_OK);
        assert(slice_equal(wbuf_slice(&first.bytes), wbuf_slice(&second.bytes)));
        assert(slice_equal(wbuf_slice(&first.text), wbuf_slice(&second.text)));
        pass_done(&second);
    }
    pass_done(&first);
}

static void check_request(struct rbuf frame)
{
    struct request_header header;
    if (request_header_decode(&frame, &header) != ERR_OK) {
        return;
    }
    const struct schema_api *api = schema_api_find(header.api_key);
    assert(api != NULL);
    if (schema_api_has(api, header.api_version)) {
        check(&api->request, header.api_version, slice_of(frame.cursor, rbuf_left(&frame)));
    }
}

static void check_response(struct rbuf frame)
{
    const int16_t key = rbuf_i16(&frame);
    const int16_t version = rbuf_i16(&frame);
    const struct schema_api *api = schema_api_find(key);
    if (frame.failure == ERR_OK && api != NULL && schema_api_has(api, version)) {
        check(&api->response, version, slice_of(frame.cursor, rbuf_left(&frame)));
    }
}

/* key: with its type in front. */
static void check_key(struct rbuf key)
{
    const struct schema_record *record = schema_record_find(rbuf_i16(&key));
    if (key.failure == ERR_OK && record != NULL) {
        check(&record->key, 0, slice_of(key.cursor, rbuf_left(&key)));
    }
}

static const struct schema_record *record_of(int16_t type)
{
    if (type >= 0) {
        return schema_record_find(type);
    }
    const size_t index = (size_t)(-1 - type);
    const bool is_data =
        index < SCHEMA_INTERNAL_RECORDS_COUNT && SCHEMA_INTERNAL_RECORDS[index]->type < 0;
    return is_data ? SCHEMA_INTERNAL_RECORDS[index] : NULL;
}

static void check_value(struct rbuf frame)
{
    const struct schema_record *record = record_of(rbuf_i16(&frame));
    const int16_t version = rbuf_i16(&frame);
    if (frame.failure != ERR_OK || record == NULL) {
        return;
    }
    if (schema_versions_have(record->versions, version)) {
        check(&record->value, version, slice_of(frame.cursor, rbuf_left(&frame)));
    } else if (record->reads_newer && version > record->versions.max) {
        /* As the highest, whose encoding need not be what was read. */
        check(&record->value, record->versions.max, slice_of(frame.cursor, rbuf_left(&frame)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const struct rbuf frame = rbuf_over(data + 1, size - 1);
    if (data[0] == 2) {
        check_key(frame);
    } else if (data[0] == 3) {
        check_value(frame);
    } else if (data[0] % 2 == 0) {
        check_request(frame);
    } else {
        check_response(frame);
    }
    return 0;
}
