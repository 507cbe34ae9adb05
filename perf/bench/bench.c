#include "perf/bench/bench.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "core/assert.h"

#include "perf/bench/hlog.h"
#include "perf/bench/reading.h"
#include "perf/bench/window.h"

enum {
    READY_US_MAX = 60000000, /* So long consumers may take to find their places. */
    READY_LOOK_US = 5000,
    STOP_LOOK_US = 100000,
};

static const char *find_reading_contradiction(const struct bench_options *o)
{
    if (o->producers_count > 0 || o->consumers_count == 0) {
        return "there must be consumers, and no producers";
    }
    if (o->from == BENCH_FROM_START_AGAIN && o->groups_count > 0) {
        return "groups read on from where they are: without --again, or without --group";
    }
    return NULL;
}

/* What does not go together, in words. NULL: it does. */
static const char *find_contradiction(const struct bench_options *o)
{
    const bool is_read = o->consumers_count > 0;
    if (is_read && o->workload.value_size_min < WORKLOAD_STAMP_SIZE) {
        return "consumers know records by their first 16 bytes: --size 16 or more, or --consumers "
               "0";
    }
    if (is_read && o->is_replay && o->producer.codec != CLIENT_CODEC_NONE) {
        return "batches that are compressed before the run cannot say when they were due: "
               "--consumers 0, or without --codec or --replay";
    }
    if (o->duration_us == 0) {
        return "there must be a duration";
    }
    if (o->mode == BENCH_READ) {
        return find_reading_contradiction(o);
    }
    if (o->producers_count == 0) {
        return "there must be a producer";
    }
    if (o->mode == BENCH_SEARCH && o->duration_us < BENCH_STEP_US_MIN) {
        return "a step of a search must take 4 seconds: in less what is left at its end is too "
               "much";
    }
    if (o->rate <= 0 && (o->mode != BENCH_RAMP || o->rate_to <= 0)) {
        return "the rate must be above 0";
    }
    return NULL;
}

static void fill_producers(struct run *r, struct producers_options *ret, struct rand *rand)
{
    const struct bench_options *o = r->options;
    *ret = (struct producers_options){
        .brokers = o->brokers,
        .topic = o->topic,
        .count = o->producers_count,
        .producer = o->producer,
        .timeout_ms = (uint32_t)(o->patience_us / 1000),
        .workload = o->workload,
        .is_replay = o->is_replay,
        .replay_batch_size = o->replay_batch_size,
        .published = &r->published,
        .clock = r->clock,
    };
    struct workload_options *w = &ret->workload;
    w->run_id = w->run_id == 0 ? rand_u64(rand) : w->run_id;
    w->seed = w->seed == 0 ? rand_u64(rand) : w->seed;
}

/* Everything that lives through the whole run. */
static enum err open_run(struct run *r, char ret_why[CLIENT_WHY_SIZE])
{
    const struct bench_options *o = r->options;
    struct meter *meters[] = {&r->published, &r->delivered, &r->slip};
    enum err e = ERR_OK;
    for (size_t i = 0; i < sizeof(meters) / sizeof(meters[0]); i++) {
        const enum err one = meter_init(meters[i]);
        e = e == ERR_OK ? one : e;
    }
    if (e != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "no memory for the histograms");
        return e;
    }
    struct rand rand;
    rand_init_real(&rand);
    struct producers_options producers;
    fill_producers(r, &producers, &rand);
    const struct consumers_options consumers = {
        .brokers = o->brokers,
        .topic = o->topic,
        .partitions_count = o->partitions_count,
        .is_from_start = o->is_new_topic || (o->mode == BENCH_READ && o->from != BENCH_FROM_END),
        .is_repeated = o->mode == BENCH_READ && o->from == BENCH_FROM_START_AGAIN,
        .count = o->consumers_count,
        .groups = o->groups,
        .groups_count = o->groups_count,
        .run_id = producers.workload.run_id,
        .delivered = &r->delivered,
        .clock = r->clock,
    };
    if (o->mode != BENCH_READ) {
        e = producers_init(&r->producers, &producers, ret_why);
    }
    if (e == ERR_OK) {
        e = consumers_new(&consumers, ret_why, &r->consumers);
    }
    if (e == ERR_OK && o->idle_count > 0) {
        e = idle_new(o->brokers, o->idle_count, r->clock, ret_why, &r->idle);
    }
    return e;
}

