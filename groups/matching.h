/* Whose turn it is to match patterns against topics: one queue for all groups of a shard.
 *
 * Together they have a tenth of its core for that, with a second's worth of credit after a rest:
 * however many patterns there are and whatever they cost, they only get late. The measure is steps,
 * not the clock. The queue has two lanes: in one are groups with a member that waits for what its
 * pattern matches, in the other those that are to look again because topics changed. While both
 * have somebody they take turns, so that a member waits for one other turn and not for all of them,
 * and members that come and come hold nobody up. Within a lane the first that came goes first; a
 * turn is short, and whoever needs more goes behind the others.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"

struct matching {
    struct list first; /* A member waits. */
    struct list again; /* Topics changed. */
    bool was_first;    /* The last turn. */
    uint64_t busy_us;  /* Until then the share of the core is used. */
};

void matching_init(struct matching *m);
/* Behind those of its lane. */
void matching_enter(struct matching *m, struct list *link, bool is_first);
/* Whose turn it is: not before matching_due_us, and not in an empty queue. */
struct list *matching_pop(struct matching *m);
/* Whether one that a member waits for may have its turn at once, without the queue; then it has. */
bool matching_take(struct matching *m, uint64_t now_us);
/* What the turn took. */
void matching_charge(struct matching *m, uint64_t now_us, uint64_t steps);
/* No turn before then. */
uint64_t matching_due_us(const struct matching *m);
/* When the next turn is; UINT64_MAX: nobody wants one. */
uint64_t matching_deadline_us(const struct matching *m);
