/* The log of one partition: append, flush, read, cut, recover (DESIGN 4).
 *
 * Rules of use:
 *  1. log_append only copies into the tail; on_flushed tells when entries are durable, in order.
 *     Nobody may be told "done" before that.
 *  2. A refused append (ERR_BUSY, ERR_NO_SPACE) left no entry, if perhaps the beginning of the next
 *     segment; on_room comes when it is worth trying again, also to learn that the disk is full.
 *  3. Reads see whole batches in [offset, end_offset); the caller passes end_offset (the commit
 *     boundary), the log does not know what is committed.
 *  4. log_cut removes entries from an index on; derived state above must be rolled back by the
 *     caller from on_replay or its own memory.
 *  5. A failed write or flush is not hidden: on_failed, once; the log is then fail-stopped.
 *  6. Damage at or below D is not cut. It is logged, counted, listed by log_damage, and reads of
 *     it end with ERR_CORRUPT; the rest of the log is served. Opening does not read what a
 *     checkpoint covers: damage there is met by reads. Only an open that accepts_loss gives up what
 *     is damaged then, durably (docs/decisions/0023).
 *
 * Shard: the owner of the partition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/ids.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "core/xmsg.h"
#include "storage/entry.h"
#include "storage/segment_format.h"
#include "storage/space.h"

struct shard;
struct flusher;
struct store;
struct log;
struct log_shared;
struct batch_header;
struct compaction_config;

/* What all logs of one (data directory, shard) share. Must outlive them. */
struct log_env {
    struct shard *s;
    const char *dir; /* The data directory. */
    struct store *store;
    struct flusher *flusher;
    struct log_shared *shared; /* Tail cache, list of quiet logs, open files; log_shared.h. */
    struct space *space;       /* NULL: as much as the disk has. */
};

struct log_options {
    uint64_t segment_size_max; /* bytes; a segment is rolled before it grows beyond this, but one
                                  entry always fits */
    uint32_t fill_step_min;    /* bytes zero-filled ahead for a cold log, multiple of the block */
    uint32_t fill_step_max;    /* and for a hot one */
    uint32_t index_interval;   /* bytes between sparse index points */
    uint64_t checkpoint_size;  /* bytes of entries that recovery may have to read; 0 = no
                                  checkpoints.  A sixty-fourth of it is worth one when a segment is
                                  closed, a  sixteenth at a close. */
    uint64_t index_size_max;   /* bytes of them; a segment is rolled before it would have more */
    /* A segment is rolled before a batch that is so much later than its first one, or, where that
     * has no timestamp, comes so long after the segment began; INT64_MAX = never. Of each segment
     * it is a random part below the jitter less. */
    int64_t segment_age_ms_max;
    int64_t segment_jitter_ms_max;
};
extern const struct log_options LOG_OPTIONS_DEFAULT;

/* See compaction.h. */
struct log_compaction_bounds {
    int64_t stable_offset; /* Last stable offset: no transaction below is undecided. */
    uint64_t clean_index;  /* The minimum over all replicas, learners too. */
};

struct log_callbacks {
    /* Every entry with an index <= index is durable. */
    void (*on_flushed)(void *context, uint64_t index);
    void (*on_room)(void *context);
    void (*on_failed)(void *context, enum err e);
    /* During log_open, each surviving entry in order; payload valid during the call. An error ends
     * the open with it. */
    enum err (*on_replay)(void *context, const struct log_entry *entry);
    /* Writes the owner's state to out, as it stands after the last entry appended: what on_replay
     * of all entries would make of it. Also during log_close. NULL: there is none. */
    void (*on_checkpoint)(void *context, struct wbuf *out);
    /* During log_open, before the first on_replay, of the entry behind index: the state is what
     * on_checkpoint wrote then. Any error, and the state left as it was: all entries are replayed
     * instead. */
    enum err (*on_restore)(void *context, struct slice state, uint64_t index);
    /* A compaction begins: bounds holds what the log knows, to be lowered to what holds for all
     * replicas. NULL = leave it so. */
    void (*on_compacting)(void *context, struct log_compaction_bounds *bounds);
    /* h, about to lose all its records, is what the producer's next sequence is known by. NULL = no
     * batch is. */
    bool (*is_last_of_producer)(void *context, const struct batch_header *h);
    /* log_open ended. Not called with an error after any other callback but on_replay; the log is
     * then gone, as after log_close. */
    void (*on_opened)(void *context, enum err e);
};

struct log_open {
    const struct log_env *env;
    struct partition_id id;
    const char *name; /* "<topic>-<partition>" for the name-link and log lines; copied. */
    struct log_options options;
    enum space_tier tier; /* How much of a nearly full disk it may take. */
    const struct log_callbacks *callbacks;
    void *context;
    /* State is replayed that must not skip an entry (group 0): damage at or below D ends the open
     * with ERR_CORRUPT. Otherwise the replay leaves out what is damaged. */
    bool is_replay_strict;
    /* Every entry is read, whatever a checkpoint covers: so all damage is found. */
    bool is_all_read;
    /* And what is damaged is given up for good: it is read as a gap from now on, an end that damage
     * hides is cut. With is_all_read, for there is no second chance to see it before. */
    bool accepts_loss;
};

