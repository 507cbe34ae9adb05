/* Times of records by their offsets: no request asks for that, so they are read. */
#include <stdlib.h>

#include "client/client_group.h"
#include "client/client_priv.h"

enum {
    PARTITION_SIZE_MAX = 4096, /* One batch comes, however large. */
    TURN_MS_MAX = 500,
};

static struct client_time *time_of(struct client_time *times, size_t count, int32_t partition)
{
    for (size_t i = 0; i < count; i++) {
        if (times[i].partition == partition) {
            return &times[i];
        }
    }
    return NULL;
}

static bool is_open(const struct client_time *t)
{
    return t->err == ERR_TIMED_OUT;
}

/* Nothing more is wanted of its partition. */
static void end(struct client_consumer *s, struct client_time *t, enum err e, int64_t timestamp)
{
    t->err = e;
    t->timestamp = timestamp;
    (void)client_consumer_unassign(s, t->partition);
}

/* What was read up to its end has no record there. How many are left. */
static size_t end_those_at_end(struct client_consumer *s, struct client_time *times, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        struct client_time *t = &times[i];
        if (!is_open(t)) {
            continue;
        }
        const int64_t position = client_consumer_position(s, t->partition);
        const int64_t log_end = client_consumer_end(s, t->partition);
        if (position >= 0 && log_end >= 0 && position >= log_end) {
            end(s, t, ERR_NOT_FOUND, -1);
        } else {
            left++;
        }
    }
    return left;
}

/* An error of one partition ends that one; ERR_OK if the others go on. */
static enum err
take_error(struct client_consumer *s, struct client_time *times, size_t count, enum err e)
{
    const int32_t partition = client_consumer_failed_partition(s);
    struct client_time *t = partition >= 0 ? time_of(times, count, partition) : NULL;
    if (e == ERR_TIMED_OUT || e == ERR_BUSY) {
        return ERR_OK; /* To be asked again. */
    }
    if (t == NULL) {
        return e;
    }
    if (is_open(t)) {
        end(s, t, e, -1);
    }
    return ERR_OK;
}

static enum err read_all(struct client *c,
                         struct client_consumer *s,
                         struct client_time *times,
                         size_t count,
                         uint64_t deadline_us)
{
    enum err e = ERR_OK;
    while (e == ERR_OK && end_those_at_end(s, times, count) > 0 && client_now_us(c) < deadline_us) {
        const uint64_t left_ms = (deadline_us - client_now_us(c)) / 1000 + 1;
        const struct client_record *records = NULL;
        size_t records_count = 0;
        e = client_consumer_poll(
            s, left_ms < TURN_MS_MAX ? (uint32_t)left_ms : TURN_MS_MAX, &records, &records_count);
        if (e != ERR_OK) {
            e = take_error(s, times, count, e);
        } else if (records_count > 0) {
            struct client_time *t = time_of(times, count, records[0].partition);
            end(s, t, ERR_OK, records[0].timestamp);
        }
    }
    return e;
}

enum err client_find_times(struct client *c,
                           const char *topic,
                           struct client_time *times,
                           size_t times_count,
                           uint32_t timeout_ms)
{
    const uint64_t deadline_us = client_after_us(c, timeout_ms);
    const struct client_consumer_options options = {
        .partition_size_max = PARTITION_SIZE_MAX,
        .reset = CLIENT_RESET_START,
    };
    struct client_consumer *s = NULL;
    enum err e = client_consumer_new(c, topic, &options, &s);
    for (size_t i = 0; e == ERR_OK && i < times_count; i++) {
        times[i].timestamp = -1;
        times[i].err = ERR_TIMED_OUT;
        e = client_consumer_assign(s, times[i].partition, times[i].offset);
    }
    if (e == ERR_OK) {
        e = read_all(c, s, times, times_count, deadline_us);
    }
    client_consumer_free(s);
    return e;
}
