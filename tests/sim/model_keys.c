#include "tests/sim/model_keys.h"

#include "core/assert.h"

bool model_keys_is_aborted(const struct model_log *m, const struct model_entry *e)
{
    return e->is_transactional && e->marker_index > 0 && model_log_at(m, e->marker_index)->is_abort;
}

static void settle(struct model_log *m, const struct model_entry *e)
{
    if (e->records == NULL || model_keys_is_aborted(m, e)) {
        return;
    }
    for (int64_t offset = e->base_offset; offset < e->next_offset; offset++) {
        m->latest_next[e->records[offset - e->base_offset].key] = offset + 1;
    }
}

void model_keys_commit(struct model_log *m, uint64_t index, int64_t wall_ms)
{
    while (m->commit_index < index) {
        m->entries[m->commit_index++].committed_ms = wall_ms;
    }
    while (m->settled_index < m->commit_index) {
        const struct model_entry *e = model_log_at(m, m->settled_index + 1);
        const bool is_open = e->marker_index == 0 || e->marker_index > m->commit_index;
        if (e->is_transactional && is_open) {
            return;
        }
        settle(m, e);
        m->settled_index++;
    }
}

int64_t model_keys_stable_offset(const struct model_log *m)
{
    return model_log_next_offset(m, m->settled_index);
}

/* Rule 3. */
static bool is_forgettable(const struct model_log *m, uint64_t index, int64_t wall_ms)
{
    return index < m->clean_index_max &&
           wall_ms >= model_log_at(m, index)->committed_ms + m->delete_retention_ms;
}

bool model_keys_may_lack(const struct model_log *m, uint64_t index, int32_t number, int64_t wall_ms)
{
    const struct model_entry *e = model_log_at(m, index);
    const int64_t offset = e->base_offset + number;
    if (offset < m->start_offset || e->is_given_up) {
        return true;
    }
    if (!m->is_compacted || index > m->settled_index || e->records == NULL) {
        return false;
    }
    const struct made_record *r = &e->records[number];
    return model_keys_is_aborted(m, e) || m->latest_next[r->key] > offset + 1 ||
           (r->is_tombstone && is_forgettable(m, index, wall_ms));
}

/* Of those that are committed. */
static bool is_last_of_producer(const struct model_log *m, uint64_t index)
{
    const int64_t id = model_log_at(m, index)->identity.producer_id;
    if (id < 0) {
        return false;
    }
    for (uint64_t i = index + 1; i <= m->commit_index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        if (e->type == ENTRY_DATA && !e->is_marker && e->identity.producer_id == id) {
            return false;
        }
    }
    return true;
}

bool model_keys_may_be_gone(const struct model_log *m, uint64_t index, int64_t wall_ms)
{
    const struct model_entry *e = model_log_at(m, index);
    const bool is_below_start = m->start_offset > 0 && e->next_offset <= m->start_offset;
    if (is_below_start || e->is_given_up) {
        return true;
    }
    if (!m->is_compacted || index > m->settled_index || e->type == ENTRY_LOG_START) {
        return false;
    }
    if (e->type == ENTRY_NOOP) {
        return true;
    }
    if (e->is_marker) {
        return is_forgettable(m, index, wall_ms);
    }
    for (int64_t i = 0; i < e->next_offset - e->base_offset; i++) {
        if (!model_keys_may_lack(m, index, (int32_t)i, wall_ms)) {
            return false;
        }
    }
    return !is_last_of_producer(m, index);
}
