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
#include <time.h>
#include <unistd.h>

#include "core/utf8.h"

enum {
    PORT_DEFAULT = 9092,
    PORT_TEXT_SIZE = 6,
    WAIT_US_MAX = 3600 * 1000000LL, /* Longer waits are cut into pieces. */
};

void client_format_line(char line[CLIENT_WHY_SIZE], const char *format, va_list arguments)
{
    (void)vsnprintf(line, CLIENT_WHY_SIZE, format, arguments);
    utf8_make_printable(line);
}

enum err client_say(char why[CLIENT_WHY_SIZE], enum err e, const char *format, ...)
{
    /* Via a copy: the arguments may name the line that is replaced. */
    char line[CLIENT_WHY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    client_format_line(line, format, arguments);
    va_end(arguments);
    memcpy(why, line, sizeof(line));
    return e;
}

void client_errno_text(int number, char ret_text[64])
{
    char memory[64];
    (void)snprintf(ret_text, 64, "%s", strerror_r(number, memory, sizeof(memory)));
    if (ret_text[0] >= 'A' && ret_text[0] <= 'Z' && ret_text[1] >= 'a' && ret_text[1] <= 'z') {
        ret_text[0] = (char)(ret_text[0] - 'A' + 'a');
    }
}

static void
poll_kernel(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline_us)
{
    const uint64_t now_us = clock_now_us(env->clock);
    uint64_t left_us = now_us < deadline_us ? deadline_us - now_us : 0;
    left_us = left_us > WAIT_US_MAX ? WAIT_US_MAX : left_us;
    const struct timespec left = {
        .tv_sec = (time_t)(left_us / 1000000),
        .tv_nsec = (long)(left_us % 1000000 * 1000),
    };
    /* Interrupted or refused: nothing is ready, and the caller comes back. */
    if (ppoll(fds, count, &left, NULL) == -1) {
        for (size_t i = 0; i < count; i++) {
            fds[i].revents = 0;
        }
    }
}

static const char *resolve_name(struct client_env *env,
                                const struct client_address *a,
                                struct client_place places[CLIENT_PLACES_MAX],
                                size_t *ret_count)
{
    (void)env;
    char port[PORT_TEXT_SIZE];
    (void)snprintf(port, sizeof(port), "%u", a->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *infos = NULL;
    const int failure = getaddrinfo(a->host, port, &hints, &infos);
    if (failure != 0) {
        return failure == EAI_NONAME ? "no such host name" : gai_strerror(failure);
    }
    size_t count = 0;
    for (const struct addrinfo *info = infos; info != NULL && count < CLIENT_PLACES_MAX;
         info = info->ai_next) {
        places[count].size = info->ai_addrlen;
        memcpy(&places[count++].address, info->ai_addr, info->ai_addrlen);
    }
    freeaddrinfo(infos);
    *ret_count = count;
    return NULL;
}

static int dial_tcp(struct client_env *env, const struct client_place *place, int *ret_fd)
{
    (void)env;
    const int family = place->address.ss_family;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        return errno;
    }
    int number = 0;
    if (connect(fd, (const struct sockaddr *)&place->address, place->size) == -1) {
        number = errno;
    }
    if (number != 0 && number != EINPROGRESS) {
        (void)close(fd);
        return number;
    }
    /* Requests are written whole: there is nothing to wait for. */
    const int is_on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &is_on, sizeof(is_on));
    *ret_fd = fd;
    return number;
}

void client_env_init(struct client_env *env, struct clock *clock, struct rand *rand)
{
    *env = (struct client_env){
        .clock = clock,
        .rand = rand,
        .resolve = resolve_name,
        .dial = dial_tcp,
        .poll = poll_kernel,
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
