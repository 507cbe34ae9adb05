/* The inside of a log, shared by log*.c and segment_*.c of this folder.
 *
 *   log.c            open, close, state, failure
 *   log_append.c     append -> page -> write -> flush
 *   log_room.c       what an append waits for
 *   log_page.c       tail pages: memory images of the end of the log, later cache
 *   log_walk.c       walking entries in pages and on disk, for all that reads
 *   log_pin.c        answers by reference
 *   log_ahead.c      reading ahead of readers that lag; log_ahead_priv.h
 *   log_read.c       log_read        log_query.c    log_time_query
 *   log_recover.c, log_recover_scan.c opening
 *   log_recover_checkpoint.c          ... from a checkpoint; log_checkpoint.c   writing one
 *   log_cut.c        cuts            log_end.c      closing, deleting
 *   log_compact.c    compaction, repacking; log_compact_priv.h names the rest of it
 *   log_retire.c     segments that leave the log: by the log start, or replaced
 *   log_index.c      index files
 *   segment_file.c   descriptors     segment_birth.c, segment_fill.c   new files, zeros ahead
 *
 * Invariants:
 *  1. flushed_index <= taken_index <= last_index: durable, given to the disk, appended.
 *  2. Only the last segment takes entries. Only it may be unborn, and then none of its was taken.
 *  3. A page that holds an entry above flushed_index is dirty: it stays. Others are cache.
 *  4. Pages of the log are in order of position and hold whole entries; between two pages of the
 *     log there may be holes (evicted), behind the last one there is nothing.
 *  5. Bytes are written only below filled_to of a born segment, each block at most once per
 *     generation.
 */
#pragma once

#include "core/assert.h"
#include "core/buf.h"
#include "core/io.h"
#include "core/shard.h"
#include "storage/checkpoint.h"
#include "storage/compaction.h"
#include "storage/flusher.h"
#include "storage/log.h"
#include "storage/log_ahead_priv.h"
#include "storage/log_gate.h"
#include "storage/log_shared.h"
#include "storage/pace.h"
#include "storage/recycle.h"
#include "storage/segment_format.h"
#include "storage/segment_index.h"
#include "storage/segment_scan.h"
#include "storage/store.h"

enum {
    LOG_PAGE_SIZE_MIN = 16 << 10,
    LOG_PAGE_SIZE_MAX = 1 << 20,
    LOG_BACKLOG_SIZE_MAX = 8 << 20, /* Bytes appended and not flushed; one entry always fits. */
    LOG_ROUNDS_MAX = 2,             /* One writing, one flushing. */
    LOG_ZERO_SIZE = 256 << 10,      /* The shared block of zeros. */
    LOG_ZERO_IOV_MAX = 4,           /* So one write of zeros moves at most 1 MiB. */
    LOG_RETRY_US = 1000 * 1000,     /* After a full disk. */
    LOG_DAMAGES_MAX = 64,           /* More are merged with the last one. */
    LOG_INDEX_TURNS_MAX = 8,        /* Index files of a log_shared that are worked on. */
};

/* ---- segments ---- */

/* Not one that a batch could have: those below -1 come from clients, too. */
#define LOG_TIMESTAMP_UNKNOWN INT64_MIN

enum segment_file_state {
    SEGMENT_FILE_CLOSED,
    SEGMENT_FILE_WAIT_OPEN,
    SEGMENT_FILE_OPEN,
    SEGMENT_FILE_WAIT_CLOSE,
};

/* Somebody waiting for a file to be open, or closed. */
struct segment_wait {
    struct list link;
    void (*on_ready)(struct segment_wait *w, enum err e);
};

struct segment_file {
    enum segment_file_state state;
    int fd;
    uint32_t users_count; /* At zero the descriptor may be closed. */
    struct list waiters;  /* struct segment_wait */
    uint64_t idle_since_us;
    struct list idle_link; /* In log_shared.idle_files while open without users, in
                              log_shared.starved_files while an open waits for a descriptor. */
    struct io_op op;
    char *path;       /* While opening. */
    bool is_unwanted; /* segment_file_close was called: it is closed for good. */
};

struct log_index_task;

