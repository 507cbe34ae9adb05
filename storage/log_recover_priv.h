/* The inside of recovery: log_recover.c reads records and the directory, redoes a cut, flushes and
 * opens; log_recover_scan.c walks the entries and decides at the first bad one.
 */
#pragma once

#include "storage/log_priv.h"
#include "storage/whole_file.h"

enum recovery_state {
    RECOVERY_START,
    RECOVERY_WAIT_CHECKPOINT,
    RECOVERY_WAIT_UNLINK,
    RECOVERY_WAIT_REDO,
    RECOVERY_WAIT_SCAN,
    RECOVERY_WAIT_PROBE,
    RECOVERY_WAIT_CUT,
    RECOVERY_WAIT_OPEN_FLUSH,
    RECOVERY_WAIT_FLUSH,
    RECOVERY_WAIT_STORE,
};

struct recovery_names {
    char **all;
    uint32_t count;
    uint32_t capacity;
};

/* What a search behind a bad entry found. */
struct probe {
    struct log_segment *seg; /* Being searched. */
    uint64_t pos;
    struct segment_scan rules;
    bool has_own;  /* Something of this life of the file stands behind the last good entry. */
    bool has_next; /* The first good entry behind it: */
    struct log_segment *next_seg;
    struct entry_header next;
    uint64_t next_pos;
    uint64_t last_index; /* Highest one seen, for the log line. */
};

struct log_recovery {
    struct log *log;
    enum recovery_state state;
    enum err error; /* Of reading records or replaying. */

    uint64_t rewritten_to; /* Records of segments below were superseded by a rewriting. */
    uint64_t *superseded;  /* Those; the store still names them. */
    uint32_t superseded_count;
    struct cut_record *cuts;
    uint32_t cuts_count;
    const struct cut_record *intent; /* To be redone; NULL = none. */
    uint64_t durable_index;          /* The highest D. */
    uint64_t commit_index;
    struct log_segment *ended; /* The tail, if the log was closed and names its end; else NULL. */
    uint64_t ended_filled_to;

    struct recovery_names files;     /* In the directory. */
    struct recovery_names leftovers; /* To be removed. */
    uint32_t leftover_next;
    struct recycle_discard discard;
    char *path;
    struct io_op op;

    struct {
        struct checkpoint_record record; /* index 0: there is none. */
        uint8_t *bytes;
        size_t size;
        struct buf *buf; /* While a file is read. */
        struct whole_file file;
    } checkpoint;

    struct log_walk walk;
    struct log_segment *seg; /* Being walked. */
    enum entry_fault fault;  /* Why the walk stopped. */
    struct probe probe;
    struct log_cut_exec cut;
    struct segment_wait file_wait;
    struct store_wait store_wait;
};

/* log_recover.c */

/* Ends the open; r is gone. */
void recovery_finish(struct log_recovery *r, enum err e);
/* r->cut.record says where, and r->cut.on_done goes on. */
void recovery_cut(struct log_recovery *r, struct log_segment *seg, bool is_redo);
/* A D was met, learnt in generation. */
void recovery_learn_durable(struct log_recovery *r, uint64_t durable_index, uint32_t generation);
bool recovery_has_file(const struct log_recovery *r,
                       const struct log_segment *seg,
                       const char *suffix);
/* NULL: the manifest names no such segment. */
struct log_segment *recovery_segment_at(const struct log *l, uint64_t base_index);
/* Removes leftovers, one by one, and goes on. */
void recovery_unlink_next(struct log_recovery *r);
/* The walk came to the end of the log: flush what may not be durable, and open. */
void recovery_settle(struct log_recovery *r);

/* log_recover_checkpoint.c */

/* Looks what the store says; nothing is read. */
void recovery_find_checkpoint(struct log_recovery *r);
/* Reads it, then recovery_unlink_next. */
void recovery_load_checkpoint(struct log_recovery *r);
/* The state of the log and of its owner is what it was at the checkpoint, and *ret_pos, in r->seg,
 * is where the next entry is looked for. False: all entries have to be read. */
bool recovery_take_checkpoint(struct log_recovery *r, uint64_t *ret_pos);
void recovery_drop_checkpoint(struct log_recovery *r);

/* log_recover_scan.c */

/* Walks the log, from the checkpoint on if there is a good one. */
void recovery_begin_scan(struct log_recovery *r);
/* Where the next byte of the segment goes, which is known to its end. */
void recovery_set_tail(struct log_segment *seg);

/* Walks the segment after r->seg, the first one if that is NULL. */
void recovery_scan_segment(struct log_recovery *r);
enum walk_verdict recovery_on_entry(struct log_walk *w, const struct scan_result *entry);
void recovery_on_end(struct log_walk *w, enum walk_reason reason);
