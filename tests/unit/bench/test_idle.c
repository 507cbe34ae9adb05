/* Idle connections, against a listener of this test. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"

#include "perf/bench/idle.h"

enum {
    COUNT = 5,
    WAIT_MS = 10000,
};

static struct clock real_clock;
static int listener;
static char brokers[64]; /* Twice the same. */
static int peers[COUNT];

static void setup(void)
{
    clock_init_real(&real_clock);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(listener, (struct sockaddr *)&address, size) == 0);
    cr_assert(listen(listener, COUNT) == 0);
    cr_assert(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    const int port = ntohs(address.sin_port);
    (void)snprintf(brokers, sizeof(brokers), "127.0.0.1:%d,127.0.0.1:%d", port, port);
}

TestSuite(bench_idle, .init = setup);

static void read_request(int fd)
{
    static const uint8_t wanted[] = "\0\0\0\x19\0\x12\0\0\0\0\0\0\0\x0f"
                                    "coreflume-bench";
    uint8_t got[sizeof(wanted) - 1];
    cr_assert(recv(fd, got, sizeof(got), MSG_WAITALL) == (ssize_t)sizeof(got));
    cr_assert(memcmp(got, wanted, sizeof(got)) == 0);
}

/* Each asks at once; of those that the broker closes it is told how many. */
Test(bench_idle, they_ask_and_notice_who_leaves)
{
    char why[CLIENT_WHY_SIZE];
    struct idle *idle = NULL;
    cr_assert(idle_new(brokers, COUNT, &real_clock, why, &idle) == ERR_OK, "%s", why);
    for (size_t i = 0; i < COUNT; i++) {
        peers[i] = accept(listener, NULL, NULL);
        cr_assert(ge(int, peers[i], 0));
        read_request(peers[i]);
        cr_assert(send(peers[i], "an answer", 9, MSG_NOSIGNAL) == 9);
    }
    cr_assert(eq(sz, idle_lost_count(idle), 0));
    (void)close(peers[0]);
    (void)close(peers[3]);
    for (int i = 0; i < WAIT_MS && idle_lost_count(idle) < 2; i++) {
        (void)poll(NULL, 0, 1);
    }
    cr_assert(eq(sz, idle_lost_count(idle), 2));
    idle_free(idle);
    char byte;
    while (recv(peers[1], &byte, 1, 0) > 0) {
    }
    cr_assert(eq(sz, idle_lost_count(NULL), 0));
    idle_free(NULL);
}

Test(bench_idle, who_is_not_there_is_named)
{
    static const struct {
        const char *brokers;
        enum err err;
        const char *why;
    } rows[] = {
        {"", ERR_INVALID, "no broker"},
        {"a:b:c", ERR_INVALID, "'a:b:c' is not HOST:PORT"},
        {"127.0.0.1:1", ERR_CLOSED, "idle connection 1: connection refused"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[CLIENT_WHY_SIZE] = "";
        struct idle *idle = NULL;
        const enum err e = idle_new(rows[i].brokers, 2, &real_clock, why, &idle);
        cr_assert(eq(int, e, rows[i].err), "%s", why);
        cr_assert(strstr(why, rows[i].why) != NULL, "%s", why);
    }
}
