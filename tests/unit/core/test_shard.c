/* The loop: order and budgets of a turn, when it must run next, stalls, sleeping and stopping. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "core/shard.h"

#include "tests/support/fake_backend.h"

struct rig {
    struct fake_backend fake;
    struct clock_sim clock;
    struct logger logger;
    char line[1024];
    int lines_count;
    struct shard_group *group;
    struct shard shard;
    char trace[256]; /* One letter per thing that ran. */
};

static void keep_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    struct rig *r = l->context;
    (void)snprintf(r->line, sizeof(r->line), "%.*s", (int)size, line);
    r->lines_count++;
}

static void rig_init(struct rig *r)
{
    *r = (struct rig){.logger = {.level = LOG_INFO, .sink = keep_line, .context = r}};
    fake_backend_init(&r->fake);
    r->fake.context = r;
    clock_init_sim(&r->clock, 1000000, 1700000000000);
    cr_assert(eq(int, shard_group_new(1, &r->group), ERR_OK));
    const struct shard_options o = {
        .backend = &r->fake.backend,
        .clock = &r->clock.clock,
        .log = &r->logger,
        .rand_seed = 1,
        .memory_size = 1 << 20,
        .stall_us_max = 500,
    };
    cr_assert(eq(int, shard_init(&r->shard, r->group, 0, &o), ERR_OK));
}

static void rig_done(struct rig *r)
{
    shard_done(&r->shard);
    shard_group_free(r->group);
    fake_backend_done(&r->fake);
}

static void trace(struct rig *r, char letter)
{
    size_t size = strlen(r->trace);
    cr_assert(lt(sz, size + 1, sizeof(r->trace)));
    r->trace[size] = letter;
}

/* Something of each kind that can run; leaves a letter. */
struct actor {
    struct rig *rig;
    struct task task;
    struct timer timer;
    struct io_op op;
    struct xmsg msg;
    struct buf_waiter waiter;
    struct xmsg_hop hop;
    char letter;
    bool posts_again;
    uint64_t takes_us;
};

static void act(struct actor *a, char letter)
{
    trace(a->rig, a->letter == 0 ? letter : a->letter);
    a->rig->clock.now_us += a->takes_us;
}

static void on_task(struct task *t)
{
    struct actor *a = container_of(t, struct actor, task);
    act(a, 't');
    if (a->posts_again) {
        shard_post(&a->rig->shard, t);
    }
}

static void on_timer(struct timer *t)
{
    act(container_of(t, struct actor, timer), 'd');
}

static void on_io(struct io_op *op)
{
    act(container_of(op, struct actor, op), 'c');
}

static void on_message(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct actor *a = container_of(m, struct actor, msg);
    act(a, 'm');
    if (a->posts_again) {
        xmsg_send(here, m);
    }
}

static void on_memory(struct buf_waiter *w)
{
    act(container_of(w, struct actor, waiter), 'w');
}

static void actor_init(struct actor *a, struct rig *r)
{
    *a = (struct actor){.rig = r, .waiter = {.on_memory = on_memory}};
    a->hop = (struct xmsg_hop){.shard = 0, .run = on_message};
    a->msg.next_hop = &a->hop;
    a->op = (struct io_op){.kind = IO_FSYNC, .on_done = on_io};
    task_init(&a->task, "a_task", on_task);
    timer_init(&a->timer, on_timer);
}

Test(shard, a_turn_has_an_order)
{
    struct rig r;
    struct actor a;
    rig_init(&r);
    actor_init(&a, &r);
    const int64_t script[] = {0};
    r.fake.script = script;
    r.fake.script_size = 1;
    shard_post(&r.shard, &a.task);
    shard_post(&r.shard, &a.task); /* Harmless. */
    shard_timer_arm(&r.shard, &a.timer, 0);
    io_submit(&r.shard.io, &a.op);
    xmsg_send(&r.shard, &a.msg);
    buf_pool_wait(r.shard.bufs, &a.waiter);
    buf_unref(buf_alloc(r.shard.bufs, 1, BUF_CLIENT));
    cr_assert(shard_turn(&r.shard));
    cr_assert(eq(str, r.trace, "cdmwt"));
    cr_assert(eq(sz, r.fake.flushes_count, 1));
    cr_assert(not(shard_turn(&r.shard)));
    cr_assert(eq(u64, r.shard.counters.turns, 1));
    rig_done(&r);
}

