/* One request to the coordinator of one group, and its answer. Requests for several groups are one
 * call per group; the handler puts the answers together.
 *
 * A call speaks the structs of kafka/proto (docs/decisions/0019): `in` is what the client sent,
 * `out` what it will be answered, by kind:
 *
 *   kind               in                                   out
 *   JOIN               join_group_request                   join_group_response
 *   SYNC               sync_group_request                   sync_group_response
 *   HEARTBEAT          heartbeat_request                    heartbeat_response
 *   LEAVE              leave_group_request                  leave_group_response
 *   COMMIT             offset_commit_request                offset_commit_response
 *   FETCH              offset_fetch_request_group (v8+'s)   offset_fetch_response_group
 *   DELETE_OFFSETS     offset_delete_request                offset_delete_response
 *   DESCRIBE           NULL                                 describe_groups_response_group
 *   DELETE             NULL                                 delete_groups_response_result
 *   LIST               list_groups_request                  list_groups_response
 *   CONSUMER_HEARTBEAT consumer_group_heartbeat_request     consumer_group_heartbeat_response
 *   CONSUMER_DESCRIBE  NULL                                 consumer_group_describe_response_group
 *
 * Older layouts of JoinGroup and so on are the same structs with the fields' defaults; `version`
 * says what the client speaks where that makes a difference. FETCH carries topic names, or ids in
 * v10 and later, as in the request.
 *
 * Rules:
 *  1. Everything `in` points to stays valid and unchanged until on_done.
 *  2. `out` and all it points to lies in the call's arena. The coordinator fills it on its shard;
 *     from on_done on it belongs to the caller, who ends it with group_call_done.
 *  3. on_done comes exactly once, on the caller's shard, never inside groups_submit.
 *
 * Shard: the caller's; between submit and on_done the coordinator's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/xmsg.h"
#include "kafka/proto/error_codes.h"

struct coordinator;
struct group;

enum {
    GROUP_ANSWER_SIZE_MAX = 64 << 20, /* Bytes of one answer's structs. */
};

enum group_call_kind {
    GROUP_JOIN,
    GROUP_SYNC,
    GROUP_HEARTBEAT,
    GROUP_LEAVE,
    GROUP_COMMIT,
    GROUP_FETCH,
    GROUP_DELETE_OFFSETS,
    GROUP_DESCRIBE,
    GROUP_DELETE,
    GROUP_LIST,
    GROUP_CONSUMER_HEARTBEAT,
    GROUP_CONSUMER_DESCRIBE,
    GROUP_CALL_KIND_COUNT,
};

struct group_call {
    enum group_call_kind kind;
    int16_t version;
    struct slice group_id;
    struct slice client_id;   /* "" if the client sent none. */
    struct slice client_host; /* As Kafka shows it: "/127.0.0.1". */
    bool is_impatient;        /* Its client may give it up after the interval it was told last. */
    const void *in;
    void (*on_done)(struct group_call *call);
    void *context; /* The caller's. */

    void *out;             /* Never NULL in on_done, unless is_out_of_memory. */
    bool is_out_of_memory; /* The answer does not fit, or there was no memory. */

    /* Private to groups/. */
    struct arena arena;
    struct list link;        /* Of the group's queue, or where a module keeps calls that wait. */
    struct group *group;     /* While it waits there. */
    uint64_t waits_since_us; /* When it came to that queue. */
    void (*on_cancel)(struct group_call *call); /* While a module keeps it: answer it now. */
    void *keeper;                               /* While a module keeps it: the module's. */
    bool is_hurried;                            /* Is not to be kept. */
    bool is_client_gone;                        /* Because nobody waits for it any more. */
    bool was_kept; /* What it said was taken in when it came; it is answered with what there is. */
    bool is_due;   /* It was kept as long as it could be. */
    uint64_t kept_us;                /* Since when, if it was. */
    struct coordinator *coordinator; /* While that has it. */
    struct xmsg msg;
    struct xmsg_hop route[2];
    void *server;
};

/* Zeroed but for the kind; its arena is empty. */
void group_call_init(struct group_call *call, enum group_call_kind kind);
/* The answer may take only so much, instead of GROUP_ANSWER_SIZE_MAX. Before the submit. */
void group_call_limit(struct group_call *call, size_t size_max);
/* Bytes of the answer. */
size_t group_call_size(const struct group_call *call);
/* Frees the answer. */
void group_call_done(struct group_call *call);

/* Whether it was memory that there was none of, so that asking again may help. */
bool group_call_lacks_memory(const struct group_call *call);

/* Zeroed memory of the answer. NULL at the limit, or if there is none; is_out_of_memory is then
 * set. */
[[nodiscard]] void *group_call_alloc(struct group_call *call, size_t count, size_t size);
/* A copy in the answer's memory, for what may change or go before the answer is sent: null stays
 * null. */
struct slice group_call_copy(struct group_call *call, struct slice text);

/* Sets `out` to an answer that says e and nothing else, in the way of the kind and version: in all
 * partitions where the answer has no other place. text: error_message where there is one, may be
 * null; it is copied. */
void group_call_refuse(struct group_call *call, enum kafka_error e, struct slice text);
/* The same, of one that has come home without an answer, or was never submitted: for want of
 * memory, or because its answer does not fit, so that asking again would not help. */
void group_call_refuse_missing(struct group_call *call, bool lacks_memory);
