/* The loop of one core.
 *
 * Budgets: no source may keep the others waiting for longer than a few hundred microseconds of
 * ordinary work. What does not fit waits for the next turn, which follows at once.
 */
#include "core/shard.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"
#include "core/xmsg_priv.h"

enum {
    MESSAGES_BUDGET = 256,
    COMPLETIONS_BUDGET = 256,
    TIMERS_BUDGET = 256,
    TASKS_BUDGET = 64,

    /* Waking a sleeping core costs 30 to 50 us; spinning longer than that cannot pay off. */
    SPIN_US = 50,
    /* Weight of the past in gap_us_mean: 7 of 8. */
    GAP_WEIGHT = 8,
    /* A longer gap counts as this long, so that a busy phase is noticed after a few gaps. */
    GAP_US_MAX = 1000,

    STALL_LOG_INTERVAL_US = 1000 * 1000,
};

void task_init(struct task *t, const char *name, void (*run)(struct task *t))
{
    *t = (struct task){.name = name, .run = run};
    list_init(&t->link);
}

static void
add_stat(struct shard *s, size_t *count, enum stat_kind kind, const struct stat *described)
{
    assert_cmp(*count, <, SHARD_STATS_COUNT);
    struct stat *st = &s->own_stats[(*count)++];
    *st = *described;
    st->kind = kind;
    st->labels = s->stats_label;
    stats_add(&s->stats, st);
}

static void add_own_stats(struct shard *s)
{
    (void)snprintf(s->stats_label, sizeof(s->stats_label), "shard=\"%u\"", (unsigned)s->id);
    const struct buf_pool_stats *memory = buf_pool_counters(s->bufs);
    const struct stat counters[] = {
        {.name = "coreflume_loop_turns_total",
         .help = "Turns of the loop in which something ran.",
         .value = &s->counters.turns},
        {.name = "coreflume_loop_sleeps_total",
         .help = "Times the loop went to sleep.",
         .value = &s->counters.sleeps},
        {.name = "coreflume_loop_stalls_total",
         .help = "Turns of the loop that took too long.",
         .value = &s->counters.stalls},
        {.name = "coreflume_shard_messages_total",
         .help = "Messages run that came from shards.",
         .value = &s->counters.messages},
        {.name = "coreflume_shard_messages_overflowed_total",
         .help = "Messages that met a full ring.",
         .value = &s->counters.messages_overflowed},
        {.name = "coreflume_shard_wakes_total",
         .help = "Sleeping shards woken by this one.",
         .value = &s->counters.wakes_sent},
        {.name = "coreflume_io_read_bytes_total",
         .help = "Bytes read from files.",
         .value = &s->io.stats.read_bytes},
        {.name = "coreflume_io_written_bytes_total",
         .help = "Bytes written to files.",
         .value = &s->io.stats.write_bytes},
        {.name = "coreflume_io_failures_total",
         .help = "I/O operations that ended with an error.",
         .value = &s->io.stats.failed},
        {.name = "coreflume_memory_refusals_total",
         .help = "Buffer allocations that met the memory limit.",
         .value = &memory->refused},
    };
    const struct stat gauges[] = {
        {.name = "coreflume_memory_used_bytes",
         .help = "Buffer memory in use.",
         .value = &memory->used_size},
        {.name = "coreflume_memory_limit_bytes",
         .help = "Buffer memory of the shard.",
         .value = &memory->size_max},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        add_stat(s, &count, STAT_COUNTER, &counters[i]);
    }
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        add_stat(s, &count, STAT_GAUGE, &gauges[i]);
    }
}

static void seed_randomness(struct shard *s, uint64_t seed)
{
    if (seed == 0) {
        rand_init_real(&s->rand);
    } else {
        /* Shards of one seed must not draw the same numbers. */
        rand_init_seed(&s->rand, seed + s->id * 0x9e3779b97f4a7c15u);
    }
    s->hash_seed = rand_u64(&s->rand);
}

