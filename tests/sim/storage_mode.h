/* Mode "storage": logs and stores under a driver that does what the layers above may ever do, cuts
 * included, and compares everything with a model.
 *
 *   storage_mode.c   one life: start, drive, end in order
 *   storage_part.c   one log: opened, compared with the model, closed
 *   storage_acts.c   what is done to it: the table of operations
 *   storage_starts.c  moves of the log start
 *   storage_keys.c   what compaction left
 *   storage_reads.c  reads
 *   storage_times.c  searches by time
 *   storage_producers.c  the producer state of a log
 *   storage_misdirect.c  writes and reads that meet the wrong place
 *   storage_rot.c    damage on the disk, planted in acknowledged entries
 *   storage_repair.c  what an operator gives up of it
 *   storage_missing.c  a segment file that is not there for a while
 */
#pragma once

#include "core/ids.h"
#include "storage/compaction.h"
#include "storage/data_dir.h"
#include "storage/flusher.h"
#include "storage/log.h"
#include "storage/log_shared.h"
#include "storage/store.h"

#include "tests/sim/life.h"
#include "tests/sim/model_log.h"

enum {
    PARTS_MAX = 8,
    PART_NAME_SIZE = 64,
    PART_READS_MAX = 8,       /* In flight. */
    PART_RECORDS_MAX = 256,   /* Of a batch. */
    PART_TRANSACTIONS_ID = 3, /* The producer whose batches are those of transactions. */
};

struct producer_state;
struct storage_run;

enum part_state {
    PART_NONE, /* Not open. */
    PART_OPENING,
    PART_OPEN,
    PART_CUTTING,
    PART_DELETING,
    PART_CLOSING,
};

/* One log: what lives as long as the run, and what an incarnation has of it. */
struct part {
    struct storage_run *run;
    uint32_t number;
    uint32_t lives_count; /* Of the log: 1 + deletions. */
    struct partition_id id;
    char name[PART_NAME_SIZE];
    struct model_log model;
    struct compaction_config compaction;
    bool is_trimmed; /* Its start may move. */
    bool has_transactions;
    uint64_t batches_count;
    uint64_t term;
    uint64_t vote_put;
    uint64_t vote_durable;

    enum part_state state;
    uint16_t shard;
    struct log *log;
    bool is_end_lost;                    /* Damage reaches the end: the log takes no appends. */
    uint64_t replay_index;               /* Last one replayed. */
    uint64_t restored_index;             /* Of the checkpoint that it was opened from; 0 = none. */
    int64_t restored_start;              /* The log start that it knew of. */
    int64_t replayed_next[SIM_KEYS_MAX]; /* As model_log.latest_next, of what was replayed. */
    struct producer_state *producers;
    uint64_t cuts_count;
    struct log_cut cut;
    bool has_leftovers;    /* Of a cut, or a deleted log, where the next entry goes. */
    uint64_t writes_count; /* Of the log, when that began. */
    uint32_t reads_count;  /* In flight. */
    bool is_file_missing;  /* In this life: it does not open. */
    int64_t reader_offset; /* Where one that goes through the log comes next. */
};

/* What one shard has, as the cluster layer has it. */
struct part_env {
    struct storage_run *run;
    uint16_t shard;
    struct flusher *flusher;
    struct store *store;
    struct log_shared *shared;
    struct log_env env;
    bool is_open;
};

enum {
    MISDIRECTED_PATH_SIZE = 256,
    MISSING_PATH_SIZE = 256,
};

/* The misdirected writes of a run, one in a life at most; storage_misdirect.c. */
struct misdirected {
    uint32_t writes_left; /* Until it comes, in this life; 0 = it does not. */
    uint32_t count;
    bool is_now; /* In this life: whatever reads the disk may meet it. */
    bool is_store_hit;
    char from[MISDIRECTED_PATH_SIZE];
    char to[MISDIRECTED_PATH_SIZE];
    uint64_t to_pos;
};

/* The segment file that goes away; storage_missing.c. */
struct missing {
    struct part *part; /* NULL: none does. */
    char dir[MISSING_PATH_SIZE / 2];
    char path[MISSING_PATH_SIZE];
    char away[MISSING_PATH_SIZE];
};

struct storage_run {
    struct sim *sim;
    struct life life;
    struct part_env envs[SIM_SHARDS_MAX];
    struct part parts[PARTS_MAX];
    uint32_t parts_count;
    struct data_dir dir;
    struct machine_source driver;
    struct misdirected misdirected;
    struct missing missing;
    struct part *repaired; /* By the tool that runs. */
    uint32_t lives_count;
    uint64_t act_us;        /* Of the next act. */
    uint64_t acts_left;     /* In this life. */
    uint32_t opening_count; /* Stores and logs on their way. */
    uint32_t waiting_count; /* Callbacks that the end in order waits for. */
    bool is_settled;        /* Nothing of the above is left. */
    bool is_fault_allowed;  /* Failures were injected. */
    struct list held;       /* Answers by reference that are not released; storage_held.c. */
    uint32_t held_count;
};

