/* One partition of a producer: its batches in order, what may be sent when, and under which
 * sequence number.
 *
 * A batch stays at its place until it is settled, so records keep their order whatever is sent
 * again. After a failure the lane recovers: it waits for all answers, then sends one batch at a
 * time, oldest first, until those that were sent before are settled.
 *
 * Sequence numbers of an idempotent producer (KIP-98, KIP-360)
 * 1. A batch that may be in the log keeps its identity for good. The broker then tells a repetition
 *    from a gap.
 * 2. A batch whose every attempt was refused takes a new number when it is sent again, alone: the
 *    one behind the highest that was acknowledged.
 * 3. Behind a batch that was given up and may be in the log, and when the broker does not know the
 *    numbers, the lane goes on under the next producer epoch, from 0. The broker then refuses what
 *    may still come of the old one.
 * 4. If the broker refuses a batch as out of order that may be in the log, nobody can say: it
 * fails.
 * 5. A batch that is refused for certain makes those sent behind it certain: numbered behind it,
 *    they cannot have got in.
 * 6. That holds once the broker knows the numbers: of a producer that it does not know it takes any
 *    batch. Under a new identity the first batch goes alone, until one is acknowledged.
 * 7. A batch that cannot be in the log and is called a duplicate was taken for another one: rule 3.
 *
 * Private to client/. With the client's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_batch.h"

struct client_lane {
    struct list active_link; /* producer.active, while it has batches. */
    int32_t partition;
    struct list batches; /* Oldest first; only the last may be open. */
    size_t in_flight_count;
    int32_t node_id; /* Where they are, while there are some: no two nodes at a time. */
    bool is_recovering;
    uint32_t failures; /* Since the last success. */
    uint64_t retry_us; /* Nothing is sent before. */

    bool needs_bump;     /* Rule 3. */
    int64_t producer_id; /* What its numbers count under. */
    int16_t producer_epoch;
    bool is_known;          /* Rule 6: one of its batches was acknowledged. */
    int32_t sequence_next;  /* Of the next batch that is sent. */
    int32_t sequence_acked; /* Behind the highest that was acknowledged: never falls. */
};

/* NULL without memory. */
struct client_lane *client_lane_new(int32_t partition);
/* There must be no batches. */
void client_lane_free(struct client_lane *l);

struct client_batch *client_lane_head(const struct client_lane *l); /* NULL: empty. */
/* The last batch if it takes a record of this size. */
struct client_batch *client_lane_open(const struct client_lane *l);

/* The batch to send now, if there is one. Else lowers *next_us to when to ask again, if time alone
 * brings one. */
struct client_batch *client_lane_choose(struct client_producer *p,
                                        struct client_lane *l,
                                        uint64_t now_us,
                                        uint64_t *next_us);

/* The batch goes out: it has its identity from here on. */
void client_lane_send(struct client_producer *p, struct client_lane *l, struct client_batch *b);

/* The attempt is over. */
void client_lane_settle_ok(struct client_lane *l, struct client_batch *b);
/* Nobody knows whether it is in the log. */
void client_lane_settle_unknown(struct client_lane *l, struct client_batch *b);
/* It was not written by this attempt. */
void client_lane_settle_refused(struct client_lane *l, struct client_batch *b);
/* The broker's numbers are others. ERR_OK: it goes again; else it is to be given up. */
enum err client_lane_settle_sequence(struct client_lane *l, struct client_batch *b, bool is_gap);

/* The batch leaves without success; not in flight. */
void client_lane_give_up(struct client_lane *l, struct client_batch *b);
