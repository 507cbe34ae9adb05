/* Records deleted at the start of partitions: DeleteRecords. */
#include <stdlib.h>

#include "client/client_leaders.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/delete_records.h"

static void *new_request(struct client_leaders *x,
                         const struct client_leaders_part *const *parts,
                         size_t parts_count)
{
    struct delete_records_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct delete_records_request_topic *t = arena_alloc(&x->arena, sizeof(*t));
    struct delete_records_request_partition *partitions =
        arena_alloc_array(&x->arena, parts_count, sizeof(*partitions));
    if (request == NULL || t == NULL || partitions == NULL) {
        return NULL;
    }
    delete_records_request_init(request);
    request->timeout_ms = (int32_t)x->client->timeout_ms;
    request->topics = t;
    request->topics_count = 1;
    delete_records_request_topic_init(t);
    t->name = slice_of_string(x->topic.name);
    t->partitions = partitions;
    t->partitions_count = parts_count;
    for (size_t i = 0; i < parts_count; i++) {
        delete_records_request_partition_init(&partitions[i]);
        partitions[i].partition_index = parts[i]->partition;
        partitions[i].offset = parts[i]->question;
    }
    return request;
}

static void *new_response(struct client_leaders *x)
{
    struct delete_records_response *response = arena_alloc(&x->arena, sizeof(*response));
    if (response != NULL) {
        delete_records_response_init(response);
    }
    return response;
}

static void read_response(struct client_leaders *x, const void *message)
{
    const struct delete_records_response *response = message;
    for (size_t i = 0; i < response->topics_count; i++) {
        const struct delete_records_response_topic *t = &response->topics[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            const struct delete_records_response_partition *p = &t->partitions[j];
            client_leaders_take(x, p->partition_index, p->error_code, p->low_watermark);
        }
    }
}

static const struct client_leaders_api delete_records = {
    .api_key = API_DELETE_RECORDS,
    .failing = "cannot delete records of",
    .new_request = new_request,
    .new_response = new_response,
    .read_response = read_response,
};

enum err client_delete_records(struct client *c,
                               const char *topic,
                               struct client_deletion *deletions,
                               size_t deletions_count)
{
    struct client_leaders_part *parts = calloc(deletions_count + 1, sizeof(*parts));
    if (parts == NULL) {
        return client_fail(c, ERR_BUSY, "no memory to delete records");
    }
    for (size_t i = 0; i < deletions_count; i++) {
        parts[i].partition = deletions[i].partition;
        parts[i].question = deletions[i].before;
    }
    enum err e = client_leaders_ask(c, &delete_records, topic, parts, deletions_count);
    for (size_t i = 0; i < deletions_count; i++) {
        deletions[i].start = parts[i].is_answered ? parts[i].answer : -1;
    }
    free(parts);
    return e;
}
