/* Messages between shards. Sending hands the message over: the sender must not touch it again until
 * it comes back.
 *
 * A message is embedded in its owner and travels a const route of {shard, function} hops. By
 * convention the last hop is the shard that allocated it. A message to one's own shard takes the
 * same way through the inbox, so callers need no special case.
 *
 * xmsg_send never fails and never blocks: a full ring overflows into a per-destination outbox.
 * Messages of one sender to one destination are run in the order they were sent.
 */
#pragma once

#include <stdint.h>

#include "core/list.h"

struct shard;
struct xmsg;

struct xmsg_hop {
    uint16_t shard;
    void (*run)(struct shard *here, struct xmsg *m);
};

struct xmsg {
    const struct xmsg_hop *next_hop; /* The hop the message is on its way to. */
    struct list link;                /* Private: outbox or own inbox. */
};

/* Sends m to m->next_hop->shard. Call again from a hop's function, after m->next_hop++, to go on.
 */
void xmsg_send(struct shard *from, struct xmsg *m);

/* The same for what may be late: m does not wake a shard that sleeps, but is run in its order when
 * that wakes for anything else. Only for what gives something back, and is followed by a message
 * that is not quiet. A shard in which somebody waits (quiet_waiters_count, waiters of the buf pool)
 * is woken all the same. */
void xmsg_send_quietly(struct shard *from, struct xmsg *m);

/* m->next_hop++ and send. */
void xmsg_forward(struct shard *here, struct xmsg *m);
