/* A broker that answers what the test told it to, over socket pairs: for everything in client/.
 *
 * The test writes the script first: connections in the order in which the client will dial, and the
 * answers of each in the order of its requests. There is no thread: the broker works while the
 * client waits in poll, where it reads requests and gives each the next answer of the script. So an
 * answer never comes before its request, and several may be on their way. Afterwards the requests
 * are there to be read. Time stands still, but when nothing is ready: then it jumps to the
 * deadline.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_env.h"
#include "client/client_priv.h"
#include "core/arena.h"
#include "core/clock.h"
#include "core/rand.h"
#include "core/wbuf.h"
#include "kafka/proto/schema.h"

enum {
    FAKE_CONNECTIONS_MAX = 64,
    FAKE_STEPS_MAX = 64,
    FAKE_PARTITIONS_MAX = 8,
    FAKE_NODE_ID = 1,
    FAKE_PORT = 9092,
    FAKE_WALL_MS = 1700000000, /* Thousands of ms. */
};

enum fake_step_kind {
    FAKE_ANSWER,  /* To the next request. */
    FAKE_BYTES,   /* Whatever comes, at once. */
    FAKE_HOLD,    /* Nothing more until fake_broker_release. */
    FAKE_HANG_UP, /* After the next request. */
    FAKE_END,     /* At once. */
};

struct fake_step {
    enum fake_step_kind kind;
    struct slice bytes; /* In the broker's arena. */
    uint64_t delay_us;  /* An answer comes so long after its request. */
};

struct fake_connection {
    struct fake_step steps[FAKE_STEPS_MAX];
    size_t steps_count;
    size_t step_next;
    int32_t correlation_next;
    bool is_refused;
    bool is_released;
    bool is_over;          /* Hung up. */
    int fd;                /* The broker's end; -1 before it was dialled. */
    struct wbuf in;        /* What the client sent. */
    size_t requests_count; /* Whole ones in it. */
    size_t answered_count;
    size_t parsed_size; /* Of whole requests. */
    size_t read_size;   /* Of those the test has seen. */
    uint64_t due_us;    /* When the next answer may go; 0: at once. */
    uint16_t port;      /* That was dialled. */
};

/* A request, for who answers whatever comes instead of by a script. */
struct fake_request {
    size_t connection;
    int16_t api_key;
    int16_t version;
    int32_t correlation_id;
    const void *message; /* struct <api>_request, in the broker's arena. */
};

struct fake_broker {
    struct clock_sim clock;
    struct rand rand;
    struct client_env env;
    struct fake_connection connections[FAKE_CONNECTIONS_MAX];
    size_t connections_count; /* Scripted. */
    size_t current;           /* That the script goes on with. */
    size_t dialled_count;
    int16_t version_max[CLIENT_APIS_MAX]; /* Advertised; the newest stable ones at first. */
    struct arena arena;                   /* Of decoded requests and scripted answers. */
    /* Optional, and then there is no script: called for each request but those about versions,
     * while the client waits. Calls fake_broker_reply or fake_broker_cut, or keeps the request for
     * later. */
    void (*serve)(struct fake_broker *b, const struct fake_request *r);
    /* With that: what is due by now; returns when the next is. */
    uint64_t (*tick)(struct fake_broker *b);
};

void fake_broker_init(struct fake_broker *b);
void fake_broker_done(struct fake_broker *b);

/* A client of it, with a bootstrap address that is also the broker's own: one connection does. */
struct client *fake_broker_client(struct fake_broker *b);

/* ---- the script ---- */

/* The next connection; its first answer, the versions, is there already. */
void fake_broker_connection(struct fake_broker *b);
/* The next connection, without any answer. */
void fake_broker_bare_connection(struct fake_broker *b);
/* The current connection's next answer: the versions. */
void fake_broker_versions(struct fake_broker *b);
/* The script goes on with a connection from before. */
void fake_broker_continue(struct fake_broker *b, size_t connection);
/* The next dial is refused. */
void fake_broker_refuse(struct fake_broker *b);
/* The current connection's next answer: struct <api>_response. */
void fake_broker_answer(struct fake_broker *b, int16_t api_key, const void *response);
/* The same in a version. */
void fake_broker_answer_in(struct fake_broker *b,
                           int16_t api_key,
                           int16_t version,
                           const void *response);
/* Bytes as they are, without a request. */
void fake_broker_bytes(struct fake_broker *b, const void *data, size_t size);
/* The current connection's next answer, whatever the bytes are. */
void fake_broker_answer_bytes(struct fake_broker *b, struct slice bytes);
/* The current connection ends when it got one more request. */
void fake_broker_hang_up(struct fake_broker *b);
/* The current connection ends behind its answers. */
void fake_broker_end(struct fake_broker *b);
/* The answers from here on are kept back until the release. */
void fake_broker_hold(struct fake_broker *b);
void fake_broker_release(struct fake_broker *b, size_t connection);
/* Turns the client while there is something to do, without time passing. */
void fake_broker_run(struct fake_broker *b, struct client *c);
/* Lets time pass, with all that is due meanwhile. */
void fake_broker_pass(struct fake_broker *b, struct client *c, uint64_t time_us);
/* Requests that came so far, with the first, about versions. */
size_t fake_broker_requests_count(const struct fake_broker *b, size_t connection);

/* The answer to Metadata: this broker, and topic "t" with so many partitions that it leads. */
void fake_broker_metadata(struct fake_broker *b, int32_t partitions_count);
/* The same with a second broker, FAKE_NODE_ID + 1 on another port, and who leads each partition. */
void fake_broker_metadata_of_two(struct fake_broker *b,
                                 const int32_t *leaders,
                                 int32_t partitions_count);

/* ---- without a script ---- */

/* The answer to a request: struct <api>_response. */
void fake_broker_reply(struct fake_broker *b, const struct fake_request *r, const void *response);
/* The connection ends, whatever is on its way. */
void fake_broker_cut(struct fake_broker *b, size_t connection);

/* ---- what the client sent ---- */

/* The next request on a connection (0 is the first dialled), which must be of this api; decoded
 * into ret_request. False if there is none. */
bool fake_broker_request(struct fake_broker *b,
                         size_t connection,
                         int16_t api_key,
                         void *ret_request);
/* The next request on a connection, which must be of this api, is not looked at. */
void fake_broker_skip(struct fake_broker *b, size_t connection, int16_t api_key);
