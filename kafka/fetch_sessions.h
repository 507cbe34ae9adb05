/* Fetch sessions (KIP-227): what a consumer reads is remembered, so that its requests and our
 * answers name only what changed. A bounded cache; who gets no session sends everything each time,
 * which is as right and takes more bytes.
 *
 * A session belongs to the shard that opened it, and its id says which that is: a client that comes
 * back on another shard is told that there is no such session, and opens a new one.
 *
 *   full request (epoch 0) -> opened at its answer -> incremental requests (epoch 1, 2, ...) ->
 * closed by epoch 0 or -1, by having no partition left, or by another session that is worth more
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/ids.h"
#include "core/list.h"
#include "core/rand.h"
#include "core/slice.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"

enum {
    FETCH_SESSION_NONE = 0, /* An id. */
    FETCH_SESSION_EPOCH_FINAL = -1,
    FETCH_SESSION_EPOCH_INITIAL = 0,
    /* Memory for the sessions of a shard; beyond it nobody gets one. */
    FETCH_SESSIONS_SIZE_MAX = 16 << 20,
    /* What eviction_us should be: a session that was not used for so long makes room for any other;
     * one that is older than this for a larger one (min.incremental.fetch.session.eviction.ms of
     * Kafka). */
    FETCH_SESSION_EVICTION_MS = 120000,
};

struct fetch_sessions;

struct fetch_session_part {
    struct list link;                  /* In the session's order. */
    struct fetch_session_part *next;   /* In its bucket. */
    struct fetch_request_partition in; /* As last asked for. */
    int64_t high_watermark;            /* As last answered; -1 = to be told again. */
    int64_t log_start_offset;
    struct uuid topic_id; /* Zero if the session names topics. */
    size_t topic_size;
    char topic[]; /* Else empty. */
};

struct fetch_session {
    struct list lru; /* Least recently used first. */
    int32_t id;
    int32_t epoch;   /* That the next request must have. */
    uint64_t serial; /* Of this shard's sessions; ids and epochs come again, this does not. */
    bool is_by_id;   /* Topics have ids (Fetch v13), else names. */
    uint64_t created_us;
    uint64_t used_us;
    struct list parts; /* In the order in which they are read. */
    uint32_t parts_count;
    struct fetch_session_part **buckets;
    uint32_t buckets_count; /* A power of two. */
    size_t size;            /* Memory it takes. */
};

struct fetch_sessions_options {
    uint16_t shard_id;
    uint32_t sessions_max; /* 0 = nobody gets one. */
    uint64_t eviction_us;
    uint64_t hash_seed;
    struct rand *rand; /* For ids. */
};

/* NULL without memory. */
struct fetch_sessions *fetch_sessions_new(const struct fetch_sessions_options *options);
/* Accepts NULL. */
void fetch_sessions_free(struct fetch_sessions *fs);
uint32_t fetch_sessions_count(const struct fetch_sessions *fs);

/* NULL if there is none of that id (any more). */
struct fetch_session *fetch_sessions_find(struct fetch_sessions *fs, int32_t id);
void fetch_sessions_close(struct fetch_sessions *fs, struct fetch_session *session);

/* A session for parts_count partitions, none of which it has yet; NULL if there is no room. */
struct fetch_session *fetch_sessions_open(struct fetch_sessions *fs,
                                          bool is_by_id,
                                          uint32_t parts_count,
                                          uint64_t now_us);

/* What an incremental request says of its session: partitions added, changed and forgotten. The
 * epoch moves on. KAFKA_NONE; INVALID_FETCH_SESSION_EPOCH and FETCH_SESSION_TOPIC_ID_ERROR leave
 * the session as it was; FETCH_SESSION_ID_NOT_FOUND: there was no memory for it, and it is closed.
 */
enum kafka_error fetch_session_update(struct fetch_sessions *fs,
                                      struct fetch_session *session,
                                      const struct fetch_request *in,
                                      bool is_by_id,
                                      uint64_t now_us);

/* Adds a partition, or changes what is asked for of one. Others that nobody used for long give
 * their memory up for it. NULL without memory, or room. */
struct fetch_session_part *fetch_session_put(struct fetch_sessions *fs,
                                             struct fetch_session *session,
                                             const struct fetch_request_topic *topic,
                                             const struct fetch_request_partition *in,
                                             uint64_t now_us);

/* Whether an incremental answer has to name the partition; notes what it says. A partition that
 * gave records moves behind the others. */
bool fetch_session_take(struct fetch_session *session,
                        struct fetch_session_part *part,
                        const struct fetch_response_partition *out);

/* All invariants. */
void fetch_sessions_check(const struct fetch_sessions *fs);
