/* Timers against a naive model: a list searched for the earliest. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "core/list.h"
#include "core/rand.h"
#include "core/timer.h"

enum {
    TIMERS_COUNT = 200,
};

struct fired {
    struct timer timer;
    struct timers *timers;
    size_t *fired_ids;
    size_t *fired_count;
    size_t id;
    uint64_t rearm_us; /* 0: stay quiet. */
};

static void on_expired(struct timer *t)
{
    struct fired *f = container_of(t, struct fired, timer);
    cr_assert(not(timer_is_armed(t)));
    if (f->fired_ids != NULL) {
        f->fired_ids[*f->fired_count] = f->id;
    }
    (*f->fired_count)++;
    if (f->rearm_us != 0) {
        timer_arm(f->timers, t, f->rearm_us);
    }
}

struct model_entry {
    uint64_t deadline_us;
    uint64_t sequence;
    bool is_armed;
};

/* Index of the earliest armed entry with deadline <= now_us, or TIMERS_COUNT. */
static size_t model_earliest(const struct model_entry *model, uint64_t now_us)
{
    size_t best = TIMERS_COUNT;
    for (size_t i = 0; i < TIMERS_COUNT; i++) {
        if (!model[i].is_armed || model[i].deadline_us > now_us) {
            continue;
        }
        bool is_earlier = best == TIMERS_COUNT || model[i].deadline_us < model[best].deadline_us ||
                          (model[i].deadline_us == model[best].deadline_us &&
                           model[i].sequence < model[best].sequence);
        best = is_earlier ? i : best;
    }
    return best;
}

static void
check_expired(struct timers *ts, struct model_entry *model, size_t *ids, uint64_t now_us)
{
    size_t fired_count = timers_run(ts, now_us, SIZE_MAX);
    for (size_t i = 0; i < fired_count; i++) {
        size_t expected = model_earliest(model, now_us);
        cr_assert(eq(sz, ids[i], expected));
        model[expected].is_armed = false;
    }
    cr_assert(eq(sz, model_earliest(model, now_us), TIMERS_COUNT), "all that expired have fired");
    size_t next = model_earliest(model, UINT64_MAX - 1);
    uint64_t next_us = next == TIMERS_COUNT ? UINT64_MAX : model[next].deadline_us;
    cr_assert(eq(u64, timers_next_deadline_us(ts), next_us));
}

Test(timer, agrees_with_the_model)
{
    struct rand r;
    rand_init_seed(&r, 11);
    struct timers ts;
    timers_init(&ts);
    static struct fired timers[TIMERS_COUNT];
    struct model_entry model[TIMERS_COUNT] = {0};
    size_t ids[TIMERS_COUNT];
    size_t fired_count = 0;
    uint64_t sequence = 0;
    for (size_t i = 0; i < TIMERS_COUNT; i++) {
        timers[i] = (struct fired){.fired_ids = ids, .fired_count = &fired_count, .id = i};
        timer_init(&timers[i].timer, on_expired);
    }
    for (uint64_t now_us = 0; now_us < 5000; now_us++) {
        for (uint64_t n = rand_below(&r, 4); n > 0; n--) {
            size_t i = rand_below(&r, TIMERS_COUNT);
            if (rand_one_in(&r, 3)) {
                timer_cancel(&ts, &timers[i].timer);
                model[i].is_armed = false;
            } else {
                /* Few different deadlines, so that many are equal. */
                model[i] = (struct model_entry){now_us + rand_below(&r, 50), sequence++, true};
                timer_arm(&ts, &timers[i].timer, model[i].deadline_us);
            }
            cr_assert(eq(int, timer_is_armed(&timers[i].timer), model[i].is_armed));
        }
        fired_count = 0;
        check_expired(&ts, model, ids, now_us);
    }
    for (size_t i = 0; i < TIMERS_COUNT; i++) {
        timer_cancel(&ts, &timers[i].timer);
        timer_cancel(&ts, &timers[i].timer); /* Harmless. */
    }
    timers_done(&ts);
}

Test(timer, a_timer_may_arm_itself_again_and_the_budget_bounds_it)
{
    struct timers ts;
    timers_init(&ts);
    size_t fired_count = 0;
    struct fired f = {.timers = &ts, .fired_count = &fired_count, .rearm_us = 1};
    timer_init(&f.timer, on_expired);
    timer_arm(&ts, &f.timer, 1);
    cr_assert(eq(sz, timers_run(&ts, 5, 10), 10));
    cr_assert(eq(sz, fired_count, 10));
    f.rearm_us = 0;
    cr_assert(eq(sz, timers_run(&ts, 5, 10), 1));
    cr_assert(eq(sz, timers_run(&ts, UINT64_MAX, 10), 0));
    timers_done(&ts);
}
