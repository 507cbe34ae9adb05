#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"

#include "tests/sim/storage_mode.h"

struct time_probe {
    struct log_time_query query;
    struct part *part;
    uint64_t cuts_count;
    bool is_found;
    int64_t offset;
    int64_t timestamp;
};

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
        bool is_found = q->ret_offset != -1;
        bool is_same = q->ret_offset == probe->offset && q->ret_timestamp == probe->timestamp;
        sim_check(sim,
                  is_found == probe->is_found && (!is_found || is_same),
                  "%s: time query: timestamp=%" PRId64 " end=%" PRId64 " gives offset=%" PRId64
                  " at=%" PRId64 ", not offset=%" PRId64 " at=%" PRId64,
                  p->name,
                  q->timestamp,
                  q->end_offset,
                  q->ret_offset,
                  q->ret_timestamp,
                  probe->offset,
                  probe->timestamp);
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
    probe->offset = -1;
    probe->timestamp = -1;
    probe->query = (struct log_time_query){
        .timestamp = timestamp, .end_offset = end_offset, .on_done = on_done};
    int64_t wanted = timestamp;
    if (timestamp == LOG_TIME_LARGEST) {
        wanted = model_log_largest_time(&p->model, end_offset);
    }
    probe->is_found =
        wanted >= 0 &&
        model_log_find_time(&p->model, wanted, end_offset, &probe->offset, &probe->timestamp);
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
