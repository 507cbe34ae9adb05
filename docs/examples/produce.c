/* Writes each line of standard input as a record, and says what became of them.
 *
 *     cc produce.c $(pkg-config --cflags --libs coreflume-client) -o produce
 *     ./produce 127.0.0.1:9092 orders < lines
 */
#include <coreflume-client.h>
#include <stdio.h>
#include <string.h>

enum {
    FLUSH_MS = 150000, /* Longer than any record may take: delivery_timeout_ms is 120000. */
};

struct outcome {
    long written;
    long lost;
};

/* On the client's thread, once for each record. */
static void on_delivery(const struct client_delivery *d, void *context)
{
    struct outcome *outcome = context;
    if (d->err == ERR_OK) {
        outcome->written++;
        return;
    }
    outcome->lost++;
    fprintf(stderr, "produce: line %lu: %s\n", (unsigned long)(size_t)d->opaque, d->why);
}

static enum err produce_lines(struct client_producer *p)
{
    char line[4096];
    size_t number = 0;
    enum err e = ERR_OK;
    while (e == ERR_OK && fgets(line, sizeof(line), stdin) != NULL) {
        /* Copied, and on its way when there is time; waits only while the buffer is full. */
        e = client_producer_send(p,
                                 &(struct client_message){
                                     .partition = -1,
                                     .value = slice_of(line, strcspn(line, "\n")),
                                     .opaque = (void *)++number,
                                 });
    }
    return e == ERR_OK ? client_producer_flush(p, FLUSH_MS) : e;
}

int main(int argc, char **argv)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: produce BROKERS TOPIC\n");
        return 2;
    }
    if (client_new(&(struct client_options){.brokers = argv[1]}, why, &c) != ERR_OK) {
        fprintf(stderr, "produce: %s\n", why);
        return 1;
    }
    struct outcome outcome = {0, 0};
    const struct client_producer_options options = {
        .codec = CLIENT_CODEC_LZ4,
        .is_idempotent = true,
        .linger_ms = 5,
        .on_delivery = on_delivery,
        .context = &outcome,
    };
    struct client_producer *p = NULL;
    enum err e = client_producer_new(c, argv[2], &options, &p);
    if (e == ERR_OK) {
        e = produce_lines(p);
    }
    if (e != ERR_OK) {
        fprintf(stderr, "produce: %s\n", client_why(c));
    }
    client_producer_free(p); /* After this no callback comes any more. */
    client_free(c);
    printf("%ld records written, %ld lost\n", outcome.written, outcome.lost);
    return e == ERR_OK && outcome.lost == 0 ? 0 : 1;
}
