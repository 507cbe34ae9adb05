/* Requests through the whole broker: from the bytes of a frame to the bytes of its answer, with the
 * loop's turns, the log, the flush round and its completions. One connection and one request at a
 * time, unless the case says otherwise. Versions are those that today's clients speak.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/produce.h"
#include "storage/batch.h"

#include "perf/micro/micro.h"
#include "perf/micro/node.h"

enum {
    PRODUCE_VERSION = 13,
    FETCH_VERSION = 17,
    METADATA_VERSION = 13,

    OPS_COUNT = 200,
    WARM_COUNT = 50,
    TOGETHER_COUNT = 32, /* Connections whose produces share a flush. */

    VALUE_SIZE = 100,
    RECORDS_MORE = 100,
    RECORDS_LARGE = 600, /* About 64 KiB. */
    BATCH_SIZE_MAX = 1 << 20,
    ARENA_SIZE_MAX = 16 << 20,
    PRODUCER_ID = 4711,
};

/* One case: the same request, or one that prepare changes, over conns_count connections. */
struct task_of_case {
    const char *name;
    const struct schema_api *api;
    int16_t version;
    uint32_t conns_count;
    struct slice frame;
    void (*prepare)(struct task_of_case *t); /* NULL: the frame stays. */
    void (*check)(const struct task_of_case *t, const void *response);
    struct uuid topic_id;
    uint32_t number;     /* Of the request. */
    int32_t session_id;  /* Of a fetch session. */
    size_t records_size; /* What a fetch has to bring, at least. */
};

static struct slice keep_frame(struct slice old, struct slice frame)
{
    free((void *)(uintptr_t)old.data);
    return frame;
}

/* ---- produce ---- */

static void make_batch(struct wbuf *w, int records_count, const struct batch_identity *identity)
{
    static const uint8_t value[VALUE_SIZE] = "value";
    struct batch_builder b;
    batch_builder_init(&b, BATCH_SIZE_MAX);
    for (int i = 0; i < records_count; i++) {
        const struct batch_record record = {
            .timestamp = 1700000000000 + i,
            .value = slice_of(value, sizeof(value)),
        };
        enum err e = batch_builder_add(&b, &record);
        assert_cmp(e, ==, ERR_OK);
    }
    wbuf_init(w, BATCH_SIZE_MAX);
    enum err e = batch_builder_finish(&b, CODEC_NONE, identity, w);
    assert_cmp(e, ==, ERR_OK);
    batch_builder_done(&b);
}

static void
make_produce(struct task_of_case *t, int records_count, const struct batch_identity *identity)
{
    struct wbuf batch;
    make_batch(&batch, records_count, identity);
    struct produce_request request;
    struct produce_request_topic topic;
    struct produce_request_partition partition;
    produce_request_init(&request);
    produce_request_topic_init(&topic);
    produce_request_partition_init(&partition);
    partition.records = wbuf_slice(&batch);
    topic.topic_id = t->topic_id;
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    request.acks = -1;
    request.timeout_ms = 30000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    t->frame = keep_frame(t->frame, node_request(t->api, t->version, &request));
    wbuf_done(&batch);
}

static const struct batch_identity NOBODY = {-1, -1, -1};

static void make_produce_next(struct task_of_case *t)
{
    const struct batch_identity identity = {PRODUCER_ID, 0, (int32_t)t->number};
    make_produce(t, 1, &identity);
}

static void check_produce(const struct task_of_case *t, const void *response)
{
    (void)t;
    const struct produce_response *r = response;
    assert_cmp(r->responses_count, ==, 1);
    assert_cmp(r->responses[0].partition_responses[0].error_code, ==, 0);
}

/* ---- fetch ---- */

static void fill_fetch(struct fetch_request *request)
{
    fetch_request_init(request);
    request->max_wait_ms = 500;
    request->min_bytes = 1;
    request->max_bytes = 50 << 20;
}

/* Of the only batch, again and again. */
static void make_fetch(struct task_of_case *t, int32_t session_epoch)
{
    struct fetch_request request;
    struct fetch_request_topic topic;
    struct fetch_request_partition partition;
    fill_fetch(&request);
    fetch_request_topic_init(&topic);
    fetch_request_partition_init(&partition);
    partition.fetch_offset = 0;
    partition.partition_max_bytes = 1 << 20;
    topic.topic_id = t->topic_id;
    topic.partitions = &partition;
    topic.partitions_count = 1;
    request.session_epoch = session_epoch;
    request.topics = &topic;
    request.topics_count = 1;
    t->frame = keep_frame(t->frame, node_request(t->api, t->version, &request));
}

/* The first request makes the session, the others go on in it with the offset where it was, as a
 * consumer would that got nothing. */
static void make_fetch_next(struct task_of_case *t)
{
    if (t->number == 0) {
        make_fetch(t, 0);
        return;
    }
    struct fetch_request request;
    fill_fetch(&request);
    request.session_id = t->session_id;
    request.session_epoch = (int32_t)t->number;
    t->frame = keep_frame(t->frame, node_request(t->api, t->version, &request));
}

static void check_fetch(const struct task_of_case *t, const void *response)
{
    const struct fetch_response *r = response;
    assert_cmp(r->error_code, ==, 0);
    assert_cmp(r->responses_count, ==, 1);
    const struct fetch_response_partition *p = &r->responses[0].partitions[0];
    assert_cmp(p->error_code, ==, 0);
    assert_cmp(p->records.size, >=, t->records_size);
}

