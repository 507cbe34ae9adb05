#include "client/client_batch.h"

#include <stdlib.h>
#include <string.h>

#include "client/client_conn.h"
#include "client/client_producer.h"
#include "core/assert.h"

enum {
    RECORD_SIZE_MAX = 64 << 20, /* One record may be larger than batch_size: it goes alone. */
    HEADERS_KEPT = 16,
};

static_assert((int)CLIENT_CODEC_GZIP == (int)CODEC_GZIP, "same numbers");
static_assert((int)CLIENT_CODEC_ZSTD == (int)CODEC_ZSTD, "same numbers");
static_assert(sizeof(struct client_header) == sizeof(struct record_header), "same layout");
static_assert(offsetof(struct client_header, value) == offsetof(struct record_header, value),
              "same layout");

size_t client_message_size(const struct client_message *m)
{
    size_t size = m->key.size + m->value.size;
    for (size_t i = 0; i < m->headers_count; i++) {
        size += m->headers[i].key.size + m->headers[i].value.size;
    }
    return size;
}

struct client_batch *client_batch_new(struct client_producer *p, struct client_lane *lane)
{
    struct client_batch *b = calloc(1, sizeof(*b));
    if (b == NULL) {
        return NULL;
    }
    list_init(&b->link);
    list_init(&b->age_link);
    b->producer = p;
    b->lane = lane;
    b->identity = (struct batch_identity){-1, -1, -1};
    b->base_offset = -1;
    b->append_time_ms = -1;
    batch_builder_init(&b->builder, RECORD_SIZE_MAX);
    wbuf_init(&b->bytes, CLIENT_FRAME_SIZE_MAX);
    return b;
}

void client_batch_free(struct client_batch *b)
{
    list_remove(&b->link);
    list_remove(&b->age_link);
    batch_builder_done(&b->builder);
    wbuf_done(&b->bytes);
    free(b->marks);
    free(b);
}

/* Room for one more mark. */
static bool grow_marks(struct client_batch *b)
{
    if ((size_t)b->records_count < b->marks_capacity) {
        return true;
    }
    const size_t capacity = b->marks_capacity * 2 + 8;
    struct client_mark *grown = realloc(b->marks, capacity * sizeof(*grown));
    if (grown != NULL) {
        b->marks = grown;
        b->marks_capacity = capacity;
    }
    return grown != NULL;
}

enum err client_batch_add(struct client_batch *b, const struct client_message *m, int64_t now_ms)
{
    const struct batch_record record = {
        .timestamp = m->timestamp != 0 || m->has_timestamp ? m->timestamp : now_ms,
        .key = m->key,
        .value = m->value,
        .headers = (const struct record_header *)m->headers,
        .headers_count = (uint32_t)m->headers_count,
    };
    const bool is_told = b->producer->options.on_delivery != NULL;
    if (is_told && !grow_marks(b)) {
        return ERR_BUSY;
    }
    enum err e = batch_builder_add(&b->builder, &record);
    if (e != ERR_OK) {
        return e;
    }
    if (is_told) {
        b->marks[b->records_count] = (struct client_mark){m->opaque, record.timestamp};
    }
    b->records_count++;
    return ERR_OK;
}

enum err client_batch_take(struct client_batch *b, struct slice bytes, void *opaque)
{
    struct batch_header h;
    enum err e = batch_header_decode(bytes, &h);
    if (e != ERR_OK || batch_size(&h) != bytes.size || h.records_count < 1) {
        return ERR_INVALID;
    }
    if (b->producer->options.on_delivery != NULL) {
        if (!grow_marks(b)) {
            return ERR_BUSY;
        }
        b->marks[0] = (struct client_mark){opaque, h.base_timestamp};
    }
    wbuf_bytes(&b->bytes, bytes.data, bytes.size);
    e = wbuf_failure(&b->bytes);
    if (e == ERR_OK) {
        /* What comes out of a log has its place there; the leader gives it a new one. */
        memset(b->bytes.data, 0, sizeof(h.base_offset));
        b->records_count = h.records_count;
        b->is_closed = true;
        b->is_whole = true;
    }
    return e;
}

/* ---- bytes ---- */

static enum err restamp(struct client_batch *b)
{
    struct batch_header h;
    enum err e = batch_header_decode(wbuf_slice(&b->bytes), &h);
    assert(e == ERR_OK);
    if (h.producer_id == b->identity.producer_id &&
        h.producer_epoch == b->identity.producer_epoch &&
        h.base_sequence == b->identity.base_sequence) {
        return ERR_OK;
    }
    h.producer_id = b->identity.producer_id;
    h.producer_epoch = b->identity.producer_epoch;
    h.base_sequence = b->identity.base_sequence;
    uint8_t encoded[BATCH_HEADER_SIZE];
    batch_header_encode(&h, batch_records_part(wbuf_slice(&b->bytes)), encoded);
    memcpy(b->bytes.data, encoded, sizeof(encoded));
    return ERR_OK;
}

