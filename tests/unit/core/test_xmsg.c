/* Messages between shards: order, also when rings overflow; routes that come home; no lost wake
 * between real threads. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>

#include "core/io_uring.h"
#include "core/shard.h"
#include "core/thread.h"
#include "core/xmsg_priv.h"

#include "tests/support/fake_backend.h"

enum {
    SHARDS_COUNT = 3,
};

struct node {
    struct fake_backend fake;
    struct clock clock;
    struct logger logger;
    struct shard shard;
};

struct rig {
    struct shard_group *group;
    struct node nodes[SHARDS_COUNT];
};

static void drop_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)l;
    (void)level;
    (void)line;
    (void)size;
}

static void
node_init_on(struct node *n, struct shard_group *g, uint16_t id, struct io_backend *backend)
{
    clock_init_real(&n->clock);
    n->logger = (struct logger){.level = LOG_ERROR, .sink = drop_line};
    const struct shard_options o = {
        .backend = backend,
        .clock = &n->clock,
        .log = &n->logger,
        .rand_seed = 1,
        .memory_size = 1 << 20,
    };
    cr_assert(eq(int, shard_init(&n->shard, g, id, &o), ERR_OK));
}

static void node_init(struct node *n, struct shard_group *g, uint16_t id)
{
    fake_backend_init(&n->fake);
    node_init_on(n, g, id, &n->fake.backend);
}

static void node_done(struct node *n)
{
    shard_done(&n->shard);
    fake_backend_done(&n->fake);
}

static struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof(*r));
    cr_assert(eq(int, shard_group_new(SHARDS_COUNT, &r->group), ERR_OK));
    for (uint16_t i = 0; i < SHARDS_COUNT; i++) {
        node_init(&r->nodes[i], r->group, i);
    }
    return r;
}

static void rig_free(struct rig *r)
{
    for (size_t i = 0; i < SHARDS_COUNT; i++) {
        node_done(&r->nodes[i]);
    }
    shard_group_free(r->group);
    free(r);
}

/* Turns all shards until none has anything to do. */
static void rig_settle(struct rig *r)
{
    bool has_run = true;
    while (has_run) {
        has_run = false;
        for (size_t i = 0; i < SHARDS_COUNT; i++) {
            has_run |= shard_turn(&r->nodes[i].shard);
        }
    }
}

struct numbered {
    struct xmsg msg;
    struct xmsg_hop route[3];
    uint32_t number;
    uint32_t *next_number; /* What the receiver expects. */
};

static void check_number(struct shard *here, struct xmsg *m)
{
    (void)here;
    struct numbered *n = container_of(m, struct numbered, msg);
    cr_assert(eq(u32, n->number, *n->next_number));
    (*n->next_number)++;
}

static void check_number_and_go_on(struct shard *here, struct xmsg *m)
{
    check_number(here, m);
    xmsg_forward(here, m);
}

static void go_on(struct shard *here, struct xmsg *m)
{
    xmsg_forward(here, m);
}

Test(xmsg, order_is_kept_through_overflow)
{
    enum { MESSAGES_COUNT = 5000 };
    struct rig *r = rig_new();
    struct numbered *ms = calloc(MESSAGES_COUNT, sizeof(*ms));
    uint32_t next_number = 0;
    for (uint32_t i = 0; i < MESSAGES_COUNT; i++) {
        ms[i] = (struct numbered){.number = i, .next_number = &next_number};
        ms[i].route[0] = (struct xmsg_hop){.shard = 1, .run = check_number};
        ms[i].msg.next_hop = ms[i].route;
        xmsg_send(&r->nodes[0].shard, &ms[i].msg);
        if (i % 777 == 0) {
            /* The ring has room again while the outbox is not empty: no overtaking. */
            (void)shard_turn(&r->nodes[1].shard);
        }
    }
    cr_assert(lt(u64, 0, r->nodes[0].shard.counters.messages_overflowed));
    cr_assert(eq(u64, shard_next_us(&r->nodes[0].shard), r->nodes[0].shard.now_us));
    rig_settle(r);
    cr_assert(eq(u32, next_number, MESSAGES_COUNT));
    cr_assert(eq(u64, shard_next_us(&r->nodes[0].shard), UINT64_MAX));
    free(ms);
    rig_free(r);
}

Test(xmsg, a_route_over_all_shards_comes_home)
{
    struct rig *r = rig_new();
    uint32_t next_number = 7;
    struct numbered m = {.number = 7, .next_number = &next_number};
    m.route[0] = (struct xmsg_hop){.shard = 2, .run = go_on};
    m.route[1] = (struct xmsg_hop){.shard = 1, .run = go_on};
    m.route[2] = (struct xmsg_hop){.shard = 0, .run = check_number};
    m.msg.next_hop = m.route;
    xmsg_send(&r->nodes[0].shard, &m.msg);
    rig_settle(r);
    cr_assert(eq(u32, next_number, 8));
    rig_free(r);
}

