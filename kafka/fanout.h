/* One request over many partitions of many topics: each partition is asked on its shard, and the
 * answer leaves when all are done or the request's time is up.
 *
 * A handler says in a struct fanout_kind where topics and partitions stand in its request and its
 * answer; walking them, memory, looking names up, waiting and time are here. Partitions are asked
 * in the order of the request, at most in_flight_max at a time and a bounded number per turn, so
 * that a request over all partitions of a large node neither stalls a shard, its own or another,
 * nor holds memory for more operations than are under way.
 *
 * What was not done in time is called back if it still waits for something, so that neither it nor
 * what it points at stays; what is under way goes on and may still happen. The client is told that
 * it cannot know (ERR_TIMED_OUT). The request lives until the last operation has come home.
 *
 * Shard: the connection's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/err.h"
#include "core/list.h"
#include "core/shard.h"
#include "core/timer.h"
#include "kafka/lookup.h"

struct fanout;
struct request;

enum {
    FANOUT_NO_TIMEOUT = INT32_MIN,
    /* Clients that send 0 expect what Kafka does for one replica: success. Nothing is durable in
     * no time, so that the least wait is long enough for any healthy disk. */
    FANOUT_TIMEOUT_MS_MIN = 1000,

    /* Operations of one request under way at a time, and entries of it looked at in one turn: well
     * under a millisecond of an owner's time and of ours, and enough to hide what a message takes
     * to a shard and home. */
    FANOUT_IN_FLIGHT_MAX = 256,
    /* All are asked before fanout_handle returns: for requests that others of the same connection
     * may overtake from then on. */
    FANOUT_ALL_AT_ONCE = 0,
};

/* The first member of a kind's part, which is zeroed before each use; another partition may use it
 * after on_part, unless all are asked at once. */
struct fanout_part {
    struct partition_op op; /* kind, current_leader_epoch and in are the handler's. */
    void *answer;           /* The partition's, of answer_size bytes. */
    struct partition_cancel cancel;
    struct list link; /* In fanout.idle or .busy. */
    bool is_done;     /* on_part was called. */
};

/* A topic as the request names it. */
struct fanout_topic {
    size_t index; /* Position in the request. */
    struct lookup how;
    size_t partitions_count; /* Of it, in the request. */
    /* What the metadata say of it in this turn; written here. */
    enum kafka_error error;
    const struct topic *topic; /* NULL with an error. */
};

/* What a handler has to say. */
struct fanout_kind {
    size_t state_size; /* Of request.state, whose first member is the struct fanout. */
    size_t part_size;
    size_t answer_size;
    uint32_t in_flight_max; /* FANOUT_IN_FLIGHT_MAX or FANOUT_ALL_AT_ONCE. */

    /* Sets topics_count, and makes ready what the answer has beside its topics' partitions. False
     * at the request's memory limit, as begin_topic. */
    bool (*begin)(struct fanout *f);
    /* how and partitions_count of the topic at index. */
    void (*describe_topic)(const struct fanout *f, size_t index, struct fanout_topic *ret);
    /* Once for each topic, in order and before any partition is asked: answers is the memory of
     * its partitions' answers, zeroed. May be NULL. */
    bool (*begin_topic)(struct fanout *f, const struct fanout_topic *t, void *answers);
    /* Once for each partition: number is its position in the topic. Begins its answer; then
     * fanout_find, and if there is such a partition and nothing against it, fanout_ask. */
    void (*begin_part)(struct fanout *f,
                       const struct fanout_topic *t,
                       size_t number,
                       struct fanout_part *part);
    /* Once for each part asked. e is its op's result, or ERR_TIMED_OUT: then op may be under way,
     * and nothing of it may be looked at. Else it may be asked something again. */
    void (*on_part)(struct fanout *f, struct fanout_part *part, enum err e);
    /* Then once: answers the request. */
    void (*on_all)(struct fanout *f);
};

struct fanout {
    struct request *request;
    const struct fanout_kind *kind;
    size_t topics_count;
    size_t parts_count; /* Partitions of all topics; known in begin_topic. */

    /* Private. */
    struct fanout_topic at; /* The topic the next part belongs to; index is valid always. */
    size_t at_number;       /* The next part's position in it. */
    uint8_t *answers;
    uint8_t *answer_next;
    struct list idle;
    struct list busy;
    struct fanout_part *late; /* For partitions that are not asked any more. */
    bool is_late;             /* Time is up. */
    bool is_answered;         /* And all were told. */
    bool is_posted;
    struct task walk;
    struct timer timer;
};

/* The whole handler: asks all, waits, answers. timeout_ms as the client sent it, or
 * FANOUT_NO_TIMEOUT. */
void fanout_handle(struct request *r, const struct fanout_kind *kind, int32_t timeout_ms);

/* In begin_part: the partition of that number in the topic. */
enum kafka_error
fanout_find(const struct fanout_topic *t, int32_t partition, struct fanout_part *part);
/* In begin_part or on_part, as their last act. */
void fanout_ask(struct fanout *f, struct fanout_part *part);
