/* A window, with a broker that is arithmetic and a time that is moved by hand: its producers and
 * consumers, and the wait between two sends, are the ones below instead of the real ones. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/clock.h"

#include "perf/bench/window.h"

enum {
    MS = 1000,
    S = 1000000,
    STARTED_US = 5000000,
    LEAD_US = 5000,
    IN_FLIGHT_MAX = 20000,
    LOOK_US_MAX = 100000, /* As the real wait looks up now and then. */
};

/* What the broker and the clients do. Times from when the window's duration begins. */
struct script {
    uint64_t latency_us;
    uint64_t stall_from_us; /* What would be answered within comes at its end. 0: from ever. */
    uint64_t stall_to_us;
    uint64_t dead_from_us; /* What is sent from here on is never answered. 0: nothing. */
    bool has_timeouts;     /* The clients give up by themselves, after the patience. */
    size_t room;           /* Records in flight. 0: any number. */
    uint64_t send_us;      /* What a send costs the generator. */
    uint32_t refuse_every; /* So many records one is refused. 0: none. */
    uint32_t lose_every;   /* Or is acknowledged, but not seen by the first reader. */
    size_t readers;
    uint64_t stop_us; /* Somebody wants it to end. 0: nobody. */
    bool has_failed_consumer;
    bool is_machine_full;
};

struct sent {
    uint64_t due_us;
    uint64_t over_us; /* UINT64_MAX: never. */
    uint64_t number;
};

static struct {
    struct script script;
    struct clock_sim clock;
    struct run run;
    struct sent in_flight[IN_FLIGHT_MAX];
    size_t in_flight_count;
    uint64_t sent_count;
    /* What the rows had in them. */
    int rows_count;
    double rows_s;
    double offered;
    double acked;
    uint64_t published_count;
    uint64_t delivered_count;
} rig;

/* ---- the broker ---- */

static uint64_t now_us(void)
{
    return rig.clock.now_us;
}

static uint64_t at(uint64_t since_from_us)
{
    return rig.run.from_us + since_from_us;
}

static uint64_t over_us(uint64_t sent_us)
{
    const struct script *s = &rig.script;
    const uint64_t us = sent_us + s->latency_us;
    if (s->dead_from_us > 0 && sent_us >= at(s->dead_from_us)) {
        return UINT64_MAX;
    }
    const bool stalls = s->stall_from_us == 0 || us >= at(s->stall_from_us);
    return stalls && us < at(s->stall_to_us) ? at(s->stall_to_us) : us;
}

static void answer(const struct sent *r)
{
    const struct script *s = &rig.script;
    if (s->refuse_every > 0 && r->number % s->refuse_every == 0) {
        meter_fail(&rig.run.published, r->due_us, 1, ERR_FAILED, "refused");
        return;
    }
    meter_record(&rig.run.published, r->due_us, now_us(), 1);
    for (size_t i = 0; i < s->readers; i++) {
        const bool is_lost = i == 0 && s->lose_every > 0 && r->number % s->lose_every == 0;
        if (!is_lost) {
            meter_record(&rig.run.delivered, r->due_us, now_us(), 1);
        }
    }
}

/* As producers.c tells it. */
static void give_up(const struct sent *r)
{
    meter_wait(&rig.run.published, r->due_us, now_us(), 1);
    meter_fail(&rig.run.published, r->due_us, 1, ERR_TIMED_OUT, "no answer in time");
}

/* When something becomes of it. */
static uint64_t end_us(const struct sent *r)
{
    const uint64_t deadline_us = r->due_us + rig.run.options->patience_us;
    return rig.script.has_timeouts && deadline_us < r->over_us ? deadline_us : r->over_us;
}

static void advance(uint64_t to_us)
{
    size_t kept = 0;
    for (size_t i = 0; i < rig.in_flight_count; i++) {
        const struct sent r = rig.in_flight[i];
        if (end_us(&r) > to_us) {
            rig.in_flight[kept++] = r;
            continue;
        }
        rig.clock.now_us = end_us(&r);
        if (end_us(&r) == r.over_us) {
            answer(&r);
        } else {
            give_up(&r);
        }
    }
    rig.in_flight_count = kept;
    rig.clock.now_us = to_us;
    if (rig.script.stop_us > 0 && to_us >= at(rig.script.stop_us) && rig.run.stops_count == 0) {
        rig.run.stops_count = 1;
        rig.run.stopped_us = at(rig.script.stop_us);
    }
}

