/* Answers by reference: a read hands out its batches where they lie, in tail pages and in what was
 * read from disk, and the buffers stay until the answer is sent.
 *
 *  1. A buffer is counted once, with all its capacity, however many answers refer to it: that is
 *     what a reader that does not take its answer keeps from others.
 *  2. At the limit a batch is copied into the reader's own memory, as small ones always are.
 *  3. A pin outlives pages, chunks, segments and logs; only what all logs share waits for it.
 *  4. One piece is left for what has to be copied, unless nothing can follow, so that an answer
 *     never ends for want of pieces. With a single piece only a batch that is all of the answer is
 *     referred to.
 */
#include <stdlib.h>

#include "core/reached.h"
#include "storage/log_priv.h"

static void unpin(struct log_shared *ls, struct buf *b)
{
    assert_cmp(b->pins_count, >, 0);
    if (--b->pins_count == 0) {
        ls->stats.pinned_size -= b->capacity;
    }
    buf_unref(b);
}

static void on_home(struct shard *here, struct xmsg *m)
{
    struct log_pin *pin = container_of(m, struct log_pin, msg);
    struct log_shared *ls = pin->shared;
    assert(here == ls->s);
    for (uint32_t i = 0; i < pin->pieces_count; i++) {
        if (pin->bufs[i] != NULL) {
            unpin(ls, pin->bufs[i]);
        }
    }
    ls->stats.pins--;
    free(pin);
}

void log_pin_release(struct shard *here, struct log_pin *pin)
{
    pin->msg.next_hop = &pin->route;
    xmsg_send(here, &pin->msg);
}

static bool need_pin(struct log_read *r)
{
    if (r->pin != NULL) {
        return true;
    }
    struct log_shared *ls = r->log->env.shared;
    struct log_pin *pin = malloc(sizeof(*pin));
    if (pin == NULL) {
        return false;
    }
    pin->shared = ls;
    pin->route = (struct xmsg_hop){.shard = ls->s->id, .run = on_home};
    pin->pieces_count = 0;
    r->pin = pin;
    ls->stats.pins++;
    if (r->copied_size > 0) {
        pin->pieces[0] = slice_of(r->dst, r->copied_size);
        pin->bufs[0] = NULL;
        pin->pieces_count = 1;
    }
    return true;
}

static uint32_t pieces_count(const struct log_read *r)
{
    return r->pin != NULL ? r->pin->pieces_count : (r->copied_size > 0 ? 1 : 0);
}

static bool is_within_limit(struct log_shared *ls, const struct buf *b, size_t size)
{
    if (b->pins_count > 0 || ls->stats.pinned_size + b->capacity <= ls->options.pinned_size_max) {
        return true;
    }
    ls->stats.unpinned_bytes += size;
    reached(ls->s, "log_pin_limit");
    return false;
}

bool log_pin_add(struct log_read *r, struct buf *b, struct slice batch, bool is_last)
{
    struct log_shared *ls = r->log->env.shared;
    const uint32_t pieces_needed = is_last ? 1 : 2;
    if (batch.size < ls->options.piece_size_min ||
        pieces_count(r) + pieces_needed > r->pieces_max || !is_within_limit(ls, b, batch.size) ||
        !need_pin(r)) {
        return false;
    }
    struct log_pin *pin = r->pin;
    if (b->pins_count++ == 0) {
        ls->stats.pinned_size += b->capacity;
    }
    buf_ref(b);
    pin->pieces[pin->pieces_count] = batch;
    pin->bufs[pin->pieces_count] = b;
    pin->pieces_count++;
    ls->stats.pinned_bytes += batch.size;
    return true;
}

void log_pin_note_copy(struct log_read *r, size_t size)
{
    struct log_pin *pin = r->pin;
    if (pin == NULL) {
        return;
    }
    struct slice *last = &pin->pieces[pin->pieces_count - 1];
    if (pin->bufs[pin->pieces_count - 1] == NULL) {
        last->size += size;
        return;
    }
    assert_cmp(pin->pieces_count, <, r->pieces_max);
    pin->pieces[pin->pieces_count] = slice_of(r->dst + r->copied_size, size);
    pin->bufs[pin->pieces_count] = NULL;
    pin->pieces_count++;
}

bool log_shared_is_pinned(const struct log_shared *ls)
{
    return ls != NULL && ls->stats.pins > 0;
}
