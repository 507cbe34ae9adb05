/* The search for the highest rate that is sustained: doubles while a step holds, then halves the
 * distance between the highest rate that held and the lowest that did not, until they are within
 * SEARCH_PRECISION of each other. A rate that fails is tried once more before it counts as failed:
 * one hiccup of the machine decides nothing.
 *
 * Pure: whether a step held is judged by who ran it.
 */
#pragma once

#include <stdbool.h>

#define SEARCH_PRECISION 0.05

enum {
    SEARCH_STEPS_MAX = 128, /* Whatever happens. */
};

struct search {
    double rate;    /* Of the next step. */
    double held;    /* The highest that held; 0: none. */
    double failed;  /* The lowest that failed; 0: none. */
    bool is_second; /* This rate failed before. */
    int steps_count;
};

void search_init(struct search *s, double rate);
/* True: run a step at s->rate, and tell. */
bool search_goes_on(const struct search *s);
/* The highest rate that held is known, as exactly as it is looked for. */
bool search_is_bracketed(const struct search *s);
void search_tell(struct search *s, bool has_held);
