/* Prints every record of a topic, up to its end.
 *
 *     cc consume.c $(pkg-config --cflags --libs coreflume-client) -o consume
 *     ./consume 127.0.0.1:9092 orders
 */
#include <coreflume-client.h>
#include <stdio.h>

enum {
    WAIT_MS = 1000,
};

static void print(const struct client_record *r)
{
    printf("%d:%lld %.*s\n",
           r->partition,
           (long long)r->offset,
           (int)r->value.size,
           r->value.data == NULL ? "" : (const char *)r->value.data);
}

static enum err consume_all(struct client_consumer *s)
{
    enum err e = ERR_OK;
    for (int32_t i = 0; e == ERR_OK && i < client_consumer_partitions_count(s); i++) {
        e = client_consumer_assign(s, i, CLIENT_OFFSET_START);
    }
    while (e == ERR_OK && !client_consumer_is_at_end(s)) {
        const struct client_record *records = NULL; /* Valid until the next call. */
        size_t count = 0;
        e = client_consumer_poll(s, WAIT_MS, &records, &count);
        if (e == ERR_TIMED_OUT) {
            e = ERR_OK; /* Nothing new: is that the end? */
            continue;
        }
        for (size_t i = 0; e == ERR_OK && i < count; i++) {
            print(&records[i]);
        }
    }
    return e;
}

int main(int argc, char **argv)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: consume BROKERS TOPIC\n");
        return 2;
    }
    if (client_new(&(struct client_options){.brokers = argv[1]}, why, &c) != ERR_OK) {
        fprintf(stderr, "consume: %s\n", why);
        return 1;
    }
    struct client_consumer *s = NULL;
    enum err e = client_consumer_new(c, argv[2], NULL, &s);
    if (e == ERR_OK) {
        e = consume_all(s);
    }
    if (e != ERR_OK) {
        fprintf(stderr, "consume: %s\n", client_why(c));
    }
    client_consumer_free(s);
    client_free(c);
    return e == ERR_OK ? 0 : 1;
}