Test(shard, a_task_that_posts_itself_waits_for_the_next_turn)
{
    struct rig r;
    struct actor a;
    rig_init(&r);
    actor_init(&a, &r);
    a.posts_again = true;
    shard_post(&r.shard, &a.task);
    for (int i = 0; i < 3; i++) {
        cr_assert(shard_turn(&r.shard));
    }
    cr_assert(eq(str, r.trace, "ttt"));
    a.posts_again = false;
    cr_assert(shard_turn(&r.shard));
    rig_done(&r);
}

static void count_and_send_again(struct shard *here, struct xmsg *m)
{
    struct actor *a = container_of(m, struct actor, msg);
    a->takes_us++;
    if (a->posts_again) {
        xmsg_send(here, m);
    }
}

/* What one shard tells itself arrives in the turn in which it was sent, as far as the budget goes:
 * a message that never comes to rest leaves the tasks their turn. */
Test(shard, messages_to_oneself_go_on_within_a_budget)
{
    struct rig r;
    struct actor a;
    struct actor other;
    rig_init(&r);
    actor_init(&a, &r);
    actor_init(&other, &r);
    a.hop.run = count_and_send_again;
    a.posts_again = true;
    xmsg_send(&r.shard, &a.msg);
    shard_post(&r.shard, &other.task);
    cr_assert(shard_turn(&r.shard));
    cr_assert(eq(str, r.trace, "t"));
    const uint64_t runs_of_turn = a.takes_us;
    cr_assert(lt(u64, 1, runs_of_turn));
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us));
    cr_assert(shard_turn(&r.shard));
    cr_assert(eq(u64, a.takes_us, 2 * runs_of_turn));
    a.posts_again = false;
    cr_assert(shard_turn(&r.shard));
    cr_assert(eq(u64, a.takes_us, 2 * runs_of_turn + 1));
    cr_assert(not(shard_turn(&r.shard)));
    rig_done(&r);
}

/* More tasks than a turn may run: all run, in order, a few per turn. */
Test(shard, tasks_have_a_budget)
{
    enum { TASKS_COUNT = 200 };
    struct rig r;
    static struct actor actors[TASKS_COUNT];
    rig_init(&r);
    for (size_t i = 0; i < TASKS_COUNT; i++) {
        actor_init(&actors[i], &r);
        actors[i].letter = (char)('A' + i / 10);
        shard_post(&r.shard, &actors[i].task);
    }
    size_t turns = 0;
    while (shard_turn(&r.shard)) {
        turns++;
    }
    cr_assert(eq(sz, turns, 4));
    cr_assert(eq(sz, strlen(r.trace), TASKS_COUNT));
    for (size_t i = 1; i < TASKS_COUNT; i++) {
        cr_assert(ge(chr, r.trace[i], r.trace[i - 1]));
    }
    rig_done(&r);
}

Test(shard, next_us_names_what_comes_next)
{
    struct rig r;
    struct actor a;
    rig_init(&r);
    actor_init(&a, &r);
    cr_assert(eq(u64, shard_next_us(&r.shard), UINT64_MAX));
    shard_timer_arm(&r.shard, &a.timer, 250);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us + 250));
    shard_post(&r.shard, &a.task);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us));
    (void)shard_turn(&r.shard);
    xmsg_send(&r.shard, &a.msg);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us));
    (void)shard_turn(&r.shard);
    buf_pool_wait(r.shard.bufs, &a.waiter);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us + 250));
    buf_unref(buf_alloc(r.shard.bufs, 1, BUF_CLIENT));
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us));
    (void)shard_turn(&r.shard);
    io_submit(&r.shard.io, &a.op);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us + 250), "the backend knows");
    fake_complete(&r.fake, 0);
    cr_assert(eq(u64, shard_next_us(&r.shard), r.shard.now_us));
    (void)shard_turn(&r.shard);
    timer_cancel(&r.shard.timers, &a.timer);
    rig_done(&r);
}

Test(shard, stalls_are_logged_with_what_took_longest_once_a_second)
{
    struct rig r;
    struct actor slow;
    struct actor quick;
    rig_init(&r);
    actor_init(&slow, &r);
    actor_init(&quick, &r);
    slow.takes_us = 600;
    quick.takes_us = 100;
    shard_post(&r.shard, &quick.task);
    (void)shard_turn(&r.shard);
    cr_assert(eq(int, r.lines_count, 0));

    shard_timer_arm(&r.shard, &quick.timer, 0);
    shard_post(&r.shard, &slow.task);
    (void)shard_turn(&r.shard);
    cr_assert(eq(int, r.lines_count, 1));
    cr_assert(
        ne(ptr, strstr(r.line, "loop_stalled: shard=0 us=700 running=a_task"), NULL), "%s", r.line);

    shard_post(&r.shard, &slow.task);
    (void)shard_turn(&r.shard);
    cr_assert(eq(int, r.lines_count, 1));
    cr_assert(eq(u64, r.shard.counters.stalls, 2));

    r.clock.now_us += 1000000;
    slow.takes_us = 900;
    shard_timer_arm(&r.shard, &slow.timer, 0);
    (void)shard_turn(&r.shard);
    cr_assert(eq(int, r.lines_count, 2), "a second later");
    cr_assert(
        ne(ptr, strstr(r.line, "running=timers running_us=900 stalls=3"), NULL), "%s", r.line);
    rig_done(&r);
}