/* Starts opening: redoes cut intents, recovers, replays, then on_opened. A partition that was never
 * written has no file and opens empty. */
enum err log_open(const struct log_open *how, struct log **ret_log);

/* Flushes, persists {D, commit}, closes files; then on_closed from the loop. No read, append or cut
 * may be begun afterwards; a cut that is going on is finished first. The log is freed when
 * on_closed returns. */
void log_close(struct log *l, void *context, void (*on_closed)(void *context));

/* Removes all files and store values of a log; on_deleted from the loop. The log is freed.
 * Otherwise like log_close. */
void log_delete(struct log *l, void *context, void (*on_deleted)(void *context, enum err e));

/* Copies an entry to the tail; entry->index is ignored, *ret_index is the one it got. The entry's
 * base_offset must be log_next_offset, its term not below the last.
 *   ERR_BUSY       no room now (memory, zero-filled space, segment being born)
 *   ERR_NO_SPACE   the disk is full, or what is left is reserved for others (space.h)
 *   ERR_TOO_LARGE  bigger than an entry may be
 *   ERR_FAILED     fail-stopped
 */
enum err log_append(struct log *l, const struct log_entry *entry, uint64_t *ret_index);

/* State, all cheap. An empty log: last_index 0, next_offset 0. */
uint64_t log_first_index(const struct log *l);
uint64_t log_last_index(const struct log *l);
uint64_t log_last_term(const struct log *l);
uint64_t log_flushed_index(const struct log *l);
int64_t log_start_offset(const struct log *l);
int64_t log_next_offset(const struct log *l);
int64_t log_flushed_offset(const struct log *l); /* next_offset of the flushed index */
uint64_t log_size(const struct log *l);          /* bytes on disk up to the tail */
bool log_is_failed(const struct log *l);
/* True if damage reaches the end: entries that were durable followed next_offset, nobody knows how
 * many. No append. */
bool log_is_end_unknown(const struct log *l);

/* Entries at or below D that recovery found damaged. offsets: [first_offset, next_offset). */
struct log_damage {
    uint64_t first_index;
    uint64_t last_index; /* UINT64_MAX: to an end that nobody knows; appends are refused then. */
    int64_t first_offset;
    int64_t next_offset;      /* INT64_MAX likewise. */
    struct segment_name file; /* Where it begins, */
    uint64_t pos;             /* behind the last good entry, */
    uint64_t end_pos;         /* and where that file goes on with good ones, or was filled up to. */
};
/* What was accepted as lost, and is still in the log: a damage each, in order. */
void log_each_loss(const struct log *l,
                   void *context,
                   void (*on_loss)(void *context, const struct log_damage *lost));
/* True: this open accepted that damage hides the end, and cut there. */
bool log_lost_end(const struct log *l, struct log_damage *ret_lost);
/* The number of damaged ranges; those that fit are copied to ret_ranges, in order. */
size_t log_damage(const struct log *l, struct log_damage *ret_ranges, size_t count_max);

struct log_stats {
    uint64_t appended_entries;
    uint64_t appended_bytes; /* Headers and payloads. */
    uint64_t written_bytes;  /* With padding; without zero-fill. */
    uint64_t writes;
    uint64_t filled_bytes;
    uint64_t flushes; /* Rounds that made entries of this log durable. */
    uint64_t refused; /* Appends answered ERR_BUSY or ERR_NO_SPACE. */
    uint64_t rolls;
    uint64_t cuts;
    uint64_t removed_segments;
    uint64_t reads;
    uint64_t read_bytes; /* Answered, from memory or disk. */
    uint64_t disk_read_bytes;
    uint64_t corrupt_reads;
    uint64_t index_rebuilds;
    uint64_t checkpoints;
    uint64_t checkpoint_bytes;
};
const struct log_stats *log_stats(const struct log *l);

/* The partition's commit index, persisted with D (DESIGN 4.5). Only rises. */
void log_set_commit(struct log *l, uint64_t index);

/* The log start moved to offset, which is committed and not above log_next_offset: only rises, and
 * is remembered by checkpoints only; after each open it is said again (DESIGN 4.9: the log never
 * moves it by itself). Reads below end with ERR_OUT_OF_RANGE, segments wholly below leave the log
 * at once and the disk when nobody reads them any more, at the shard's pace. */
void log_set_start(struct log *l, int64_t offset);
/* The last entry that the durable checkpoint covers: recovery begins behind it. 0 = none. */
uint64_t log_checkpoint_index(const struct log *l);
/* A checkpoint is wanted soon, however little there is to gain. */
void log_checkpoint_ask(struct log *l);

