#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/batches.h"
#include "tests/sim/storage_mode.h"

enum {
    READ_SIZE_MAX = 512 << 10,
    READS_MAX = 8,
};

static struct sim *sim_of(const struct part *p)
{
    return p->run->sim;
}

void part_renew(struct part *p)
{
    struct sim *sim = sim_of(p);
    model_log_done(&p->model);
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

static void check_entry(struct part *p, const struct log_entry *entry)
{
    struct sim *sim = sim_of(p);
    const struct model_entry *e = model_log_at(&p->model, entry->index);
    bool is_same = entry->type == e->type && entry->term == e->term &&
                   entry->base_offset == e->base_offset && entry->next_offset == e->next_offset &&
                   entry->max_timestamp == e->max_timestamp;
    sim_check(sim, is_same, "%s: entry has other fields: index=%" PRIu64, p->name, entry->index);
    bool is_content_same =
        entry->payload.size + entry->payload_rest.size == e->size &&
        (e->size == 0 || memcmp(entry->payload.data, e->bytes, entry->payload.size) == 0);
    sim_check(sim,
              is_content_same,
              "%s: entry has other bytes: index=%" PRIu64 " size=%zu",
              p->name,
              entry->index,
              entry->payload.size);
}

static enum err on_replay(void *context, const struct log_entry *entry)
{
    struct part *p = context;
    struct sim *sim = sim_of(p);
    sim_check(sim,
              entry->index > p->replay_index && entry->index <= p->model.last_index,
              "%s: replay of an unknown entry: index=%" PRIu64 " after=%" PRIu64 " last=%" PRIu64,
              p->name,
              entry->index,
              p->replay_index,
              p->model.last_index);
    for (uint64_t i = p->replay_index + 1; i < entry->index; i++) {
        sim_check(sim,
                  model_log_at(&p->model, i)->is_rotten,
                  "%s: replay skips a good entry: index=%" PRIu64,
                  p->name,
                  i);
    }
    check_entry(p, entry);
    sim_check(sim,
              !model_log_at(&p->model, entry->index)->is_rotten,
              "%s: replay of a damaged entry: index=%" PRIu64,
              p->name,
              entry->index);
    p->replay_index = entry->index;
    part_producers_take(p, model_log_at(&p->model, entry->index), entry->index);
    return ERR_OK;
}

/* Damage is what was planted, and nothing else. Returns the last index that the log can have. */
static uint64_t check_damage(struct part *p)
{
    struct sim *sim = sim_of(p);
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
            found += index <= p->model.last_index && model_log_at(&p->model, index)->is_rotten;
        }
    }
    sim_check(sim,
              found == p->model.rotten_count,
              "%s: damage found=%" PRIu64 " planted=%" PRIu64,
              p->name,
              found,
              p->model.rotten_count);
    return last;
}

static void check_last(struct part *p, uint64_t last_possible)
{
    struct sim *sim = sim_of(p);
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
    struct sim *sim = sim_of(p);
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
    struct sim *sim = sim_of(p);
    p->run->opening_count--;
    if (e != ERR_OK) {
        p->state = PART_NONE;
        p->log = NULL;
        run_on_failure(p->run, "log_open", e);
        return;
    }
    p->state = PART_OPEN;
    p->term++;
    sim_trace(sim, "opened", p->number, log_last_index(p->log));
    sim_say(sim,
            "%s: opened last=%" PRIu64 " flushed=%" PRIu64 " cut=%" PRIu64,
            p->name,
            log_last_index(p->log),
            p->model.flushed_index,
            p->model.cut_index);
    check_last(p, check_damage(p));
    if (!p->is_end_lost) {
        part_producers_check(p);
    }
    check_vote(p);
    run_settle(p->run);
}

