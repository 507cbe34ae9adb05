/* Offsets by time: ListOffsets. */
#include <stdlib.h>

#include "client/client_leaders.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/list_offsets.h"

static void *new_request(struct client_leaders *x,
                         const struct client_leaders_part *const *parts,
                         size_t parts_count)
{
    struct list_offsets_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct list_offsets_request_topic *t = arena_alloc(&x->arena, sizeof(*t));
    struct list_offsets_request_partition *partitions =
        arena_alloc_array(&x->arena, parts_count, sizeof(*partitions));
    if (request == NULL || t == NULL || partitions == NULL) {
        return NULL;
    }
    list_offsets_request_init(request);
    request->replica_id = -1;
    request->timeout_ms = (int32_t)x->client->timeout_ms;
    request->topics = t;
    request->topics_count = 1;
    list_offsets_request_topic_init(t);
    t->name = slice_of_string(x->topic.name);
    t->partitions = partitions;
    t->partitions_count = parts_count;
    for (size_t i = 0; i < parts_count; i++) {
        list_offsets_request_partition_init(&partitions[i]);
        partitions[i].partition_index = parts[i]->partition;
        partitions[i].timestamp = parts[i]->question;
    }
    return request;
}

static void *new_response(struct client_leaders *x)
{
    struct list_offsets_response *response = arena_alloc(&x->arena, sizeof(*response));
    if (response != NULL) {
        list_offsets_response_init(response);
    }
    return response;
}

static void read_response(struct client_leaders *x, const void *message)
{
    const struct list_offsets_response *response = message;
    for (size_t i = 0; i < response->topics_count; i++) {
        const struct list_offsets_response_topic *t = &response->topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            const struct list_offsets_response_partition *p = &t->partitions[j];
            client_leaders_take(x, p->partition_index, p->error_code, p->offset);
        }
    }
}

static const struct client_leaders_api find_offsets = {
    .api_key = API_LIST_OFFSETS,
    .failing = "cannot find an offset in",
    .new_request = new_request,
    .new_response = new_response,
    .read_response = read_response,
};

enum err client_find_offsets(struct client *c,
                             const char *topic,
                             struct client_offset *offsets,
                             size_t offsets_count)
{
    struct client_leaders_part *parts = calloc(offsets_count + 1, sizeof(*parts));
    for (size_t i = 0; i < offsets_count; i++) {
        offsets[i].err = ERR_BUSY;
    }
    if (parts == NULL) {
        return client_fail(c, ERR_BUSY, "no memory to look for offsets");
    }
    for (size_t i = 0; i < offsets_count; i++) {
        parts[i].partition = offsets[i].partition;
        parts[i].question = offsets[i].timestamp;
    }
    enum err e = client_leaders_ask(c, &find_offsets, topic, parts, offsets_count);
    for (size_t i = 0; i < offsets_count; i++) {
        offsets[i].err = parts[i].err;
        if (parts[i].err == ERR_OK) {
            offsets[i].offset = parts[i].answer;
        }
    }
    free(parts);
    return e;
}
