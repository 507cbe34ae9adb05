/* The client with its thread, and several of the program's at once: over a broker that is a thread
 * as well. Real time, but nothing waits for it to pass: each wait ends when something is done.
 * Worth most under ThreadSanitizer. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_group.h"
#include "client/client_priv.h"
#include "core/arena.h"
#include "core/wbuf.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/header.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_fetch.h"
#include "kafka/proto/produce.h"
#include "kafka/proto/schema.h"
#include "storage/batch.h"

enum {
    PARTITIONS = 2,
    CONNECTIONS_MAX = 32,
    MEMBERS = 3,
    FRAME_SIZE_MAX = 1 << 20,
    THREADS = 4,
    RECORDS = 500, /* Of each thread. */
    FOREVER = 60000,
};

/* One thread per connection, as simple as a broker can be: it counts what it takes. */
struct broker {
    struct client_env env;
    struct clock clock;
    struct rand rand;
    pthread_mutex_t lock;
    pthread_t threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX];
    size_t count;
    int64_t ends[PARTITIONS];
    struct wbuf log; /* Of partition 0. */
    int beats_count;
    int commits_count;
};

static struct broker broker;

static bool read_all(int fd, uint8_t *data, size_t size)
{
    while (size > 0) {
        const ssize_t got = read(fd, data, size);
        if (got <= 0) {
            return false;
        }
        data += got;
        size -= (size_t)got;
    }
    return true;
}

/* ---- answers ---- */

static void *answer_versions(struct arena *arena)
{
    struct api_versions_response *r = arena_alloc(arena, sizeof(*r));
    api_versions_response_init(r);
    r->api_keys = arena_alloc_array(arena, SCHEMA_APIS_COUNT, sizeof(*r->api_keys));
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        const struct schema_api *api = SCHEMA_APIS[i];
        api_versions_response_api_key_init(&r->api_keys[i]);
        r->api_keys[i].api_key = api->key;
        r->api_keys[i].min_version = api->version_min;
        r->api_keys[i].max_version = api->version_stable_max;
    }
    r->api_keys_count = SCHEMA_APIS_COUNT;
    return r;
}

static void *answer_metadata(struct arena *arena)
{
    struct metadata_response *r = arena_alloc(arena, sizeof(*r));
    metadata_response_init(r);
    r->brokers = arena_alloc(arena, sizeof(*r->brokers));
    r->brokers_count = 1;
    metadata_response_broker_init(r->brokers);
    r->brokers->node_id = 1;
    r->brokers->host = slice_of_string("fake");
    r->brokers->port = 9092;
    r->topics = arena_alloc(arena, sizeof(*r->topics));
    r->topics_count = 1;
    metadata_response_topic_init(r->topics);
    r->topics->name = slice_of_string("t");
    r->topics->topic_id = (struct uuid){.bytes = {7}};
    r->topics->partitions = arena_alloc_array(arena, PARTITIONS, sizeof(*r->topics->partitions));
    r->topics->partitions_count = PARTITIONS;
    for (int32_t i = 0; i < PARTITIONS; i++) {
        metadata_response_partition_init(&r->topics->partitions[i]);
        r->topics->partitions[i].partition_index = i;
        r->topics->partitions[i].leader_id = 1;
    }
    return r;
}

static void *answer_id(struct arena *arena)
{
    struct init_producer_id_response *r = arena_alloc(arena, sizeof(*r));
    init_producer_id_response_init(r);
    r->producer_id = 1;
    r->producer_epoch = 0;
    return r;
}

