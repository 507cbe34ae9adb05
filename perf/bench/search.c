#include "perf/bench/search.h"

#include "core/assert.h"

/* Nothing slower is looked for, in records per second. */
#define RATE_MIN 0.1

void search_init(struct search *s, double rate)
{
    assert(rate > 0);
    *s = (struct search){.rate = rate};
}

bool search_goes_on(const struct search *s)
{
    return s->steps_count < SEARCH_STEPS_MAX && s->rate >= RATE_MIN && !search_is_bracketed(s);
}

bool search_is_bracketed(const struct search *s)
{
    return s->held > 0 && s->failed > 0 && s->failed <= s->held * (1 + SEARCH_PRECISION);
}

void search_tell(struct search *s, bool has_held)
{
    s->steps_count++;
    if (!has_held && !s->is_second) {
        s->is_second = true;
        return;
    }
    s->is_second = false;
    if (has_held) {
        s->held = s->rate;
    } else {
        s->failed = s->rate;
    }
    if (s->failed == 0) {
        s->rate = s->held * 2;
    } else {
        s->rate = (s->held + s->failed) / 2;
    }
}
