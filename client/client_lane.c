#include "client/client_lane.h"

#include <stdlib.h>

#include "client/client_priv.h"
#include "client/client_producer.h"
#include "core/assert.h"

struct client_lane *client_lane_new(int32_t partition)
{
    struct client_lane *l = calloc(1, sizeof(*l));
    if (l != NULL) {
        l->partition = partition;
        l->producer_id = -1;
        l->producer_epoch = -1;
        list_init(&l->active_link);
        list_init(&l->batches);
    }
    return l;
}

void client_lane_free(struct client_lane *l)
{
    if (l != NULL) {
        assert(list_is_empty(&l->batches));
        list_remove(&l->active_link);
        free(l);
    }
}

static struct client_batch *batch_at(struct list *node)
{
    return container_of(node, struct client_batch, link);
}

struct client_batch *client_lane_head(const struct client_lane *l)
{
    return list_is_empty(&l->batches) ? NULL : batch_at(l->batches.next);
}

struct client_batch *client_lane_open(const struct client_lane *l)
{
    if (list_is_empty(&l->batches)) {
        return NULL;
    }
    struct client_batch *last = batch_at(l->batches.prev);
    return last->is_closed ? NULL : last;
}

/* ---- what is sent when ---- */

static struct client_batch *first_idle(const struct client_lane *l)
{
    list_for_each (node, &l->batches) {
        if (!batch_at(node)->is_in_flight) {
            return batch_at(node);
        }
    }
    return NULL;
}

static uint64_t due_us(const struct client_producer *p, const struct client_batch *b)
{
    const bool is_due = b->is_closed || b->attempts > 0 || p->flushing_count > 0 ||
                        p->client->starving_count > 0 ||
                        b->builder.records.size >= p->options.batch_size;
    return is_due ? 0 : b->opened_us + (uint64_t)p->options.linger_ms * 1000;
}

struct client_batch *client_lane_choose(struct client_producer *p,
                                        struct client_lane *l,
                                        uint64_t now_us,
                                        uint64_t *next_us)
{
    const bool is_alone = l->is_recovering || (p->options.is_idempotent && !l->is_known);
    const size_t in_flight_max = is_alone ? 1 : p->options.in_flight_max;
    struct client_batch *b = first_idle(l);
    if (b == NULL || l->in_flight_count >= in_flight_max) {
        return NULL;
    }
    uint64_t when_us = due_us(p, b);
    when_us = when_us < l->retry_us ? l->retry_us : when_us;
    if (when_us > now_us) {
        *next_us = when_us < *next_us ? when_us : *next_us;
        return NULL;
    }
    return b;
}

/* ---- identity ---- */

static int32_t sequence_behind(const struct client_batch *b)
{
    return batch_last_sequence(b->identity.base_sequence, b->records_count);
}

/* Under the producer's newest identity, from 0. Nothing of the lane may be in flight. */
static void start_over(struct client_producer *p, struct client_lane *l)
{
    if (l->needs_bump && l->producer_id == p->producer_id &&
        l->producer_epoch == p->producer_epoch) {
        p->producer_epoch++;
    }
    l->needs_bump = false;
    l->producer_id = p->producer_id;
    l->producer_epoch = p->producer_epoch;
    l->is_known = false;
    l->sequence_acked = 0;
}

static void number(struct client_producer *p, struct client_lane *l, struct client_batch *b)
{
    const bool is_alone = l->in_flight_count == 0;
    if (b->is_uncertain) {
        assert(is_alone);
        l->sequence_next = sequence_behind(b);
        return;
    }
    if (is_alone) {
        const bool is_stale =
            l->producer_id != p->producer_id || l->producer_epoch != p->producer_epoch;
        if (l->needs_bump || is_stale) {
            start_over(p, l);
        }
        l->sequence_next = l->sequence_acked;
    }
    b->identity = (struct batch_identity){
        .producer_id = l->producer_id,
        .producer_epoch = l->producer_epoch,
        .base_sequence = l->sequence_next,
    };
    l->sequence_next = sequence_behind(b);
}

void client_lane_send(struct client_producer *p, struct client_lane *l, struct client_batch *b)
{
    assert(!b->is_in_flight);
    if (l->in_flight_count == 0 && b->attempts == 0) {
        l->is_recovering = false; /* Nothing is left that was sent before. */
    }
    if (p->options.is_idempotent) {
        number(p, l, b);
    }
    b->is_closed = true;
    b->is_in_flight = true;
    b->is_void = false;
    b->attempts++;
    l->in_flight_count++;
}

/* ---- what became of it ---- */

static void land(struct client_lane *l, struct client_batch *b)
{
    assert(b->is_in_flight);
    b->is_in_flight = false;
    l->in_flight_count--;
}

/* Answers of batches that were sent again come behind those of later ones. Numbers wrap: the half
 * of them ahead is higher. */
static void raise_acked(struct client_lane *l, const struct client_batch *b)
{
    const struct batch_identity *i = &b->identity;
    if (i->base_sequence < 0 || i->producer_id != l->producer_id ||
        i->producer_epoch != l->producer_epoch) {
        return;
    }
    l->is_known = true;
    const uint32_t ahead =
        ((uint32_t)sequence_behind(b) - (uint32_t)l->sequence_acked) & (uint32_t)INT32_MAX;
    if (ahead <= INT32_MAX / 2) {
        l->sequence_acked = sequence_behind(b);
    }
}

void client_lane_settle_ok(struct client_lane *l, struct client_batch *b)
{
    land(l, b);
    l->failures = 0;
    l->retry_us = 0;
    raise_acked(l, b);
    list_remove(&b->link);
}

void client_lane_settle_unknown(struct client_lane *l, struct client_batch *b)
{
    land(l, b);
    b->is_uncertain |= !b->is_void;
    l->is_recovering = true;
}

/* Rule 5. */
static void make_certain_behind(struct client_lane *l, struct client_batch *b)
{
    for (struct list *node = b->link.next; node != &l->batches; node = node->next) {
        batch_at(node)->is_uncertain = false;
        batch_at(node)->is_void = batch_at(node)->is_in_flight;
    }
}

void client_lane_settle_refused(struct client_lane *l, struct client_batch *b)
{
    land(l, b);
    l->is_recovering = true;
    if (!b->is_uncertain) {
        make_certain_behind(l, b);
    }
}

enum err client_lane_settle_sequence(struct client_lane *l, struct client_batch *b, bool is_gap)
{
    const bool is_head = b->link.prev == &l->batches;
    client_lane_settle_refused(l, b);
    if (!is_head) {
        return ERR_OK; /* The one before it has to go first. */
    }
    if (b->is_uncertain) {
        return ERR_SEQUENCE_OUT_OF_ORDER; /* Rule 4. */
    }
    /* Numbered behind one that was given up since: nothing is wrong with the broker. */
    l->needs_bump |= !is_gap || b->identity.base_sequence == l->sequence_acked;
    return ERR_OK;
}

void client_lane_give_up(struct client_lane *l, struct client_batch *b)
{
    assert(!b->is_in_flight);
    if (b->is_uncertain) {
        l->needs_bump = true;
        l->is_recovering = true;
    } else if (b->attempts > 0) {
        make_certain_behind(l, b);
        l->is_recovering = true;
    }
    list_remove(&b->link);
}
