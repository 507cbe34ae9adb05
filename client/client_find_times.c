/* Times of records by their offsets: no request asks for that, so they are read. */
#include <stdlib.h>

#include "client/client_group.h"
#include "client/client_priv.h"

enum {
    PARTITION_SIZE_MAX = 4096, /* One batch comes, however large. */
    TURN_MS_MAX = 500,
};

static void take(struct client_consumer *s,
                 struct client_time *times,
                 size_t count,
                 const struct client_record *r)
{
    for (size_t i = 0; i < count; i++) {
        if (times[i].partition == r->partition && times[i].timestamp < 0) {
            times[i].timestamp = r->timestamp;
        }
    }
    (void)client_consumer_unassign(s, r->partition);
}

/* What was read up to its end has no record there. */
static size_t drop_ended(struct client_consumer *s, const struct client_time *times, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t position = client_consumer_position(s, times[i].partition);
        const int64_t end = client_consumer_end(s, times[i].partition);
        const bool is_over = end >= 0 && position >= end;
        left += times[i].timestamp < 0 && position >= 0 && !is_over;
        left += times[i].timestamp < 0 && position < 0;
    }
    return left;
}

static enum err read_all(struct client *c,
                         struct client_consumer *s,
                         struct client_time *times,
                         size_t count,
                         uint64_t deadline_us)
{
    while (drop_ended(s, times, count) > 0 && client_now_us(c) < deadline_us) {
        const uint64_t left_ms = (deadline_us - client_now_us(c)) / 1000 + 1;
        const struct client_record *records = NULL;
        size_t records_count = 0;
        const enum err e = client_consumer_poll(
            s, left_ms < TURN_MS_MAX ? (uint32_t)left_ms : TURN_MS_MAX, &records, &records_count);
        if (e == ERR_OK && records_count > 0) {
            const struct client_record first = records[0];
            take(s, times, count, &first);
        } else if (e != ERR_OK && e != ERR_TIMED_OUT) {
            return e;
        }
    }
    return ERR_OK;
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
        e = client_consumer_assign(s, times[i].partition, times[i].offset);
    }
    if (e == ERR_OK) {
        e = read_all(c, s, times, times_count, deadline_us);
    }
    client_consumer_free(s);
    return e;
}
