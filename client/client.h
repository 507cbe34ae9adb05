/* A client of any broker that speaks the Kafka protocol: admin calls, a producer, a consumer by
 * assignment. This header is all that a program needs.
 *
 *     struct client *c;
 *     char why[CLIENT_WHY_SIZE];
 *     if (client_new(&(struct client_options){.brokers = "127.0.0.1:9092"}, why, &c) != ERR_OK) ...
 *     struct client_producer *p;
 *     if (client_producer_new(c, "orders", NULL, &p) != ERR_OK) { puts(client_why(c)); ... }
 *     e = client_producer_send(p, &(struct client_message){.partition = -1, .value = value});
 *     e = client_producer_flush(p, 10000);
 *
 * Threads
 * 1. A client has one thread of its own, which owns all connections. It lives from client_new to
 *    client_free, and takes no signals.
 * 2. Any thread may call any function of a client and of its producers at any time, but for the
 *    _free functions: those are last. A consumer's functions are for one thread at a time.
 * 3. Callbacks are called on the client's thread, one at a time. They may send (which then never
 *    waits: a full buffer is ERR_BUSY), and must not call what waits: that is ERR_INVALID. While
 * one runs nothing else of the client goes on.
 *
 * Rules of use
 * 4. Calls that wait do so never for longer than the timeouts of client_options and of their own.
 * 5. A call that fails leaves one line for people in client_why: what happened, with whom, and what
 *    to do where that is known. Its ret_ parameters are untouched.
 * 6. Everything passed in is copied; everything handed out says how long it is valid.
 * 7. Producers and consumers are freed before their client.
 * 8. Units stand in the names: _ms, _us, _size (bytes), _count. Times of records are milliseconds
 *    since 1970. In options 0 means the default.
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
    size_t buffer_size;    /* Of records sent and not settled, of all producers. 0: 32 MiB. */
};

/* Starts the thread; connects to nobody yet. ERR_INVALID with why for a bad list of brokers,
 * ERR_BUSY without memory or a thread. */
enum err client_new(const struct client_options *options,
                    char ret_why[CLIENT_WHY_SIZE],
                    struct client **ret_client);
/* Ends the thread and closes the connections. Accepts NULL. */
void client_free(struct client *c);

/* About the calling thread's latest call that failed, of the client or what was made from it. Valid
 * until that thread's next failure. Never NULL. */
const char *client_why(const struct client *c);

/* True once some broker answered: tells "there is no broker" from what can go wrong later. */
bool client_was_connected(struct client *c);

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

/* What has options that can be changed while the cluster runs. */
enum client_resource_kind {
    CLIENT_RESOURCE_TOPIC = 2,
    CLIENT_RESOURCE_BROKER = 4,
    CLIENT_RESOURCE_GROUP = 32,
};

struct client_resource {
    enum client_resource_kind kind;
    const char *name; /* Of a broker its id, or "" for all brokers. */
};

/* Sets options of a resource, and takes those back to their defaults whose value is NULL: all, or
 * none of them. The other options stay as they are. As above: ERR_OK once the broker answered. */
enum err client_alter_configs(struct client *c,
                              const struct client_resource *resource,
                              const struct client_config *changes,
                              size_t changes_count,
                              struct client_topic_result *ret_result);
/* The same for a topic. */
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
    CLIENT_CONFIG_GROUP = 8, /* Set for this group. */
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

/* The options of a resource as they are in force; of all brokers (""), those that are set for all.
 * Freed by client_configs_free, with all its slices. ERR_TOPIC_UNKNOWN. */
enum err client_describe_configs(struct client *c,
                                 const struct client_resource *resource,
                                 struct client_configs **ret);
/* The same for a topic. */
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
    /* Out; offset is not touched unless it is ERR_OK:
     *   ERR_FAILED      the leader's disk fails, or damage hides the offset
     *   ERR_CORRUPT     damage stands where the record is
     *   ERR_NOT_LEADER  no leader answers */
    enum err err;
};

/* Each partition is answered or refused by itself: one that is damaged hides no other. Returns the
 * first err. */
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
 * by itself: after an error start tells which did.
 *   ERR_OUT_OF_RANGE  before is behind the last record
 *   ERR_POLICY        the topic is compacted, and not deleted from */
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

struct client_message {
    int32_t partition;  /* -1: the partitioner chooses. */
    int64_t timestamp;  /* 0: now, unless has_timestamp. */
    bool has_timestamp; /* 0 is 1970 and -1 none: for copies of records that have these. */
    struct slice key;   /* Null allowed. */
    struct slice value; /* Null allowed. */
    const struct client_header *headers;
    size_t headers_count;
    void *opaque; /* Comes back with the delivery. */
};

