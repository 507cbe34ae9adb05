#include "storage/compaction.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "storage/codec.h"

enum {
    /* What things cost, in nanoseconds: a table, so that the same work is cut the same way in every
     * run. */
    COST_BATCH_NS = 200,
    COST_RECORD_NS = 250,
    COST_KEY_BYTES_PER_NS = 2,
    COST_COPY_BYTES_PER_NS = 4,
};

/* Per byte of plain records, in tenths of a nanosecond. */
static const uint16_t decompress_cost[CODEC_COUNT] = {0, 40, 10, 8, 15};
static const uint16_t compress_cost[CODEC_COUNT] = {0, 400, 30, 30, 60};

/* ---- is a run due? ---- */

void compaction_tally_add(struct compaction_tally *t, const struct compaction_segment *seg)
{
    if (t->is_ended) {
        return;
    }
    /* Kafka looks at the largest timestamp of a segment: what is too young ends the range. */
    const bool is_young = t->config->lag_ms_min > 0 && seg->max_timestamp >= 0 &&
                          seg->max_timestamp > t->now_ms - t->config->lag_ms_min;
    const bool is_clean = seg->next_offset <= t->clean_offset;
    if (seg->base_offset >= t->bound_offset || (is_young && !is_clean)) {
        t->is_ended = true;
        return;
    }
    t->end_offset = seg->next_offset < t->bound_offset ? seg->next_offset : t->bound_offset;
    if (is_clean) {
        t->clean_size += seg->size;
        return;
    }
    if (t->dirty_size == 0) {
        t->dirty_since_ms = seg->first_timestamp >= 0 ? seg->first_timestamp : seg->max_timestamp;
    }
    t->dirty_size += seg->size;
}

bool compaction_is_due(const struct compaction_tally *t)
{
    if (t->dirty_size == 0) {
        return false;
    }
    const bool is_late = t->dirty_since_ms >= 0 && t->now_ms > t->dirty_since_ms &&
                         t->now_ms - t->dirty_since_ms > t->config->lag_ms_max;
    const double total_size = (double)t->clean_size + (double)t->dirty_size;
    return is_late || (double)t->dirty_size >= t->config->dirty_ratio_min * total_size;
}

/* ---- life ---- */

enum err compaction_init(struct compaction *c, const struct compaction_options *o)
{
    assert_cmp(o->clean_offset, <=, o->end_offset);
    *c = (struct compaction){.options = *o, .keys_end = o->end_offset};
    wbuf_init(&c->plain, COMPACTION_RECORDS_SIZE_MAX);
    wbuf_init(&c->marks, COMPACTION_RECORDS_SIZE_MAX);
    wbuf_init(&c->kept, COMPACTION_RECORDS_SIZE_MAX);
    wbuf_init(&c->batch, ENTRY_PAYLOAD_SIZE_MAX);
    c->open = malloc(COMPACTION_TXNS_OPEN_MAX * sizeof(c->open[0]));
    const uint64_t keys_expected = (uint64_t)(o->end_offset - o->clean_offset);
    enum err e = c->open == NULL ? ERR_BUSY : ERR_OK;
    if (e == ERR_OK) {
        e = key_map_init(&c->keys, keys_expected, o->keys_size_max, o->secret);
    }
    if (e != ERR_OK) {
        compaction_done(c);
    }
    return e;
}

void compaction_done(struct compaction *c)
{
    key_map_done(&c->keys);
    compaction_txns_done(&c->txns);
    free(c->open);
    wbuf_done(&c->plain);
    wbuf_done(&c->marks);
    wbuf_done(&c->kept);
    wbuf_done(&c->batch);
    *c = (struct compaction){0};
}

/* ---- reading a batch ---- */

static void
spend(struct compaction *c, const uint16_t *per_byte, enum batch_codec codec, size_t size)
{
    c->cost_ns += (uint64_t)per_byte[codec] * size / 10;
}

/* Empty again, with the memory it has. */
static void restart(struct wbuf *w)
{
    w->size = 0;
    w->failure = ERR_OK;
}

static bool is_transactional(const struct batch_header *h)
{
    return (h->attributes & BATCH_TRANSACTIONAL) != 0;
}

static bool is_control(const struct batch_header *h)
{
    return (h->attributes & BATCH_CONTROL) != 0;
}

/* The records in plain form, valid until the next call. */
static enum err read_records(struct compaction *c,
                             const struct batch_header *h,
                             struct slice batch,
                             struct slice *ret_records)
{
    c->cost_ns += COST_BATCH_NS + batch.size / COST_COPY_BYTES_PER_NS;
    restart(&c->plain);
    enum err e = batch_records(batch, COMPACTION_RECORDS_SIZE_MAX, &c->plain, ret_records);
    if (e == ERR_OK) {
        spend(c, decompress_cost, batch_codec(h), ret_records->size);
    }
    return e;
}

