/* The program's side of the producer: partitions chosen, records taken, flushed, told. */
#include "client/client_producer.h"

#include <stdlib.h>
#include <string.h>

#include "client/client_priv.h"
#include "client/partitioner.h"
#include "core/assert.h"

enum {
    BATCH_SIZE_DEFAULT = 256 << 10,
    BATCH_SIZE_MAX = 64 << 20,
    BATCH_OVERHEAD = 1024, /* Of a batch in the buffer, beside its records. */
    RECORD_OVERHEAD = 32,
    DELIVERY_TIMEOUT_MS_DEFAULT = 120000,
    BLOCK_MS_DEFAULT = 60000,
    IN_FLIGHT_MAX = 5, /* So many batches brokers remember of an idempotent producer. */
};

/* ---- life ---- */

static enum err fill_options(struct client *c, struct client_producer_options *o)
{
    if (o->is_idempotent && o->acks != CLIENT_ACKS_ALL) {
        return client_fail(c, ERR_INVALID, "an idempotent producer needs acks all");
    }
    if (o->is_idempotent && o->in_flight_max > IN_FLIGHT_MAX) {
        return client_fail(c,
                           ERR_INVALID,
                           "an idempotent producer has at most %d batches in flight",
                           IN_FLIGHT_MAX);
    }
    if (o->partitioner == CLIENT_PARTITIONER_CUSTOM && o->partition_of == NULL) {
        return client_fail(c, ERR_INVALID, "the custom partitioner has no function");
    }
    if (o->in_flight_max == 0) {
        o->in_flight_max = o->is_idempotent ? IN_FLIGHT_MAX : 1;
    }
    o->batch_size = o->batch_size == 0 ? BATCH_SIZE_DEFAULT : o->batch_size;
    o->batch_size = o->batch_size > BATCH_SIZE_MAX ? BATCH_SIZE_MAX : o->batch_size;
    o->max_block_ms = o->max_block_ms == 0 ? BLOCK_MS_DEFAULT : o->max_block_ms;
    o->delivery_timeout_ms =
        o->delivery_timeout_ms == 0 ? DELIVERY_TIMEOUT_MS_DEFAULT : o->delivery_timeout_ms;
    return ERR_OK;
}

enum err client_producer_new(struct client *c,
                             const char *topic,
                             const struct client_producer_options *options,
                             struct client_producer **ret_producer)
{
    struct client_producer *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return client_fail(c, ERR_BUSY, "no memory for a producer");
    }
    p->client = c;
    if (options != NULL) {
        p->options = *options;
    }
    p->producer_id = -1;
    p->producer_epoch = -1;
    list_init(&p->link);
    list_init(&p->active);
    list_init(&p->batches);
    list_init(&p->requests);
    enum err e = fill_options(c, &p->options);
    if (e == ERR_OK) {
        e = client_topic_init(c, topic, &p->topic);
    }
    if (e != ERR_OK) {
        free(p);
        return e;
    }
    client_lock(c);
    p->sticky = (int32_t)rand_below(c->env->rand, (uint64_t)p->topic.partitions_count);
    list_push_back(&c->producers, &p->link);
    client_topic_follow(c, &p->topic);
    client_unlock(c);
    *ret_producer = p;
    return ERR_OK;
}

/* Batches that nobody will settle any more are told as cancelled. */
static void purge(struct client_producer *p)
{
    list_for_each_safe (lane_node, &p->active) {
        struct client_lane *l = container_of(lane_node, struct client_lane, active_link);
        list_for_each_safe (node, &l->batches) {
            struct client_batch *b = container_of(node, struct client_batch, link);
            list_remove(&b->link);
            client_producer_finish(b, ERR_CANCELLED, "the producer was closed");
        }
    }
}

void client_producer_free(struct client_producer *p)
{
    if (p == NULL) {
        return;
    }
    struct client *c = p->client;
    client_lock(c);
    assert(client_can_wait(c));
    while (p->is_held) {
        client_wait(c, UINT64_MAX);
    }
    p->is_closing = true;
    client_produce_abandon(p);
    purge(p);
    client_wake(c, 0);
    while (!list_is_empty(&p->batches) || p->is_held) {
        client_wait(c, UINT64_MAX);
    }
    list_remove(&p->link);
    client_topic_unfollow(&p->topic);
    client_unlock(c);
    for (int32_t i = 0; i < p->lanes_count; i++) {
        client_lane_free(p->lanes[i]);
    }
    free(p->lanes);
    free(p->chosen);
    client_topic_done(&p->topic);
    free(p);
}