Test(xmsg, ones_own_shard_is_no_special_case)
{
    struct rig *r = rig_new();
    struct numbered ms[3];
    uint32_t next_number = 0;
    for (uint32_t i = 0; i < 3; i++) {
        ms[i] = (struct numbered){.number = i, .next_number = &next_number};
        ms[i].route[0] = (struct xmsg_hop){.shard = 0, .run = check_number};
        ms[i].msg.next_hop = ms[i].route;
        xmsg_send(&r->nodes[0].shard, &ms[i].msg);
        cr_assert(eq(u32, next_number, 0), "never inside of send");
    }
    rig_settle(r);
    cr_assert(eq(u32, next_number, 3));
    rig_free(r);
}

/* Shard 1 sleeps while shard 0 sends it m; whether that wakes it. */
static bool
wakes_sleeper(struct rig *r, struct numbered *m, void (*send)(struct shard *from, struct xmsg *m))
{
    struct shard *sender = &r->nodes[0].shard;
    const uint64_t wakes_sent = sender->counters.wakes_sent;
    cr_assert(xmsg_begin_sleep(&r->nodes[1].shard));
    send(sender, &m->msg);
    (void)shard_turn(sender);
    xmsg_end_sleep(&r->nodes[1].shard);
    return sender->counters.wakes_sent > wakes_sent;
}

static void on_memory(struct buf_waiter *w)
{
    (void)w;
}

Test(xmsg, a_quiet_message_wakes_only_who_waits_for_it)
{
    enum { MESSAGES_COUNT = 6 };
    struct rig *r = rig_new();
    struct shard *sleeper = &r->nodes[1].shard;
    struct numbered ms[MESSAGES_COUNT];
    uint32_t next_number = 0;
    for (uint32_t i = 0; i < MESSAGES_COUNT; i++) {
        ms[i] = (struct numbered){.number = i, .next_number = &next_number};
        ms[i].route[0] = (struct xmsg_hop){.shard = 1, .run = check_number};
        ms[i].msg.next_hop = ms[i].route;
    }

    cr_assert(not(wakes_sleeper(r, &ms[0], xmsg_send_quietly)));
    cr_assert(not(xmsg_begin_sleep(sleeper)), "it is there, and run before the next sleep");
    rig_settle(r);
    cr_assert(not(wakes_sleeper(r, &ms[1], xmsg_send_quietly)));
    xmsg_send(&r->nodes[0].shard, &ms[2].msg);
    rig_settle(r);
    cr_assert(eq(u32, next_number, 3), "in the order they were sent");
    cr_assert(wakes_sleeper(r, &ms[3], xmsg_send));
    rig_settle(r);

    sleeper->quiet_waiters_count++;
    cr_assert(wakes_sleeper(r, &ms[4], xmsg_send_quietly));
    rig_settle(r);
    sleeper->quiet_waiters_count--;

    struct buf_waiter waiter = {.on_memory = on_memory};
    buf_pool_wait(sleeper->bufs, &waiter);
    cr_assert(wakes_sleeper(r, &ms[5], xmsg_send_quietly));
    rig_settle(r);
    buf_pool_cancel_wait(sleeper->bufs, &waiter);
    cr_assert(eq(u32, next_number, MESSAGES_COUNT));
    rig_free(r);
}

/* Two threads, sleeping whenever they can: a burst goes out, comes home in order, then the next
 * one. A lost wake would hang the test. */
enum {
    BURSTS_COUNT = 300,
    BURST_SIZE_MAX = 3000,
};

struct ping {
    struct rig *rig;
    struct numbered *messages;
    uint32_t there_next;
    uint32_t home_next;
    uint32_t sent_next;
    uint32_t burst_size;
    uint32_t burst_home;
    uint32_t bursts_left;
    bool is_quiet; /* On the way home. */
    struct task send_burst;
    struct xmsg stop;
    struct xmsg_hop stop_route[2];
};

struct ping_message {
    struct numbered numbered;
    struct ping *ping;
};

static void stop_here(struct shard *here, struct xmsg *m)
{
    shard_stop_loop(here);
    if (here->id != 0) {
        xmsg_forward(here, m);
    }
}

static void on_home(struct shard *here, struct xmsg *m)
{
    struct ping_message *pm = container_of(m, struct ping_message, numbered.msg);
    struct ping *p = pm->ping;
    cr_assert(eq(u32, pm->numbered.number, p->home_next));
    p->home_next++;
    free(pm);
    if (++p->burst_home < p->burst_size) {
        return;
    }
    if (--p->bursts_left > 0) {
        shard_post(here, &p->send_burst);
    } else {
        p->stop_route[0] = (struct xmsg_hop){.shard = 1, .run = stop_here};
        p->stop_route[1] = (struct xmsg_hop){.shard = 0, .run = stop_here};
        p->stop.next_hop = p->stop_route;
        xmsg_send(here, &p->stop);
    }
}

