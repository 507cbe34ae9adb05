#include "client/client_records.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    RECORDS_SIZE_MAX = 1 << 30, /* Of one batch, uncompressed: against batches made to explode. */
    RECORDS_MAX = 1024,         /* Handed out together. */
    HEADERS_MAX = 1 << 16,      /* With them; one record may have more. */
    MARKER_ABORT = 0,
};

void client_walk_init(struct client_walk *w, struct slice batches, int64_t offset)
{
    *w = (struct client_walk){.batches = batches, .offset = offset};
    wbuf_init(&w->unpacked, RECORDS_SIZE_MAX);
}

void client_walk_done(struct client_walk *w)
{
    wbuf_done(&w->unpacked);
    free(w->aborted);
}

void client_records_done(struct client_records *r)
{
    free(r->records);
    free(r->headers);
}

/* ---- batches ---- */

/* So that no sum of offsets can overflow. */
static bool is_sane(const struct batch_header *h)
{
    return h->base_offset >= 0 && h->last_offset_delta >= 0 &&
           h->base_offset < INT64_MAX - h->last_offset_delta;
}

static int64_t behind(const struct batch_header *h)
{
    return h->base_offset + h->last_offset_delta + 1;
}

int64_t client_walk_end(struct slice *batches, int64_t offset, bool *ret_is_damaged)
{
    struct batch_header h;
    struct slice rest = *batches;
    enum err e;
    while ((e = batch_header_decode(rest, &h)) == ERR_OK && is_sane(&h)) {
        const size_t size = batch_size(&h);
        rest = slice_rest(rest, size);
        offset = behind(&h) > offset ? behind(&h) : offset;
    }
    *ret_is_damaged = e != ERR_EOF;
    if (e == ERR_EOF) {
        batches->size -= rest.size;
    }
    return offset;
}

static bool is_abort_marker(const struct batch_header *h, struct slice batch)
{
    struct record_cursor cursor;
    struct record record;
    record_cursor_init(&cursor, h, batch_records_part(batch));
    if (record_next(&cursor, &record) != ERR_OK) {
        return false;
    }
    struct rbuf key = rbuf_over(record.key.data, record.key.size);
    (void)rbuf_i16(&key); /* Version. */
    const int16_t type = rbuf_i16(&key);
    return key.failure == ERR_OK && type == MARKER_ABORT;
}

/* The transaction of this producer that was open at the offset and then aborted. */
static struct client_aborted *find_aborted(struct client_walk *w, const struct batch_header *h)
{
    for (size_t i = 0; i < w->aborted_count; i++) {
        struct client_aborted *a = &w->aborted[i];
        if (a->producer_id == h->producer_id && !a->is_over && a->first_offset < behind(h)) {
            return a;
        }
    }
    return NULL;
}

/* True for batches whose records are not for the program. */
static bool is_passed_over(struct client_walk *w, const struct batch_header *h, struct slice batch)
{
    if ((h->attributes & BATCH_TRANSACTIONAL) == 0) {
        return (h->attributes & BATCH_CONTROL) != 0;
    }
    struct client_aborted *aborted = find_aborted(w, h);
    if ((h->attributes & BATCH_CONTROL) == 0) {
        return aborted != NULL;
    }
    if (aborted != NULL && is_abort_marker(h, batch)) {
        aborted->is_over = true;
    }
    return true;
}

static void leave_batch(struct client_walk *w)
{
    const int64_t next = behind(&w->batch);
    w->offset = next > w->offset ? next : w->offset;
    w->has_batch = false;
}

/* Opens the next batch, unless it is passed over. ERR_EOF: there is none, or it is incomplete:
 * answers are cut at their size. */
static enum err open_batch(struct client_walk *w)
{
    struct batch_header *h = &w->batch;
    enum err e = batch_header_decode(w->batches, h);
    if (e != ERR_OK) {
        return e;
    }
    const size_t size = batch_size(h);
    const struct slice batch = slice_of(w->batches.data, size);
    if (!is_sane(h) || !batch_crc_matches(batch)) {
        return ERR_CORRUPT;
    }
    if (is_passed_over(w, h, batch)) {
        leave_batch(w);
    } else {
        struct slice records;
        w->unpacked.size = 0;
        w->unpacked.failure = ERR_OK;
        e = batch_records(batch, RECORDS_SIZE_MAX, &w->unpacked, &records);
        if (e != ERR_OK) {
            return e;
        }
        record_cursor_init(&w->cursor, h, records);
        w->has_batch = true;
    }
    w->batches = slice_rest(w->batches, size);
    return ERR_OK;
}

