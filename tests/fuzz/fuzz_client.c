/* What a broker may answer to our client. The first byte names what the client does, the second
 * which answers are right by themselves (FLAG_...); the rest are pieces, each a u16 size and bytes:
 * the body of the next answer, whatever was asked. When there are no more, the broker hangs up.
 *
 * Every call comes back, with an error in one line or with results that can be read.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"
#include "client/client_group.h"
#include "client/client_priv.h"
#include "core/assert.h"
#include "core/list.h"
#include "core/utf8.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/header.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/schema.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"

enum {
    FLAG_VERSIONS = 1,    /* From the input, as below; else those that we know. */
    FLAG_METADATA = 2,    /* Else one broker, and topic "t" with two partitions. */
    FLAG_COORDINATOR = 4, /* Else that broker. */
    FLAG_RAW = 8,         /* Pieces are sent as they stand, without length and header. */
    FLAG_SEAL = 16,       /* Batches in answers to Fetch get the right length and checksum. */
    DIALS_MAX = 32,
    REQUEST_SIZE_MAX = 1 << 20,
    ANSWER_SIZE_MAX = 1 << 20,
    ARENA_SIZE_MAX = 64 << 20,
    TIMEOUT_MS = 1000,
    POLLS_MAX = 4,
    PORT = 9092,
    COORDINATORS_VERSION_MIN = 4, /* Of FindCoordinator: a list of them. */
};

struct end {
    int fd; /* -1: hung up. */
    struct wbuf in;
};

struct broker {
    struct clock_sim clock;
    struct rand rand;
    struct client_env env;
    struct end ends[DIALS_MAX];
    size_t ends_count;
    struct rbuf pieces;
    uint8_t flags;
    uint64_t touched;
};

/* ---- the broker ---- */

static const char *resolve(struct client_env *env,
                           const struct client_address *address,
                           struct client_place places[CLIENT_PLACES_MAX],
                           size_t *ret_count)
{
    (void)env;
    (void)address;
    places[0] = (struct client_place){.size = 1};
    *ret_count = 1;
    return NULL;
}

static int dial(struct client_env *env, const struct client_place *place, int *ret_fd)
{
    (void)place;
    struct broker *b = container_of(env, struct broker, env);
    int pair[2];
    if (b->ends_count == DIALS_MAX || rbuf_left(&b->pieces) == 0) {
        return ECONNREFUSED;
    }
    const int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
    assert(failed == 0);
    struct end *e = &b->ends[b->ends_count++];
    *e = (struct end){.fd = pair[1]};
    wbuf_init(&e->in, REQUEST_SIZE_MAX);
    *ret_fd = pair[0];
    return 0;
}

static void hang_up(struct end *e)
{
    if (e->fd != -1) {
        (void)close(e->fd);
    }
    e->fd = -1;
}

static void fill_versions(struct api_versions_response *response, struct arena *a)
{
    api_versions_response_init(response);
    response->api_keys = arena_alloc_array(a, SCHEMA_APIS_COUNT, sizeof(response->api_keys[0]));
    assert(response->api_keys != NULL);
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        response->api_keys[i].api_key = SCHEMA_APIS[i]->key;
        response->api_keys[i].min_version = SCHEMA_APIS[i]->version_min;
        response->api_keys[i].max_version = SCHEMA_APIS[i]->version_stable_max;
    }
    response->api_keys_count = SCHEMA_APIS_COUNT;
}

