/* The kernel's transport over loopback, with real sockets and a real ring, on free ports. Where the
 * machine offers no io_uring, the tests are skipped with the reason.
 *
 * The test's side uses plain blocking sockets with a time limit; turning the loop is explicit.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/assert.h"
#include "core/io_uring.h"
#include "core/shard.h"
#include "net/conn.h"
#include "net/transport_kernel.h"

enum {
    SHARDS = 2,
    MEMORY_SIZE = 8 << 20,
    WAIT_US_MAX = 20 * 1000 * 1000,
    SENDS_MAX = 200,
    GOT_SIZE = 12 << 20,
};

struct rig {
    struct clock clock;
    struct logger logger;
    struct shard_group *group;
    struct shard shards[SHARDS];
    struct io_backend *backends[SHARDS];
    struct transport *t[SHARDS];
    uint16_t port;
    char why[NET_WHY_SIZE];
};

struct user;

struct user_send {
    struct stream_send send;
    struct iovec iov;
    struct user *user;
    uint32_t index;
};

/* One stream's user: keeps what comes, and what happened. */
struct user {
    struct stream *stream;
    char peer[NET_PEER_SIZE];
    uint8_t *got;
    size_t got_size;
    size_t into_size;    /* Asked for from inside of on_data, once the first bytes came. */
    uint32_t data_count; /* Calls. */
    uint32_t received_count;
    uint32_t eof_count;
    bool is_connected;
    bool is_pausing; /* Pauses itself at each on_data. */
    bool is_closing; /* Closes itself at the first on_data. */
    bool is_closed;
    enum err reason;
    struct user_send sends[SENDS_MAX];
    uint32_t released[SENDS_MAX]; /* Indexes, in order. */
    uint32_t released_count;
};

static void on_data(void *context, const uint8_t *data, size_t size)
{
    struct user *u = context;
    assert(u->got_size + size <= GOT_SIZE);
    memcpy(u->got + u->got_size, data, size);
    u->got_size += size;
    u->data_count++;
    if (u->into_size > 0) {
        stream_receive_into(u->stream, u->got + u->got_size, u->into_size);
    }
    if (u->is_pausing) {
        stream_pause(u->stream);
    }
    if (u->is_closing) {
        stream_close(u->stream);
    }
}

static void on_received(void *context)
{
    struct user *u = context;
    u->got_size += u->into_size;
    u->into_size = 0;
    u->received_count++;
}

static void on_closed(void *context, enum err reason)
{
    struct user *u = context;
    assert(!u->is_closed);
    u->is_closed = true;
    u->reason = reason;
}

static const struct stream_user_ops user_ops = {
    .on_data = on_data,
    .on_received = on_received,
    .on_closed = on_closed,
};

static void on_eof(void *context)
{
    ((struct user *)context)->eof_count++;
}

static const struct stream_user_ops half_close_ops = {
    .on_data = on_data,
    .on_received = on_received,
    .on_eof = on_eof,
    .on_closed = on_closed,
};

static void on_connected(void *context, struct stream *stream)
{
    struct user *u = context;
    assert(u->stream == stream);
    u->is_connected = true;
}

struct acceptor {
    struct user *users[64]; /* In order of accept. */
    uint32_t count;
    bool is_refusing;
    const struct stream_user_ops *ops; /* NULL = user_ops. */
};

static struct user *user_new(void)
{
    struct user *u = calloc(1, sizeof(*u));
    u->got = calloc(1, GOT_SIZE);
    return u;
}

static void user_free(struct user *u)
{
    assert(u->is_closed);
    stream_free(u->stream);
    free(u->got);
    free(u);
}

static void *on_accept(void *context,
                       struct stream *stream,
                       const char *peer,
                       const struct stream_user_ops **ret_ops)
{
    struct acceptor *a = context;
    if (a->is_refusing) {
        a->count++;
        return NULL;
    }
    struct user *u = user_new();
    u->stream = stream;
    strcpy(u->peer, peer);
    *ret_ops = a->ops != NULL ? a->ops : &user_ops;
    a->users[a->count++] = u;
    return u;
}

