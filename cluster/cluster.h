/* One shard's door to everything partitioned: partition operations and controller requests, by
 * message to the owning shard and home again. Callers need not know where a partition lives, nor
 * whether that is their own shard.
 *
 * Life of an operation: the caller embeds a struct partition_op (or controller_request), fills it,
 * submits it, and gets on_done on its own shard, never inside submit, exactly once. Memory that the
 * operation points at must stay valid until then.
 *
 * Shard: every shard of a broker has one struct cluster; all calls on the shard that owns it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/config_change.h"
#include "cluster/metadata.h"
#include "cluster/topic_configs.h"
#include "cluster/topic_name.h"
#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/xmsg.h"
#include "storage/batch.h"
#include "storage/log.h"
#include "storage/producer_state.h"

struct cluster;
struct cluster_set; /* The clusters of all shards of one broker. */
struct shard;

/* ---- partition operations ---- */

enum {
    /* PARTITION_FIND_TIME with this timestamp: the record with the largest one (ListOffsets -3). */
    PARTITION_TIMESTAMP_MAX = -3,
};

enum partition_op_kind {
    PARTITION_PRODUCE,        /* batch -> base_offset ... */
    PARTITION_OFFSETS,        /* -> state of the partition only */
    PARTITION_PEEK,           /* offset, size_max -> readable size, state */
    PARTITION_WAIT,           /* high watermark -> done when it has moved past it, or cancelled */
    PARTITION_READ,           /* offset, dst, dst_size -> bytes */
    PARTITION_FIND_TIME,      /* timestamp -> offset, timestamp, epoch */
    PARTITION_TERM_END,       /* leader epoch -> its end offset (KIP-320) */
    PARTITION_SIZE,           /* -> bytes on disk */
    PARTITION_PRODUCERS,      /* -> who produced idempotently */
    PARTITION_DELETE_RECORDS, /* offset -> the log starts there, committed; offsets say where */
};

enum {
    /* PARTITION_DELETE_RECORDS up to the high watermark. */
    PARTITION_DELETE_TO_END = -1,
};

/* Where a partition stands. -1 where unknown. */
struct partition_offsets {
    int64_t log_start_offset;
    int64_t high_watermark; /* = commit */
    int64_t last_stable_offset;
    int64_t log_end_offset;
    int32_t leader_epoch;
    /* Damage hides where the log ends: records were acknowledged beyond log_end_offset, and no
     * offset above may be called out of range. */
    bool is_end_unknown;
};

struct partition_op {
    enum partition_op_kind kind;
    struct partition_id id;
    /* As the client knows it; -1 = no check. ERR_LEADER_EPOCH_FENCED if lower than the partition's,
     * ERR_LEADER_EPOCH_UNKNOWN if higher. */
    int32_t current_leader_epoch;
    void (*on_done)(struct partition_op *op);
    void *context; /* The caller's. */

    union {
        struct {
            struct slice batch; /* Exactly what the client sent for this partition. */
            int16_t acks;       /* -1, 0, 1 */
            int16_t produce_version;
            /* The broker built it, for a topic of its own: what the topic asks of clients' batches
             * (size, time, codec, records) is not asked, and it is answered when it is committed,
             * whatever the topic says. */
            bool is_own;
            /* Runs on the home shard when the bytes of batch are no longer needed, exactly once
             * and before on_done, also when the batch is refused; may be NULL. */
            void (*on_copied)(struct partition_op *op);
        } produce;
        struct {
            int64_t offset;
            size_t size_max;       /* PEEK: no need to look further. */
            uint8_t *dst;          /* READ */
            size_t dst_size;       /* READ */
            uint32_t pieces_max;   /* READ: as of struct log_read, */
            bool is_header_enough; /* and this. */
            bool is_read_committed;
        } fetch;
        struct {
            int64_t high_watermark; /* Known to the caller. */
        } wait;
        struct {
            int64_t timestamp;
            bool is_read_committed;
        } find_time;
        struct {
            int32_t leader_epoch;
        } term_end;
        struct {
            int64_t offset; /* The first that stays. */
        } delete_records;
        struct {
            struct producer_view *views; /* The owner fills them in. */
            uint32_t views_max;
        } producers;
    } in;

