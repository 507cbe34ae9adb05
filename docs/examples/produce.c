/* Writes each line of standard input as a record.
 *
 *     cc produce.c $(pkg-config --cflags --libs coreflume-client) -o produce
 *     ./produce 127.0.0.1:9092 orders < lines
 */
#include <coreflume-client.h>
#include <stdio.h>
#include <string.h>

static enum err produce_lines(struct client_producer *p)
{
    char line[4096];
    enum err e = ERR_OK;
    while (e == ERR_OK && fgets(line, sizeof(line), stdin) != NULL) {
        e = client_producer_send(p,
                                 &(struct client_message){
                                     .partition = -1,
                                     .value = slice_of(line, strcspn(line, "\n")),
                                 });
    }
    return e == ERR_OK ? client_producer_flush(p) : e;
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
    const struct client_producer_options options = {
        .codec = CLIENT_CODEC_LZ4,
        .is_idempotent = true,
        .linger_ms = 5,
    };
    struct client_producer *p = NULL;
    enum err e = client_producer_new(c, argv[2], &options, &p);
    if (e == ERR_OK) {
        e = produce_lines(p);
    }
    if (e != ERR_OK) {
        fprintf(stderr, "produce: %s\n", client_why(c));
    }
    client_producer_free(p);
    client_free(c);
    return e == ERR_OK ? 0 : 1;
}