static void fill_metadata(struct metadata_response *response, struct arena *a)
{
    static int32_t nodes[] = {1};
    struct metadata_response_broker *broker = arena_alloc(a, sizeof(*broker));
    struct metadata_response_topic *topic = arena_alloc(a, sizeof(*topic));
    struct metadata_response_partition *partitions = arena_alloc_array(a, 2, sizeof(*partitions));
    assert(broker != NULL);
    assert(topic != NULL);
    assert(partitions != NULL);
    metadata_response_init(response);
    metadata_response_broker_init(broker);
    metadata_response_topic_init(topic);
    for (int32_t i = 0; i < 2; i++) {
        metadata_response_partition_init(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].leader_id = 1;
        partitions[i].replica_nodes = partitions[i].isr_nodes = nodes;
        partitions[i].replica_nodes_count = partitions[i].isr_nodes_count = 1;
    }
    broker->node_id = 1;
    broker->host = slice_of_string("fuzz");
    broker->port = PORT;
    topic->name = slice_of_string("t");
    topic->topic_id = (struct uuid){.bytes = {7}};
    topic->partitions = partitions;
    topic->partitions_count = 2;
    response->brokers = broker;
    response->brokers_count = 1;
    response->topics = topic;
    response->topics_count = 1;
}

static void
fill_coordinator(struct find_coordinator_response *response, int16_t version, struct arena *a)
{
    struct find_coordinator_response_coordinator *c = arena_alloc(a, sizeof(*c));
    assert(c != NULL);
    find_coordinator_response_init(response);
    find_coordinator_response_coordinator_init(c);
    if (version < COORDINATORS_VERSION_MIN) {
        response->node_id = 1;
        response->host = slice_of_string("fuzz");
        response->port = PORT;
        return;
    }
    c->key = slice_of_string("g");
    c->node_id = 1;
    c->host = slice_of_string("fuzz");
    c->port = PORT;
    response->coordinators = c;
    response->coordinators_count = 1;
}

/* The answer that is right by itself; NULL: the input says what comes. */
static const void *
right_answer(const struct broker *b, const struct request_header *h, struct arena *a)
{
    const int16_t api_key = h->api_key;
    if (api_key == API_API_VERSIONS && (b->flags & FLAG_VERSIONS) == 0) {
        struct api_versions_response *response = arena_alloc(a, sizeof(*response));
        assert(response != NULL);
        fill_versions(response, a);
        return response;
    }
    if (api_key == API_METADATA && (b->flags & FLAG_METADATA) == 0) {
        struct metadata_response *response = arena_alloc(a, sizeof(*response));
        assert(response != NULL);
        fill_metadata(response, a);
        return response;
    }
    if (api_key == API_FIND_COORDINATOR && (b->flags & FLAG_COORDINATOR) == 0) {
        struct find_coordinator_response *response = arena_alloc(a, sizeof(*response));
        assert(response != NULL);
        fill_coordinator(response, h->api_version, a);
        return response;
    }
    return NULL;
}

/* What a Fetch answers in body, which is ours. */
static void seal_batches(uint8_t *body, size_t size, int16_t version, struct arena *a)
{
    struct fetch_response response;
    struct rbuf r = rbuf_over(body, size);
    if (schema_api_find(API_FETCH)->response.decode(&r, version, a, &response) != ERR_OK) {
        return;
    }
    for (size_t i = 0; i < response.responses_count; i++) {
        const struct fetch_response_topic *t = &response.responses[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            const struct slice records = t->partitions[j].records;
            seal_batch((uint8_t *)(uintptr_t)records.data, records.size);
        }
    }
}

static void send_to(struct end *e, struct slice bytes)
{
    (void)send(e->fd, bytes.data, bytes.size, MSG_NOSIGNAL); /* Gone, or full: its own affair. */
}

/* False: there is nothing left to say. */
static bool add_piece(struct broker *b, const struct request_header *h, struct wbuf *w)
{
    if (rbuf_left(&b->pieces) < 2) {
        b->pieces.cursor = b->pieces.end;
        return false;
    }
    const uint16_t asked_size = rbuf_u16(&b->pieces);
    const size_t left = rbuf_left(&b->pieces);
    const struct slice piece = rbuf_bytes(&b->pieces, asked_size < left ? asked_size : left);
    const size_t start = w->size;
    wbuf_bytes(w, piece.data, piece.size);
    if (h->api_key == API_FETCH && (b->flags & FLAG_SEAL) != 0 && piece.size > 0) {
        struct arena a;
        arena_init(&a, ARENA_SIZE_MAX);
        seal_batches(w->data + start, piece.size, h->api_version, &a);
        arena_done(&a);
    }
    return true;
}