struct log_segment {
    struct list link; /* In log.segments, by base.index, or in log.retired. */
    struct log *log;
    struct segment_base base;
    uint64_t salt;
    uint32_t generation;
    uint32_t file_version;  /* 0 as appended, one more with each rewriting. */
    uint64_t end_index;     /* Rewritten: behind its last entry. 0 = as appended. */
    bool is_usable;         /* Its manifest record is durable. */
    bool is_retired;        /* See log_retire. */
    uint32_t holds_count;   /* Walks, fills and index tasks that use it. */
    uint64_t retired_next;  /* Of a retired one: base.index of the segment behind it. */
    uint64_t filled_to;     /* Up to here entries may be written. */
    uint64_t written_to;    /* Not below: up to here filling costs no write (segment_fill.c). */
    uint64_t allocated_to;  /* The file has room up to here, as far as is known: a hint. */
    uint64_t filled_to_put; /* As in its manifest record, durable or on its way. */
    bool is_end_put;        /* The record has its end, too: no recovery from there reads it. */
    uint64_t tail_pos; /* Where the next byte goes; a block boundary unless a page is open there. */
    uint64_t end_pos;  /* End of the last entry. */
    uint64_t entries_size; /* Of entries without padding, cut ones included. */
    int64_t max_timestamp; /* -1 = none. */
    /* Of its first batch; LOG_TIMESTAMP_UNKNOWN while there is none. Rolls go by it. */
    int64_t first_timestamp;
    int64_t created_ms; /* Of the wall clock; of the last start, if that was later. */
    int64_t age_ms_max;
    struct segment_points points;
    bool has_points;          /* Else they left memory; see log_index_want. */
    bool is_index_loaded;     /* The points come from the file. */
    bool is_index_pinned;     /* The points may not leave memory: a cut needs them. */
    bool is_index_hopeless;   /* Writing the file failed. */
    uint64_t index_file_size; /* 0: there is no file. */
    struct log_index_task *index_task;
    struct list index_waiters;  /* struct segment_wait */
    struct list index_link;     /* In log_shared.indexes while the points may leave memory. */
    uint64_t point_next_pos;    /* From here on the next point is due. */
    struct segment_jump *jumps; /* By pos. */
    uint32_t jumps_count;
    struct segment_file file;
};

/* ---- the tail ---- */

struct log_page {
    struct list link;       /* In log.pages. */
    struct list cache_link; /* In log_shared.cache while clean. */
    struct log_segment *segment;
    struct buf *buf;
    uint64_t pos; /* Of its first byte in the file. */
    uint64_t created_us;
    uint32_t used;  /* Bytes of entries and padding. */
    uint32_t taken; /* Of those, given to the disk; a multiple of the block. */
    uint64_t last_index;
    int64_t next_offset;
    uint64_t appended_end; /* log.appended_size after its last entry. */
    bool is_dirty;         /* Holds a use of the segment's file. */
    bool is_writing;
    struct io_op op;
};

/* What one flush round makes durable. */
struct log_round {
    uint64_t index;
    int64_t offset;
    uint64_t backlog_end; /* log.appended_size at the take. */
};

enum log_state {
    LOG_OPENING,
    LOG_OPEN,
    LOG_CUTTING,
    LOG_CLOSING,
    LOG_DELETING,
};

struct log_birth;
struct log_checkpoint;
struct log_fill;
struct log_recovery;
struct log_cut_exec;
struct log_cut_task;
struct log_end_task;
struct log_retirer;

struct log {
    struct log_env env;
    struct partition_id id;
    char *name;
    char *dir; /* <data>/logs/<topic id>-<partition> */
    struct log_options options;
    enum space_tier tier;
    const struct log_callbacks *callbacks;
    void *context;
    bool is_replay_strict;
    bool is_all_read;
    bool accepts_loss;

    enum log_state state;
    enum err open_error; /* Of a failed open, until it is reported. */
    bool is_failed;
    bool is_end_unknown;    /* Damage reaches the end: no append. */
    bool is_full;           /* The disk was, at the last try. */
    uint64_t promised_size; /* Of space, to entries beyond the zeros; as space_promise knows it. */
    bool wants_room;        /* An append was refused: call on_room. */
    bool was_busy; /* With ERR_BUSY: its owner waits, and does not know that the disk is full. */
    bool has_dir;  /* The partition's directory and its name are durable. */

