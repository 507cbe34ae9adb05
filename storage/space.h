/* Who may still take space on a file system that fills up (DESIGN 4.12): the last bytes are
 * reserved in tiers, so that what frees space, and what needs little, goes on when data no longer
 * may.
 *
 *      ... free ...   |  reserve / 2  |  reserve / 2  |  full
 *   all may           | no data       | control only  | whoever finds a block
 *
 * Rules:
 *  1. Asked before an append that needs space is taken, and before what nothing waits for is
 *     written: zeros ahead of a tail, rewritten segments. What was taken is written: that may go
 *     into the reserve.
 *  2. What is free is what the file system says, at most SPACE_SAMPLE_US ago, less what was taken
 *     since and what is promised: other shards, and other processes, take from the same. The
 *     reserve is not held by a file, so others can use it up; then whoever is refused by the disk
 *     itself tries again, and group 0 lives on what it has filled ahead.
 *  3. A file system that is out of space is told once: one line and a number, and once that it has
 *     some again. Nothing runs while nobody asks.
 *
 * Shard: the owner's. One per (data directory, shard).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shard;

enum space_tier {
    SPACE_DATA,     /* Records of topics, and what rewrites them. */
    SPACE_INTERNAL, /* Records of the broker's own topics. */
    SPACE_CONTROL,  /* Group 0 and the stores. */
    SPACE_TIERS_COUNT,
};

enum {
    SPACE_SAMPLE_US = 100 * 1000,
};

struct space {
    struct shard *s;
    const char *dir;
    uint64_t reserve_size;   /* 0 = none. */
    uint64_t available_size; /* At the last sample; UINT64_MAX before the first. */
    uint64_t taken_size;     /* Since then. */
    uint64_t promised_size;  /* To appends that were taken and wait for their zeros. */
    uint64_t sampled_us;
    bool has_sample;
    bool is_refusing;  /* Data was refused, and not enough has come back since. */
    uint64_t is_short; /* 1: data may not; for the metric. */
    uint64_t refused;
    /* What somebody keeps without need is to be given back (space_is_tight). May come at every
     * sample while it is so, inside of any call. NULL: nobody does. */
    void (*on_tight)(void *context);
    void *tight_context;
};

/* What to reserve on a file system of that size where nobody said: 2 %, between 32 MiB and 1 GiB,
 * and at most a quarter. */
uint64_t space_reserve_default(uint64_t fs_size);

/* dir must outlive it. */
void space_init(struct space *sp, struct shard *s, const char *dir, uint64_t reserve_size);

/* Whether tier may take size more bytes. sp may be NULL: always. */
bool space_may_take(struct space *sp, enum space_tier tier, uint64_t size);
/* Whether there is enough for what nobody waits for yet: a no changes nothing. sp may be NULL. */
bool space_has_spare(struct space *sp, enum space_tier tier, uint64_t size);
/* Bytes that tier may still take, as of the last sample. */
uint64_t space_left(const struct space *sp, enum space_tier tier);
/* What a user was promised, and gets whatever happens, changed. sp may be NULL. */
void space_promise(struct space *sp, uint64_t size_before, uint64_t size);
/* They are being taken. sp may be NULL. */
void space_take(struct space *sp, uint64_t size);
/* Asks the file system now: for pages that show it. */
void space_sample(struct space *sp);
/* The disk itself refused: what names the file or the log. */
void space_exhausted(struct space *sp, const char *what);
/* No more than a second reserve is left above the reserve, or the disk itself refused: as of the
 * last sample. Data is still taken: what is given back now comes before anybody is refused. */
bool space_is_tight(const struct space *sp);
/* Data may not take any, or soon will not: as of the last sample. */
bool space_is_short(const struct space *sp);
