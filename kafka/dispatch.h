/* One shard's Kafka front: takes frames from net, finds the handler, and sends its answer back.
 *
 *  1. An unknown key or a version that is not served closes the connection, as in Kafka; only
 *     ApiVersions answers any version (in version 0, error 35).
 *  2. A body that cannot be decoded closes the connection.
 *  3. What a request needs lives in its arena and is bounded (REQUEST_ARENA_SIZE_MAX), and so is
 *     what all requests of the shard need together (a quarter of its memory); beyond a bound the
 *     connection is closed.
 *
 * Shard: one per shard; all calls on that shard.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/list.h"
#include "kafka/api_table.h"
#include "net/conn.h"
#include "net/transport.h"

struct broker_config;
struct cluster;
struct dispatch;
struct groups;
struct shard;

/* What the broker's configuration tells the handlers. All shards read the same struct, none writes
 * it while requests run. */
struct dispatch_settings {
    /* Where clients find this broker, by conn_listener_index: a client is told the endpoint of the
     * listener it came in on. */
    const struct net_address *advertised;
    uint32_t advertised_count;
    const char *rack;            /* NULL = none. */
    bool is_auto_create;         /* auto.create.topics.enable */
    bool is_delete_enabled;      /* delete.topic.enable */
    uint32_t fetch_size_max;     /* fetch.max.bytes */
    uint32_t fetch_sessions_max; /* Per shard. */
    uint64_t fetch_session_eviction_us;
    const struct broker_config *configs; /* What DescribeConfigs says of this broker, by name. */
    uint32_t configs_count;
};

struct dispatch_options {
    struct shard *s;
    struct cluster *cluster;
    struct groups *groups; /* Of the same shard. */
    const struct dispatch_settings *settings;
};

/* ERR_BUSY without memory. */
enum err dispatch_new(const struct dispatch_options *o, struct dispatch **ret_dispatch);

/* What conn_server_new wants. */
struct conn_handler dispatch_conn_handler(struct dispatch *d);

/* From now on no request waits for data: those that do are answered at once. */
void dispatch_stop(struct dispatch *d);

/* No request may be in flight. Accepts NULL. */
void dispatch_free(struct dispatch *d);