    /* Results, valid in on_done. */
    /* ERR_NOT_FOUND: no such partition here. ERR_FAILED: fail-stopped. ERR_CANCELLED: the broker
     * stops. PRODUCE also what batch_check_produced, producer_state_check and log_append say, but
     * never ERR_BUSY; READ and PEEK also ERR_OUT_OF_RANGE. DELETE_RECORDS ERR_OUT_OF_RANGE (not
     * below the log start: that is nothing to do), ERR_POLICY, and what log_append says. */
    enum err result;
    struct partition_offsets offsets; /* Filled whenever the partition exists. */
    union {
        struct {
            int64_t base_offset;
            int64_t append_time_ms; /* -1 unless LogAppendTime */
            struct batch_fault fault;
        } produce;
        struct {
            size_t size;         /* PEEK: readable bytes; READ: bytes of batches. */
            size_t size_needed;  /* READ with ERR_TOO_LARGE. */
            struct log_pin *pin; /* READ: as of struct log_read; to be released. */
            size_t copied_size;  /* READ: in dst. */
        } fetch;
        struct {
            int64_t offset;
            int64_t timestamp;
            int32_t leader_epoch;
        } find_time;
        struct {
            int32_t leader_epoch;
            int64_t end_offset;
        } term_end;
        struct {
            uint64_t log_size;
        } size;
        struct {
            uint32_t count; /* May be more than there was room for. */
        } producers;
    } out;

    /* Private to cluster/ while in flight. */
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct xmsg copied_msg; /* Goes home ahead of msg, for on_copied. */
    struct xmsg_hop copied_route;
    struct list link;
    bool is_copied;      /* Home: on_copied ran. */
    bool is_checked;     /* Owner: the batch obeys the topic's rules. */
    int64_t need_offset; /* Owner: parked until the high watermark reaches this. */
    uint64_t need_index; /* Owner: likewise, until the commit index reaches this. */
    uint64_t started_us; /* Owner: when it arrived, for the latency histogram. */
    void *server;        /* The owner's struct cluster, then its struct partition. */
    union {
        struct batch_header header;
        struct log_read read;
        struct log_time_query query;
    } work;
};

void cluster_partition_submit(struct cluster *c, struct partition_op *op);

/* Asks for the early end of an operation that waits: for data, for room, for its partition to open,
 * for a commit (what is appended goes on, and may still happen); its on_done still comes
 * (ERR_CANCELLED, or what it would have been if it was faster). Asking twice is harmless. cancel
 * must stay valid until that on_done AND its own on_done. */
struct partition_cancel {
    struct partition_op *target;
    void (*on_done)(struct partition_cancel *cancel);
    struct xmsg msg; /* Private, as what follows. */
    struct xmsg_hop route[2];
    struct partition_id id; /* The target's: it may be gone when this arrives. */
    void *server;
};
void cluster_partition_cancel(struct cluster *c, struct partition_cancel *cancel);

/* ---- controller requests ---- */

enum controller_request_kind {
    CONTROLLER_CREATE_TOPIC,
    CONTROLLER_DELETE_TOPIC,
    CONTROLLER_ALLOCATE_PRODUCER_ID,
    CONTROLLER_CREATE_PARTITIONS,
    CONTROLLER_ALTER_CONFIGS,
    CONTROLLER_DESCRIBE, /* Where group 0's log stands. */
};

struct controller_request {
    enum controller_request_kind kind;
    void (*on_done)(struct controller_request *r); /* The change is applied on every shard. */
    void *context;
    union {
        struct {
            struct slice name;
            int32_t partitions_count;   /* -1 = broker default */
            int16_t replication_factor; /* -1 = broker default */
            const struct config_pair *configs;
            uint32_t configs_count;
            bool is_validate_only;
        } create_topic;
        struct {
            struct uuid id; /* Zero: by name. */
            struct slice name;
        } delete_topic;
        struct {
            struct slice name;
            int32_t partitions_count;  /* All that it shall have. */
            int32_t assignments_count; /* Replica lists that came with it; -1 = none. */
            bool is_validate_only;
        } create_partitions;
        struct {
            struct slice name; /* Of what changes.kind says. */
            struct config_changes changes;
            bool is_validate_only;
        } alter_configs;
    } in;

    enum err result;
    /* For error_message; says what to do. Empty if there is none. */
    char message[TOPIC_NAME_WHY_SIZE];
    union {
        struct {
            struct uuid id;
            int32_t partitions_count;
            int16_t replication_factor;
        } create_topic;
        struct {
            int64_t producer_id;
        } allocate_producer_id;
        struct {
            uint64_t term;
            uint64_t last_index;
            uint64_t commit_index;
            struct uuid directory; /* That the log is in. */
        } describe;
    } out;

    struct xmsg msg; /* Private, as what follows. */
    struct xmsg_hop route[2];
    struct list link;
    uint64_t need_index;
    void *server;
};