/* ---- learning ---- */

/* False: the range ends in this batch. */
static bool learn_batch(struct compaction *c, const struct batch_header *h, struct slice batch)
{
    struct slice records;
    if (read_records(c, h, batch, &records) != ERR_OK) {
        return true; /* It stays, and tells nothing of others. */
    }
    struct record_cursor cursor;
    struct record record;
    record_cursor_init(&cursor, h, records);
    while (record_next(&cursor, &record) == ERR_OK) {
        c->cost_ns += COST_RECORD_NS + record.key.size / COST_KEY_BYTES_PER_NS;
        if (record.offset < c->options.clean_offset || slice_is_null(record.key)) {
            continue;
        }
        const bool is_at_end = record.offset >= c->keys_end;
        if (is_at_end || !key_map_put(&c->keys, record.key, record.offset)) {
            c->keys_end = is_at_end ? c->keys_end : record.offset;
            return false;
        }
    }
    return true;
}

bool compaction_learn_keys(struct compaction *c, const struct entry_header *h, struct slice batch)
{
    struct batch_header b;
    if (h->base_offset >= c->keys_end) {
        return false;
    }
    if (h->type != ENTRY_DATA || h->next_offset <= c->options.clean_offset ||
        batch_header_decode(batch, &b) != ERR_OK) {
        return true;
    }
    if (is_transactional(&b)) {
        if (c->txns.open == NULL) {
            c->has_txns = true;
            return false;
        }
        if (!is_control(&b) && compaction_txns_is_aborted(&c->txns, &b)) {
            return true;
        }
    }
    return is_control(&b) || learn_batch(c, &b, batch);
}

enum err compaction_begin_outcomes(struct compaction *c)
{
    assert(c->has_txns);
    key_map_clear(&c->keys);
    c->keys_end = c->options.end_offset;
    return compaction_txns_init(&c->txns);
}

bool compaction_learn_outcome(struct compaction *c,
                              const struct entry_header *h,
                              struct slice batch)
{
    struct batch_header b;
    c->cost_ns += COST_BATCH_NS;
    if (h->type != ENTRY_DATA || batch_header_decode(batch, &b) != ERR_OK) {
        return true;
    }
    return compaction_txns_note(&c->txns, &b, batch);
}

void compaction_end_outcomes(struct compaction *c)
{
    const int64_t known_end = compaction_txns_known_end(&c->txns);
    c->keys_end = c->options.end_offset < known_end ? c->options.end_offset : known_end;
}

/* ---- transactions in the run ---- */

static void note_open(struct compaction *c, int64_t producer_id)
{
    for (uint32_t i = 0; i < c->open_count; i++) {
        if (c->open[i] == producer_id) {
            return;
        }
    }
    if (c->open_count == COMPACTION_TXNS_OPEN_MAX) {
        c->is_open_full = true; /* From now on nobody can say that a marker decides nothing. */
        return;
    }
    c->open[c->open_count++] = producer_id;
}

/* Whether data of the transaction that a marker ends was met. */
static bool take_open(struct compaction *c, int64_t producer_id)
{
    for (uint32_t i = 0; i < c->open_count; i++) {
        if (c->open[i] == producer_id) {
            c->open[i] = c->open[--c->open_count];
            return true;
        }
    }
    return c->is_open_full;
}

/* ---- what of a batch stays ---- */

enum {
    MARK_DROP = 0,
    MARK_KEEP = 1,
};

/* What a batch holds, judged record by record. */
struct tally {
    uint32_t records;
    uint32_t kept;
    uint32_t tombstones_dropped;
    bool keeps_tombstone; /* One whose horizon counts from now on, if it does not yet. */
    int64_t max_timestamp;
};

static bool has_horizon(const struct batch_header *h)
{
    return (h->attributes & BATCH_DELETE_HORIZON) != 0;
}

/* With a horizon it stands where the base timestamp was (PROTOCOL 7). */
static bool is_past_horizon(const struct compaction *c,
                            const struct batch_header *h,
                            const struct entry_header *entry)
{
    return has_horizon(h) && c->options.now_ms >= h->base_timestamp &&
           entry_last_index(entry) < c->options.clean_index;
}

static bool keeps_record(struct compaction *c,
                         const struct batch_header *h,
                         const struct entry_header *entry,
                         const struct record *r,
                         struct tally *t)
{
    if (r->offset >= c->keys_end) {
        return true;
    }
    if (slice_is_null(r->key) || key_map_get(&c->keys, r->key) > r->offset) {
        return false;
    }
    if (!slice_is_null(r->value)) {
        return true;
    }
    if (is_past_horizon(c, h, entry)) {
        t->tombstones_dropped++;
        return false;
    }
    t->keeps_tombstone = true;
    return true;
}

