/* The commands of group 0: what its log entries (ENTRY_CONTROLLER) say, and what shard 0
 * broadcasts. On-disk format, so a released layout is never changed: a new one gets a new version.
 *
 *   command:  u8 kind, u8 version (1), fields; big-endian; text = uvarint size, bytes
 *   stream:   u32 size, command; and again
 *
 * A stream of commands that rebuilds a state is also its snapshot.
 *
 * Bytes come from outside: nothing here asserts on them.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cluster/config_specs.h"
#include "cluster/topic_configs.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/rbuf.h"
#include "core/slice.h"
#include "core/wbuf.h"

enum {
    COMMAND_SIZE_MAX = 2 << 20,
    COMMAND_VERSION = 1,
    COMMAND_DIRECTORIES_MAX = 255, /* Of a topic, or of a node. */
    COMMAND_RESOURCE_NAME_SIZE_MAX = 32767,
    FEATURE_LEVEL = 1, /* What this program writes and understands. */
};

enum command_kind {
    COMMAND_FEATURE_LEVEL = 1, /* Programs that know less must not serve this data. */
    COMMAND_NODE_REGISTERED = 2,
    COMMAND_TOPIC_CREATED = 3,
    COMMAND_TOPIC_DELETED = 4, /* Its logs may still be on disk. */
    COMMAND_TOPIC_PURGED = 5,  /* The owners have removed its logs. */
    COMMAND_PRODUCER_IDS = 6,  /* A block of producer ids is taken. */
    COMMAND_PARTITIONS_ADDED = 7,
    COMMAND_CONFIGS_ALTERED = 8,
};

/* Views into the bytes decoded, or into the caller's memory when encoding. */
struct command {
    enum command_kind kind;
    union {
        struct {
            uint16_t level;
            struct uuid cluster_id; /* Whose log this is. */
        } feature_level;
        struct {
            int32_t node_id;
            struct uuid incarnation;  /* Fresh at each start. */
            struct slice rack;        /* Empty = none. */
            struct slice directories; /* Ids of its data directories, one after the other. */
        } node;
        struct command_topic_created {
            struct uuid id;
            struct slice name;
            int32_t partitions_count;
            int16_t replication_factor;
            bool is_internal;
            uint32_t configs_count;
            struct slice configs; /* As command_encode_configs writes them. */
            /* Data directories that have partitions of it: ids, one after the other; and for each
             * partition which of them, one byte each, if there is more than one. */
            struct slice directories;
            struct slice directory_of;
        } topic_created;
        struct {
            struct uuid id;
            int32_t partitions_count;
        } topic_deleted;
        struct {
            struct uuid id;
        } topic_purged;
        struct {
            int32_t node_id;
            int64_t first;
            int32_t count;
        } producer_ids;
        struct command_partitions_added {
            struct uuid id;
            int32_t first;            /* As many partitions as the topic had ... */
            int32_t partitions_count; /* ... and has now. */
            struct slice directories; /* Of the new ones, as in topic_created. */
            struct slice directory_of;
        } partitions_added;
        struct command_configs_altered {
            enum config_resource resource;
            struct uuid topic_id;   /* Of a topic. */
            struct slice name;      /* Of anything else; "" = all brokers. */
            uint32_t configs_count; /* All that are set now, so that it may be applied again. */
            struct slice configs;   /* As command_encode_configs writes them. */
        } configs_altered;
    };
};

/* Failure is the wbuf's (wbuf_failure). */
void command_encode(const struct command *command, struct wbuf *w);
/* ERR_NEWER_FORMAT for an unknown kind or version; ERR_CORRUPT, ERR_EOF, ERR_TOO_LARGE. */
enum err command_decode(struct slice bytes, struct command *ret_command);

void command_encode_configs(const struct config_pair *pairs, uint32_t count, struct wbuf *w);
void command_encode_entries(const struct topic_config_entry *entries,
                            uint32_t count,
                            struct wbuf *w);
/* configs: over the configs of a decoded command, which has configs_count of them. */
struct config_pair command_next_config(struct rbuf *configs);

void command_stream_add(struct wbuf *stream, struct slice command);
/* ERR_EOF at the end; ERR_CORRUPT. */
enum err command_stream_next(struct rbuf *stream, struct slice *ret_command);