static void answer(struct broker *b, struct end *e, struct rbuf frame)
{
    struct request_header h;
    enum err err = request_header_decode(&frame, &h);
    assert(err == ERR_OK);
    struct arena a;
    struct wbuf w;
    arena_init(&a, ARENA_SIZE_MAX);
    wbuf_init(&w, ANSWER_SIZE_MAX);
    const void *response = right_answer(b, &h, &a);
    bool has_answer = true;
    if (response == NULL && (b->flags & FLAG_RAW) != 0) {
        has_answer = add_piece(b, &h, &w);
    } else {
        const size_t pos = wbuf_reserve(&w, 4);
        err = response_header_encode(&w, h.api_key, h.api_version, h.correlation_id);
        assert(err == ERR_OK);
        if (response != NULL) {
            err = schema_api_find(h.api_key)->response.encode(&w, h.api_version, response);
            assert(err == ERR_OK);
        } else {
            has_answer = add_piece(b, &h, &w);
        }
        wbuf_patch_i32(&w, pos, (int32_t)(w.size - pos - 4));
    }
    if (has_answer) {
        send_to(e, wbuf_slice(&w));
    } else {
        hang_up(e);
    }
    wbuf_done(&w);
    arena_done(&a);
}

static void read_requests(struct broker *b, struct end *e)
{
    enum { PIECE = 16 << 10 };
    ssize_t got = 0;
    do {
        uint8_t *to = wbuf_extend(&e->in, PIECE);
        if (to == NULL) {
            hang_up(e);
            return;
        }
        got = read(e->fd, to, PIECE);
        e->in.size -= got > 0 ? PIECE - (size_t)got : PIECE;
    } while (got == PIECE);
    size_t pos = 0;
    while (e->fd != -1 && e->in.size - pos >= 4) {
        struct rbuf r = rbuf_over(e->in.data + pos, e->in.size - pos);
        const uint32_t size = rbuf_u32(&r);
        if (rbuf_left(&r) < size) {
            break;
        }
        answer(b, e, rbuf_over(r.cursor, size));
        pos += 4 + size;
    }
    memmove(e->in.data, e->in.data + pos, e->in.size - pos);
    e->in.size -= pos;
}

/* The broker works while the client waits; when nothing is ready, time passes. */
static void poll_for(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline_us)
{
    struct broker *b = container_of(env, struct broker, env);
    for (size_t i = 0; i < b->ends_count; i++) {
        if (b->ends[i].fd != -1) {
            read_requests(b, &b->ends[i]);
        }
    }
    if (poll(fds, count, 0) > 0) {
        return;
    }
    assert(deadline_us != UINT64_MAX); /* It would wait for ever. */
    b->clock.now_us = deadline_us > b->clock.now_us ? deadline_us : b->clock.now_us;
}

/* ---- the client ---- */

/* Reads every byte that a program may read. */
static void touch(struct broker *b, struct slice s)
{
    for (size_t i = 0; i < s.size; i++) {
        b->touched = b->touched * 31 + s.data[i];
    }
}

/* True if the call went well; else it has a reason. */
static bool is_line(const char *text)
{
    return text[0] != '\0' && utf8_is_printable(slice_of_string(text));
}

static bool went(struct client *c, enum err e)
{
    assert(e == ERR_OK || e == ERR_TIMED_OUT || is_line(client_why(c)));
    return e == ERR_OK;
}

static void expect_results(const struct client_topic_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(results[i].err == ERR_OK || is_line(results[i].why));
    }
}

static void touch_records(struct broker *b, const struct client_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        touch(b, records[i].key);
        touch(b, records[i].value);
        for (size_t j = 0; j < records[i].headers_count; j++) {
            touch(b, records[i].headers[j].key);
            touch(b, records[i].headers[j].value);
        }
    }
}

