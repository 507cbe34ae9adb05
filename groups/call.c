#include "groups/call.h"

#include <string.h>

#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/delete_groups.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/list_groups.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/proto/sync_group.h"

enum {
    FIRST_SIZE = 512, /* Most answers are small, and a request may have a hundred thousand. */
};

void group_call_init(struct group_call *call, enum group_call_kind kind)
{
    *call = (struct group_call){.kind = kind};
    arena_init_small(&call->arena, GROUP_ANSWER_SIZE_MAX, FIRST_SIZE);
    list_init(&call->link);
}

void group_call_limit(struct group_call *call, size_t size_max)
{
    call->arena.size_max = size_max;
}

size_t group_call_size(const struct group_call *call)
{
    return call->arena.used_size;
}

void group_call_done(struct group_call *call)
{
    arena_done(&call->arena);
    call->out = NULL;
}

bool group_call_lacks_memory(const struct group_call *call)
{
    return call->arena.is_without_memory;
}

void *group_call_alloc(struct group_call *call, size_t count, size_t size)
{
    void *memory = arena_alloc_array(&call->arena, count, size);
    if (memory == NULL) {
        call->is_out_of_memory = true;
        call->out = NULL;
    }
    return memory;
}

struct slice group_call_copy(struct group_call *call, struct slice text)
{
    if (slice_is_null(text)) {
        return text;
    }
    uint8_t *bytes = group_call_alloc(call, text.size, 1);
    if (bytes == NULL) {
        return (struct slice){0};
    }
    if (text.size > 0) {
        memcpy(bytes, text.data, text.size);
    }
    return slice_of(bytes, text.size);
}

/* ---- refusals, by kind ---- */

static void *refuse_join(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    const struct join_group_request *in = call->in;
    struct join_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out == NULL) {
        return NULL;
    }
    join_group_response_init(out);
    out->error_code = e;
    out->member_id = in->member_id;
    /* Null only where the client can read it. */
    out->protocol_name = call->version >= 7 ? (struct slice){0} : slice_of("", 0);
    return out;
}

static void *refuse_sync(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct sync_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        sync_group_response_init(out);
        out->error_code = e;
    }
    return out;
}

static void *refuse_heartbeat(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct heartbeat_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        heartbeat_response_init(out);
        out->error_code = e;
    }
    return out;
}

static void *refuse_leave(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct leave_group_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        leave_group_response_init(out);
        out->error_code = e;
    }
    return out;
}

/* OffsetCommit has no error but those of partitions. */
static void *refuse_commit(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    const struct offset_commit_request *in = call->in;
    struct offset_commit_response *out = group_call_alloc(call, 1, sizeof(*out));
    struct offset_commit_response_topic *topics =
        group_call_alloc(call, in->topics_count, sizeof(*topics));
    if (out == NULL || topics == NULL) {
        return NULL;
    }
    offset_commit_response_init(out);
    out->topics = topics;
    out->topics_count = in->topics_count;
    for (size_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct offset_commit_response_topic *to = &topics[i];
        offset_commit_response_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions_count = from->partitions_count;
        to->partitions = group_call_alloc(call, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL) {
            return NULL;
        }
        for (size_t j = 0; j < from->partitions_count; j++) {
            offset_commit_response_partition_init(&to->partitions[j]);
            to->partitions[j].partition_index = from->partitions[j].partition_index;
            to->partitions[j].error_code = e;
        }
    }
    return out;
}

static void *refuse_fetch(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct offset_fetch_response_group *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        offset_fetch_response_group_init(out);
        out->group_id = call->group_id;
        out->error_code = e;
    }
    return out;
}

static void *refuse_delete_offsets(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct offset_delete_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        offset_delete_response_init(out);
        out->error_code = e;
    }
    return out;
}

static void *refuse_describe(struct group_call *call, int16_t e, struct slice text)
{
    struct describe_groups_response_group *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        describe_groups_response_group_init(out);
        out->group_id = call->group_id;
        out->error_code = e;
        out->error_message = call->version >= 6 ? text : (struct slice){0};
    }
    return out;
}

static void *refuse_delete(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct delete_groups_response_result *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        delete_groups_response_result_init(out);
        out->group_id = call->group_id;
        out->error_code = e;
    }
    return out;
}

static void *refuse_list(struct group_call *call, int16_t e, struct slice text)
{
    (void)text;
    struct list_groups_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        list_groups_response_init(out);
        out->error_code = e;
    }
    return out;
}

static void *refuse_consumer_heartbeat(struct group_call *call, int16_t e, struct slice text)
{
    struct consumer_group_heartbeat_response *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        consumer_group_heartbeat_response_init(out);
        out->error_code = e;
        out->error_message = text;
    }
    return out;
}

static void *refuse_consumer_describe(struct group_call *call, int16_t e, struct slice text)
{
    struct consumer_group_describe_response_group *out = group_call_alloc(call, 1, sizeof(*out));
    if (out != NULL) {
        consumer_group_describe_response_group_init(out);
        out->group_id = call->group_id;
        out->error_code = e;
        out->error_message = text;
    }
    return out;
}

static void *(*const REFUSALS[GROUP_CALL_KIND_COUNT])(struct group_call *call,
                                                      int16_t e,
                                                      struct slice text) = {
    [GROUP_JOIN] = refuse_join,
    [GROUP_SYNC] = refuse_sync,
    [GROUP_HEARTBEAT] = refuse_heartbeat,
    [GROUP_LEAVE] = refuse_leave,
    [GROUP_COMMIT] = refuse_commit,
    [GROUP_FETCH] = refuse_fetch,
    [GROUP_DELETE_OFFSETS] = refuse_delete_offsets,
    [GROUP_DESCRIBE] = refuse_describe,
    [GROUP_DELETE] = refuse_delete,
    [GROUP_LIST] = refuse_list,
    [GROUP_CONSUMER_HEARTBEAT] = refuse_consumer_heartbeat,
    [GROUP_CONSUMER_DESCRIBE] = refuse_consumer_describe,
};

void group_call_refuse(struct group_call *call, enum kafka_error e, struct slice text)
{
    const struct slice copy = group_call_copy(call, text);
    void *out = REFUSALS[call->kind](call, (int16_t)e, copy);
    call->out = call->is_out_of_memory ? NULL : out;
}

void group_call_refuse_missing(struct group_call *call, bool lacks_memory)
{
    arena_done(&call->arena);
    arena_init_small(&call->arena, GROUP_ANSWER_SIZE_MAX, FIRST_SIZE);
    call->is_out_of_memory = false;
    const char *text = lacks_memory ? "There is no memory for the answer now."
                                    : "The answer is too large: ask for less at once.";
    group_call_refuse(call,
                      lacks_memory ? KAFKA_COORDINATOR_NOT_AVAILABLE : KAFKA_INVALID_REQUEST,
                      slice_of_string(text));
}
