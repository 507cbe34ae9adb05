/* What callgrind counts. It is told (by micro.py, with --toggle-collect) to count inside of every
 * function called counted_*, and not inside of those called uncounted_*; they nest. So a case sets
 * itself up, checks answers and simulates disk and net for nothing.
 *
 * Between micro_begin and micro_end, where callgrind starts at zero and writes down what it has, a
 * case does the same thing ops_count times, warm.
 */
#pragma once

#include <stdint.h>

/* Not inlined, not cloned under another name, and with a frame of its own: callgrind must see it
 * called and see it return. */
#if __has_attribute(noipa)
#define MICRO_SEEN __attribute__((noipa))
#else
#define MICRO_SEEN __attribute__((noinline))
#endif

/* Keeps a call from becoming a jump, which would hide the return. */
static inline void micro_keep_frame(void)
{
    __asm__ volatile("" ::: "memory");
}

void micro_begin(void);
/* Prints what micro.py joins with what callgrind wrote. */
void micro_end(const char *name, uint32_t ops_count);

/* Runs f, counted. */
void counted_run(void (*f)(void *context), void *context);

/* All cases through a broker, and those of parts alone. */
void node_cases(void);
void part_cases(void);
