/* What the client library moves: RECORDS of SIZE bytes into a topic, then out of it again.
 *
 *     client BROKERS TOPIC RECORDS SIZE [LINGER_MS]
 */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

enum {
    FLUSH_MS = 600000,
    WAIT_MS = 1000,
};

struct run {
    struct client *client;
    const char *topic;
    uint64_t records_count;
    size_t size;
    uint32_t linger_ms;
    struct clock clock;
};

static void report(struct run *r, const char *what, uint64_t began_us)
{
    const double seconds = (double)(clock_now_us(&r->clock) - began_us) / 1e6;
    const double records = (double)r->records_count;
    printf("%s %.0f records/s %.1f MB/s\n",
           what,
           records / seconds,
           records * (double)r->size / seconds / 1e6);
}

static enum err produce(struct run *r)
{
    const struct client_producer_options options = {
        .is_idempotent = true,
        .linger_ms = r->linger_ms,
    };
    struct client_producer *p = NULL;
    char *value = calloc(1, r->size + 1);
    enum err e = value == NULL ? ERR_BUSY : client_producer_new(r->client, r->topic, &options, &p);
    const uint64_t began_us = clock_now_us(&r->clock);
    for (uint64_t i = 0; e == ERR_OK && i < r->records_count; i++) {
        const struct client_message m = {.partition = -1, .value = slice_of(value, r->size)};
        e = client_producer_send(p, &m);
    }
    if (e == ERR_OK) {
        e = client_producer_flush(p, FLUSH_MS);
    }
    if (e == ERR_OK) {
        report(r, "produce", began_us);
    }
    client_producer_free(p);
    free(value);
    return e;
}

static enum err consume(struct run *r)
{
    struct client_consumer *s = NULL;
    enum err e = client_consumer_new(r->client, r->topic, NULL, &s);
    for (int32_t i = 0; e == ERR_OK && i < client_consumer_partitions_count(s); i++) {
        e = client_consumer_assign(s, i, 0);
    }
    const uint64_t began_us = clock_now_us(&r->clock);
    for (uint64_t i = 0; e == ERR_OK && i < r->records_count; i++) {
        struct client_record record;
        e = client_consumer_next(s, WAIT_MS, &record);
    }
    if (e == ERR_OK) {
        report(r, "consume", began_us);
    }
    client_consumer_free(s);
    return e;
}

int main(int argc, char **argv)
{
    char why[CLIENT_WHY_SIZE];
    if (argc < 5) {
        (void)fprintf(stderr, "usage: client BROKERS TOPIC RECORDS SIZE [LINGER_MS]\n");
        return 2;
    }
    struct run r = {
        .topic = argv[2],
        .records_count = strtoull(argv[3], NULL, 10),
        .size = strtoull(argv[4], NULL, 10),
        .linger_ms = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0,
    };
    clock_init_real(&r.clock);
    if (client_new(&(struct client_options){.brokers = argv[1]}, why, &r.client) != ERR_OK) {
        (void)fprintf(stderr, "client: %s\n", why);
        return 1;
    }
    enum err e = produce(&r);
    if (e == ERR_OK) {
        e = consume(&r);
    }
    if (e != ERR_OK) {
        (void)fprintf(stderr, "client: %s\n", client_why(r.client));
    }
    client_free(r.client);
    return e == ERR_OK ? 0 : 1;
}
