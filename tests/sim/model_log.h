/* What a log must hold, as plainly as it can be said: an array of entries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/batch.h"
#include "storage/entry.h"

#include "tests/sim/batches.h"
#include "tests/sim/sim.h"

struct model_entry {
    enum entry_type type;
    uint64_t term;
    int64_t base_offset;
    int64_t next_offset;
    int64_t max_timestamp;
    uint8_t *bytes;
    size_t size;
    struct batch_identity identity; /* Of a batch. */
    int64_t *timestamps;            /* Of the records; NULL if none. */
    struct made_record *records;    /* Where keys come again; else NULL. */
    bool is_transactional;          /* Data of a transaction. */
    bool is_marker;                 /* Ends one. */
    bool is_abort;                  /* That way. */
    uint64_t marker_index;          /* Of what ended its transaction; 0 = nothing yet. */
    int64_t start_offset;           /* Of an entry that moves the log start. */
    int64_t committed_ms;           /* Wall time; of what is committed. */
    bool is_rotten;                 /* Damaged, or hidden. */
    bool is_hidden;   /* An open did not find it for what is around it: a read still may. */
    bool is_unseen;   /* Rotten when it was to be replayed: later checkpoints know nothing of it. */
    bool is_gone;     /* An open did not find it, and need not have: nothing is known of it. */
    bool is_empty;    /* It found none of its records. */
    bool is_given_up; /* By the operator, for good; if it is rotten, then perhaps. */
};

struct model_log {
    struct model_entry *entries; /* Entry of index i stands at i - 1. */
    uint64_t last_index;
    uint64_t capacity;
    uint64_t flushed_index; /* Acknowledged up to here. */
    uint64_t commit_index;
    uint64_t cut_index;   /* A cut from here on is in flight; 0 = none. */
    int64_t start_offset; /* Of the log, as committed and said to it. */
    bool is_compacted;    /* Then what follows counts; model_keys.h. */
    int64_t delete_retention_ms;
    uint64_t settled_index;            /* No transaction up to here is undecided. */
    int64_t latest_next[SIM_KEYS_MAX]; /* Behind the latest settled record of each key; 0 = none. */
    uint64_t clean_index_max;          /* The log was told that all replicas are clean to here. */
    uint64_t rotten_count;
    uint64_t given_up_count;
    bool is_wounded;      /* By a misdirected write: the next open tells which entries are lost. */
    uint64_t doubt_index; /* But up to here it did not look: a checkpoint covered them. */
};

/* Some entries cannot be read any more, or perhaps not. */
static inline bool model_log_is_damaged(const struct model_log *m)
{
    return m->rotten_count > 0 || m->doubt_index > 0;
}

void model_entry_done(struct model_entry *e);
void model_log_done(struct model_log *m);
/* Takes over e's memory. What it ends is ended. */
void model_log_append(struct model_log *m, const struct model_entry *e);
/* Forgets entries with an index above last_index. */
void model_log_truncate(struct model_log *m, uint64_t last_index);
/* The entries [first_index, end_index) are damaged. */
void model_log_lose(struct model_log *m, uint64_t first_index, uint64_t end_index);
/* An entry that was hidden came back. */
void model_log_reveal(struct model_log *m, uint64_t index);
/* All that is rotten is about to be given up; */
void model_log_offer(struct model_log *m);
/* that was done, to this entry: no start or read meets it any more. */
void model_log_give_up(struct model_log *m, uint64_t index);
/* They are hidden, at least. */
void model_log_hide(struct model_log *m, uint64_t first_index, uint64_t end_index);
const struct model_entry *model_log_at(const struct model_log *m, uint64_t index);
int64_t model_log_next_offset(const struct model_log *m, uint64_t index);

/* The entry that holds offset; NULL beyond the end. Entries without offsets never do. */
const struct model_entry *model_log_find(const struct model_log *m, int64_t offset);
static inline uint64_t model_log_index_of(const struct model_log *m, const struct model_entry *e)
{
    return (uint64_t)(e - m->entries) + 1;
}

/* The largest log start that an entry up to index asks for. */
int64_t model_log_start_up_to(const struct model_log *m, uint64_t index);
/* Entries below first_index went with their segments, and what happened to them, too. What
 * restored_index covers is known all the same. */
void model_log_forget_below(struct model_log *m, uint64_t first_index, uint64_t restored_index);
