/* A client of any broker that speaks the Kafka protocol: admin calls, a producer, a consumer by
 * assignment. This header is all that a program needs.
 *
 *     struct client *c;
 *     char why[CLIENT_WHY_SIZE];
 *     if (client_new(&(struct client_options){.brokers = "127.0.0.1:9092"}, why, &c) != ERR_OK) ...
 *     struct client_producer *p;
 *     if (client_producer_new(c, "orders", NULL, &p) != ERR_OK) { puts(client_why(c)); ... }
 *     e = client_producer_send(p, &(struct client_message){.partition = -1, .value = value});
 *     e = client_producer_flush(p);
 *
 * Rules of use
 * 1. A client, and the producers and consumers made from it, belong to one thread at a time.
 *    Producers and consumers are freed before their client.
 * 2. Calls block, but never for longer than the timeouts of client_options and of their own.
 * 3. A call that fails leaves one line for people in client_why: what happened, with whom, and what
 *    to do where that is known. Its ret_ parameters are untouched.
 * 4. Everything passed in is copied; everything handed out says how long it is valid.
 * 5. Units stand in the names: _ms, _us, _size (bytes), _count. Times of records are milliseconds
 *    since 1970.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/uuid.h"

enum {
    CLIENT_WHY_SIZE = 512,
};

/* ---- the client ---- */

struct client;

struct client_options {
    const char *brokers;   /* HOST:PORT,...; any of the cluster's, the others are learnt. */
    const char *client_id; /* As brokers log it. NULL: "coreflume". */
    uint32_t timeout_ms;   /* For a connection, and for an answer. 0: 30000. */
};

/* Connects to nobody yet. ERR_INVALID with why for a bad list of brokers, ERR_BUSY without memory.
 */
enum err client_new(const struct client_options *options,
                    char ret_why[CLIENT_WHY_SIZE],
                    struct client **ret_client);
/* Accepts NULL. */
void client_free(struct client *c);

/* About the latest call that failed, of the client or what was made from it. Valid until the next
 * failure. Never NULL. */
const char *client_why(const struct client *c);

/* True once some broker answered: tells "there is no broker" from what can go wrong later. */
bool client_was_connected(const struct client *c);

/* What calls return, besides what they say themselves:
 *   ERR_CLOSED         no broker can be reached, or the connection broke
 *   ERR_TIMED_OUT      no answer in time; the work may still happen
 *   ERR_UNSUPPORTED    the broker does not offer what is needed
 *   ERR_CORRUPT        the answer is not Kafka's protocol
 *   ERR_TOPIC_UNKNOWN, ERR_TOPIC_EXISTS, ERR_TOPIC_NAME_INVALID, ERR_PARTITIONS_INVALID,
 *   ERR_REPLICATION_INVALID, ERR_CONFIG_INVALID, ERR_OUT_OF_RANGE, ERR_TOO_LARGE, ERR_NOT_LEADER
 *                      the broker's own answer, as far as it has a name here
 *   ERR_FAILED         any other error code of the protocol; client_why has its name
 *   ERR_BUSY           no memory */

/* ---- the cluster ---- */

struct client_broker {
    int32_t id;
    struct slice host;
    int32_t port;
    struct slice rack; /* Null if it has none. */
};

struct client_partition {
    int32_t partition;
    int32_t leader_id; /* -1: none now. */
    int32_t leader_epoch;
    const int32_t *replicas;
    size_t replicas_count;
    const int32_t *isr;
    size_t isr_count;
};

struct client_topic_info {
    struct slice name;
    struct uuid id; /* Zero from brokers without topic ids. */
    bool is_internal;
    enum err err;                        /* Of this topic: ERR_TOPIC_UNKNOWN, ... */
    struct client_partition *partitions; /* Ascending. */
    size_t partitions_count;
};

struct client_cluster {
    struct slice id; /* Null from old brokers. */
    int32_t controller_id;
    struct client_broker *brokers;
    size_t brokers_count;
    struct client_topic_info *topics; /* As asked for; all, by name, if all were asked for. */
    size_t topics_count;
};

/* The cluster as some broker sees it now. names NULL: with all topics; else with these. Topics are
 * never created by asking. Freed by client_cluster_free. */
enum err client_describe(struct client *c,
                         const char *const *names,
                         size_t names_count,
                         struct client_cluster **ret_cluster);
/* Says in client_why what is wrong with a topic of the description; returns its err. */
enum err client_topic_why(struct client *c, const struct client_topic_info *topic);
/* Accepts NULL. */
void client_cluster_free(struct client_cluster *cluster);

