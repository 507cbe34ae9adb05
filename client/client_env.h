/* What the client needs of the world: connections, waiting, time, randomness, and the line that
 * says what went wrong. Tests put their own in place.
 *
 * One thread at a time, as the client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/clock.h"
#include "core/rand.h"

enum {
    CLIENT_HOST_SIZE = 256,
};

struct client_address {
    char host[CLIENT_HOST_SIZE];
    uint16_t port;
};

struct client_env {
    struct clock *clock;
    struct rand *rand;
    /* A connected non-blocking descriptor. Fails with client_fail. */
    enum err (*dial)(struct client_env *env,
                     const struct client_address *address,
                     uint64_t deadline_us,
                     int *ret_fd);
    /* Until fd is ready for events (those of poll), or the deadline: ERR_TIMED_OUT. fd -1: until
     * the deadline in any case. Says nothing in why. */
    enum err (*wait)(struct client_env *env, int fd, short events, uint64_t deadline_us);
    char why[CLIENT_WHY_SIZE];
};

/* The kernel's sockets. clock and rand must outlive env. */
void client_env_init(struct client_env *env, struct clock *clock, struct rand *rand);

/* Writes the line and returns e. */
[[gnu::format(printf, 3, 4)]] enum err
client_fail(struct client_env *env, enum err e, const char *format, ...);

static inline uint64_t client_deadline_us(struct client_env *env, uint32_t timeout_ms)
{
    return clock_now_us(env->clock) + (uint64_t)timeout_ms * 1000;
}

/* "HOST:PORT" or "[V6]:PORT"; false if it is neither. The port may be missing: 9092. */
bool client_address_parse(struct slice text, struct client_address *ret_address);