static void *answer_produce(struct arena *arena, const struct produce_request *request)
{
    struct produce_response *r = arena_alloc(arena, sizeof(*r));
    const struct produce_request_topic *from = &request->topic_data[0];
    produce_response_init(r);
    r->responses = arena_alloc(arena, sizeof(*r->responses));
    r->responses_count = 1;
    produce_response_topic_init(r->responses);
    r->responses->name = from->name;
    r->responses->topic_id = from->topic_id;
    r->responses->partition_responses_count = from->partition_data_count;
    r->responses->partition_responses = arena_alloc_array(
        arena, from->partition_data_count, sizeof(struct produce_response_partition));
    for (size_t i = 0; i < from->partition_data_count; i++) {
        struct produce_response_partition *p = &r->responses->partition_responses[i];
        const struct slice batch = from->partition_data[i].records;
        struct batch_header h = {0};
        produce_response_partition_init(p);
        (void)batch_header_decode(batch, &h);
        p->index = from->partition_data[i].index;
        p->base_offset = broker.ends[p->index];
        broker.ends[p->index] += h.records_count;
        if (p->index == 0) {
            uint8_t *copy = wbuf_extend(&broker.log, batch.size);
            memcpy(copy, batch.data, batch.size);
            batch_stamp(copy, p->base_offset, 0);
        }
    }
    return r;
}

/* All of partition 0 from the first batch that is not before the offset. */
static void *answer_fetch(struct arena *arena, const struct fetch_request *request)
{
    struct fetch_response *r = arena_alloc(arena, sizeof(*r));
    fetch_response_init(r);
    r->responses = arena_alloc(arena, sizeof(*r->responses));
    r->responses_count = 1;
    fetch_response_topic_init(r->responses);
    r->responses->topic = request->topics[0].topic;
    r->responses->topic_id = request->topics[0].topic_id;
    const size_t count = request->topics[0].partitions_count;
    r->responses->partitions = arena_alloc_array(arena, count, sizeof(*r->responses->partitions));
    r->responses->partitions_count = count;
    for (size_t i = 0; i < count; i++) {
        fetch_response_partition_init(&r->responses->partitions[i]);
        r->responses->partitions[i].partition_index = request->topics[0].partitions[i].partition;
        r->responses->partitions[i].high_watermark = 0;
    }
    if (request->topics[0].partitions[0].partition != 0) {
        return r;
    }
    struct slice log = wbuf_slice(&broker.log);
    struct batch_header h;
    while (batch_header_decode(log, &h) == ERR_OK &&
           h.base_offset + h.last_offset_delta < request->topics[0].partitions[0].fetch_offset) {
        log = slice_of(log.data + batch_size(&h), log.size - batch_size(&h));
    }
    r->responses->partitions->records = log;
    r->responses->partitions->high_watermark = broker.ends[0];
    return r;
}

/* ---- a coordinator that never settles ---- */

static void *answer_coordinator(struct arena *arena, const struct find_coordinator_request *request)
{
    struct find_coordinator_response *r = arena_alloc(arena, sizeof(*r));
    find_coordinator_response_init(r);
    r->coordinators = arena_alloc(arena, sizeof(*r->coordinators));
    r->coordinators_count = 1;
    find_coordinator_response_coordinator_init(r->coordinators);
    r->coordinators->key = request->coordinator_keys[0];
    r->coordinators->node_id = 1;
    r->coordinators->host = slice_of_string("fake");
    r->coordinators->port = 9092;
    return r;
}

/* Each heartbeat brings another assignment, and now and then the member is fenced. */
static void *answer_beat(struct arena *arena,
                         const struct consumer_group_heartbeat_request *request)
{
    static int32_t partitions[] = {0, 1};
    struct consumer_group_heartbeat_response *r = arena_alloc(arena, sizeof(*r));
    struct consumer_group_heartbeat_response_assignment *a = arena_alloc(arena, sizeof(*a));
    struct consumer_group_heartbeat_response_topic_partitions *t = arena_alloc(arena, sizeof(*t));
    const int turn = broker.beats_count++;
    consumer_group_heartbeat_response_init(r);
    consumer_group_heartbeat_response_assignment_init(a);
    consumer_group_heartbeat_response_topic_partitions_init(t);
    t->topic_id = (struct uuid){.bytes = {7}};
    t->partitions = &partitions[turn % 2];
    t->partitions_count = turn % 3 == 0 ? 0 : turn % 2 ? 1 : 2;
    a->topic_partitions = t;
    a->topic_partitions_count = 1;
    r->assignment = a;
    r->heartbeat_interval_ms = 1;
    r->member_epoch = request->member_epoch < 0 ? request->member_epoch : turn + 1;
    const bool is_fenced = turn % 20 == 19 && request->member_epoch > 0;
    r->error_code = is_fenced ? KAFKA_FENCED_MEMBER_EPOCH : KAFKA_NONE;
    return r;
}

