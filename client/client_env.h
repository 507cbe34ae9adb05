/* What the client needs of the world: names looked up, connections, waiting, time, randomness.
 * Tests put their own in place.
 *
 * The client's thread only, but for the clock and the functions that are pure.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "client/client.h"
#include "core/clock.h"
#include "core/rand.h"

enum {
    CLIENT_HOST_SIZE = 256,
    CLIENT_PLACES_MAX = 8, /* Addresses of one host name that are tried. */
};

struct pollfd;

struct client_address {
    char host[CLIENT_HOST_SIZE];
    uint16_t port;
};

/* One of the addresses that a host name stands for. */
struct client_place {
    struct sockaddr_storage address;
    socklen_t size;
};

struct client_env {
    struct clock *clock;
    struct rand *rand;
    /* At least one place, or the reason why there is none. Blocks as long as the C library does. */
    const char *(*resolve)(struct client_env *env,
                           const struct client_address *address,
                           struct client_place places[CLIENT_PLACES_MAX],
                           size_t *ret_count);
    /* Begins to connect a non-blocking socket. 0, EINPROGRESS (then wait for POLLOUT), or the errno
     * that says why not. */
    int (*dial)(struct client_env *env, const struct client_place *place, int *ret_fd);
    /* Until a descriptor is ready, or the deadline. */
    void (*poll)(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline_us);
};

/* The kernel's sockets. clock and rand must outlive env. */
void client_env_init(struct client_env *env, struct clock *clock, struct rand *rand);

/* One line for people, whatever a broker's words are made of: its control characters are blanks. */
[[gnu::format(printf, 2, 0)]] void
client_format_line(char line[CLIENT_WHY_SIZE], const char *format, va_list arguments);

/* Writes the line and returns e. */
[[gnu::format(printf, 3, 4)]] enum err
client_say(char why[CLIENT_WHY_SIZE], enum err e, const char *format, ...);

/* Words for an errno, as they stand within a line: without a capital. */
void client_errno_text(int number, char ret_text[64]);

/* "HOST:PORT" or "[V6]:PORT"; false if it is neither. The port may be missing: 9092. */
bool client_address_parse(struct slice text, struct client_address *ret_address);
