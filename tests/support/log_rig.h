/* One log with its store and flusher on a simulated disk, and a naive model of what it should hold:
 * an array of entries. The disk outlives the rig's shard, so that a test can crash and go on.
 */
#pragma once

#include "core/disk_sim.h"
#include "storage/batch.h"
#include "storage/compaction.h"
#include "storage/flusher.h"
#include "storage/log.h"
#include "storage/log_shared.h"
#include "storage/store.h"

#include "tests/support/sim_shard.h"

struct rig_entry {
    enum entry_type type;
    uint64_t index;
    uint64_t term;
    int64_t base_offset;
    int64_t next_offset;
    int64_t max_timestamp;
    uint8_t *payload;
    size_t payload_size;
};

struct log_rig {
    struct disk_sim *disk;
    struct sim_shard ss;
    struct flusher *flusher;
    struct store *store;
    struct log_shared *shared;
    struct log_env env;
    struct log *log;

    /* Set before log_rig_start. */
    struct log_options options;
    struct log_shared_options shared_options;
    enum space_tier tier;
    bool is_replay_strict;
    bool is_all_read;
    bool accepts_loss;
    size_t
        state_size_max;  /* The owner's state in checkpoints is padded to a random size up to it. */
    bool has_recycling;  /* Files that leave the log go to the recycle directory. */
    bool has_compaction; /* As compaction says. */
    struct compaction_config compaction;
    bool (*is_last_of_producer)(void *context, const struct batch_header *h);
    struct log_callbacks callbacks;
    bool has_decoy;
    uint64_t seed;

    /* Another writer on the same disk, first in every flush round: the shared flush then is one of
     * its file and covers the log's only as far as it should. */
    struct {
        struct flush_client client;
        struct io_op op;
        struct buf *block;
        int fd;
    } decoy;

    /* What the log called back. */
    bool is_store_opened;
    bool is_opened;
    bool is_closed;
    enum err store_result;
    enum err open_result;
    enum err delete_result;
    enum err failure; /* on_failed */
    uint64_t flushed_index;
    uint32_t rooms_count;
    uint64_t restored_index;    /* Of the checkpoint that on_restore got; 0 = none. */
    struct rig_entry *replayed; /* What came behind it. */
    size_t replayed_count;
    size_t replayed_capacity;

    /* The model: what was appended and not cut. */
    struct rig_entry *model;
    size_t model_count;
    size_t model_capacity;
    uint64_t acked_index; /* Highest index that on_flushed reported, over all lives. */
    uint64_t term;
};

/* Options that make segments, fills and index points happen within a few KiB. */
extern const struct log_options RIG_OPTIONS_TINY;

void log_rig_init(struct log_rig *rig, uint64_t seed);
void log_rig_done(struct log_rig *rig);

/* A new life: shard, flusher, store and, with log_rig_open, the log. The results of opening. */
void log_rig_start(struct log_rig *rig);
enum err log_rig_open(struct log_rig *rig);
/* Only begins; for crashes while opening. */
void log_rig_open_begin(struct log_rig *rig);
/* Closes log, store and shard in order. */
void log_rig_stop(struct log_rig *rig);
/* Power loss or death (how; NULL = as drawn). Memory of the life is leaked, as it is in life. */
void log_rig_crash(struct log_rig *rig, const struct disk_sim_crash *how);

/* Appends a batch of records of value_size bytes, or an entry that is no batch (ENTRY_NOOP...).
 * Into the model if it was taken. */
enum err log_rig_append(struct log_rig *rig, uint32_t records_count, size_t value_size, int64_t ts);
/* A batch with a record of each of the timestamps. */
struct rig_batch {
    const int64_t *timestamps;
    uint32_t records_count;
    size_t value_size;
    enum batch_codec codec;
};
enum err log_rig_append_batch(struct log_rig *rig, const struct rig_batch *batch);
/* A batch that is given. */
enum err log_rig_append_bytes(struct log_rig *rig, struct slice batch);
enum err log_rig_append_other(struct log_rig *rig, enum entry_type type, size_t size);
/* Until everything appended is flushed, or the log failed. */
void log_rig_flush(struct log_rig *rig);
/* Steps until nothing but far-away timers are left: everything persisted. */
void log_rig_settle(struct log_rig *rig);
enum err log_rig_cut(struct log_rig *rig, uint64_t index);
/* All that is flushed is committed, and the log starts at offset. */
void log_rig_set_start(struct log_rig *rig, int64_t offset);
/* Deletes the log; delete_result says how it went. */
void log_rig_delete(struct log_rig *rig);
/* How many values of the log the store has: votes, cuts, segments and D. */
size_t log_rig_store_count(const struct log_rig *rig);
/* Reads into dst; *ret_size. */
enum err log_rig_read(struct log_rig *rig,
                      int64_t offset,
                      int64_t end_offset,
                      uint8_t *dst,
                      size_t dst_size,
                      size_t *ret_size);
/* Forgets entries of the model at or above index. */
void log_rig_model_cut(struct log_rig *rig, uint64_t index);

/* Criterion assertions. The log holds the model's first entries, at least all acknowledged ones,
 * but for those before its first segment; the model is then cut to what is there. */
void log_rig_expect_recovered(struct log_rig *rig);
/* Reading everything from the log start to its end, in pieces of piece_size, gives the model's
 * bytes. */
void log_rig_expect_readable(struct log_rig *rig, size_t piece_size);

struct partition_id log_rig_id(void);
/* "<dir>/logs/<id>-0/<base><suffix>" into path. */
void log_rig_path(uint64_t base_index, const char *suffix, char path[256]);
