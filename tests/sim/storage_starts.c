/* The log start, moved as the layer above moves it: by entries, each said to the log once it is
 * committed, and once more after each open. What the log has let go of never comes back, and
 * nothing above is let go of. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/model_keys.h"
#include "tests/sim/storage_mode.h"

static void say_start(struct part *p, int64_t offset)
{
    if (offset > p->model.start_offset) {
        p->model.start_offset = offset;
        sim_trace(part_sim(p), "start", p->number, (uint64_t)offset);
        sim_say(part_sim(p), "%s: starts at offset=%" PRId64, p->name, offset);
    }
    log_set_start(p->log, offset);
    sim_check(part_sim(p),
              log_start_offset(p->log) == p->model.start_offset,
              "%s: log_start_offset=%" PRId64 ", not %" PRId64,
              p->name,
              log_start_offset(p->log),
              p->model.start_offset);
}

void part_commit(struct part *p, uint64_t index)
{
    struct model_log *m = &p->model;
    model_keys_commit(m, index, clock_wall_ms(&part_sim(p)->clock.clock));
    log_set_commit(p->log, index);
    const int64_t offset = model_log_start_up_to(m, index);
    if (offset > m->start_offset) {
        say_start(p, offset);
    }
}

/* ---- moves ---- */

struct boundary {
    uint64_t segments_left;
    int64_t offset;
    int64_t offset_max;
};

static bool take_segment(void *context, const struct log_segment_info *info)
{
    struct boundary *b = context;
    if (info->next_offset > b->offset_max) {
        return false;
    }
    b->offset = info->next_offset;
    return --b->segments_left > 0;
}

/* In (low, high]; half of them where a segment ends, as retention does it. */
static int64_t draw_start(struct part *p, int64_t low, int64_t high)
{
    struct sim *sim = part_sim(p);
    struct boundary b = {.segments_left = sim_between(sim, 1, 4), .offset_max = high};
    log_each_segment(p->log, &b, take_segment);
    if (b.offset > low && rand_one_in(&sim->rand, 2)) {
        return b.offset;
    }
    return rand_one_in(&sim->rand, 8)
               ? high
               : low + (int64_t)sim_log_between(sim, 1, (uint64_t)(high - low));
}

void part_act_start(struct part *p)
{
    struct model_log *m = &p->model;
    const int64_t low = model_log_start_up_to(m, m->last_index);
    const int64_t high = model_log_next_offset(m, m->commit_index);
    if (!p->is_trimmed || p->is_end_lost || high <= low) {
        return;
    }
    struct entry_log_start *payload = malloc(sizeof(*payload));
    assert(payload != NULL);
    struct model_entry e = {
        .type = ENTRY_LOG_START,
        .bytes = (uint8_t *)payload,
        .size = sizeof(*payload),
        .start_offset = draw_start(p, low, high),
    };
    entry_log_start_encode(e.start_offset, payload);
    (void)part_append(p, &e);
}

/* ---- opening ---- */

void part_starts_learn(struct part *p)
{
    struct model_log *m = &p->model;
    const uint64_t first_index = log_first_index(p->log);
    sim_check(part_sim(p),
              first_index <= m->last_index + 1 &&
                  model_log_next_offset(m, first_index - 1) <= m->start_offset,
              "%s: begins with index=%" PRIu64 ", and starts at offset=%" PRId64,
              p->name,
              first_index,
              m->start_offset);
    model_log_forget_below(m, first_index, p->restored_index);
    if (p->replay_index < first_index - 1) {
        p->replay_index = first_index - 1;
    }
}

/* What it knows by itself, and what it replayed or restored tells, is what it was told before. */
void part_starts_opened(struct part *p)
{
    struct model_log *m = &p->model;
    const int64_t own = log_start_offset(p->log);
    sim_check(part_sim(p),
              log_first_index(p->log) > m->last_index || own <= m->start_offset,
              "%s: opened with log_start_offset=%" PRId64 ", not %" PRId64,
              p->name,
              own,
              m->start_offset);
    int64_t told = p->restored_start > own ? p->restored_start : own;
    for (uint64_t i = log_first_index(p->log); i <= m->commit_index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        const bool is_replayed = i > p->restored_index && !e->is_rotten;
        told = is_replayed && e->start_offset > told ? e->start_offset : told;
    }
    if (model_log_is_damaged(m)) {
        told = m->start_offset; /* What tells of it may be lost. */
    }
    if (m->start_offset > 0) {
        say_start(p, told);
    }
}