static void describe(struct broker *b, struct client *c)
{
    struct client_cluster *cluster = NULL;
    if (!went(c, client_describe(c, NULL, 0, &cluster))) {
        return;
    }
    touch(b, cluster->id);
    for (size_t i = 0; i < cluster->brokers_count; i++) {
        touch(b, cluster->brokers[i].host);
        touch(b, cluster->brokers[i].rack);
    }
    for (size_t i = 0; i < cluster->topics_count; i++) {
        touch(b, cluster->topics[i].name);
    }
    client_cluster_free(cluster);
}

static void configs(struct broker *b, struct client *c)
{
    struct client_configs *found = NULL;
    if (went(c, client_describe_topic_configs(c, "t", &found))) {
        for (size_t i = 0; i < found->entries_count; i++) {
            touch(b, found->entries[i].name);
            touch(b, found->entries[i].value);
        }
        client_configs_free(found);
    }
    const struct client_config change = {.name = "retention.ms", .value = "1000"};
    struct client_topic_result result;
    if (went(c, client_alter_topic_configs(c, "t", &change, 1, &result))) {
        expect_results(&result, 1);
    }
}

static void topics(struct broker *b, struct client *c)
{
    (void)b;
    static const char *const names[] = {"t", "u"};
    const struct client_new_topic wanted[] = {
        {.name = "t", .partitions_count = 2, .replication_factor = 1},
        {.name = "u", .partitions_count = 1, .replication_factor = 1},
    };
    struct client_topic_result results[2];
    if (went(c, client_create_topics(c, wanted, 2, results))) {
        expect_results(results, 2);
    }
    if (went(c, client_create_partitions(c, "t", 5, results))) {
        expect_results(results, 1);
    }
    if (went(c, client_delete_topics(c, names, 2, results))) {
        expect_results(results, 2);
    }
    (void)went(c, client_wait_for_leaders(c, "t", TIMEOUT_MS));
}

static void offsets(struct broker *b, struct client *c)
{
    (void)b;
    struct client_offset found[] = {{.partition = 0, .timestamp = CLIENT_OFFSET_END},
                                    {.partition = 1, .timestamp = 1000}};
    struct client_deletion deletions[] = {{.partition = 0, .before = 1},
                                          {.partition = 1, .before = CLIENT_OFFSET_END}};
    (void)went(c, client_find_offsets(c, "t", found, 2));
    (void)went(c, client_delete_records(c, "t", deletions, 2));
}

static void times(struct broker *b, struct client *c)
{
    (void)b;
    struct client_time wanted[] = {{.partition = 0, .offset = 0}, {.partition = 1, .offset = 1}};
    (void)went(c, client_find_times(c, "t", wanted, 2, TIMEOUT_MS));
}

static void consume(struct broker *b, struct client *c)
{
    struct client_consumer *s = NULL;
    const struct client_consumer_options options = {.reset = CLIENT_RESET_START,
                                                    .is_read_committed = true};
    if (!went(c, client_consumer_new(c, "t", &options, &s))) {
        return;
    }
    (void)client_consumer_assign(s, 0, 0);
    (void)client_consumer_assign(s, 1, CLIENT_OFFSET_START);
    for (int i = 0; i < POLLS_MAX; i++) {
        const struct client_record *records = NULL;
        size_t count = 0;
        if (client_consumer_poll(s, TIMEOUT_MS, &records, &count) == ERR_OK) {
            touch_records(b, records, count);
        }
    }
    client_consumer_free(s);
}

