/* Some consumer groups of one member each read a topic at the same time, all of it.
 *
 *     deliver BROKERS TOPIC GROUPS RECORDS PREFIX
 *
 * Each group (PREFIX-0, PREFIX-1, ...) has a client and a thread of its own, commits by itself as
 * consumers do, and leaves when it has read RECORDS. Prints the bytes of values they read.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client_group.h"

enum {
    GROUPS_MAX = 1000,
    NAME_SIZE = 200,
    POLL_MS = 30000,
    CLOSE_MS = 30000,
    COMMIT_MS = 5000,
};

struct reader {
    const char *brokers;
    const char *topic;
    uint64_t records_count;
    char group[NAME_SIZE];
    pthread_t thread;
    uint64_t bytes;
    enum err e;
    char why[CLIENT_WHY_SIZE];
};

static enum err read_all(struct reader *r, struct client_member *m)
{
    enum err e = ERR_OK;
    for (uint64_t done = 0; e == ERR_OK && done < r->records_count;) {
        const struct client_record *records = NULL;
        size_t count = 0;
        e = client_member_poll(m, POLL_MS, &records, &count);
        for (size_t i = 0; e == ERR_OK && i < count; i++) {
            r->bytes += records[i].value.size;
        }
        done += count;
    }
    const enum err closed = client_member_close(m, CLOSE_MS);
    return e == ERR_OK ? closed : e;
}

static void *run(void *context)
{
    struct reader *r = context;
    struct client *c = NULL;
    struct client_member *m = NULL;
    r->e = client_new(&(struct client_options){.brokers = r->brokers}, r->why, &c);
    if (r->e != ERR_OK) {
        return NULL;
    }
    const struct client_member_options options = {
        .group = r->group,
        .topics = &r->topic,
        .topics_count = 1,
        .auto_commit_ms = COMMIT_MS,
        .reading = {.reset = CLIENT_RESET_START},
    };
    r->e = client_member_new(c, &options, &m);
    if (r->e == ERR_OK) {
        r->e = read_all(r, m);
    }
    if (r->e != ERR_OK) {
        (void)snprintf(r->why, sizeof(r->why), "%s", client_why(c));
    }
    client_member_free(m);
    client_free(c);
    return NULL;
}

static int report(struct reader *readers, size_t count)
{
    uint64_t bytes = 0;
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        struct reader *r = &readers[i];
        (void)pthread_join(r->thread, NULL);
        bytes += r->bytes;
        if (r->e != ERR_OK) {
            (void)fprintf(stderr, "deliver: %s: %s\n", r->group, r->why);
            failed = 1;
        }
    }
    printf("%llu\n", (unsigned long long)bytes);
    return failed;
}

int main(int argc, char **argv)
{
    static struct reader readers[GROUPS_MAX];
    const size_t count = argc == 6 ? strtoul(argv[3], NULL, 10) : 0;
    if (count == 0 || count > GROUPS_MAX) {
        (void)fprintf(stderr, "usage: deliver BROKERS TOPIC GROUPS RECORDS PREFIX\n");
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        struct reader *r = &readers[i];
        r->brokers = argv[1];
        r->topic = argv[2];
        r->records_count = strtoull(argv[4], NULL, 10);
        (void)snprintf(r->group, sizeof(r->group), "%s-%zu", argv[5], i);
        if (pthread_create(&r->thread, NULL, run, r) != 0) {
            (void)fprintf(stderr, "deliver: no thread for %s\n", r->group);
            return 1;
        }
    }
    return report(readers, count);
}