/* Compaction as config says, and repacking of segments that are mostly padding, in the background
 * from now on. Without it neither happens. May be called again, also while opening. */
void log_set_compaction(struct log *l, const struct compaction_config *config);
/* Below this index nothing superseded or aborted remains here (DESIGN 4.10). */
uint64_t log_clean_index(const struct log *l);

/* Other sizes and ages of segments, and other index points, from now on: what is there stays as it
 * is. Only those of options; the rest must be as it was. Not while opening. */
void log_set_options(struct log *l, const struct log_options *options);

/* A segment as retention sees it, oldest first. */
struct log_segment_info {
    uint64_t size;         /* bytes on disk up to its end */
    int64_t next_offset;   /* Of what follows it. */
    int64_t max_timestamp; /* The largest of its records; -1 = they have none. */
    int64_t changed_ms;    /* Wall time: nothing was appended to it later. */
    bool is_last;
};
/* Until on_segment says false. It may not change the log. */
void log_each_segment(const struct log *l,
                      void *context,
                      bool (*on_segment)(void *context, const struct log_segment_info *info));
/* The next entry begins a new segment, unless the last one is empty. */
void log_roll_next(struct log *l);

/* Bytes of batches in [offset, end_offset), at most max: exact while the tail cache holds them,
 * else an estimate by index points, never 0 if there is a batch. */
size_t log_readable_size(const struct log *l, int64_t offset, int64_t end_offset, size_t max);

enum {
    LOG_PIECES_MAX = 32,
};

/* What a read answers by reference: its bytes stay as they are until log_pin_release, whatever
 * becomes of the log. Whoever has it may be another shard, and only reads. */
struct log_pin {
    struct slice pieces[LOG_PIECES_MAX]; /* All of the answer, in order. */
    struct buf *bufs[LOG_PIECES_MAX];    /* What holds them; NULL: the piece lies in dst. */
    uint32_t pieces_count;

    struct log_shared *shared; /* Private, as what follows. */
    struct xmsg msg;
    struct xmsg_hop route;
};
/* From any shard; the memory goes back to the log's. */
void log_pin_release(struct shard *here, struct log_pin *pin);

/* One read. dst may belong to another shard that waits for the answer. */
struct log_read {
    int64_t offset;
    int64_t end_offset;
    uint8_t *dst;
    size_t dst_size;
    /* Above 0: large batches are answered by reference, in at most so many pieces, as long as what
     * is pinned on the shard is within its limit. What has to be copied takes pieces, too. */
    uint32_t pieces_max;
    /* Only the header of the batch that contains offset is wanted, however large that is:
     * BATCH_HEADER_SIZE bytes, and nothing behind them. The batch is checked all the same. */
    bool is_header_enough;
    void (*on_done)(struct log_read *r); /* Never inside log_read_begin. */

    /* Result. The batch that contains offset comes whole, followed by whole batches.
     *   ERR_TOO_LARGE   the first batch does not fit: size_needed says what would
     *   ERR_OUT_OF_RANGE  offset below the log start or above its end
     *   ERR_CORRUPT     the bytes on disk fail their check
     *   ERR_BUSY        no memory for reading now
     */
    enum err result;
    size_t size;
    size_t size_needed;
    struct log_pin *pin; /* To be released; NULL: all is in dst. */
    size_t copied_size;  /* Of size, in dst, from its beginning on. */

    struct list link; /* Private, as what follows. */
    struct log *log;
    void *state;
};
void log_read_begin(struct log *l, struct log_read *r);

enum {
    LOG_TIME_LARGEST = -3, /* As in ListOffsets. */
};

/* The first record at or after a timestamp, or the first one that has the largest timestamp, among
 * those in [log start, end_offset): offset and timestamp -1 if there is none. end_offset must be
 * where a batch ends. */
struct log_time_query {
    int64_t timestamp; /* ms, not negative; or LOG_TIME_LARGEST */
    int64_t end_offset;
    void (*on_done)(struct log_time_query *q);

    /* Result. ERR_CORRUPT, ERR_BUSY as of a read. */
    enum err result;
    int64_t ret_offset;
    int64_t ret_timestamp;
    uint64_t ret_term;
    struct list link; /* Private, as what follows. */
    struct log *log;
    void *state;
};
void log_time_query_begin(struct log *l, struct log_time_query *q);

/* Removes entries with an index >= index, durably, with an intent (DESIGN 4.6). No append may be
 * made until on_cut. Reads in flight end with what they have or ERR_OUT_OF_RANGE. */
struct log_cut {
    uint64_t index;
    void (*on_cut)(struct log_cut *c);
    enum err result;
    struct list link; /* Private, as what follows. */
    struct log *log;
};
void log_cut_begin(struct log *l, struct log_cut *c);

/* The last offset + 1 written under a term <= term, and the largest such term (KIP-320). False if
 * the log knows no term <= term. */
bool log_term_end(const struct log *l, uint64_t term, uint64_t *ret_term, int64_t *ret_offset);