/* ---- topics ---- */

struct client_config {
    const char *name;
    const char *value;
};

struct client_new_topic {
    const char *name;
    int32_t partitions_count;   /* -1: the broker's default. */
    int16_t replication_factor; /* -1: the broker's default. */
    const struct client_config *configs;
    size_t configs_count;
};

struct client_topic_result {
    enum err err;
    char why[CLIENT_WHY_SIZE]; /* Set unless err is ERR_OK. */
};

/* Each topic succeeds or fails by itself; ret_results has a place for each. Returns ERR_OK once the
 * broker answered, whatever the results say. */
enum err client_create_topics(struct client *c,
                              const struct client_new_topic *topics,
                              size_t topics_count,
                              struct client_topic_result *ret_results);
enum err client_delete_topics(struct client *c,
                              const char *const *names,
                              size_t names_count,
                              struct client_topic_result *ret_results);

/* Gives a topic more partitions: partitions_count is what it then has. Records stay where they are,
 * but a key may go to another partition from then on. As above: ERR_OK once the broker answered. */
enum err client_create_partitions(struct client *c,
                                  const char *topic,
                                  int32_t partitions_count,
                                  struct client_topic_result *ret_result);

/* Sets options of a topic, and takes those back to their defaults whose value is NULL: all, or none
 * of them. The other options stay as they are. As above: ERR_OK once the broker answered. */
enum err client_alter_topic_configs(struct client *c,
                                    const char *topic,
                                    const struct client_config *changes,
                                    size_t changes_count,
                                    struct client_topic_result *ret_result);

enum client_config_source {
    CLIENT_CONFIG_TOPIC = 1,          /* Set for this topic. */
    CLIENT_CONFIG_BROKER = 2,         /* Set at run time for one broker. */
    CLIENT_CONFIG_BROKER_DEFAULT = 3, /* Set at run time for all brokers. */
    CLIENT_CONFIG_BROKER_STATIC = 4,  /* In the broker's configuration. */
    CLIENT_CONFIG_DEFAULT = 5,
};

struct client_config_entry {
    struct slice name;
    struct slice value; /* Null if it is a secret, or has none. */
    int8_t source;      /* enum client_config_source, or another that the broker knows. */
};

struct client_configs {
    struct client_config_entry *entries; /* In the broker's order. */
    size_t entries_count;
};

/* The options of a topic as they are in force. Its slices are valid until the client's next call;
 * freed by client_configs_free. ERR_TOPIC_UNKNOWN. */
enum err
client_describe_topic_configs(struct client *c, const char *topic, struct client_configs **ret);
/* Accepts NULL. */
void client_configs_free(struct client_configs *configs);

/* Returns when each partition of the topic has a leader; ERR_TIMED_OUT when not within timeout_ms.
 */
enum err client_wait_for_leaders(struct client *c, const char *topic, uint32_t timeout_ms);

/* ---- offsets ---- */

enum {
    CLIENT_OFFSET_END = -1,   /* As a timestamp: behind the last record. */
    CLIENT_OFFSET_START = -2, /* The first record that is there. */
};

struct client_offset {
    int32_t partition;
    int64_t timestamp; /* ms, or one of the above. In. */
    int64_t offset;    /* Of the first record at or after timestamp; -1: there is none. Out. */
};

/* Fills offset of all, or of none. */
enum err client_find_offsets(struct client *c,
                             const char *topic,
                             struct client_offset *offsets,
                             size_t offsets_count);

struct client_deletion {
    int32_t partition;
    int64_t before; /* Records below this offset go; CLIENT_OFFSET_END: all that are there. In. */
    int64_t start;  /* The first record that is left; -1: not known to be done. Out. */
};

/* Deletes records for good, from the start of each partition on. Each partition succeeds or fails
 * by itself: after an error start tells which did. ERR_OUT_OF_RANGE  before is behind the last
 * record ERR_POLICY        the topic is compacted, and not deleted from */
enum err client_delete_records(struct client *c,
                               const char *topic,
                               struct client_deletion *deletions,
                               size_t deletions_count);

/* ---- records ---- */

struct client_header {
    struct slice key;   /* Not null. */
    struct slice value; /* Null allowed. */
};

enum client_codec {
    CLIENT_CODEC_NONE,
    CLIENT_CODEC_GZIP,
    CLIENT_CODEC_SNAPPY,
    CLIENT_CODEC_LZ4,
    CLIENT_CODEC_ZSTD,
};

/* ---- producer: writes to one topic ---- */

struct client_producer;

