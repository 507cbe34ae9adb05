#include "tests/sim/history_epochs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"

#include "tests/sim/history.h"

/* Where a run of offsets with one epoch is, as far as somebody read it: sorted, and apart. */
static size_t find_run(const struct history *h, int64_t offset)
{
    size_t i = h->epochs_count;
    while (i > 0 && h->epochs[i - 1].first > offset) {
        i--;
    }
    return i; /* The one before, if any, begins at offset or before. */
}

static void insert_run(struct history *h, size_t at, const struct epoch_run *run)
{
    if (h->epochs_count == h->epochs_capacity) {
        h->epochs_capacity = h->epochs_capacity == 0 ? 8 : h->epochs_capacity * 2;
        h->epochs = realloc(h->epochs, h->epochs_capacity * sizeof(*h->epochs));
        assert(h->epochs != NULL);
    }
    for (size_t i = h->epochs_count; i > at; i--) {
        h->epochs[i] = h->epochs[i - 1];
    }
    h->epochs[at] = *run;
    h->epochs_count++;
}

void history_epoch_read(struct history *h, int64_t offset, int64_t end, int32_t epoch)
{
    const size_t at = find_run(h, offset);
    struct epoch_run *before = at > 0 ? &h->epochs[at - 1] : NULL;
    const struct epoch_run *behind = at < h->epochs_count ? &h->epochs[at] : NULL;
    const bool is_inside = before != NULL && offset < before->end;
    sim_check(h->sim,
              epoch >= 0 && (before == NULL || epoch >= before->epoch) &&
                  (!is_inside || epoch == before->epoch) &&
                  (behind == NULL || epoch <= behind->epoch),
              "%s: leader epoch %d at %" PRId64 ", between %d and %d",
              h->name,
              epoch,
              offset,
              before == NULL ? -1 : before->epoch,
              behind == NULL ? -1 : behind->epoch);
    if (before != NULL && before->epoch == epoch) {
        before->end = end > before->end ? end : before->end;
    } else if (behind != NULL && behind->epoch == epoch) {
        h->epochs[at].first = offset;
    } else {
        insert_run(h, at, &(struct epoch_run){.epoch = epoch, .first = offset, .end = end});
    }
}

int32_t history_epoch_before(const struct history *h, int64_t offset)
{
    const size_t at = find_run(h, offset - 1);
    return at > 0 && h->epochs[at - 1].end >= offset ? h->epochs[at - 1].epoch : -1;
}

int32_t history_epoch_draw(const struct history *h)
{
    return h->epochs_count == 0 ? -1 : h->epochs[rand_below(&h->sim->rand, h->epochs_count)].epoch;
}

void history_epoch_check(const struct history *h, const struct epoch_end *told)
{
    for (size_t i = 0; i < h->epochs_count; i++) {
        const struct epoch_run *run = &h->epochs[i];
        const bool is_before = run->epoch <= told->wanted;
        /* Below a log start that moves there may be nothing left to answer by. */
        const bool is_right = is_before ? run->end <= told->end_offset
                                        : run->first >= told->end_offset || h->rules.is_trimmed;
        sim_check(h->sim,
                  is_right,
                  "%s: leader epoch %d ends at %" PRId64 " they say, and %d is at %" PRId64
                  "..%" PRId64,
                  h->name,
                  told->wanted,
                  told->end_offset,
                  run->epoch,
                  run->first,
                  run->end);
        sim_check(h->sim,
                  !is_before || run->epoch <= told->epoch || h->rules.is_trimmed,
                  "%s: the largest leader epoch up to %d is %d they say, and there is %d",
                  h->name,
                  told->wanted,
                  told->epoch,
                  run->epoch);
    }
    sim_check(h->sim,
              told->epoch <= told->wanted && told->epoch >= 0,
              "%s: asked for leader epoch %d, told of %d",
              h->name,
              told->wanted,
              told->epoch);
}
