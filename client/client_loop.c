/* The client's rounds, and how other threads meet the one that runs them.
 *
 * A turn does what is due (calls that are over, connections, topics, producers, consumers), waits
 * in poll without the lock, takes what came in, and calls back. Whoever changes something wakes the
 * thread if it would sleep past it.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/client_member.h"
#include "client/client_priv.h"
#include "client/client_producer.h"
#include "core/assert.h"

enum {
    ROUNDS_MAX = 64,   /* Of work that makes more work, before the network is looked at. */
    FDS_COUNT_MIN = 4, /* So many descriptors can be waited for whatever happens. */
};

void client_lock(struct client *c)
{
    const int number = pthread_mutex_lock(&c->lock);
    assert_cmp(number, ==, 0);
}

void client_unlock(struct client *c)
{
    const int number = pthread_mutex_unlock(&c->lock);
    assert_cmp(number, ==, 0);
}

void client_changed(struct client *c)
{
    c->changes++;
    if (c->has_thread && !list_is_empty(&c->waiters)) {
        (void)pthread_cond_broadcast(&c->changed);
    }
}

void client_wake(struct client *c, uint64_t when_us)
{
    /* Awake the thread may be past the place where it would have seen the work. */
    c->wanted_us = when_us < c->wanted_us ? when_us : c->wanted_us;
    if (c->is_sleeping && when_us < c->sleep_until_us) {
        c->is_sleeping = false;
        const uint64_t one = 1;
        const ssize_t written = write(c->wake_fd, &one, sizeof(one));
        (void)written; /* Fails only when it is full of wakes. */
    }
}

bool client_can_wait(struct client *c)
{
    return c->has_thread ? !pthread_equal(pthread_self(), c->thread) : !c->is_calling_back;
}

void client_wait(struct client *c, uint64_t deadline_us)
{
    assert(client_can_wait(c));
    struct client_waiter waiter = {.deadline_us = deadline_us};
    list_init(&waiter.link);
    list_push_back(&c->waiters, &waiter.link);
    if (c->has_thread) {
        client_wake(c, deadline_us);
        const int number = pthread_cond_wait(&c->changed, &c->lock);
        assert_cmp(number, ==, 0);
    } else {
        client_turn(c, deadline_us);
    }
    list_remove(&waiter.link);
}

uint64_t client_back_off_us(struct client *c, uint32_t attempt)
{
    uint64_t wait_ms = CLIENT_BACKOFF_MS_MIN;
    for (uint32_t i = 1; i < attempt && wait_ms < CLIENT_BACKOFF_MS_MAX; i++) {
        wait_ms *= 2;
    }
    wait_ms = wait_ms > CLIENT_BACKOFF_MS_MAX ? CLIENT_BACKOFF_MS_MAX : wait_ms;
    /* Half of it random: clients that were cut off together do not come back together. */
    return wait_ms * 500 + rand_below(c->env->rand, wait_ms * 500);
}

/* ---- a turn ---- */

/* Who waits looks at his own deadline; it is for us to tell him that it came. */
static void wake_waiters(struct client *c, uint64_t *next_us)
{
    const uint64_t now_us = client_now_us(c);
    bool is_late = false;
    list_for_each (node, &c->waiters) {
        const struct client_waiter *w = container_of(node, struct client_waiter, link);
        is_late |= w->deadline_us <= now_us;
        if (w->deadline_us > now_us && w->deadline_us < *next_us) {
            *next_us = w->deadline_us;
        }
    }
    if (is_late && c->has_thread) {
        (void)pthread_cond_broadcast(&c->changed);
    }
}

/* All that can be done without waiting. Returns when there is something to do next. */
static uint64_t work(struct client *c)
{
    uint64_t next_us = UINT64_MAX;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        next_us = UINT64_MAX;
        client_finish_calls(c);
        client_topics_turn(c, &next_us);
        client_producers_turn(c, &next_us);
        client_members_turn(c, &next_us);
        client_consumers_turn(c, &next_us);
        client_links_turn(c, &next_us);
        if (list_is_empty(&c->finished)) {
            break;
        }
        next_us = 0;
    }
    return next_us;
}

/* The wake-up and every connection. Without memory only those that there is room for: then
 * *next_us is lowered, and the others are looked at when there is some. */
static size_t fill_fds(struct client *c, uint64_t *next_us)
{
    size_t count = 1;
    list_for_each (node, &c->links) {
        count++;
    }
    if (count > c->fds_capacity) {
        struct pollfd *grown = realloc(c->fds, count * 2 * sizeof(*grown));
        if (grown == NULL) {
            const uint64_t retry_us = client_after_us(c, CLIENT_BACKOFF_MS_MIN);
            *next_us = retry_us < *next_us ? retry_us : *next_us;
            count = c->fds_capacity;
        } else {
            c->fds = grown;
            c->fds_capacity = count * 2;
        }
    }
    c->fds[0] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
    size_t i = 1;
    for (struct list *node = c->links.next; i < count; node = node->next) {
        const struct client_conn *conn = &container_of(node, struct client_link, link)->conn;
        c->fds[i++] = (struct pollfd){.fd = conn->fd, .events = client_conn_events(conn)};
    }
    return count;
}