static void on_flushed(void *context, uint64_t index)
{
    struct part *p = context;
    struct sim *sim = sim_of(p);
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

static const struct log_callbacks callbacks = {
    .on_flushed = on_flushed,
    .on_room = on_room,
    .on_failed = on_failed,
    .on_replay = on_replay,
    .on_opened = on_opened,
};

void part_open(struct part *p)
{
    struct sim *sim = sim_of(p);
    const struct sim_swarm *w = &sim->swarm;
    p->shard = (uint16_t)(partition_id_hash(1, &p->id) % p->run->machine.shards_count);
    p->state = PART_OPENING;
    p->is_end_lost = false;
    p->replay_index = 0;
    part_producers_reset(p);
    p->writes_count = 0;
    p->run->opening_count++;
    enum err e = log_open(&(struct log_open){.env = &p->run->envs[p->shard].env,
                                             .id = p->id,
                                             .name = p->name,
                                             .options = {.segment_size_max = w->segment_size_max,
                                                         .fill_step_min = w->fill_step_min,
                                                         .fill_step_max = w->fill_step_max,
                                                         .index_interval = w->index_interval},
                                             .callbacks = &callbacks,
                                             .context = p},
                          &p->log);
    sim_check(sim, e == ERR_OK, "%s: log_open: %s", p->name, err_name(e));
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

/* ---- acts ---- */

/* The bytes as they will stand on disk. */
static void make_data(struct part *p, struct model_entry *e, int32_t records_count)
{
    struct sim *sim = sim_of(p);
    bool is_large =
        sim->swarm.large_one_in != 0 && rand_one_in(&sim->rand, sim->swarm.large_one_in);
    e->identity = part_producers_draw(p);
    struct made_batch b =
        batch_make(sim,
                   &(struct batch_wish){
                       .label = p->name,
                       .number = p->batches_count++,
                       .records_count = records_count,
                       .record_size_max = is_large ? 8 << 10 : sim->swarm.record_size_max,
                       .wall_ms = clock_wall_ms(&sim->clock.clock),
                       .identity = e->identity,
                   });
    e->next_offset = e->base_offset + b.records_count;
    e->max_timestamp = b.max_timestamp;
    e->bytes = b.bytes;
    e->size = b.size;
    e->timestamps = b.timestamps;
    batch_stamp(e->bytes, e->base_offset, (int32_t)e->term);
    part_producers_judge(p, e);
}

static bool is_refusal_allowed(const struct part *p, enum err e)
{
    if (e == ERR_BUSY) {
        return true;
    }
    if (e == ERR_NO_SPACE) {
        return p->run->is_full_allowed;
    }
    return p->model.rotten_count > 0;
}

bool part_append(struct part *p)
{
    struct sim *sim = sim_of(p);
    struct model_log *m = &p->model;
    struct model_entry e = {.type = ENTRY_DATA,
                            .term = p->term,
                            .base_offset = model_log_next_offset(m, m->last_index),
                            .max_timestamp = -1};
    e.next_offset = e.base_offset;
    if (rand_one_in(&sim->rand, 30)) {
        e.type = ENTRY_NOOP;
    } else {
        make_data(p, &e, (int32_t)sim_between(sim, 1, sim->swarm.batch_records_max));
    }
    struct log_entry entry = {.type = e.type,
                              .term = e.term,
                              .base_offset = e.base_offset,
                              .next_offset = e.next_offset,
                              .max_timestamp = e.max_timestamp,
                              .payload = slice_of(e.bytes, e.size)};
    if (e.size > 0 && rand_one_in(&sim->rand, 2)) {
        entry.payload = slice_of(e.bytes, ENTRY_HEAD_SIZE);
        entry.payload_rest = slice_of(e.bytes + ENTRY_HEAD_SIZE, e.size - ENTRY_HEAD_SIZE);
    }
    uint64_t index = 0;
    enum err result = log_append(p->log, &entry, &index);
    if (result != ERR_OK) {
        sim_check(sim,
                  p->run->is_dead || is_refusal_allowed(p, result),
                  "%s: log_append: %s",
                  p->name,
                  err_name(result));
        free(e.bytes);
        free(e.timestamps);
        return false;
    }
    sim_check(sim,
              index == m->last_index + 1,
              "%s: appended at %" PRIu64 ", last=%" PRIu64,
              p->name,
              index,
              m->last_index);
    model_log_append(m, &e);
    part_producers_take(p, &e, index);
    sim_trace(sim, "append", p->number, index);
    return true;
}

struct read_probe {
    struct log_read read;
    struct part *part;
    uint64_t cuts_count;
    uint8_t *dst;
};

/* The result against the model: whole batches from the one that holds the offset. */
static void check_read(struct read_probe *probe)
{
    struct part *p = probe->part;
    struct sim *sim = sim_of(p);
    const struct log_read *r = &probe->read;
    const struct model_entry *e = model_log_find(&p->model, r->offset);
    assert(e != NULL);
    size_t done = 0;
    const struct model_entry *end = p->model.entries + p->model.last_index;
    sim_check(sim, r->size > 0, "%s: an empty read: offset=%" PRId64, p->name, r->offset);
    for (; done < r->size; e++) {
        sim_check(sim,
                  e < end && e->next_offset <= r->end_offset,
                  "%s: a read beyond its end: offset=%" PRId64 " size=%zu",
                  p->name,
                  r->offset,
                  r->size);
        if (e->next_offset == e->base_offset) {
            continue;
        }
        bool is_same =
            r->size - done >= e->size && memcmp(probe->dst + done, e->bytes, e->size) == 0;
        sim_check(sim,
                  is_same && !e->is_rotten,
                  "%s: a read gives other bytes: offset=%" PRId64 " done=%zu size=%zu"
                  " batch_at=%" PRId64 " batch_size=%zu",
                  p->name,
                  r->offset,
                  done,
                  r->size,
                  e->base_offset,
                  e->size);
        done += e->size;
    }
}

static void on_read_done(struct log_read *r)
{
    struct read_probe *probe = container_of(r, struct read_probe, read);
    struct part *p = probe->part;
    struct sim *sim = sim_of(p);
    bool is_cut = probe->cuts_count != p->cuts_count;
    sim_trace(sim, "read", (uint64_t)r->result, r->size);
    if (r->result == ERR_OK && !is_cut) {
        check_read(probe);
    } else if (r->result == ERR_TOO_LARGE) {
        sim_check(sim,
                  r->size_needed > r->dst_size,
                  "%s: size_needed=%zu dst_size=%zu",
                  p->name,
                  r->size_needed,
                  r->dst_size);
    } else if (r->result == ERR_CORRUPT) {
        sim_check(sim, p->model.rotten_count > 0, "%s: a read meets damage", p->name);
    } else if (r->result != ERR_OK && r->result != ERR_BUSY) {
        sim_check(sim,
                  is_cut || p->model.rotten_count > 0 || p->run->is_fault_allowed,
                  "%s: read: %s offset=%" PRId64 " end=%" PRId64,
                  p->name,
                  err_name(r->result),
                  r->offset,
                  r->end_offset);
    }
    p->reads_count--;
    free(probe->dst);
    free(probe);
    run_settle(p->run);
}

void part_read(struct part *p, int64_t offset)
{
    struct sim *sim = sim_of(p);
    int64_t end = model_log_next_offset(&p->model, p->model.flushed_index);
    if (p->is_end_lost && log_next_offset(p->log) < end) {
        end = log_next_offset(p->log);
    }
    if (offset >= end || p->reads_count >= READS_MAX) {
        return;
    }
    struct read_probe *probe = calloc(1, sizeof(*probe));
    assert(probe != NULL);
    size_t size = (size_t)sim_log_between(sim, 100, READ_SIZE_MAX);
    probe->dst = malloc(size);
    assert(probe->dst != NULL);
    probe->part = p;
    probe->cuts_count = p->cuts_count;
    probe->read = (struct log_read){.offset = offset,
                                    .end_offset = end,
                                    .dst = probe->dst,
                                    .dst_size = size,
                                    .on_done = on_read_done};
    p->reads_count++;
    log_read_begin(p->log, &probe->read);
}

struct time_probe {
    struct log_time_query query;
    struct part *part;
    uint64_t cuts_count;
    bool is_found;
    int64_t offset;
    int64_t timestamp;
};

static void on_time_done(struct log_time_query *q)
{
    struct time_probe *probe = container_of(q, struct time_probe, query);
    struct part *p = probe->part;
    struct sim *sim = sim_of(p);
    if (q->result == ERR_OK && probe->cuts_count == p->cuts_count && p->model.rotten_count == 0) {
        bool is_found = q->ret_offset != -1;
        sim_check(sim,
                  is_found == probe->is_found &&
                      (!is_found ||
                       (q->ret_offset == probe->offset && q->ret_timestamp == probe->timestamp)),
                  "%s: time query: timestamp=%" PRId64 " gives offset=%" PRId64 " at=%" PRId64
                  ", not offset=%" PRId64 " at=%" PRId64,
                  p->name,
                  q->timestamp,
                  q->ret_offset,
                  q->ret_timestamp,
                  probe->offset,
                  probe->timestamp);
    }
    p->reads_count--;
    free(probe);
    run_settle(p->run);
}

static void act_time_query(struct part *p)
{
    struct sim *sim = sim_of(p);
    if (p->reads_count >= READS_MAX) {
        return;
    }
    struct time_probe *probe = calloc(1, sizeof(*probe));
    assert(probe != NULL);
    int64_t now_ms = clock_wall_ms(&sim->clock.clock);
    int64_t start_ms = now_ms - (int64_t)(sim->clock.now_us / 1000);
    probe->part = p;
    probe->cuts_count = p->cuts_count;
    probe->offset = -1;
    probe->timestamp = -1;
    probe->query = (struct log_time_query){
        .timestamp = start_ms + (int64_t)sim_between(sim, 0, (uint64_t)(now_ms - start_ms) + 20),
        .end_offset = model_log_next_offset(&p->model, p->model.flushed_index),
        .on_done = on_time_done};
    probe->is_found = model_log_find_time(&p->model,
                                          probe->query.timestamp,
                                          probe->query.end_offset,
                                          &probe->offset,
                                          &probe->timestamp);
    p->reads_count++;
    log_time_query_begin(p->log, &probe->query);
}

static void on_cut(struct log_cut *c)
{
    struct part *p = container_of(c, struct part, cut);
    struct sim *sim = sim_of(p);
    struct model_log *m = &p->model;
    if (c->result != ERR_OK) {
        run_on_failure(p->run, "log_cut", c->result);
        return;
    }
    model_log_truncate(m, m->cut_index - 1);
    m->cut_index = 0;
    p->state = PART_OPEN;
    p->term++;
    sim_check(sim,
              log_last_index(p->log) == m->last_index &&
                  log_next_offset(p->log) == model_log_next_offset(m, m->last_index),
              "%s: last=%" PRIu64 " after a cut to %" PRIu64,
              p->name,
              log_last_index(p->log),
              m->last_index);
    part_producers_roll_back(p);
    p->has_leftovers = true;
    p->writes_count = log_stats(p->log)->writes;
    sim_trace(sim, "cut", p->number, m->last_index);
    sim_say(sim, "%s: cut to %" PRIu64, p->name, m->last_index);
    run_settle(p->run);
}

static void act_cut(struct part *p)
{
    struct sim *sim = sim_of(p);
    struct model_log *m = &p->model;
    if (m->last_index == m->commit_index || m->rotten_count > 0) {
        return;
    }
    /* Mostly near the end, where Raft's conflicts are. */
    uint64_t depth = sim_log_between(sim, 1, m->last_index - m->commit_index);
    m->cut_index = m->last_index - depth + 1;
    p->cut = (struct log_cut){.index = m->cut_index, .on_cut = on_cut};
    p->cuts_count++;
    p->state = PART_CUTTING;
    sim_say(sim,
            "%s: cuts from %" PRIu64 " last=%" PRIu64 " flushed=%" PRIu64,
            p->name,
            m->cut_index,
            m->last_index,
            m->flushed_index);
    log_cut_begin(p->log, &p->cut);
}

static void on_deleted(void *context, enum err e)
{
    struct part *p = context;
    sim_say(sim_of(p), "%s: deleted: %s", p->name, err_name(e));
    if (e != ERR_OK) {
        run_on_failure(p->run, "log_delete", e);
        return;
    }
    part_renew(p);
    run_settle(p->run);
}

static void act_delete(struct part *p)
{
    if (p->reads_count > 0) {
        return;
    }
    p->state = PART_DELETING;
    log_delete(p->log, p, on_deleted);
}

static void act_commit(struct part *p)
{
    struct model_log *m = &p->model;
    if (!p->is_end_lost && m->flushed_index > m->commit_index) {
        m->commit_index = sim_between(sim_of(p), m->commit_index, m->flushed_index);
        log_set_commit(p->log, m->commit_index);
    }
}

struct vote_probe {
    struct store_wait wait;
    struct part *part;
    uint32_t lives_count;
    uint64_t vote;
};

static void on_vote_durable(struct store_wait *w)
{
    struct vote_probe *probe = container_of(w, struct vote_probe, wait);
    struct part *p = probe->part;
    if (probe->lives_count == p->lives_count && probe->vote > p->vote_durable) {
        p->vote_durable = probe->vote;
        sim_trace(sim_of(p), "vote", p->number, probe->vote);
    }
    p->run->waiting_count--;
    free(probe);
    run_settle(p->run);
}

static void act_vote(struct part *p)
{
    struct store *store = p->run->envs[p->shard].store;
    struct store_key key = {.log = p->id, .kind = STORE_VOTE};
    uint64_t vote = p->vote_put + 1;
    enum err e = store_put(store, &key, slice_of(&vote, sizeof(vote)));
    if (e != ERR_OK) {
        sim_check(sim_of(p),
                  e == ERR_NO_SPACE && p->run->is_full_allowed,
                  "%s: store_put: %s",
                  p->name,
                  err_name(e));
        return;
    }
    p->vote_put = vote;
    struct vote_probe *probe = calloc(1, sizeof(*probe));
    assert(probe != NULL);
    *probe = (struct vote_probe){.part = p, .lives_count = p->lives_count, .vote = vote};
    probe->wait.on_durable = on_vote_durable;
    p->run->waiting_count++;
    store_wait_durable(store, &probe->wait);
}

void part_tempt_crash(struct part *p)
{
    bool is_due = p->state == PART_OPEN && p->has_leftovers;
    if (is_due && log_stats(p->log)->writes > p->writes_count) {
        p->has_leftovers = false;
        sim_crash_soon(sim_of(p), 15);
    }
}

void part_act(struct part *p)
{
    struct sim *sim = sim_of(p);
    const struct sim_swarm *w = &sim->swarm;
    if (p->state == PART_NONE) {
        part_open(p);
        return;
    }
    if (p->state != PART_OPEN) {
        return;
    }
    uint64_t dice = rand_below(&sim->rand, 100 + w->cut_weight + w->delete_weight);
    if (dice < 60) {
        if (p->is_end_lost) {
            act_delete(p);
            return;
        }
        for (uint64_t n = sim_between(sim, 1, 4); n > 0 && part_append(p); n--) {
        }
    } else if (dice < 75) {
        int64_t end = model_log_next_offset(&p->model, p->model.flushed_index);
        part_read(p, (int64_t)rand_below(&sim->rand, (uint64_t)end + 1));
    } else if (dice < 80) {
        act_time_query(p);
    } else if (dice < 92) {
        act_commit(p);
    } else if (dice < 100) {
        act_vote(p);
    } else if (dice < 100 + w->cut_weight) {
        act_cut(p);
    } else if (rand_one_in(&sim->rand, 4)) {
        act_delete(p);
    }
}
