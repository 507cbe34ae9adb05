#include <inttypes.h>
#include <string.h>

#include "core/assert.h"
#include "core/rbuf.h"
#include "storage/compaction.h"
#include "storage/producer_state.h"

#include "tests/sim/model_keys.h"
#include "tests/sim/storage_mode.h"

struct sim *part_sim(const struct part *p)
{
    return p->run->sim;
}

static void draw_policy(struct part *p)
{
    struct sim *sim = part_sim(p);
    struct model_log *m = &p->model;
    m->is_compacted = sim_chance(sim, sim->swarm.compacted_percent);
    m->delete_retention_ms = (int64_t)sim_log_between(sim, 0, 10 * 1000);
    p->is_trimmed = !m->is_compacted || rand_one_in(&sim->rand, 2);
    p->has_transactions = m->is_compacted && rand_one_in(&sim->rand, 2);
    p->compaction = (struct compaction_config){
        .is_compacted = m->is_compacted,
        .dirty_ratio_min = rand_one_in(&sim->rand, 3) ? 0.5 : 0,
        .lag_ms_min = rand_one_in(&sim->rand, 4) ? 50 : 0,
        .lag_ms_max = rand_one_in(&sim->rand, 4) ? 100 : INT64_MAX,
        .delete_retention_ms = m->delete_retention_ms,
    };
}

void part_renew(struct part *p)
{
    struct sim *sim = part_sim(p);
    model_log_done(&p->model);
    draw_policy(p);
    p->lives_count++;
    p->id = (struct partition_id){.topic_id = rand_uuid(&sim->rand), .partition = 0};
    (void)snprintf(p->name, sizeof(p->name), "t%u-l%u-0", p->number, p->lives_count);
    p->vote_put = 0;
    p->vote_durable = 0;
    p->term = 0;
    p->batches_count = 0;
    p->has_leftovers = true;
    p->state = PART_NONE;
    p->log = NULL;
}

void part_forget(struct part *p)
{
    if (p->state == PART_DELETING) {
        part_renew(p); /* Half deleted: nobody opens such a log again. */
    }
    p->state = PART_NONE;
    p->log = NULL;
    p->reads_count = 0;
}

/* ---- opening ---- */

static void check_batch(struct part *p, struct model_entry *e, const struct log_entry *entry)
{
    struct part_batch found;
    part_keys_compare(p, e, entry->payload, &found);
    sim_check(part_sim(p),
              entry->max_timestamp == found.max_timestamp,
              "%s: entry has another timestamp: index=%" PRIu64 " at=%" PRId64 ", not %" PRId64,
              p->name,
              entry->index,
              entry->max_timestamp,
              found.max_timestamp);
    e->is_empty = found.count == 0;
    part_keys_replay(p, e, &found);
}

static void check_entry(struct part *p, struct model_entry *e, const struct log_entry *entry)
{
    struct sim *sim = part_sim(p);
    bool is_same = entry->type == e->type && entry->term == e->term &&
                   entry->base_offset == e->base_offset && entry->next_offset == e->next_offset;
    sim_check(sim, is_same, "%s: entry has other fields: index=%" PRIu64, p->name, entry->index);
    if (e->type == ENTRY_DATA) {
        check_batch(p, e, entry);
        return;
    }
    bool is_content_same = entry->max_timestamp == e->max_timestamp &&
                           entry->payload.size == e->size &&
                           (e->size == 0 || memcmp(entry->payload.data, e->bytes, e->size) == 0);
    sim_check(sim,
              is_content_same,
              "%s: entry has other bytes: index=%" PRIu64 " size=%zu",
              p->name,
              entry->index,
              entry->payload.size);
}

/* A gap stands where entries went. Of one that was given up nobody knows the term, only that it is
 * not below those before. */
static void take_gap(struct part *p, const struct log_entry *entry)
{
    struct model_log *m = &p->model;
    bool is_same = entry->base_offset == model_log_at(m, entry->index)->base_offset &&
                   entry->next_offset == model_log_at(m, entry->last_index)->next_offset;
    for (uint64_t i = entry->index; i <= entry->last_index; i++) {
        struct model_entry *e = &m->entries[i - 1];
        is_same &= e->is_given_up ? entry->term <= e->term : entry->term == e->term;
        part_keys_replay_gone(p, i);
        model_log_reveal(m, i);
        e->is_gone = true;
        if (e->is_given_up) {
            model_log_give_up(m, i);
        }
    }
    sim_check(part_sim(p),
              is_same,
              "%s: a gap with other fields: index=%" PRIu64 "..%" PRIu64,
              p->name,
              entry->index,
              entry->last_index);
}

