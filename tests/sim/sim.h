/* One simulated run: everything that follows from one seed.
 *
 * A run is a process of its own (main.c forks), so that what crashed incarnations leave behind is
 * bounded by the run, and an assertion that fails ends only that run.
 *
 * A crash can come between any two steps: turns of a shard, moves of the clock. A step counter
 * decides, so that crash points are spread over work and not over time.
 */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/disk_sim.h"
#include "core/io_sim.h"
#include "core/rand.h"
#include "core/reached.h"

enum {
    SIM_SHARDS_MAX = 4,
    SIM_MARKS_MAX = 256,
    SIM_KEYS_MAX = 200,               /* Of a compacted log. */
    SIM_STEPS_MAX = 40 * 1000 * 1000, /* A run that needs more is caught in a loop. */
};

enum sim_mode {
    SIM_ANY,     /* One of the next two, as the seed says. */
    SIM_BROKER,  /* A whole broker, clients speak Kafka. */
    SIM_STORAGE, /* Logs and stores, driven directly. */
    SIM_GROUPS,  /* Coordinators of groups over a simulated log that is replicated. */
};

/* Swarm: what this run is like at all. Drawn from the seed before anything else. */
struct sim_swarm {
    uint16_t shards_max;
    uint32_t dirs_count;    /* Data directories, in mode broker. */
    bool are_dirs_breaking; /* One of them, while the broker serves. */
    bool are_dirs_filling;
    bool is_flush_shared;
    uint32_t crashes_max; /* Incarnations after the first. */
    uint64_t steps_per_life;
    uint32_t clean_stop_percent;
    uint32_t quiet_percent; /* Chance that a life gets quiet before it crashes. */
    uint64_t segment_size_max;
    uint32_t fill_step_min;
    uint32_t fill_step_max;
    uint32_t index_interval;
    size_t memory_size; /* Per shard. */
    size_t cache_size_max;
    size_t ahead_size_max; /* Of what is read ahead of lagging readers, per shard; 0 = none. */
    uint32_t ahead_chunk_size_max;
    size_t pinned_size_max;  /* Of what answers may refer to. */
    uint32_t piece_size_min; /* Smaller batches are copied. */
    uint32_t partitions;
    uint32_t partitions_extra; /* Of each topic, that nobody writes to. */
    uint32_t crowd_size;       /* Topics that are created by one request; 0 = none. */
    uint32_t record_size_max;
    uint32_t batch_records_max;
    uint32_t large_one_in; /* A batch much larger than the others; 0 = never. */
    uint32_t cut_weight;
    uint32_t delete_weight;
    uint32_t commit_weight;
    uint64_t recycle_size_max;    /* Of files kept, per shard; 0 = none. */
    uint32_t start_weight;        /* Of moves of the log start. */
    uint32_t compacted_percent;   /* Of logs. */
    uint32_t keys_count;          /* Of a compacted log. */
    uint32_t keys_size_max;       /* Memory of one run of compaction. */
    uint32_t tombstone_percent;   /* Of records with such keys. */
    uint32_t transaction_percent; /* Of the acts of a compacted log that append a batch. */
    uint32_t rot_percent;         /* Chance that a quiet log is damaged on the disk, once. */
    uint32_t repair_percent;      /* Chance that it is given up between two lives. */
    uint32_t mangle_percent;      /* Of what a power loss takes; 0 = drawn at each crash. */
    uint32_t crash_soon_percent;  /* Chance of a crash where leftovers could look valid. */
    uint32_t index_size_max;      /* Of points in memory, per shard. */
    uint32_t checkpoint_size;     /* 0 = none are written. */
    uint32_t state_size_max;      /* Of what else an owner puts in: small in the store, large in a
                                     file. */
    uint32_t missing_percent;     /* Chance that a quiet log loses a file for a life. */
    uint32_t misdirect_percent;   /* Chance that a quiet life has a misdirected write. */
    uint32_t misread_one_in;      /* A read meets the wrong place; 0 = never. */
    uint32_t index_rot_percent;   /* Chance that an index file is spoiled between two lives. */
    uint32_t vote_loss_percent;   /* Chance that the store has no vote of group 0 any more. */
    uint64_t capacity_size;       /* Of the disk at times; 0 = never full. */
    uint32_t sync_fail_one_in;    /* 0 = never, as those below. */
    uint32_t write_fail_one_in;
    uint32_t read_fail_one_in;
    uint32_t short_one_in;
    uint32_t slow_one_in;
    uint32_t slow_read_one_in;
    uint32_t sync_us_max;
    uint32_t transfer_us_max;
    uint64_t pause_us_max;    /* Between two acts of the driver. */
    uint32_t overtake_one_in; /* Of the turns: the clock moves instead, if not far. */
    uint32_t cut_connection_one_in;
    uint32_t alter_percent; /* Of acts of the admin that may alter a topic, or let it grow. */
    uint32_t grow_percent;
    uint32_t defaults_percent;  /* Likewise: or the defaults of all topics. */
    uint32_t session_percent;   /* Of fetches of a client that has, or could have, a session. */
    uint32_t sessions_max;      /* In the broker, per shard. */
    uint32_t store_area_blocks; /* Of a new store; 0 = its default. */
    uint32_t points_size_max;   /* Of one segment's index. */
    int64_t segment_age_ms;     /* INT64_MAX = no roll by time. */
    int64_t segment_jitter_ms;
    uint32_t timestamp_spread_ms;    /* How far those of records are from the clock. */
    uint32_t timestamp_none_percent; /* Records without one. */
    uint32_t compressed_percent;     /* Of batches. */
};

