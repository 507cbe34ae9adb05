#include "tests/unit/client/fake_broker.h"

#include <criterion/criterion.h>
#include <errno.h>
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

static const char *resolve(struct client_env *env,
                           const struct client_address *address,
                           struct client_place places[CLIENT_PLACES_MAX],
                           size_t *ret_count)
{
    (void)env;
    /* Nobody looks at the address but dial, below. */
    places[0] = (struct client_place){.size = address->port};
    *ret_count = 1;
    return NULL;
}

static int dial(struct client_env *env, const struct client_place *place, int *ret_fd)
{
    struct fake_broker *b = broker_of(env);
    if (b->serve != NULL && b->connections_count < FAKE_CONNECTIONS_MAX) {
        fake_broker_bare_connection(b);
    }
    if (b->dialled_count == b->connections_count) {
        return ECONNREFUSED; /* The script is over. */
    }
    struct fake_connection *c = &b->connections[b->dialled_count++];
    if (c->is_refused) {
        return ECONNREFUSED;
    }
    int pair[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    c->fd = pair[1];
    c->port = (uint16_t)place->size;
    *ret_fd = pair[0];
    return 0;
}

/* ---- the broker at work ---- */

static uint32_t frame_size(const uint8_t *data)
{
    struct rbuf r = rbuf_over(data, 4);
    return rbuf_u32(&r);
}

static void read_requests(struct fake_connection *c)
{
    for (;;) {
        uint8_t *to = wbuf_extend(&c->in, 4096);
        cr_assert(to != NULL);
        const ssize_t got = read(c->fd, to, 4096);
        c->in.size -= got > 0 ? 4096 - (size_t)got : 4096;
        if (got <= 0) {
            break;
        }
    }
    while (c->in.size - c->parsed_size >= 4 &&
           c->in.size - c->parsed_size - 4 >= frame_size(c->in.data + c->parsed_size)) {
        c->parsed_size += frame_size(c->in.data + c->parsed_size) + 4;
        c->requests_count++;
    }
}

static void send_all(const struct fake_connection *c, struct slice bytes)
{
    const ssize_t written = send(c->fd, bytes.data, bytes.size, MSG_NOSIGNAL);
    cr_assert(written == (ssize_t)bytes.size || written == -1, "the answer fits the socket");
}

/* One step of the script, if it is time for it. Lowers *next_us to when it is. */
static bool take_step(struct fake_connection *c, uint64_t now_us, uint64_t *next_us)
{
    if (c->is_over || c->step_next == c->steps_count) {
        return false;
    }
    const struct fake_step *step = &c->steps[c->step_next];
    const bool needs_request = step->kind == FAKE_ANSWER || step->kind == FAKE_HANG_UP;
    if (needs_request && c->requests_count == c->answered_count) {
        return false;
    }
    if (step->kind == FAKE_HOLD && !c->is_released) {
        return false;
    }
    if (c->due_us == 0 && step->delay_us > 0) {
        c->due_us = now_us + step->delay_us;
    }
    if (c->due_us > now_us) {
        *next_us = c->due_us < *next_us ? c->due_us : *next_us;
        return false;
    }
    c->due_us = 0;
    c->step_next++;
    c->answered_count += needs_request;
    if (step->kind == FAKE_HANG_UP || step->kind == FAKE_END) {
        c->is_over = true;
        cr_assert(shutdown(c->fd, SHUT_WR) == 0);
    }
    send_all(c, step->bytes);
    return true;
}

static void versions_response(struct fake_broker *b, struct api_versions_response *ret_response);

/* The requests of a connection that are whole, each to who answers them. */
static void serve(struct fake_broker *b, size_t connection)
{
    struct fake_connection *c = &b->connections[connection];
    while (c->read_size < c->parsed_size && !c->is_over) {
        const uint32_t size = frame_size(c->in.data + c->read_size);
        uint8_t *copy = arena_alloc(&b->arena, size);
        void *message = arena_alloc(&b->arena, 4096); /* Larger than any of them. */
        cr_assert(copy != NULL && message != NULL);
        memcpy(copy, c->in.data + c->read_size + 4, size);
        c->read_size += size + 4;
        struct rbuf body = rbuf_over(copy, size);
        struct request_header header;
        cr_assert(request_header_decode(&body, &header) == ERR_OK);
        const struct schema_api *api = schema_api_find(header.api_key);
        cr_assert(api->request.decode(&body, header.api_version, &b->arena, message) == ERR_OK);
        const struct fake_request r = {
            connection, header.api_key, header.api_version, header.correlation_id, message};
        if (header.api_key == API_API_VERSIONS) {
            struct api_versions_response response;
            versions_response(b, &response);
            fake_broker_reply(b, &r, &response);
        } else {
            b->serve(b, &r);
        }
    }
    if (c->read_size == c->in.size) {
        c->in.size = c->read_size = c->parsed_size = 0;
    }
}

static void work(struct fake_broker *b, uint64_t *next_us)
{
    for (size_t i = 0; i < b->dialled_count; i++) {
        struct fake_connection *c = &b->connections[i];
        if (c->fd == -1) {
            continue;
        }
        read_requests(c);
        if (b->serve != NULL) {
            serve(b, i);
        }
        while (take_step(c, b->clock.now_us, next_us)) {
        }
    }
    if (b->tick != NULL) {
        const uint64_t tick_us = b->tick(b);
        *next_us = tick_us < *next_us ? tick_us : *next_us;
    }
}

static void poll_for(struct client_env *env, struct pollfd *fds, size_t count, uint64_t deadline_us)
{
    struct fake_broker *b = broker_of(env);
    uint64_t next_us = deadline_us;
    work(b, &next_us);
    if (poll(fds, count, 0) > 0) {
        return;
    }
    cr_assert(next_us != UINT64_MAX, "the client would wait for ever");
    b->clock.now_us = next_us > b->clock.now_us ? next_us : b->clock.now_us;
}

void fake_broker_init(struct fake_broker *b)
{
    *b = (struct fake_broker){0};
    clock_init_sim(&b->clock, 1000000, FAKE_WALL_MS * (int64_t)1000);
    rand_init_seed(&b->rand, 1);
    b->env = (struct client_env){
        .clock = &b->clock.clock,
        .rand = &b->rand,
        .resolve = resolve,
        .dial = dial,
        .poll = poll_for,
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
        wbuf_done(&b->connections[i].in);
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
    return &b->connections[b->current];
}

void fake_broker_bare_connection(struct fake_broker *b)
{
    cr_assert(b->connections_count < FAKE_CONNECTIONS_MAX);
    b->current = b->connections_count;
    struct fake_connection *c = &b->connections[b->connections_count++];
    *c = (struct fake_connection){.fd = -1};
    wbuf_init(&c->in, SCRIPT_SIZE_MAX);
}

void fake_broker_continue(struct fake_broker *b, size_t connection)
{
    cr_assert(connection < b->connections_count);
    b->current = connection;
}

void fake_broker_refuse(struct fake_broker *b)
{
    fake_broker_bare_connection(b);
    current(b)->is_refused = true;
}

void fake_broker_connection(struct fake_broker *b)
{
    fake_broker_bare_connection(b);
    fake_broker_versions(b);
}

static void versions_response(struct fake_broker *b, struct api_versions_response *ret_response)
{
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
    *ret_response = response;
}

void fake_broker_versions(struct fake_broker *b)
{
    struct api_versions_response response;
    versions_response(b, &response);
    fake_broker_answer(b, API_API_VERSIONS, &response);
}

static struct fake_step *add_step(struct fake_broker *b, enum fake_step_kind kind)
{
    struct fake_connection *c = current(b);
    cr_assert(c->steps_count < FAKE_STEPS_MAX);
    c->steps[c->steps_count] = (struct fake_step){.kind = kind};
    return &c->steps[c->steps_count++];
}

static struct slice keep(struct fake_broker *b, const void *data, size_t size)
{
    uint8_t *copy = arena_alloc(&b->arena, size);
    cr_assert(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return slice_of(copy, size);
}

void fake_broker_bytes(struct fake_broker *b, const void *data, size_t size)
{
    add_step(b, FAKE_BYTES)->bytes = keep(b, data, size);
}

void fake_broker_answer_bytes(struct fake_broker *b, struct slice bytes)
{
    add_step(b, FAKE_ANSWER)->bytes = keep(b, bytes.data, bytes.size);
}

void fake_broker_answer_in(struct fake_broker *b,
                           int16_t api_key,
                           int16_t version,
                           const void *response)
{
    struct wbuf w;
    wbuf_init(&w, SCRIPT_SIZE_MAX);
    const size_t pos = wbuf_reserve(&w, 4);
    int32_t *correlation = &current(b)->correlation_next;
    enum err e = response_header_encode(&w, api_key, version, *correlation);
    cr_assert(e == ERR_OK);
    *correlation = *correlation == INT32_MAX ? 0 : *correlation + 1;
    e = schema_api_find(api_key)->response.encode(&w, version, response);
    cr_assert(e == ERR_OK, "%s", err_name(e));
    wbuf_patch_i32(&w, pos, (int32_t)(w.size - pos - 4));
    add_step(b, FAKE_ANSWER)->bytes = keep(b, w.data, w.size);
    wbuf_done(&w);
}

void fake_broker_answer(struct fake_broker *b, int16_t api_key, const void *response)
{
    fake_broker_answer_in(b, api_key, b->version_max[api_key], response);
}

void fake_broker_reply(struct fake_broker *b, const struct fake_request *r, const void *response)
{
    struct wbuf w;
    wbuf_init(&w, SCRIPT_SIZE_MAX);
    const size_t pos = wbuf_reserve(&w, 4);
    cr_assert(response_header_encode(&w, r->api_key, r->version, r->correlation_id) == ERR_OK);
    cr_assert(schema_api_find(r->api_key)->response.encode(&w, r->version, response) == ERR_OK);
    wbuf_patch_i32(&w, pos, (int32_t)(w.size - pos - 4));
    send_all(&b->connections[r->connection], wbuf_slice(&w));
    wbuf_done(&w);
}

void fake_broker_cut(struct fake_broker *b, size_t connection)
{
    b->connections[connection].is_over = true;
    (void)shutdown(b->connections[connection].fd, SHUT_RDWR);
}

void fake_broker_hang_up(struct fake_broker *b)
{
    (void)add_step(b, FAKE_HANG_UP);
}

void fake_broker_end(struct fake_broker *b)
{
    (void)add_step(b, FAKE_END);
}

void fake_broker_hold(struct fake_broker *b)
{
    (void)add_step(b, FAKE_HOLD);
}

void fake_broker_release(struct fake_broker *b, size_t connection)
{
    b->connections[connection].is_released = true;
}

void fake_broker_run(struct fake_broker *b, struct client *c)
{
    client_lock(c);
    for (int i = 0; i < 30; i++) {
        client_turn(c, b->clock.now_us);
    }
    client_unlock(c);
}

void fake_broker_pass(struct fake_broker *b, struct client *c, uint64_t time_us)
{
    const uint64_t until_us = b->clock.now_us + time_us;
    fake_broker_run(b, c);
    client_lock(c);
    while (b->clock.now_us < until_us) {
        client_turn(c, until_us);
    }
    client_unlock(c);
    fake_broker_run(b, c);
}

size_t fake_broker_requests_count(const struct fake_broker *b, size_t connection)
{
    return b->connections[connection].requests_count;
}

static void answer_metadata(struct fake_broker *b,
                            size_t brokers_count,
                            const int32_t *leaders,
                            int32_t partitions_count)
{
    static int32_t nodes[] = {FAKE_NODE_ID};
    struct metadata_response_broker brokers[2];
    cr_assert(brokers_count <= 2);
    for (size_t i = 0; i < brokers_count; i++) {
        metadata_response_broker_init(&brokers[i]);
        brokers[i].node_id = FAKE_NODE_ID + (int32_t)i;
        brokers[i].host = slice_of_string("fake");
        brokers[i].port = FAKE_PORT + (int32_t)i;
    }
    struct metadata_response_partition partitions[FAKE_PARTITIONS_MAX];
    cr_assert(partitions_count <= FAKE_PARTITIONS_MAX);
    for (int32_t i = 0; i < partitions_count; i++) {
        struct metadata_response_partition *p = &partitions[i];
        metadata_response_partition_init(p);
        p->partition_index = i;
        p->leader_id = leaders == NULL ? FAKE_NODE_ID : leaders[i];
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
    response.brokers = brokers;
    response.brokers_count = brokers_count;
    response.topics = &topic;
    response.topics_count = 1;
    fake_broker_answer(b, API_METADATA, &response);
}

void fake_broker_metadata(struct fake_broker *b, int32_t partitions_count)
{
    answer_metadata(b, 1, NULL, partitions_count);
}

void fake_broker_metadata_of_two(struct fake_broker *b,
                                 const int32_t *leaders,
                                 int32_t partitions_count)
{
    answer_metadata(b, 2, leaders, partitions_count);
}

bool fake_broker_request(struct fake_broker *b,
                         size_t connection,
                         int16_t api_key,
                         void *ret_request)
{
    struct fake_connection *c = &b->connections[connection];
    if (connection >= b->dialled_count || c->fd == -1) {
        return false;
    }
    read_requests(c);
    if (c->read_size == c->parsed_size) {
        return false;
    }
    const uint32_t size = frame_size(c->in.data + c->read_size);
    const struct slice frame = keep(b, c->in.data + c->read_size + 4, size);
    c->read_size += size + 4;
    struct rbuf body = rbuf_over(frame.data, size);
    struct request_header header;
    cr_assert(request_header_decode(&body, &header) == ERR_OK);
    cr_assert(header.api_key == api_key, "got a request of api %d", header.api_key);
    const struct schema_api *api = schema_api_find(api_key);
    enum err e = api->request.decode(&body, header.api_version, &b->arena, ret_request);
    cr_assert(e == ERR_OK, "%s %s", api->name, err_name(e));
    return true;
}

void fake_broker_skip(struct fake_broker *b, size_t connection, int16_t api_key)
{
    void *request = arena_alloc(&b->arena, 4096); /* Larger than any of them. */
    cr_assert(fake_broker_request(b, connection, api_key, request));
}