static void take_entry(struct part *p, const struct log_entry *entry)
{
    struct model_log *m = &p->model;
    struct model_entry *e = &m->entries[entry->index - 1];
    check_entry(p, e, entry);
    model_log_reveal(m, entry->index);
    sim_check(part_sim(p),
              !e->is_rotten && !e->is_given_up,
              "%s: replay of a damaged entry: index=%" PRIu64,
              p->name,
              entry->index);
    e->is_gone = false;
    e->is_unseen = false;
    part_producers_take(p, e, entry->index);
}

/* What the open has not seen up to end_index is lost, if something happened to it. */
static void lose_unseen(struct part *p, uint64_t end_index)
{
    const uint64_t limit = p->model.is_wounded ? UINT64_MAX : p->model.doubt_index + 1;
    model_log_hide(&p->model, p->replay_index + 1, end_index < limit ? end_index : limit);
}

/* Given up, and told again: something in front of it rotted since. */
static bool is_lost_again(const struct part *p, uint64_t index)
{
    return model_log_at(&p->model, index)->is_given_up && p->model.rotten_count > 0;
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    struct part *p = context;
    struct sim *sim = part_sim(p);
    part_starts_learn(p);
    sim_check(sim,
              entry->index > p->replay_index && entry->last_index <= p->model.last_index,
              "%s: replay of an unknown entry: index=%" PRIu64 " after=%" PRIu64 " last=%" PRIu64,
              p->name,
              entry->index,
              p->replay_index,
              p->model.last_index);
    lose_unseen(p, entry->index);
    for (uint64_t i = p->replay_index + 1; i < entry->index; i++) {
        sim_check(sim,
                  model_log_at(&p->model, i)->is_rotten || is_lost_again(p, i),
                  "%s: replay skips a good entry: index=%" PRIu64,
                  p->name,
                  i);
    }
    if (entry->type == ENTRY_GAP) {
        take_gap(p, entry);
    } else {
        take_entry(p, entry);
    }
    p->replay_index = entry->last_index;
    return ERR_OK;
}

static void on_checkpoint(void *context, struct wbuf *out)
{
    struct part *p = context;
    struct sim *sim = part_sim(p);
    sim_check(sim,
              log_last_index(p->log) == p->model.last_index,
              "%s: a checkpoint in the middle of something",
              p->name);
    const uint32_t padding_size = (uint32_t)rand_below(&sim->rand, sim->swarm.state_size_max + 1);
    wbuf_u32(out, padding_size);
    for (uint32_t i = 0; i < padding_size; i++) {
        wbuf_i8(out, 1);
    }
    wbuf_i64(out, model_log_start_up_to(&p->model, p->model.last_index));
    producer_state_encode(p->producers, out);
}

/* Only of what can never be taken back. */
static enum err on_restore(void *context, struct slice state, uint64_t index)
{
    struct part *p = context;
    const struct model_log *m = &p->model;
    sim_check(part_sim(p),
              index > 0 && index <= m->flushed_index && index <= m->commit_index,
              "%s: checkpoint=%" PRIu64 " flushed=%" PRIu64 " commit=%" PRIu64,
              p->name,
              index,
              m->flushed_index,
              m->commit_index);
    struct rbuf r = rbuf_over(state.data, state.size);
    rbuf_skip(&r, rbuf_u32(&r));
    p->restored_start = rbuf_i64(&r);
    enum err e = producer_state_restore(p->producers, rbuf_bytes(&r, rbuf_left(&r)), index);
    sim_check(part_sim(p), e == ERR_OK, "%s: restored state: %s", p->name, err_name(e));
    p->replay_index = index;
    p->restored_index = index;
    return ERR_OK;
}

/* The ends of all terms; those of entries that the log start let go of may be forgotten. What was
 * damaged may have been the beginning of one. */
static void check_terms(struct part *p)
{
    const struct model_log *m = &p->model;
    const uint64_t first_index = log_first_index(p->log);
    if (m->rotten_count > 0 || m->given_up_count > 0) {
        return;
    }
    uint64_t wanted_term = 0;
    int64_t wanted_offset = 0;
    uint64_t at = 1;
    for (uint64_t term = 0; term <= p->term; term++) {
        for (; at <= m->last_index && model_log_at(m, at)->term <= term; at++) {
            wanted_term = model_log_at(m, at)->term;
            wanted_offset = model_log_at(m, at)->next_offset;
        }
        uint64_t found_term = 0;
        int64_t found_offset = 0;
        bool is_found = log_term_end(p->log, term, &found_term, &found_offset);
        sim_check(part_sim(p),
                  is_found ? found_term == wanted_term && found_offset == wanted_offset
                           : at <= first_index,
                  "%s: term=%" PRIu64 " ends as %" PRIu64 " at=%" PRId64 ", not as %" PRIu64
                  " at=%" PRId64,
                  p->name,
                  term,
                  found_term,
                  found_offset,
                  wanted_term,
                  wanted_offset);
    }
}