enum err
shard_init(struct shard *s, struct shard_group *g, uint16_t id, const struct shard_options *o)
{
    assert(o->backend != NULL);
    assert(o->clock != NULL);
    assert(o->log != NULL);

    *s = (struct shard){
        .id = id,
        .shards_count = shard_group_count(g),
        .group = g,
        .clock = o->clock,
        .log = o->log,
        .stall_us_max = o->stall_us_max,
        .running = "init",
        .now_us = clock_now_us(o->clock),
        .wall_ms = clock_wall_ms(o->clock),
        .gap_us_mean = GAP_US_MAX,
    };
    io_init(&s->io, o->backend);
    timers_init(&s->timers);
    stats_init(&s->stats);
    list_init(&s->tasks);
    list_init(&s->inbox);
    seed_randomness(s, o->rand_seed);

    enum err e = xmsg_port_new(g, id, &s->port);
    if (e != ERR_OK) {
        return e;
    }
    e = buf_pool_new(o->memory_size, o->memory_reserve_size, &s->io, &s->bufs);
    if (e != ERR_OK) {
        xmsg_port_free(s->port);
        return e;
    }
    add_own_stats(s);
    xmsg_publish_shard(g, id, s);
    return ERR_OK;
}

void shard_done(struct shard *s)
{
    xmsg_publish_shard(s->group, s->id, NULL);
    buf_pool_free(s->bufs);
    xmsg_port_free(s->port);
    timers_done(&s->timers);
    io_done(&s->io);
    s->bufs = NULL;
    s->port = NULL;
}

void shard_post(struct shard *s, struct task *t)
{
    if (list_is_empty(&t->link)) {
        list_push_back(&s->tasks, &t->link);
    }
}

/* Ends a part of the turn: what took longest is what a stall is blamed on. */
static void mark(struct shard *s)
{
    uint64_t now_us = clock_now_us(s->clock);
    uint64_t took_us = now_us - s->mark_us;
    if (took_us >= s->turn_longest_us) {
        s->turn_longest_us = took_us;
        s->turn_longest = s->running;
    }
    s->mark_us = now_us;
}

/* Only what is there now: a task that posts itself again must not hold up the turn. */
static size_t run_tasks(struct shard *s, size_t budget)
{
    s->running = "memory_waiters";
    size_t ran = buf_pool_run_waiters(s->bufs);
    if (list_is_empty(&s->tasks)) {
        return ran;
    }
    struct list batch;
    list_init(&batch);
    list_splice_back(&batch, &s->tasks);
    for (size_t i = 0; i < budget && !list_is_empty(&batch); i++) {
        struct task *t = container_of(list_pop_front(&batch), struct task, link);
        s->running = t->name;
        ran++;
        t->run(t); /* May post, free or keep t. */
        mark(s);
    }
    /* What is left goes in front of what was posted meanwhile. */
    list_splice_back(&batch, &s->tasks);
    list_splice_back(&s->tasks, &batch);
    return ran;
}

static void begin_turn(struct shard *s)
{
    s->now_us = clock_now_us(s->clock);
    s->wall_ms = clock_wall_ms(s->clock);
    s->mark_us = s->now_us;
    s->turn_longest_us = 0;
    s->turn_longest = "";
}

static void end_turn(struct shard *s)
{
    mark(s);
    s->counters.turns++;
    uint64_t turn_us = s->mark_us - s->now_us;
    if (s->stall_us_max == 0 || turn_us <= s->stall_us_max) {
        return;
    }
    s->counters.stalls++;
    if (s->stall_logged_us != 0 && s->mark_us - s->stall_logged_us < STALL_LOG_INTERVAL_US) {
        return;
    }
    s->stall_logged_us = s->mark_us;
    log_warn(s->log,
             "loop_stalled",
             "shard=%u us=%" PRIu64 " running=%s running_us=%" PRIu64 " stalls=%" PRIu64,
             (unsigned)s->id,
             turn_us,
             s->turn_longest,
             s->turn_longest_us,
             s->counters.stalls);
}

/* The clock is not asked how long nothing took. */
static size_t end_source(struct shard *s, size_t ran)
{
    if (ran > 0) {
        mark(s);
    }
    return ran;
}

