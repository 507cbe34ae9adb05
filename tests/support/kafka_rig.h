/* Handlers between a fake transport and a fake cluster: the test writes requests as structs, plays
 * the cluster, and reads answers as structs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "groups/settings.h"
#include "kafka/dispatch.h"
#include "kafka/proto/schema.h"
#include "net/conn.h"

#include "tests/support/fake_cluster.h"
#include "tests/support/fake_transport.h"
#include "tests/support/test_shard.h"

enum {
    RIG_PORT = 9092,
    RIG_MEMORY_SIZE = 8 << 20,
};

struct kafka_rig {
    struct test_shard ts;
    struct fake_transport *ft;
    struct cluster cluster;
    struct net_address advertised;
    struct groups_settings groups_settings;
    struct groups_set *groups; /* Without coordinators, until the test makes the topic for them:
                                * then they load for ever. */
    struct dispatch_settings settings;
    struct dispatch *dispatch;
    struct conn_server *server;
    uint16_t port;
    struct fake_peer *peer; /* One client. */
    size_t read_pos;        /* In what the peer received. */
    int32_t correlation_id;
    struct arena arena; /* Of decoded answers. */
};

void kafka_rig_init(struct kafka_rig *g);
/* Ends the connection and all; checks that nothing is left behind. */
void kafka_rig_done(struct kafka_rig *g);

/* Loop and transport, until neither has anything to do. */
void kafka_rig_run(struct kafka_rig *g);
/* The clock moves on. */
void kafka_rig_advance(struct kafka_rig *g, uint64_t us);

/* Sends one request as the client and runs. */
void kafka_rig_send(struct kafka_rig *g,
                    const struct schema_api *api,
                    int16_t version,
                    const void *request);

/* The next answer, of an expected kind; NULL if none has come. */
const void *kafka_rig_answer(struct kafka_rig *g, const struct schema_api *api, int16_t version);

/* The same with the bytes of a frame, its length left out. */
void kafka_rig_send_frame(struct kafka_rig *g, struct slice frame);

/* Another client, if the last one's connection is closed. */
void kafka_rig_redial(struct kafka_rig *g);

/* What requests may take of memory from now on, decoded form included. None may be under way. */
void kafka_rig_limit_requests(struct kafka_rig *g, size_t size);

/* Bytes of the shard's pool in use. */
size_t kafka_rig_memory(const struct kafka_rig *g);