static void produce(struct broker *b, struct client *c)
{
    struct client_producer *p = NULL;
    const struct client_producer_options options = {
        .is_idempotent = true, .delivery_timeout_ms = TIMEOUT_MS, .max_block_ms = -1};
    if (!went(c, client_producer_new(c, "t", &options, &p))) {
        return;
    }
    for (int i = 0; i < POLLS_MAX; i++) {
        const struct client_message m = {.partition = -1, .value = slice_of_string("value")};
        (void)client_producer_send(p, &m);
        (void)client_producer_flush(p, TIMEOUT_MS);
    }
    struct client_producer_stats stats;
    client_producer_stats(p, &stats);
    b->touched += stats.acked_count;
    client_producer_free(p);
}

static void join(struct broker *b, struct client *c)
{
    static const char *const names[] = {"t"};
    struct client_member *m = NULL;
    const struct client_member_options options = {
        .group = "g",
        .topics = names,
        .topics_count = 1,
        .auto_commit_ms = TIMEOUT_MS,
        .reading = {.reset = CLIENT_RESET_START},
    };
    if (!went(c, client_member_new(c, &options, &m))) {
        return;
    }
    for (int i = 0; i < POLLS_MAX; i++) {
        const struct client_record *records = NULL;
        size_t count = 0;
        if (client_member_poll(m, TIMEOUT_MS, &records, &count) == ERR_OK) {
            touch_records(b, records, count);
        }
    }
    (void)client_member_close(m, TIMEOUT_MS);
    client_member_free(m);
}

static void groups(struct broker *b, struct client *c)
{
    struct client_group_list *list = NULL;
    if (went(c, client_list_groups(c, &list))) {
        for (size_t i = 0; i < list->groups_count; i++) {
            touch(b, list->groups[i].name);
            touch(b, list->groups[i].state);
        }
        client_group_list_free(list);
    }
    struct client_group *group = NULL;
    if (went(c, client_describe_group(c, "g", &group))) {
        for (size_t i = 0; i < group->members_count; i++) {
            touch(b, group->members[i].id);
            touch(b, group->members[i].host);
            for (size_t j = 0; j < group->members[i].partitions_count; j++) {
                touch(b, group->members[i].partitions[j].topic);
            }
        }
        client_group_free(group);
    }
}

static void group_offsets(struct broker *b, struct client *c)
{
    static const char *const names[] = {"g", "h"};
    struct client_group_offsets *found = NULL;
    if (went(c, client_group_offsets(c, "g", &found))) {
        for (size_t i = 0; i < found->offsets_count; i++) {
            touch(b, found->offsets[i].topic);
            touch(b, found->offsets[i].metadata);
        }
        client_group_offsets_free(found);
    }
    const struct client_group_offset wanted[] = {{.topic = "t", .partition = 0, .offset = 3},
                                                 {.topic = "t", .partition = 1, .offset = -1}};
    struct client_topic_result results[2];
    if (went(c, client_alter_group_offsets(c, "g", wanted, 2, results))) {
        expect_results(results, 2);
    }
    if (went(c, client_delete_groups(c, names, 2, results))) {
        expect_results(results, 2);
    }
}

static void (*const acts[])(struct broker *b, struct client *c) = {
    describe, configs, topics, offsets, times, consume, produce, join, groups, group_offsets};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    static struct broker b;
    b = (struct broker){.flags = data[1], .pieces = rbuf_over(data + 2, size - 2)};
    clock_init_sim(&b.clock, 1000 * 1000, 1700000000000);
    rand_init_seed(&b.rand, 1);
    b.env = (struct client_env){
        .clock = &b.clock.clock,
        .rand = &b.rand,
        .resolve = resolve,
        .dial = dial,
        .poll = poll_for,
    };
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    const struct client_options options = {.brokers = "fuzz:9092", .timeout_ms = TIMEOUT_MS};
    const enum err e = client_new_in(&options, &b.env, why, &c);
    assert(e == ERR_OK);
    acts[data[0] % (sizeof(acts) / sizeof(acts[0]))](&b, c);
    client_free(c);
    for (size_t i = 0; i < b.ends_count; i++) {
        hang_up(&b.ends[i]);
        wbuf_done(&b.ends[i].in);
    }
    return 0;
}