    struct list segments;        /* struct log_segment */
    struct list retired;         /* Those that left, until their files are gone. */
    uint64_t retired_count;      /* How many left since the start. */
    struct log_retirer *retirer; /* While there are any. */
    int64_t start_offset;        /* As log_set_start said. */
    int64_t appended_ms;         /* Wall time of the last append, or of the start. */
    bool is_roll_wanted;         /* By the next append. */
    struct list pages;           /* struct log_page */
    uint32_t page_size;

    uint64_t last_index;
    uint64_t last_term;
    uint64_t last_id;
    int64_t next_offset;
    uint64_t taken_index;
    uint64_t flushed_index;
    int64_t flushed_offset;
    uint32_t generation;
    uint64_t commit_index;
    uint64_t persisted_index; /* As last put: D and commit, */
    uint64_t persisted_commit;
    uint64_t persisted_end_pos; /* and the end of a closed log. */
    uint64_t sealed_size;       /* Bytes of all segments but the last. */

    struct log_checkpoint *checkpoint; /* While one is written. */
    struct list checkpoint_link;       /* In log_shared.checkpoint_queue. */
    uint64_t checkpoint_index;         /* Of the last one that is durable; 0 = none. */
    uint64_t checkpoint_segment;       /* Base index of the segment that it points into. */
    uint64_t checkpoint_file;          /* The index that its file has in its name; 0 = no file. */
    uint64_t checkpoint_due_us;        /* None is tried before: the last one failed. */
    struct timer checkpoint_retry;     /* Armed when one failed that was asked for. */
    uint64_t uncovered_size;           /* Bytes of entries that a recovery would read, about. */
    bool is_checkpoint_asked;

    struct log_term *terms;
    uint32_t terms_count;
    uint32_t terms_capacity;
    struct log_damage *damages;
    uint32_t damages_count;
    struct log_damage *lost_end; /* Accepted by this open, and cut; NULL = none. */

    uint64_t appended_size; /* Ever, padding left out; differences of it are the backlog. */
    uint64_t flushed_size;
    struct flush_client client;
    struct log_round rounds[LOG_ROUNDS_MAX];
    uint32_t rounds_count;

    struct log_birth *birth; /* While one runs, or waits as a spare. */
    struct log_fill *fill;   /* While one runs. */
    uint32_t index_tasks_count;
    bool has_unindexed;    /* There may be a sealed segment without index file. */
    uint64_t index_due_us; /* None is written before: there was no memory. */
    uint32_t fill_step;
    uint64_t filled_at_us;
    uint64_t spare_due_us; /* No spare segment before: the last one could not be had. */
    struct log_recovery *recovery;
    struct log_cut_task *cut;
    struct log_end_task *end; /* Closing or deleting. */

    struct list walks;         /* struct log_walk, running. */
    struct list parked;        /* struct log_walk, to be started from the loop. */
    struct list ahead_streams; /* struct ahead_stream */
    struct task task;          /* Starts parked walks, looks whether what is waited for is there. */
    struct timer retry;        /* Armed while is_full. */
    struct buf_waiter memory;
    struct list quiet_link; /* In log_shared.quiet. */
    uint64_t quiet_deadline_us;
    struct list shared_link; /* In log_shared.logs. */

    bool has_compact_config;
    struct compaction_config compact_config;
    struct list compact_link; /* In log_shared.compactables. */
    int64_t clean_offset;     /* Below, every key is there once (compaction.h). */
    uint64_t clean_index;
    bool is_compact_hopeless; /* Until the next start. */
    uint64_t compact_due_us;  /* Not before: there was trouble. */
    struct log_stats stats;
};

static inline struct shard *log_shard(const struct log *l)
{
    return l->env.s;
}

/* NULL if there is none. */
static inline struct log_segment *log_tail_segment(const struct log *l)
{
    return list_is_empty(&l->segments) ? NULL
                                       : container_of(l->segments.prev, struct log_segment, link);
}

/* NULL if seg is the last one. Not of a retired one. */
static inline struct log_segment *log_segment_after(const struct log_segment *seg)
{
    assert(!seg->is_retired);
    return seg->link.next == &seg->log->segments
               ? NULL
               : container_of(seg->link.next, struct log_segment, link);
}

/* There are closed segments. */
static inline bool log_has_sealed(const struct log *l)
{
    return l->segments.next != l->segments.prev;
}

