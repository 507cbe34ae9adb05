#include "tests/sim/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "storage/batch.h"

#include "tests/sim/configs.h"
#include "tests/sim/history_epochs.h"
#include "tests/sim/history_keys.h"

enum {
    RECORDS_SIZE_MAX = 16 << 20,
};

static void *grow(void *array, size_t *capacity, size_t element_size)
{
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    void *bigger = realloc(array, *capacity * element_size);
    assert(bigger != NULL);
    return bigger;
}

void history_init(struct history *h,
                  struct sim *sim,
                  const char *name,
                  const struct history_rules *rules)
{
    *h = (struct history){.sim = sim,
                          .rules = *rules,
                          .settled_retention_ms = rules->retention_ms,
                          .is_settled_by_size = rules->is_retained_by_size,
                          .was_compacted = rules->is_compacted,
                          .was_ack_memory = rules->is_ack_memory};
    (void)snprintf(h->name, sizeof(h->name), "%s", name);
}

void history_done(struct history *h)
{
    for (uint32_t i = 0; i < h->batches_count; i++) {
        free(h->batches[i].records);
    }
    free(h->known);
    free(h->epochs);
    free(h->batches);
    free(h->table);
    free(h->acked);
    free(h->seen);
    *h = (struct history){0};
}

/* ---- alterations ---- */

void history_alter(struct history *h, const struct history_rules *rules)
{
    history_rules_join(&h->rules, rules);
    h->settles_us = UINT64_MAX;
    h->is_altering = true;
    h->was_compacted |= rules->is_compacted;
    h->was_ack_memory |= rules->is_ack_memory;
    for (uint32_t i = 0; i < h->batches_count; i++) {
        struct sent_batch *b = &h->batches[i];
        if (b->acked_offset == -1 || b->sent_count > 1) { /* It may be on its way. */
            b->codecs |= rules->codecs;
            b->is_memory_enough |= rules->is_ack_memory;
        }
    }
}

void history_altered(struct history *h, const struct history_rules *rules)
{
    const struct history_rules before = h->rules;
    h->rules = *rules;
    h->rules.are_tombstones_dropped |= before.are_tombstones_dropped;
    h->rules.retention_ms = before.retention_ms;
    h->rules.is_retained_by_size = before.is_retained_by_size;
    h->settled_retention_ms = rules->retention_ms;
    h->is_settled_by_size = rules->is_retained_by_size;
    h->altered_us = h->sim->clock.now_us;
    h->settles_us = UINT64_MAX;
    h->is_altering = false;
}

void history_entry_committed(struct history *h, uint64_t sent_us)
{
    if (!h->is_altering && sent_us >= h->altered_us && h->settles_us == UINT64_MAX) {
        h->settles_us = h->sim->clock.now_us;
    }
}

void history_restarted(struct history *h)
{
    history_entry_committed(h, h->sim->clock.now_us);
}

void history_settle(struct history *h, uint64_t sent_us)
{
    if (sent_us >= h->settles_us) {
        h->rules.retention_ms = h->settled_retention_ms;
        h->rules.is_retained_by_size = h->is_settled_by_size;
    }
}

/* ---- batches ---- */

/* The codec, and the records in it, are the broker's. */
static uint64_t hash_of_recoded(const struct history *h, struct slice bytes)
{
    struct wbuf w;
    struct slice records;
    uint8_t head[BATCH_HEADER_SIZE];
    memcpy(head, bytes.data, sizeof(head));
    head[BATCH_HEAD_SIZE + 1] &= (uint8_t)~BATCH_CODEC_MASK;
    wbuf_init(&w, RECORDS_SIZE_MAX);
    enum err e = batch_records(bytes, RECORDS_SIZE_MAX, &w, &records);
    sim_check(h->sim, e == ERR_OK, "%s: records that cannot be read: %s", h->name, err_name(e));
    uint64_t hash = hash_bytes(7, head + BATCH_HEAD_SIZE, BATCH_HEADER_SIZE - BATCH_HEAD_SIZE);
    hash = hash_bytes(hash, records.data, records.size);
    wbuf_done(&w);
    return hash;
}

/* Base offset, length, epoch, magic and CRC belong to the broker or follow from the rest. */
static uint64_t hash_of(const struct history *h, struct slice bytes)
{
    assert(bytes.size >= BATCH_HEADER_SIZE);
    if (h->rules.is_recoded) {
        return hash_of_recoded(h, bytes);
    }
    return hash_bytes(7, bytes.data + BATCH_HEAD_SIZE, bytes.size - BATCH_HEAD_SIZE);
}

