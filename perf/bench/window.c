#include "perf/bench/window.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/assert.h"

#include "perf/bench/hlog.h"

enum {
    LEAD_US = 5000,    /* From the decision to start until the first record is due. */
    RETRY_US = 500,    /* While no client has room. */
    SLEEP_US_MIN = 50, /* What is due sooner goes together. */
    SETTLE_LOOK_US = 1000,
    STOP_LOOK_US = 100000,
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- what is told each second ---- */

static void write_hlog(struct run *r, uint64_t from_us, uint64_t to_us)
{
    const struct {
        const char *tag;
        const struct hdr *histogram;
    } all[] = {
        {"publish", r->published.taken}, {"e2e", r->delivered.taken}, {"slip", r->slip.taken}};
    for (size_t i = 0; r->options->hlog != NULL && i < sizeof(all) / sizeof(all[0]); i++) {
        const struct hlog_interval interval = {
            .tag = all[i].tag,
            .from_s = (double)(from_us - r->began_us) / 1e6,
            .length_s = (double)(to_us - from_us) / 1e6,
            .histogram = all[i].histogram,
        };
        if (all[i].histogram->count > 0 && r->hlog_err == ERR_OK) {
            r->hlog_err = hlog_write(r->options->hlog, &interval);
        }
    }
}

static double record_size(const struct run *r)
{
    const uint64_t count = r->producers.sent_count;
    return count == 0 ? 0 : (double)r->producers.sent_size / (double)count;
}

static uint64_t settled_count(struct run *r)
{
    struct meter_counts counts;
    meter_counts(&r->published, &counts);
    return counts.good_count + counts.bad_count;
}

/* Records that are due and not settled. */
static uint64_t backlog(struct run *r, uint64_t now_us)
{
    const uint64_t due = pacer_due_count(&r->pacer, min_u64(now_us, r->to_us));
    const uint64_t unsent = due > r->pacer.next ? due - r->pacer.next : 0;
    return unsent * producers_step(&r->producers) + r->producers.sent_count - settled_count(r);
}

/* Closes the interval that runs, at end_us. */
static void close_interval(struct run *r, uint64_t end_us)
{
    const uint64_t from_us = r->interval_us;
    const double length_s = (double)(end_us - from_us) / 1e6;
    const uint64_t due = pacer_due_count(&r->pacer, min_u64(end_us, r->to_us));
    struct meter_counts counts;
    meter_counts(&r->published, &counts);
    struct usage_sample sample;
    struct usage usage;
    usage_take_own(&sample, clock_now_us(r->clock));
    usage_between(&r->told_usage, &sample, &usage);
    const struct hdr *published = meter_take(&r->published);
    const struct hdr *delivered = meter_take(&r->delivered);
    const uint64_t waiting = backlog(r, end_us);
    const double acked = (double)(counts.window_good_count - r->told_acked);
    const struct bench_interval interval = {
        .from_s = ((double)from_us - (double)r->from_us) / 1e6,
        .length_s = length_s,
        .offered_rate = (double)(due - r->told_due) * producers_step(&r->producers) / length_s,
        .achieved_rate = acked / length_s,
        .size_rate = acked * record_size(r) / length_s,
        .backlog_count = waiting,
        .failed_count = counts.window_bad_count - r->told_failed,
        .cores = usage.cores,
        .published = published,
        .delivered = delivered,
    };
    (void)meter_take(&r->slip);
    write_hlog(r, from_us, end_us);
    r->callbacks->on_interval(&interval, r->callbacks->context);
    r->interval_us = end_us;
    r->told_due = due;
    r->told_acked = counts.window_good_count;
    r->told_failed = counts.window_bad_count;
    r->told_usage = sample;
}

/* What came since: the rest of the duration, or of the waiting behind it. */
static void close_last(struct run *r)
{
    const uint64_t now_us = clock_now_us(r->clock);
    close_interval(r, r->interval_us < r->to_us ? r->to_us : max_u64(now_us, r->interval_us + 1));
}

/* When the interval that runs is told. The last one of the duration waits a little for the answers
 * to what was due in it. */
static uint64_t tell_us(const struct run *r)
{
    const uint64_t end_us = r->interval_us + BENCH_INTERVAL_US;
    return end_us == r->to_us ? end_us + BENCH_SETTLE_US_MIN : end_us;
}

static void tell(struct run *r, uint64_t now_us)
{
    while (now_us >= tell_us(r)) {
        close_interval(r, r->interval_us + BENCH_INTERVAL_US);
    }
}

/* ---- sending ---- */

/* The operation that was due then was sent. How late is the generator's doing only from when a
 * client had room. */
static void take_slip(struct run *r, uint64_t due_us, uint64_t now_us)
{
    if (r->is_blocked) {
        r->is_blocked = false;
        r->room_us = now_us;
    }
    const uint64_t late_us = now_us - max_u64(due_us, r->room_us);
    meter_record(&r->slip, due_us, due_us + late_us, producers_step(&r->producers));
}

/* Sends what is due, until until_us at most. *ret_next_us is when there is more to do; UINT64_MAX:
 * everything was sent. */
static enum err send_due(struct run *r, uint64_t until_us, uint64_t *ret_next_us)
{
    uint64_t due_us;
    while (pacer_peek(&r->pacer, &due_us) && due_us < r->to_us) {
        const uint64_t now_us = clock_now_us(r->clock);
        if (due_us > now_us) {
            *ret_next_us = max_u64(due_us, now_us + SLEEP_US_MIN);
            return ERR_OK;
        }
        enum err e = now_us >= until_us ? ERR_OK : producers_send(&r->producers, due_us);
        if (now_us >= until_us || e == ERR_BUSY) {
            r->is_blocked |= e == ERR_BUSY;
            *ret_next_us = now_us + (e == ERR_BUSY ? RETRY_US : 0);
            return ERR_OK;
        }
        if (e != ERR_OK) {
            return e;
        }
        pacer_take(&r->pacer);
        take_slip(r, due_us, now_us);
    }
    *ret_next_us = UINT64_MAX;
    return ERR_OK;
}

/* At the end of the duration, as soon as anybody looks. */
static void take_usage_after(struct run *r, uint64_t now_us)
{
    if (r->after.at_us == 0) {
        usage_take(&r->after, now_us);
    }
}

/* Until all was sent, or until_us, or somebody wants it to end for the stops_max-th time. */
static enum err drive(struct run *r, uint64_t until_us, int stops_max)
{
    for (;;) {
        const uint64_t now_us = clock_now_us(r->clock);
        tell(r, now_us);
        if (now_us >= r->to_us) {
            take_usage_after(r, now_us);
        }
        if (now_us >= until_us || r->stops_count >= stops_max) {
            return ERR_OK;
        }
        uint64_t next_us;
        const uint64_t pause_us = min_u64(until_us, tell_us(r));
        enum err e = send_due(r, min_u64(pause_us, now_us + STOP_LOOK_US), &next_us);
        if (e != ERR_OK || next_us == UINT64_MAX) {
            return e;
        }
        run_wait(r, min_u64(next_us, pause_us));
    }
}

static bool is_settled(struct run *r)
{
    return settled_count(r) == r->producers.sent_count;
}

static bool is_delivered(struct run *r)
{
    struct meter_counts published;
    struct meter_counts delivered;
    meter_counts(&r->published, &published);
    meter_counts(&r->delivered, &delivered);
    const uint64_t wanted = published.window_good_count * consumers_readers(r->consumers);
    return delivered.window_good_count >= wanted;
}

/* Until everything that was sent is answered and delivered, or until_us. A second wish to end ends
 * this, too. */
static void settle(struct run *r, uint64_t until_us)
{
    for (;;) {
        const uint64_t now_us = clock_now_us(r->clock);
        tell(r, now_us);
        const bool is_through = is_settled(r) && is_delivered(r);
        if (is_through || now_us >= until_us || r->stops_count > 1) {
            return;
        }
        run_wait(r, min_u64(now_us + SETTLE_LOOK_US, until_us));
    }
}

/* ---- the end ---- */

/* The counts of the window, as they are now. */
static void count_window(struct run *r, struct bench_window *w)
{
    const uint32_t step = producers_step(&r->producers);
    const uint64_t due = pacer_due_count(&r->pacer, r->to_us);
    struct meter_counts published;
    struct meter_counts delivered;
    meter_counts(&r->published, &published);
    meter_counts(&r->delivered, &delivered);
    w->offered_count = due * step;
    w->acked_count = published.window_good_count;
    w->failed_count = published.window_bad_count;
    w->unsent_count = due > r->pacer.next ? (due - r->pacer.next) * step : 0;
    const uint64_t known = w->acked_count + w->failed_count + w->unsent_count;
    w->unanswered_count = w->offered_count > known ? w->offered_count - known : 0;
    const uint64_t wanted = w->acked_count * consumers_readers(r->consumers);
    const uint64_t read = delivered.window_good_count;
    w->missing_count = wanted > read ? wanted - read : 0;

    const uint64_t last_us = max_u64(published.window_last_us, r->to_us);
    w->seconds = (double)(r->to_us - r->from_us) / 1e6;
    w->settle_s = (double)(last_us - r->to_us) / 1e6;
    w->record_size = record_size(r);
    if (w->seconds > 0) {
        w->offered_rate = (double)w->offered_count / w->seconds;
        w->achieved_rate = (double)w->acked_count / (w->seconds + w->settle_s);
    }
    w->size_rate = w->achieved_rate * w->record_size;
    meter_why(&r->published, w->failure);
}

/* What was never sent, or never answered, had waited so long: left out it would flatter. What the
 * clients gave up is among the latencies by then; those of a search go on, and gave nothing up. */
static void measure_unanswered(struct run *r, const struct bench_window *w, uint64_t now_us)
{
    const uint32_t step = producers_step(&r->producers);
    const uint64_t readers = consumers_readers(r->consumers);
    if (r->options->mode == BENCH_SEARCH && w->unanswered_count > 0) {
        meter_miss(&r->published, now_us - r->to_us, w->unanswered_count);
    }
    uint64_t due_us;
    while (pacer_peek(&r->pacer, &due_us) && due_us < r->to_us) {
        meter_miss(&r->published, now_us - due_us, step);
        if (readers > 0) {
            meter_miss(&r->delivered, now_us - due_us, step * readers);
        }
        pacer_take(&r->pacer);
    }
}

/* What was not read by every reader, of all that is among the latencies of publishing. Those that a
 * client gave up had its patience behind them. Which ones they are is not known. */
static void measure_missing(struct run *r, const struct bench_window *w, uint64_t now_us)
{
    const uint64_t readers = consumers_readers(r->consumers);
    const uint64_t since_end_us = now_us - r->to_us;
    struct meter_counts published;
    struct meter_counts delivered;
    meter_counts(&r->published, &published);
    meter_counts(&r->delivered, &delivered);
    const uint64_t wanted = (published.window_good_count + published.window_waited_count) * readers;
    const uint64_t had = delivered.window_good_count + delivered.window_waited_count;
    const uint64_t lacking = wanted > had ? wanted - had : 0;
    const uint64_t waited = published.window_waited_count - w->unsent_count;
    const uint64_t timed_out = waited > w->unanswered_count ? waited - w->unanswered_count : 0;
    const uint64_t given_up = min_u64(lacking, timed_out * readers);
    if (given_up > 0) {
        meter_miss(&r->delivered, max_u64(since_end_us, r->options->patience_us), given_up);
    }
    if (lacking > given_up) {
        meter_miss(&r->delivered, since_end_us, lacking - given_up);
    }
}

/* Everything is known that ever will be. */
static void end_window(struct run *r, struct bench_window *w)
{
    const uint64_t now_us = max_u64(clock_now_us(r->clock), r->to_us);
    count_window(r, w);
    measure_unanswered(r, w, now_us);
    measure_missing(r, w, now_us);
    close_last(r);
    w->published = r->published.total;
    w->delivered = r->delivered.total;
    w->slip = r->slip.total;
    usage_between(&r->before, &r->after, &w->usage);
}

static uint64_t settle_us_max(const struct run *r)
{
    const double share_us = BENCH_SETTLE_SHARE * (double)(r->to_us - r->from_us);
    return max_u64(BENCH_SETTLE_US_MIN, (uint64_t)share_us);
}

/* The rule of bench.h. */
static void judge(const struct run *r, struct bench_window *w)
{
    const uint64_t p99_us = hdr_value_at(w->published, 0.99);
    const uint64_t left = w->unsent_count + w->unanswered_count;
    const double settle_s_max = (double)settle_us_max(r) / 1e6;
    const uint64_t p99_us_max = r->options->p99_us_max;
    char *why = w->why_not;
    const size_t size = sizeof(w->why_not);
    if (w->was_stopped) {
        (void)snprintf(why, size, "stopped before its end");
    } else if (w->failed_count > 0) {
        (void)snprintf(why, size, "%" PRIu64 " records failed", w->failed_count);
    } else if (left > 0) {
        (void)snprintf(why, size, "%" PRIu64 " records were not answered in time", left);
    } else if (w->missing_count > 0) {
        (void)snprintf(why,
                       size,
                       "%" PRIu64 " records were acknowledged but not read in time",
                       w->missing_count);
    } else if (w->settle_s > settle_s_max) {
        (void)snprintf(why,
                       size,
                       "the last answer came %.2f s after the end, %.2f s are allowed",
                       w->settle_s,
                       settle_s_max);
    } else if (p99_us_max > 0 && p99_us > p99_us_max) {
        (void)snprintf(why,
                       size,
                       "p99 was %.1f ms, %.1f ms are allowed",
                       (double)p99_us / 1000,
                       (double)p99_us_max / 1000);
    }
    w->has_held = why[0] == '\0';
}

[[gnu::format(printf, 2, 3)]] static void warn(struct bench_warnings *w, const char *format, ...)
{
    assert_cmp(w->count, <, BENCH_WARNINGS_MAX);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(w->texts[w->count++], BENCH_WARNING_SIZE, format, arguments);
    va_end(arguments);
}

void run_warn_of_usage(const struct usage *u, struct bench_warnings *w)
{
    if (usage_is_thread_full(u)) {
        warn(w,
             "the generator was at its limit: one of its threads took %.0f %% of a processor",
             u->busiest_share * 100);
    }
    if (usage_is_machine_full(u)) {
        warn(
            w,
            "the machine had no processor time left (%.0f %% of it was the generator's): latencies "
            "are also of waiting for it",
            u->own_share * 100);
    }
}

void run_warn_of_idle(struct run *r, struct bench_warnings *w)
{
    const size_t lost = idle_lost_count(r->idle);
    if (lost > 0) {
        warn(w, "the broker closed %zu of %zu idle connections", lost, r->options->idle_count);
    }
}

/* Was it the broker that was measured? */
static void look_at_generator(struct run *r, struct bench_window *w)
{
    const uint64_t slip_us = hdr_value_at(w->slip, 0.99);
    const uint64_t p99_us = hdr_value_at(w->published, 0.99);
    run_warn_of_usage(&w->usage, &w->warnings);
    run_warn_of_idle(r, &w->warnings);
    if (slip_us > BENCH_SLIP_US && slip_us > p99_us / 2) {
        warn(&w->warnings,
             "records were sent late, p99 %.1f ms: the generator or its machine was too slow",
             (double)slip_us / 1000);
    }
    if (r->debt_count > 0) {
        warn(&w->warnings,
             "%" PRIu64 " records were due in the warm-up but never sent, and do not count",
             r->debt_count * producers_step(&r->producers));
    }
    struct consumers_state state;
    consumers_state(r->consumers, &state);
    if (state.err != ERR_OK) {
        warn(&w->warnings, "a consumer gave up: %.200s", state.why);
    }
}

/* ---- the window ---- */

static void open_window(struct run *r, uint64_t from_us, uint64_t to_us)
{
    r->from_us = from_us;
    r->to_us = to_us;
    r->interval_us = from_us;
    r->told_due = 0;
    r->told_acked = 0;
    r->told_failed = 0;
    r->is_blocked = false;
    r->room_us = 0;
    r->debt_count = 0;
    r->after = (struct usage_sample){0};
    meter_open(&r->published, from_us, to_us);
    meter_open(&r->delivered, from_us, to_us);
    meter_open(&r->slip, from_us, to_us);
}

/* Somebody wants it to end: what was due until then counts, and is sent. */
static enum err shorten(struct run *r)
{
    const uint64_t end_us = max_u64(r->stopped_us, r->from_us);
    if (end_us < r->to_us) {
        r->to_us = end_us;
        meter_shorten(&r->published, end_us);
        meter_shorten(&r->delivered, end_us);
        meter_shorten(&r->slip, end_us);
    }
    return drive(r, clock_now_us(r->clock) + r->options->patience_us, 2);
}

/* Of a search the clients are needed again. */
static void drop_unanswered(struct run *r)
{
    if (r->options->mode != BENCH_SEARCH && !is_settled(r)) {
        producers_drop(&r->producers);
    }
}

/* Just before its end the generator's own use is looked at, which takes a moment. */
static enum err warm_up(struct run *r, double rate, uint64_t start_us)
{
    enum err e = ERR_OK;
    producers_forget(&r->producers);
    if (r->from_us > start_us) {
        pacer_init(&r->pacer, rate, rate);
        pacer_start(&r->pacer, start_us, r->from_us - start_us);
        e = drive(r, r->from_us - LEAD_US, 1);
    }
    usage_take(&r->before, clock_now_us(r->clock));
    if (e == ERR_OK && r->from_us > start_us) {
        e = drive(r, r->from_us, 1);
        /* A send that is late by less is not worth a word. */
        const uint64_t now_us = min_u64(r->from_us, clock_now_us(r->clock));
        const uint64_t due = pacer_due_count(&r->pacer, now_us - BENCH_SLIP_US);
        r->debt_count = due > r->pacer.next ? due - r->pacer.next : 0;
        producers_forget(&r->producers);
    }
    return e;
}

enum err window_run(struct run *r, double rate_from, double rate_to, struct bench_window *ret)
{
    const struct bench_options *o = r->options;
    const double step = producers_step(&r->producers);
    const bool is_search = o->mode == BENCH_SEARCH;
    *ret = (struct bench_window){.rate_from = rate_from, .rate_to = rate_to};
    const uint64_t start_us = clock_now_us(r->clock) + LEAD_US;
    open_window(r, start_us + o->warmup_us, start_us + o->warmup_us + o->duration_us);
    enum err e = warm_up(r, (rate_from > 0 ? rate_from : rate_to) / step, start_us);
    usage_take_own(&r->told_usage, clock_now_us(r->clock));
    pacer_init(&r->pacer, rate_from / step, rate_to / step);
    pacer_start(&r->pacer, r->from_us, o->duration_us);
    if (e == ERR_OK) {
        /* A search has seen enough when the time is over in which a rate that holds is through. */
        e = drive(r, r->to_us + (is_search ? settle_us_max(r) : o->patience_us), 1);
    }
    take_usage_after(r, clock_now_us(r->clock));
    if (e == ERR_OK && r->stops_count > 0) {
        e = shorten(r);
        ret->was_stopped = true;
    }
    if (e == ERR_OK) {
        settle(r, clock_now_us(r->clock) + o->patience_us);
        drop_unanswered(r);
        end_window(r, ret);
        judge(r, ret);
        look_at_generator(r, ret);
    }
    usage_done(&r->before);
    usage_done(&r->after);
    return e;
}