enum client_partitioner {
    CLIENT_PARTITIONER_DEFAULT,     /* By the key's murmur2 hash, as Kafka's Java client. Without a
                                       key a batch in each partition in turn. */
    CLIENT_PARTITIONER_ROUND_ROBIN, /* A record in each partition in turn, whatever its key. */
    CLIENT_PARTITIONER_CUSTOM,      /* partition_of. */
};

/* What became of one record. Its slices and texts are valid during the callback. */
struct client_delivery {
    enum err err;
    const char *why; /* "" unless err says so. */
    int32_t partition;
    int32_t records_count; /* 1; of client_producer_send_batch all of the batch. */
    int64_t offset;        /* -1: not told (no acks, or a repetition of one that was written). */
    int64_t timestamp;     /* As written: the broker's, if the topic has it so. */
    void *opaque;
};

/* Order and repetition
 *
 * With is_idempotent each record is written once, in the order of the sends within its partition,
 * as long as the producer lives. A record that failed with ERR_SEQUENCE_OUT_OF_ORDER, or whose time
 * was over, may have been written or not; the others go on.
 *
 * Without it records are written at least once. With in_flight_max 1, the default, in the order of
 * the sends, but for repetitions; with more, a batch that is tried again may come behind those that
 * were sent after it. */
struct client_producer_options {
    enum client_acks acks;
    enum client_codec codec;
    bool is_idempotent;     /* Needs acks all. */
    uint32_t in_flight_max; /* Batches of a partition without an answer. 0: 5 if is_idempotent
                               (which is also the most it allows), else 1. */
    uint32_t batch_size;    /* A batch this large is sent. 0: 256 KiB. */
    uint32_t linger_ms;     /* A batch this old is sent. 0: at once, as fast as answers come. */
    uint32_t delivery_timeout_ms; /* From the send to the end of all retries. 0: 120000. */
    int32_t max_block_ms; /* How long a send waits for room in the client's buffer. 0: 60000; -1: it
                             does not wait. */
    enum client_partitioner partitioner;
    /* May be called on any thread that sends, with the client locked: must not call it. */
    int32_t (*partition_of)(const struct client_message *m,
                            int32_t partitions_count,
                            void *context);
    /* Called once for each record that was taken; of those that were written in order within a
     * partition. Optional. */
    void (*on_delivery)(const struct client_delivery *delivery, void *context);
    void *context; /* For both. */
};

/* What became of the records so far. */
struct client_producer_stats {
    uint64_t sent_count;  /* Records that were taken. */
    uint64_t acked_count; /* Of these acknowledged (or sent, without acks). */
    uint64_t failed_count;
    uint64_t batches_count; /* Acknowledged. */
    uint64_t retries_count; /* Of batches. */
    uint64_t splits_count;  /* Batches that were too large for the topic and went in halves. */
};

/* options NULL: all defaults. Asks for the topic's partitions: ERR_TOPIC_UNKNOWN if it is not
 * there, ERR_INVALID for options that do not go together. Partitions that the topic gets later are
 * used within minutes, or after the first error. */
enum err client_producer_new(struct client *c,
                             const char *topic,
                             const struct client_producer_options *options,
                             struct client_producer **ret_producer);
/* What was not acknowledged is dropped, and told as ERR_CANCELLED; to have it written flush first.
 * Not in a callback. Accepts NULL. */
void client_producer_free(struct client_producer *p);

/* Takes a record, and returns before it was sent. What becomes of it on_delivery tells; without
 * that, the first failure is told by the next send or flush.
 *   ERR_BUSY       no room in the buffer within max_block_ms; the record was not taken
 *   ERR_TOO_LARGE  larger than the buffer, or than a batch may be; not taken
 *   ERR_INVALID    no such partition; not taken
 *   ERR_CANCELLED  in a callback, while the producer is freed; not taken
 *   others         only without on_delivery: a record from before failed; this one was not taken */
enum err client_producer_send(struct client_producer *p, const struct client_message *message);

/* A record batch (magic 2) that is encoded already. */
struct client_encoded_batch {
    int32_t partition; /* -1: as for records without a key. */
    struct slice bytes;
    void *opaque; /* Comes back with the delivery. */
};

/* Takes a whole batch, which goes out as it is, by itself, but for its base offset and the
 * producer's identity: for who sends the same records again and again, or copies them. Told by one
 * delivery, of all its records. As client_producer_send, and also:
 *   ERR_INVALID  bytes are not exactly one batch; its CRC is the broker's to check */
