#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/storage_mode.h"

enum {
    READ_SIZE_MAX = 512 << 10,
};

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
    struct sim *sim = part_sim(p);
    const struct log_read *r = &probe->read;
    const struct model_entry *e = model_log_find(&p->model, r->offset);
    assert(e != NULL);
    size_t done = 0;
    int64_t next_offset = r->offset;
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
                  is_same && (!e->is_rotten || e->is_hidden),
                  "%s: a read gives other bytes: offset=%" PRId64 " done=%zu size=%zu"
                  " batch_at=%" PRId64 " batch_size=%zu",
                  p->name,
                  r->offset,
                  done,
                  r->size,
                  e->base_offset,
                  e->size);
        done += e->size;
        next_offset = e->next_offset;
    }
    if (r->offset == p->reader_offset) {
        p->reader_offset = next_offset;
    }
}

static void on_read_done(struct log_read *r)
{
    struct read_probe *probe = container_of(r, struct read_probe, read);
    struct part *p = probe->part;
    struct sim *sim = part_sim(p);
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
        sim_check(sim,
                  model_log_is_damaged(&p->model) || misdirect_explains(p->run, r->result),
                  "%s: a read meets damage",
                  p->name);
    } else if (r->result != ERR_OK && r->result != ERR_BUSY) {
        sim_check(sim,
                  is_cut || model_log_is_damaged(&p->model) || p->run->is_fault_allowed,
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
    struct sim *sim = part_sim(p);
    int64_t end = model_log_next_offset(&p->model, p->model.flushed_index);
    if (p->is_end_lost && log_next_offset(p->log) < end) {
        end = log_next_offset(p->log);
    }
    if (offset >= end || p->reads_count >= PART_READS_MAX) {
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
