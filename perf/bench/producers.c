#include "perf/bench/producers.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/assert.h"

enum {
    BUFFER_SIZE_ALL = 512 << 20, /* Shared out among the clients: what waits in them is bounded. */
    BUFFER_SIZE_MIN = 4 << 20,
    BUFFER_SIZE_MAX = 64 << 20,
};

/* On a client's thread. What failed was never acknowledged: it counts with the time that was its
 * own, at least, even if it was refused at once, or given up with a batch whose oldest record had
 * waited for so long. Left out, or with a shorter time, it would flatter. */
static void on_delivery(const struct client_delivery *delivery, void *context)
{
    const struct producers_options *o = context;
    const uint64_t due_us = (uint64_t)(uintptr_t)delivery->opaque;
    const uint32_t count = (uint32_t)delivery->records_count;
    const uint64_t now_us = clock_now_us(o->clock);
    const uint64_t timeout_us = due_us + (uint64_t)o->timeout_ms * 1000;
    if (delivery->err == ERR_OK) {
        meter_record(o->published, due_us, now_us, count);
    } else if (delivery->err == ERR_CANCELLED) {
        meter_wait(o->published, due_us, now_us, count); /* By us, at the end. */
    } else {
        meter_wait(o->published, due_us, now_us > timeout_us ? now_us : timeout_us, count);
        meter_fail(o->published, due_us, count, delivery->err, delivery->why);
    }
}

static size_t buffer_size(const struct producers_options *o)
{
    const size_t record_size = (size_t)o->workload.value_size_max + o->workload.key_size;
    const size_t largest = record_size + (o->is_replay ? o->replay_batch_size : 0);
    size_t size = BUFFER_SIZE_ALL / o->count;
    size = size > BUFFER_SIZE_MAX ? BUFFER_SIZE_MAX : size;
    size = size < BUFFER_SIZE_MIN ? BUFFER_SIZE_MIN : size;
    return size < 4 * largest ? 4 * largest : size;
}

static enum err start_one(struct producers *p, size_t i, char ret_why[CLIENT_WHY_SIZE])
{
    const struct producers_options *o = &p->options;
    const struct client_options client = {
        .brokers = o->brokers,
        .client_id = "coreflume-bench",
        .timeout_ms = o->timeout_ms,
        .buffer_size = buffer_size(o),
    };
    enum err e = client_new(&client, ret_why, &p->clients[i]);
    if (e != ERR_OK) {
        return e;
    }
    e = client_producer_new(p->clients[i], o->topic, &o->producer, &p->producers[i]);
    if (e != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "%s", client_why(p->clients[i]));
    }
    return e;
}

static enum err init_records(struct producers *p)
{
    const struct producers_options *o = &p->options;
    enum err e = workload_init(&p->workload, &o->workload);
    if (e != ERR_OK || !o->is_replay) {
        return e;
    }
    const struct replay_options replay = {
        .workload = &p->workload,
        .batch_size = o->replay_batch_size,
        .codec = o->producer.codec,
    };
    return replay_init(&p->replay, &replay);
}

enum err producers_init(struct producers *p,
                        const struct producers_options *options,
                        char ret_why[CLIENT_WHY_SIZE])
{
    *p = (struct producers){.options = *options};
    p->options.producer.on_delivery = on_delivery;
    p->options.producer.context = &p->options;
    p->options.producer.max_block_ms = -1; /* The pacer never waits for a client. */
    p->options.producer.delivery_timeout_ms = options->timeout_ms;
    p->clients = calloc(options->count + 1, sizeof(struct client *));
    p->producers = calloc(options->count + 1, sizeof(struct client_producer *));
    if (p->clients == NULL || p->producers == NULL || init_records(p) != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "no memory for the producers");
        return ERR_BUSY;
    }
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < options->count; i++) {
        e = start_one(p, i, ret_why);
    }
    return e;
}

void producers_drop(struct producers *p)
{
    for (size_t i = 0; p->producers != NULL && i < p->options.count; i++) {
        client_producer_free(p->producers[i]);
        p->producers[i] = NULL;
    }
}

void producers_done(struct producers *p)
{
    producers_drop(p);
    for (size_t i = 0; p->clients != NULL && i < p->options.count; i++) {
        client_free(p->clients[i]);
    }
    free(p->clients);
    free(p->producers);
    replay_done(&p->replay);
    workload_done(&p->workload);
}

uint32_t producers_step(const struct producers *p)
{
    return p->options.is_replay ? (uint32_t)p->replay.records_count : 1;
}

/* Made once, however often it is tried: what the client refuses would else be lost. */
static void make_next(struct producers *p, uint64_t due_us)
{
    if (p->has_unsent) {
        return;
    }
    if (p->options.is_replay) {
        p->batch = replay_next(&p->replay, due_us, clock_wall_ms(p->options.clock));
    } else {
        workload_next(&p->workload, due_us, &p->message);
        p->message.opaque = (void *)(uintptr_t)due_us;
    }
    p->has_unsent = true;
}

static enum err send_to(struct producers *p, size_t i, uint64_t due_us)
{
    if (!p->options.is_replay) {
        return client_producer_send(p->producers[i], &p->message);
    }
    const struct client_encoded_batch batch = {
        .partition = -1,
        .bytes = p->batch,
        .opaque = (void *)(uintptr_t)due_us,
    };
    return client_producer_send_batch(p->producers[i], &batch);
}

static uint64_t step_size(const struct producers *p)
{
    if (p->options.is_replay) {
        return (uint64_t)(p->replay.record_size * p->replay.records_count);
    }
    return p->message.key.size + p->message.value.size;
}

enum err producers_send(struct producers *p, uint64_t due_us)
{
    make_next(p, due_us);
    enum err e = ERR_BUSY;
    for (size_t tried = 0; e == ERR_BUSY && tried < p->options.count; tried++) {
        e = send_to(p, p->next, due_us);
        p->next = (p->next + 1) % p->options.count;
    }
    if (e == ERR_OK) {
        p->has_unsent = false;
        p->sent_count += producers_step(p);
        p->sent_size += step_size(p);
    }
    return e;
}

void producers_forget(struct producers *p)
{
    p->has_unsent = false;
}

const char *producers_why(const struct producers *p)
{
    const size_t count = p->options.count;
    return client_why(p->clients[(p->next + count - 1) % count]);
}
