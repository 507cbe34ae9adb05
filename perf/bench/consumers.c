#include "perf/bench/consumers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_group.h"
#include "core/assert.h"
#include "core/thread.h"

#include "perf/bench/workload.h"

enum {
    POLL_MS = 50, /* So long a consumer takes to notice that it is to end. */
    CLOSE_MS = 5000,
};

/* One consumer and its thread. */
struct consumer {
    struct consumers *all;
    struct thread thread;
    struct client *client;
    struct client_consumer *assigned; /* One of the two. */
    struct client_member *member;
    size_t reader; /* Which group. */
    size_t index;  /* In it. */
    bool is_started;
    int32_t ready_partitions; /* Under the lock. */
};

struct consumers {
    struct consumers_options options;
    struct consumer *list;
    size_t count;
    pthread_mutex_t lock;
    bool is_stopping;
    enum err err;
    char why[CLIENT_WHY_SIZE];
};

static void lock(struct consumers *c)
{
    const int number = pthread_mutex_lock(&c->lock);
    assert_cmp(number, ==, 0);
}

static void unlock(struct consumers *c)
{
    const int number = pthread_mutex_unlock(&c->lock);
    assert_cmp(number, ==, 0);
}

/* ---- a consumer's thread ---- */

static bool is_stopping(struct consumers *c)
{
    lock(c);
    const bool is = c->is_stopping;
    unlock(c);
    return is;
}

/* The records of one poll were handed over at once: one look at the clock does. */
static void count_records(struct consumer *x, const struct client_record *records, size_t count)
{
    const struct consumers_options *o = &x->all->options;
    const uint64_t now_us = clock_now_us(o->clock);
    for (size_t i = 0; i < count; i++) {
        uint64_t due_us = 0;
        if (workload_read_stamp(records[i].value, o->run_id, &due_us)) {
            meter_record(o->delivered, due_us, now_us, 1);
        }
    }
}

/* How many partitions it reads by now, from a known place. */
static void look_ready(struct consumer *x)
{
    int32_t ready = 0;
    if (x->member != NULL) {
        const struct client_topic_partition *partitions = NULL;
        size_t count = 0;
        client_member_assignment(x->member, &partitions, &count);
        for (size_t i = 0; i < count; i++) {
            ready += client_member_position(x->member, &partitions[i]) >= 0;
        }
    } else {
        for (int32_t i = 0; i < x->all->options.partitions_count; i++) {
            ready += client_consumer_position(x->assigned, i) >= 0;
        }
    }
    lock(x->all);
    x->ready_partitions = ready;
    unlock(x->all);
}

static void fail(struct consumer *x, enum err e)
{
    struct consumers *c = x->all;
    lock(c);
    if (c->err == ERR_OK && !c->is_stopping) {
        c->err = e;
        (void)snprintf(c->why, sizeof(c->why), "%s", client_why(x->client));
    }
    unlock(c);
}

/* What a poll that failed says again and again must not fill the processor. */
static bool is_passing(enum err e)
{
    return e == ERR_OK || e == ERR_TIMED_OUT || e == ERR_BUSY;
}

static void run(void *context)
{
    struct consumer *x = context;
    bool is_ready = false;
    while (!is_stopping(x->all)) {
        const struct client_record *records = NULL;
        size_t count = 0;
        enum err e = x->member != NULL
                         ? client_member_poll(x->member, POLL_MS, &records, &count)
                         : client_consumer_poll(x->assigned, POLL_MS, &records, &count);
        if (e == ERR_OK) {
            count_records(x, records, count);
        } else if (!is_passing(e)) {
            fail(x, e);
            return;
        }
        /* Members' partitions come and go; those assigned stay. */
        if (!is_ready || count == 0) {
            look_ready(x);
            is_ready = x->member == NULL && consumers_are_ready(x->all);
        }
    }
}

/* ---- starting and ending ---- */

static enum err say(struct consumer *x, enum err e, char ret_why[CLIENT_WHY_SIZE])
{
    if (e != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "%s", client_why(x->client));
    }
    return e;
}

/* From the end as it is now: a record that is sent later must not be before it. */
static enum err assign(struct consumer *x)
{
    const struct consumers *c = x->all;
    const size_t count = c->options.count;
    enum err e = ERR_OK;
    for (int32_t i = (int32_t)x->index; e == ERR_OK && i < c->options.partitions_count;
         i += (int32_t)count) {
        struct client_offset end = {.partition = i, .timestamp = CLIENT_OFFSET_END};
        if (!c->options.is_new_topic) {
            e = client_find_offsets(x->client, c->options.topic, &end, 1);
        }
        if (e == ERR_OK) {
            e = client_consumer_assign(x->assigned, i, end.offset);
        }
    }
    return e;
}