/* Nothing in here waits, and nothing goes to the kernel. */
static size_t run_sources(struct shard *s)
{
    s->running = "messages";
    size_t ran = end_source(s, xmsg_run(s, MESSAGES_BUDGET));
    s->running = "completions";
    ran += end_source(s, io_run_completions(&s->io, COMPLETIONS_BUDGET));
    s->running = "timers";
    ran += end_source(s, timers_run(&s->timers, s->now_us, TIMERS_BUDGET));
    if (!list_is_empty(&s->inbox)) {
        s->running = "own_messages";
        ran += end_source(s, xmsg_run_own(s, MESSAGES_BUDGET));
    }
    return ran + run_tasks(s, TASKS_BUDGET);
}

/* Wakes of other shards go with the same call to the kernel. */
static void submit(struct shard *s)
{
    s->running = "submit";
    xmsg_flush(s);
    io_flush(&s->io);
    s->is_submit_put_off = false;
}

bool shard_turn(struct shard *s)
{
    begin_turn(s);
    size_t ran = run_sources(s);
    submit(s);
    if (ran > 0) {
        end_turn(s);
    }
    return ran > 0;
}

uint64_t shard_next_us(const struct shard *s)
{
    bool has_work = !list_is_empty(&s->tasks) || !list_is_empty(&s->io.done) ||
                    buf_pool_has_ready_waiters(s->bufs) || xmsg_has_work(s);
    if (has_work) {
        return s->now_us;
    }
    return timers_next_deadline_us(&s->timers);
}

static inline void relax_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Work came after gap_us without any. */
static void learn_gap(struct shard *s, uint64_t gap_us)
{
    if (gap_us > GAP_US_MAX) {
        gap_us = GAP_US_MAX;
    }
    s->gap_us_mean = (s->gap_us_mean * (GAP_WEIGHT - 1) + gap_us) / GAP_WEIGHT;
}

/* Submits and, unless something arrived meanwhile, sleeps until something does or the next
 * deadline: one call to the kernel for both. */
static void sleep_until_work(struct shard *s)
{
    xmsg_flush(s);
    if (shard_next_us(s) <= s->now_us || !xmsg_begin_sleep(s)) {
        submit(s);
        return;
    }
    s->counters.sleeps++;
    s->running = "sleep";
    s->io.backend->ops->wait(s->io.backend, shard_next_us(s));
    s->is_submit_put_off = false;
    xmsg_end_sleep(s);
}

/* What a completion began often goes on in a task of the next turn: one call to the kernel serves
 * both. Never two turns in a row. */
static bool put_off_submit(struct shard *s)
{
    if (s->is_submit_put_off || list_is_empty(&s->tasks)) {
        return false;
    }
    s->is_submit_put_off = true;
    return true;
}

/* Spinning pays only if the work usually comes before the spin ends. */
static bool is_worth_spinning(const struct shard *s, uint64_t idle_since_us)
{
    uint64_t idle_us = idle_since_us == 0 ? 0 : s->now_us - idle_since_us;
    return s->gap_us_mean < SPIN_US && idle_us < SPIN_US;
}

/* What nobody waits for, such as the removal of a file, is still let to its end. */
static bool is_over(const struct shard *s)
{
    return s->has_loop_ended && s->io.in_flight_count == 0;
}

void shard_run(struct shard *s)
{
    uint64_t idle_since_us = 0; /* 0: the last turn had work. */
    while (!is_over(s)) {
        begin_turn(s);
        bool has_run = run_sources(s) > 0;
        if (!has_run && idle_since_us == 0) {
            idle_since_us = s->now_us;
        } else if (has_run && idle_since_us != 0) {
            learn_gap(s, s->now_us - idle_since_us);
            idle_since_us = 0;
        }

        bool is_put_off = put_off_submit(s);
        bool will_sleep = !is_put_off && !is_over(s) && !is_worth_spinning(s, idle_since_us);
        if (!is_put_off && !will_sleep) {
            submit(s);
        }
        if (has_run) {
            end_turn(s);
        } else {
            relax_cpu();
        }
        if (will_sleep) {
            sleep_until_work(s);
        }
    }
    submit(s);
}

void shard_stop_loop(struct shard *s)
{
    s->has_loop_ended = true;
}
