#include "cluster/broadcast.h"

#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "cluster/memory.h"
#include "core/assert.h"
#include "core/wbuf.h"

struct broadcast {
    struct broadcast_order order;
    uint8_t *bytes;
    uint32_t legs_left;
    enum err error;
    uint32_t failed_count;
    struct broadcast_leg legs[]; /* One per shard. */
};

static void run_far(struct shard *here, struct xmsg *m)
{
    struct broadcast_leg *leg = container_of(m, struct broadcast_leg, msg);
    leg->order->run(here, leg);
}

static void run_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct broadcast_leg *leg = container_of(m, struct broadcast_leg, msg);
    struct broadcast *b = leg->broadcast;
    if (leg->error != ERR_OK) {
        b->error = leg->error;
    }
    b->failed_count += leg->failed_count;
    assert_cmp(b->legs_left, >, 0);
    b->legs_left--;
    if (b->legs_left == 0) {
        b->order.on_done(b->order.context, b->error, b->failed_count);
        free(b->bytes);
        free(b);
    }
}

void broadcast_begin(struct cluster_set *set, struct shard *s, const struct broadcast_order *order)
{
    assert_cmp(s->id, ==, 0);
    const uint16_t count = set->shards_count;
    struct broadcast *b = memory_alloc(sizeof(*b) + count * sizeof(b->legs[0]));
    b->order = *order;
    b->legs_left = count;
    size_t size = 0;
    if (order->bytes != NULL) {
        b->bytes = wbuf_take(order->bytes, &size);
    }
    for (uint16_t i = 0; i < count; i++) {
        struct broadcast_leg *leg = &b->legs[i];
        leg->broadcast = b;
        leg->order = &b->order;
        leg->bytes = slice_of(b->bytes, size);
        leg->cluster = set->clusters[i];
        leg->route[0] = (struct xmsg_hop){.shard = i, .run = run_far};
        leg->route[1] = (struct xmsg_hop){.shard = s->id, .run = run_home};
        leg->msg.next_hop = leg->route;
        list_init(&leg->link);
        xmsg_send(s, &leg->msg);
    }
}

void broadcast_leg_done(struct shard *here, struct broadcast_leg *leg)
{
    xmsg_forward(here, &leg->msg);
}
