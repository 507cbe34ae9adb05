/* What a message between two shards costs: round trips of one message while both loops are busy
 * (each keeps a task posted, so neither sleeps), and while both sleep between trips. Halved to a
 * hop.
 *
 * Prints one line of JSON, nanoseconds.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/assert.h"
#include "core/io_uring.h"
#include "core/shard.h"

enum {
    TRIPS_BUSY = 200000,
    TRIPS_ASLEEP = 300,
    PAUSE_US = 3000, /* Longer than any spin, so that both shards sleep. */
};

struct hop_test {
    struct shard_group *group;
    pthread_barrier_t ready;
    struct xmsg msg;
    struct task busy[2];
    struct shard *shards[2];
    struct timer pause;
    bool is_busy;
    int trips_left;
    uint64_t sent_ns;
    uint64_t samples[TRIPS_BUSY];
    int samples_count;
    uint64_t busy_p50_ns;
    bool is_over;
};

struct thread_arg {
    struct hop_test *test;
    uint16_t id;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t p50_of_samples(struct hop_test *t)
{
    qsort(t->samples, (size_t)t->samples_count, sizeof(uint64_t), compare_u64);
    uint64_t p50 = t->samples[t->samples_count / 2] / 2;
    t->samples_count = 0;
    return p50;
}

static struct hop_test *test_of(struct shard *s)
{
    return s->broker;
}

static void stop_here(struct shard *s, struct xmsg *m)
{
    (void)m;
    shard_stop_loop(s);
}

static void bounce(struct shard *here, struct xmsg *m)
{
    xmsg_forward(here, m);
}

static void came_home(struct shard *here, struct xmsg *m);

static const struct xmsg_hop ROUTE[] = {{.shard = 1, .run = bounce},
                                        {.shard = 0, .run = came_home}};
static const struct xmsg_hop ROUTE_STOP[] = {{.shard = 1, .run = stop_here}};

static void start_trip(struct hop_test *t)
{
    t->sent_ns = now_ns();
    t->msg.next_hop = ROUTE;
    xmsg_send(t->shards[0], &t->msg);
}

static void next_phase(struct hop_test *t)
{
    if (t->is_busy) {
        t->busy_p50_ns = p50_of_samples(t);
        t->is_busy = false;
        t->trips_left = TRIPS_ASLEEP;
        shard_timer_arm(t->shards[0], &t->pause, PAUSE_US);
        return;
    }
    printf("{\"busy_hop_ns\": %lu, \"asleep_hop_ns\": %lu}\n",
           (unsigned long)t->busy_p50_ns,
           (unsigned long)p50_of_samples(t));
    t->msg.next_hop = ROUTE_STOP;
    xmsg_send(t->shards[0], &t->msg);
    shard_stop_loop(t->shards[0]);
}

static void came_home(struct shard *here, struct xmsg *m)
{
    (void)m;
    struct hop_test *t = test_of(here);
    t->samples[t->samples_count++] = now_ns() - t->sent_ns;
    if (--t->trips_left == 0) {
        next_phase(t);
    } else if (t->is_busy) {
        start_trip(t);
    } else {
        shard_timer_arm(here, &t->pause, PAUSE_US);
    }
}

static void on_pause_over(struct timer *timer)
{
    start_trip(container_of(timer, struct hop_test, pause));
}

static void keep_busy_0(struct task *task)
{
    struct hop_test *t = container_of(task, struct hop_test, busy[0]);
    if (t->is_busy) {
        shard_post(t->shards[0], task);
    }
}

static void keep_busy_1(struct task *task)
{
    struct hop_test *t = container_of(task, struct hop_test, busy[1]);
    if (*(volatile bool *)&t->is_busy) {
        shard_post(t->shards[1], task);
    }
}

static void *run_shard(void *argument)
{
    struct thread_arg *arg = argument;
    struct hop_test *t = arg->test;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(arg->id, &cpus);
    (void)sched_setaffinity(0, sizeof(cpus), &cpus);

    char why[IO_URING_WHY_SIZE];
    struct io_backend *backend = NULL;
    enum err e = io_uring_backend_new(&backend, why);
    if (e != ERR_OK) {
        fprintf(stderr, "hop: %s\n", why);
        exit(1);
    }
    struct clock clock;
    clock_init_real(&clock);
    struct logger log;
    logger_init_stderr(&log, LOG_WARN);
    struct shard s;
    const struct shard_options options = {.backend = backend,
                                          .clock = &clock,
                                          .log = &log,
                                          .memory_size = 1 << 20,
                                          .memory_reserve_size = 1 << 18};
    e = shard_init(&s, t->group, arg->id, &options);
    assert(e == ERR_OK);
    s.broker = t;
    t->shards[arg->id] = &s;
    task_init(&t->busy[arg->id], "busy", arg->id == 0 ? keep_busy_0 : keep_busy_1);
    shard_post(&s, &t->busy[arg->id]);
    (void)pthread_barrier_wait(&t->ready);
    if (arg->id == 0) {
        timer_init(&t->pause, on_pause_over);
        start_trip(t);
    }
    shard_run(&s);
    (void)pthread_barrier_wait(&t->ready);
    shard_done(&s);
    io_uring_backend_free(backend);
    return NULL;
}

int main(void)
{
    static struct hop_test t = {.is_busy = true, .trips_left = TRIPS_BUSY};
    enum err e = shard_group_new(2, &t.group);
    assert(e == ERR_OK);
    (void)pthread_barrier_init(&t.ready, NULL, 2);
    pthread_t threads[2];
    struct thread_arg args[2] = {{&t, 0}, {&t, 1}};
    for (int i = 0; i < 2; i++) {
        (void)pthread_create(&threads[i], NULL, run_shard, &args[i]);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    shard_group_free(t.group);
    return 0;
}