static void count_line(struct logger *l, enum log_level level, const char *line, size_t size)
{
    (void)level;
    (void)size;
    uint32_t *count = l->context;
    *count += strstr(line, "accept_failed") != NULL ? 1 : 0;
}

static void rig_init(struct rig *g)
{
    memset(g, 0, sizeof(*g));
    clock_init_real(&g->clock);
    logger_init_stderr(&g->logger, LOG_ERROR);
    cr_assert(eq(int, shard_group_new(SHARDS, &g->group), ERR_OK));
    for (uint16_t i = 0; i < SHARDS; i++) {
        char why[IO_URING_WHY_SIZE];
        if (io_uring_backend_new(&g->backends[i], why) != ERR_OK) {
            cr_skip_test("no io_uring here: %s", why);
        }
        const struct shard_options o = {.backend = g->backends[i],
                                        .clock = &g->clock,
                                        .log = &g->logger,
                                        .memory_size = MEMORY_SIZE,
                                        .memory_reserve_size = MEMORY_SIZE / 4};
        cr_assert(eq(int, shard_init(&g->shards[i], g->group, i, &o), ERR_OK));
        cr_assert(eq(int, transport_kernel_new(&g->shards[i], &g->t[i]), ERR_OK));
    }
}

static void rig_done(struct rig *g)
{
    for (uint16_t i = 0; i < SHARDS; i++) {
        g->t[i]->ops->destroy(g->t[i]);
        shard_done(&g->shards[i]);
        io_uring_backend_free(g->backends[i]);
    }
    shard_group_free(g->group);
}

static void turn(struct rig *g)
{
    bool any = false;
    for (uint16_t i = 0; i < SHARDS; i++) {
        any |= shard_turn(&g->shards[i]);
    }
    if (!any) {
        struct io_backend *b = g->backends[0];
        b->ops->wait(b, clock_now_us(&g->clock) + 1000);
    }
}

#define RUN_UNTIL(g, condition)                                                  \
    do {                                                                         \
        uint64_t until_us = clock_now_us(&(g)->clock) + WAIT_US_MAX;             \
        while (!(condition)) {                                                   \
            cr_assert(lt(u64, clock_now_us(&(g)->clock), until_us), #condition); \
            turn(g);                                                             \
        }                                                                        \
    } while (0)

/* A few turns in which nothing should happen. */
static void run_idle(struct rig *g)
{
    for (int i = 0; i < 20; i++) {
        turn(g);
    }
}

static enum err listen_on(struct rig *g, int shard, uint16_t port, struct acceptor *a)
{
    const struct listen_options o = {
        .address = {.host = "127.0.0.1", .port = port}, .context = a, .on_accept = on_accept};
    uint16_t bound = 0;
    enum err e = g->t[shard]->ops->listen(g->t[shard], &o, &bound, g->why);
    if (e == ERR_OK) {
        g->port = bound;
    }
    return e;
}

static int client(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void client_send(int fd, const void *data, size_t size)
{
    cr_assert(eq(sz, (size_t)send(fd, data, size, MSG_NOSIGNAL), size));
}

/* One accepted stream on shard 0. */
static struct user *accept_one(struct rig *g, struct acceptor *a, int *ret_fd)
{
    if (g->port == 0) {
        cr_assert(eq(int, listen_on(g, 0, 0, a), ERR_OK), "%s", g->why);
        cr_assert(lt(int, 0, g->port));
    }
    uint32_t count = a->count;
    *ret_fd = client(g->port);
    cr_assert(ge(int, *ret_fd, 0));
    RUN_UNTIL(g, a->count > count);
    return a->users[count];
}

static void fill(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)(i * 7 + i / 253);
    }
}

