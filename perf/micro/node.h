/* A broker of one shard, all of it, on a simulated disk and clock and on a wire without a net. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "broker/settings.h"
#include "broker/wiring.h"
#include "core/arena.h"
#include "core/uuid.h"
#include "core/wbuf.h"
#include "kafka/proto/schema.h"

#include "perf/micro/wire.h"
#include "tests/support/sim_shard.h"

struct node {
    struct disk_sim *disk;
    struct sim_shard ss;
    struct io_backend_ops kept_ops; /* Of io_sim; those it has now call these, uncounted. */
    const struct io_backend_ops *sim_ops;
    struct wire wire;
    struct broker_settings settings;
    struct broker *broker;
    bool is_started;
    bool is_stopped;
};

/* Started and ready. */
void node_init(struct node *n);
/* Connections must be hung up. */
void node_done(struct node *n);

/* Until nothing is in flight any more: turns that have work are counted, others do not happen. */
void node_run(struct node *n);

/* A whole request, its length in front, to be freed. */
struct slice node_request(const struct schema_api *api, int16_t version, const void *request);
/* The answer's body, with views into c; memory of a. */
const void *node_answer(const struct wire_conn *c,
                        const struct schema_api *api,
                        int16_t version,
                        struct arena *a);
/* A topic of one partition. */
void node_create_topic(struct node *n, struct wire_conn *c, const char *name, struct uuid *ret_id);