/* log.c */

/* The log is fail-stopped; tells the owner once. */
void log_fail(struct log *l, enum err e, const char *what);
/* Looks, from the loop, whether a cut, close or delete can go on, and starts parked walks. */
void log_poke(struct log *l);
/* Nothing runs in the background and no round is open. */
bool log_is_quiet(const struct log *l);
/* Frees memory of a log with closed files. */
void log_free(struct log *l);
/* malloc'd "<dir>/<base>[-<version>]<suffix>". NULL without memory. */
char *log_segment_path(const struct log_segment *seg, const char *suffix);
void log_segment_name(const struct log_segment *seg, const char *suffix, char *ret_name);
char *log_path(const char *dir, const char *name);
/* Sums sealed_size up again. */
void log_recount(struct log *l);
void log_terms_add(struct log *l, uint64_t term, uint64_t index, int64_t offset);
/* Forgets terms that begin at or above index. */
void log_terms_cut(struct log *l, uint64_t index);
/* Forgets terms and damage of entries below the first one. */
void log_forget_below(struct log *l, uint64_t first_index);
uint64_t log_term_at(const struct log *l, uint64_t index);
/* Retires what lies wholly below the log start. Called whenever one more segment may be: when the
 * start moved, entries were committed, the segment behind became usable. */
void log_trim(struct log *l);

/* NULL without memory. Not yet in log.segments. */
struct log_segment *log_segment_new(struct log *l, const struct segment_base *base, uint64_t salt);
/* File closed, held by nobody. Removes it from log.segments or log.retired. */
void log_segment_free(struct log_segment *seg);
/* Adds a point for the entry at pos if one is due. */
void log_segment_note(struct log_segment *seg, uint64_t pos, const struct entry_header *h);
/* Keeps jumps sorted. ERR_BUSY without memory. */
enum err log_segment_add_jump(struct log_segment *seg, const struct segment_jump *j);
/* Forgets those at or above pos, and holes that reach over it. */
void log_segment_cut_jumps(struct log_segment *seg, uint64_t pos);
/* The scan rules of seg, standing before its first entry. */
void log_segment_scan(const struct log_segment *seg, struct segment_scan *ret_scan);
/* Puts the manifest record, with the end of the segment if that is_end_put. */
enum err log_segment_put(struct log_segment *seg, uint64_t filled_to);
/* store_wait_durable, or ERR_FAILED when nothing can become durable any more. */
enum err log_store_wait(struct log *l, struct store_wait *w);
struct store_key log_store_key(const struct log *l, enum store_kind kind, uint64_t sub);

/* log_retire.c */

/* Somebody keeps a pointer to seg over a wait: it is not freed, its file stays. */
void log_segment_hold(struct log_segment *seg);
void log_segment_release(struct log_segment *seg);

enum log_retire_reason {
    LOG_RETIRE_REMOVED,  /* Its record and its cuts are deleted here. */
    LOG_RETIRE_REPLACED, /* The caller has put what replaces them, in store and list; sealed_size
                            is its to raise. */
};
/* Up to where the file of seg, which nobody uses and the store does not name, may serve an other
 * segment; RECYCLE_SIZE_UNKNOWN = not at all. */
uint64_t log_segment_recyclable_size(const struct log_segment *seg);
/* Takes seg out of log.segments now; its file is removed later, when the store's changes made
 * until now are durable and nobody holds seg any more. Not the tail, and all its entries are
 * flushed. On error nothing changed (ERR_BUSY: no memory). */
enum err log_retire(struct log_segment *seg, enum log_retire_reason reason);
void log_retire_poke(struct log *l);
/* Deletes the records of the cuts into seg from the store. */
void log_segment_drop_cuts(const struct log_segment *seg);
/* A close or delete: true when nothing is left to be done; else log_poke comes. */
bool log_retire_hurry(struct log *l);

/* log_checkpoint.c */

void log_checkpoint_init(struct log *l);
void log_checkpoint_done(struct log *l);
void log_checkpoints_init(struct log_shared *ls);
void log_checkpoints_done(struct log_shared *ls);

/* Starts a checkpoint if one is due, or goes on with one that waits: something was flushed or
 * committed. Only where the owner's state is as far as the log. */