/* ---- records ---- */

static enum err grow_headers(struct client_records *r, size_t count)
{
    if (count <= r->headers_capacity) {
        return ERR_OK;
    }
    const size_t capacity = count + r->headers_capacity;
    struct client_header *grown = realloc(r->headers, capacity * sizeof(*grown));
    if (grown == NULL) {
        return ERR_BUSY;
    }
    r->headers = grown;
    r->headers_capacity = capacity;
    return ERR_OK;
}

static enum err grow_records(struct client_records *r)
{
    if (r->records_count < r->records_capacity) {
        return ERR_OK;
    }
    const size_t capacity = r->records_capacity * 2 + 16;
    struct client_record *grown = realloc(r->records, capacity * sizeof(*grown));
    if (grown == NULL) {
        return ERR_BUSY;
    }
    r->records = grown;
    r->records_capacity = capacity;
    return ERR_OK;
}

static enum err add_record(struct client_walk *w, struct client_records *r, struct record *from)
{
    const uint32_t headers_count = from->headers_count; /* Reading them counts it down. */
    enum err e = grow_records(r);
    if (e == ERR_OK) {
        e = grow_headers(r, r->headers_count + headers_count);
    }
    for (uint32_t i = 0; e == ERR_OK && i < headers_count; i++) {
        struct record_header header;
        e = record_next_header(from, &header);
        r->headers[r->headers_count + i] = (struct client_header){header.key, header.value};
    }
    if (e != ERR_OK) {
        return e;
    }
    r->records[r->records_count++] = (struct client_record){
        .offset = from->offset,
        .timestamp = from->timestamp,
        .is_log_append_time = (w->batch.attributes & BATCH_LOG_APPEND_TIME) != 0,
        .key = from->key,
        .value = from->value,
        .headers_count = headers_count,
    };
    r->headers_count += headers_count;
    w->offset = from->offset + 1;
    return ERR_OK;
}

/* What all have in common, and their headers, which stand still only now. There is no memory for
 * headers until there was one. */
static void finish_records(struct client_records *r, const char *topic, int32_t partition)
{
    size_t next = 0;
    for (size_t i = 0; i < r->records_count; i++) {
        const size_t count = r->records[i].headers_count;
        r->records[i].topic = topic;
        r->records[i].partition = partition;
        r->records[i].headers = count > 0 ? &r->headers[next] : NULL;
        next += count;
    }
}

/* Records of the open batch, as many as are handed out together. */
static enum err read_batch(struct client_walk *w, struct client_records *r)
{
    while (r->records_count < RECORDS_MAX && r->headers_count < HEADERS_MAX) {
        const struct record_cursor before = w->cursor;
        struct record record;
        enum err e = record_next(&w->cursor, &record);
        if (e == ERR_EOF) {
            leave_batch(w);
            return ERR_OK;
        }
        if (e == ERR_OK && record.offset < w->offset) {
            continue; /* The batch starts before the position. */
        }
        if (e == ERR_OK && record.offset >= behind(&w->batch)) {
            e = ERR_RECORD_INVALID;
        }
        if (e == ERR_OK) {
            e = add_record(w, r, &record);
        }
        if (e != ERR_OK) {
            w->cursor = before; /* The next look begins with this one again. */
            return e;
        }
        /* Left with its last record, not with the look behind it: so that the end is known when it
         * is reached. */
        if (w->cursor.records_left == 0 && rbuf_left(&w->cursor.records) == 0) {
            leave_batch(w);
            return ERR_OK;
        }
    }
    return ERR_OK;
}

enum err client_walk_next(struct client_walk *w,
                          const char *topic,
                          int32_t partition,
                          struct client_records *ret_records)
{
    ret_records->records_count = 0;
    ret_records->headers_count = 0;
    while (ret_records->records_count == 0) {
        enum err e = w->has_batch ? read_batch(w, ret_records) : open_batch(w);
        if (e != ERR_OK && ret_records->records_count == 0) {
            return e;
        }
    }
    finish_records(ret_records, topic, partition);
    return ERR_OK;
}
