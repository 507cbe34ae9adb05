/* What a compacted log gives, against what it may have taken away: each batch is the one that was
 * appended, less records that model_keys says may lack; and what a whole replay leaves of each key
 * is what the log says of it. */
#include <inttypes.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/model_keys.h"
#include "tests/sim/storage_mode.h"

enum {
    RECORDS_SIZE_MAX = 16 << 20,
};

/* A batch being walked. */
struct opened_batch {
    struct batch_header h;
    struct wbuf plain;
    struct record_cursor cursor;
};

static void open_batch(struct part *p, struct slice batch, struct opened_batch *ret)
{
    wbuf_init(&ret->plain, RECORDS_SIZE_MAX);
    struct slice records;
    enum err e = batch_header_decode(batch, &ret->h);
    if (e == ERR_OK) {
        e = batch_records(batch, RECORDS_SIZE_MAX, &ret->plain, &records);
    }
    sim_check(
        part_sim(p), e == ERR_OK, "%s: a batch that cannot be read: %s", p->name, err_name(e));
    record_cursor_init(&ret->cursor, &ret->h, records);
}

static int64_t wall_ms(const struct part *p)
{
    return clock_wall_ms(&p->run->sim->clock.clock);
}

static bool is_slice_same(struct slice a, struct slice b)
{
    return slice_is_null(a) == slice_is_null(b) && a.size == b.size &&
           (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool is_record_same(const struct record *a, const struct record *b)
{
    return a->offset == b->offset && a->timestamp == b->timestamp &&
           is_slice_same(a->key, b->key) && is_slice_same(a->value, b->value);
}

static void
check_header(struct part *p, const struct batch_header *h, const struct batch_header *was)
{
    const int16_t kept = ~(BATCH_CODEC_MASK | BATCH_DELETE_HORIZON);
    const bool is_same =
        h->base_offset == was->base_offset && h->last_offset_delta == was->last_offset_delta &&
        h->leader_epoch == was->leader_epoch && h->producer_id == was->producer_id &&
        h->producer_epoch == was->producer_epoch && h->base_sequence == was->base_sequence &&
        (h->attributes & kept) == (was->attributes & kept);
    sim_check(part_sim(p),
              is_same,
              "%s: a batch has other fields: base_offset=%" PRId64,
              p->name,
              was->base_offset);
}

static void
compare(struct part *p, const struct model_entry *e, struct slice batch, struct part_batch *ret)
{
    struct sim *sim = part_sim(p);
    const uint64_t index = model_log_index_of(&p->model, e);
    struct opened_batch was;
    struct opened_batch is;
    open_batch(p, slice_of(e->bytes, e->size), &was);
    open_batch(p, batch, &is);
    check_header(p, &is.h, &was.h);
    sim_check(sim, batch_crc_matches(batch), "%s: index=%" PRIu64 ": bad CRC", p->name, index);
    struct record wanted;
    struct record next;
    bool has_next = record_next(&is.cursor, &next) == ERR_OK;
    for (int32_t i = 0; record_next(&was.cursor, &wanted) == ERR_OK; i++) {
        if (has_next && is_record_same(&next, &wanted)) {
            ret->has[i] = true;
            ret->count++;
            ret->max_timestamp =
                next.timestamp > ret->max_timestamp ? next.timestamp : ret->max_timestamp;
            has_next = record_next(&is.cursor, &next) == ERR_OK;
            continue;
        }
        sim_check(sim,
                  model_keys_may_lack(&p->model, index, i, wall_ms(p)),
                  "%s: a record is gone: index=%" PRIu64 " offset=%" PRId64,
                  p->name,
                  index,
                  wanted.offset);
    }
    sim_check(sim, !has_next, "%s: a record of nobody: offset=%" PRId64, p->name, next.offset);
    wbuf_done(&was.plain);
    wbuf_done(&is.plain);
}

void part_keys_compare(struct part *p,
                       const struct model_entry *e,
                       struct slice batch,
                       struct part_batch *ret)
{
    const int64_t count = e->next_offset - e->base_offset;
    assert_cmp(count, <=, PART_RECORDS_MAX);
    *ret = (struct part_batch){.max_timestamp = -1};
    if (batch.size != e->size || memcmp(batch.data, e->bytes, e->size) != 0) {
        sim_check(part_sim(p),
                  p->model.is_compacted,
                  "%s: other bytes: base_offset=%" PRId64,
                  p->name,
                  e->base_offset);
        compare(p, e, batch, ret);
        return;
    }
    ret->max_timestamp = e->max_timestamp;
    ret->count = (int32_t)count;
    memset(ret->has, true, (size_t)count * sizeof(ret->has[0]));
}

/* ---- a whole replay ---- */

/* What ended it may yet be gone: until it is settled, its data counts. */
static bool is_settled_abort(const struct model_log *m, const struct model_entry *e)
{
    return model_log_index_of(m, e) <= m->settled_index && model_keys_is_aborted(m, e);
}

/* Of what lies below the clean index, nothing superseded or aborted is there. */
static void note(struct part *p, const struct model_entry *e, int32_t number, bool is_clean)
{
    const int64_t offset = e->base_offset + number;
    const bool is_aborted = is_settled_abort(&p->model, e);
    int64_t *latest_next = &p->replayed_next[e->records[number].key];
    sim_check(part_sim(p),
              !is_clean || (!is_aborted && *latest_next == 0),
              "%s: offset=%" PRId64 " is below the clean index=%" PRIu64 ", and %s is there",
              p->name,
              offset,
              log_clean_index(p->log),
              is_aborted ? "of an aborted transaction" : "an older record of its key");
    if (!is_aborted) {
        *latest_next = offset + 1;
    }
}

void part_keys_replay(struct part *p, const struct model_entry *e, const struct part_batch *batch)
{
    if (e->records == NULL) {
        return;
    }
    const bool is_clean = model_log_index_of(&p->model, e) < log_clean_index(p->log);
    for (int32_t i = 0; i < e->next_offset - e->base_offset; i++) {
        if (batch->has[i] && e->base_offset + i >= p->model.start_offset) {
            note(p, e, i, is_clean);
        }
    }
}

/* Data of its transaction must not look like that of an open one. */
static void check_marker_gone(struct part *p, uint64_t index)
{
    const struct model_log *m = &p->model;
    for (uint64_t i = index - 1; i > p->restored_index; i--) {
        const struct model_entry *e = model_log_at(m, i);
        if (e->identity.producer_id != model_log_at(m, index)->identity.producer_id) {
            continue;
        }
        if (e->is_marker) {
            return;
        }
        sim_check(part_sim(p),
                  e->is_gone || e->is_empty || e->marker_index != index,
                  "%s: data at index=%" PRIu64 " has lost its marker at index=%" PRIu64,
                  p->name,
                  i,
                  index);
    }
}

void part_keys_replay_gone(struct part *p, uint64_t index)
{
    sim_check(part_sim(p),
              model_keys_may_be_gone(&p->model, index, wall_ms(p)),
              "%s: an entry is gone: index=%" PRIu64,
              p->name,
              index);
    const struct model_entry *e = model_log_at(&p->model, index);
    if (e->is_marker && !e->is_given_up) {
        check_marker_gone(p, index);
    }
}

/* The last record of each key that the log start left, transactions that were aborted apart. */
static void find_latest(const struct model_log *m, int64_t latest_next[SIM_KEYS_MAX])
{
    memset(latest_next, 0, SIM_KEYS_MAX * sizeof(latest_next[0]));
    for (uint64_t i = 1; i <= m->last_index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        if (e->records == NULL || is_settled_abort(m, e)) {
            continue;
        }
        for (int64_t offset = e->base_offset; offset < e->next_offset; offset++) {
            if (offset >= m->start_offset) {
                latest_next[e->records[offset - e->base_offset].key] = offset + 1;
            }
        }
    }
}

static bool is_tombstone(const struct model_log *m, int64_t offset)
{
    const struct model_entry *e = model_log_find(m, offset);
    return e->records[offset - e->base_offset].is_tombstone;
}

void part_keys_replayed(struct part *p)
{
    const struct model_log *m = &p->model;
    const bool is_whole = !model_log_is_damaged(m) && m->given_up_count == 0;
    if (!m->is_compacted || p->restored_index > 0 || !is_whole) {
        return;
    }
    int64_t latest_next[SIM_KEYS_MAX];
    find_latest(m, latest_next);
    for (uint32_t key = 0; key < SIM_KEYS_MAX; key++) {
        const int64_t wanted = latest_next[key];
        const int64_t found = p->replayed_next[key];
        const bool is_removed = wanted > 0 && found == 0 && is_tombstone(m, wanted - 1);
        sim_check(part_sim(p),
                  found == wanted || is_removed,
                  "%s: key=%u was last seen at offset=%" PRId64 ", not at %" PRId64,
                  p->name,
                  key,
                  found - 1,
                  wanted - 1);
    }
}
