/* Transition tables of tasks: a task with two or more waits names them as states, says in a table
 * which may follow which, and moves with sm_move (docs/style.md, e).
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdint.h>

#include "core/assert.h"

#define SM_BIT(state) (UINT32_C(1) << (state))

struct sm_state {
    const char *name;
    uint32_t next; /* SM_BIT of each state that may follow. */
};

/* states: indexed by state; at most 32. */
static inline void sm_move(const struct sm_state *states, uint8_t *state, uint8_t to)
{
    assert((states[*state].next & SM_BIT(to)) != 0);
    *state = to;
}
