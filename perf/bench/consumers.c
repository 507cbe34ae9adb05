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
    POLL_MS = 50,            /* So long a consumer takes to notice that it is to end. */
    LOOK_US_UNREADY = 10000, /* How often it looks where it is. */
    LOOK_US = 200000,
    BUFFER_SIZE_ALL = 512 << 20, /* Shared out among the consumers, as it is among producers. */
    BUFFER_SIZE_MIN = 4 << 20,
    BUFFER_SIZE_MAX = 64 << 20,
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
    struct client_offset *places; /* By assignment: its partitions, and where it began. */
    uint64_t rewound_at;          /* records_count when it began anew. */
    uint64_t next_look_us;
    /* Under the lock. */
    int32_t ready_partitions;
    uint64_t records_count;
    uint64_t size;
    uint64_t last_us;
    uint64_t lag_count;
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
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t due_us = 0;
        size += records[i].key.size + records[i].value.size;
        if (workload_read_stamp(records[i].value, o->run_id, &due_us)) {
            meter_record(o->delivered, due_us, now_us, 1);
        }
    }
    lock(x->all);
    x->records_count += count;
    x->size += size;
    x->last_us = now_us;
    unlock(x->all);
}

/* Of the topic's partitions every count-th is its own. */
static size_t places_count(const struct consumer *x)
{
    const struct consumers_options *o = &x->all->options;
    const size_t all = (size_t)o->partitions_count;
    return x->index < all ? (all - x->index - 1) / o->count + 1 : 0;
}

struct place {
    int32_t ready_partitions; /* Whose position is known. */
    uint64_t lag_count;       /* At least 1 while an end is not known. */
};

static void add_place(struct place *p, int64_t position, int64_t end)
{
    p->ready_partitions += position >= 0;
    p->lag_count += position < 0 || end < 0 ? 1 : end > position ? (uint64_t)(end - position) : 0;
}

static void find_place(struct consumer *x, struct place *ret)
{
    *ret = (struct place){0};
    if (x->member != NULL) {
        const struct client_topic_partition *partitions = NULL;
        size_t count = 0;
        client_member_assignment(x->member, &partitions, &count);
        for (size_t i = 0; i < count; i++) {
            add_place(ret,
                      client_member_position(x->member, &partitions[i]),
                      client_member_end(x->member, &partitions[i]));
        }
        return;
    }
    for (size_t i = 0; i < places_count(x); i++) {
        const int32_t partition = x->places[i].partition;
        add_place(ret,
                  client_consumer_position(x->assigned, partition),
                  client_consumer_end(x->assigned, partition));
    }
}

/* Now and then: there may be thousands of partitions. */
static void look(struct consumer *x)
{
    const uint64_t now_us = clock_now_us(x->all->options.clock);
    if (now_us < x->next_look_us) {
        return;
    }
    struct place place;
    find_place(x, &place);
    lock(x->all);
    x->ready_partitions = place.ready_partitions;
    x->lag_count = place.lag_count;
    unlock(x->all);
    x->next_look_us = now_us + (consumers_are_ready(x->all) ? LOOK_US : LOOK_US_UNREADY);
}