void run_settle(struct storage_run *run);
/* A failure that the product reported. Ends the life if it may be, else the run. */
void run_on_failure(struct storage_run *run, const char *where, enum err e);

struct sim *part_sim(const struct part *p);
/* A log of a new life. */
void part_renew(struct part *p);
void part_open(struct part *p);
void part_close(struct part *p);
/* The incarnation is gone. */
void part_forget(struct part *p);
/* A crash would be interesting while the first bytes after a cut, or of a new log, are written. */
void part_tempt_crash(struct part *p);
/* The entry to the end of the log. False: it was refused. Takes over e's memory. */
bool part_append(struct part *p, struct model_entry *e);
/* One drawn act on an open part. */
void part_act(struct part *p);
/* Begins a read of [offset, end of what is flushed). */
void part_read(struct part *p, int64_t offset);
/* The answer of r, which has a pin, in one piece; malloc'd. */
uint8_t *held_gather(const struct log_read *r);
/* Takes all three over: what pin refers to is bytes, and has to stay so until it goes back. */
void held_keep(struct storage_run *run, struct log_pin *pin, uint8_t *dst, uint8_t *bytes);
/* All answers by reference go back, unchanged, and the memory with them. */
bool held_release_all(struct storage_run *run);
void held_forget(struct storage_run *run);
/* Searches for timestamp, or LOG_TIME_LARGEST, below end_offset, where a batch ends. */
void part_find_time(struct part *p, int64_t timestamp, int64_t end_offset);
/* A drawn one. */
void part_act_time(struct part *p);
/* One about the entry: a drawn one, but of times that decide something. */
void part_find_time_of(struct part *p, const struct model_entry *e);

/* Appends an entry that moves the log start. */
void part_act_start(struct part *p);
/* Commits up to index, and what follows from that. */
void part_commit(struct part *p, uint64_t index);
/* Of a log that opens: the segments that it has are known. */
void part_starts_learn(struct part *p);
/* It was opened: tells it where it starts. */
void part_starts_opened(struct part *p);

/* Which records of a batch are there. */
struct part_batch {
    int64_t max_timestamp;
    int32_t count;
    bool has[PART_RECORDS_MAX];
};
/* batch is what the log has of the entry: it must be that, and what it lacks may lack. */
void part_keys_compare(struct part *p,
                       const struct model_entry *e,
                       struct slice batch,
                       struct part_batch *ret);
/* Of a replay, in order: a batch, an entry that is not there any more; its end. */
void part_keys_replay(struct part *p, const struct model_entry *e, const struct part_batch *batch);
void part_keys_replay_gone(struct part *p, uint64_t index);
void part_keys_replayed(struct part *p);

/* Of a log that is about to be opened: nothing is known. */
void part_producers_reset(struct part *p);
/* Who writes the next batch, if anybody with an id does, and with which sequence. */
struct batch_identity part_producers_draw(struct part *p);
/* The next one of the producer with transactions, and whether it has begun one. */
struct batch_identity part_producers_draw_transactional(struct part *p, bool *ret_is_open);
/* A batch that is about to be appended must be welcome. */
void part_producers_judge(struct part *p, const struct model_entry *e);
/* The entry was appended or replayed. */
void part_producers_take(struct part *p, const struct model_entry *e, uint64_t index);
/* The log was cut, the model, too. */
void part_producers_roll_back(struct part *p);
/* Everything that is known, against the model. */
void part_producers_check(struct part *p);

void misdirect_begin_life(struct storage_run *run);
/* Nothing runs any more: the logs that the write was taken from, and that it hit, are wounded. */
void misdirect_end_life(struct storage_run *run);
/* A misdirected transfer explains such a failure of what reads the disk. */
bool misdirect_explains(const struct storage_run *run, enum err e);
/* Something that had begun before failed of it. */
void misdirect_on_failure(struct storage_run *run);
/* A store was hit: it may refuse to open. */
bool misdirect_hit_store(const struct storage_run *run);

/* Draws a file for it, of what the stores name at the end of a quiet life. */
void missing_choose(struct storage_run *run);
/* Between two lives: it goes for the next one, it comes back. */
void missing_take(struct storage_run *run);
void missing_give_back(struct storage_run *run);

/* Between two lives: gives up what rotted, of some parts. */
void repair_rest(struct storage_run *run);
/* p was opened: a repair that was interrupted may have cut the end that it was to give up. */
void part_repair_learn_end(struct part *p);

/* Flips a bit of an acknowledged entry of a part that was quiet. */
void rot_plant(struct storage_run *run);