void log_checkpoint_check(struct log *l);
/* None is written, and none waits for its turn. */
bool log_checkpoint_is_quiet(const struct log *l);
/* One that is not sure of its entries yet is given up. */
void log_checkpoint_cancel(struct log *l);
/* The flusher failed. */
void log_checkpoint_abandon(struct log *l);
/* No recovery needs the entries of seg for the owner's state: the durable checkpoint covers them
 * and points behind seg (or the log makes no checkpoints). Only then it may be rewritten, or go. */
bool log_checkpoint_covers(const struct log_segment *seg);
/* malloc'd "<dir>/<index>.checkpoint". NULL without memory. */
char *log_checkpoint_path(const struct log *l, uint64_t index);

/* log_holes.c */

/* Opening: gives segments the holes that the store names, and forgets those of files that are gone.
 */
enum err log_holes_place(struct log *l);
/* lost, in seg and ended by j, which is none of its jumps yet, was accepted: the store and seg know
 * it from now on. */
enum err log_hole_accept(struct log_segment *seg,
                         const struct segment_jump *j,
                         const struct log_damage *lost);
/* One line: these are given up. */
void log_say_lost(const struct log *l, const struct log_damage *lost);
/* The store forgets the holes of seg, which is retired or replaced; */
void log_holes_drop(const struct log_segment *seg);
/* or those behind, or over, a cut at pos into the segment with that base, and of all that follow.
 */
void log_holes_cut(struct log *l, uint64_t base_index, uint64_t pos);
/* The gap that stands for the hole j where scan stands. */
void log_hole_gap(const struct segment_scan *scan,
                  const struct segment_jump *j,
                  struct entry_header *ret_header);

/* log_compact.c */

void log_compact_init(struct log_shared *ls);
void log_compact_done(struct log_shared *ls);
/* No run begins any more, one that goes on ends early. */
void log_compact_stop_all(struct log_shared *ls);
/* l may have something to compact from now on: it sealed a segment, was opened. */
void log_compact_note(struct log *l);
/* A cut, close or delete: true when no run is at l any more; else log_poke comes. */
bool log_compact_stop(struct log *l);
/* A run is rewriting seg: it may not be retired now. */
bool log_compact_needs(const struct log_segment *seg);

/* log_recover.c, log_cut.c, log_end.c */

void log_recovery_start(struct log *l);
void log_recovery_poke(struct log *l);
void log_cut_poke(struct log *l);
void log_end_poke(struct log *l);
/* A close or delete that was asked for begins: no cut is going on any more. */
void log_end_start(struct log *l);

/* The flusher failed: whoever waits for the store ends with ERR_FAILED. */
void log_birth_abandon(struct log *l);
void log_fill_abandon(struct log *l);
void log_recovery_abandon(struct log *l);
void log_cut_abandon(struct log *l);
void log_cut_exec_abandon(struct log_cut_exec *x);
void log_end_abandon(struct log *l);
void log_retire_abandon(struct log *l);

enum log_cut_state {
    LOG_CUT_START,
    LOG_CUT_WAIT_INTENT,
    LOG_CUT_WAIT_CLOSE,
    LOG_CUT_WAIT_UNLINK_INDEX,
    LOG_CUT_WAIT_DISCARD,
    LOG_CUT_WAIT_UNLINK_OWN,
    LOG_CUT_WAIT_FSYNC_DIR,
    LOG_CUT_WAIT_OPEN,
    LOG_CUT_WAIT_ZEROS,
    LOG_CUT_WAIT_FLUSH,
    LOG_CUT_WAIT_DONE,
};

enum {
    LOG_CUTS_DROPPED_MAX = 64, /* Superseded records removed at a time. */
};

/* The execution of a cut. record (but is_done) and on_done are set by the caller. */
struct log_cut_exec {
    struct cut_record record;
    void (*on_done)(struct log_cut_exec *x, enum err e);

    struct log *log; /* Private, as what follows. */
    struct log_segment *seg;
    enum log_cut_state state;
    bool is_using;
    uint64_t zeroed_to;
    char *path;
    struct recycle_discard discard;
    struct io_op op;
    struct iovec iov[LOG_ZERO_IOV_MAX];
    struct store_wait store_wait;
    struct segment_wait file_wait;
};
/* Nothing of the log may be in flight, and it has no pages. Sets the segment's tail, jumps and
 * points and the log's generation; what the log ends with is the caller's to set. */