/* ---- instead of the real ones ---- */

void run_wait(struct run *r, uint64_t until_us)
{
    (void)r;
    const uint64_t last_us = now_us() + LOOK_US_MAX;
    const uint64_t to_us = until_us < last_us ? until_us : last_us;
    advance(to_us > now_us() ? to_us : now_us() + 1);
}

enum err producers_send(struct producers *p, uint64_t due_us)
{
    if (rig.script.room > 0 && rig.in_flight_count >= rig.script.room) {
        return ERR_BUSY;
    }
    cr_assert(lt(u64, rig.in_flight_count, IN_FLIGHT_MAX));
    rig.in_flight[rig.in_flight_count++] = (struct sent){
        .due_us = due_us,
        .over_us = over_us(now_us()),
        .number = ++rig.sent_count,
    };
    p->sent_count++;
    p->sent_size += 100;
    advance(now_us() + rig.script.send_us);
    return ERR_OK;
}

uint32_t producers_step(const struct producers *p)
{
    (void)p;
    return 1;
}

void producers_forget(struct producers *p)
{
    (void)p;
}

void producers_drop(struct producers *p)
{
    (void)p;
    for (size_t i = 0; i < rig.in_flight_count; i++) {
        meter_wait(&rig.run.published, rig.in_flight[i].due_us, now_us(), 1);
    }
    rig.in_flight_count = 0;
}

size_t consumers_readers(const struct consumers *c)
{
    (void)c;
    return rig.script.readers;
}

void consumers_state(struct consumers *c, struct consumers_state *ret_state)
{
    (void)c;
    *ret_state = (struct consumers_state){
        .err = rig.script.has_failed_consumer ? ERR_CORRUPT : ERR_OK,
        .why = "a batch fails its checks",
    };
}

void usage_take_own(struct usage_sample *s, uint64_t at_us)
{
    *s = (struct usage_sample){.at_us = at_us};
}

void usage_take(struct usage_sample *s, uint64_t at_us)
{
    usage_take_own(s, at_us);
}

void usage_done(struct usage_sample *s)
{
    (void)s;
}

/* All the time there was. */
void usage_between(const struct usage_sample *a, const struct usage_sample *b, struct usage *ret)
{
    *ret = (struct usage){.seconds = (double)(b->at_us - a->at_us) / 1e6};
}

bool usage_is_thread_full(const struct usage *u)
{
    (void)u;
    return rig.script.is_machine_full;
}

bool usage_is_machine_full(const struct usage *u)
{
    (void)u;
    return rig.script.is_machine_full;
}

/* ---- a run ---- */

static void on_interval(const struct bench_interval *i, void *context)
{
    (void)context;
    rig.rows_count++;
    rig.rows_s += i->length_s;
    rig.offered += i->offered_rate * i->length_s;
    rig.acked += i->achieved_rate * i->length_s;
    rig.published_count += i->published->count;
    rig.delivered_count += i->delivered->count;
}

static void done(void)
{
    if (rig.run.options != NULL) {
        meter_done(&rig.run.published);
        meter_done(&rig.run.delivered);
        meter_done(&rig.run.slip);
    }
}

/* A thousand records per second. What it leaves is there until the next. */
static struct bench_window run(const struct bench_options *options, const struct script *script)
{
    static const struct bench_callbacks callbacks = {.on_interval = on_interval};
    struct bench_window w;
    done();
    memset(&rig, 0, sizeof(rig));
    rig.script = *script;
    clock_init_sim(&rig.clock, STARTED_US, 0);
    struct run *r = &rig.run;
    r->options = options;
    r->callbacks = &callbacks;
    r->clock = &rig.clock.clock;
    r->began_us = STARTED_US;
    r->from_us = STARTED_US + LEAD_US + options->warmup_us;
    cr_assert(eq(int, meter_init(&r->published), ERR_OK));
    cr_assert(eq(int, meter_init(&r->delivered), ERR_OK));
    cr_assert(eq(int, meter_init(&r->slip), ERR_OK));
    cr_assert(eq(int, window_run(r, 1000, 1000, &w), ERR_OK));
    return w;
}

