/* The broker's configuration options: Kafka's names where Kafka has them, ours with "coreflume." in
 * front. The broker's synonyms of topic configurations come from the table of
 * cluster/topic_configs.
 *
 * Shard: none; used at start only.
 */
#pragma once

#include "core/config.h"
#include "core/err.h"

/* The names that other files ask for. */
#define OPTION_ADMIN_LISTENER       "coreflume.admin.listener"
#define OPTION_ADVERTISED_LISTENERS "advertised.listeners"
#define OPTION_BACKGROUND_BYTES     "coreflume.background.bytes.per.second"
#define OPTION_BACKGROUND_OPS       "coreflume.background.ops.per.second"
#define OPTION_AUTO_CREATE          "auto.create.topics.enable"
#define OPTION_CHECKPOINT           "coreflume.log.checkpoint.bytes"
#define OPTION_CLEANER_BACKOFF      "log.cleaner.backoff.ms"
#define OPTION_CLEANER_ENABLED      "log.cleaner.enable"
#define OPTION_CLEANER_KEYS_MAX     "log.cleaner.dedupe.buffer.size"
#define OPTION_CONN_FRAMES_MAX      "coreflume.connection.frames.max.bytes"
#define OPTION_CONN_REQUESTS_MAX    "coreflume.connection.requests.max"
#define OPTION_CONNECTIONS_IDLE     "connections.max.idle.ms"
#define OPTION_CONNECTIONS_MAX      "max.connections"
#define OPTION_CORES                "coreflume.cores"
#define OPTION_DATA_DIRS            "log.dirs"
#define OPTION_DELETE_ENABLED       "delete.topic.enable"
#define OPTION_DISK_RESERVE         "coreflume.disk.reserve.bytes"
#define OPTION_FETCH_MAX            "fetch.max.bytes"
#define OPTION_FETCH_SESSIONS_MAX   "max.incremental.fetch.session.cache.slots"
#define OPTION_LISTENERS            "listeners"
#define OPTION_LOG_LEVEL            "coreflume.log.level"
#define OPTION_LOST_DIRS            "coreflume.log.dirs.lost"
#define OPTION_MEMORY               "coreflume.memory"
#define OPTION_MEMORY_LOCK          "coreflume.memory.lock"
#define OPTION_NODE_ID              "node.id"
#define OPTION_PARTITIONS_DEFAULT   "num.partitions"
#define OPTION_PARTITIONS_MAX       "coreflume.partitions.max"
#define OPTION_PINNED               "coreflume.fetch.pinned.bytes"
#define OPTION_PRODUCER_EXPIRATION  "producer.id.expiration.ms"
#define OPTION_PRODUCERS_MAX        "coreflume.partition.producers.max"
#define OPTION_PROTOCOL_MAP         "listener.security.protocol.map"
#define OPTION_RACK                 "broker.rack"
#define OPTION_READAHEAD            "coreflume.readahead.bytes"
#define OPTION_RECYCLE              "coreflume.recycle.bytes"
#define OPTION_REPLICATION_DEFAULT  "default.replication.factor"
#define OPTION_RETENTION_INTERVAL   "log.retention.check.interval.ms"
#define OPTION_REQUEST_SIZE_MAX     "socket.request.max.bytes"
#define OPTION_STALL                "coreflume.stall.us"
#define OPTION_TOPIC_PARTITIONS_MAX "coreflume.topic.partitions.max"
#define OPTION_TOPICS_MAX           "coreflume.topics.max"

/* The whole table, in order of name. ERR_BUSY without memory. */
enum err options_new(struct config_table **ret_table);
/* Accepts NULL. */
void options_free(struct config_table *t);