static void table_put(struct history *h, uint32_t batch)
{
    uint32_t mask = h->table_size - 1;
    uint32_t at = (uint32_t)h->batches[batch].hash & mask;
    while (h->table[at] != 0) {
        at = (at + 1) & mask;
    }
    h->table[at] = batch + 1;
}

static void table_grow(struct history *h)
{
    free(h->table);
    h->table_size = h->table_size == 0 ? 256 : h->table_size * 4;
    h->table = calloc(h->table_size, sizeof(*h->table));
    assert(h->table != NULL);
    for (uint32_t i = 0; i < h->batches_count; i++) {
        table_put(h, i);
    }
}

static struct sent_batch *find(struct history *h, uint64_t hash)
{
    if (h->table_size == 0) {
        return NULL;
    }
    uint32_t mask = h->table_size - 1;
    for (uint32_t at = (uint32_t)hash & mask; h->table[at] != 0; at = (at + 1) & mask) {
        struct sent_batch *b = &h->batches[h->table[at] - 1];
        if (b->hash == hash) {
            return b;
        }
    }
    return NULL;
}

uint32_t
history_add(struct history *h, struct slice bytes, int32_t records_count, bool is_idempotent)
{
    if (h->batches_count == h->batches_capacity) {
        size_t capacity = h->batches_capacity;
        h->batches = grow(h->batches, &capacity, sizeof(*h->batches));
        h->batches_capacity = (uint32_t)capacity;
    }
    if ((h->batches_count + 1) * 2 > h->table_size) {
        table_grow(h);
    }
    struct batch_header header;
    enum err e = batch_header_decode(bytes, &header);
    assert(e == ERR_OK);
    uint32_t batch = h->batches_count++;
    h->batches[batch] = (struct sent_batch){.hash = hash_of(h, bytes),
                                            .max_timestamp = header.max_timestamp,
                                            .records_count = records_count,
                                            .is_idempotent = is_idempotent,
                                            .acked_offset = -1,
                                            .seen_offset = -1};
    table_put(h, batch);
    if (h->rules.is_keyed) {
        history_keys_add(h, &h->batches[batch], bytes);
    }
    return batch;
}

void history_sent(struct history *h, uint32_t batch)
{
    struct sent_batch *b = &h->batches[batch];
    b->sent_count++;
    b->codecs |= h->rules.codecs;
    b->is_memory_enough |= h->rules.is_ack_memory;
}

/* Acknowledgements of several producers come in any order of their offsets. */
static void note_acked_end(struct history *h, const struct acked_batch *a)
{
    const int64_t end = a->base_offset + h->batches[a->batch].records_count;
    h->acked_end = end > h->acked_end ? end : h->acked_end;
}

void history_acked(struct history *h, uint32_t batch, int64_t base_offset)
{
    struct sim *sim = h->sim;
    struct sent_batch *b = &h->batches[batch];
    sim_check(sim,
              base_offset >= 0,
              "%s: acknowledged without an offset: batch=%u base_offset=%" PRId64,
              h->name,
              batch,
              base_offset);
    if (b->is_idempotent && b->acked_offset != -1) {
        sim_check(sim,
                  b->acked_offset == base_offset,
                  "%s: a repeated batch has another offset: batch=%u first=%" PRId64
                  " now=%" PRId64,
                  h->name,
                  batch,
                  b->acked_offset,
                  base_offset);
        return;
    }
    if (b->is_idempotent && b->seen_offset != -1) {
        sim_check(sim,
                  b->seen_offset == base_offset,
                  "%s: acknowledged at another offset than read: batch=%u read=%" PRId64
                  " told=%" PRId64,
                  h->name,
                  batch,
                  b->seen_offset,
                  base_offset);
    }
    b->acked_offset = base_offset;
    if (h->rules.is_keyed) {
        history_keys_acked(h, b, base_offset);
    }
    if (h->acked_count == h->acked_capacity) {
        h->acked = grow(h->acked, &h->acked_capacity, sizeof(*h->acked));
    }
    h->acked[h->acked_count++] =
        (struct acked_batch){.base_offset = base_offset,
                             .batch = batch,
                             .is_memory = b->is_memory_enough || h->rules.is_ack_memory};
    note_acked_end(h, &h->acked[h->acked_count - 1]);
    sim->acked += (uint64_t)b->records_count;
}