static void on_released(struct stream_send *send)
{
    struct user_send *us = container_of(send, struct user_send, send);
    us->user->released[us->user->released_count++] = us->index;
}

static void user_send(struct user *u, uint32_t index, const void *data, size_t size, bool has_more)
{
    struct user_send *us = &u->sends[index];
    *us = (struct user_send){
        .send = {.iov = &us->iov, .iov_count = 1, .on_released = on_released, .has_more = has_more},
        .iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size},
        .user = u,
        .index = index,
    };
    stream_send(u->stream, &us->send);
}

/* --- receiving -------------------------------------------------------------------------------- */

/* Bytes arrive in order; the peer's close is told as such, exactly once. */
Test(transport_kernel, receives_until_the_peer_closes)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    cr_assert(eq(int, strncmp(u->peer, "127.0.0.1:", 10), 0));
    client_send(fd, "hello", 5);
    RUN_UNTIL(&g, u->got_size == 5);
    client_send(fd, " world", 6);
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    cr_assert(eq(int, memcmp(u->got, "hello world", 11), 0));
    cr_assert(eq(int, u->reason, ERR_CLOSED));
    user_free(u);
    rig_done(&g);
}

/* A peer that only sends no more is told apart from one that is closed, and takes what is sent. */
Test(transport_kernel, half_closed_peers_take_answers)
{
    for (int is_inside_body = 0; is_inside_body <= 1; is_inside_body++) {
        struct rig g;
        rig_init(&g);
        struct acceptor a = {.ops = &half_close_ops};
        int fd;
        struct user *u = accept_one(&g, &a, &fd);
        u->into_size = is_inside_body == 1 ? 4096 : 0;
        client_send(fd, "hello", 5);
        RUN_UNTIL(&g, u->got_size == 5);
        cr_assert(eq(int, shutdown(fd, SHUT_WR), 0));
        RUN_UNTIL(&g, u->eof_count == 1);
        cr_assert(not(u->is_closed));
        user_send(u, 0, "answer", 6, false);
        RUN_UNTIL(&g, u->released_count == 1);
        char got[8];
        cr_assert(eq(long, recv(fd, got, sizeof(got), 0), 6));
        cr_assert(eq(int, memcmp(got, "answer", 6), 0));
        stream_close(u->stream);
        RUN_UNTIL(&g, u->is_closed);
        cr_assert(eq(u32, u->eof_count, 1));
        cr_assert(eq(long, recv(fd, got, sizeof(got), 0), 0));
        close(fd);
        user_free(u);
        rig_done(&g);
    }
}

/* A body asked for from inside on_data goes to its place, and what follows comes as data again. */
Test(transport_kernel, receives_into)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    const size_t body = 300 << 10;
    uint8_t *bytes = malloc(body + 14);
    fill(bytes, body + 14);
    u->into_size = body;
    client_send(fd, bytes, 4);
    RUN_UNTIL(&g, u->got_size == 4);
    for (size_t pos = 4; pos < 4 + body; pos += body / 4) {
        client_send(fd, bytes + pos, body / 4);
        run_idle(&g);
    }
    client_send(fd, bytes + 4 + body, 10);
    RUN_UNTIL(&g, u->got_size == body + 14);
    cr_assert(eq(u32, u->received_count, 1));
    cr_assert(eq(int, memcmp(u->got, bytes, body + 14), 0));
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    user_free(u);
    free(bytes);
    rig_done(&g);
}

/* The same when a pooled receive was under way already: its bytes are copied. */
Test(transport_kernel, receives_into_behind_a_receive)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    run_idle(&g);
    u->into_size = 6;
    stream_receive_into(u->stream, u->got, 6);
    client_send(fd, "into12data", 10);
    RUN_UNTIL(&g, u->got_size == 10);
    cr_assert(eq(u32, u->received_count, 1));
    cr_assert(eq(u32, u->data_count, 1));
    cr_assert(eq(int, memcmp(u->got, "into12data", 10), 0));
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    user_free(u);
    rig_done(&g);
}

