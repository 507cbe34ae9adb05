/* Where positions start that were given as a time, as the start or as the end: ListOffsets, one
 * request per leader. */
#include "client/client_consumer.h"
#include "client/client_error.h"
#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/list_offsets.h"

static void take_start(struct client_consumer *s, struct client_position *p, int64_t offset)
{
    if (offset < 0 && p->question >= 0) {
        p->question = CLIENT_OFFSET_END; /* No record is so young. */
        return;
    }
    if (offset < 0) {
        client_position_failed(s, p, ERR_CORRUPT, "the answer leaves out an offset");
        return;
    }
    p->failures = 0;
    p->fetch_offset = offset;
    client_position_follow(s, p);
}

static void take_partition(struct client_consumer *s,
                           struct client_position *p,
                           const struct list_offsets_response_partition *answer)
{
    const int16_t code = answer->error_code;
    if (code == KAFKA_NONE) {
        take_start(s, p, answer->offset);
        return;
    }
    char why[CLIENT_WHY_SIZE];
    enum err e = client_say(why,
                            client_err_of(code),
                            "cannot find an offset in %s[%d]: %s",
                            p->topic->name,
                            p->partition,
                            client_error_text(code));
    if (kafka_error_is_retriable(code)) {
        client_position_failed(s, p, e, why);
    } else {
        client_position_halt(p, e, why);
    }
}

static const struct list_offsets_response_partition *
find_answer(const struct list_offsets_response *response, const struct client_position *p)
{
    for (size_t i = 0; i < response->topics_count; i++) {
        const struct list_offsets_response_topic *t = &response->topics[i];
        const bool is_it = slice_equal_string(t->name, p->topic->name);
        for (size_t j = 0; is_it && j < t->partitions_count; j++) {
            if (t->partitions[j].partition_index == p->partition) {
                return &t->partitions[j];
            }
        }
    }
    return NULL;
}

static void on_answer(struct client_call *call)
{
    struct client_fetch *x = container_of(call, struct client_fetch, call);
    struct client_consumer *s = x->consumer;
    for (size_t i = 0; s != NULL && i < x->asked_count; i++) {
        struct client_position *p = client_fetch_take(x, i);
        const struct list_offsets_response_partition *answer =
            call->err == ERR_OK && p != NULL ? find_answer(x->response, p) : NULL;
        if (p != NULL && answer != NULL) {
            take_partition(s, p, answer);
        } else if (p != NULL) {
            client_position_failed(s,
                                   p,
                                   call->err == ERR_OK ? ERR_CORRUPT : call->err,
                                   call->err == ERR_OK ? "the answer leaves out a partition"
                                                       : call->why);
        }
    }
    client_fetch_free(x);
    if (s != NULL) {
        client_changed(s->client);
    }
}

/* False without memory. */
static bool fill(struct client_fetch *x)
{
    struct client_consumer *s = x->consumer;
    struct list_offsets_request *request = arena_alloc(&x->arena, sizeof(*request));
    struct list_offsets_response *response = arena_alloc(&x->arena, sizeof(*response));
    struct list_offsets_request_topic *topics =
        arena_alloc_array(&x->arena, x->asked_count, sizeof(*topics));
    struct list_offsets_request_partition *partitions =
        arena_alloc_array(&x->arena, x->asked_count, sizeof(*partitions));
    if (request == NULL || response == NULL || topics == NULL || partitions == NULL) {
        return false;
    }
    list_offsets_response_init(response);
    list_offsets_request_init(request);
    request->replica_id = -1;
    request->isolation_level = s->options.is_read_committed;
    request->timeout_ms = (int32_t)s->client->timeout_ms;
    request->topics = topics;
    client_fetch_sort(x);
    for (size_t i = 0; i < x->asked_count; i += client_fetch_run(x, i)) {
        struct list_offsets_request_topic *t = &topics[request->topics_count++];
        list_offsets_request_topic_init(t);
        t->name = client_fetch_name(x, i);
        t->partitions = &partitions[i];
        t->partitions_count = client_fetch_run(x, i);
        if (t->name.data == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < x->asked_count; i++) {
        list_offsets_request_partition_init(&partitions[i]);
        partitions[i].partition_index = x->asked[i].partition;
        partitions[i].timestamp = x->asked[i].question;
    }
    x->request = request;
    x->response = response;
    return true;
}

void client_starts_ask(struct client_consumer *s, int32_t node_id, uint64_t now_us)
{
    struct client *c = s->client;
    struct client_fetch *x = client_fetch_new(s);
    uint64_t ignored = 0;
    for (size_t i = 0; x != NULL && i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->fetch_offset < 0 && p->question != CLIENT_OFFSET_COMMITTED &&
            p->topic->leaders[p->partition] == node_id &&
            client_position_is_due(s, p, now_us, &ignored)) {
            client_fetch_add(x, p);
        }
    }
    if (x == NULL) {
        return;
    }
    if (!fill(x)) {
        for (size_t i = 0; i < x->asked_count; i++) {
            client_position_failed(
                s, client_fetch_take(x, i), ERR_BUSY, "no memory for the request");
        }
        client_fetch_free(x);
        return;
    }
    x->call = (struct client_call){
        .api_key = API_LIST_OFFSETS,
        .node_id = node_id,
        .timeout_ms = c->timeout_ms,
        .request = x->request,
        .arena = &x->arena,
        .response = x->response,
        .on_done = on_answer,
    };
    list_push_back(&s->requests, &x->link);
    client_post(c, &x->call);
}
