#include "tests/unit/client/fake_broker.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/list.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/header.h"
#include "kafka/proto/metadata.h"

enum {
    SCRIPT_SIZE_MAX = 1 << 20,
};

static struct fake_broker *broker_of(struct client_env *env)
{
    return container_of(env, struct fake_broker, env);
}

static enum err dial(struct client_env *env,
                     const struct client_address *address,
                     uint64_t deadline_us,
                     int *ret_fd)
{
    (void)deadline_us;
    struct fake_broker *b = broker_of(env);
    if (b->dialled_count == b->connections_count) {
        return client_fail(env, ERR_CLOSED, "cannot reach %s (script is over)", address->host);
    }
    struct fake_connection *c = &b->connections[b->dialled_count++];
    if (c->is_refused) {
        return client_fail(env, ERR_CLOSED, "cannot reach %s (connection refused)", address->host);
    }
    int pair[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    const ssize_t written = write(pair[1], c->answers.data, c->answers.size);
    cr_assert(written == (ssize_t)c->answers.size, "the script fits the socket");
    if (c->hangs_up) {
        cr_assert(shutdown(pair[1], SHUT_WR) == 0);
    }
    c->fd = pair[1];
    *ret_fd = pair[0];
    return ERR_OK;
}

static enum err wait_for(struct client_env *env, int fd, short events, uint64_t deadline_us)
{
    struct fake_broker *b = broker_of(env);
    struct pollfd one = {.fd = fd, .events = events};
    if (fd != -1 && poll(&one, 1, 0) == 1) {
        return ERR_OK;
    }
    b->clock.now_us = deadline_us > b->clock.now_us ? deadline_us : b->clock.now_us;
    return ERR_TIMED_OUT;
}

void fake_broker_init(struct fake_broker *b)
{
    *b = (struct fake_broker){0};
    clock_init_sim(&b->clock, 1000000, FAKE_WALL_MS * (int64_t)1000);
    rand_init_seed(&b->rand, 1);
    b->env = (struct client_env){
        .clock = &b->clock.clock,
        .rand = &b->rand,
        .dial = dial,
        .wait = wait_for,
    };
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        if (SCHEMA_APIS[i]->key < CLIENT_APIS_MAX) {
            b->version_max[SCHEMA_APIS[i]->key] = SCHEMA_APIS[i]->version_stable_max;
        }
    }
    arena_init(&b->arena, 64 << 20);
}

void fake_broker_done(struct fake_broker *b)
{
    for (size_t i = 0; i < b->connections_count; i++) {
        wbuf_done(&b->connections[i].answers);
        if (b->connections[i].fd != -1) {
            (void)close(b->connections[i].fd);
        }
    }
    arena_done(&b->arena);
}

struct client *fake_broker_client(struct fake_broker *b)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    const struct client_options options = {.brokers = "fake:9092", .timeout_ms = 1000};
    cr_assert(client_new_in(&options, &b->env, why, &c) == ERR_OK, "%s", why);
    return c;
}

static struct fake_connection *current(struct fake_broker *b)
{
    cr_assert(b->connections_count > 0);
    return &b->connections[b->connections_count - 1];
}

void fake_broker_bare_connection(struct fake_broker *b)
{
    cr_assert(b->connections_count < FAKE_CONNECTIONS_MAX);
    struct fake_connection *c = &b->connections[b->connections_count++];
    *c = (struct fake_connection){.fd = -1};
    wbuf_init(&c->answers, SCRIPT_SIZE_MAX);
}

void fake_broker_refuse(struct fake_broker *b)
{
    fake_broker_bare_connection(b);
    current(b)->is_refused = true;
}

void fake_broker_connection(struct fake_broker *b)
{
    fake_broker_bare_connection(b);
    struct api_versions_response response;
    api_versions_response_init(&response);
    response.api_keys = arena_alloc_array(&b->arena, SCHEMA_APIS_COUNT, sizeof(*response.api_keys));
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        const struct schema_api *api = SCHEMA_APIS[i];
        struct api_versions_response_api_key *k = &response.api_keys[i];
        api_versions_response_api_key_init(k);
        k->api_key = api->key;
        k->min_version = api->version_min;
        k->max_version = b->version_max[api->key];
    }
    response.api_keys_count = SCHEMA_APIS_COUNT;
    fake_broker_answer(b, API_API_VERSIONS, &response);
}

