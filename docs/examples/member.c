/* Reads topics together with the other members of a group, and goes on where the group was.
 *
 *     cc member.c $(pkg-config --cflags --libs coreflume-client) -o member
 *     ./member 127.0.0.1:9092 billing orders payments
 *
 * Start several: they share the partitions. Ctrl-C leaves the group. What begins with ^ is a
 * pattern of topics, also of those to come: '^logs-.*'.
 */
#include <coreflume-client.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    WAIT_MS = 500,
    CLOSE_MS = 10000,
};

static volatile sig_atomic_t is_over;

static void on_signal(int number)
{
    (void)number;
    is_over = 1;
}

static void
print_partitions(const char *what, const struct client_topic_partition *partitions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "%s %s[%d]\n", what, partitions[i].topic, partitions[i].partition);
    }
}

static void on_assigned(struct client_member *m,
                        const struct client_topic_partition *partitions,
                        size_t count,
                        void *context)
{
    (void)m;
    (void)context;
    print_partitions("assigned", partitions, count);
}

/* What was handed out before is done: commit it, and the next owner begins behind it. */
static void on_revoked(struct client_member *m,
                       const struct client_topic_partition *partitions,
                       size_t count,
                       void *context)
{
    print_partitions("revoked", partitions, count);
    if (client_member_commit(m, NULL, 0, CLOSE_MS) != ERR_OK) {
        fprintf(stderr, "member: %s\n", client_why(context));
    }
}

static void on_lost(struct client_member *m,
                    const struct client_topic_partition *partitions,
                    size_t count,
                    void *context)
{
    (void)m;
    (void)context;
    print_partitions("lost", partitions, count);
}

static void print(const struct client_record *r)
{
    printf("%s[%d]:%lld %.*s\n",
           r->topic,
           r->partition,
           (long long)r->offset,
           (int)r->value.size,
           r->value.data == NULL ? "" : (const char *)r->value.data);
}

static enum err consume(struct client_member *m)
{
    while (!is_over) {
        const struct client_record *records = NULL; /* Valid until the next call. */
        size_t count = 0;
        enum err e = client_member_poll(m, WAIT_MS, &records, &count);
        if (e == ERR_TIMED_OUT) {
            continue;
        }
        if (e != ERR_OK) {
            return e;
        }
        for (size_t i = 0; i < count; i++) {
            print(&records[i]);
        }
        fflush(stdout);
        /* Not waited for: what a crash leaves uncommitted is read again by somebody. */
        e = client_member_commit_async(m, NULL, 0, NULL, NULL);
        if (e != ERR_OK && e != ERR_BUSY && e != ERR_CANCELLED) {
            return e;
        }
    }
    return ERR_OK;
}

int main(int argc, char **argv)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    if (argc < 4) {
        fprintf(stderr, "usage: member BROKERS GROUP TOPIC...|PATTERN\n");
        return 2;
    }
    const bool is_pattern = argv[3][0] == '^';
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (client_new(&(struct client_options){.brokers = argv[1]}, why, &c) != ERR_OK) {
        fprintf(stderr, "member: %s\n", why);
        return 1;
    }
    const struct client_member_options options = {
        .group = argv[2],
        .topics = (const char *const *)&argv[3],
        .topics_count = is_pattern ? 0 : (size_t)(argc - 3),
        .pattern = is_pattern ? argv[3] : NULL,
        .reading = {.reset = CLIENT_RESET_START},
        .on_assigned = on_assigned,
        .on_revoked = on_revoked,
        .on_lost = on_lost,
        .context = c,
    };
    struct client_member *m = NULL;
    enum err e = client_member_new(c, &options, &m);
    if (e == ERR_OK) {
        e = consume(m);
        const enum err closed = e == ERR_OK ? client_member_close(m, CLOSE_MS) : ERR_OK;
        e = e == ERR_OK ? closed : e;
    }
    if (e != ERR_OK) {
        fprintf(stderr, "member: %s\n", client_why(c));
    }
    client_member_free(m);
    client_free(c);
    return e == ERR_OK ? 0 : 1;
}