static void check_number_and_go_home(struct shard *here, struct xmsg *m)
{
    const struct ping_message *pm = container_of(m, struct ping_message, numbered.msg);
    if (!pm->ping->is_quiet) {
        check_number_and_go_on(here, m);
        return;
    }
    check_number(here, m);
    m->next_hop++;
    xmsg_send_quietly(here, m);
}

static void send_burst(struct task *t)
{
    struct ping *p = container_of(t, struct ping, send_burst);
    struct shard *s = &p->rig->nodes[0].shard;
    /* Mostly single messages, to sleep often; now and then more than a ring holds. */
    bool is_large = rand_one_in(&s->rand, 10);
    p->burst_size = is_large ? 1 + (uint32_t)rand_below(&s->rand, BURST_SIZE_MAX) : 1;
    p->burst_home = 0;
    for (uint32_t i = 0; i < p->burst_size; i++) {
        struct ping_message *pm = calloc(1, sizeof(*pm));
        pm->ping = p;
        pm->numbered.number = p->sent_next++;
        pm->numbered.next_number = &p->there_next;
        pm->numbered.route[0] = (struct xmsg_hop){.shard = 1, .run = check_number_and_go_home};
        pm->numbered.route[1] = (struct xmsg_hop){.shard = 0, .run = on_home};
        pm->numbered.msg.next_hop = pm->numbered.route;
        xmsg_send(s, &pm->numbered.msg);
    }
}

static void run_shard(void *context)
{
    shard_run(context);
}

static void check_ping(const struct ping *p)
{
    cr_assert(eq(u32, p->home_next, p->sent_next));
    cr_assert(eq(u32, p->there_next, p->sent_next));
    cr_assert(lt(u64, 0, p->rig->nodes[0].shard.counters.messages_overflowed));
    cr_assert(lt(u64, 0, p->rig->nodes[0].shard.counters.wakes_sent));
}

static void run_two_threads(bool is_quiet)
{
    struct rig *r = rig_new();
    struct ping p = {.rig = r, .bursts_left = BURSTS_COUNT, .is_quiet = is_quiet};
    r->nodes[0].shard.quiet_waiters_count = is_quiet ? 1 : 0;
    task_init(&p.send_burst, "send_burst", send_burst);
    shard_post(&r->nodes[0].shard, &p.send_burst);
    struct thread threads[2];
    for (size_t i = 0; i < 2; i++) {
        enum err e = thread_start(&threads[i], "shard", -1, run_shard, &r->nodes[i].shard);
        cr_assert(eq(int, e, ERR_OK));
    }
    for (size_t i = 0; i < 2; i++) {
        thread_join(&threads[i]);
    }
    check_ping(&p);
    rig_free(r);
}

Test(xmsg, two_threads_lose_no_wake_and_keep_order)
{
    run_two_threads(false);
}

Test(xmsg, two_threads_lose_no_quiet_wake_that_is_waited_for)
{
    run_two_threads(true);
}

/* The same on real rings, as the broker runs: each thread makes its ring and its shard. */
struct uring_node {
    struct ping *ping; /* For shard 0: posts the first burst. */
    struct node *node;
    struct shard_group *group;
    uint16_t id;
    struct io_backend *backend;
};

static void run_uring_shard(void *context)
{
    struct uring_node *u = context;
    char why[IO_URING_WHY_SIZE];
    cr_assert(eq(int, io_uring_backend_new(&u->backend, why), ERR_OK), "%s", why);
    node_init_on(u->node, u->group, u->id, u->backend);
    if (u->id == 0) {
        shard_post(&u->node->shard, &u->ping->send_burst);
    }
    shard_run(&u->node->shard);
}

Test(xmsg, two_threads_on_real_rings)
{
    struct rig *r = calloc(1, sizeof(*r));
    struct ping p = {.rig = r, .bursts_left = BURSTS_COUNT};
    struct uring_node nodes[2];
    struct thread threads[2];
    char why[IO_URING_WHY_SIZE];
    struct io_backend *probe = NULL;
    if (io_uring_backend_new(&probe, why) != ERR_OK) {
        cr_skip_test("SKIPPED, NOTHING WAS TESTED: %s", why);
    }
    io_uring_backend_free(probe);
    cr_assert(eq(int, shard_group_new(2, &r->group), ERR_OK));
    task_init(&p.send_burst, "send_burst", send_burst);
    for (uint16_t i = 0; i < 2; i++) {
        nodes[i] =
            (struct uring_node){.ping = &p, .node = &r->nodes[i], .group = r->group, .id = i};
        enum err e = thread_start(&threads[i], "shard", -1, run_uring_shard, &nodes[i]);
        cr_assert(eq(int, e, ERR_OK));
    }
    for (size_t i = 0; i < 2; i++) {
        thread_join(&threads[i]);
    }
    check_ping(&p);
    for (size_t i = 0; i < 2; i++) {
        shard_done(&r->nodes[i].shard);
        io_uring_backend_free(nodes[i].backend);
    }
    shard_group_free(r->group);
    free(r);
}