static void *answer_offsets(struct arena *arena, const struct offset_fetch_request *request)
{
    const struct offset_fetch_request_group_topic *asked = &request->groups[0].topics[0];
    const size_t count = asked->partition_indexes_count;
    struct offset_fetch_response *r = arena_alloc(arena, sizeof(*r));
    offset_fetch_response_init(r);
    r->groups = arena_alloc(arena, sizeof(*r->groups));
    r->groups_count = 1;
    offset_fetch_response_group_init(r->groups);
    r->groups->group_id = request->groups[0].group_id;
    r->groups->topics = arena_alloc(arena, sizeof(*r->groups->topics));
    r->groups->topics_count = 1;
    offset_fetch_response_group_topic_init(r->groups->topics);
    r->groups->topics->topic_id = asked->topic_id;
    r->groups->topics->partitions =
        arena_alloc_array(arena, count, sizeof(*r->groups->topics->partitions));
    r->groups->topics->partitions_count = count;
    for (size_t i = 0; i < count; i++) {
        struct offset_fetch_response_group_topic_partition *p = &r->groups->topics->partitions[i];
        offset_fetch_response_group_topic_partition_init(p);
        p->partition_index = asked->partition_indexes[i];
        p->committed_offset = -1;
        p->metadata = slice_of_string("");
    }
    return r;
}

static void *answer_commit(struct arena *arena, const struct offset_commit_request *request)
{
    const struct offset_commit_request_topic *asked = &request->topics[0];
    struct offset_commit_response *r = arena_alloc(arena, sizeof(*r));
    offset_commit_response_init(r);
    r->topics = arena_alloc(arena, sizeof(*r->topics));
    r->topics_count = 1;
    offset_commit_response_topic_init(r->topics);
    r->topics->topic_id = asked->topic_id;
    r->topics->partitions =
        arena_alloc_array(arena, asked->partitions_count, sizeof(*r->topics->partitions));
    r->topics->partitions_count = asked->partitions_count;
    for (size_t i = 0; i < asked->partitions_count; i++) {
        offset_commit_response_partition_init(&r->topics->partitions[i]);
        r->topics->partitions[i].partition_index = asked->partitions[i].partition_index;
    }
    broker.commits_count++;
    return r;
}

static void *answer_starts(struct arena *arena, const struct list_offsets_request *request)
{
    const struct list_offsets_request_topic *asked = &request->topics[0];
    struct list_offsets_response *r = arena_alloc(arena, sizeof(*r));
    list_offsets_response_init(r);
    r->topics = arena_alloc(arena, sizeof(*r->topics));
    r->topics_count = 1;
    list_offsets_response_topic_init(r->topics);
    r->topics->name = asked->name;
    r->topics->partitions =
        arena_alloc_array(arena, asked->partitions_count, sizeof(*r->topics->partitions));
    r->topics->partitions_count = asked->partitions_count;
    for (size_t i = 0; i < asked->partitions_count; i++) {
        list_offsets_response_partition_init(&r->topics->partitions[i]);
        r->topics->partitions[i].partition_index = asked->partitions[i].partition_index;
        r->topics->partitions[i].offset = 0;
    }
    return r;
}

static void *answer_to(struct arena *arena, int16_t api_key, const void *request)
{
    switch (api_key) {
    case API_API_VERSIONS:
        return answer_versions(arena);
    case API_METADATA:
        return answer_metadata(arena);
    case API_INIT_PRODUCER_ID:
        return answer_id(arena);
    case API_PRODUCE:
        return answer_produce(arena, request);
    case API_FETCH:
        return answer_fetch(arena, request);
    case API_FIND_COORDINATOR:
        return answer_coordinator(arena, request);
    case API_CONSUMER_GROUP_HEARTBEAT:
        return answer_beat(arena, request);
    case API_OFFSET_FETCH:
        return answer_offsets(arena, request);
    case API_OFFSET_COMMIT:
        return answer_commit(arena, request);
    case API_LIST_OFFSETS:
        return answer_starts(arena, request);
    default:
        return NULL;
    }
}

