/* The inside of a partition, for the files it is split into: partition.c (life, commit),
 * partition_produce.c, partition_fetch.c, partition_start.c.
 */
#pragma once

#include "cluster/partition.h"
#include "cluster/recoder.h"
#include "core/shard.h"

enum partition_state {
    PARTITION_OPENING,
    PARTITION_SERVING,
    PARTITION_FAILED, /* Its log could not be opened, or a write failed. */
    PARTITION_CLOSING,
    PARTITION_DELETING,
};

/* The batch of an operation, in the recoder's hands. */
struct partition_recoding {
    struct recode_job job;
    struct partition *p;
    const struct partition_op *op;
};

/* A metric of one partition. */
struct partition_size_stat {
    struct stat stat;
    uint64_t value;
    char labels[TOPIC_NAME_SIZE_MAX + 40];
};

/* Appended, not yet committed: the log will start at offset. */
struct log_start_move {
    uint64_t index;
    int64_t offset;
};

struct partition {
    const struct partition_env *env;
    const struct log_env *log_env; /* NULL: its data directory has failed, or is lost. */
    struct partition_id id;
    char *name;
    struct topic_settings settings;
    enum partition_state state;
    struct log *log; /* NULL when it could not be opened. */
    struct list link;

    struct commit_rule commit_rule;
    uint64_t commit_index;
    int64_t high_watermark;

    struct producer_state *producers; /* NULL until there is one. */
    uint64_t producers_expire_us;     /* When to look for expired ones next. */

    struct list early;   /* partition_op: came while opening. */
    struct list backlog; /* partition_op: what waits for room, or for the recoder. */
    struct list parked;  /* partition_op: produce, done once the high watermark is need_offset. */
    struct list waits;   /* partition_op: PARTITION_WAIT. */
    struct list start_waits;      /* partition_op: done once the commit index reaches need_index. */
    struct log_start_move *moves; /* By index; NULL: none. */
    uint32_t moves_count;
    uint32_t moves_capacity;
    uint64_t rolls_count; /* Of the log, when retention was last looked at for it. */
    uint32_t reads_count; /* Log reads and time queries in flight. */

    struct partition_recoding *recoding; /* Of the head of the backlog; NULL = none. */
    /* coreflume.ack=memory: all records below unflushed_offset that are not flushed were appended
     * at unflushed_us or, at most by the time of a flush, before. */
    int64_t unflushed_offset;
    uint64_t unflushed_us;

    struct task task;     /* Ends an open or a life that has no log to wait for. */
    enum err open_error;  /* For the task. */
    bool is_ending;       /* log_close or log_delete has begun. */
    bool is_failure_told; /* partition_tell_trouble, once each. */
    bool is_damage_told;
    struct partition_size_stat *size_stat;

    void *open_context;
    void (*on_opened)(void *context, struct partition *p, enum err e);
    void *end_context;
    void (*on_closed)(void *context, struct partition *p);
    void (*on_deleted)(void *context, struct partition *p, enum err e);
};

int32_t partition_leader_epoch(const struct partition *p);
void partition_finish(struct partition *p, struct partition_op *op, enum err e);
/* Once for a failure and once for damage: what a whole directory suffers is told of that. */
void partition_tell_trouble(struct partition *p, bool is_failed);
/* Parks a produce until the high watermark reaches op->need_offset; at once if it has. */
void partition_park(struct partition *p, struct partition_op *op);
/* A read ended: a close may be waiting for it. */
void partition_read_ended(struct partition *p);

/* partition_produce.c */
void partition_produce(struct partition *p, struct partition_op *op);
void partition_produce_committed(struct partition *p, struct partition_op *op);
void partition_drain_backlog(struct partition *p);
/* The backlog is about to be ended. */
void partition_drop_recoding(struct partition *p);
/* The high watermark moved: what is not flushed is younger from now on. */
void partition_note_flush(struct partition *p);
enum err partition_replay(struct partition *p, const struct log_entry *entry);
/* For checkpoints of the log; see struct log_callbacks. */
void partition_encode_state(const struct partition *p, struct wbuf *out);
enum err partition_restore_state(struct partition *p, struct slice state, uint64_t index);

/* Appends what op asks for, in order with those that wait for room in the log. */
void partition_append(struct partition *p, struct partition_op *op);

/* partition_start.c */
/* False: the log has no room; nothing changed. */
bool partition_try_delete_records(struct partition *p, struct partition_op *op);
enum err partition_start_replay(struct partition *p, const struct log_entry *entry);
/* What the entries up to index said, of a checkpoint. */
void partition_start_restore(struct partition *p, int64_t offset, uint64_t index);
/* Where the log will start once all that is proposed is committed. */
int64_t partition_proposed_start(const struct partition *p);
/* The commit index moved. */
void partition_start_committed(struct partition *p);

/* partition_fetch.c */
void partition_peek(struct partition *p, struct partition_op *op);
void partition_read(struct partition *p, struct partition_op *op);
void partition_wait(struct partition *p, struct partition_op *op);
void partition_find_time(struct partition *p, struct partition_op *op);
void partition_term_end(struct partition *p, struct partition_op *op);
void partition_producers(struct partition *p, struct partition_op *op);
