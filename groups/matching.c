#include "groups/matching.h"

#include "core/assert.h"

enum {
    STEP_NS = 5,
    SHARE = 10,              /* One part in so many of a core. */
    CREDIT_US = 1000 * 1000, /* Of it: a tenth of that is matched at once. */
};

void matching_init(struct matching *m)
{
    *m = (struct matching){0};
    list_init(&m->first);
    list_init(&m->again);
}

void matching_enter(struct matching *m, struct list *link, bool is_first)
{
    list_push_back(is_first ? &m->first : &m->again, link);
}

static bool is_turn_of_again(const struct matching *m)
{
    return m->was_first && !list_is_empty(&m->again);
}

struct list *matching_pop(struct matching *m)
{
    m->was_first = !list_is_empty(&m->first) && !is_turn_of_again(m);
    struct list *link = list_pop_front(m->was_first ? &m->first : &m->again);
    assert(link != NULL);
    return link;
}

bool matching_take(struct matching *m, uint64_t now_us)
{
    if (now_us < matching_due_us(m) || !list_is_empty(&m->first) || is_turn_of_again(m)) {
        return false;
    }
    m->was_first = true;
    return true;
}

void matching_charge(struct matching *m, uint64_t now_us, uint64_t steps)
{
    const uint64_t from_us = m->busy_us > now_us ? m->busy_us : now_us;
    m->busy_us = from_us + steps * STEP_NS * SHARE / 1000;
}

uint64_t matching_due_us(const struct matching *m)
{
    return m->busy_us > CREDIT_US ? m->busy_us - CREDIT_US : 0;
}

uint64_t matching_deadline_us(const struct matching *m)
{
    const bool is_empty = list_is_empty(&m->first) && list_is_empty(&m->again);
    return is_empty ? UINT64_MAX : matching_due_us(m);
}