TestSuite(bench_window, .fini = done);

/* Within so much, and what a bucket is wide. */
static void near(uint64_t is, uint64_t wanted, uint64_t within)
{
    cr_assert(is + within >= wanted && is <= wanted + wanted / 1000 + within,
              "%" PRIu64 " instead of %" PRIu64,
              is,
              wanted);
}

static void near_at(const struct hdr *h, double quantile, uint64_t wanted_us, uint64_t within_us)
{
    near(hdr_value_at(h, quantile), wanted_us, within_us);
}

/* Nothing that the table has is missing in the rows. */
static void rows_add_up(const struct bench_window *w)
{
    cr_assert(eq(u64, rig.published_count, w->published->count));
    cr_assert(eq(u64, rig.delivered_count, w->delivered->count));
    near((uint64_t)(rig.offered + 0.5), w->offered_count, 0);
    near((uint64_t)(rig.acked + 0.5), w->acked_count, 0);
}

static const struct bench_options four_seconds = {
    .mode = BENCH_RATE,
    .warmup_us = 1 * S,
    .duration_us = 4 * S,
    .patience_us = 10 * S,
};

/* Of 4000 records 1000 are due while the broker stands still: they wait between a second and
 * nothing, evenly. So the 3600th of all waits 0.6 s, the 3960th 0.96 s. A loop that waits for its
 * answers would send one of them. What it takes to catch up is the tolerance. */
Test(bench_window, a_stall_of_a_second_has_the_percentiles_of_arithmetic)
{
    static const struct {
        size_t room;
        uint64_t within_us;
    } rows[] = {{0, 1100}, {200, 10 * MS}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct script script = {
            .latency_us = 1 * MS,
            .stall_from_us = 1 * S,
            .stall_to_us = 2 * S,
            .room = rows[i].room,
            .readers = 1,
        };
        const struct bench_window w = run(&four_seconds, &script);
        const struct hdr *both[] = {w.published, w.delivered};
        for (size_t k = 0; k < 2; k++) {
            cr_assert(eq(u64, both[k]->count, 4000));
            near_at(both[k], 0.5, 1 * MS, 60);
            near_at(both[k], 0.9, 600 * MS, rows[i].within_us);
            near_at(both[k], 0.99, 960 * MS, rows[i].within_us);
            near_at(both[k], 0.999, 996 * MS, rows[i].within_us);
            near_at(both[k], 1.0, 1000 * MS, rows[i].within_us);
        }
        /* It was not the generator that was late. */
        cr_assert(lt(u64, w.slip->value_max, 1 * MS));
        cr_assert(eq(u64, w.warnings.count, 0));
        cr_assert(eq(u64, w.acked_count, 4000));
        cr_assert(eq(int, rig.rows_count, 4));
        rows_add_up(&w);
    }
}

static const struct bench_options one_second = {
    .mode = BENCH_RATE,
    .duration_us = 1 * S,
    .patience_us = 1 * S,
};

/* From the middle on nothing is answered. The clients give each up after a second; or they do not,
 * and the run does, a second after its end: then they waited between 1.5 and 1 second. */
Test(bench_window, what_is_given_up_counts_with_its_wait)
{
    static const struct {
        bool has_timeouts;
        uint64_t p75_us;
        uint64_t max_us;
        uint64_t delivered_max_us;
    } rows[] = {{true, 1 * S, 1 * S, 1 * S}, {false, 1250 * MS, 1500 * MS, 1 * S}};
    for (size_t i = 0; i < 2; i++) {
        const struct script script = {
            .latency_us = 1 * MS,
            .dead_from_us = 500 * MS,
            .has_timeouts = rows[i].has_timeouts,
            .readers = 2,
        };
        const struct bench_window w = run(&one_second, &script);
        cr_assert(eq(u64, w.acked_count, 500));
        cr_assert(eq(u64, w.failed_count, rows[i].has_timeouts ? 500 : 0));
        cr_assert(eq(u64, w.unanswered_count, rows[i].has_timeouts ? 0 : 500));
        cr_assert(eq(u64, w.missing_count, 0));
        cr_assert(eq(u64, w.published->count, 1000));
        cr_assert(eq(u64, w.delivered->count, 2000));
        near_at(w.published, 0.25, 1 * MS, 60);
        near_at(w.published, 0.75, rows[i].p75_us, 3 * MS);
        near_at(w.published, 1.0, rows[i].max_us, 3 * MS);
        near_at(w.delivered, 0.25, 1 * MS, 60);
        near_at(w.delivered, 0.75, rows[i].delivered_max_us, 3 * MS);
        rows_add_up(&w);
    }
}