/* Below a checkpoint nobody looks for it. */
static uint64_t rotten_above(const struct model_log *m, uint64_t index)
{
    uint64_t count = 0;
    for (uint64_t i = index + 1; i <= m->last_index; i++) {
        count += model_log_at(m, i)->is_rotten;
    }
    return count;
}

/* Damage is what was planted, and nothing else. Returns the last index that the log can have. */
static uint64_t check_damage(struct part *p)
{
    struct sim *sim = part_sim(p);
    struct log_damage ranges[16];
    size_t count = log_damage(p->log, ranges, 16);
    sim_check(sim, count <= 16, "%s: damaged ranges: %zu", p->name, count);
    uint64_t last = p->model.last_index;
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = ranges[i].last_index;
        if (end == UINT64_MAX) {
            last = ranges[i].first_index - 1;
            end = p->model.flushed_index;
        }
        sim_say(sim,
                "%s: damage %" PRIu64 "..%" PRIu64,
                p->name,
                ranges[i].first_index,
                ranges[i].last_index);
        for (uint64_t index = ranges[i].first_index; index <= end; index++) {
            sim_check(sim,
                      index <= p->model.last_index && p->model.rotten_count > 0,
                      "%s: damage where none was done: index=%" PRIu64 " flushed=%" PRIu64,
                      p->name,
                      index,
                      p->model.flushed_index);
            if (index <= p->model.last_index && model_log_at(&p->model, index)->is_rotten) {
                p->model.entries[index - 1].is_unseen = true;
                found++;
            }
        }
    }
    uint64_t planted = rotten_above(&p->model, p->restored_index);
    sim_check(sim,
              found == planted,
              "%s: damage found=%" PRIu64 " planted=%" PRIu64,
              p->name,
              found,
              planted);
    return last;
}

static void check_last(struct part *p, uint64_t last_possible)
{
    struct sim *sim = part_sim(p);
    struct model_log *m = &p->model;
    uint64_t last = log_last_index(p->log);
    bool is_cut = m->cut_index != 0 && last == m->cut_index - 1;
    bool is_damaged_end = last_possible < m->flushed_index;
    p->is_end_lost = is_damaged_end;
    sim_check(sim,
              last >= m->flushed_index || is_cut || is_damaged_end,
              "%s: acknowledged entries are gone: last=%" PRIu64 " flushed=%" PRIu64
              " cut=%" PRIu64,
              p->name,
              last,
              m->flushed_index,
              m->cut_index);
    if (is_damaged_end) {
        return; /* Kept as it is: the log refuses appends. */
    }
    bool is_replayed = last >= p->replay_index;
    for (uint64_t i = p->replay_index + 1; is_replayed && i <= last; i++) {
        is_replayed = model_log_at(m, i)->is_rotten; /* Known to have been there. */
    }
    sim_check(
        sim, is_replayed, "%s: last=%" PRIu64 " replayed=%" PRIu64, p->name, last, p->replay_index);
    sim_check(sim,
              log_flushed_index(p->log) == last,
              "%s: opened with unflushed entries: last=%" PRIu64 " flushed=%" PRIu64,
              p->name,
              last,
              log_flushed_index(p->log));
    model_log_truncate(m, last);
    m->flushed_index = last;
    m->cut_index = 0;
    m->commit_index = m->commit_index < last ? m->commit_index : last;
    sim_check(sim,
              log_next_offset(p->log) == model_log_next_offset(m, last),
              "%s: next_offset=%" PRId64,
              p->name,
              log_next_offset(p->log));
}

static void check_vote(struct part *p)
{
    struct sim *sim = part_sim(p);
    struct store_key key = {.log = p->id, .kind = STORE_VOTE};
    struct slice value;
    uint64_t vote = 0;
    if (store_get(p->run->envs[p->shard].store, &key, &value)) {
        sim_check(sim, value.size == sizeof(vote), "%s: vote of %zu bytes", p->name, value.size);
        memcpy(&vote, value.data, sizeof(vote));
    }
    sim_check(sim,
              vote >= p->vote_durable && vote <= p->vote_put,
              "%s: vote=%" PRIu64 " durable=%" PRIu64 " put=%" PRIu64,
              p->name,
              vote,
              p->vote_durable,
              p->vote_put);
    p->vote_put = vote;
    p->vote_durable = vote;
}

