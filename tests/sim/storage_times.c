#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"

#include "tests/sim/model_keys.h"
#include "tests/sim/storage_mode.h"

struct time_probe {
    struct log_time_query query;
    struct part *part;
    uint64_t cuts_count;
    int64_t start_offset; /* Of the log, when it began. */
};

/* The record at offset has that timestamp, and could be meant. */
static bool is_record(const struct time_probe *probe, int64_t offset, int64_t timestamp)
{
    const struct log_time_query *q = &probe->query;
    if (offset < probe->start_offset || offset >= q->end_offset) {
        return false;
    }
    const struct model_entry *e = model_log_find(&probe->part->model, offset);
    return e->timestamps[offset - e->base_offset] == timestamp &&
           (q->timestamp == LOG_TIME_LARGEST || timestamp >= q->timestamp);
}

/* The first record at or after timestamp below end_offset that must be there; -1 = there is none.
 */
static int64_t find_sure(const struct part *p, int64_t timestamp, int64_t end_offset)
{
    const struct model_log *m = &p->model;
    const int64_t wall_ms = clock_wall_ms(&p->run->sim->clock.clock);
    for (uint64_t i = 1; i <= m->last_index; i++) {
        const struct model_entry *e = model_log_at(m, i);
        if (e->next_offset <= m->start_offset || e->max_timestamp < timestamp) {
            continue;
        }
        if (e->is_marker && model_keys_may_be_gone(m, i, wall_ms)) {
            continue;
        }
        for (int64_t offset = e->base_offset; offset < e->next_offset; offset++) {
            const int32_t number = (int32_t)(offset - e->base_offset);
            if (offset >= end_offset) {
                return -1;
            }
            if (e->timestamps[number] >= timestamp && !model_keys_may_lack(m, i, number, wall_ms)) {
                return offset;
            }
        }
    }
    return -1;
}

/* Nothing that must be there is a better answer. */
static void check_answer(const struct time_probe *probe)
{
    const struct part *p = probe->part;
    const struct log_time_query *q = &probe->query;
    const bool is_largest = q->timestamp == LOG_TIME_LARGEST;
    const bool is_found = q->ret_offset != -1;
    sim_check(p->run->sim,
              !is_found || is_record(probe, q->ret_offset, q->ret_timestamp),
              "%s: time query: timestamp=%" PRId64 " end=%" PRId64
              " gives no such record: offset=%" PRId64 " at=%" PRId64,
              p->name,
              q->timestamp,
              q->end_offset,
              q->ret_offset,
              q->ret_timestamp);
    int64_t better;
    if (is_largest && is_found && q->ret_timestamp < INT64_MAX) {
        better = find_sure(p, q->ret_timestamp + 1, q->end_offset);
        better = better == -1 ? find_sure(p, q->ret_timestamp, q->ret_offset) : better;
    } else {
        better =
            find_sure(p, is_largest ? 0 : q->timestamp, is_found ? q->ret_offset : q->end_offset);
    }
    sim_check(p->run->sim,
              better == -1,
              "%s: time query: timestamp=%" PRId64 " end=%" PRId64 " gives offset=%" PRId64
              " at=%" PRId64 ", not offset=%" PRId64,
              p->name,
              q->timestamp,
              q->end_offset,
              q->ret_offset,
              q->ret_timestamp,
              better);
}

static void on_done(struct log_time_query *q)
{
    struct time_probe *probe = container_of(q, struct time_probe, query);
    struct part *p = probe->part;
    struct sim *sim = p->run->sim;
    bool is_same_log = probe->cuts_count == p->cuts_count && !model_log_is_damaged(&p->model);
    sim_trace(sim, "time", (uint64_t)q->result, (uint64_t)q->ret_offset);
    if (misdirect_explains(p->run, ERR_CORRUPT)) {
        is_same_log = false; /* Points that were made of what was read wrong lie about times. */
    }
    if (q->result == ERR_OK && is_same_log) {
        check_answer(probe);
    } else if (is_same_log && q->result != ERR_BUSY) {
        sim_check(sim,
                  p->run->is_fault_allowed || misdirect_explains(p->run, q->result),
                  "%s: time query: %s",
                  p->name,
                  err_name(q->result));
    }
    p->reads_count--;
    free(probe);
    run_settle(p->run);
}

void part_find_time(struct part *p, int64_t timestamp, int64_t end_offset)
{
    if (p->reads_count >= PART_READS_MAX) {
        return;
    }
    struct time_probe *probe = calloc(1, sizeof(*probe));
    assert(probe != NULL);
    probe->part = p;
    probe->cuts_count = p->cuts_count;
    probe->start_offset = p->model.start_offset;
    probe->query = (struct log_time_query){
        .timestamp = timestamp, .end_offset = end_offset, .on_done = on_done};
    p->reads_count++;
    log_time_query_begin(p->log, &probe->query);
}

/* Where a flushed entry ends: what the high watermark may be. */
static int64_t draw_end(struct part *p)
{
    struct sim *sim = p->run->sim;
    uint64_t depth = sim_log_between(sim, 0, p->model.flushed_index);
    return model_log_next_offset(&p->model, p->model.flushed_index - depth);
}

void part_find_time_of(struct part *p, const struct model_entry *e)
{
    struct sim *sim = p->run->sim;
    if (e->timestamps == NULL || rand_one_in(&sim->rand, 4)) {
        part_find_time(p, LOG_TIME_LARGEST, e->next_offset);
        return;
    }
    uint64_t record = rand_below(&sim->rand, (uint64_t)(e->next_offset - e->base_offset));
    int64_t timestamp = e->timestamps[record] + (int64_t)sim_between(sim, 0, 2) - 1;
    part_find_time(p, timestamp < 0 ? 0 : timestamp, draw_end(p));
}

void part_act_time(struct part *p)
{
    struct sim *sim = p->run->sim;
    if (p->model.flushed_index > 0 && rand_one_in(&sim->rand, 2)) {
        uint64_t index = sim_between(sim, 1, p->model.flushed_index);
        part_find_time_of(p, model_log_at(&p->model, index));
        return;
    }
    /* Mostly near the end, where the walk meets what is being written. */
    uint64_t age_ms = sim_log_between(sim, 0, sim->clock.now_us / 1000 + 20);
    part_find_time(p, clock_wall_ms(&sim->clock.clock) + 20 - (int64_t)age_ms, draw_end(p));
}
