/* Connections that are there and hardly ever say something: what a broker has from most of its
 * clients most of the time. Each asks which versions the broker speaks, which every broker answers
 * to everybody, at once and then every IDLE_EVERY_US, so that it is not closed.
 *
 * One thread for all of them, started here; the functions are the caller's.
 */
#pragma once

#include <stddef.h>

#include "client/client.h"
#include "core/clock.h"
#include "core/err.h"

enum {
    IDLE_EVERY_US = 60000000,
};

struct idle;

/* Connects count times, to the brokers of the list in turn. On error ret_why has a line. */
enum err idle_new(const char *brokers,
                  size_t count,
                  struct clock *clock,
                  char ret_why[CLIENT_WHY_SIZE],
                  struct idle **ret_idle);
/* Accepts NULL. */
void idle_free(struct idle *x);

/* How many the broker has closed by now. 0 of NULL. */
size_t idle_lost_count(struct idle *x);