void log_cut_execute(struct log_cut_exec *x, struct log *l, struct log_segment *seg, bool is_redo);
/* older is at or behind newer: it means nothing any more. */
bool log_cut_supersedes(const struct cut_record *newer, const struct cut_record *older);

/* segment_file.c */

void segment_file_init(struct segment_file *f);
/* Keeps the file open from when it is; starts opening it if it is born. */
void segment_file_use(struct log_segment *seg);
void segment_file_unuse(struct log_segment *seg);
static inline bool segment_file_is_open(const struct log_segment *seg)
{
    return seg->file.state == SEGMENT_FILE_OPEN;
}
void segment_file_on_starved_timer(struct timer *t);
void segment_file_on_idle_timer(struct timer *t);
/* The file of a segment that was just born, without users. */
void segment_file_born(struct log_segment *seg);
/* A user waits until the file is open or failed to. */
void segment_file_wait(struct log_segment *seg, struct segment_wait *w);
/* For good; no users. False: it is closed. True: w is told when it is. */
bool segment_file_close(struct log_segment *seg, struct segment_wait *w);

/* log_page.c */

/* A page for an entry of size at pos, at the end of log.pages. NULL: no memory, even after cached
 * pages went. */
struct log_page *log_page_new(struct log_segment *seg, uint64_t pos, uint64_t size);
/* Any state but writing. */
void log_page_free(struct log_page *pg);
void log_page_set_dirty(struct log_page *pg);
/* Becomes cache; may be freed at once. */
void log_page_set_clean(struct log_page *pg);
/* The page that holds pos of seg, NULL if none does. */
struct log_page *log_page_find(const struct log_segment *seg, uint64_t pos);
/* The first page of seg at or above pos; NULL if there is none. */
struct log_page *log_page_find_above(const struct log_segment *seg, uint64_t pos);
static inline struct log_page *log_tail_page(const struct log *l)
{
    return list_is_empty(&l->pages) ? NULL : container_of(l->pages.prev, struct log_page, link);
}

/* log_append.c */

extern const struct flush_client_ops LOG_FLUSH_CLIENT_OPS;
/* Asks for a flush round if there is something that can be written. */
void log_kick(struct log *l);
/* The oldest page with bytes not yet given to the disk; NULL if there is none. */
struct log_page *log_first_untaken(const struct log *l);

/* log_room.c */

/* An append lacks something: e, and its owner hears of room. */
enum err log_room_refuse(struct log *l, enum err e);
/* Calls on_room if somebody was refused and there may be room now, or if one who waits has to learn
 * that the disk is full. */
void log_room_offer(struct log *l);
/* What entries need beyond the zeros there are changed: tells env.space. */
void log_room_promise(struct log *l);
/* Space could not be had: appends that need some are refused, and it is tried again later. */
void log_room_set_full(struct log *l, const char *what);
/* Space is not tried for before the retry timer. */
bool log_room_waits_for_space(const struct log *l);
/* log_birth_start, tried again later without memory. */
void log_room_start_birth(struct log *l, struct log_segment *seg);
void log_room_on_memory(struct buf_waiter *w);
void log_room_on_retry(struct timer *t);
/* Starts again whatever the log waits for and nobody works on: after a full disk, a stopped birth,
 * a cut. */
void log_room_resume(struct log *l);

/* segment_birth.c */

/* seg, the unborn tail segment, needs its file. NULL: prepares a spare. ERR_BUSY without memory. */
enum err log_birth_start(struct log *l, struct log_segment *seg);
/* Goes on after a full disk. */
void log_birth_retry(struct log *l);
/* Ends a spare, or a birth that waits for room. True: none is left, false: log_poke comes. */
bool log_birth_stop(struct log *l);

/* segment_fill.c */

/* Starts filling ahead of the tail if it is time to. */
void log_fill_check(struct log *l);

/* log_index.c */

