#include "client/client_env.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT_DEFAULT = 9092,
    WAIT_MS_MAX = 60 * 60 * 1000, /* Longer waits are cut into pieces: poll counts in int. */
    PORT_TEXT_SIZE = 6,
};

enum err client_fail(struct client_env *env, enum err e, const char *format, ...)
{
    /* Via a copy: the arguments may name the line that is replaced. */
    char line[CLIENT_WHY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    memcpy(env->why, line, sizeof(line));
    return e;
}

static enum err wait_with_poll(struct client_env *env, int fd, short events, uint64_t deadline_us)
{
    for (;;) {
        const uint64_t now_us = clock_now_us(env->clock);
        /* Rounded up: waking a little late beats spinning through the last millisecond. */
        uint64_t left_ms = now_us < deadline_us ? (deadline_us - now_us + 999) / 1000 : 0;
        left_ms = left_ms > WAIT_MS_MAX ? WAIT_MS_MAX : left_ms;
        struct pollfd one = {.fd = fd, .events = events};
        const int ready = poll(&one, fd == -1 ? 0 : 1, (int)left_ms);
        if (ready > 0) {
            return ERR_OK;
        }
        if (ready == -1 && errno != EINTR) {
            return ERR_IO;
        }
        if (left_ms == 0) {
            return ERR_TIMED_OUT;
        }
    }
}

/* Words for people: strerror's start with a capital. */
static void errno_text(int number, char text[64])
{
    char memory[64];
    (void)snprintf(text, 64, "%s", strerror_r(number, memory, sizeof(memory)));
    if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z') {
        text[0] = (char)(text[0] - 'A' + 'a');
    }
}

static enum err finish_connect(struct client_env *env, int fd, uint64_t deadline_us, int *ret_errno)
{
    const enum err e = env->wait(env, fd, POLLOUT, deadline_us);
    *ret_errno = ETIMEDOUT;
    if (e != ERR_OK) {
        return e;
    }
    socklen_t size = sizeof(*ret_errno);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, ret_errno, &size) == -1) {
        *ret_errno = errno;
    }
    return *ret_errno == 0 ? ERR_OK : ERR_CLOSED;
}

static enum err connect_to(struct client_env *env,
                           const struct addrinfo *info,
                           uint64_t deadline_us,
                           int *ret_fd,
                           int *ret_errno)
{
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        *ret_errno = errno;
        return ERR_CLOSED;
    }
    enum err e = ERR_OK;
    if (connect(fd, info->ai_addr, info->ai_addrlen) == -1) {
        *ret_errno = errno;
        e = errno == EINPROGRESS ? finish_connect(env, fd, deadline_us, ret_errno) : ERR_CLOSED;
    }
    if (e != ERR_OK) {
        (void)close(fd);
        return e;
    }
    /* Requests are written whole: there is nothing to wait for. */
    const int is_on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof(is_on));
    *ret_fd = fd;
    return ERR_OK;
}

static enum err
dial_tcp(struct client_env *env, const struct client_address *a, uint64_t deadline_us, int *ret_fd)
{
    char port[PORT_TEXT_SIZE];
    (void)snprintf(port, sizeof(port), "%u", a->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *infos = NULL;
    const int failure = getaddrinfo(a->host, port, &hints, &infos);
    if (failure != 0) {
        return client_fail(env,
                           ERR_CLOSED,
                           "cannot reach %s:%u (%s)",
                           a->host,
                           a->port,
                           failure == EAI_NONAME ? "no such host name" : gai_strerror(failure));
    }
    enum err e = ERR_CLOSED;
    int number = 0;
    for (const struct addrinfo *info = infos; info != NULL && e != ERR_OK; info = info->ai_next) {
        e = connect_to(env, info, deadline_us, ret_fd, &number);
    }
    freeaddrinfo(infos);
    if (e != ERR_OK) {
        char text[64];
        errno_text(number, text);
        return client_fail(env,
                           e,
                           "cannot reach %s:%u (%s)",
                           a->host,
                           a->port,
                           e == ERR_TIMED_OUT ? "no answer in time" : text);
    }
    return ERR_OK;
}

void client_env_init(struct client_env *env, struct clock *clock, struct rand *rand)
{
    *env = (struct client_env){
        .clock = clock,
        .rand = rand,
        .dial = dial_tcp,
        .wait = wait_with_poll,
    };
}

static bool parse_port(const char *text, size_t size, uint16_t *ret_port)
{
    uint32_t port = 0;
    if (size == 0 || size >= PORT_TEXT_SIZE) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

bool client_address_parse(struct slice text, struct client_address *ret_address)
{
    const char *host = (const char *)text.data;
    size_t host_size;
    size_t rest; /* Where ":PORT" starts. */
    if (text.size > 0 && host[0] == '[') {
        const char *end = memchr(host, ']', text.size);
        if (end == NULL) {
            return false;
        }
        host++;
        host_size = (size_t)(end - host);
        rest = host_size + 2;
    } else {
        const char *colon = text.size == 0 ? NULL : memchr(host, ':', text.size);
        host_size = colon == NULL ? text.size : (size_t)(colon - host);
        rest = host_size;
    }
    if (host_size == 0 || host_size >= CLIENT_HOST_SIZE) {
        return false;
    }
    uint16_t port = PORT_DEFAULT;
    const char *tail = (const char *)text.data + rest;
    const size_t tail_size = text.size - rest;
    if (tail_size > 0 && (tail[0] != ':' || !parse_port(tail + 1, tail_size - 1, &port))) {
        return false;
    }
    memcpy(ret_address->host, host, host_size);
    ret_address->host[host_size] = '\0';
    ret_address->port = port;
    return true;
}