void client_producer_stats(struct client_producer *p, struct client_producer_stats *ret_stats)
{
    client_lock(p->client);
    *ret_stats = p->stats;
    client_unlock(p->client);
}

int32_t client_producer_partitions_count(struct client_producer *p)
{
    client_lock(p->client);
    const int32_t count = p->topic.partitions_count;
    client_unlock(p->client);
    return count;
}

/* ---- which partition ---- */

static int32_t next_with_leader(const struct client_topic *t, int32_t partition)
{
    for (int32_t i = 0; i < t->partitions_count; i++) {
        partition = (partition + 1) % t->partitions_count;
        if (t->leaders[partition] >= 0) {
            break;
        }
    }
    return partition;
}

/* A batch in each partition in turn (KIP-480, KIP-794): fewer, larger batches than a record each.
 * Partitions without a leader are passed over while others have one. */
static int32_t next_sticky(struct client_producer *p, size_t size)
{
    if (p->sticky_size >= p->options.batch_size || p->topic.leaders[p->sticky] < 0) {
        p->sticky_size = 0;
        p->sticky = next_with_leader(&p->topic, p->sticky);
    }
    p->sticky_size += size;
    return p->sticky;
}

static int32_t choose_partition(struct client_producer *p, const struct client_message *m)
{
    if (m->partition != -1) {
        return m->partition;
    }
    const int32_t count = p->topic.partitions_count;
    switch (p->options.partitioner) {
    case CLIENT_PARTITIONER_ROUND_ROBIN:
        p->sticky = next_with_leader(&p->topic, p->sticky);
        return p->sticky;
    case CLIENT_PARTITIONER_CUSTOM:
        return p->options.partition_of(m, count, p->options.context);
    case CLIENT_PARTITIONER_DEFAULT:
        break;
    }
    return slice_is_null(m->key) ? next_sticky(p, client_message_size(m))
                                 : partitioner_of_key(m->key, count);
}

static bool grow_lanes(struct client_producer *p)
{
    const int32_t count = p->topic.partitions_count;
    if (p->lanes_count >= count) {
        return true;
    }
    struct client_lane **grown = realloc(p->lanes, (size_t)count * sizeof(struct client_lane *));
    if (grown == NULL) {
        return false;
    }
    for (int32_t i = p->lanes_count; i < count; i++) {
        grown[i] = NULL;
    }
    p->lanes = grown;
    p->lanes_count = count;
    return true;
}

static enum err lane_for(struct client_producer *p,
                         const struct client_message *m,
                         char why[CLIENT_WHY_SIZE],
                         struct client_lane **ret_lane)
{
    const int32_t partition = choose_partition(p, m);
    if (partition < 0 || partition >= p->topic.partitions_count) {
        return client_say(why,
                          ERR_INVALID,
                          "topic '%s' has no partition %d, only 0 to %d",
                          p->topic.name,
                          partition,
                          p->topic.partitions_count - 1);
    }
    if (grow_lanes(p) && p->lanes[partition] == NULL) {
        p->lanes[partition] = client_lane_new(partition);
    }
    if (partition >= p->lanes_count || p->lanes[partition] == NULL) {
        return client_say(why, ERR_BUSY, "no memory for a partition");
    }
    *ret_lane = p->lanes[partition];
    return ERR_OK;
}

/* ---- records come in ---- */

/* Room for size bytes in the client's buffer. */
static enum err wait_for_room(struct client_producer *p, size_t size, char why[CLIENT_WHY_SIZE])
{
    struct client *c = p->client;
    if (size > c->buffer_size_max) {
        return client_say(why,
                          ERR_TOO_LARGE,
                          "a record of %zu bytes is larger than the client's buffer (%zu)",
                          size,
                          c->buffer_size_max);
    }
    const bool can_wait = p->options.max_block_ms > 0 && client_can_wait(c);
    const uint64_t deadline_us =
        can_wait ? client_after_us(c, (uint64_t)p->options.max_block_ms) : 0;
    c->starving_count++;
    while (c->buffer_size + size > c->buffer_size_max) {
        if (client_now_us(c) >= deadline_us) {
            c->starving_count--;
            return client_say(why,
                              ERR_BUSY,
                              "the client's buffer is full: %zu bytes wait to be acknowledged",
                              c->buffer_size);
        }
        client_wake(c, 0);
        client_wait(c, deadline_us);
    }
    c->starving_count--;
    return ERR_OK;
}

