#include "tests/sim/model_log.h"

#include <stdlib.h>

#include "core/assert.h"

void model_entry_done(struct model_entry *e)
{
    free(e->bytes);
    free(e->timestamps);
    free(e->records);
}

void model_log_done(struct model_log *m)
{
    model_log_truncate(m, 0);
    free(m->entries);
    *m = (struct model_log){0};
}

/* The data that the marker at index ends, while it is there. */
static void set_marker(struct model_log *m, uint64_t index, uint64_t marker_index)
{
    const struct model_entry *marker = &m->entries[index - 1];
    for (uint64_t i = index - 1; i > 0; i--) {
        struct model_entry *e = &m->entries[i - 1];
        if (e->identity.producer_id != marker->identity.producer_id) {
            continue;
        }
        if (e->is_marker) {
            return;
        }
        e->marker_index = e->is_transactional ? marker_index : 0;
    }
}

void model_log_append(struct model_log *m, const struct model_entry *e)
{
    if (m->last_index == m->capacity) {
        m->capacity = m->capacity == 0 ? 64 : m->capacity * 2;
        m->entries = realloc(m->entries, m->capacity * sizeof(*m->entries));
        assert(m->entries != NULL);
    }
    m->entries[m->last_index++] = *e;
    if (e->is_marker) {
        set_marker(m, m->last_index, m->last_index);
    }
}

void model_log_truncate(struct model_log *m, uint64_t last_index)
{
    while (m->last_index > last_index) {
        struct model_entry *e = &m->entries[m->last_index - 1];
        if (e->is_marker) {
            set_marker(m, m->last_index, 0);
        }
        m->last_index--;
        m->rotten_count -= e->is_rotten;
        m->given_up_count -= e->is_given_up;
        model_entry_done(e);
    }
    if (m->flushed_index > last_index) {
        m->flushed_index = last_index;
    }
}

void model_log_lose(struct model_log *m, uint64_t first_index, uint64_t end_index)
{
    for (uint64_t i = first_index; i < end_index && i <= m->last_index; i++) {
        struct model_entry *e = &m->entries[i - 1];
        m->rotten_count += !e->is_rotten;
        e->is_rotten = true;
    }
}

void model_log_reveal(struct model_log *m, uint64_t index)
{
    struct model_entry *e = &m->entries[index - 1];
    if (e->is_hidden) {
        e->is_hidden = false;
        e->is_rotten = false;
        m->rotten_count--;
    }
}

void model_log_offer(struct model_log *m)
{
    for (uint64_t i = 1; i <= m->last_index; i++) {
        struct model_entry *e = &m->entries[i - 1];
        m->given_up_count += e->is_rotten && !e->is_given_up;
        e->is_given_up |= e->is_rotten;
    }
}

void model_log_give_up(struct model_log *m, uint64_t index)
{
    struct model_entry *e = &m->entries[index - 1];
    assert(e->is_given_up);
    m->rotten_count -= e->is_rotten;
    e->is_rotten = false;
    e->is_hidden = false;
}

void model_log_hide(struct model_log *m, uint64_t first_index, uint64_t end_index)
{
    for (uint64_t i = first_index; i < end_index && i <= m->last_index; i++) {
        struct model_entry *e = &m->entries[i - 1];
        e->is_hidden |= !e->is_rotten;
    }
    model_log_lose(m, first_index, end_index);
}

const struct model_entry *model_log_at(const struct model_log *m, uint64_t index)
{
    assert_cmp(index, >, 0);
    assert_cmp(index, <=, m->last_index);
    return &m->entries[index - 1];
}

int64_t model_log_next_offset(const struct model_log *m, uint64_t index)
{
    return index == 0 ? 0 : model_log_at(m, index)->next_offset;
}

const struct model_entry *model_log_find(const struct model_log *m, int64_t offset)
{
    uint64_t low = 0;
    uint64_t high = m->last_index;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (m->entries[middle].next_offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < m->last_index ? &m->entries[low] : NULL;
}

int64_t model_log_start_up_to(const struct model_log *m, uint64_t index)
{
    int64_t start_offset = 0;
    for (uint64_t i = 1; i <= index; i++) {
        const int64_t offset = model_log_at(m, i)->start_offset;
        start_offset = offset > start_offset ? offset : start_offset;
    }
    return start_offset;
}

void model_log_forget_below(struct model_log *m, uint64_t first_index, uint64_t restored_index)
{
    for (uint64_t i = 1; i < first_index && i <= m->last_index; i++) {
        struct model_entry *e = &m->entries[i - 1];
        m->rotten_count -= e->is_rotten;
        e->is_rotten = false;
        e->is_hidden = false;
        e->is_gone |= i > restored_index;
    }
}
