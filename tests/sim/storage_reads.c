#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/model_keys.h"
#include "tests/sim/storage_mode.h"

enum {
    READ_SIZE_MAX = 512 << 10,
};

struct read_probe {
    struct log_read read;
    struct part *part;
    uint64_t cuts_count;
    int64_t start_offset;  /* Of the log, when it began. */
    uint64_t marker_index; /* Of the transaction whose records were met last. */
    uint8_t *dst;
    uint8_t *bytes; /* The answer in one piece. */
};

/* Where the batch that begins at base_offset stands; those before it must be ones that can have
 * gone. */
static const struct model_entry *
pass_gone(struct read_probe *probe, const struct model_entry *e, int64_t base_offset)
{
    struct part *p = probe->part;
    const struct model_log *m = &p->model;
    const int64_t wall_ms = clock_wall_ms(&part_sim(p)->clock.clock);
    for (; e < m->entries + m->last_index && e->base_offset <= base_offset; e++) {
        if (e->type != ENTRY_DATA) {
            continue;
        }
        if (e->base_offset == base_offset) {
            return e;
        }
        const uint64_t index = model_log_index_of(m, e);
        sim_check(part_sim(p),
                  model_keys_may_be_gone(m, index, wall_ms) && index != probe->marker_index,
                  "%s: a read passes over a batch: offset=%" PRId64 " batch_at=%" PRId64
                  " next=%" PRId64,
                  p->name,
                  probe->read.offset,
                  e->base_offset,
                  base_offset);
    }
    return NULL;
}

/* The result against the model: whole batches from the one that holds the offset. */
static void check_read(struct read_probe *probe)
{
    struct part *p = probe->part;
    struct sim *sim = part_sim(p);
    const struct log_read *r = &probe->read;
    const struct model_entry *e = model_log_find(&p->model, r->offset);
    assert(e != NULL);
    int64_t next_offset = r->end_offset; /* If nothing is left up to there. */
    if (r->size == 0) {
        (void)pass_gone(probe, e, r->end_offset);
    }
    for (size_t done = 0; done < r->size;) {
        const struct slice rest = slice_of(probe->bytes + done, r->size - done);
        struct batch_header h;
        enum err result = batch_header_decode(rest, &h);
        e = result == ERR_OK ? pass_gone(probe, e, h.base_offset) : NULL;
        sim_check(sim,
                  e != NULL && e->next_offset <= r->end_offset && e->next_offset > r->offset,
                  "%s: a read gives another batch: offset=%" PRId64 " done=%zu size=%zu",
                  p->name,
                  r->offset,
                  done,
                  r->size);
        struct part_batch found;
        part_keys_compare(p, e, slice_of(rest.data, batch_size(&h)), &found);
        probe->marker_index =
            found.count > 0 && e->is_transactional ? e->marker_index : probe->marker_index;
        sim_check(sim,
                  (!e->is_rotten || e->is_hidden) && !e->is_given_up,
                  "%s: a read gives a damaged batch: base_offset=%" PRId64,
                  p->name,
                  e->base_offset);
        done += batch_size(&h);
        next_offset = e->next_offset;
        e++;
    }
    if (r->offset == p->reader_offset) {
        p->reader_offset = next_offset;
    }
}

/* Below the log start, and only there. */
static void check_range(struct read_probe *probe)
{
    struct part *p = probe->part;
    const struct log_read *r = &probe->read;
    const bool is_refused = r->result == ERR_OUT_OF_RANGE;
    const bool is_below = r->offset < probe->start_offset;
    sim_check(part_sim(p),
              is_refused || r->result != ERR_OK || !is_below,
              "%s: a read below the log start: offset=%" PRId64 " start=%" PRId64,
              p->name,
              r->offset,
              probe->start_offset);
    sim_check(part_sim(p),
              !is_refused || r->offset < p->model.start_offset || model_log_is_damaged(&p->model),
              "%s: a read is out of range: offset=%" PRId64 " start=%" PRId64,
              p->name,
              r->offset,
              p->model.start_offset);
}

static void on_read_done(struct log_read *r)
{
    struct read_probe *probe = container_of(r, struct read_probe, read);
    struct part *p = probe->part;
    struct sim *sim = part_sim(p);
    bool is_cut = probe->cuts_count != p->cuts_count;
    sim_trace(sim, "read", (uint64_t)r->result, r->size);
    probe->bytes = r->pin == NULL ? probe->dst : held_gather(r);
    if (!is_cut) {
        check_range(probe);
    }
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
    } else if (r->result != ERR_OK && r->result != ERR_BUSY && r->result != ERR_OUT_OF_RANGE) {
        sim_check(sim,
                  is_cut || model_log_is_damaged(&p->model) || p->run->is_fault_allowed,
                  "%s: read: %s offset=%" PRId64 " end=%" PRId64,
                  p->name,
                  err_name(r->result),
                  r->offset,
                  r->end_offset);
    }
    p->reads_count--;
    if (r->pin == NULL) {
        free(probe->dst);
    } else {
        sim_mark(sim, "read_by_reference");
        held_keep(p->run, r->pin, probe->dst, probe->bytes);
    }
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
    probe->start_offset = p->model.start_offset;
    probe->read = (struct log_read){.offset = offset,
                                    .end_offset = end,
                                    .dst = probe->dst,
                                    .dst_size = size,
                                    .pieces_max = (uint32_t)sim_between(sim, 0, LOG_PIECES_MAX),
                                    .on_done = on_read_done};
    p->reads_count++;
    log_read_begin(p->log, &probe->read);
}