/* The broker stands still for longer than the patience, and is back long before the end: nothing is
 * under way then, but 500 records had waited a second for nothing, end to end as well. */
Test(bench_window, what_was_given_up_long_ago_counts_with_the_patience)
{
    struct bench_options options = four_seconds;
    options.patience_us = 1 * S;
    const struct script script = {
        .latency_us = 1 * MS,
        .stall_from_us = 500 * MS,
        .stall_to_us = 2 * S,
        .has_timeouts = true,
        .readers = 1,
    };
    const struct bench_window w = run(&options, &script);
    near(w.failed_count, 500, 1);
    cr_assert(eq(u64, w.delivered->count, 4000));
    near_at(w.published, 0.9, 1 * S, 1 * MS);
    near_at(w.delivered, 0.9, 1 * S, 1 * MS);
    rows_add_up(&w);
}

/* A hundred find room, and the end comes 2 s after that of the duration: one of waiting for room,
 * one for answers. */
Test(bench_window, what_found_no_room_counts_since_it_was_due)
{
    const struct script script = {.dead_from_us = 1, .room = 100, .readers = 2};
    const struct bench_window w = run(&one_second, &script);
    cr_assert(eq(u64, w.offered_count, 1000));
    cr_assert(eq(u64, w.acked_count, 1)); /* Sent at the very start. */
    cr_assert(eq(u64, w.unsent_count, 899));
    cr_assert(eq(u64, w.unanswered_count, 100));
    cr_assert(eq(u64, w.published->count, 1000));
    cr_assert(eq(u64, w.delivered->count, 2000));
    near((uint64_t)(w.usage.seconds * S), 1 * S, 5 * MS); /* Not of the waiting behind it. */
    near_at(w.published, 0.5, 2500 * MS, 5 * MS);
    near_at(w.published, 0.05, 2050 * MS, 5 * MS);
    near_at(w.published, 1.0, 3000 * MS, 5 * MS);
    near_at(w.delivered, 0.5, 2400 * MS, 5 * MS); /* 200 of the 2000 have the least, 2 s. */
    rows_add_up(&w);
}

/* One of ten is acknowledged but not read by one of two; its latency is the time it was waited for.
 */
Test(bench_window, what_is_missing_is_told_and_counts)
{
    const struct script script = {.latency_us = 1 * MS, .lose_every = 10, .readers = 2};
    const struct bench_window w = run(&one_second, &script);
    cr_assert(eq(u64, w.missing_count, 100));
    cr_assert(eq(u64, w.published->count, 1000));
    near_at(w.published, 1.0, 1 * MS, 60);
    cr_assert(eq(u64, w.delivered->count, 2000));
    near_at(w.delivered, 0.949, 1 * MS, 60);
    near_at(w.delivered, 0.96, 1 * S, 3 * MS);
    rows_add_up(&w);
}

/* What was refused at once would flatter. */
Test(bench_window, what_is_refused_is_only_told)
{
    const struct script script = {.latency_us = 1 * MS, .refuse_every = 10, .readers = 1};
    const struct bench_window w = run(&one_second, &script);
    cr_assert(eq(u64, w.failed_count, 100));
    cr_assert(eq(u64, w.acked_count, 900));
    cr_assert(eq(u64, w.missing_count, 0));
    cr_assert(eq(u64, w.published->count, 900));
    cr_assert(eq(u64, w.delivered->count, 900));
    cr_assert(eq(str, (char *)w.failure, (char *)"refused"));
    rows_add_up(&w);
}