/* ---- metadata ---- */

static void make_metadata(struct task_of_case *t)
{
    struct metadata_request request;
    struct metadata_request_topic topic;
    metadata_request_init(&request);
    metadata_request_topic_init(&topic);
    topic.topic_id = t->topic_id;
    request.topics = &topic;
    request.topics_count = 1;
    t->frame = keep_frame(t->frame, node_request(t->api, t->version, &request));
}

static void check_metadata(const struct task_of_case *t, const void *response)
{
    (void)t;
    const struct metadata_response *r = response;
    assert_cmp(r->topics_count, ==, 1);
    assert_cmp(r->topics[0].error_code, ==, 0);
    assert_cmp(r->topics[0].partitions_count, ==, 1);
}

/* ---- how a case runs ---- */

static void check(struct task_of_case *t, const struct wire_conn *c)
{
    struct arena a;
    arena_init(&a, ARENA_SIZE_MAX);
    const void *response = node_answer(c, t->api, t->version, &a);
    t->check(t, response);
    if (t->api->key == API_FETCH) {
        t->session_id = ((const struct fetch_response *)response)->session_id;
    }
    arena_done(&a);
}

static void
run_requests(struct node *n, struct task_of_case *t, struct wire_conn **conns, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (t->prepare != NULL) {
            t->prepare(t);
        }
        for (uint32_t k = 0; k < t->conns_count; k++) {
            wire_request(conns[k], t->frame);
        }
        node_run(n);
        for (uint32_t k = 0; k < t->conns_count; k++) {
            check(t, conns[k]);
        }
        t->number++;
    }
}

static void run_case(struct node *n, struct task_of_case *t)
{
    struct wire_conn *conns[TOGETHER_COUNT];
    t->conns_count = t->conns_count == 0 ? 1 : t->conns_count;
    assert_cmp(t->conns_count, <=, TOGETHER_COUNT);
    for (uint32_t k = 0; k < t->conns_count; k++) {
        conns[k] = wire_dial(&n->wire);
    }
    run_requests(n, t, conns, WARM_COUNT);
    micro_begin();
    const uint32_t rounds = OPS_COUNT / t->conns_count;
    run_requests(n, t, conns, rounds);
    micro_end(t->name, rounds * t->conns_count);
    for (uint32_t k = 0; k < t->conns_count; k++) {
        wire_hang_up(conns[k]);
    }
    node_run(n);
    free((void *)(uintptr_t)t->frame.data);
}

/* A topic of its own, so that cases do not depend on each other. */
static struct uuid new_topic(struct node *n, const char *name)
{
    struct uuid id;
    struct wire_conn *c = wire_dial(&n->wire);
    node_create_topic(n, c, name, &id);
    wire_hang_up(c);
    node_run(n);
    return id;
}

static struct task_of_case produce_case(struct node *n, const char *name, int records_count)
{
    struct task_of_case t = {
        .name = name,
        .api = schema_api_find(API_PRODUCE),
        .version = PRODUCE_VERSION,
        .check = check_produce,
        .topic_id = new_topic(n, name),
    };
    make_produce(&t, records_count, &NOBODY);
    return t;
}

static void produce_cases(struct node *n)
{
    struct task_of_case t = produce_case(n, "produce", 1);
    run_case(n, &t);
    t = produce_case(n, "produce_more_records", 1 + RECORDS_MORE);
    run_case(n, &t);
    t = produce_case(n, "produce_together", 1);
    t.conns_count = TOGETHER_COUNT;
    run_case(n, &t);
    t = produce_case(n, "produce_idempotent", 1);
    t.prepare = make_produce_next;
    run_case(n, &t);
}

/* A topic with one batch, which is fetched. */
static struct task_of_case fetch_case(struct node *n, const char *name, int records_count)
{
    struct task_of_case produce = produce_case(n, name, records_count);
    struct wire_conn *c = wire_dial(&n->wire);
    produce.conns_count = 1;
    run_requests(n, &produce, &c, 1);
    wire_hang_up(c);
    node_run(n);
    free((void *)(uintptr_t)produce.frame.data);
    struct task_of_case t = {
        .name = name,
        .api = schema_api_find(API_FETCH),
        .version = FETCH_VERSION,
        .check = check_fetch,
        .topic_id = produce.topic_id,
        .records_size = (size_t)records_count * VALUE_SIZE,
    };
    make_fetch(&t, -1);
    return t;
}

static void fetch_cases(struct node *n)
{
    struct task_of_case t = fetch_case(n, "fetch", 1);
    run_case(n, &t);
    t = fetch_case(n, "fetch_session", 1);
    t.prepare = make_fetch_next;
    run_case(n, &t);
    t = fetch_case(n, "fetch_by_reference", RECORDS_LARGE);
    run_case(n, &t);
}

void node_cases(void)
{
    static struct node n;
    node_init(&n);
    produce_cases(&n);
    fetch_cases(&n);
    struct task_of_case t = {
        .name = "metadata",
        .api = schema_api_find(API_METADATA),
        .version = METADATA_VERSION,
        .check = check_metadata,
        .topic_id = new_topic(&n, "metadata"),
    };
    make_metadata(&t);
    run_case(&n, &t);
    node_done(&n);
}