static void on_opened(void *context, enum err e)
{
    struct part *p = context;
    struct sim *sim = part_sim(p);
    p->run->opening_count--;
    if (e != ERR_OK) {
        p->state = PART_NONE;
        p->log = NULL;
    }
    if (e == ERR_CORRUPT && p->is_file_missing) {
        sim_mark(sim, "sim_segment_missing_refused");
        run_settle(p->run);
        return;
    }
    if (e != ERR_OK) {
        run_on_failure(p->run, "log_open", e);
        return;
    }
    sim_check(sim, !p->is_file_missing, "%s: opened without one of its segments", p->name);
    p->state = PART_OPEN;
    p->term++;
    sim_trace(sim, "opened", p->number, log_last_index(p->log));
    sim_say(sim,
            "%s: opened last=%" PRIu64 " flushed=%" PRIu64 " cut=%" PRIu64,
            p->name,
            log_last_index(p->log),
            p->model.flushed_index,
            p->model.cut_index);
    part_starts_learn(p);
    part_repair_learn_end(p);
    lose_unseen(p, p->model.flushed_index + 1);
    if (p->model.is_wounded || p->restored_index < p->model.doubt_index) {
        p->model.doubt_index = p->restored_index;
    }
    p->model.is_wounded = false;
    check_last(p, check_damage(p));
    part_starts_opened(p);
    if (!p->is_end_lost) {
        part_producers_check(p);
        part_keys_replayed(p);
        check_terms(p);
    }
    check_vote(p);
    run_settle(p->run);
}

static void on_flushed(void *context, uint64_t index)
{
    struct part *p = context;
    struct sim *sim = part_sim(p);
    struct model_log *m = &p->model;
    sim_check(sim,
              index <= m->last_index,
              "%s: flushed=%" PRIu64 " last=%" PRIu64,
              p->name,
              index,
              m->last_index);
    for (uint64_t i = m->flushed_index + 1; i <= index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        sim->acked += (uint64_t)(e->next_offset - e->base_offset);
        m->flushed_index = i;
    }
    sim_trace(sim, "flushed", p->number, index);
}

static void on_room(void *context)
{
    (void)context; /* The next act tries again. */
}

static void on_failed(void *context, enum err e)
{
    struct part *p = context;
    run_on_failure(p->run, p->name, e);
}

/* Some replica is often where it was. */
static void on_compacting(void *context, struct log_compaction_bounds *bounds)
{
    struct part *p = context;
    struct model_log *m = &p->model;
    const int64_t stable_offset = model_keys_stable_offset(m);
    if (stable_offset < bounds->stable_offset) {
        bounds->stable_offset = stable_offset;
    }
    if (rand_one_in(&part_sim(p)->rand, 4) && bounds->clean_index > m->clean_index_max) {
        m->clean_index_max = bounds->clean_index;
    }
    if (bounds->clean_index > m->clean_index_max) {
        bounds->clean_index = m->clean_index_max;
    }
}

static bool is_last_of_producer(void *context, const struct batch_header *h)
{
    const struct part *p = context;
    const int64_t end_offset = model_log_next_offset(&p->model, p->model.commit_index);
    return producer_state_is_last(p->producers, h, end_offset);
}

static const struct log_callbacks callbacks = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_failed,
    .on_replay = on_replay,
    .on_checkpoint = on_checkpoint,
    .on_restore = on_restore,
    .on_compacting = on_compacting,
    .is_last_of_producer = is_last_of_producer,
    .on_opened = on_opened,
};

void part_open(struct part *p)
{
    struct sim *sim = part_sim(p);
    const struct sim_swarm *w = &sim->swarm;
    p->shard = (uint16_t)(partition_id_hash(1, &p->id) % p->run->life.machine.shards_count);
    p->state = PART_OPENING;
    p->is_end_lost = false;
    p->replay_index = 0;
    p->restored_index = 0;
    p->restored_start = 0;
    memset(p->replayed_next, 0, sizeof(p->replayed_next));
    part_producers_reset(p);
    p->writes_count = 0;
    p->run->opening_count++;
    enum err e =
        log_open(&(struct log_open){.env = &p->run->envs[p->shard].env,
                                    .id = p->id,
                                    .name = p->name,
                                    .options = {.segment_size_max = w->segment_size_max,
                                                .fill_step_min = w->fill_step_min,
                                                .fill_step_max = w->fill_step_max,
                                                .index_interval = w->index_interval,
                                                .index_size_max = w->points_size_max,
                                                .segment_age_ms_max = w->segment_age_ms,
                                                .segment_jitter_ms_max = w->segment_jitter_ms,
                                                .checkpoint_size = w->checkpoint_size},
                                    .callbacks = &callbacks,
                                    .context = p},
                 &p->log);
    sim_check(sim, e == ERR_OK, "%s: log_open: %s", p->name, err_name(e));
    log_set_compaction(p->log, &p->compaction);
}

static void on_closed(void *context)
{
    struct part *p = context;
    p->state = PART_NONE;
    p->log = NULL;
    p->run->waiting_count--;
    run_settle(p->run);
}

void part_close(struct part *p)
{
    assert(p->state == PART_OPEN);
    p->state = PART_CLOSING;
    p->run->waiting_count++;
    log_close(p->log, p, on_closed);
}