/* What was due until then is sent and answered, and counts; nothing else does. */
Test(bench_window, an_early_end_loses_nothing)
{
    const struct script script = {
        .latency_us = 20 * MS, .room = 10, .readers = 1, .stop_us = 1500 * MS};
    const struct bench_window w = run(&four_seconds, &script);
    cr_assert(w.was_stopped);
    cr_assert(eq(u64, w.offered_count, 1500));
    cr_assert(eq(u64, w.acked_count, 1500));
    cr_assert(eq(u64, w.unsent_count, 0));
    cr_assert(eq(u64, w.published->count, 1500));
    cr_assert(epsilon_eq(dbl, w.seconds, 1.5, 1e-9));
}

/* A step of a search: the first reason why it does not hold. */
Test(bench_window, a_step_holds_or_says_why_not)
{
    static const struct {
        struct script script;
        const char *why;
    } rows[] = {
        {{.latency_us = 1 * MS, .readers = 1}, ""},
        {{.latency_us = 190 * MS}, ""},
        {{.latency_us = 210 * MS}, "the last answer came 0.21 s after the end, 0.20 s are allowed"},
        {{.latency_us = 1 * MS, .refuse_every = 1000}, "4 records failed"},
        {{.latency_us = 1 * MS, .dead_from_us = 3990 * MS}, "10 records were not answered in time"},
        {{.latency_us = 10 * MS, .room = 5}, "records were not answered in time"},
        {{.latency_us = 1 * MS, .lose_every = 2000, .readers = 1},
         "2 records were acknowledged but not read in time"},
        {{.latency_us = 1 * MS, .stall_from_us = 1 * S, .stall_to_us = 1600 * MS},
         "p99 was 561.2 ms, 300.0 ms are allowed"},
        {{.latency_us = 1 * MS, .stop_us = 1 * S}, "stopped before its end"},
    };
    struct bench_options options = four_seconds;
    options.mode = BENCH_SEARCH;
    options.warmup_us = 0;
    options.p99_us_max = 300 * MS;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct bench_window w = run(&options, &rows[i].script);
        cr_assert(strstr(w.why_not, rows[i].why) != NULL, "row %zu: %s", i, w.why_not);
        cr_assert(eq(int, w.has_held, rows[i].why[0] == '\0'), "row %zu: %s", i, w.why_not);
    }
}

/* In a search the clients go on: what they still have counts since the end of the step. */
Test(bench_window, a_step_counts_what_is_under_way)
{
    struct bench_options options = one_second;
    options.mode = BENCH_SEARCH;
    const struct script script = {.latency_us = 1 * MS, .dead_from_us = 900 * MS};
    const struct bench_window w = run(&options, &script);
    cr_assert(eq(u64, w.unanswered_count, 100));
    cr_assert(eq(u64, w.published->count, 1000));
    near_at(w.published, 0.95, 1 * S, 3 * MS);
    rows_add_up(&w);
}

/* Figures that may be the generator's own come with a warning. */
Test(bench_window, doubts_are_told)
{
    static const struct {
        struct script script;
        const char *warning;
    } rows[] = {
        /* Half of a thousand sends a second is all it can. */
        {{.latency_us = 1 * MS, .send_us = 2 * MS}, "records were sent late"},
        /* The same, and there was no room once. */
        {{.latency_us = 1 * MS, .send_us = 2 * MS, .stall_to_us = 300 * MS, .room = 100},
         "records were sent late"},
        {{.latency_us = 1 * MS, .stall_to_us = 1, .room = 100},
         "records were due in the warm-up but never sent"},
        {{.latency_us = 1 * MS, .is_machine_full = true}, "the generator was at its limit"},
        {{.latency_us = 1 * MS, .is_machine_full = true}, "no processor time left"},
        {{.latency_us = 1 * MS, .has_failed_consumer = true},
         "a consumer gave up: a batch fails its checks"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct bench_window w = run(&four_seconds, &rows[i].script);
        bool is_told = false;
        for (size_t k = 0; k < w.warnings.count; k++) {
            is_told |= strstr(w.warnings.texts[k], rows[i].warning) != NULL;
        }
        cr_assert(is_told, "row %zu", i);
    }
}