/* The batch of the log that starts at or holds offset. */
static const struct seen_batch *find_seen(const struct history *h, int64_t offset)
{
    size_t low = 0;
    size_t high = h->seen_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (h->seen[middle].base_offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low < h->seen_count ? &h->seen[low] : NULL;
}

static void see_first_time(struct history *h, struct sent_batch *b, int64_t base_offset)
{
    struct sim *sim = h->sim;
    uint32_t number = (uint32_t)(b - h->batches);
    const bool is_behind_deleted = base_offset > h->seen_end && base_offset <= h->start;
    sim_check(sim,
              base_offset == h->seen_end || is_behind_deleted,
              "%s: a hole or an overlap: base_offset=%" PRId64 " expected=%" PRId64,
              h->name,
              base_offset,
              h->seen_end);
    b->seen_count++;
    uint32_t allowed = b->is_idempotent ? 1 : b->sent_count;
    sim_check(sim,
              b->seen_count <= allowed,
              "%s: a batch stands there twice: batch=%u first=%" PRId64 " again=%" PRId64
              " sent=%u",
              h->name,
              number,
              b->seen_offset,
              base_offset,
              b->sent_count);
    if (b->is_idempotent && b->acked_offset != -1) {
        sim_check(sim,
                  b->acked_offset == base_offset,
                  "%s: an acknowledged batch moved: batch=%u told=%" PRId64 " read=%" PRId64,
                  h->name,
                  number,
                  b->acked_offset,
                  base_offset);
    }
    b->seen_offset = base_offset;
    if (h->seen_count == h->seen_capacity) {
        h->seen = grow(h->seen, &h->seen_capacity, sizeof(*h->seen));
    }
    h->seen[h->seen_count++] = (struct seen_batch){.base_offset = base_offset, .batch = number};
    h->seen_end = base_offset + b->records_count;
}

/* It stands where nobody had read before what is there was deleted: this answer is an old one. */
static bool is_in_hole(const struct history *h, int64_t base_offset, int64_t end)
{
    const struct seen_batch *before = find_seen(h, base_offset);
    if (end > h->start || before == NULL) {
        return false;
    }
    const bool is_first = before->base_offset > base_offset;
    return is_first || before->base_offset + h->batches[before->batch].records_count <= base_offset;
}

static int64_t read_one(struct history *h, int64_t offset, struct slice bytes, bool is_first)
{
    struct sim *sim = h->sim;
    struct batch_header header;
    enum err e = batch_header_decode(bytes, &header);
    sim_check(sim, e == ERR_OK, "%s: a batch that is none at %" PRId64, h->name, offset);
    sim_check(sim,
              batch_crc_matches(bytes),
              "%s: a batch with a wrong checksum: base_offset=%" PRId64,
              h->name,
              header.base_offset);
    struct sent_batch *b = find(h, hash_of(h, bytes));
    sim_check(sim,
              b != NULL,
              "%s: a batch that nobody sent: base_offset=%" PRId64 " size=%zu",
              h->name,
              header.base_offset,
              bytes.size);
    const bool is_as_sent = (b->codecs & HISTORY_CODEC_AS_SENT) != 0;
    sim_check(sim,
              is_as_sent || (b->codecs & (UINT32_C(1) << batch_codec(&header))) != 0,
              "%s: a batch in another codec: base_offset=%" PRId64 " attributes=%d codecs=%x",
              h->name,
              header.base_offset,
              header.attributes,
              b->codecs);
    int64_t end = header.base_offset + b->records_count;
    bool is_placed =
        is_first ? header.base_offset <= offset && end > offset : header.base_offset == offset;
    sim_check(sim,
              is_placed,
              "%s: the batch at %" PRId64 " does not follow %" PRId64,
              h->name,
              header.base_offset,
              offset);
    if (header.base_offset >= h->seen_end) {
        see_first_time(h, b, header.base_offset);
        return end;
    }
    if (is_in_hole(h, header.base_offset, end)) {
        return end;
    }
    const struct seen_batch *seen = find_seen(h, header.base_offset);
    sim_check(sim,
              seen != NULL && seen->base_offset == header.base_offset &&
                  seen->batch == (uint32_t)(b - h->batches),
              "%s: another batch than before at %" PRId64,
              h->name,
              header.base_offset);
    return end;
}

static int64_t batch_end_offset(const struct batch_header *header)
{
    return header->base_offset + header->last_offset_delta + 1;
}

int64_t history_read(struct history *h, int64_t offset, struct slice bytes)
{
    bool is_first = true;
    while (bytes.size > 0) {
        struct batch_header header;
        if (batch_header_decode(bytes, &header) == ERR_EOF) {
            return offset; /* The last batch of an answer may be cut. */
        }
        size_t size = batch_size(&header);
        sim_check(h->sim, size <= bytes.size, "%s: a batch of size %zu", h->name, size);
        const struct slice batch = slice_of(bytes.data, size);
        history_epoch_read(h, header.base_offset, batch_end_offset(&header), header.leader_epoch);
        offset = h->rules.is_keyed ? history_keys_read(h, offset, batch)
                                   : read_one(h, offset, batch, is_first);
        bytes = slice_of(bytes.data + size, bytes.size - size);
        is_first = false;
    }
    return offset;
}

void history_high_watermark(struct history *h, int64_t known, int64_t told)
{
    sim_check(h->sim,
              told >= known,
              "%s: the high watermark fell: from=%" PRId64 " to=%" PRId64,
              h->name,
              known,
              told);
    if (told > h->high_watermark) {
        h->high_watermark = told;
    }
}

/* Retention by time alone takes what is old enough; where compaction may have taken what was young,
 * nobody can say. */
static void check_aged(const struct history *h, int64_t start)
{
    const int64_t now_ms = clock_wall_ms(&h->sim->clock.clock);
    for (size_t i = 0; i < h->acked_count; i++) {
        const struct acked_batch *a = &h->acked[i];
        const struct sent_batch *b = &h->batches[a->batch];
        const bool is_taken = a->base_offset >= h->start_asked && a->base_offset >= h->start &&
                              a->base_offset < start;
        sim_check(h->sim,
                  !is_taken || b->max_timestamp + h->rules.retention_ms < now_ms,
                  "%s: retention took a young batch: base_offset=%" PRId64 " timestamp=%" PRId64
                  " now=%" PRId64 " start=%" PRId64,
                  h->name,
                  a->base_offset,
                  b->max_timestamp,
                  now_ms,
                  start);
    }
}

static bool is_retained(const struct history *h)
{
    return h->rules.retention_ms >= 0 || h->rules.is_retained_by_size;
}

void history_start(struct history *h, int64_t known, int64_t told)
{
    sim_check(h->sim,
              told >= known,
              "%s: the log start fell: from=%" PRId64 " to=%" PRId64,
              h->name,
              known,
              told);
    if (told <= h->start) {
        return;
    }
    sim_check(h->sim,
              told <= h->start_asked || is_retained(h),
              "%s: nobody wanted such a log start: told=%" PRId64 " asked=%" PRId64,
              h->name,
              told,
              h->start_asked);
    if (!h->rules.is_retained_by_size && !h->rules.is_keyed) {
        check_aged(h, told);
    }
    h->start = told;
    h->high_watermark = told > h->high_watermark ? told : h->high_watermark;
}

void history_ask_start(struct history *h, int64_t offset)
{
    const int64_t wanted = offset == -1 ? INT64_MAX : offset;
    h->start_asked = wanted > h->start_asked ? wanted : h->start_asked;
}

bool history_may_be_deleted(const struct history *h, int64_t offset)
{
    return offset < h->start_asked || offset < h->start || is_retained(h);
}

void history_crashed(struct history *h)
{
    size_t kept = 0;
    h->acked_end = 0;
    for (size_t i = 0; i < h->acked_count; i++) {
        if (!h->acked[i].is_memory || h->acked[i].base_offset < h->seen_end) {
            h->acked[kept++] = h->acked[i];
            note_acked_end(h, &h->acked[i]);
        }
    }
    h->acked_count = kept;
}

void history_begin_final(struct history *h)
{
    if (h->rules.is_keyed) {
        history_keys_begin_final(h);
    }
}

void history_finish(struct history *h)
{
    if (h->rules.is_keyed) {
        history_keys_finish(h);
        return;
    }
    for (size_t i = 0; i < h->acked_count; i++) {
        const struct acked_batch *a = &h->acked[i];
        const struct seen_batch *seen = find_seen(h, a->base_offset);
        if (a->base_offset + h->batches[a->batch].records_count <= h->start) {
            continue; /* Deleted. */
        }
        sim_check(h->sim,
                  seen != NULL && seen->base_offset == a->base_offset && seen->batch == a->batch,
                  "%s: an acknowledged batch is gone: batch=%u base_offset=%" PRId64
                  " end=%" PRId64,
                  h->name,
                  a->batch,
                  a->base_offset,
                  h->seen_end);
    }
}