/* Results beside ERR_OK: ERR_TOPIC_EXISTS, ERR_TOPIC_UNKNOWN, ERR_TOPIC_NAME_INVALID,
 * ERR_PARTITIONS_INVALID, ERR_REPLICATION_INVALID, ERR_ASSIGNMENT_INVALID, ERR_CONFIG_INVALID,
 * ERR_INVALID, ERR_BUSY and ERR_NO_SPACE (try again), ERR_CANCELLED (the broker stops), ERR_FAILED.
 */
void controller_submit(struct cluster *c, struct controller_request *r);

/* ---- life ---- */

struct cluster_settings; /* cluster/settings.h */

/* One struct cluster for each of shards_count shards; settings must outlive them. Before any shard
 * runs, or on any thread while no other uses the result. */
enum err cluster_set_new(const struct cluster_settings *settings,
                         uint16_t shards_count,
                         struct cluster_set **ret_set);
/* Never started, failed to start, or stopped. Accepts NULL. */
void cluster_set_free(struct cluster_set *set);
struct cluster *cluster_set_get(struct cluster_set *set, uint16_t shard_id);

/* Opens stores, replays group 0, makes this start's term durable, gives every shard its image and
 * opens all partitions; then on_started on shard 0, from its loop. The loops of all shards must
 * run. Called once, on shard 0. On error why is one line that says what to do, and cluster_stop
 * must still be called. */
typedef void cluster_started_fn(void *context, enum err e, const char *why);
void cluster_start(struct cluster_set *set,
                   struct shard *s,
                   void *context,
                   cluster_started_fn *on_started);

/* The first step of a stop, on the shard of c, any number of times: from now on no operation and no
 * request waits for room in a log (ERR_CANCELLED instead), and after CLUSTER_DRAIN_US none waits
 * for a flush any more, so that nobody who waits for answers waits for a disk that is full or
 * stuck. */
enum {
    CLUSTER_DRAIN_US = 2 * 1000 * 1000,
};
void cluster_quiesce(struct cluster *c);

/* Refuses new operations (ERR_CANCELLED), ends waits, lets what was appended become durable unless
 * that takes longer than cluster_quiesce says, closes all logs and stores; then on_stopped on shard
 * 0, from its loop. On shard 0, after on_started. */
typedef void cluster_stopped_fn(void *context);
void cluster_stop(struct cluster_set *set,
                  struct shard *s,
                  void *context,
                  cluster_stopped_fn *on_stopped);

/* From on_started until on_stopped. */
const struct metadata *cluster_metadata(const struct cluster *c);
/* What is in effect for a topic of that metadata, for topic_config_effective; NULL: for one without
 * values of its own. */
struct topic_config_set cluster_topic_configs(const struct cluster *c, const struct topic *t);

/* A number of the broker's own: as it was altered for this broker or for all; otherwise if nobody
 * did. The name is one of config_specs.h. */
int64_t cluster_broker_number(const struct cluster *c, const char *name, int64_t otherwise);

/* The data directories of this node, as this shard sees them. */
struct cluster_log_dir {
    struct uuid id;
    const char *path; /* Valid as long as the settings. */
    bool is_failed;
    int64_t total_size;  /* Of its file system, as this one. */
    int64_t usable_size; /* That records may still take. -1 = not known, also of failed ones. */
};
enum {
    CLUSTER_LOG_DIRS_MAX = 64,
};
/* From on_started until on_stopped; returns how many there are. Asks the file systems. */
uint32_t cluster_log_dirs(struct cluster *c, struct cluster_log_dir ret[CLUSTER_LOG_DIRS_MAX]);
/* Whether partitions in it can be served: it has not failed, and is not lost. */
bool cluster_serves_directory(const struct cluster *c, const struct uuid *id);

/* What an operator has to do something about. Asks the file system. */
struct cluster_problem {
    /* "disk_full", "data_dir_failed", "data_dir_lost", "controller_failed", "partition_failed",
     * "partition_damaged", "partitions_failed" */
    const char *code;
    const char *subject; /* Which one; valid until the next call. */
    const char *action;
};
enum {
    CLUSTER_PROBLEMS_MAX = 64,
};
/* Of shard 0, between on_started and cluster_stop. Returns how many there are. */
uint32_t cluster_problems(struct cluster *c, struct cluster_problem ret[CLUSTER_PROBLEMS_MAX]);

/* All invariants of a shard's cluster; for tests and the simulator. At any time, on its shard. */
void cluster_check(struct cluster *c);