enum err client_batch_encode(struct client_batch *b, enum client_codec codec)
{
    if (b->bytes.size > 0) {
        return restamp(b);
    }
    enum err e =
        batch_builder_finish(&b->builder, (enum batch_codec)codec, &b->identity, &b->bytes);
    if (e != ERR_OK) {
        wbuf_done(&b->bytes);
        wbuf_init(&b->bytes, CLIENT_FRAME_SIZE_MAX);
        return e;
    }
    batch_builder_done(&b->builder);
    batch_builder_init(&b->builder, RECORD_SIZE_MAX);
    return ERR_OK;
}

/* ---- splitting ---- */

static enum err copy_record(struct batch_builder *to, struct record *record)
{
    const uint32_t count = record->headers_count;
    struct record_header few[HEADERS_KEPT];
    struct record_header *headers = count <= HEADERS_KEPT ? few : calloc(count, sizeof(*headers));
    if (headers == NULL) {
        return ERR_BUSY;
    }
    enum err e = ERR_OK;
    for (uint32_t i = 0; e == ERR_OK && i < count; i++) {
        e = record_next_header(record, &headers[i]);
    }
    if (e == ERR_OK) {
        const struct batch_record copy = {
            .timestamp = record->timestamp,
            .key = record->key,
            .value = record->value,
            .headers = headers,
            .headers_count = count,
        };
        e = batch_builder_add(to, &copy);
    }
    if (headers != few) {
        free(headers);
    }
    return e;
}

static enum err
copy_records(const struct client_batch *b, struct client_batch *first, struct client_batch *second)
{
    struct batch_header h;
    struct wbuf w;
    struct slice records;
    wbuf_init(&w, CLIENT_FRAME_SIZE_MAX);
    enum err e = batch_header_decode(wbuf_slice(&b->bytes), &h);
    assert(e == ERR_OK);
    e = batch_records(wbuf_slice(&b->bytes), CLIENT_FRAME_SIZE_MAX, &w, &records);
    struct record_cursor cursor;
    if (e == ERR_OK) {
        record_cursor_init(&cursor, &h, records);
    }
    for (int32_t i = 0; e == ERR_OK && i < b->records_count; i++) {
        struct record record;
        struct client_batch *to = i < b->records_count / 2 ? first : second;
        e = record_next(&cursor, &record);
        if (e == ERR_OK) {
            e = copy_record(&to->builder, &record);
        }
        to->records_count += e == ERR_OK;
    }
    wbuf_done(&w);
    return e;
}

static bool copy_marks(const struct client_batch *b, struct client_batch *half, int32_t from)
{
    if (b->marks == NULL) {
        return true;
    }
    half->marks = malloc((size_t)half->records_count * sizeof(*half->marks));
    if (half->marks == NULL) {
        return false;
    }
    half->marks_capacity = (size_t)half->records_count;
    memcpy(half->marks, &b->marks[from], half->marks_capacity * sizeof(*half->marks));
    return true;
}

static void put_behind(struct client_batch *b, struct client_batch *half, size_t size)
{
    half->serial = b->serial;
    half->size = size;
    half->opened_us = b->opened_us;
    half->deadline_us = b->deadline_us;
    half->attempts = b->attempts;
    half->is_closed = true;
    list_insert(&b->link, &half->link);
    list_insert(&b->age_link, &half->age_link);
}

enum err client_batch_split(struct client_batch *b)
{
    assert_cmp(b->records_count, >, 1);
    assert(!b->is_in_flight);
    struct client_batch *first = client_batch_new(b->producer, b->lane);
    struct client_batch *second = client_batch_new(b->producer, b->lane);
    enum err e = first == NULL || second == NULL ? ERR_BUSY : copy_records(b, first, second);
    if (e == ERR_OK && (!copy_marks(b, first, 0) || !copy_marks(b, second, first->records_count))) {
        e = ERR_BUSY;
    }
    if (e != ERR_OK) {
        if (first != NULL) {
            client_batch_free(first);
        }
        if (second != NULL) {
            client_batch_free(second);
        }
        return e;
    }
    put_behind(b, second, b->size / 2);
    put_behind(b, first, b->size - b->size / 2);
    return ERR_OK;
}
