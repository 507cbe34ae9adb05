/* The client from inside: one lock, one thread that owns all connections, and what it works on.
 * Private to client/.
 *
 * Everything in struct client is guarded by lock, but for what never changes. The thread takes the
 * lock for a turn and leaves it while it waits, compresses or calls back. Without a thread (tests
 * bring a world of their own) whoever waits turns the client himself: same code, same order.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/client_call.h"
#include "client/client_conn.h"
#include "client/client_env.h"
#include "client/client_topic.h"

enum {
    CLIENT_NODE_BOOTSTRAP = -2, /* Node id of a connection to an address of the options. */
    CLIENT_BACKOFF_MS_MIN = 50,
    CLIENT_BACKOFF_MS_MAX = 1000,
    CLIENT_ARENA_SIZE_MAX = 1 << 30,
};

/* A connection and whom it reaches; kept until its owner goes. */
struct client_link {
    struct list link; /* client.links */
    int32_t node_id;
    const void *owner; /* NULL: the client's. */
    struct client_conn conn;
    bool is_open;        /* As last seen. */
    bool is_held;        /* Its host is looked up, without the lock. */
    bool is_dropped;     /* Meanwhile: it goes when that is over. */
    uint64_t serial;     /* Of all connections that were opened. */
    uint32_t failures;   /* Dials since it was last open. */
    uint64_t retry_us;   /* No dial before. */
    uint64_t started_us; /* The last dial. */
};

/* Where a broker is, as the latest metadata said. */
struct client_node {
    int32_t id;
    struct client_address address;
};

/* Somebody who waits, with his own deadline. */
struct client_waiter {
    struct list link;
    uint64_t deadline_us;
};

struct client {
    struct client_env *env;
    struct client_env own_env; /* env, unless a test brought its own. */
    struct clock clock;
    struct rand rand;
    char *client_id;
    uint32_t timeout_ms;
    struct client_address *bootstrap;
    size_t bootstrap_count;

    pthread_mutex_t lock;
    pthread_cond_t changed;          /* For all who wait: look again. */
    pthread_key_t why_key;           /* The calling thread's line. */
    struct list whys;                /* All lines, struct client_why_line. */
    char why_spare[CLIENT_WHY_SIZE]; /* Without memory for a line. */

    bool has_thread;
    pthread_t thread;
    int wake_fd; /* -1 without a thread. */
    bool is_stopping;
    bool is_sleeping; /* The thread waits in poll, until: */
    uint64_t sleep_until_us;
    uint64_t wanted_us; /* Work that came since the turn began; UINT64_MAX: none. */
    bool is_calling_back;
    uint64_t changes; /* Counts what somebody may wait for. */
    struct list waiters;

    bool was_connected;
    struct client_node *nodes;
    size_t nodes_count;
    struct list links;
    uint64_t serial;      /* Connections opened so far. */
    struct list finished; /* Calls that are over, before anybody was told. */
    struct list seeking;  /* Calls to any broker, while there is no connection. */
    size_t seek_index;    /* The next address to try; 0: none was tried. */
    enum err seek_failure;
    char seek_why[CLIENT_WHY_SIZE]; /* Of the first: it is about the broker the user thinks of. */
    struct pollfd *fds;
    size_t fds_capacity;

    struct list topics; /* That producers and consumers follow. */
    struct client_refresh *refresh;

    struct list producers;
    struct list deliveries; /* Batches that are over, before the producer's user was told. */
    size_t buffer_size;     /* Of records that are not settled. */
    size_t buffer_size_max;
    size_t starving_count; /* Threads that wait for room in the buffer. */
    struct list consumers;
    struct list members;
};

/* With a world of the caller's, which must outlive the client, and without a thread; NULL: the
 * kernel's, and a thread. */
enum err client_new_in(const struct client_options *options,
                       struct client_env *env,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct client **ret_client);

/* Writes the calling thread's line and returns e. */
[[gnu::format(printf, 3, 4)]] enum err
client_fail(struct client *c, enum err e, const char *format, ...);

static inline uint64_t client_now_us(struct client *c)
{
    return clock_now_us(c->env->clock);
}

static inline uint64_t client_after_us(struct client *c, uint64_t after_ms)
{
    return client_now_us(c) + after_ms * 1000;
}

/* ---- client_loop.c: with the lock held unless it says otherwise ---- */

void client_lock(struct client *c);
void client_unlock(struct client *c);

/* Somebody may wait for what was just done. */
void client_changed(struct client *c);
/* There is work for the thread at this time; 0: now. */
void client_wake(struct client *c, uint64_t when_us);
/* Until something changed or the deadline: look, and wait again. */
void client_wait(struct client *c, uint64_t deadline_us);
/* False within a callback: waiting there would be for oneself. */
bool client_can_wait(struct client *c);
/* One round: what is due, then the network until deadline_us at most. */
void client_turn(struct client *c, uint64_t deadline_us);
/* Room for what a turn cannot do without; before the first. False without memory. */
bool client_reserve_fds(struct client *c);
/* Starts the thread; without the lock. ERR_BUSY. */
enum err client_start(struct client *c, char ret_why[CLIENT_WHY_SIZE]);
/* Ends it; without the lock. */
void client_stop(struct client *c);

/* Posts the call and waits until it is over; without the lock. The call's timeout is the client's.
 */
enum err client_ask(struct client *c, struct client_call *call);
/* Waits; without the lock. */
void client_sleep(struct client *c, uint64_t until_us);
/* The same, as long as below, not past the deadline. */
void client_back_off(struct client *c, uint32_t attempt, uint64_t deadline_us);

/* How long to pause before attempt number attempt (1 = the first retry): doubling, jittered. */
uint64_t client_back_off_us(struct client *c, uint32_t attempt);

/* Takes back a call that was not sent yet; false if it was, then it ends as others do. */
bool client_cancel(struct client_call *call);

/* ---- client_links.c: with the lock held ---- */

/* On its way, or over already (on client.finished, as one that ERR_NOT_FOUND says is for a broker
 * that the latest metadata do not name). */
void client_post(struct client *c, struct client_call *call);
/* Dials what has to be dialled, sends what waited. Lowers *next_us to when it has to run again. */
void client_links_turn(struct client *c, uint64_t *next_us);
/* Tells of the calls that are over. */
void client_finish_calls(struct client *c);
/* Closes and forgets the connections of an owner; their calls are over. */
void client_links_drop(struct client *c, const void *owner);
bool client_node_is_known(const struct client *c, int32_t node_id);

/* ---- client_metadata.c ---- */

/* Metadata for names (NULL: all topics), decoded into arena, its texts in call's frame; also learns
 * where the brokers are. Without the lock. */
enum err client_metadata_ask(struct client *c,
                             const char *const *names,
                             size_t names_count,
                             struct client_call *call,
                             struct metadata_response *ret_response);

/* One broker that an answer names besides them. ERR_CORRUPT, ERR_BUSY. With the lock. */
enum err client_learn_node(
    struct client *c, int32_t node_id, struct slice host, int32_t port, char why[CLIENT_WHY_SIZE]);

/* ---- client_admin.c ---- */

/* Until an answer names it, a topic counts as not answered. */
void client_init_results(struct client_topic_result *results, size_t count);

/* message, if there is one, is the broker's own and better than ours: it may name the bad option.
 */
void client_set_result(struct client_topic_result *result, int16_t code, struct slice message);
