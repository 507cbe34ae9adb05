#include "storage/compaction_txn.h"

#include <stdlib.h>

#include "core/rbuf.h"

enum {
    MARKER_ABORT = 0, /* Type in the key of a control record; 1 commits (PROTOCOL 7). */
    MARKER_COMMIT = 1,
};

enum err compaction_txns_init(struct compaction_txns *t)
{
    *t = (struct compaction_txns){
        .open = malloc(COMPACTION_TXNS_OPEN_MAX * sizeof(t->open[0])),
        .aborted = malloc(COMPACTION_TXNS_ABORTED_MAX * sizeof(t->aborted[0])),
    };
    if (t->open == NULL || t->aborted == NULL) {
        compaction_txns_done(t);
        return ERR_BUSY;
    }
    return ERR_OK;
}

void compaction_txns_done(struct compaction_txns *t)
{
    free(t->open);
    free(t->aborted);
    *t = (struct compaction_txns){0};
}

static struct compaction_txn *find_open(const struct compaction_txns *t, int64_t producer_id)
{
    for (uint32_t i = 0; i < t->open_count; i++) {
        if (t->open[i].producer_id == producer_id) {
            return &t->open[i];
        }
    }
    return NULL;
}

/* The type in the key of a control batch's record; -1 if it is none that decides. */
static int marker_type(const struct batch_header *h, struct slice batch)
{
    struct slice records;
    struct wbuf unused;
    wbuf_init(&unused, 0);
    struct record_cursor cursor;
    struct record record;
    if (batch_codec(h) != CODEC_NONE ||
        batch_records(batch, batch.size, &unused, &records) != ERR_OK) {
        return -1;
    }
    record_cursor_init(&cursor, h, records);
    if (record_next(&cursor, &record) != ERR_OK || slice_is_null(record.key)) {
        return -1;
    }
    struct rbuf key = rbuf_over(record.key.data, record.key.size);
    (void)rbuf_i16(&key); /* Version. */
    const int type = rbuf_i16(&key);
    return key.failure == ERR_OK ? type : -1;
}

static bool full(struct compaction_txns *t, int64_t offset)
{
    t->is_full = true;
    t->full_offset = offset;
    return false;
}

static bool note_data(struct compaction_txns *t, const struct batch_header *h)
{
    if (find_open(t, h->producer_id) != NULL) {
        return true;
    }
    if (t->open_count == COMPACTION_TXNS_OPEN_MAX) {
        return full(t, h->base_offset);
    }
    t->open[t->open_count++] = (struct compaction_txn){
        .producer_id = h->producer_id,
        .first_offset = h->base_offset,
    };
    return true;
}

bool compaction_txns_note(struct compaction_txns *t,
                          const struct batch_header *h,
                          struct slice batch)
{
    if (t->is_full) {
        return false;
    }
    if ((h->attributes & BATCH_TRANSACTIONAL) == 0) {
        return true;
    }
    if ((h->attributes & BATCH_CONTROL) == 0) {
        return note_data(t, h);
    }
    struct compaction_txn *txn = find_open(t, h->producer_id);
    const int type = marker_type(h, batch);
    if (txn == NULL || (type != MARKER_ABORT && type != MARKER_COMMIT)) {
        return true;
    }
    if (type == MARKER_ABORT) {
        if (t->aborted_count == COMPACTION_TXNS_ABORTED_MAX) {
            return full(t, h->base_offset);
        }
        t->aborted[t->aborted_count] = *txn;
        t->aborted[t->aborted_count++].marker_offset = h->base_offset;
    }
    *txn = t->open[--t->open_count];
    return true;
}

int64_t compaction_txns_known_end(const struct compaction_txns *t)
{
    int64_t end = t->is_full ? t->full_offset : INT64_MAX;
    for (uint32_t i = 0; i < t->open_count; i++) {
        if (t->open[i].first_offset < end) {
            end = t->open[i].first_offset;
        }
    }
    return end;
}

bool compaction_txns_is_aborted(const struct compaction_txns *t, const struct batch_header *h)
{
    for (uint32_t i = 0; i < t->aborted_count; i++) {
        const struct compaction_txn *txn = &t->aborted[i];
        if (txn->producer_id == h->producer_id && txn->first_offset <= h->base_offset &&
            h->base_offset < txn->marker_offset) {
            return true;
        }
    }
    return false;
}