/* One request; false when the client is gone. */
static bool serve_one(int fd, struct arena *arena)
{
    uint8_t prefix[4];
    if (!read_all(fd, prefix, sizeof(prefix))) {
        return false;
    }
    struct rbuf r = rbuf_over(prefix, sizeof(prefix));
    const uint32_t size = rbuf_u32(&r);
    uint8_t *frame = arena_alloc(arena, size);
    if (frame == NULL || !read_all(fd, frame, size)) {
        return false;
    }
    struct rbuf body = rbuf_over(frame, size);
    struct request_header header;
    enum err e = request_header_decode(&body, &header);
    const struct schema_api *api = schema_api_find(header.api_key);
    void *request = arena_alloc(arena, 4096); /* Larger than any of them. */
    e = e == ERR_OK ? api->request.decode(&body, header.api_version, arena, request) : e;
    struct wbuf w;
    wbuf_init(&w, FRAME_SIZE_MAX);
    wbuf_i32(&w, 0);
    (void)pthread_mutex_lock(&broker.lock);
    void *response = e == ERR_OK ? answer_to(arena, header.api_key, request) : NULL;
    const bool is_ok =
        response != NULL &&
        response_header_encode(&w, header.api_key, header.api_version, header.correlation_id) ==
            ERR_OK &&
        api->response.encode(&w, header.api_version, response) == ERR_OK;
    (void)pthread_mutex_unlock(&broker.lock);
    wbuf_patch_i32(&w, 0, (int32_t)w.size - 4);
    const bool is_sent = is_ok && send(fd, w.data, w.size, MSG_NOSIGNAL) == (ssize_t)w.size;
    wbuf_done(&w);
    return is_sent;
}

static void *serve(void *context)
{
    const int fd = *(int *)context;
    struct arena arena;
    arena_init(&arena, 16 << 20);
    while (serve_one(fd, &arena)) {
        arena_reset(&arena);
    }
    arena_done(&arena);
    return NULL;
}

/* ---- the world ---- */

static const char *resolve(struct client_env *env,
                           const struct client_address *address,
                           struct client_place places[CLIENT_PLACES_MAX],
                           size_t *ret_count)
{
    (void)env;
    (void)address;
    places[0] = (struct client_place){0};
    *ret_count = 1;
    return NULL;
}

static int dial(struct client_env *env, const struct client_place *place, int *ret_fd)
{
    (void)env;
    (void)place;
    int pair[2];
    if (broker.count == CONNECTIONS_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return ECONNREFUSED;
    }
    int *fd = &broker.fds[broker.count];
    *fd = pair[1];
    const int flags = fcntl(pair[0], F_GETFL);
    (void)fcntl(pair[0], F_SETFL, flags | O_NONBLOCK);
    (void)pthread_create(&broker.threads[broker.count++], NULL, serve, fd);
    *ret_fd = pair[0];
    return 0;
}

static struct client *start_client(size_t buffer_size)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    clock_init_real(&broker.clock);
    rand_init_seed(&broker.rand, 1);
    client_env_init(&broker.env, &broker.clock, &broker.rand);
    broker.env.resolve = resolve;
    broker.env.dial = dial;
    (void)pthread_mutex_init(&broker.lock, NULL);
    wbuf_init(&broker.log, 64 << 20);
    const struct client_options options = {.brokers = "fake", .buffer_size = buffer_size};
    cr_assert(client_new_in(&options, &broker.env, why, &c) == ERR_OK, "%s", why);
    cr_assert(client_start(c, why) == ERR_OK, "%s", why);
    return c;
}