enum err client_producer_send_batch(struct client_producer *p,
                                    const struct client_encoded_batch *batch);

/* Sends everything that was taken before, without lingering, and waits for it. Returns the first
 * failure that was not told by a send; ERR_TIMED_OUT if there are no answers within timeout_ms. */
enum err client_producer_flush(struct client_producer *p, uint32_t timeout_ms);

void client_producer_stats(struct client_producer *p, struct client_producer_stats *ret_stats);
int32_t client_producer_partitions_count(struct client_producer *p);

/* ---- consumer: reads partitions of one topic ---- */

struct client_consumer;

enum client_reset {
    CLIENT_RESET_NONE,  /* ERR_OUT_OF_RANGE, and the partition waits for a seek. */
    CLIENT_RESET_START, /* Goes on at the first record that is there. */
    CLIENT_RESET_END,   /* Goes on behind the last record. */
    CLIENT_RESET_AGO,   /* Goes on at the first record that is reset_ago_ms old or younger. */
};

struct client_consumer_options {
    uint32_t fetch_size_max;     /* Of one answer. 0: 16 MiB. A larger batch still comes whole. */
    uint32_t partition_size_max; /* Per partition of one answer, and read ahead. 0: 1 MiB. */
    size_t buffer_size;          /* Answers that are kept; nothing is asked above. 0: 64 MiB. */
    enum client_reset reset;     /* For a position that is not, or no longer, in the log. */
    int64_t reset_ago_ms;        /* For CLIENT_RESET_AGO. */
    bool is_read_committed;      /* Skip aborted transactions and open ones. */
};

struct client_record {
    const char *topic;
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

int32_t client_consumer_partitions_count(struct client_consumer *s);

/* Reads the partition from offset on, or from CLIENT_OFFSET_START or CLIENT_OFFSET_END. Fetching
 * begins with the next poll, for all that was assigned before. ERR_INVALID if it is assigned
 * already or not there. */
enum err client_consumer_assign(struct client_consumer *s, int32_t partition, int64_t offset);
/* From the first record at or after this time on; if there is none, from the end. */
enum err client_consumer_assign_time(struct client_consumer *s, int32_t partition, int64_t time_ms);
/* The functions below return ERR_INVALID for a partition that is not assigned. */
enum err client_consumer_unassign(struct client_consumer *s, int32_t partition);

/* Goes on at offset, as with assign; what was read ahead is dropped. */
enum err client_consumer_seek(struct client_consumer *s, int32_t partition, int64_t offset);
/* No records of the partition, and no fetches, until it is resumed. */
enum err client_consumer_pause(struct client_consumer *s, int32_t partition);
enum err client_consumer_resume(struct client_consumer *s, int32_t partition);

/* Offset of the next record that is handed out, or where reading goes on if there is none; -1 if
 * the partition is not assigned, or where it starts is not known yet. */
int64_t client_consumer_position(struct client_consumer *s, int32_t partition);
/* Behind the last record that may be read, as the leader told last; -1: it did not yet. */
int64_t client_consumer_end(struct client_consumer *s, int32_t partition);

/* Records of one assigned partition, those of each in order; the partitions take turns. They point
 * into the consumer and are valid until its next call. Ends early when all that is assigned has
 * been read up to the end meanwhile.
 *   ERR_TIMED_OUT     nothing came within timeout_ms; ask again
 *   ERR_BUSY          no memory; ask again: nothing is passed over
 *   ERR_OUT_OF_RANGE  the position is not, or no longer, in the log (and reset does not say where
 *                     to go on)
 *   ERR_CORRUPT       a batch fails its checks
 *   others            no answer that helps for 30 s: told again and again, and asked meanwhile
 * An error is about one partition, client_consumer_failed_partition; the others go on. After
 * ERR_OUT_OF_RANGE and ERR_CORRUPT nothing more comes from it until client_consumer_seek. */
enum err client_consumer_poll(struct client_consumer *s,
                              uint32_t timeout_ms,
                              const struct client_record **ret_records,
                              size_t *ret_count);
/* The same, one record at a time. */
enum err client_consumer_next(struct client_consumer *s,
                              uint32_t timeout_ms,
                              struct client_record *ret_record);

/* -1: the latest error was about none. */
int32_t client_consumer_failed_partition(const struct client_consumer *s);

/* True if every assigned partition that is not paused was read up to the end that its last answer
 * told. */
bool client_consumer_is_at_end(struct client_consumer *s);

/* True if the next record is here already: client_consumer_next would not wait. */
bool client_consumer_has_buffered(struct client_consumer *s);