static void close_run(struct run *r)
{
    idle_free(r->idle);
    consumers_free(r->consumers);
    producers_done(&r->producers);
    meter_done(&r->published);
    meter_done(&r->delivered);
    meter_done(&r->slip);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void run_wait(struct run *r, uint64_t until_us)
{
    const struct bench_options *o = r->options;
    const uint64_t now_us = clock_now_us(r->clock);
    const uint64_t wait_us = until_us > now_us ? min_u64(until_us - now_us, STOP_LOOK_US) : 0;
    const struct timespec wait = {.tv_sec = 0, .tv_nsec = (long)wait_us * 1000};
    struct pollfd stop = {.fd = o->stop_fd, .events = POLLIN};
    (void)ppoll(&stop, 1, &wait, NULL); /* A descriptor of -1 is passed over. */
    if (stop.revents != 0 && o->take_stop(o->stop_fd)) {
        r->stopped_us = r->stops_count++ == 0 ? clock_now_us(r->clock) : r->stopped_us;
    }
}

/* What is sent before a consumer knows where it reads would be missing. Who reads by assignment
 * what is there reads from the first moment on, and begins just now. */
static enum err await_consumers(struct run *r, char ret_why[CLIENT_WHY_SIZE])
{
    const bool is_waited_for = r->options->mode != BENCH_READ || r->options->groups_count > 0;
    const uint64_t deadline_us = clock_now_us(r->clock) + READY_US_MAX;
    while (is_waited_for && !consumers_are_ready(r->consumers)) {
        struct consumers_state state;
        consumers_state(r->consumers, &state);
        if (state.err != ERR_OK) {
            (void)snprintf(ret_why, CLIENT_WHY_SIZE, "%s", state.why);
            return state.err;
        }
        if (r->stops_count > 0) {
            (void)snprintf(ret_why, CLIENT_WHY_SIZE, "stopped before the consumers were ready");
            return ERR_CANCELLED;
        }
        const uint64_t now_us = clock_now_us(r->clock);
        if (now_us >= deadline_us) {
            (void)snprintf(ret_why,
                           CLIENT_WHY_SIZE,
                           "%zu of %zu consumers got partitions within a minute",
                           state.ready_count,
                           consumers_count(r->consumers));
            return ERR_TIMED_OUT;
        }
        run_wait(r, now_us + READY_LOOK_US);
    }
    return ERR_OK;
}

static enum err run_one(struct run *r, double rate_from, double rate_to, struct bench_window *ret)
{
    enum err e = window_run(r, rate_from, rate_to, ret);
    if (e == ERR_OK) {
        r->callbacks->on_window(ret, r->callbacks->context);
    }
    return e;
}

static enum err run_search(struct run *r, struct bench_result *result)
{
    struct search s;
    enum err e = ERR_OK;
    search_init(&s, r->options->rate);
    while (e == ERR_OK && r->stops_count == 0 && search_goes_on(&s)) {
        struct bench_window w;
        e = run_one(r, s.rate, s.rate, &w);
        if (e == ERR_OK && !w.was_stopped) {
            search_tell(&s, w.has_held);
        }
    }
    result->found_rate = s.held;
    result->is_complete = search_is_bracketed(&s);
    result->steps_count = s.steps_count;
    return e;
}

static enum err run_reading(struct run *r)
{
    struct bench_reading all;
    reading_run(r, &all);
    r->callbacks->on_reading(&all, r->callbacks->context);
    return ERR_OK;
}

static enum err run_windows(struct run *r, struct bench_result *result)
{
    const struct bench_options *o = r->options;
    struct bench_window w;
    switch (o->mode) {
    case BENCH_RATE:
        return run_one(r, o->rate, o->rate, &w);
    case BENCH_RAMP:
        return run_one(r, o->rate, o->rate_to, &w);
    case BENCH_SEARCH:
        return run_search(r, result);
    case BENCH_READ:
        return run_reading(r);
    }
    assert(false && "no such mode");
    return ERR_INVALID;
}

enum err bench_run(const struct bench_options *options,
                   const struct bench_callbacks *callbacks,
                   char ret_why[CLIENT_WHY_SIZE],
                   struct bench_result *ret_result)
{
    const char *contradiction = find_contradiction(options);
    if (contradiction != NULL) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "%s", contradiction);
        return ERR_INVALID;
    }
    struct run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "no memory");
        return ERR_BUSY;
    }
    r->options = options;
    r->callbacks = callbacks;
    struct clock clock;
    clock_init_real(&clock);
    r->clock = &clock;
    /* The kernel rounds sleeps up by 50 us else. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    struct bench_result result = {0};
    enum err e = open_run(r, ret_why);
    if (e == ERR_OK) {
        e = consumers_start(r->consumers, ret_why);
    }
    if (e == ERR_OK) {
        e = await_consumers(r, ret_why);
    }
    if (e == ERR_OK) {
        callbacks->on_ready(callbacks->context);
        r->began_us = clock_now_us(r->clock);
        if (options->hlog != NULL) {
            hlog_begin(options->hlog, clock_wall_ms(r->clock));
        }
        e = run_windows(r, &result);
        if (e != ERR_OK) {
            (void)snprintf(ret_why, CLIENT_WHY_SIZE, "%s", producers_why(&r->producers));
        } else if (r->hlog_err != ERR_OK) {
            e = r->hlog_err;
            (void)snprintf(ret_why, CLIENT_WHY_SIZE, "no memory for the histogram log");
        }
    }
    close_run(r);
    free(r);
    if (e == ERR_OK) {
        *ret_result = result;
    }
    return e;
}
