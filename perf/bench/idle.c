#include "perf/bench/idle.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_env.h"
#include "core/assert.h"
#include "core/thread.h"
#include "core/wbuf.h"

enum {
    BROKERS_MAX = 64,
    DIALS_AT_ONCE = 128, /* Fewer than a listener's backlog. */
    DIAL_MS_MAX = 30000,
    LOOK_US_MAX = 100000, /* So long the thread takes to notice that it is to end. */
    EVENTS_MAX = 256,
    ANSWER_SIZE = 64 << 10,
    REQUEST_SIZE_MAX = 64,
    API_VERSIONS = 18,
};

struct idle {
    struct clock *clock;
    struct client_place places[BROKERS_MAX];
    size_t places_count;
    int *fds; /* -1: closed. */
    size_t count;
    int epoll_fd;
    struct wbuf request;
    uint64_t next; /* Requests that were sent: connections take turns. */
    struct thread thread;
    bool is_started;
    pthread_mutex_t lock; /* Of the two below. */
    bool is_stopping;
    size_t lost_count;
};

static void lock(struct idle *x)
{
    const int number = pthread_mutex_lock(&x->lock);
    assert_cmp(number, ==, 0);
}

static void unlock(struct idle *x)
{
    const int number = pthread_mutex_unlock(&x->lock);
    assert_cmp(number, ==, 0);
}

/* ---- the thread ---- */

static void lose(struct idle *x, size_t i)
{
    (void)close(x->fds[i]);
    x->fds[i] = -1;
    lock(x);
    x->lost_count++;
    unlock(x);
}

static void ask(struct idle *x, size_t i)
{
    if (x->fds[i] < 0) {
        return;
    }
    const ssize_t sent =
        send(x->fds[i], x->request.data, x->request.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != (ssize_t)x->request.size) {
        lose(x, i); /* A few bytes a minute find room in any socket that lives. */
    }
}

/* What the broker says is not looked at. */
static void drain(struct idle *x, size_t i)
{
    uint8_t answer[ANSWER_SIZE];
    ssize_t got = 1;
    while (x->fds[i] >= 0 && got > 0) {
        got = recv(x->fds[i], answer, sizeof(answer), MSG_DONTWAIT);
    }
    if (x->fds[i] >= 0 && (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))) {
        lose(x, i);
    }
}

static bool is_stopping(struct idle *x)
{
    lock(x);
    const bool is = x->is_stopping;
    unlock(x);
    return is;
}

static void run(void *context)
{
    struct idle *x = context;
    const uint64_t started_us = clock_now_us(x->clock);
    while (!is_stopping(x)) {
        struct epoll_event events[EVENTS_MAX];
        const uint64_t now_us = clock_now_us(x->clock);
        const uint64_t due = (now_us - started_us) * x->count / IDLE_EVERY_US;
        while (x->next <= due) {
            ask(x, x->next++ % x->count);
        }
        const uint64_t next_us = started_us + x->next * IDLE_EVERY_US / x->count;
        uint64_t wait_us = next_us > now_us ? next_us - now_us : 0;
        wait_us = wait_us > LOOK_US_MAX ? LOOK_US_MAX : wait_us;
        const int count =
            epoll_wait(x->epoll_fd, events, EVENTS_MAX, (int)((wait_us + 999) / 1000));
        for (int i = 0; i < count; i++) {
            drain(x, events[i].data.u64);
        }
    }
}

/* ---- connecting ---- */

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static enum err
add_broker(struct idle *x, struct client_env *env, struct slice text, char ret_why[CLIENT_WHY_SIZE])
{
    struct client_address address;
    struct client_place places[CLIENT_PLACES_MAX];
    size_t count = 0;
    if (!client_address_parse(text, &address)) {
        return client_say(ret_why,
                          ERR_INVALID,
                          "'%.*s' is not HOST:PORT",
                          (int)text.size,
                          (const char *)text.data);
    }
    const char *why = env->resolve(env, &address, places, &count);
    if (why != NULL) {
        return client_say(ret_why, ERR_CLOSED, "%s: %s", address.host, why);
    }
    x->places[x->places_count++] = places[0];
    return ERR_OK;
}

static enum err find_brokers(struct idle *x,
                             struct client_env *env,
                             const char *list,
                             char ret_why[CLIENT_WHY_SIZE])
{
    enum err e = ERR_OK;
    while (e == ERR_OK && *list != '\0' && x->places_count < BROKERS_MAX) {
        const size_t size = strcspn(list, ",");
        if (size > 0) {
            e = add_broker(x, env, slice_of(list, size), ret_why);
        }
        list += size + (list[size] == ',');
    }
    return e == ERR_OK && x->places_count == 0 ? client_say(ret_why, ERR_INVALID, "no broker") : e;
}

