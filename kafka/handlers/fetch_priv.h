/* What the files of Fetch share: the task, its parts, and the steps that need a file of their own.
 *
 * Shard: the request's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "core/buf.h"
#include "core/timer.h"
#include "kafka/proto/fetch.h"
#include "kafka/request.h"

enum {
    FETCH_VERSION_SESSIONS = 7,
    FETCH_VERSION_IDS = 13,
    /* Larger reads travel by reference, smaller ones are copied into the answer. */
    FETCH_COPY_SIZE_MAX = 16 << 10,
    /* Pieces for the reads of a round. A read by reference takes its pieces and one before them, at
     * least two. With more than 20 of them each has one piece: a batch that is all of its part is
     * referred to, the rest is copied (log_pin.c). Four are kept: the answer's length, what stands
     * behind the last read, and two for a first batch that turns out to be large when the others
     * have been read. */
    FETCH_PIECES_MAX = CONN_ANSWER_IOV_MAX - 4,
    FETCH_REFS_MAX = FETCH_PIECES_MAX / 2,
    /* Bytes of one answer that are copied at most. */
    FETCH_COPIED_SIZE_MAX = 4 << 20,
};

enum fetch_part_state {
    PART_FAILED, /* out->error_code is set; nothing more is asked. */
    PART_CHECKING,
    PART_PEEKING,
    PART_PEEKED, /* readable_size is known. */
    PART_WAITING,
    PART_READING,
    PART_READ,
};

struct fetch_part {
    enum fetch_part_state state;
    struct partition_op op;
    struct partition_cancel cancel;
    const struct fetch_request_partition *in;
    struct fetch_response_partition *out;
    size_t readable_size; /* As far as the last look says; may be an estimate. */
    size_t needed_size;   /* A read did not fit: what its first batch takes. */
    struct buf *buf;      /* Holds what was read, as far as it was copied; NULL if none was. */
    struct log_pin *pin;  /* What was read, if not all of it was copied; NULL if it was. */
    size_t size;          /* Bytes read. */
    size_t copied_size;   /* Of them, in buf. */
};

enum fetch_state {
    FETCH_WAIT_ROOM, /* In the memory of requests. */
    FETCH_WAIT_PEEK,
    FETCH_WAIT_DATA,
    FETCH_WAIT_CANCEL,
    FETCH_WAIT_MEMORY,
    FETCH_WAIT_READ,
    FETCH_DONE,
    FETCH_STATE_COUNT,
};

/* What the request is to a session. */
enum fetch_session_use {
    FETCH_WITHOUT_SESSION,
    FETCH_OPENS_SESSION, /* With its answer. */
    FETCH_IN_SESSION,
};

struct fetch {
    uint8_t state; /* enum fetch_state */
    enum fetch_session_use session_use;
    int32_t session_id; /* In a session: its id, and the epoch it has while nobody else asks. */
    int32_t session_epoch;
    uint64_t session_serial;
    size_t session_parts_count; /* Which the request does not name yet, */
    size_t session_size;        /* and what it takes when it does. */
    struct request *request;
    struct fetch_response out;
    struct fetch_part *parts; /* In the order of the request. */
    size_t parts_count;
    size_t ops_pending;     /* Partition operations in flight. */
    size_t cancels_pending; /* Their cancellations. */
    bool is_prepared;       /* It has parts, if it named any. */
    bool is_too_large;      /* For the memory one request may take. */
    bool is_failed;         /* Some part has an error: the answer does not wait. */
    bool is_expired;        /* max_wait_ms passed, or nobody waits any more. */
    bool is_starved;        /* Some part got no memory to be read into. */
    bool is_owner_starved;  /* The shard of some part had none to read with. */
    uint64_t deadline_us;
    struct timer timer;
    struct buf_waiter memory;
};

/* Submits the part's op for the next step; on_done is the task's. */
void fetch_submit(struct fetch *f, struct fetch_part *part, enum partition_op_kind kind);

void fetch_part_fail(struct fetch *f, struct fetch_part *part, enum kafka_error error);
/* The answer says of the partition's offsets what the operation that ended says. */
void fetch_take_offsets(struct fetch_part *part);
void fetch_part_fail_by(struct fetch *f, struct fetch_part *part, enum err e);

/* Gives memory to the parts that have data, in the order of the request, within the limits of the
 * request and of the shard, and starts reading into it. */
void fetch_start_reads(struct fetch *f);

/* After a round of reads: the first part with data gets its first batch whole however large it is,
 * so that a reader always gets ahead. True if another read was started for it. */
bool fetch_start_large_read(struct fetch *f);

/* A read ended. */
void fetch_end_read(struct fetch *f, struct fetch_part *part);

/* The session that the request names. Once, before all else. KAFKA_NONE, or the answer's error. */
enum kafka_error fetch_begin_session(struct fetch *f);
/* In a session: the request's topics become all that it has. Once, before they are looked at.
 * ERR_BUSY: no memory, and nothing was taken, so that it may be tried again. ERR_NOT_FOUND: the
 * session is gone, or somebody else's by now, or too large. */
enum err fetch_fill_session(struct fetch *f);
/* Opens the session, or leaves out of the answer what has not changed in it. */
void fetch_end_session(struct fetch *f);

/* Encodes and sends; the buffers go with it. */
void fetch_answer(struct fetch *f);
