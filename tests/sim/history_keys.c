/* What clients know of a partition that is compacted: records by offset, as acknowledged and as
 * read. Batches may lack records and there may be holes, so a record is compared with what is known
 * of its offset, and at the end the last one of each key must be there. */
#include "tests/sim/history_keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/batch.h"

enum {
    RECORDS_SIZE_MAX = 16 << 20,
    KEY_SIZE_MAX = 16,
};

static uint64_t hash_slice(uint64_t seed, struct slice s)
{
    const uint64_t size = slice_is_null(s) ? UINT64_MAX : s.size;
    const uint64_t hash = hash_bytes(seed, &size, sizeof(size));
    return s.size == 0 ? hash : hash_bytes(hash, s.data, s.size);
}

static struct known_record record_of(struct history *h, const struct record *r)
{
    char text[KEY_SIZE_MAX] = "";
    const bool is_ours = r->key.size > 1 && r->key.size < sizeof(text) && r->key.data[0] == 'k';
    sim_check(h->sim, is_ours, "%s: a key that nobody sent: offset=%" PRId64, h->name, r->offset);
    memcpy(text, r->key.data + 1, r->key.size - 1);
    struct known_record k = {.key = (uint32_t)strtoul(text, NULL, 10),
                             .is_tombstone = slice_is_null(r->value)};
    sim_check(h->sim, k.key < SIM_KEYS_MAX, "%s: key=%u", h->name, k.key);
    k.hash = hash_bytes(7, &r->timestamp, sizeof(r->timestamp));
    k.hash = hash_slice(hash_slice(k.hash, r->key), r->value) | 1;
    return k;
}

/* Of one whole batch: on_record for each. */
static void each_record(struct history *h,
                        struct slice batch,
                        void *context,
                        void (*on_record)(struct history *h, void *context, const struct record *r))
{
    struct batch_header header;
    struct wbuf w;
    struct slice records;
    struct record_cursor cursor;
    struct record r;
    wbuf_init(&w, RECORDS_SIZE_MAX);
    enum err e = batch_header_decode(batch, &header);
    if (e == ERR_OK) {
        e = batch_records(batch, RECORDS_SIZE_MAX, &w, &records);
    }
    sim_check(h->sim, e == ERR_OK, "%s: a batch that cannot be read: %s", h->name, err_name(e));
    record_cursor_init(&cursor, &header, records);
    while (record_next(&cursor, &r) == ERR_OK) {
        on_record(h, context, &r);
    }
    wbuf_done(&w);
}

/* ---- sent ---- */

static void on_sent(struct history *h, void *context, const struct record *r)
{
    struct sent_batch *b = context;
    b->records[r->offset] = record_of(h, r);
}

void history_keys_add(struct history *h, struct sent_batch *b, struct slice bytes)
{
    b->records = calloc((size_t)b->records_count, sizeof(*b->records));
    assert(b->records != NULL);
    each_record(h, bytes, b, on_sent);
}

static struct known_record *known_at(struct history *h, int64_t offset)
{
    while ((size_t)offset >= h->known_capacity) {
        const size_t capacity = h->known_capacity == 0 ? 256 : h->known_capacity * 2;
        h->known = realloc(h->known, capacity * sizeof(*h->known));
        assert(h->known != NULL);
        memset(h->known + h->known_capacity, 0, (capacity - h->known_capacity) * sizeof(*h->known));
        h->known_capacity = capacity;
    }
    return &h->known[offset];
}

static struct known_record *
know(struct history *h, int64_t offset, const struct known_record *k, const char *how)
{
    struct known_record *known = known_at(h, offset);
    sim_check(h->sim,
              known->hash == 0 || known->hash == k->hash,
              "%s: %s another record than before at offset=%" PRId64 " key=%u, not key=%u",
              h->name,
              how,
              offset,
              k->key,
              known->key);
    if (known->hash == 0) {
        *known = *k;
    }
    return known;
}

void history_keys_acked(struct history *h, const struct sent_batch *b, int64_t base_offset)
{
    for (int32_t i = 0; i < b->records_count; i++) {
        (void)know(h, base_offset + i, &b->records[i], "acknowledged");
    }
}

/* ---- read ---- */

static void on_read(struct history *h, void *context, const struct record *r)
{
    (void)context;
    const struct known_record k = record_of(h, r);
    know(h, r->offset, &k, "read")->is_read = true;
}

int64_t history_keys_read(struct history *h, int64_t offset, struct slice batch)
{
    struct batch_header header;
    enum err e = batch_header_decode(batch, &header);
    sim_check(h->sim, e == ERR_OK, "%s: a batch that is none at %" PRId64, h->name, offset);
    const int64_t end = header.base_offset + header.last_offset_delta + 1;
    sim_check(h->sim,
              batch_crc_matches(batch) && end > offset,
              "%s: a batch at %" PRId64 " for offset=%" PRId64,
              h->name,
              header.base_offset,
              offset);
    each_record(h, batch, NULL, on_read);
    return end;
}

/* ---- the end ---- */

/* Nobody was told of a batch that is not acknowledged, and it may be in the log all the same: a
 * tombstone of it may have taken the records of its key and gone itself before anybody read it. */
static bool has_unknown_tombstone(const struct history *h, uint32_t key)
{
    for (uint32_t b = 0; b < h->batches_count; b++) {
        const struct sent_batch *batch = &h->batches[b];
        const bool is_unknown = batch->acked_offset < 0 && batch->records != NULL;
        for (int32_t i = 0; is_unknown && i < batch->records_count; i++) {
            const struct known_record *k = &batch->records[i];
            if (k->key == key && k->is_tombstone) {
                return true;
            }
        }
    }
    return false;
}

void history_keys_begin_final(struct history *h)
{
    for (size_t i = 0; i < h->known_capacity; i++) {
        h->known[i].is_read = false;
    }
}

void history_keys_finish(struct history *h)
{
    bool is_met[SIM_KEYS_MAX] = {false};
    for (size_t i = h->known_capacity; i > (size_t)h->start; i--) {
        const struct known_record *k = &h->known[i - 1];
        if (k->hash == 0 || (is_met[k->key] && h->was_compacted)) {
            continue;
        }
        is_met[k->key] = true;
        const bool is_taken = !k->is_read && h->was_compacted && h->rules.are_tombstones_dropped &&
                              (k->is_tombstone || has_unknown_tombstone(h, k->key));
        sim_check(h->sim,
                  k->is_read || is_taken,
                  "%s: the last record of key=%u is gone: offset=%zu start=%" PRId64,
                  h->name,
                  k->key,
                  i - 1,
                  h->start);
    }
}
