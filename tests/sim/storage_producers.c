/* What a log knows of idempotent producers, kept as the layer above keeps it: taken from what is
 * appended and replayed, and rolled back when the log is cut. The model's answer comes from walking
 * its entries backwards; entries that were damaged on purpose are those that no replay can see, but
 * a checkpoint from before may know. */
#include <inttypes.h>

#include "core/assert.h"
#include "storage/producer_state.h"

#include "tests/sim/storage_mode.h"

enum {
    IDS_COUNT = 3, /* 1 .. */
    PRODUCERS_MAX = 64,
};

/* Of one producer: its last batches of its last epoch, newest first. */
struct known {
    int64_t id;
    uint32_t count;
    const struct model_entry *batches[PRODUCER_BATCHES];
};

static bool has_sequence(const struct model_entry *e)
{
    return e->type == ENTRY_DATA && !e->is_marker && e->identity.producer_id >= 0;
}

/* No replay can have seen it. */
static bool is_lost(const struct part *p, uint64_t index)
{
    const struct model_entry *e = model_log_at(&p->model, index);
    return e->is_gone || e->is_unseen || (e->is_rotten && index > p->restored_index);
}

static struct known known_of(const struct part *p, int64_t id)
{
    const struct model_log *m = &p->model;
    struct known k = {.id = id};
    for (uint64_t i = m->last_index; i > 0 && k.count < PRODUCER_BATCHES; i--) {
        const struct model_entry *e = model_log_at(m, i);
        if (!has_sequence(e) || is_lost(p, i) || e->identity.producer_id != id) {
            continue;
        }
        bool is_older_epoch =
            k.count > 0 && e->identity.producer_epoch != k.batches[0]->identity.producer_epoch;
        if (is_older_epoch) {
            break;
        }
        k.batches[k.count++] = e;
    }
    return k;
}

/* INT32_MAX is followed by 0. */
static int32_t sequence_after(int32_t sequence, int64_t count)
{
    return (int32_t)(((int64_t)sequence + count) & INT32_MAX);
}

static int32_t next_sequence(const struct known *k)
{
    const struct model_entry *last = k->batches[0];
    return sequence_after(last->identity.base_sequence, last->next_offset - last->base_offset);
}

static struct batch_identity draw_next(struct part *p, int64_t id, bool may_be_fenced)
{
    struct sim *sim = p->run->sim;
    struct known k = known_of(p, id);
    if (k.count == 0) {
        /* Nothing is known of it: it may begin anywhere, also shortly before the numbers end. */
        int32_t base = rand_one_in(&sim->rand, 4) ? INT32_MAX - 50 : 0;
        return (struct batch_identity){
            .producer_id = k.id, .producer_epoch = 0, .base_sequence = base};
    }
    struct batch_identity identity = k.batches[0]->identity;
    identity.base_sequence = next_sequence(&k);
    if (may_be_fenced && rand_one_in(&sim->rand, 30)) {
        identity.producer_epoch++;
        identity.base_sequence = 0;
    }
    return identity;
}

struct batch_identity part_producers_draw(struct part *p)
{
    struct sim *sim = p->run->sim;
    const uint64_t ids_count = p->has_transactions ? PART_TRANSACTIONS_ID - 1 : IDS_COUNT;
    if (rand_one_in(&sim->rand, 2)) {
        return (struct batch_identity){-1, -1, -1};
    }
    return draw_next(p, (int64_t)sim_between(sim, 1, ids_count), true);
}

struct batch_identity part_producers_draw_transactional(struct part *p, bool *ret_is_open)
{
    const struct model_log *m = &p->model;
    uint64_t i = m->last_index;
    while (i > 0 && model_log_at(m, i)->identity.producer_id != PART_TRANSACTIONS_ID) {
        i--;
    }
    *ret_is_open = i > 0 && !model_log_at(m, i)->is_marker;
    return draw_next(p, PART_TRANSACTIONS_ID, !*ret_is_open);
}

static struct batch_header header_of(struct part *p, const struct model_entry *e)
{
    struct batch_header h;
    enum err result = batch_header_decode(slice_of(e->bytes, e->size), &h);
    sim_check(p->run->sim, result == ERR_OK, "%s: a batch of ours: %d", p->name, (int)result);
    return h;
}

/* What the state says to a batch, against what it must say. offset -1: it is new. */
static void
expect(struct part *p, const struct batch_header *h, enum err wanted, int64_t duplicate_offset)
{
    struct producer_verdict verdict = {0};
    enum err e = producer_state_check(p->producers, h, &verdict);
    int64_t offset = e == ERR_OK && verdict.is_duplicate ? verdict.base_offset : -1;
    sim_check(p->run->sim,
              e == wanted && offset == duplicate_offset,
              "%s: producer=%" PRId64 " epoch=%d sequence=%d count=%d: %s duplicate of=%" PRId64
              ", not %s duplicate of=%" PRId64,
              p->name,
              h->producer_id,
              h->producer_epoch,
              h->base_sequence,
              h->last_offset_delta + 1,
              err_name(e),
              offset,
              err_name(wanted),
              duplicate_offset);
}

static void check_producer(struct part *p, int64_t id)
{
    struct known k = known_of(p, id);
    for (uint32_t i = 0; i < k.count; i++) {
        struct batch_header h = header_of(p, k.batches[i]);
        expect(p, &h, ERR_OK, k.batches[i]->base_offset);
    }
    struct batch_header h = {.producer_id = id};
    if (k.count > 0) {
        h.producer_epoch = k.batches[0]->identity.producer_epoch;
        h.base_sequence = sequence_after(next_sequence(&k), 1);
        expect(p, &h, ERR_SEQUENCE_OUT_OF_ORDER, -1);
        h.base_sequence = next_sequence(&k);
    }
    expect(p, &h, ERR_OK, -1);
}

void part_producers_check(struct part *p)
{
    for (int64_t id = 1; id <= IDS_COUNT; id++) {
        check_producer(p, id);
    }
    producer_state_assert_valid(p->producers);
}

void part_producers_judge(struct part *p, const struct model_entry *e)
{
    struct batch_header h = header_of(p, e);
    expect(p, &h, ERR_OK, -1);
}

void part_producers_take(struct part *p, const struct model_entry *e, uint64_t index)
{
    if (!has_sequence(e)) {
        return;
    }
    struct batch_header h = header_of(p, e);
    producer_state_apply(
        p->producers, &h, e->base_offset, index, clock_wall_ms(&p->run->sim->clock.clock));
}

void part_producers_reset(struct part *p)
{
    producer_state_free(p->producers);
    p->producers = NULL;
    enum err e = producer_state_new(1, PRODUCERS_MAX, &p->producers);
    assert(e == ERR_OK);
}

void part_producers_roll_back(struct part *p)
{
    producer_state_clear(p->producers);
    for (uint64_t i = 1; i <= p->model.last_index; i++) {
        if (!is_lost(p, i)) {
            part_producers_take(p, model_log_at(&p->model, i), i);
        }
    }
    part_producers_check(p);
}
