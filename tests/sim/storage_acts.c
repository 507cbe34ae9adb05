#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/batches.h"
#include "tests/sim/storage_mode.h"

static void take_batch(struct model_entry *e, const struct made_batch *b)
{
    e->type = ENTRY_DATA;
    e->next_offset = b->records_count;
    e->max_timestamp = b->max_timestamp;
    e->bytes = b->bytes;
    e->size = b->size;
    e->timestamps = b->timestamps;
    e->records = b->records;
}

static struct model_entry make_data(struct part *p, const struct batch_identity *identity)
{
    struct sim *sim = part_sim(p);
    bool is_large =
        sim->swarm.large_one_in != 0 && rand_one_in(&sim->rand, sim->swarm.large_one_in);
    struct model_entry e = {
        .identity = *identity,
        .is_transactional = p->has_transactions && identity->producer_id == PART_TRANSACTIONS_ID,
    };
    struct made_batch b =
        batch_make(sim,
                   &(struct batch_wish){
                       .label = p->name,
                       .number = p->batches_count++,
                       .records_count = (int32_t)sim_between(sim, 1, sim->swarm.batch_records_max),
                       .record_size_max = is_large ? 8 << 10 : sim->swarm.record_size_max,
                       .wall_ms = clock_wall_ms(&sim->clock.clock),
                       .identity = e.identity,
                       .is_zstd_allowed = true,
                       .keys_count = p->model.is_compacted ? sim->swarm.keys_count : 0,
                       .is_transactional = e.is_transactional,
                   });
    take_batch(&e, &b);
    return e;
}

static struct model_entry make_marker(struct part *p, const struct batch_identity *identity)
{
    struct sim *sim = part_sim(p);
    struct model_entry e = {
        .identity = *identity, .is_marker = true, .is_abort = rand_one_in(&sim->rand, 3)};
    e.identity.base_sequence = -1;
    struct made_batch b =
        batch_make_marker(sim, &e.identity, clock_wall_ms(&sim->clock.clock), !e.is_abort);
    take_batch(&e, &b);
    return e;
}

/* One of a transaction, or what ends it. */
static struct model_entry make_transactional(struct part *p)
{
    bool is_open;
    const struct batch_identity identity = part_producers_draw_transactional(p, &is_open);
    return is_open && rand_one_in(&part_sim(p)->rand, 3) ? make_marker(p, &identity)
                                                         : make_data(p, &identity);
}

static bool is_refusal_allowed(const struct part *p, enum err e)
{
    if (e == ERR_BUSY) {
        return true;
    }
    if (e == ERR_NO_SPACE) {
        return p->run->life.is_full_allowed;
    }
    return p->model.rotten_count > 0;
}

static void complete(struct part *p, struct model_entry *e)
{
    e->term = p->term;
    e->base_offset = model_log_next_offset(&p->model, p->model.last_index);
    e->next_offset += e->base_offset; /* It had the number of records. */
    if (e->type == ENTRY_DATA) {
        batch_stamp(e->bytes, e->base_offset, (int32_t)e->term);
    } else {
        e->max_timestamp = -1;
        e->identity = (struct batch_identity){-1, -1, -1};
    }
    if (e->type == ENTRY_DATA && !e->is_marker) {
        part_producers_judge(p, e);
    }
}

bool part_append(struct part *p, struct model_entry *e)
{
    struct sim *sim = part_sim(p);
    struct model_log *m = &p->model;
    complete(p, e);
    struct log_entry entry = {.type = e->type,
                              .term = e->term,
                              .base_offset = e->base_offset,
                              .next_offset = e->next_offset,
                              .max_timestamp = e->max_timestamp,
                              .payload = slice_of(e->bytes, e->size)};
    if (e->size > ENTRY_HEAD_SIZE && rand_one_in(&sim->rand, 2)) {
        entry.payload = slice_of(e->bytes, ENTRY_HEAD_SIZE);
        entry.payload_rest = slice_of(e->bytes + ENTRY_HEAD_SIZE, e->size - ENTRY_HEAD_SIZE);
    }
    uint64_t index = 0;
    enum err result = log_append(p->log, &entry, &index);
    if (result != ERR_OK) {
        sim_check(sim,
                  p->run->life.is_dead || is_refusal_allowed(p, result),
                  "%s: log_append: %s",
                  p->name,
                  err_name(result));
        model_entry_done(e);
        return false;
    }
    sim_check(sim,
              index == m->last_index + 1,
              "%s: appended at %" PRIu64 ", last=%" PRIu64,
              p->name,
              index,
              m->last_index);
    model_log_append(m, e);
    part_producers_take(p, e, index);
    sim_trace(sim, "append", p->number, index);
    return true;
}

