/* Answers by reference that somebody has not taken yet: whatever becomes of the log they came from,
 * their bytes stay, and the memory comes back with them. */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

#include "tests/sim/storage_mode.h"

enum {
    HELD_MAX = 8,
};

struct held_answer {
    struct list link;
    struct log_pin *pin;
    uint8_t *dst;
    uint8_t *bytes; /* As they were. */
};

static void release(struct storage_run *run, struct held_answer *h)
{
    struct sim *sim = run->sim;
    const struct log_pin *pin = h->pin;
    size_t done = 0;
    for (uint32_t i = 0; i < pin->pieces_count; i++) {
        const struct slice piece = pin->pieces[i];
        sim_check(sim,
                  memcmp(h->bytes + done, piece.data, piece.size) == 0,
                  "an answer by reference changed: piece=%u size=%zu",
                  i,
                  piece.size);
        done += piece.size;
    }
    struct machine *m = &run->life.machine;
    log_pin_release(&m->shards[rand_below(&sim->rand, m->shards_count)], h->pin);
    machine_poke(m);
    list_remove(&h->link);
    run->held_count--;
    free(h->dst);
    free(h->bytes);
    free(h);
}

static void release_oldest(struct storage_run *run)
{
    if (!list_is_empty(&run->held)) {
        release(run, container_of(run->held.next, struct held_answer, link));
    }
}

static bool is_pinned(const struct storage_run *run)
{
    for (uint16_t i = 0; i < run->life.machine.shards_count; i++) {
        if (log_shared_is_pinned(run->envs[i].shared)) {
            return true;
        }
    }
    return false;
}

bool held_release_all(struct storage_run *run)
{
    while (!list_is_empty(&run->held)) {
        release_oldest(run);
    }
    while (is_pinned(run)) {
        if (!life_step(&run->life, "an answer is not released")) {
            return false;
        }
    }
    for (uint16_t i = 0; i < run->life.machine.shards_count; i++) {
        const struct log_shared_stats *stats = log_shared_stats(run->envs[i].shared);
        sim_check(run->sim, stats->pinned_size == 0, "pinned for nobody");
        sim_check(run->sim, stats->ahead_size == 0, "read ahead for nobody");
    }
    return true;
}

void held_forget(struct storage_run *run)
{
    while (!list_is_empty(&run->held)) {
        struct held_answer *h = container_of(list_pop_front(&run->held), struct held_answer, link);
        free(h->dst);
        free(h->bytes);
        free(h);
    }
    run->held_count = 0;
}

uint8_t *held_gather(const struct log_read *r)
{
    uint8_t *bytes = malloc(r->size);
    assert(bytes != NULL);
    size_t done = 0;
    for (uint32_t i = 0; i < r->pin->pieces_count; i++) {
        const struct slice piece = r->pin->pieces[i];
        assert_cmp(piece.size, <=, r->size - done);
        memcpy(bytes + done, piece.data, piece.size);
        done += piece.size;
    }
    assert_cmp(done, ==, r->size);
    return bytes;
}

void held_keep(struct storage_run *run, struct log_pin *pin, uint8_t *dst, uint8_t *bytes)
{
    struct held_answer *h = calloc(1, sizeof(*h));
    assert(h != NULL);
    h->pin = pin;
    h->dst = dst;
    h->bytes = bytes;
    list_push_back(&run->held, &h->link);
    run->held_count++;
    while (run->held_count > HELD_MAX || (run->held_count > 0 && rand_one_in(&run->sim->rand, 3))) {
        release_oldest(run);
    }
}
