/* One broker: the objects of all its shards, made from shards and transports that the caller gives,
 * and the order in which they start and stop. No threads, no clock, no files of its own: the
 * simulator builds the same broker on simulated ones.
 *
 *   start: data directory -> admin -> cluster (stores, group 0, partitions) -> listeners, shard by
 *          shard
 *   stop:  admin -> listeners (no new work, answers leave) -> cluster (flush, close) -> the rest
 *
 * Shard: shard 0, but broker_new and broker_free: while no shard runs.
 */
#pragma once

#include <stdint.h>

#include "broker/settings.h"
#include "core/err.h"
#include "net/transport.h"

struct broker;
struct shard;
struct shard_group;

enum {
    BROKER_WHY_SIZE = 512,
};

struct broker_options {
    const char *version; /* Must outlive the broker, as what follows. */
    const struct broker_settings *settings;
    struct shard_group *group; /* Its shards are initialised before broker_start, and done after
                                  broker_free. */
    /* The transport of one shard; called on it. */
    void *context;
    enum err (*transport_new)(void *context, struct shard *s, struct transport **ret_transport);
};

enum err broker_new(const struct broker_options *o, struct broker **ret_broker);

/* Once, before shard 0's loop runs or from it. Opens the data directory, which blocks; all else
 * goes on in the loops of all shards, then on_started comes, from the loop. On error why is one
 * line that names the fix, and broker_stop must still be called. */
typedef void broker_started_fn(void *context, enum err e, const char *why);
void broker_start(struct broker *b, void *context, broker_started_fn *on_started);

/* Once, after on_started. Everything acknowledged is durable when on_stopped comes, from the loop.
 */
typedef void broker_stopped_fn(void *context);
void broker_stop(struct broker *b, void *context, broker_stopped_fn *on_stopped);

/* Never started, or stopped. Accepts NULL. */
void broker_free(struct broker *b);

/* After the start: where listener index is bound, and the admin server (NULL = there is none). */
const struct net_address *broker_kafka_address(const struct broker *b, uint32_t index);
const struct net_address *broker_admin_address(const struct broker *b);