static bool append(struct part *p)
{
    struct sim *sim = part_sim(p);
    struct model_entry e = {.type = ENTRY_NOOP};
    if (p->has_transactions && sim_chance(sim, sim->swarm.transaction_percent)) {
        e = make_transactional(p);
    } else if (!rand_one_in(&sim->rand, 30)) {
        const struct batch_identity identity = part_producers_draw(p);
        e = make_data(p, &identity);
    }
    return part_append(p, &e);
}

static void on_cut(struct log_cut *c)
{
    struct part *p = container_of(c, struct part, cut);
    struct sim *sim = part_sim(p);
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

static void cut(struct part *p)
{
    struct sim *sim = part_sim(p);
    struct model_log *m = &p->model;
    bool is_damaged = model_log_is_damaged(m) || p->run->misdirected.is_now;
    if (m->last_index == m->commit_index || is_damaged) {
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
    sim_say(part_sim(p), "%s: deleted: %s", p->name, err_name(e));
    if (e != ERR_OK) {
        run_on_failure(p->run, "log_delete", e);
        return;
    }
    part_renew(p);
    run_settle(p->run);
}

static void delete_log(struct part *p)
{
    if (p->reads_count > 0) {
        return;
    }
    p->state = PART_DELETING;
    log_delete(p->log, p, on_deleted);
}

static void commit(struct part *p)
{
    struct model_log *m = &p->model;
    if (!p->is_end_lost && m->flushed_index > m->commit_index) {
        part_commit(p, sim_between(part_sim(p), m->commit_index, m->flushed_index));
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
        sim_trace(part_sim(p), "vote", p->number, probe->vote);
    }
    p->run->waiting_count--;
    free(probe);
    run_settle(p->run);
}

static void vote(struct part *p)
{
    struct store *store = p->run->envs[p->shard].store;
    struct store_key key = {.log = p->id, .kind = STORE_VOTE};
    uint64_t vote = p->vote_put + 1;
    enum err e = store_put(store, &key, slice_of(&vote, sizeof(vote)));
    if (e != ERR_OK) {
        sim_check(part_sim(p),
                  e == ERR_NO_SPACE && p->run->life.is_full_allowed,
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
        sim_crash_soon(part_sim(p), 15);
    }
}

static void append_some(struct part *p)
{
    if (p->is_end_lost) {
        delete_log(p); /* It takes no appends. */
        return;
    }
    for (uint64_t n = sim_between(part_sim(p), 1, 4); n > 0 && append(p); n--) {
    }
}

static void read(struct part *p)
{
    int64_t end = model_log_next_offset(&p->model, p->model.flushed_index);
    /* Most go through the log as consumers do. */
    if (!rand_one_in(&part_sim(p)->rand, 3)) {
        const int64_t start = p->model.start_offset;
        const bool is_in_log = p->reader_offset >= start && p->reader_offset < end;
        p->reader_offset = is_in_log ? p->reader_offset : start;
        part_read(p, p->reader_offset);
        return;
    }
    part_read(p, (int64_t)rand_below(&part_sim(p)->rand, (uint64_t)end + 1));
}

/* Everything that may be done to an open log, and how often: what is drawn from the swarm has the
 * place of its weight there. */
static const struct operation {
    void (*begin)(struct part *p);
    uint32_t weight;
    size_t swarm_weight; /* 0 = weight is fixed. */
} operations[] = {
    {.begin = append_some, .weight = 240},
    {.begin = read, .weight = 60},
    {.begin = part_act_time, .weight = 20},
    {.begin = commit, .swarm_weight = offsetof(struct sim_swarm, commit_weight)},
    {.begin = vote, .weight = 32},
    {.begin = part_act_start, .swarm_weight = offsetof(struct sim_swarm, start_weight)},
    {.begin = cut, .swarm_weight = offsetof(struct sim_swarm, cut_weight)},
    {.begin = delete_log, .swarm_weight = offsetof(struct sim_swarm, delete_weight)},
};

enum {
    OPERATIONS_COUNT = sizeof(operations) / sizeof(operations[0]),
};

static uint32_t weight_of(const struct operation *o, const struct sim_swarm *w)
{
    return o->swarm_weight == 0 ? o->weight
                                : *(const uint32_t *)((const char *)w + o->swarm_weight);
}

static const struct operation *draw_operation(struct sim *sim)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < OPERATIONS_COUNT; i++) {
        sum += weight_of(&operations[i], &sim->swarm);
    }
    uint64_t dice = rand_below(&sim->rand, sum);
    const struct operation *o = operations;
    while (dice >= weight_of(o, &sim->swarm)) {
        dice -= weight_of(o, &sim->swarm);
        o++;
    }
    return o;
}

void part_act(struct part *p)
{
    if (p->state == PART_NONE) {
        part_open(p);
    } else if (p->state == PART_OPEN) {
        draw_operation(part_sim(p))->begin(p);
    }
}