/* The peer goes in the middle of a body. */
Test(transport_kernel, closed_inside_receive_into)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    u->into_size = 1000;
    client_send(fd, "x", 1);
    RUN_UNTIL(&g, u->got_size == 1);
    client_send(fd, "part", 4);
    run_idle(&g);
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    cr_assert(eq(int, u->reason, ERR_CLOSED));
    cr_assert(eq(u32, u->received_count, 0));
    user_free(u);
    rig_done(&g);
}

/* A paused stream takes nothing more: the peer's sends come to a stop. */
Test(transport_kernel, pause_is_back_pressure)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    u->is_pausing = true;
    client_send(fd, "first", 5);
    RUN_UNTIL(&g, u->got_size == 5);
    client_send(fd, "second", 6);
    run_idle(&g);
    cr_assert(eq(sz, u->got_size, 5));
    u->is_pausing = false;
    stream_resume(u->stream);
    RUN_UNTIL(&g, u->got_size == 11);
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    user_free(u);
    rig_done(&g);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Many sends, large and small, more vectors than one call takes: all arrive, released in order. */
Test(transport_kernel, sends_in_order)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    const size_t large = 4 << 20;
    const size_t size = large + (SENDS_MAX - 1) * 100;
    uint8_t *bytes = malloc(size);
    uint8_t *got = malloc(size);
    fill(bytes, size);
    size_t pos = 0;
    for (uint32_t i = 0; i < SENDS_MAX; i++) {
        size_t part = i == 100 ? large : 100;
        user_send(u, i, bytes + pos, part, i + 1 < SENDS_MAX && i % 10 != 0);
        pos += part;
    }
    cr_assert(eq(u32, u->released_count, 0)); /* Never inside the call. */
    size_t got_size = 0;
    while (got_size < size) {
        turn(&g);
        ssize_t n = recv(fd, got + got_size, size - got_size, MSG_DONTWAIT);
        cr_assert(n > 0 || errno == EAGAIN);
        got_size += n > 0 ? (size_t)n : 0;
    }
    cr_assert(eq(int, memcmp(got, bytes, size), 0));
    RUN_UNTIL(&g, u->released_count == SENDS_MAX);
    for (uint32_t i = 0; i < SENDS_MAX; i++) {
        cr_assert(eq(u32, u->released[i], i));
    }
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    user_free(u);
    free(bytes);
    free(got);
    rig_done(&g);
}

/* Closing while the peer reads nothing: every send comes back, and nothing hangs. */
Test(transport_kernel, close_releases_what_is_queued)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    uint8_t *bytes = calloc(1, GOT_SIZE);
    for (uint32_t i = 0; i < 5; i++) {
        user_send(u, i, bytes, GOT_SIZE, false);
    }
    run_idle(&g);
    cr_assert(lt(u32, u->released_count, 5));
    stream_close(u->stream);
    stream_close(u->stream);
    cr_assert(not(u->is_closed));
    RUN_UNTIL(&g, u->is_closed);
    cr_assert(eq(u32, u->released_count, 5));
    cr_assert(eq(int, u->reason, ERR_CANCELLED));
    user_free(u);
    close(fd);
    free(bytes);
    rig_done(&g);
}

/* What was sent before a close still arrives. */
Test(transport_kernel, close_after_send)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    user_send(u, 0, "goodbye", 7, false);
    RUN_UNTIL(&g, u->released_count == 1);
    stream_close(u->stream);
    RUN_UNTIL(&g, u->is_closed);
    char got[16];
    cr_assert(eq(sz, (size_t)recv(fd, got, sizeof(got), MSG_WAITALL), 7));
    cr_assert(eq(int, memcmp(got, "goodbye", 7), 0));
    user_free(u);
    close(fd);
    rig_done(&g);
}