static void stop_client(struct client *c)
{
    client_free(c);
    for (size_t i = 0; i < broker.count; i++) {
        (void)pthread_join(broker.threads[i], NULL);
        (void)close(broker.fds[i]);
    }
    wbuf_done(&broker.log);
}

/* ---- tests ---- */

struct sender {
    struct client *client;
    struct client_producer *producer;
    size_t first; /* Of its records. */
    size_t failed_count;
};

static size_t told_counts[THREADS * RECORDS];

/* On the client's thread alone: nothing guards the counts. */
static void on_delivery(const struct client_delivery *d, void *context)
{
    (void)context;
    told_counts[(size_t)d->opaque] += d->err == ERR_OK;
}

static void *send_records(void *context)
{
    struct sender *s = context;
    for (size_t i = 0; i < RECORDS; i++) {
        const struct client_message m = {
            .partition = -1,
            .value = slice_of("0123456789", 10),
            .opaque = (void *)(s->first + i),
        };
        s->failed_count += client_producer_send(s->producer, &m) != ERR_OK;
        if (i % 100 == 0) {
            struct client_cluster *cluster = NULL;
            s->failed_count += client_describe(s->client, NULL, 0, &cluster) != ERR_OK;
            client_cluster_free(cluster);
        }
    }
    s->failed_count += client_producer_flush(s->producer, FOREVER) != ERR_OK;
    return NULL;
}