/* From the start again, once everything was read. */
static enum err rewind_at_end(struct consumer *x)
{
    enum err e = ERR_OK;
    if (x->records_count == x->rewound_at || !client_consumer_is_at_end(x->assigned)) {
        return e;
    }
    x->rewound_at = x->records_count;
    for (size_t i = 0; e == ERR_OK && i < places_count(x); i++) {
        e = client_consumer_seek(x->assigned, x->places[i].partition, x->places[i].offset);
    }
    return e;
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
    while (!is_stopping(x->all)) {
        const struct client_record *records = NULL;
        size_t count = 0;
        enum err e = x->member != NULL
                         ? client_member_poll(x->member, POLL_MS, &records, &count)
                         : client_consumer_poll(x->assigned, POLL_MS, &records, &count);
        if (e == ERR_OK) {
            count_records(x, records, count);
        }
        look(x);
        if (is_passing(e) && x->all->options.is_repeated) {
            e = rewind_at_end(x);
        }
        if (!is_passing(e)) {
            fail(x, e);
            break;
        }
    }
    /* Here, so that all leave at the same time. */
    if (x->member != NULL) {
        (void)client_member_close(x->member, CLOSE_MS);
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
    const struct consumers_options *o = &x->all->options;
    const size_t count = places_count(x);
    struct client_offset *places = calloc(count + 1, sizeof(*places));
    if (places == NULL) {
        return ERR_BUSY;
    }
    x->places = places;
    for (size_t i = 0; i < count; i++) {
        places[i].partition = (int32_t)(x->index + i * o->count);
        places[i].timestamp = o->is_from_start ? CLIENT_OFFSET_START : CLIENT_OFFSET_END;
    }
    enum err e = client_find_offsets(x->client, o->topic, places, count);
    for (size_t i = 0; e == ERR_OK && i < count; i++) {
        e = client_consumer_assign(x->assigned, places[i].partition, places[i].offset);
    }
    return e;
}

static struct client_consumer_options reading(const struct consumers *c)
{
    size_t size = BUFFER_SIZE_ALL / c->count;
    size = size > BUFFER_SIZE_MAX ? BUFFER_SIZE_MAX : size;
    size = size < BUFFER_SIZE_MIN ? BUFFER_SIZE_MIN : size;
    return (struct client_consumer_options){
        .buffer_size = size,
        .reset = c->options.is_from_start ? CLIENT_RESET_START : CLIENT_RESET_END,
    };
}

static enum err open_reader(struct consumer *x)
{
    struct consumers *c = x->all;
    const struct consumers_options *o = &c->options;
    struct client_consumer_options options = reading(c);
    if (o->groups_count == 0) {
        /* A record that is gone before it was read is to be told. */
        options.reset = o->is_repeated ? CLIENT_RESET_START : CLIENT_RESET_NONE;
        enum err e = client_consumer_new(x->client, o->topic, &options, &x->assigned);
        return e == ERR_OK ? assign(x) : e;
    }
    const struct client_member_options member = {
        .group = o->groups[x->reader],
        .topics = &o->topic,
        .topics_count = 1,
        .auto_commit_ms = 5000,
        .reading = options,
    };
    return client_member_new(x->client, &member, &x->member);
}

static enum err open_one(struct consumer *x, char ret_why[CLIENT_WHY_SIZE])
{
    const struct client_options client = {
        .brokers = x->all->options.brokers,
        .client_id = "coreflume-bench",
    };
    enum err e = client_new(&client, ret_why, &x->client);
    return e == ERR_OK ? say(x, open_reader(x), ret_why) : e;
}

static enum err open_all(struct consumers *c, char ret_why[CLIENT_WHY_SIZE])
{
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < c->count; i++) {
        c->list[i].all = c;
        c->list[i].reader = i / c->options.count;
        c->list[i].index = i % c->options.count;
        e = open_one(&c->list[i], ret_why);
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
    enum err e = open_all(c, ret_why);
    if (e != ERR_OK) {
        consumers_free(c);
        return e;
    }
    *ret_consumers = c;
    return ERR_OK;
}

enum err consumers_start(struct consumers *c, char ret_why[CLIENT_WHY_SIZE])
{
    enum err e = ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < c->count; i++) {
        struct consumer *x = &c->list[i];
        e = thread_start(&x->thread, "bench-consumer", -1, run, x);
        x->is_started = e == ERR_OK;
    }
    if (e != ERR_OK) {
        (void)snprintf(ret_why, CLIENT_WHY_SIZE, "the system gives no thread for a consumer");
    }
    return e;
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
        client_member_free(x->member);
        client_consumer_free(x->assigned);
        client_free(x->client);
        free(x->places);
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

static int64_t ready_partitions(const struct consumers *c)
{
    int64_t ready = 0;
    for (size_t i = 0; i < c->count; i++) {
        ready += c->list[i].ready_partitions;
    }
    return ready;
}

static bool are_ready(const struct consumers *c)
{
    const int64_t wanted = (int64_t)c->options.partitions_count * (int64_t)consumers_readers(c);
    return ready_partitions(c) == wanted;
}

void consumers_state(struct consumers *c, struct consumers_state *ret_state)
{
    struct consumers_state s = {0};
    lock(c);
    s.err = c->err;
    memcpy(s.why, c->why, sizeof(s.why));
    for (size_t i = 0; i < c->count; i++) {
        const struct consumer *x = &c->list[i];
        s.ready_count += x->ready_partitions > 0;
        s.records_count += x->records_count;
        s.size += x->size;
        s.lag_count += x->lag_count;
        s.last_us = x->last_us > s.last_us ? x->last_us : s.last_us;
    }
    s.is_at_end = are_ready(c) && s.lag_count == 0;
    unlock(c);
    *ret_state = s;
}

bool consumers_are_ready(struct consumers *c)
{
    lock(c);
    const bool are = are_ready(c);
    unlock(c);
    return are;
}