enum client_acks {
    CLIENT_ACKS_ALL, /* Durable on a majority. The default. */
    CLIENT_ACKS_LEADER,
    CLIENT_ACKS_NONE, /* Nobody answers: losses go unseen. */
};

struct client_producer_options {
    enum client_acks acks;
    enum client_codec codec;
    bool is_idempotent;  /* No record twice, whatever is retried; needs acks all. */
    uint32_t batch_size; /* A batch this large is sent. 0: 256 KiB. */
    uint32_t linger_ms;  /* A batch this old is sent by the next send or poll. 0: at once. */
    uint32_t delivery_timeout_ms; /* How long retriable errors are retried. 0: 120000. */
};

struct client_message {
    int32_t partition;  /* -1: by the key's murmur2 hash, without a key one after the other. */
    int64_t timestamp;  /* 0: now, unless has_timestamp. */
    bool has_timestamp; /* 0 is 1970 and -1 none: for copies of records that have these. */
    struct slice key;   /* Null allowed. */
    struct slice value; /* Null allowed. */
    const struct client_header *headers;
    size_t headers_count;
};

/* What became of the records so far. */
struct client_producer_stats {
    uint64_t acked_count; /* Records that were acknowledged (or sent, without acks). */
    uint64_t failed_count;
    uint64_t batches_count; /* Acknowledged. */
    uint64_t retries_count;
};

/* options NULL: all defaults. Asks for the topic's partitions: ERR_TOPIC_UNKNOWN if it is not
 * there. */
enum err client_producer_new(struct client *c,
                             const char *topic,
                             const struct client_producer_options *options,
                             struct client_producer **ret_producer);
/* Drops what was not flushed. Accepts NULL. */
void client_producer_free(struct client_producer *p);

/* Takes a record. Batches that are full or old are sent and waited for. An error is about any
 * records taken so far: those of the batch that failed are dropped and counted, the others stay.
 *   ERR_TOO_LARGE  this record alone is larger than a batch may be; it was not taken
 *   ERR_INVALID    no such partition; it was not taken */
enum err client_producer_send(struct client_producer *p, const struct client_message *message);

/* Sends batches that are older than linger_ms. */
enum err client_producer_poll(struct client_producer *p);

/* Sends everything and waits for it. */
enum err client_producer_flush(struct client_producer *p);

void client_producer_stats(const struct client_producer *p,
                           struct client_producer_stats *ret_stats);
int32_t client_producer_partitions_count(const struct client_producer *p);

/* ---- consumer: reads partitions of one topic ---- */

struct client_consumer;

struct client_consumer_options {
    uint32_t fetch_size_max;     /* Of one answer. 0: 16 MiB. A larger batch still comes whole. */
    uint32_t partition_size_max; /* Per partition of one answer. 0: 1 MiB. */
    bool is_read_committed;      /* Skip aborted transactions and open ones. */
};

struct client_record {
    int32_t partition;
    int64_t offset;
    int64_t timestamp;
    bool is_log_append_time; /* timestamp is the broker's, not the producer's. */
    struct slice key;        /* Null if it has none. */
    struct slice value;      /* Null: a tombstone. */
    const struct client_header *headers;
    size_t headers_count;
};

/* options NULL: all defaults. ERR_TOPIC_UNKNOWN if it is not there. */
enum err client_consumer_new(struct client *c,
                             const char *topic,
                             const struct client_consumer_options *options,
                             struct client_consumer **ret_consumer);
/* Accepts NULL. */
void client_consumer_free(struct client_consumer *s);

int32_t client_consumer_partitions_count(const struct client_consumer *s);

/* Reads the partition from offset on. ERR_INVALID if it is assigned already or not there. */
enum err client_consumer_assign(struct client_consumer *s, int32_t partition, int64_t offset);

/* The next record of any assigned partition; in order within each. *ret_record points into the
 * consumer and is valid until its next call.
 *   ERR_TIMED_OUT     nothing came within timeout_ms; ask again
 *   ERR_OUT_OF_RANGE  the position is not, or no longer, in the log */
enum err client_consumer_next(struct client_consumer *s,
                              uint32_t timeout_ms,
                              struct client_record *ret_record);

/* Offset of the next record that is handed out, or where reading goes on if there is none; -1 if
 * the partition is not assigned. */
int64_t client_consumer_position(const struct client_consumer *s, int32_t partition);

/* True if every assigned partition was read up to the end that its last answer told. */
bool client_consumer_is_at_end(const struct client_consumer *s);

/* True if the next record is here already: client_consumer_next would not wait. */
bool client_consumer_has_buffered(const struct client_consumer *s);
