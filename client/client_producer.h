/* The producer from inside.
 *
 *   client_producer.c   the program's side: partitions chosen, records taken, flushed, told
 *   client_produce.c    the thread's side: batches sent, answers settled
 *   client_lane.h       one partition; client_batch.h: its batches
 *
 * Private to client/. With the client's lock held.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/client_lane.h"
#include "client/client_topic.h"
#include "core/list.h"

struct client_producer {
    struct list link; /* client.producers */
    struct client *client;
    struct client_producer_options options; /* Defaults filled in. */
    struct client_topic topic;
    struct client_lane **lanes; /* By partition; NULL: never used. */
    int32_t lanes_count;
    struct list active;    /* Lanes with batches. */
    struct list batches;   /* All, oldest first, until the program was told. */
    struct list requests;  /* On their way; struct client_produce. */
    uint64_t serial;       /* Of the newest batch. */
    size_t flushing_count; /* Threads that flush. */
    int32_t sticky;        /* Where records without a key go now. */
    size_t sticky_size;    /* Bytes that went there since it was chosen. */
    bool is_held;          /* The thread works on it without the lock. */
    bool is_closing;

    int64_t producer_id; /* -1: none yet, or not idempotent. */
    int16_t producer_epoch;
    struct client_identify *identify; /* Asking for an id. */
    uint32_t identify_failures;
    uint64_t identify_retry_us;

    struct client_batch **chosen; /* Room for what one round sends. */
    size_t chosen_capacity;

    enum err failure; /* Of the first record that failed since that was told. */
    char why[CLIENT_WHY_SIZE];
    struct client_producer_stats stats;
};

/* Sends what is due. Lowers *next_us to when it has to run again. */
void client_producers_turn(struct client *c, uint64_t *next_us);
/* Tells programs of batches that are over. Without the lock while it does. */
void client_call_back(struct client *c);
/* The batch is over: e and, unless that is ERR_OK, why. It has left its lane. */
void client_producer_finish(struct client_batch *b, enum err e, const char *why);
/* For client_producer_free: what is on its way is nobody's any more. */
void client_produce_abandon(struct client_producer *p);