static enum err open_reader(struct consumer *x)
{
    struct consumers *c = x->all;
    const struct consumers_options *o = &c->options;
    if (o->groups_count == 0) {
        enum err e = client_consumer_new(x->client, o->topic, NULL, &x->assigned);
        return e == ERR_OK ? assign(x) : e;
    }
    const struct client_member_options member = {
        .group = o->groups[x->reader],
        .topics = &o->topic,
        .topics_count = 1,
        .auto_commit_ms = 5000,
        .reading = {.reset = o->is_new_topic ? CLIENT_RESET_START : CLIENT_RESET_END},
    };
    return client_member_new(x->client, &member, &x->member);
}

static enum err start_one(struct consumer *x, char ret_why[CLIENT_WHY_SIZE])
{
    const struct client_options client = {
        .brokers = x->all->options.brokers,
        .client_id = "coreflume-bench",
    };
    enum err e = client_new(&client, ret_why, &x->client);
    if (e != ERR_OK) {
        return e;
    }
    e = say(x, open_reader(x), ret_why);
    if (e != ERR_OK) {
        return e;
    }
    e = thread_start(&x->thread, "bench-consumer", -1, run, x);
    if (e != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "the system gives no thread for a consumer");
    }
    x->is_started = e == ERR_OK;
    return e;
}

static enum err start_all(struct consumers *c, char ret_why[CLIENT_WHY_SIZE])
{
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < c->count; i++) {
        c->list[i].all = c;
        c->list[i].reader = i / c->options.count;
        c->list[i].index = i % c->options.count;
        e = start_one(&c->list[i], ret_why);
    }
    return e;
}

enum err consumers_new(const struct consumers_options *options,
                       char ret_why[CLIENT_WHY_SIZE],
                       struct consumers **ret_consumers)
{
    struct consumers *c = calloc(1, sizeof(*c));
    const size_t readers = options->groups_count > 0 ? options->groups_count : 1;
    struct consumer *list = calloc(options->count * readers + 1, sizeof(*list));
    if (c == NULL || list == NULL) {
        free(c);
        free(list);
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "no memory for the consumers");
        return ERR_BUSY;
    }
    c->options = *options;
    c->list = list;
    c->count = options->count * readers;
    const int number = pthread_mutex_init(&c->lock, NULL);
    assert_cmp(number, ==, 0);
    enum err e = c->count > 0 ? start_all(c, ret_why) : ERR_OK;
    if (e != ERR_OK) {
        consumers_free(c);
        return e;
    }
    *ret_consumers = c;
    return ERR_OK;
}

void consumers_free(struct consumers *c)
{
    if (c == NULL) {
        return;
    }
    lock(c);
    c->is_stopping = true;
    unlock(c);
    for (size_t i = 0; i < c->count; i++) {
        struct consumer *x = &c->list[i];
        if (x->is_started) {
            thread_join(&x->thread);
        }
        if (x->member != NULL) {
            (void)client_member_close(x->member, CLOSE_MS);
        }
        client_member_free(x->member);
        client_consumer_free(x->assigned);
        client_free(x->client);
    }
    free(c->list);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

size_t consumers_count(const struct consumers *c)
{
    return c->count;
}

size_t consumers_readers(const struct consumers *c)
{
    return c->options.count == 0 ? 0 : c->count / c->options.count;
}

void consumers_state(struct consumers *c, struct consumers_state *ret_state)
{
    *ret_state = (struct consumers_state){0};
    lock(c);
    ret_state->err = c->err;
    memcpy(ret_state->why, c->why, sizeof(ret_state->why));
    for (size_t i = 0; i < c->count; i++) {
        ret_state->ready_count += c->list[i].ready_partitions > 0;
    }
    unlock(c);
}

bool consumers_are_ready(struct consumers *c)
{
    int64_t ready = 0;
    lock(c);
    for (size_t i = 0; i < c->count; i++) {
        ready += c->list[i].ready_partitions;
    }
    unlock(c);
    return ready == (int64_t)c->options.partitions_count * (int64_t)consumers_readers(c);
}