/* NULL without memory. */
static struct client_batch *new_batch(struct client_producer *p, struct client_lane *l)
{
    struct client_batch *b = client_batch_new(p, l);
    if (b != NULL) {
        b->opened_us = client_now_us(p->client);
        b->deadline_us = b->opened_us + (uint64_t)p->options.delivery_timeout_ms * 1000;
    }
    return b;
}

/* The batch that the record goes into: the open one, or another. */
static struct client_batch *
batch_for(struct client_producer *p, struct client_lane *l, const struct client_message *m)
{
    struct client_batch *open = client_lane_open(l);
    if (open != NULL &&
        open->builder.records.size + client_message_size(m) <= p->options.batch_size) {
        return open;
    }
    struct client_batch *b = new_batch(p, l);
    /* Batches above batch_size hold a single record. */
    if (b != NULL && open != NULL) {
        open->is_closed = true;
    }
    return b;
}

static void put_into_lane(struct client_producer *p, struct client_lane *l, struct client_batch *b)
{
    b->serial = ++p->serial;
    b->size = BATCH_OVERHEAD;
    p->client->buffer_size += BATCH_OVERHEAD;
    list_push_back(&l->batches, &b->link);
    list_push_back(&p->batches, &b->age_link);
    if (list_is_empty(&l->active_link)) {
        list_push_back(&p->active, &l->active_link);
    }
}

static enum err add(struct client_producer *p,
                    struct client_lane *l,
                    const struct client_message *m,
                    char why[CLIENT_WHY_SIZE])
{
    struct client *c = p->client;
    struct client_batch *b = batch_for(p, l, m);
    if (b == NULL) {
        return client_say(why, ERR_BUSY, "no memory for a batch");
    }
    const bool is_new = b->serial == 0;
    enum err e = client_batch_add(b, m, clock_wall_ms(c->env->clock));
    if (e != ERR_OK) {
        if (is_new) {
            client_batch_free(b);
        }
        return client_say(why,
                          e,
                          e == ERR_TOO_LARGE ? "a record is larger than a batch may be"
                                             : "no memory for a record");
    }
    if (is_new) {
        put_into_lane(p, l, b);
    }
    const size_t size = client_message_size(m) + RECORD_OVERHEAD;
    b->size += size;
    c->buffer_size += size;
    p->stats.sent_count++;
    /* Asleep the thread knows of the batch, unless it is new or has just become full. */
    const bool is_full = b->builder.records.size >= p->options.batch_size;
    if ((is_new || is_full) && l->in_flight_count < p->options.in_flight_max) {
        client_wake(c, is_full ? 0 : b->opened_us + (uint64_t)p->options.linger_ms * 1000);
    }
    return ERR_OK;
}

/* Without a callback it is the next send that tells. */
static enum err take_failure(struct client_producer *p, char why[CLIENT_WHY_SIZE])
{
    const enum err e = p->failure;
    if (e != ERR_OK) {
        memcpy(why, p->why, CLIENT_WHY_SIZE);
        p->failure = ERR_OK;
    }
    return e;
}

/* There is room for what is to be sent, and this is where it goes. */
static enum err admit(struct client_producer *p,
                      const struct client_message *m,
                      char why[CLIENT_WHY_SIZE],
                      struct client_lane **ret_lane)
{
    enum err e = ERR_OK;
    if (p->is_closing) { /* In a callback: nobody would settle it. */
        e = client_say(why, ERR_CANCELLED, "the producer is being closed");
    }
    if (e == ERR_OK && p->options.on_delivery == NULL) {
        e = take_failure(p, why);
    }
    if (e == ERR_OK) {
        e = wait_for_room(p, client_message_size(m) + RECORD_OVERHEAD + BATCH_OVERHEAD, why);
    }
    return e == ERR_OK ? lane_for(p, m, why, ret_lane) : e;
}

