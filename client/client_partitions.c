/* Topics get more partitions: CreatePartitions. */
#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/create_partitions.h"

enum err client_create_partitions(struct client *c,
                                  const char *topic,
                                  int32_t partitions_count,
                                  struct client_topic_result *ret_result)
{
    struct arena arena;
    arena_init(&arena, CLIENT_ARENA_SIZE_MAX);
    struct create_partitions_request_topic t;
    create_partitions_request_topic_init(&t);
    t.name = slice_of_string(topic);
    t.count = partitions_count;
    t.assignments = NULL; /* The broker chooses. */
    struct create_partitions_request request;
    create_partitions_request_init(&request);
    request.topics = &t;
    request.topics_count = 1;
    request.timeout_ms = (int32_t)c->timeout_ms;
    struct create_partitions_response response;
    create_partitions_response_init(&response);
    struct client_call call = {
        .api_key = API_CREATE_PARTITIONS,
        .node_id = CLIENT_NODE_ANY,
        .request = &request,
        .arena = &arena,
        .response = &response,
    };
    enum err e = client_ask(c, &call);
    if (e == ERR_OK) {
        client_init_results(ret_result, 1);
        for (size_t i = 0; i < response.results_count; i++) {
            const struct create_partitions_response_result *r = &response.results[i];
            if (slice_equal_string(r->name, topic)) {
                client_set_result(ret_result, r->error_code, r->error_message);
            }
        }
    }
    client_call_done(&call);
    arena_done(&arena);
    return e;
}
