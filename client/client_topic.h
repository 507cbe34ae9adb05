/* What the client knows of a topic, and how it learns of changes: topics that producers and
 * consumers follow are asked for again when they want it, and every few minutes.
 *
 * Private to client/. With the client's lock held, unless it says otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/client_call.h"
#include "core/list.h"
#include "kafka/proto/metadata.h"

struct client_topic {
    char *name;
    struct uuid id;
    int32_t partitions_count;
    int32_t *leaders; /* Node ids by partition; -1 = none. */

    /* Of a topic that is followed. */
    struct list link;
    bool is_wanted; /* To be asked for at retry_us. */
    bool is_asked;  /* The request on its way is about it. */
    uint64_t retry_us;
    uint64_t expires_us; /* Asked for again then, wanted or not. */
    uint32_t failures;   /* In a row. */
    uint32_t
        unknown_count; /* Answers in a row that there is no such topic, or another of its name. */
    char why[CLIENT_WHY_SIZE]; /* Of the latest failure. */
};

/* Asks for the topic and waits. ERR_TOPIC_UNKNOWN. Without the lock. */
enum err client_topic_init(struct client *c, const char *name, struct client_topic *ret_topic);
void client_topic_done(struct client_topic *t);
/* Asks again and waits. A topic that was deleted and created again under its name is an error:
 * offsets and sequences of the old one mean nothing in it. On error t is as before. Without the
 * lock. */
enum err client_topic_refresh(struct client *c, struct client_topic *t);

/* From here on the client keeps t up to date. */
void client_topic_follow(struct client *c, struct client_topic *t);
void client_topic_unfollow(struct client_topic *t);
/* What is known turned out wrong: ask soon. */
void client_topic_want(struct client *c, struct client_topic *t);
/* Asks for what is wanted. Lowers *next_us to when it has to run again. */
void client_topics_turn(struct client *c, uint64_t *next_us);
/* Ends what is on its way. */
void client_topics_stop(struct client *c);

/* ---- client_metadata.c ---- */

/* The request for names, with copies of them in the arena: it may go out, and again, when who asked
 * is gone. False without memory. */
struct arena;
bool client_metadata_fill(struct arena *arena,
                          const char *const *names,
                          size_t names_count,
                          struct metadata_request *ret_request);
void client_metadata_fit(void *message, int16_t version);
/* Where the brokers are. ERR_BUSY. */
enum err
client_learn_nodes(struct client *c, const struct metadata_response *m, char why[CLIENT_WHY_SIZE]);
/* What an answer says of t; on error t is as before and why is written. */
enum err client_topic_take(struct client_topic *t,
                           const struct metadata_response *m,
                           char why[CLIENT_WHY_SIZE]);
