/* A broker that coordinates one group with one member, for tests of members: it answers whatever
 * comes, from a state that the test sets, and writes down what came.
 *
 * The topic is "t" (id 7), with FAKE_GROUP_PARTITIONS partitions of which each holds so many
 * records; their values are their offsets. The trace has a word for each request, in order:
 *
 *     find                            FindCoordinator
 *     join t                          a heartbeat of epoch 0, with what is subscribed
 *     join t like u.* by range at r   ... with a pattern, an assignor, a rack
 *     beat 3                          a heartbeat of epoch 3
 *     beat 3 owns 0,1                 ... that says what is owned (nothing: "-")
 *     leave -1
 *     fetch 0,1                       OffsetFetch
 *     commit 3 0@10,1@5               OffsetCommit of epoch 3
 *
 * Metadata, ListOffsets and Fetch are not in it.
 */
#pragma once

#include "tests/unit/client/fake_broker.h"

enum {
    FAKE_GROUP_PARTITIONS = 4,
    FAKE_GROUP_INTERVAL_MS = 5000,
    FAKE_GROUP_TRACE_SIZE = 1 << 16,
};

struct fake_group {
    struct fake_broker broker;
    int32_t epoch;     /* That the member is given. */
    uint32_t assigned; /* A bit for each partition. */
    bool is_assignment_due;
    bool is_mute;    /* Heartbeats are not answered. */
    bool is_keeping; /* Those without news are answered when something else comes. */
    struct fake_request kept;
    bool has_kept;
    int32_t coordinator; /* Its port is FAKE_PORT - FAKE_NODE_ID + this. */
    int64_t committed[FAKE_GROUP_PARTITIONS];
    int64_t starts[FAKE_GROUP_PARTITIONS]; /* What is before is gone. */
    int64_t ends[FAKE_GROUP_PARTITIONS];
    size_t more_batches; /* In one answer than one, of ten records each. */
    uint32_t timeless;   /* Whose records were written without a time, a bit for each. */
    uint32_t stuck;      /* Of which nothing is read, as of a slow disk. */
    uint32_t damaged;    /* Whose batches fail their check. */
    uint32_t refused;    /* Whose offsets are not taken, as refused_code says. */
    int16_t refused_code;
    struct fake_request held; /* A Fetch that found nothing. */
    uint64_t held_until_us;   /* 0: there is none. */
    /* The next answer of this api is this code; or the connection ends instead. */
    int16_t failing_api;
    int16_t failing_code;
    size_t failing_count;
    size_t faults_of;          /* One in so many requests goes wrong by chance; 0: none. */
    int64_t list_offsets_time; /* That was asked for last. */
    bool has_gone_back;        /* A commit was below the one before. */
    char member_id[64];        /* As the last join had it. */
    char trace[FAKE_GROUP_TRACE_SIZE];
    size_t trace_size;
};

void fake_group_init(struct fake_group *g);
void fake_group_done(struct fake_group *g);
struct client *fake_group_client(struct fake_group *g);

/* From the next heartbeat on. */
void fake_group_assign(struct fake_group *g, int32_t epoch, uint32_t partitions);
/* The next answers of an api, so many; code KAFKA_NONE: the connection ends instead. */
void fake_group_fail(struct fake_group *g, int16_t api_key, int16_t code, size_t count);
/* Answers the heartbeat that is kept, and keeps none any more. */
void fake_group_release(struct fake_group *g);
/* More records. */
void fake_group_grow(struct fake_group *g, int32_t partition, int64_t count);
/* Compares what came since the last look, and forgets it. */
void fake_group_expect(struct fake_group *g, const char *wanted);