/* Writes the index file of a sealed segment that has none, in the background, one at a time. */
void log_index_seal(struct log *l);
/* True: seg has its points. False: they are being loaded or rebuilt, and w is told. */
bool log_index_want(struct log_segment *seg, struct segment_wait *w);
/* Drops the points; log_index_want brings them back. */
void log_index_forget(struct log_segment *seg);
/* seg is sealed, and index_file_size says that it has a file: its points may leave memory. */
void log_index_sealed(struct log_segment *seg);
/* A point of seg names a place where its entry is not. False: the points come from the log itself;
 * it is the log that is damaged. True: they are dropped and rebuilt from the log when wanted. */
bool log_index_doubt(struct log_segment *seg);
/* The points of seg stay in memory until log_index_unseal. */
void log_index_pin(struct log_segment *seg);
/* seg takes entries again: its file is gone, its points stay in memory. */
void log_index_unseal(struct log_segment *seg);

void log_index_on_turns_task(struct task *task);

/* log_purge.c */

/* The flusher failed: purges that wait for the store end with ERR_FAILED. */
void log_purge_abandon(struct log_shared *ls);

/* ---- log_shared.c ---- */

struct log_shared {
    struct shard *s;
    struct store *store;
    struct log_shared_options options;
    struct list logs;       /* struct log */
    struct list cache;      /* struct log_page, clean, oldest first. */
    struct list idle_files; /* struct segment_file, open without users, oldest first. */
    struct list indexes;    /* struct log_segment whose points may go, longest unused first. */
    struct list purges;     /* struct purge (log_purge.c) that wait for the store. */
    struct list quiet;      /* struct log whose {D, commit} is not persisted, by deadline. */
    struct timer quiet_timer;
    struct buf_reclaimer reclaimer; /* Others wait for memory: the cache gives way. */
    struct timer reclaim_timer;
    struct list checkpoint_queue; /* struct log that waits to write a checkpoint. */
    uint32_t checkpoints_count;   /* Written, or waiting for their entries. */
    struct task checkpoint_turns; /* Starts the next ones. */
    struct pace pace;             /* Of deletes, compaction, repacking. */
    struct recycle recycle;       /* Files that left their logs. */
    uint32_t deletes_count;       /* Logs deleted since one of them had a turn. */
    struct list compactables;     /* struct log with something sealed; see log_compact.c. */
    struct log_compact_run *compact_run;
    struct timer compact_timer;
    struct task compact_task;
    uint32_t compact_round_left; /* Logs to look at before the next rest. */
    bool is_compact_stopped;
    struct list births;         /* struct log_birth that waits for its turn. */
    uint32_t births_count;      /* Have their turn: each has up to two descriptors. */
    struct list index_tasks;    /* struct log_index_task that waits for its turn. */
    uint32_t index_turns_count; /* Have it. */
    struct task index_turns;    /* Gives the next ones. */
    struct list starved_files;  /* struct segment_file that got no descriptor, oldest first. */
    struct timer starved_timer; /* Tries them again. */
    struct timer idle_timer;    /* Closes those that were idle for long. */
    struct buf *zeros;
    struct log_ahead ahead;
    struct log_gate gate; /* Of reads for clients. */
    struct log_shared_stats stats;
};

/* Frees cached pages until size bytes came back; false if there are none left. */
bool log_shared_evict(struct log_shared *ls, size_t size);
/* A buffer, for which cached pages may have to go. NULL: even then there is no memory. */
struct buf *log_shared_alloc(struct log_shared *ls, size_t size, enum buf_class class);
/* If somebody waits for memory and the cache has some, it gives way in a while. */
void log_shared_reclaim_soon(struct log_shared *ls);
/* l changed: persist its {D, commit} when it stays quiet. */
void log_shared_touch(struct log_shared *ls, struct log *l);
/* Puts {D, commit}, and the end of a log that closes, now if it changed. */
enum err log_persist_durable(struct log *l);
/* A log is being deleted: its names are some work for the journal, if none to wait for. True: w was
 * asked for a turn. */
bool log_shared_paces_delete(struct log_shared *ls, struct pace_wait *w);
/* Sets op and iov (LOG_ZERO_IOV_MAX) to write zeros at pos, at most up to end; returns the size. */
uint64_t log_shared_zero_op(
    struct log_shared *ls, struct io_op *op, struct iovec *iov, uint64_t pos, uint64_t end);

/* ---- log_walk.c ---- */

enum walk_verdict {
    WALK_ON,
    WALK_STOP,
};