enum err client_producer_send(struct client_producer *p, const struct client_message *message)
{
    struct client *c = p->client;
    char why[CLIENT_WHY_SIZE];
    struct client_lane *l = NULL;
    client_lock(c);
    enum err e = admit(p, message, why, &l);
    if (e == ERR_OK) {
        assert(l != NULL);
        e = add(p, l, message, why);
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

/* Behind what the lane has. */
static enum err add_batch(struct client_producer *p,
                          struct client_lane *l,
                          const struct client_encoded_batch *batch,
                          char why[CLIENT_WHY_SIZE])
{
    struct client_batch *b = new_batch(p, l);
    enum err e = b == NULL ? ERR_BUSY : client_batch_take(b, batch->bytes, batch->opaque);
    if (e != ERR_OK) {
        if (b != NULL) {
            client_batch_free(b);
        }
        return client_say(
            why, e, e == ERR_INVALID ? "not exactly one record batch" : "no memory for a batch");
    }
    struct client_batch *open = client_lane_open(l);
    if (open != NULL) {
        open->is_closed = true;
    }
    put_into_lane(p, l, b);
    b->size += batch->bytes.size;
    p->client->buffer_size += batch->bytes.size;
    p->stats.sent_count += (uint64_t)b->records_count;
    if (l->in_flight_count < p->options.in_flight_max) {
        client_wake(p->client, 0);
    }
    return ERR_OK;
}

enum err client_producer_send_batch(struct client_producer *p,
                                    const struct client_encoded_batch *batch)
{
    struct client *c = p->client;
    char why[CLIENT_WHY_SIZE];
    const struct client_message whole = {.partition = batch->partition, .value = batch->bytes};
    struct client_lane *l = NULL;
    client_lock(c);
    enum err e = admit(p, &whole, why, &l);
    if (e == ERR_OK) {
        assert(l != NULL);
        e = add_batch(p, l, batch, why);
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

/* Batches up to this one that the program was not told of. */
static bool has_batches_up_to(const struct client_producer *p, uint64_t serial)
{
    return !list_is_empty(&p->batches) &&
           container_of(p->batches.next, struct client_batch, age_link)->serial <= serial;
}

enum err client_producer_flush(struct client_producer *p, uint32_t timeout_ms)
{
    struct client *c = p->client;
    char why[CLIENT_WHY_SIZE];
    enum err e = ERR_OK;
    client_lock(c);
    if (!client_can_wait(c)) {
        client_unlock(c);
        return client_fail(c, ERR_INVALID, "a callback must not flush");
    }
    const uint64_t deadline_us = client_after_us(c, timeout_ms);
    const uint64_t serial = p->serial;
    p->flushing_count++;
    client_wake(c, 0);
    while (e == ERR_OK && has_batches_up_to(p, serial)) {
        if (client_now_us(c) >= deadline_us) {
            e = client_say(why, ERR_TIMED_OUT, "not all records were acknowledged in time");
            break;
        }
        client_wait(c, deadline_us);
    }
    p->flushing_count--;
    if (e == ERR_OK) {
        e = take_failure(p, why);
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

/* ---- told ---- */

void client_producer_finish(struct client_batch *b, enum err e, const char *why)
{
    b->err = e;
    if (e != ERR_OK) {
        (void)client_say(b->why, e, "%s", why);
    }
    list_init(&b->link);
    list_push_back(&b->producer->client->deliveries, &b->link);
}

static void tell(const struct client_batch *b)
{
    const struct client_producer_options *o = &b->producer->options;
    const int32_t step = b->is_whole ? b->records_count : 1;
    for (int32_t i = 0; i < b->records_count; i += step) {
        const struct client_delivery delivery = {
            .err = b->err,
            .why = b->err == ERR_OK ? "" : b->why,
            .partition = b->lane->partition,
            .records_count = step,
            .offset = b->err == ERR_OK && b->base_offset >= 0 ? b->base_offset + i : -1,
            .timestamp = b->append_time_ms >= 0 ? b->append_time_ms : b->marks[i].timestamp,
            .opaque = b->marks[i].opaque,
        };
        o->on_delivery(&delivery, o->context);
    }
}

static void count(struct client_producer *p, const struct client_batch *b)
{
    if (b->err == ERR_OK) {
        p->stats.acked_count += (uint64_t)b->records_count;
        p->stats.batches_count++;
        return;
    }
    p->stats.failed_count += (uint64_t)b->records_count;
    if (p->failure == ERR_OK) {
        p->failure = b->err;
        memcpy(p->why, b->why, sizeof(p->why));
    }
}

void client_call_back(struct client *c)
{
    while (!list_is_empty(&c->deliveries)) {
        struct client_batch *b = container_of(c->deliveries.next, struct client_batch, link);
        struct client_producer *p = b->producer;
        list_remove(&b->link);
        count(p, b);
        if (p->options.on_delivery != NULL) {
            p->is_held = true;
            c->is_calling_back = true;
            client_unlock(c);
            tell(b);
            client_lock(c);
            c->is_calling_back = false;
            p->is_held = false;
        }
        c->buffer_size -= b->size;
        client_batch_free(b);
        client_changed(c);
    }
}
