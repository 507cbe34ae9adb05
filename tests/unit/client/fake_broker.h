/* A broker that answers what the test told it to, over socket pairs: for everything in client/.
 *
 * The test writes the script first: connections in the order in which the client will dial, and the
 * answers of each in the order of its requests. Dialling puts a connection's answers into the
 * socket at once, so nothing has to run beside the client. Afterwards the requests are there to be
 * read. Time stands still, but when the client waits for what does not come: then it jumps to the
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
    FAKE_CONNECTIONS_MAX = 8,
    FAKE_PARTITIONS_MAX = 8,
    FAKE_NODE_ID = 1,
    FAKE_PORT = 9092,
    FAKE_WALL_MS = 1700000000, /* Thousands of ms. */
};

struct fake_connection {
    struct wbuf answers;
    int32_t correlation_next;
    bool is_refused;
    bool hangs_up; /* After its answers. */
    int fd;        /* The broker's end; -1 before it was dialled. */
};

struct fake_broker {
    struct clock_sim clock;
    struct rand rand;
    struct client_env env;
    struct fake_connection connections[FAKE_CONNECTIONS_MAX];
    size_t connections_count; /* Scripted. */
    size_t dialled_count;
    int16_t version_max[CLIENT_APIS_MAX]; /* Advertised; the newest stable ones at first. */
    struct arena arena;                   /* Of decoded requests and scripted answers. */
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
/* The next dial is refused. */
void fake_broker_refuse(struct fake_broker *b);
/* The current connection's next answer: struct <api>_response. */
void fake_broker_answer(struct fake_broker *b, int16_t api_key, const void *response);
/* The same in a version. */
void fake_broker_answer_in(struct fake_broker *b,
                           int16_t api_key,
                           int16_t version,
                           const void *response);
/* Bytes as they are. */
void fake_broker_bytes(struct fake_broker *b, const void *data, size_t size);
/* The current connection ends behind its answers. */
void fake_broker_hang_up(struct fake_broker *b);

/* The answer to Metadata: this broker, and topic "t" with so many partitions that it leads. */
void fake_broker_metadata(struct fake_broker *b, int32_t partitions_count);

/* ---- what the client sent ---- */

/* The next request on a connection (0 is the first dialled), which must be of this api; decoded
 * into ret_request. False if there is none. */
bool fake_broker_request(struct fake_broker *b,
                         size_t connection,
                         int16_t api_key,
                         void *ret_request);