/* Marks each record. False: the records are not what they should be. */
static bool mark_records(struct compaction *c,
                         const struct batch_header *h,
                         const struct entry_header *entry,
                         struct slice records,
                         struct tally *t)
{
    *t = (struct tally){.max_timestamp = -1};
    restart(&c->marks);
    struct record_cursor cursor;
    struct record record;
    record_cursor_init(&cursor, h, records);
    enum err e;
    while ((e = record_next(&cursor, &record)) == ERR_OK) {
        const bool is_kept = keeps_record(c, h, entry, &record, t);
        wbuf_i8(&c->marks, is_kept ? MARK_KEEP : MARK_DROP);
        c->cost_ns += COST_RECORD_NS + record.key.size / COST_KEY_BYTES_PER_NS;
        t->records++;
        if (is_kept) {
            t->kept++;
            t->max_timestamp =
                record.timestamp > t->max_timestamp ? record.timestamp : t->max_timestamp;
        }
    }
    return e == ERR_EOF && wbuf_failure(&c->marks) == ERR_OK;
}

/* ---- making the new batch ---- */

/* A record as it stands, with another timestamp delta. */
static void copy_shifted(struct wbuf *w, struct slice raw, int64_t timestamp_delta)
{
    struct rbuf r = rbuf_over(raw.data, raw.size);
    (void)rbuf_varint(&r); /* Length. */
    const int8_t attributes = rbuf_i8(&r);
    (void)rbuf_varlong(&r);
    uint8_t bytes[16];
    struct wbuf delta;
    wbuf_init_fixed(&delta, bytes, sizeof(bytes));
    wbuf_varlong(&delta, timestamp_delta);
    wbuf_varint(w, (int32_t)(1 + delta.size + rbuf_left(&r)));
    wbuf_i8(w, attributes);
    wbuf_bytes(w, delta.data, delta.size);
    wbuf_bytes(w, r.cursor, rbuf_left(&r));
}

/* The marked records of h, for a batch whose base timestamp is base_timestamp. */
static void copy_kept(struct compaction *c,
                      const struct batch_header *h,
                      struct slice records,
                      int64_t base_timestamp)
{
    restart(&c->kept);
    struct record_cursor cursor;
    struct record record;
    record_cursor_init(&cursor, h, records);
    const uint8_t *start = cursor.records.cursor;
    for (size_t i = 0; record_next(&cursor, &record) == ERR_OK; i++) {
        const struct slice raw = slice_of(start, (size_t)(cursor.records.cursor - start));
        start = cursor.records.cursor;
        if (c->marks.data[i] != MARK_KEEP) {
            continue;
        }
        if (base_timestamp == h->base_timestamp) {
            wbuf_bytes(&c->kept, raw.data, raw.size);
        } else {
            copy_shifted(
                &c->kept, raw, (int64_t)((uint64_t)record.timestamp - (uint64_t)base_timestamp));
        }
    }
    c->cost_ns += c->kept.size / COST_COPY_BYTES_PER_NS;
}

static int64_t new_horizon(const struct compaction *c)
{
    int64_t horizon;
    return __builtin_add_overflow(c->options.now_ms, c->options.delete_retention_ms, &horizon)
               ? INT64_MAX
               : horizon;
}

/* Header and records into c->batch. */
static enum err encode(struct compaction *c, const struct batch_header *h, struct slice records)
{
    restart(&c->batch);
    (void)wbuf_reserve(&c->batch, BATCH_HEADER_SIZE);
    enum err e = wbuf_failure(&c->batch);
    if (e == ERR_OK && records.size > 0) {
        spend(c, compress_cost, batch_codec(h), records.size);
        e = codec_compress(batch_codec(h), records, &c->batch);
    }
    if (e == ERR_OK) {
        const struct slice stored = slice_rest(wbuf_slice(&c->batch), BATCH_HEADER_SIZE);
        batch_header_encode(h, stored, c->batch.data);
    }
    return e;
}

static void rewrite(struct compaction *c,
                    const struct batch_header *h,
                    struct slice records,
                    struct compaction_result *ret)
{
    if (encode(c, h, records) == ERR_OK) {
        ret->verdict = COMPACTION_REWRITE;
        ret->payload = wbuf_slice(&c->batch);
        ret->max_timestamp = h->max_timestamp;
    } /* Else it stays as it is: a later run has more memory. */
}