void fake_broker_bytes(struct fake_broker *b, const void *data, size_t size)
{
    wbuf_bytes(&current(b)->answers, data, size);
}

void fake_broker_answer_in(struct fake_broker *b,
                           int16_t api_key,
                           int16_t version,
                           const void *response)
{
    struct fake_connection *c = current(b);
    struct wbuf *w = &c->answers;
    const size_t pos = wbuf_reserve(w, 4);
    enum err e = response_header_encode(w, api_key, version, c->correlation_next++);
    cr_assert(e == ERR_OK);
    e = schema_api_find(api_key)->response.encode(w, version, response);
    cr_assert(e == ERR_OK, "%s", err_name(e));
    wbuf_patch_i32(w, pos, (int32_t)(w->size - pos - 4));
}

void fake_broker_answer(struct fake_broker *b, int16_t api_key, const void *response)
{
    fake_broker_answer_in(b, api_key, b->version_max[api_key], response);
}

void fake_broker_hang_up(struct fake_broker *b)
{
    current(b)->hangs_up = true;
}

void fake_broker_metadata(struct fake_broker *b, int32_t partitions_count)
{
    cr_assert(partitions_count <= FAKE_PARTITIONS_MAX);
    static int32_t nodes[] = {FAKE_NODE_ID};
    struct metadata_response_broker broker;
    metadata_response_broker_init(&broker);
    broker.node_id = FAKE_NODE_ID;
    broker.host = slice_of_string("fake");
    broker.port = FAKE_PORT;
    struct metadata_response_partition partitions[FAKE_PARTITIONS_MAX];
    for (int32_t i = 0; i < partitions_count; i++) {
        struct metadata_response_partition *p = &partitions[i];
        metadata_response_partition_init(p);
        p->partition_index = i;
        p->leader_id = FAKE_NODE_ID;
        p->replica_nodes = p->isr_nodes = nodes;
        p->replica_nodes_count = p->isr_nodes_count = 1;
    }
    struct metadata_response_topic topic;
    metadata_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.topic_id = (struct uuid){.bytes = {7}};
    topic.partitions = partitions;
    topic.partitions_count = (size_t)partitions_count;
    struct metadata_response response;
    metadata_response_init(&response);
    response.brokers = &broker;
    response.brokers_count = 1;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(b, API_METADATA, &response);
}

/* All of size bytes; false if the client sent nothing more. */
static bool read_all(int fd, uint8_t *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = read(fd, data + got, size - got);
        if (n <= 0) {
            cr_assert(got == 0, "half a request");
            return false;
        }
        got += (size_t)n;
    }
    return true;
}

bool fake_broker_request(struct fake_broker *b,
                         size_t connection,
                         int16_t api_key,
                         void *ret_request)
{
    const struct fake_connection *c = &b->connections[connection];
    uint8_t prefix[4];
    if (connection >= b->dialled_count || c->fd == -1 || !read_all(c->fd, prefix, 4)) {
        return false;
    }
    struct rbuf r = rbuf_over(prefix, 4);
    const uint32_t size = rbuf_u32(&r);
    uint8_t *frame = arena_alloc(&b->arena, size);
    cr_assert(frame != NULL);
    cr_assert(read_all(c->fd, frame, size));
    struct rbuf body = rbuf_over(frame, size);
    struct request_header header;
    cr_assert(request_header_decode(&body, &header) == ERR_OK);
    cr_assert(header.api_key == api_key, "got a request of api %d", header.api_key);
    const struct schema_api *api = schema_api_find(api_key);
    enum err e = api->request.decode(&body, header.api_version, &b->arena, ret_request);
    cr_assert(e == ERR_OK, "%s %s", api->name, err_name(e));
    return true;
}