static enum err say_errno(size_t i, int number, char ret_why[CLIENT_WHY_SIZE])
{
    char text[64];
    client_errno_text(number, text);
    return client_say(ret_why, ERR_CLOSED, "idle connection %zu: %s", i + 1, text);
}

static enum err await_dial(struct idle *x, size_t i, char ret_why[CLIENT_WHY_SIZE])
{
    struct pollfd poll_fd = {.fd = x->fds[i], .events = POLLOUT};
    int number = 0;
    socklen_t size = sizeof(number);
    if (poll(&poll_fd, 1, DIAL_MS_MAX) != 1) {
        number = ETIMEDOUT;
    } else if (getsockopt(x->fds[i], SOL_SOCKET, SO_ERROR, &number, &size) != 0) {
        number = errno;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
    if (number == 0 && epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, x->fds[i], &event) != 0) {
        number = errno;
    }
    if (number != 0) {
        return say_errno(i, number, ret_why);
    }
    ask(x, i);
    return ERR_OK;
}

static enum err dial_all(struct idle *x, struct client_env *env, char ret_why[CLIENT_WHY_SIZE])
{
    size_t dialled = 0;
    for (size_t i = 0; i < x->count; i++) {
        for (; dialled < x->count && dialled - i < DIALS_AT_ONCE; dialled++) {
            const int number =
                env->dial(env, &x->places[dialled % x->places_count], &x->fds[dialled]);
            if (number != 0 && number != EINPROGRESS) {
                x->fds[dialled] = -1;
                return say_errno(dialled, number, ret_why);
            }
        }
        enum err e = await_dial(x, i, ret_why);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* ApiVersions in its first version, as it has to be asked of an unknown broker. */
static enum err make_request(struct wbuf *w)
{
    static const char client_id[] = "coreflume-bench";
    const size_t id_size = sizeof(client_id) - 1;
    wbuf_init(w, REQUEST_SIZE_MAX);
    wbuf_i32(w, (int32_t)(2 + 2 + 4 + 2 + id_size));
    wbuf_i16(w, API_VERSIONS);
    wbuf_i16(w, 0);
    wbuf_i32(w, 0); /* Nobody looks at the answers. */
    wbuf_i16(w, (int16_t)id_size);
    wbuf_bytes(w, client_id, id_size);
    return wbuf_failure(w);
}

static enum err open_all(struct idle *x, const char *brokers, char ret_why[CLIENT_WHY_SIZE])
{
    struct client_env env;
    struct rand rand;
    rand_init_real(&rand);
    client_env_init(&env, x->clock, &rand);
    raise_descriptors();
    x->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (x->epoll_fd < 0 || make_request(&x->request) != ERR_OK) {
        return client_say(ret_why, ERR_BUSY, "no memory for idle connections");
    }
    enum err e = find_brokers(x, &env, brokers, ret_why);
    if (e == ERR_OK) {
        e = dial_all(x, &env, ret_why);
    }
    if (e == ERR_OK && thread_start(&x->thread, "bench-idle", -1, run, x) != ERR_OK) {
        return client_say(ret_why, ERR_BUSY, "the system gives no thread for idle connections");
    }
    x->is_started = e == ERR_OK;
    return e;
}

enum err idle_new(const char *brokers,
                  size_t count,
                  struct clock *clock,
                  char ret_why[CLIENT_WHY_SIZE],
                  struct idle **ret_idle)
{
    assert_cmp(count, >, 0);
    struct idle *x = calloc(1, sizeof(*x));
    int *fds = calloc(count, sizeof(*fds));
    if (x == NULL || fds == NULL) {
        free(x);
        free(fds);
        return client_say(ret_why, ERR_BUSY, "no memory for idle connections");
    }
    for (size_t i = 0; i < count; i++) {
        fds[i] = -1;
    }
    const int number = pthread_mutex_init(&x->lock, NULL);
    assert_cmp(number, ==, 0);
    x->clock = clock;
    x->fds = fds;
    x->count = count;
    x->epoll_fd = -1;
    enum err e = open_all(x, brokers, ret_why);
    if (e != ERR_OK) {
        idle_free(x);
        return e;
    }
    *ret_idle = x;
    return ERR_OK;
}

void idle_free(struct idle *x)
{
    if (x == NULL) {
        return;
    }
    if (x->is_started) {
        lock(x);
        x->is_stopping = true;
        unlock(x);
        thread_join(&x->thread);
    }
    for (size_t i = 0; i < x->count; i++) {
        if (x->fds[i] >= 0) {
            (void)close(x->fds[i]);
        }
    }
    if (x->epoll_fd >= 0) {
        (void)close(x->epoll_fd);
    }
    wbuf_done(&x->request);
    (void)pthread_mutex_destroy(&x->lock);
    free(x->fds);
    free(x);
}

size_t idle_lost_count(struct idle *x)
{
    if (x == NULL) {
        return 0;
    }
    lock(x);
    const size_t count = x->lost_count;
    unlock(x);
    return count;
}