bool client_reserve_fds(struct client *c)
{
    c->fds = calloc(FDS_COUNT_MIN, sizeof(*c->fds));
    c->fds_capacity = c->fds != NULL ? FDS_COUNT_MIN : 0;
    return c->fds != NULL;
}

static void read_wake(struct client *c)
{
    uint64_t wakes = 0;
    const ssize_t got = read(c->wake_fd, &wakes, sizeof(wakes));
    (void)got;
}

/* Links may have come meanwhile, at the end, or have gone: each is found again by its descriptor.
 */
static void take_ready(struct client *c, size_t count)
{
    if (c->fds[0].revents != 0) {
        read_wake(c);
    }
    for (size_t i = 1; i < count; i++) {
        const struct pollfd *p = &c->fds[i];
        if (p->revents == 0) {
            continue;
        }
        list_for_each (node, &c->links) {
            struct client_conn *conn = &container_of(node, struct client_link, link)->conn;
            if (conn->fd == p->fd) {
                client_conn_ready(conn, p->revents);
                break;
            }
        }
    }
}

void client_turn(struct client *c, uint64_t deadline_us)
{
    const uint64_t before = c->changes;
    c->wanted_us = UINT64_MAX;
    uint64_t next_us = work(c);
    client_call_back(c);
    wake_waiters(c, &next_us);
    /* Without a thread it is the caller who waits for the change: he looks first. */
    if (!c->has_thread && c->changes != before) {
        return;
    }
    const size_t count = fill_fds(c, &next_us);
    next_us = deadline_us < next_us ? deadline_us : next_us;
    next_us = c->wanted_us < next_us ? c->wanted_us : next_us;
    next_us = list_is_empty(&c->deliveries) ? next_us : 0;
    c->sleep_until_us = next_us;
    c->is_sleeping = c->has_thread;
    client_unlock(c);
    c->env->poll(c->env, c->fds, count, next_us);
    client_lock(c);
    c->is_sleeping = false;
    take_ready(c, count);
    /* What came in is told before the next wait. */
    (void)work(c);
    client_call_back(c);
}

/* ---- the thread ---- */

static void *run(void *context)
{
    struct client *c = context;
    client_lock(c);
    while (!c->is_stopping) {
        client_turn(c, UINT64_MAX);
    }
    client_unlock(c);
    return NULL;
}

enum err client_start(struct client *c, char ret_why[CLIENT_WHY_SIZE])
{
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake_fd == -1) {
        return client_say(ret_why, ERR_BUSY, "no descriptor for the client's thread");
    }
    /* The program's signals are for the program's threads. */
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    c->has_thread = true;
    client_lock(c);
    const int number = pthread_create(&c->thread, NULL, run, c);
    client_unlock(c);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number != 0) {
        c->has_thread = false;
        return client_say(ret_why, ERR_BUSY, "the system gives no thread for the client");
    }
    return ERR_OK;
}

void client_stop(struct client *c)
{
    client_lock(c);
    c->is_stopping = true;
    client_wake(c, 0);
    client_unlock(c);
    if (c->has_thread) {
        (void)pthread_join(c->thread, NULL);
        c->has_thread = false;
    }
}

/* ---- for who waits ---- */

enum err client_ask(struct client *c, struct client_call *call)
{
    client_lock(c);
    if (!client_can_wait(c)) {
        client_unlock(c);
        return client_fail(c, ERR_INVALID, "a callback must not call what waits for an answer");
    }
    call->timeout_ms = c->timeout_ms;
    client_post(c, call);
    client_wake(c, 0);
    while (!call->is_done) {
        client_wait(c, UINT64_MAX);
    }
    client_unlock(c);
    return call->err == ERR_OK ? ERR_OK : client_fail(c, call->err, "%s", call->why);
}

static void sleep_until(struct client *c, uint64_t until_us)
{
    while (client_can_wait(c) && client_now_us(c) < until_us) {
        client_wait(c, until_us);
    }
}

void client_sleep(struct client *c, uint64_t until_us)
{
    client_lock(c);
    sleep_until(c, until_us);
    client_unlock(c);
}

void client_back_off(struct client *c, uint32_t attempt, uint64_t deadline_us)
{
    client_lock(c);
    const uint64_t until_us = client_now_us(c) + client_back_off_us(c, attempt);
    sleep_until(c, until_us < deadline_us ? until_us : deadline_us);
    client_unlock(c);
}