/* Closing from inside on_data, and a paused stream with nothing in flight. */
Test(transport_kernel, close_at_awkward_moments)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fds[2];
    struct user *inside = accept_one(&g, &a, &fds[0]);
    struct user *paused = accept_one(&g, &a, &fds[1]);
    inside->is_closing = true;
    paused->is_pausing = true;
    client_send(fds[0], "x", 1);
    client_send(fds[1], "x", 1);
    RUN_UNTIL(&g, inside->got_size + paused->got_size == 2);
    stream_close(paused->stream);
    cr_assert(not(paused->is_closed));
    RUN_UNTIL(&g, inside->is_closed && paused->is_closed);
    user_free(inside);
    user_free(paused);
    close(fds[0]);
    close(fds[1]);
    rig_done(&g);
}

/* The peer resets the connection while a send is blocked. */
Test(transport_kernel, reset_by_the_peer)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    int fd;
    struct user *u = accept_one(&g, &a, &fd);
    uint8_t *bytes = calloc(1, GOT_SIZE);
    user_send(u, 0, bytes, GOT_SIZE, false);
    user_send(u, 1, bytes, GOT_SIZE, false);
    run_idle(&g);
    const struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
    RUN_UNTIL(&g, u->is_closed);
    cr_assert(eq(int, u->reason, ERR_CLOSED));
    cr_assert(eq(u32, u->released_count, 2));
    user_free(u);
    free(bytes);
    rig_done(&g);
}

/* --- connecting ------------------------------------------------------------------------------- */

static struct user *connect_to(struct rig *g, const char *host, uint16_t port, enum err expected)
{
    struct user *u = user_new();
    struct connect_options o = {
        .address = {.port = port}, .user = u, .ops = &user_ops, .on_connected = on_connected};
    strcpy(o.address.host, host);
    enum err e = g->t[1]->ops->connect(g->t[1], &o, &u->stream);
    cr_assert(eq(int, e, expected));
    if (e != ERR_OK) {
        free(u->got);
        free(u);
        return NULL;
    }
    return u;
}

/* Both ends are ours. */
Test(transport_kernel, connects)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a), ERR_OK));
    struct user *u = connect_to(&g, "localhost", g.port, ERR_OK);
    user_send(u, 0, "early", 5, false); /* Before the connection stands. */
    cr_assert(not(u->is_connected));
    RUN_UNTIL(&g, u->is_connected && a.count == 1 && a.users[0]->got_size == 5);
    stream_close(u->stream);
    RUN_UNTIL(&g, u->is_closed && a.users[0]->is_closed);
    cr_assert(eq(int, a.users[0]->reason, ERR_CLOSED));
    user_free(u);
    user_free(a.users[0]);
    rig_done(&g);
}

/* Nobody listens: on_closed says so. A name: refused at once. Closing while connecting works. */
Test(transport_kernel, connect_failures)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a), ERR_OK));
    g.t[0]->ops->stop_listening(g.t[0], &a);
    run_idle(&g);
    struct user *u = connect_to(&g, "127.0.0.1", g.port, ERR_OK);
    RUN_UNTIL(&g, u->is_closed);
    cr_assert(not(u->is_connected));
    cr_assert(eq(int, u->reason, ERR_CLOSED));
    user_free(u);
    connect_to(&g, "no.such.host.example", 1, ERR_UNSUPPORTED);
    u = connect_to(&g, "192.0.2.1", 9, ERR_OK); /* A network that exists for examples only. */
    stream_close(u->stream);
    RUN_UNTIL(&g, u->is_closed);
    user_free(u);
    rig_done(&g);
}

/* --- listening -------------------------------------------------------------------------------- */

