/* A consumer's fetch session (KIP-227), as a client keeps it, and what must be true of it:
 *
 *   an answer that opens a session names every partition that was asked for
 *   an answer within one names what is new to it, what failed, what is well again, and what
 * changed: whatever it leaves out is as it was last told and nothing else a session goes only with
 * its connection, its broker, its place in the cache, or when it is asked to a wrong epoch, and
 * names for ids, are refused and change nothing
 *
 * That records come at all is checked where positions are: consumers come to the end in sessions,
 * too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/ids.h"
#include "kafka/proto/fetch.h"

#include "tests/sim/history.h"

struct consumer;
struct read_call;
struct read_item;

enum {
    SESSION_TOPICS_MAX = 3,
    SESSION_PARTITIONS_MAX = 4,
    SESSION_NAME_SIZE = 32,
    SESSIONS_MANY = 1000, /* Of a cache that has room for all that a life opens. */
};

/* What a request is to the session. */
enum session_use {
    SESSION_NOT_USED,
    SESSION_OPENS,        /* With all partitions; an older session is closed. */
    SESSION_GOES_ON,      /* With what changed. */
    SESSION_ENDS,         /* With all partitions, once more. */
    SESSION_WRONG_EPOCH,  /* To be refused. */
    SESSION_WRONG_TOPICS, /* To be refused: names for ids, or ids for names. */
};

/* A partition as the session has it. */
struct session_part {
    bool is_in;
    uint32_t life; /* Of the topic. */
    char name[SESSION_NAME_SIZE];
    struct uuid id;
    int64_t offset;         /* As last asked for. */
    int64_t high_watermark; /* As last told; -1 = it has to be told. */
    int64_t start;
};

struct session {
    int32_t id; /* 0 = there is none. */
    int32_t epoch;
    bool is_by_id;
    bool may_vanish; /* Somebody else has closed it. */
    uint32_t connection;
    int32_t old_id; /* A session that may still be there, to be closed. */
    struct session_part parts[SESSION_TOPICS_MAX][SESSION_PARTITIONS_MAX];
};

/* Draws what the request is, with its version. Within a session, the call's items become those of
 * the session, and those that the request names are marked. */
void session_plan(struct read_call *rc);
/* The rest of the request: session and forgotten partitions. */
void session_fill(struct read_call *rc, struct fetch_request *request);

/* The answer. False: the request was refused, as it should be. */
bool session_take_error(struct read_call *rc, const struct fetch_response *response);
void session_take(struct read_call *rc,
                  const struct read_item *item,
                  const struct fetch_response_partition *answer);
void session_end_answer(struct read_call *rc, const struct fetch_response *response);
/* There was none. */
void session_lost_answer(struct read_call *rc);
