/* Partitions of one topic, each asked of its leader: one request per leader, again until every
 * partition has answered or the time is up. For requests that do no harm when carried out twice.
 * Private to client/.
 *
 * The caller's thread, without the client's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client_priv.h"
#include "core/arena.h"

struct client_leaders_part {
    int32_t partition;
    bool is_answered;
    bool is_asked;    /* In this round. */
    bool is_damaged;  /* Its leader said so: when it is said again that is final. */
    enum err trouble; /* Of the last round: another try may help. */
    enum err err;     /* No further try helps. */
    int64_t question; /* What they mean is the api's: an offset, a time. */
    int64_t answer;
};

struct client_leaders {
    const struct client_leaders_api *api;
    struct client_topic topic;
    struct client_leaders_part *parts;
    size_t parts_count;
    enum err refusal; /* The first err of a part, */
    char why[CLIENT_WHY_SIZE];
    char trouble_why[CLIENT_WHY_SIZE]; /* and the first trouble of the last round. */
    struct client *client;
    struct arena arena; /* Of one request and its answer. */
};

struct client_leaders_api {
    int16_t api_key;
    const char *failing; /* For errors: "cannot find an offset in". */
    /* A request about these, and a response to decode into; from x->arena, NULL without memory. */
    void *(*new_request)(struct client_leaders *x,
                         const struct client_leaders_part *const *parts,
                         size_t parts_count);
    void *(*new_response)(struct client_leaders *x);
    /* Calls client_leaders_take for each partition of the response. */
    void (*read_response)(struct client_leaders *x, const void *response);
};

/* Partition and question of each part are set. Each is answered then, or has an err; the first of
 * these is returned. Looks the topic up, and asks nobody with
 * ERR_TOPIC_UNKNOWN; ERR_INVALID for a partition that it does not have. */
enum err client_leaders_ask(struct client *c,
                            const struct client_leaders_api *api,
                            const char *topic,
                            struct client_leaders_part *parts,
                            size_t parts_count);

/* What a broker said of a partition. Retriable errors are taken for no answer, but damage that is
 * said twice: it does not go away. */
void client_leaders_take(struct client_leaders *x, int32_t partition, int16_t code, int64_t answer);