/* The shards of one process share a port, and both get connections. */
Test(transport_kernel, shards_share_a_port)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a[SHARDS] = {0};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a[0]), ERR_OK));
    cr_assert(eq(int, listen_on(&g, 1, g.port, &a[1]), ERR_OK), "%s", g.why);
    int fds[60];
    for (size_t i = 0; i < 60; i++) {
        fds[i] = client(g.port);
        cr_assert(ge(int, fds[i], 0));
    }
    RUN_UNTIL(&g, a[0].count + a[1].count == 60);
    cr_assert(lt(u32, 0, a[0].count));
    cr_assert(lt(u32, 0, a[1].count));
    for (size_t i = 0; i < 60; i++) {
        close(fds[i]);
    }
    for (int s = 0; s < SHARDS; s++) {
        for (uint32_t i = 0; i < a[s].count; i++) {
            RUN_UNTIL(&g, a[s].users[i]->is_closed);
            user_free(a[s].users[i]);
        }
    }
    rig_done(&g);
}

/* Another broker of the same user is refused, though SO_REUSEPORT alone would let it share; so is
 * one that finds any other program there. */
Test(transport_kernel, a_taken_port_is_refused)
{
    struct rig g;
    struct rig other;
    rig_init(&g);
    rig_init(&other);
    struct acceptor a = {0};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a), ERR_OK));
    cr_assert(eq(int, listen_on(&other, 0, g.port, &a), ERR_EXISTS));
    cr_assert(ne(ptr, strstr(other.why, "is taken: stop the process"), NULL));

    /* And the port is free again once the first broker is gone. */
    g.t[0]->ops->stop_listening(g.t[0], NULL);
    run_idle(&g);
    cr_assert(eq(int, listen_on(&other, 0, g.port, &a), ERR_OK), "%s", other.why);
    rig_done(&g);
    rig_done(&other);
}

Test(transport_kernel, listen_failures_name_the_fix)
{
    struct rig g;
    rig_init(&g);
    uint16_t port;
    struct listen_options o = {.address = {.host = "192.0.2.1"}, .on_accept = on_accept};
    cr_assert(eq(int, g.t[0]->ops->listen(g.t[0], &o, &port, g.why), ERR_INVALID));
    cr_assert(ne(ptr, strstr(g.why, "not an address of this machine"), NULL));
    o.address = (struct net_address){.host = "no such host"};
    cr_assert(eq(int, g.t[0]->ops->listen(g.t[0], &o, &port, g.why), ERR_NOT_FOUND));
    cr_assert(ne(ptr, strstr(g.why, "cannot resolve no such host"), NULL));
    rig_done(&g);
}

/* Stopping one listener leaves the other. A user may refuse at accept. */
Test(transport_kernel, stop_listening_and_refuse)
{
    struct rig g;
    rig_init(&g);
    struct acceptor a = {0};
    struct acceptor b = {.is_refusing = true};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a), ERR_OK));
    uint16_t port_a = g.port;
    cr_assert(eq(int, listen_on(&g, 0, 0, &b), ERR_OK));
    uint16_t port_b = g.port;
    run_idle(&g);
    g.t[0]->ops->stop_listening(g.t[0], &a);
    run_idle(&g);
    cr_assert(eq(int, client(port_a), -1));
    int fd = client(port_b);
    RUN_UNTIL(&g, b.count == 1);
    char byte;
    cr_assert(eq(int, (int)recv(fd, &byte, 1, 0), 0));
    close(fd);
    rig_done(&g);
}

/* Without a free descriptor a connection waits in the kernel: a line is logged, nothing spins, and
 * it is accepted once there is one. */
