#include "perf/bench/pacer.h"

#include <math.h>

#include "core/assert.h"

void pacer_init(struct pacer *p, double rate_from, double rate_to)
{
    assert(rate_from >= 0);
    assert(rate_to >= 0);
    assert(rate_from + rate_to > 0);
    *p = (struct pacer){.rate_from = rate_from, .rate_to = rate_to};
}

void pacer_start(struct pacer *p, uint64_t start_us, uint64_t length_us)
{
    assert_cmp(length_us, >, 0);
    p->start_us = start_us;
    p->length_us = length_us;
    p->next = 0;
}

/* Half of how fast the rate grows: n(t) = rate_from * t + growth * t^2. */
static double growth(const struct pacer *p)
{
    return (p->rate_to - p->rate_from) / (2 * (double)p->length_us / 1e6);
}

/* The t of n(t) = k, in the form that also holds for an even rate. */
static double due_s(const struct pacer *p, uint64_t k)
{
    if (k == 0) {
        return 0;
    }
    const double square = p->rate_from * p->rate_from + 4 * growth(p) * (double)k;
    if (square < 0) {
        return INFINITY; /* A falling rate never gets there. */
    }
    return 2 * (double)k / (p->rate_from + sqrt(square));
}

bool pacer_peek(const struct pacer *p, uint64_t *ret_due_us)
{
    const double at_us = due_s(p, p->next) * 1e6;
    if (!(at_us < (double)p->length_us)) {
        return false;
    }
    *ret_due_us = p->start_us + (uint64_t)at_us;
    return true;
}

void pacer_take(struct pacer *p)
{
    p->next++;
}

uint64_t pacer_due_count(const struct pacer *p, uint64_t now_us)
{
    if (now_us <= p->start_us) {
        return 0;
    }
    uint64_t past_us = now_us - p->start_us;
    past_us = past_us > p->length_us ? p->length_us : past_us;
    const double t = (double)past_us / 1e6;
    /* The first is due at once; what is due just at the end is not. A hair less for what rounding
     * adds. */
    const double exact = p->rate_from * t + growth(p) * t * t;
    return (uint64_t)ceil(exact - 1e-6);
}