enum walk_reason {
    WALK_STOPPED, /* By the verdict. */
    WALK_AT_END,  /* No more entries. */
    WALK_BAD,     /* result.fault: the bytes at scan.pos are not the next entry. */
    WALK_DAMAGE,  /* A known hole at scan.pos, not accepted; log_walk_leap goes on behind it. */
    WALK_GONE,    /* The segment was retired under the walk, and what follows it is not there
                     either: to be started over, if need be. */
    WALK_ERROR,   /* error says which. */
};

/* Walks entries in order, in pages where they are, else on disk. */
struct log_walk {
    /* Set by the owner before log_walk_run. */
    struct log *log;
    struct log_segment *segment; /* Held, from a seek to log_walk_done. */
    struct segment_scan scan;
    enum buf_class class;
    uint32_t window_size;                 /* What one read from disk brings. */
    bool is_one_segment;                  /* Ends at the end of segment. */
    bool is_patient;                      /* Waits for memory instead of ending with ERR_BUSY. */
    bool is_for_client;                   /* Its reads from disk go through the gate. */
    struct ahead_stream *ahead;           /* See log_ahead_join; NULL = reads for itself. */
    void (*on_start)(struct log_walk *w); /* After log_walk_park, from the loop. */
    /* A header alone, before its payload is read from disk. NULL = WALK_ON. */
    enum walk_verdict (*on_header)(struct log_walk *w, const struct entry_header *h);
    enum walk_verdict (*on_entry)(struct log_walk *w, const struct scan_result *entry);
    /* May free the walk or run it again. */
    void (*on_end)(struct log_walk *w, enum walk_reason reason);
    void (*on_loaded)(struct log_walk *w, enum err e); /* See log_walk_load. */

    /* Read by the owner. */
    struct scan_result result;
    enum err error;
    struct segment_window window;
    bool was_on_disk;      /* Not all came from pages. */
    struct buf *entry_buf; /* Holds result.payload, in on_entry. */

    /* Private. */
    struct list link; /* In log.walks or log.parked. */
    struct buf *buf;
    struct log_segment *used; /* Whose file is in use. */
    uint64_t need_pos;
    uint64_t need_size;
    struct io_op op;
    struct gate_wait gate;
    struct segment_wait wait;
    struct buf_waiter memory;
};

void log_walk_init(struct log_walk *w, struct log *l);
/* Stands where an entry with the offset, index or time is looked for from. */
void log_walk_seek_start(struct log_walk *w, struct log_segment *seg);
void log_walk_seek_point(struct log_walk *w,
                         struct log_segment *seg,
                         const struct segment_point *p);
/* Walks until on_end, which may come before this returns. */
void log_walk_run(struct log_walk *w);
void log_walk_leap(struct log_walk *w);
/* Brings [pos, pos + size) of the segment into the window, then on_loaded. */
void log_walk_load(struct log_walk *w, uint64_t pos, uint64_t size);
/* The bytes of seg at pos are on disk for good, up to the position returned; pos itself: they are
 * not, or are in a page, or there are none. */
uint64_t log_disk_end(const struct log_segment *seg, uint64_t pos);
/* The window is the first size bytes of b, from pos on. */
void log_walk_set_window(struct log_walk *w, struct buf *b, uint64_t pos, uint64_t size);
/* After AHEAD_WAIT: what w waits for came, or does not come. */
void log_walk_resume(struct log_walk *w);
/* Gives memory and file back; not while running. */
void log_walk_done(struct log_walk *w);
/* Calls on_start from the loop, when no cut is going on; cuts and closes wait from then on until
 * log_walk_done. */
void log_walk_park(struct log_walk *w);

/* log_pin.c */

/* Adds a batch that lies in b to the answer of r, by reference; is_last: none can follow. False: it
 * has to be copied. */
bool log_pin_add(struct log_read *r, struct buf *b, struct slice batch, bool is_last);
/* What was copied to the end of dst is the next part of the answer, if that has pieces. */
void log_pin_note_copy(struct log_read *r, size_t size);

/* log_read.c */

/* The last segment that starts at or below offset; NULL: offset is below the log start. */
struct log_segment *log_segment_by_offset(const struct log *l, int64_t offset);
/* Counts and logs what a walk met. */
void log_report_corruption(struct log_walk *w);