Test(transport_kernel, out_of_descriptors)
{
    struct rig g;
    rig_init(&g);
    uint32_t lines_count = 0;
    g.logger.sink = count_line;
    g.logger.context = &lines_count;
    struct acceptor a = {0};
    cr_assert(eq(int, listen_on(&g, 0, 0, &a), ERR_OK));
    const struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
    int fd = client(g.port);
    int taken[64];
    int taken_count = 0;
    while ((taken[taken_count] = dup(fd)) != -1) {
        taken_count++;
    }
    RUN_UNTIL(&g, lines_count > 0);
    uint64_t turns = g.shards[0].counters.turns;
    run_idle(&g);
    cr_assert(lt(u64, g.shards[0].counters.turns - turns, 5));
    cr_assert(eq(u32, a.count, 0));
    while (taken_count > 0) {
        close(taken[--taken_count]);
    }
    RUN_UNTIL(&g, a.count == 1);
    cr_assert(eq(u32, lines_count, 1));
    close(fd);
    RUN_UNTIL(&g, a.users[0]->is_closed);
    user_free(a.users[0]);
    rig_done(&g);
}

/* --- a server on it --------------------------------------------------------------------------- */

static enum conn_class classify(void *context, struct slice frame)
{
    (void)context;
    return frame.data[0] % 2 == 0 ? CONN_OVERLAP : CONN_BARRIER;
}

static void echo(void *context, struct conn_request *r)
{
    (void)context;
    size_t size = r->frame.size;
    uint8_t *data = malloc(size);
    memcpy(data, r->frame.data, size);
    conn_answer(r, data, size);
}

static void ignore_closed(void *context, struct conn *c)
{
    (void)context;
    (void)c;
}

static void set_true(void *context)
{
    *(bool *)context = true;
}

static size_t put_frame(uint8_t *dst, size_t size)
{
    dst[0] = (uint8_t)(size >> 24);
    dst[1] = (uint8_t)(size >> 16);
    dst[2] = (uint8_t)(size >> 8);
    dst[3] = (uint8_t)size;
    fill(dst + 4, size);
    dst[4] = (uint8_t)(size % 251);
    return 4 + size;
}

/* Frames of all sizes, pipelined by a peer that reads and writes as it can, come back unchanged
 * through a connection with little room. */
Test(transport_kernel, echoes_frames)
{
    struct rig g;
    rig_init(&g);
    const struct conn_server_options o = {
        .shard = &g.shards[0],
        .transport = g.t[0],
        .limits = {.frame_size_max = 1 << 20, .requests_max = 8, .conns_max = 10},
        .handler = {.classify = classify, .on_request = echo, .on_closed = ignore_closed},
    };
    struct conn_server *cs;
    cr_assert(eq(int, conn_server_new(&o, &cs), ERR_OK));
    const struct net_address address = {.host = "127.0.0.1"};
    cr_assert(eq(int, conn_server_listen(cs, &address, 0, &g.port, g.why), ERR_OK));

    const size_t size_max = 40 << 20;
    uint8_t *bytes = malloc(size_max);
    uint8_t *got = malloc(size_max);
    size_t size = 0;
    struct rand rand;
    rand_init_seed(&rand, 7);
    for (int i = 0; i < 600; i++) {
        size_t frame =
            rand_one_in(&rand, 10) ? rand_below(&rand, 500 << 10) : rand_below(&rand, 300);
        size += put_frame(bytes + size, frame + 1);
    }
    int fd = client(g.port);
    size_t sent = 0;
    size_t received = 0;
    uint64_t end_us = clock_now_us(&g.clock) + WAIT_US_MAX;
    while (received < size) {
        cr_assert(lt(u64, clock_now_us(&g.clock), end_us), "received=%zu of %zu", received, size);
        ssize_t n = send(fd, bytes + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        shard_turn(&g.shards[0]);
        n = recv(fd, got + received, size - received, MSG_DONTWAIT);
        received += n > 0 ? (size_t)n : 0;
    }
    cr_assert(eq(int, memcmp(got, bytes, size), 0));
    bool is_stopped = false;
    conn_server_stop(cs, &is_stopped, set_true);
    RUN_UNTIL(&g, is_stopped);
    conn_server_free(cs);
    close(fd);
    free(bytes);
    free(got);
    rig_done(&g);
}
