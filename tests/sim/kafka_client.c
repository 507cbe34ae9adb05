#include "tests/sim/kafka_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "kafka/proto/header.h"

enum {
    PREFIX_SIZE = 4,
    ARENA_SIZE_MAX = 16 << 20,
};

static void end_calls(struct kafka_client *c)
{
    struct list *link;
    while ((link = list_pop_front(&c->calls)) != NULL) {
        struct kafka_call *call = container_of(link, struct kafka_call, link);
        call->on_answer(call, NULL, NULL);
    }
}

static void on_connected(void *client)
{
    struct kafka_client *c = client;
    c->is_connected = true;
    c->connections_count++;
}

static void on_gone(void *client)
{
    struct kafka_client *c = client;
    c->link = NULL;
    c->is_connected = false;
    c->received_size = 0;
    end_calls(c);
}

static void take_frame(struct kafka_client *c, const uint8_t *frame, size_t size)
{
    struct sim *sim = c->sim;
    sim_check(sim, !list_is_empty(&c->calls), "an answer that nobody asked for: size=%zu", size);
    struct kafka_call *call = container_of(c->calls.next, struct kafka_call, link);
    list_remove(&call->link);
    struct rbuf body = rbuf_over(frame, size);
    int32_t correlation_id = -1;
    enum err e = response_header_decode(&body, call->api_key, call->version, &correlation_id);
    sim_check(sim, e == ERR_OK, "a response header: %s", err_name(e));
    sim_check(sim,
              correlation_id == call->correlation_id,
              "answers out of order: api_key=%d correlation_id=%d expected=%d",
              call->api_key,
              correlation_id,
              call->correlation_id);
    c->answers++;
    call->on_answer(call, &body, &c->arena);
    arena_reset(&c->arena);
}

static void on_bytes(void *client, const uint8_t *data, size_t size)
{
    struct kafka_client *c = client;
    if (c->received_size + size > c->received_capacity) {
        c->received_capacity = (c->received_size + size) * 2;
        c->received = realloc(c->received, c->received_capacity);
        assert(c->received != NULL);
    }
    memcpy(c->received + c->received_size, data, size);
    c->received_size += size;
    size_t pos = 0;
    while (c->link != NULL && c->received_size - pos >= PREFIX_SIZE) {
        struct rbuf prefix = rbuf_over(c->received + pos, PREFIX_SIZE);
        int32_t frame_size = rbuf_i32(&prefix);
        sim_check(c->sim, frame_size >= 4, "a frame of %d bytes", frame_size);
        if (c->received_size - pos < PREFIX_SIZE + (size_t)frame_size) {
            break;
        }
        take_frame(c, c->received + pos + PREFIX_SIZE, (size_t)frame_size);
        pos += PREFIX_SIZE + (size_t)frame_size;
    }
    if (c->link != NULL) {
        memmove(c->received, c->received + pos, c->received_size - pos);
        c->received_size -= pos;
    }
}

static const struct net_client_ops client_ops = {
    .on_connected = on_connected,
    .on_bytes = on_bytes,
    .on_gone = on_gone,
};

void kafka_client_init(struct kafka_client *c, struct sim *sim)
{
    *c = (struct kafka_client){.sim = sim};
    list_init(&c->calls);
    arena_init(&c->arena, ARENA_SIZE_MAX);
}

void kafka_client_done(struct kafka_client *c)
{
    kafka_client_close(c);
    arena_done(&c->arena);
    free(c->received);
}

bool kafka_client_connect(struct kafka_client *c, struct net_sim *net)
{
    if (c->link == NULL) {
        c->link = net_dial(net, c, &client_ops);
    }
    return c->link != NULL;
}

bool kafka_client_is_ready(const struct kafka_client *c)
{
    return c->link != NULL && c->is_connected;
}

void kafka_client_begin(struct kafka_client *c, struct kafka_call *call, struct wbuf *w)
{
    wbuf_init(w, 32 << 20);
    call->correlation_id = c->correlation_next++;
    wbuf_i32(w, 0);
    enum err e = request_header_encode(w,
                                       &(struct request_header){
                                           .api_key = call->api_key,
                                           .api_version = call->version,
                                           .correlation_id = call->correlation_id,
                                           .client_id = slice_of_string("sim"),
                                       });
    assert(e == ERR_OK);
}

void kafka_client_send(struct kafka_client *c,
                       struct kafka_call *call,
                       struct wbuf *w,
                       bool is_answered)
{
    assert(kafka_client_is_ready(c));
    assert(wbuf_failure(w) == ERR_OK);
    wbuf_patch_i32(w, 0, (int32_t)(w->size - PREFIX_SIZE));
    call->sent_us = c->sim->clock.now_us;
    list_init(&call->link);
    if (is_answered) {
        list_push_back(&c->calls, &call->link);
    }
    net_client_send(c->link, w->data, w->size);
    wbuf_done(w);
}

void kafka_client_check(const struct kafka_client *c)
{
    if (list_is_empty(&c->calls)) {
        return;
    }
    const struct kafka_call *call = container_of(c->calls.next, struct kafka_call, link);
    sim_check(c->sim,
              c->sim->clock.now_us - call->sent_us < CALL_TIMEOUT_US,
              "a request is not answered: api_key=%d version=%d sent_us=%" PRIu64,
              call->api_key,
              call->version,
              call->sent_us);
}

void kafka_client_close(struct kafka_client *c)
{
    if (c->link != NULL) {
        net_client_close(c->link);
        on_gone(c);
    }
}

void kafka_caller_begin(struct kafka_caller *c,
                        struct wbuf *w,
                        int16_t api_key,
                        int16_t version_min,
                        int16_t version_max)
{
    struct sim *sim = c->client.sim;
    c->call = (struct kafka_call){
        .api_key = api_key,
        .version = (int16_t)sim_between(sim, (uint64_t)version_min, (uint64_t)version_max)};
    kafka_client_begin(&c->client, &c->call, w);
}

void kafka_caller_send(struct kafka_caller *c,
                       struct wbuf *w,
                       enum err encoded,
                       void (*on_answer)(struct kafka_call *, struct rbuf *, struct arena *))
{
    assert(encoded == ERR_OK);
    c->call.on_answer = on_answer;
    c->is_calling = true;
    sim_say(c->client.sim, "sends api_key=%d version=%d", c->call.api_key, c->call.version);
    kafka_client_send(&c->client, &c->call, w, true);
}

struct kafka_caller *kafka_caller_end(struct kafka_call *call, const struct rbuf *body)
{
    struct kafka_caller *c = container_of(call, struct kafka_caller, call);
    c->is_calling = false;
    c->was_uncertain |= body == NULL;
    return body != NULL ? c : NULL;
}
