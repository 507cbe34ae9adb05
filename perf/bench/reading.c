#include "perf/bench/reading.h"

#include <stdio.h>

enum {
    LOOK_US = 5000,
};

/* Where the readers were at a time. */
struct mark {
    uint64_t at_us;
    uint64_t records_count;
    uint64_t size;
    struct usage_sample usage;
};

static void take_mark(struct run *r, const struct consumers_state *state, struct mark *ret)
{
    *ret = (struct mark){
        .at_us = clock_now_us(r->clock),
        .records_count = state->records_count,
        .size = state->size,
    };
    usage_take_own(&ret->usage, ret->at_us);
}

static void between(const struct mark *a,
                    const struct mark *b,
                    const struct consumers_state *state,
                    struct bench_reading *ret)
{
    *ret = (struct bench_reading){
        .seconds = (double)(b->at_us - a->at_us) / 1e6,
        .records_count = b->records_count - a->records_count,
        .size = b->size - a->size,
        .lag_count = state->lag_count,
    };
    usage_between(&a->usage, &b->usage, &ret->usage);
}

static void tell_row(struct run *r,
                     const struct mark *begin,
                     struct mark *row,
                     const struct consumers_state *state)
{
    struct mark now;
    struct bench_reading told;
    take_mark(r, state, &now);
    between(row, &now, state, &told);
    told.from_s = (double)(row->at_us - begin->at_us) / 1e6;
    r->callbacks->on_row(&told, r->callbacks->context);
    *row = now;
}

static bool is_over(const struct run *r, const struct consumers_state *state)
{
    const bool is_once = r->options->from == BENCH_FROM_START;
    return r->stops_count > 0 || state->err != ERR_OK || (is_once && state->is_at_end);
}

/* Rows, until it is over. */
static void
follow(struct run *r, const struct mark *begin, uint64_t to_us, struct consumers_state *ret)
{
    struct mark row = *begin;
    for (;;) {
        const uint64_t now_us = clock_now_us(r->clock);
        consumers_state(r->consumers, ret);
        const bool is_last = now_us >= to_us || is_over(r, ret);
        if (now_us - row.at_us >= BENCH_INTERVAL_US || (is_last && now_us > row.at_us)) {
            tell_row(r, begin, &row, ret);
        }
        if (is_last) {
            return;
        }
        const uint64_t row_us = row.at_us + BENCH_INTERVAL_US;
        uint64_t until_us = row_us < to_us ? row_us : to_us;
        until_us = until_us < now_us + LOOK_US ? until_us : now_us + LOOK_US;
        run_wait(r, until_us);
    }
}

static void warm_up(struct run *r)
{
    const uint64_t until_us = clock_now_us(r->clock) + r->options->warmup_us;
    struct consumers_state state;
    do {
        run_wait(r, until_us);
        consumers_state(r->consumers, &state);
    } while (clock_now_us(r->clock) < until_us && !is_over(r, &state));
}

void reading_run(struct run *r, struct bench_reading *ret)
{
    struct consumers_state state;
    struct usage_sample before;
    struct usage_sample after;
    struct mark begin;
    struct mark end;
    if (r->options->warmup_us > 0) {
        warm_up(r);
    }
    usage_take(&before, clock_now_us(r->clock));
    consumers_state(r->consumers, &state);
    take_mark(r, &state, &begin);
    follow(r, &begin, begin.at_us + r->options->duration_us, &state);
    take_mark(r, &state, &end);
    usage_take(&after, clock_now_us(r->clock));
    const bool is_through = r->options->from == BENCH_FROM_START && state.is_at_end;
    if (is_through) {
        /* That it was the last was noticed later. */
        end.at_us = state.last_us > begin.at_us ? state.last_us : begin.at_us;
    }
    between(&begin, &end, &state, ret);
    ret->is_through = is_through;
    ret->was_stopped = r->stops_count > 0;
    usage_between(&before, &after, &ret->usage);
    (void)snprintf(ret->failure, sizeof(ret->failure), "%s", state.why);
    run_warn_of_usage(&ret->usage, &ret->warnings);
    run_warn_of_idle(r, &ret->warnings);
    usage_done(&before);
    usage_done(&after);
}