struct sim {
    uint64_t seed;
    enum sim_mode mode;
    bool is_verbose;
    struct rand rand;
    struct sim_swarm swarm;
    struct clock_sim clock;
    struct disk_sim *disk;

    uint64_t steps;
    uint64_t crash_at_step; /* UINT64_MAX = not. */
    sigjmp_buf crash_place; /* Where a crash inside of blocking code goes. */
    bool is_blocking;       /* crash_place is set. */
    bool is_panic_expected; /* A fault was injected that the product answers with a panic. */

    uint64_t trace;
    uint64_t acked; /* Records. */
    uint32_t crashes;
    uint32_t elections;

    struct reached reached;
    const char *marks[SIM_MARKS_MAX]; /* Hit in this run. */
    size_t marks_count;
};

void sim_init(struct sim *sim, uint64_t seed, enum sim_mode mode);
void sim_done(struct sim *sim);

/* Draws the swarm of the mode. */
void sim_draw_swarm(struct sim *sim);
void sim_print_swarm(const struct sim *sim, FILE *out);

/* Folds an event into the trace. */
void sim_trace(struct sim *sim, const char *what, uint64_t a, uint64_t b);

/* As reached() in the product. */
void sim_mark(struct sim *sim, const char *name);
bool sim_has_mark(const struct sim *sim, const char *name);

/* A line on stderr if the run is verbose. */
[[gnu::format(printf, 2, 3)]] void sim_say(struct sim *sim, const char *format, ...);

/* A check failed: says why and how to repeat it, and ends the run. */
[[gnu::format(printf, 2, 3)]] _Noreturn void sim_fail(struct sim *sim, const char *format, ...);

#define sim_check(sim, condition, ...)    \
    do {                                  \
        if (!(condition)) {               \
            sim_fail((sim), __VA_ARGS__); \
        }                                 \
    } while (0)

/* How the crash that is due treats the disk. */
struct disk_sim_crash sim_draw_crash(struct sim *sim);
/* Here a crash would be interesting: if this life is to crash at all, it perhaps comes soon. */
void sim_crash_soon(struct sim *sim, uint64_t steps_max);

/* Counts one step; true if the crash is due now. */
bool sim_step(struct sim *sim);

/* True with the given chance in percent. */
bool sim_chance(struct sim *sim, uint32_t percent);
/* In [low, high]. */
uint64_t sim_between(struct sim *sim, uint64_t low, uint64_t high);
/* In [low, high], each order of magnitude (of the distance to low) as likely as the others. */
uint64_t sim_log_between(struct sim *sim, uint64_t low, uint64_t high);

const char *sim_mode_name(enum sim_mode mode);

/* The modes. Each runs to its end, or fails. */
void storage_mode_run(struct sim *sim);
void broker_mode_run(struct sim *sim);
void groups_mode_run(struct sim *sim);