/* The fake sleep moves the clock to the deadline. */
static void sleep_on_sim_clock(struct fake_backend *f, uint64_t deadline_us)
{
    struct rig *r = f->context;
    trace(r, 's');
    cr_assert(ne(u64, deadline_us, UINT64_MAX), "it would sleep for ever");
    r->clock.now_us = deadline_us;
}

static void stop_loop(struct timer *t)
{
    struct actor *a = container_of(t, struct actor, timer);
    act(a, 'e');
    shard_stop_loop(&a->rig->shard);
}

Test(shard, run_sleeps_between_timers_and_stops)
{
    struct rig r;
    struct actor a;
    struct actor end;
    rig_init(&r);
    r.fake.on_wait = sleep_on_sim_clock;
    actor_init(&a, &r);
    actor_init(&end, &r);
    timer_init(&end.timer, stop_loop);
    shard_timer_arm(&r.shard, &a.timer, 1000);
    shard_timer_arm(&r.shard, &end.timer, 5000);
    shard_run(&r.shard);
    cr_assert(eq(str, r.trace, "sdse"));
    cr_assert(eq(u64, r.shard.counters.sleeps, 2));
    rig_done(&r);
}

static void post_task(struct timer *t)
{
    struct actor *a = container_of(t, struct actor, timer);
    act(a, 'd');
    shard_post(&a->rig->shard, &a->task);
}

/* What a timer began and its task goes on with needs no call of its own, and neither does the way
 * to sleep. A task that always comes again cannot put the call off for ever. */
Test(shard, run_submits_with_the_sleep)
{
    struct rig r;
    struct actor a;
    struct actor end;
    rig_init(&r);
    r.fake.on_wait = sleep_on_sim_clock;
    actor_init(&a, &r);
    actor_init(&end, &r);
    timer_init(&a.timer, post_task);
    timer_init(&end.timer, stop_loop);
    shard_timer_arm(&r.shard, &a.timer, 1000);
    shard_timer_arm(&r.shard, &end.timer, 2000);
    shard_run(&r.shard);
    cr_assert(eq(str, r.trace, "sdtse"));
    cr_assert(le(sz, r.fake.flushes_count, 2), "those of the last turn");

    rig_done(&r);
    rig_init(&r);
    actor_init(&a, &r);
    actor_init(&end, &r);
    timer_init(&end.timer, stop_loop);
    a.posts_again = true;
    a.takes_us = 100;
    shard_post(&r.shard, &a.task);
    shard_timer_arm(&r.shard, &end.timer, 1000);
    shard_run(&r.shard);
    cr_assert(eq(str, r.trace, "ttttttttttet"));
    cr_assert(ge(sz, r.fake.flushes_count, 5));
    list_remove(&a.task.link);
    rig_done(&r);
}

Test(shard, randomness_follows_from_the_seed_and_the_shard)
{
    struct rig r;
    struct rig again;
    rig_init(&r);
    rig_init(&again);
    cr_assert(eq(u64, r.shard.hash_seed, again.shard.hash_seed));
    cr_assert(eq(u64, rand_u64(&r.shard.rand), rand_u64(&again.shard.rand)));
    rig_done(&r);
    rig_done(&again);
}

Test(shard, its_numbers_are_registered)
{
    struct rig r;
    rig_init(&r);
    int count = 0;
    list_for_each (node, &r.shard.stats.all) {
        const struct stat *st = container_of(node, struct stat, link);
        cr_assert(eq(str, (char *)st->labels, "shard=\"0\""));
        bool has_suffix = strstr(st->name, "_total") != NULL;
        cr_assert(eq(int, has_suffix, st->kind == STAT_COUNTER), "%s", st->name);
        count++;
    }
    cr_assert(eq(int, count, SHARD_STATS_COUNT));
    rig_done(&r);
}