/* A buffer that is full most of the time, batches of all sizes, admin calls between. */
Test(client_threads, many_threads_share_a_producer)
{
    struct client *c = start_client(16 << 10);
    struct client_producer *p = NULL;
    const struct client_producer_options options = {
        .is_idempotent = true,
        .on_delivery = on_delivery,
    };
    cr_assert(client_producer_new(c, "t", &options, &p) == ERR_OK, "%s", client_why(c));
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.client = c, .producer = p, .first = i * RECORDS};
        cr_assert(pthread_create(&threads[i], NULL, send_records, &senders[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_assert(eq(sz, senders[i].failed_count, 0));
    }
    client_producer_free(p);
    stop_client(c);
    for (size_t i = 0; i < THREADS * RECORDS; i++) {
        cr_assert(eq(sz, told_counts[i], 1), "record %zu", i);
    }
    cr_assert(eq(i64, broker.ends[0] + broker.ends[1], THREADS * RECORDS));
}

/* Each failure stands in the line of the thread that it happened to. */
static void *fail(void *context)
{
    struct client *c = context;
    struct client_producer *p = NULL;
    const struct client_producer_options options = {.acks = CLIENT_ACKS_LEADER,
                                                    .is_idempotent = true};
    enum err e = client_producer_new(c, "t", &options, &p);
    return e == ERR_INVALID && strstr(client_why(c), "needs acks all") != NULL ? context : NULL;
}

Test(client_threads, each_thread_has_its_line)
{
    struct client *c = start_client(0);
    struct client_consumer *s = NULL;
    cr_assert(client_consumer_new(c, "t", NULL, &s) == ERR_OK, "%s", client_why(c));
    cr_assert(client_consumer_assign(s, 9, 0) == ERR_INVALID);
    pthread_t thread;
    void *result = NULL;
    cr_assert(pthread_create(&thread, NULL, fail, c) == 0);
    (void)pthread_join(thread, &result);
    cr_assert(result == c);
    cr_assert(strstr(client_why(c), "no partition 9") != NULL, "%s", client_why(c));
    client_consumer_free(s);
    stop_client(c);
}

/* A consumer reads while a producer writes; the one is freed while the other goes on. */
Test(client_threads, producer_and_consumer_at_once)
{
    struct client *c = start_client(0);
    struct client_producer *p = NULL;
    struct client_consumer *s = NULL;
    const struct client_producer_options options = {.batch_size = 100};
    cr_assert(client_producer_new(c, "t", &options, &p) == ERR_OK, "%s", client_why(c));
    cr_assert(client_consumer_new(c, "t", NULL, &s) == ERR_OK, "%s", client_why(c));
    cr_assert(client_consumer_assign(s, 0, 0) == ERR_OK);
    for (int64_t i = 0; i < RECORDS; i++) {
        const struct client_message m = {.value = slice_of(&i, sizeof(i))};
        cr_assert(client_producer_send(p, &m) == ERR_OK);
    }
    for (int64_t i = 0; i < RECORDS; i++) {
        struct client_record record;
        cr_assert(client_consumer_next(s, FOREVER, &record) == ERR_OK, "%s", client_why(c));
        cr_assert(eq(i64, record.offset, i));
        cr_assert(memcmp(record.value.data, &i, sizeof(i)) == 0);
    }
    client_consumer_free(s);
    cr_assert(client_producer_flush(p, FOREVER) == ERR_OK);
    client_producer_free(p);
    stop_client(c);
}

/* ---- members ---- */

struct joiner {
    struct client *client;
    size_t gains_count;
    size_t losses_count;
    size_t records_count;
    enum err err;
};

static void on_gain(struct client_member *m,
                    const struct client_topic_partition *partitions,
                    size_t count,
                    void *context)
{
    struct joiner *x = context;
    x->gains_count += count;
    for (size_t i = 0; i < count; i++) {
        (void)client_member_pause(m, &partitions[i]);
        (void)client_member_resume(m, &partitions[i]);
    }
}

static void on_loss(struct client_member *m,
                    const struct client_topic_partition *partitions,
                    size_t count,
                    void *context)
{
    struct joiner *x = context;
    (void)partitions;
    x->losses_count += count;
    (void)client_member_commit(m, NULL, 0, FOREVER);
}

/* Joins, reads, commits, leaves, and joins again: while partitions come and go all the time. */
static void *join_and_leave(void *context)
{
    static const char *const topics[] = {"t"};
    struct joiner *x = context;
    const struct client_member_options options = {
        .group = "g",
        .topics = topics,
        .topics_count = 1,
        .auto_commit_ms = 1,
        .reading.reset = CLIENT_RESET_START,
        .on_assigned = on_gain,
        .on_revoked = on_loss,
        .context = x,
    };
    for (int round = 0; round < 3; round++) {
        struct client_member *m = NULL;
        x->err = client_member_new(x->client, &options, &m);
        for (size_t i = 0; x->err == ERR_OK && i < 50; i++) {
            const struct client_record *records = NULL;
            size_t count = 0;
            const enum err e = client_member_poll(m, 2, &records, &count);
            x->err = e == ERR_TIMED_OUT ? ERR_OK : e;
            x->records_count += e == ERR_OK ? count : 0;
            (void)client_member_commit_async(m, NULL, 0, NULL, NULL);
        }
        const enum err e = x->err == ERR_OK ? client_member_close(m, FOREVER) : ERR_OK;
        x->err = x->err == ERR_OK && e != ERR_CANCELLED ? e : x->err;
        client_member_free(m);
    }
    return NULL;
}

Test(client_threads, members_at_once)
{
    struct client *c = start_client(0);
    struct client_producer *p = NULL;
    struct joiner joiners[MEMBERS];
    pthread_t threads[MEMBERS];
    cr_assert(client_producer_new(c, "t", NULL, &p) == ERR_OK, "%s", client_why(c));
    for (int i = 0; i < 100; i++) {
        const struct client_message m = {.value = slice_of("x", 1)};
        cr_assert(client_producer_send(p, &m) == ERR_OK);
    }
    cr_assert(client_producer_flush(p, FOREVER) == ERR_OK);
    client_producer_free(p);
    for (size_t i = 0; i < MEMBERS; i++) {
        joiners[i] = (struct joiner){.client = c};
        cr_assert(pthread_create(&threads[i], NULL, join_and_leave, &joiners[i]) == 0);
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_assert(eq(int, joiners[i].err, ERR_OK));
        cr_assert(eq(sz, joiners[i].gains_count, joiners[i].losses_count));
        cr_assert(lt(sz, 0, joiners[i].gains_count));
    }
    stop_client(c);
}