/* No record of the batch stays. */
static void empty(struct compaction *c, const struct batch_header *h, struct compaction_result *ret)
{
    if (h->producer_id < 0 || c->options.is_last_of_producer == NULL ||
        !c->options.is_last_of_producer(c->options.context, h)) {
        ret->verdict = COMPACTION_REMOVE;
        return;
    }
    if (h->records_count == 0) {
        return; /* Empty already. */
    }
    struct batch_header emptied = *h;
    emptied.records_count = 0;
    emptied.attributes &= (int16_t) ~(BATCH_CODEC_MASK | BATCH_DELETE_HORIZON);
    emptied.base_timestamp = -1;
    emptied.max_timestamp = -1; /* No record: nobody looking for a time shall end here. */
    rewrite(c, &emptied, (struct slice){0}, ret);
}

/* Some records stay, or all of them with a horizon. */
static void keep_marked(struct compaction *c,
                        const struct batch_header *h,
                        struct slice records,
                        const struct tally *t,
                        struct compaction_result *ret)
{
    struct batch_header kept = *h;
    kept.records_count = (int32_t)t->kept;
    if (t->keeps_tombstone && !has_horizon(h)) {
        kept.attributes |= BATCH_DELETE_HORIZON;
        kept.base_timestamp = new_horizon(c);
    }
    if ((h->attributes & BATCH_LOG_APPEND_TIME) == 0) {
        kept.max_timestamp = t->max_timestamp;
    }
    copy_kept(c, h, records, kept.base_timestamp);
    if (wbuf_failure(&c->kept) == ERR_OK) {
        rewrite(c, &kept, wbuf_slice(&c->kept), ret);
    }
}

static void judge_marker(struct compaction *c,
                         const struct batch_header *h,
                         const struct entry_header *entry,
                         struct slice batch,
                         struct compaction_result *ret)
{
    if (take_open(c, h->producer_id)) {
        return;
    }
    if (h->records_count == 0 || is_past_horizon(c, h, entry)) {
        empty(c, h, ret);
        c->counters.markers_removed += ret->verdict == COMPACTION_REMOVE;
        return;
    }
    struct slice records;
    if (has_horizon(h) || read_records(c, h, batch, &records) != ERR_OK) {
        return;
    }
    const struct tally t = {
        .kept = (uint32_t)h->records_count,
        .keeps_tombstone = true,
        .max_timestamp = h->max_timestamp,
    };
    restart(&c->marks);
    uint8_t *marks = wbuf_extend(&c->marks, (size_t)h->records_count);
    if (marks != NULL) {
        memset(marks, MARK_KEEP, (size_t)h->records_count);
        keep_marked(c, h, records, &t, ret);
    }
}

static void judge_data(struct compaction *c,
                       const struct batch_header *h,
                       const struct entry_header *entry,
                       struct slice batch,
                       struct compaction_result *ret)
{
    if (is_transactional(h)) {
        note_open(c, h->producer_id);
        if (c->txns.open != NULL && compaction_txns_is_aborted(&c->txns, h)) {
            c->counters.records_read += (uint64_t)h->records_count;
            c->counters.records_removed += (uint64_t)h->records_count;
            empty(c, h, ret);
            return;
        }
    }
    struct slice records;
    struct tally t;
    if (read_records(c, h, batch, &records) != ERR_OK || !mark_records(c, h, entry, records, &t)) {
        c->counters.batches_unreadable++;
        return;
    }
    if (t.kept == 0) {
        empty(c, h, ret);
    } else if (t.kept < t.records || (t.keeps_tombstone && !has_horizon(h))) {
        keep_marked(c, h, records, &t, ret);
    }
    c->counters.records_read += t.records;
    if (ret->verdict != COMPACTION_KEEP) {
        c->counters.records_removed += t.records - t.kept;
        c->counters.tombstones_removed += t.tombstones_dropped;
    }
}

void compaction_judge(struct compaction *c,
                      const struct entry_header *h,
                      struct slice payload,
                      struct compaction_result *ret)
{
    *ret = (struct compaction_result){
        .verdict = COMPACTION_KEEP,
        .payload = payload,
        .max_timestamp = h->max_timestamp,
    };
    if (h->base_offset >= c->keys_end) {
        return;
    }
    if (h->type == ENTRY_GAP || h->type == ENTRY_NOOP) {
        ret->verdict = COMPACTION_REMOVE;
        return;
    }
    struct batch_header b;
    if (h->type != ENTRY_DATA || batch_header_decode(payload, &b) != ERR_OK) {
        return;
    }
    if (is_control(&b)) {
        judge_marker(c, &b, h, payload, ret);
    } else {
        judge_data(c, &b, h, payload, ret);
    }
}
